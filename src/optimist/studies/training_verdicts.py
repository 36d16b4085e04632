"""How training runs are judged: intervals over a handful of seeds, and never more than they say."""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from optimist.reporting.statistics import LEVEL
from optimist.studies.training_rows import standard_error
from optimist.studies.verdicts import Judgement, Verdict

FEWEST_SEEDS = 3
"""With fewer there is never enough data."""

Interval = tuple[float, float]


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
    bounds = f"interval {number(low)} to {number(high)}"
    measured = f"{mean_and_error(ours)}, {bounds}, against {number(published)}; {len(ours)} seeds"
    judgement = decided(holds=low >= published, fails=high < published, seeds=len(ours))
    return Verdict(claim, measured, judgement, len(ours))


def judge_majority(claim: str, outcomes: Sequence[bool]) -> Verdict:
    """Holds if so many seeds succeeded that it happens in more than half of all runs, does not if so few did."""
    chance = stats.binomtest(sum(outcomes), max(1, len(outcomes)), 0.5)
    bounds = chance.proportion_ci(confidence_level=2 * LEVEL - 1)  # one-sided at LEVEL
    measured = f"{sum(outcomes)} of {len(outcomes)} seeds"
    judgement = decided(holds=bounds.low > 0.5, fails=bounds.high < 0.5, seeds=len(outcomes))
    return Verdict(claim, measured, judgement, len(outcomes))


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
    """Both means with their standard errors, and the interval of their difference."""
    low, high = difference(ours, theirs)
    seeds = f"{len(ours)} seeds" if len(ours) == len(theirs) else f"{len(ours)} and {len(theirs)} seeds"
    return (
        f"{mean_and_error(ours)} against {mean_and_error(theirs)}, {seeds}; difference {number(low)} to {number(high)}"
    )


def mean_and_error(values: Sequence[float]) -> str:
    """``mean ± standard error``."""
    return f"{number(float(np.mean(values)))} ± {number(standard_error(values), 2)}" if len(values) else "nothing"


def number(value: float, digits: int = 3) -> str:
    """A number as people write it: whole from 100 on, else with ``digits`` digits."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.{digits}g}"


def fewest(ours: Sequence[float], theirs: Sequence[float]) -> int:
    """The number of seeds of the smaller side."""
    return min(len(ours), len(theirs))
