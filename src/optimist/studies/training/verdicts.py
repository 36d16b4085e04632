"""How training runs are judged: intervals over a handful of seeds, one task at a time or several together."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from optimist.reporting.statistics import LEVEL, Array, Scores, bootstrap_interval, probability_of_improvement
from optimist.studies.study import Judgement, Verdict
from optimist.studies.training.rows import standard_error

FEWEST_SEEDS = 3
"""With fewer there is never enough data."""

Interval = tuple[float, float]
Pairs = Mapping[str, tuple[Sequence[float], Sequence[float]]]
"""Our values and theirs, by the task."""
FEWEST_GAMES = 2
"""On one game with three seeds the bootstrap calls two equal learners different one time in five; on two, in twenty."""


def judge_more(claim: str, ours: Sequence[float], theirs: Sequence[float]) -> Verdict:
    """Holds if the interval of the difference of means lies above 0, does not if no part of it does."""
    low, high = difference(ours, theirs)
    seeds = fewest(ours, theirs)
    return Verdict(claim, against(ours, theirs), decided(holds=low > 0, fails=high <= 0, seeds=seeds), seeds)


def judge_at_least(claim: str, ours: Sequence[float], theirs: Sequence[float]) -> Verdict:
    """Holds if no part of the interval of the difference of means lies below 0, does not if all of it does."""
    low, high = difference(ours, theirs)
    seeds = fewest(ours, theirs)
    return Verdict(claim, against(ours, theirs), decided(holds=low >= 0, fails=high < 0, seeds=seeds), seeds)


def judge_above(claim: str, ours: Sequence[float], published: float) -> Verdict:
    """Holds if the interval of the mean lies at or above a published number, does not if it lies below."""
    low, high = interval(ours)
    bounds = f"interval {number(low)} to {number(high)}, " if len(ours) > 1 else ""
    measured = f"{mean_and_error(ours)}, {bounds}against {number(published)}; {seeds_of(ours)}"
    judgement = decided(holds=low >= published, fails=high < published, seeds=len(ours))
    return Verdict(claim, measured, judgement, len(ours))


def judge_majority(claim: str, outcomes: Sequence[bool]) -> Verdict:
    """Holds if so many seeds succeeded that it happens in more than half of all runs, does not if so few did."""
    chance = stats.binomtest(sum(outcomes), max(1, len(outcomes)), 0.5)
    bounds = chance.proportion_ci(confidence_level=2 * LEVEL - 1)  # one-sided at LEVEL
    measured = f"{sum(outcomes)} of {len(outcomes)} seeds"
    judgement = decided(holds=bounds.low > 0.5, fails=bounds.high < 0.5, seeds=len(outcomes))
    return Verdict(claim, measured, judgement, len(outcomes))


def judge_overall(claim: str, ours: Scores, theirs: Scores, *, rng: np.random.Generator) -> Verdict:
    """Holds if the interval of the probability of improvement, over all games, lies above one half.

    Does not hold if it lies below. Where one wins every pair on one game and loses every pair on another, it is one
    half without any width: that says nothing. Nor is there enough data with fewer than three seeds on some game, or
    fewer than two games on which scores differ at all: where nobody scores, nobody is competitive.
    """
    seeds = min((min(len(x), len(y)) for x, y in zip(ours, theirs, strict=True)), default=0)
    if not seeds:
        return Verdict(claim, "no game with a score on both sides", "not enough data", 0)
    low, high = (float(bound) for bound in bootstrap_interval(probability_of_improvement, ours, theirs, rng=rng))
    measured = f"P(improvement) {number(float(probability_of_improvement(ours, theirs)), 2)}, "
    measured += f"interval {number(low, 2)} to {number(high, 2)}; {len(ours)} games"
    telling = sum(differ(x, y) for x, y in zip(ours, theirs, strict=True))
    enough = seeds if telling >= FEWEST_GAMES else 0
    return Verdict(claim, measured, decided(holds=low > 0.5, fails=high < 0.5, seeds=enough), seeds)


def judge_as_good(claim: str, ours: Sequence[float], theirs: Sequence[float]) -> Verdict:
    """`judge_at_least`, but scores that are all the same say nothing: nobody has learned the game yet."""
    if len(ours) and len(theirs) and not differ(ours, theirs):
        return Verdict(claim, f"all runs score {number(ours[0])}", "not enough data", fewest(ours, theirs))
    return judge_at_least(claim, ours, theirs)


def differ(ours: Sequence[float] | Array, theirs: Sequence[float] | Array) -> bool:
    """Whether not all values of both sides are the same."""
    return len({*map(float, ours), *map(float, theirs)}) > 1


def judge_most(claim: str, games: Mapping[str, Sequence[Verdict]]) -> Verdict:
    """Holds if in more than half of the games all verdicts hold, does not if in half of them or more one does not."""
    kept = [game for game, verdicts in games.items() if all(v.judgement == "holds" for v in verdicts)]
    broken = [game for game, verdicts in games.items() if any(v.judgement == "does not hold" for v in verdicts)]
    seeds = min((v.seeds or 0 for verdicts in games.values() for v in verdicts), default=0)
    holds, fails = 2 * len(kept) > len(games), 2 * len(broken) >= len(games) > 0
    measured = f"of {len(games)} games it holds in {len(kept)}, does not in {len(broken)}, "
    measured += f"and {len(games) - len(kept) - len(broken)} cannot be told"
    return Verdict(claim, measured, decided(holds=holds, fails=fails, seeds=seeds), seeds)


def judge_some(claim: str, games: Pairs) -> Verdict:
    """Holds if on some game our mean is higher, does not if on none. Intervals are Bonferroni's: all hold at once."""
    level = 1 - (1 - LEVEL) / max(1, len(games))
    gaps = {game: difference(ours, theirs, level) for game, (ours, theirs) in games.items()}
    seeds = min((fewest(ours, theirs) for ours, theirs in games.values()), default=0)
    higher = [game for game, (low, _) in gaps.items() if low > 0]
    enough = [game for game in higher if fewest(*games[game]) >= FEWEST_SEEDS]
    nowhere = bool(gaps) and all(high <= 0 for _, high in gaps.values())
    measured = f"higher on {', '.join(higher) or 'none'} of {len(games)} games, at the end of training"
    judgement = decided(holds=bool(enough), fails=nowhere, seeds=FEWEST_SEEDS if enough else seeds)
    return Verdict(claim, measured, judgement, seeds)


def judge_steadier(claim: str, ours: Sequence[float], theirs: Sequence[float]) -> Verdict:
    """Holds if the interval of the ratio of variances over the seeds, ours to theirs, lies below 1 (F test)."""
    seeds = fewest(ours, theirs)
    if seeds < 2 or not np.var(theirs) > 0:
        return Verdict(claim, f"{seeds} seeds tell no ratio of variances", "not enough data", seeds)
    ratio = float(np.var(ours, ddof=1) / np.var(theirs, ddof=1))
    law = stats.f(len(ours) - 1, len(theirs) - 1)
    low, high = ratio / float(law.ppf((1 + LEVEL) / 2)), ratio / float(law.ppf((1 - LEVEL) / 2))
    measured = f"ratio of variances {number(ratio)}, interval {number(low)} to {number(high)}"
    return Verdict(claim, measured, decided(holds=high < 1, fails=low > 1, seeds=seeds), seeds)


def decided(*, holds: bool, fails: bool, seeds: int) -> Judgement:
    """The judgement, if there are enough seeds for one."""
    if seeds < FEWEST_SEEDS or not (holds or fails):
        return "not enough data"
    return "holds" if holds else "does not hold"


def interval(values: Sequence[float]) -> Interval:
    """Student's interval of the mean; infinite for fewer than two values."""
    if len(values) < 2:
        return -math.inf, math.inf
    half = float(stats.t.ppf((1 + LEVEL) / 2, len(values) - 1)) * standard_error(values)
    return float(np.mean(values)) - half, float(np.mean(values)) + half


def difference(ours: Sequence[float], theirs: Sequence[float], level: float = LEVEL) -> Interval:
    """Welch's interval of the difference of means; infinite where one has fewer than two values."""
    if fewest(ours, theirs) < 2:
        return -math.inf, math.inf
    gap = float(np.mean(ours) - np.mean(theirs))
    a, b = standard_error(ours) ** 2, standard_error(theirs) ** 2
    if a + b == 0:
        return gap, gap
    freedom = (a + b) ** 2 / (a**2 / (len(ours) - 1) + b**2 / (len(theirs) - 1))
    half = float(stats.t.ppf((1 + level) / 2, freedom)) * math.sqrt(a + b)
    return gap - half, gap + half


def against(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """Both means with their standard errors, and the interval of their difference, if both have one."""
    low, high = difference(ours, theirs)
    seeds = seeds_of(ours) if len(ours) == len(theirs) else f"{len(ours)} and {seeds_of(theirs)}"
    gap = f"; difference {number(low)} to {number(high)}" if fewest(ours, theirs) > 1 else ""
    return f"{mean_and_error(ours)} against {mean_and_error(theirs)}, {seeds}{gap}"


def mean_and_error(values: Sequence[float]) -> str:
    """``mean ± standard error``; a single value by itself."""
    if not len(values):
        return "nothing"
    error = f" ± {number(standard_error(values), 2)}" if len(values) > 1 else ""
    return f"{number(float(np.mean(values)))}{error}"


def seeds_of(values: Sequence[float]) -> str:
    """How many seeds there are, in words."""
    return f"{len(values)} seed" + "s" * (len(values) != 1)


def number(value: float, digits: int = 3) -> str:
    """A number as people write it: whole from 100 on, else with ``digits`` digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"


def fewest(ours: Sequence[float], theirs: Sequence[float]) -> int:
    """The number of seeds of the smaller side."""
    return min(len(ours), len(theirs))
