"""Every policy on linear bandits: published tables, changing actions, drift, labeled data, and the open question.

The open question, section 3 of the paper: "We conjecture that the incrementally-updated version guarantees can be
extended to linear bandits beyond MAB for reasonable ensemble sizes." Here its regret is measured against d and T beside
the lazy and the re-randomized history, which have guarantees.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from optimist.bandits import ChangingActions, DriftingActions, FixedActions, LabeledData, Problem
from optimist.reporting.figures.bandits import draw_open_question, draw_policies
from optimist.reporting.tables import Row
from optimist.studies.bandits.comparison import FORGETTING, STEADY, Budget, Entry, compare, curve, summary
from optimist.studies.study import Draw, Judgement, Measurement, Session, Study, Tables, Verdict, require_seeds

# ---- What ------------------------------------------------------------------------------------------------------------

DRIFTING = ("acb", "acb-sgd", "linucb", "lints", "greedy", *FORGETTING)
"""Who plays in a drifting world: policies that forget nothing beside those that do."""
HISTORIES = ("acb", "acb-lazy", "acb-rerandomized")
SLOW_AT_D_7840 = frozenset({"acb-rerandomized", "acb-lazy", "linphe", "lints"})
"""Left out on MNIST: fresh draws from ten matrices of 784 x 784 in every round are too slow here."""


@dataclass(frozen=True)
class Contest:
    """One problem of the study and who plays it."""

    table: str
    name: str
    d: int
    problem: Problem
    selection: Problem
    """Other instances of the problem, on which beta is selected."""
    policies: tuple[str, ...]
    budget: Budget


def measure(settings: "Settings", session: Session) -> Measurement:
    """All problems one after the other; the tables have a row for each policy on each problem."""
    planned = list(contests(settings))
    tables: dict[str, Sequence[Row]] = {}
    curves: list[Row] = []
    with session.executor() as workers:
        for index, contest in enumerate(planned):

            def advance(done: int, total: int, label: str, index: int = index, contest: Contest = contest) -> None:
                what = f"{contest.name}, d = {contest.d}: {label}"
                session.progress(round(100 * (index + done / total)), 100 * len(planned), what)

            problems = contest.problem, contest.selection
            entries = compare(*problems, contest.policies, contest.budget, workers, advance, session.retries)
            tables[contest.table] = [*tables.get(contest.table, ()), *(table_row(contest, entry) for entry in entries)]
            if contest.table == "open_question":
                curves += [
                    {"problem": contest.name, "d": contest.d, **row} for entry in entries for row in curve(entry)
                ]
    tables["open_question_curves"] = curves
    return Measurement(tables)


def contests(settings: "Settings") -> Iterator[Contest]:
    """The problems in order."""
    budget = Budget(settings.horizon, settings.trials, settings.selection_trials, settings.seed, settings.betas)
    everyone = STEADY
    for d in settings.dimensions:
        yield Contest("published", "fixed", d, *fixed_actions(d, settings, seed=0), everyone, budget)
    for d in settings.changing_dimensions:
        yield Contest("changing", "changing", d, *changing_actions(d, settings, seed=0), everyone, budget)
    for d in settings.drifting_dimensions:
        longer = replace(budget, horizon=settings.drifting_horizon)
        yield Contest("drifting", "drifting", d, *drifting_actions(d, settings, seed=0), DRIFTING, longer)
    for data in settings.labeled:
        yield labeled_contest(data, everyone, settings)
    for d in settings.open_dimensions:
        yield Contest("open_question", "fixed", d, *fixed_actions(d, settings, seed=1), HISTORIES, budget)
    for d in settings.open_dimensions:
        yield Contest("open_question", "changing", d, *changing_actions(d, settings, seed=1), HISTORIES, budget)


def fixed_actions(d: int, settings: "Settings", seed: int) -> tuple[Problem, Problem]:
    """The problem of the published tables, one instance per trial, and other instances to select beta on."""
    trials, others = settings.trials, settings.selection_trials
    return (
        FixedActions.random(settings.n_actions, d, instances=trials, seed=seed),
        FixedActions.random(settings.n_actions, d, instances=others, seed=seed + 1_000),
    )


def changing_actions(d: int, settings: "Settings", seed: int) -> tuple[Problem, Problem]:
    """New actions every round, and the same with another theta to select beta on."""
    n_actions = settings.changing_actions
    return ChangingActions(n_actions, d, 0.3, seed=seed), ChangingActions(n_actions, d, 0.3, seed=seed + 1_000)


def drifting_actions(d: int, settings: "Settings", seed: int) -> tuple[Problem, Problem]:
    """A theta that turns twice within the horizon, and another such to select beta on."""
    n_actions, period = settings.changing_actions, settings.drifting_horizon // 2
    problem, other = (DriftingActions(n_actions, d, 0.3, period=period, seed=s) for s in (seed, seed + 1_000))
    return problem, other


def labeled_contest(data: str, everyone: Sequence[str], settings: "Settings") -> Contest:
    """A data set as a bandit; on MNIST without the policies that are too slow at its size."""
    problem = {"digits": LabeledData.digits, "mnist": LabeledData.mnist}[data]()
    names = tuple(name for name in everyone if data != "mnist" or name not in SLOW_AT_D_7840)
    trials = settings.labeled_trials
    budget = Budget(settings.labeled_horizon, trials, max(2, trials // 2), settings.seed, settings.labeled_betas)
    return Contest("labeled", data, problem.n_features * problem.n_arms, problem, problem, names, budget)


def table_row(contest: Contest, entry: Entry) -> Row:
    """The summary of a policy on a problem, with the published regret where there is one."""
    row = {"problem": contest.name, "d": contest.d, "horizon": contest.budget.horizon, **summary(entry)}
    if contest.table == "published":
        is_comparable = contest.budget.horizon == 10_000
        row["published"] = PUBLISHED.get((entry.policy, contest.d), "") if is_comparable else ""
    return row


def figures(tables: Tables) -> Mapping[str, Draw]:
    """Every policy on every problem, and the open question."""
    everyone = [row for name in ("published", "changing", "drifting", "labeled") for row in tables.get(name, ())]
    return {
        "policies": partial(draw_policies, everyone),
        "open_question": partial(draw_open_question, tables["open_question"], tables["open_question_curves"]),
    }


# ---- Settings --------------------------------------------------------------------------------------------------------

PUBLISHED = {
    ("linucb-theory", 5): 468, ("linucb-theory", 10): 1049, ("linucb-theory", 20): 1571,
    ("linphe", 5): 517, ("linphe", 10): 827, ("linphe", 20): 1281,
    ("lints", 5): 78, ("lints", 10): 104, ("lints", 20): 182,
    ("linreboot", 5): 98, ("linreboot", 10): 107, ("linreboot", 20): 152,
}  # fmt: skip
"""Mean regret at T = 10,000 with K = 100 actions over 100 runs: the tables of LinReBoot (Wang et al., 2022)."""


@dataclass(frozen=True)
class Settings:
    """Everything that the study depends on."""

    horizon: int
    """T on the problems with published tables, and in the open question."""
    trials: int
    selection_trials: int
    """Trials, on other problem instances too, on which each policy's beta is selected."""
    dimensions: tuple[int, ...]
    """d of the published tables."""
    n_actions: int
    changing_dimensions: tuple[int, ...]
    """d of the problems whose actions change every round."""
    changing_actions: int
    drifting_dimensions: tuple[int, ...]
    """d of the problems whose theta turns."""
    drifting_horizon: int
    open_dimensions: tuple[int, ...]
    """d of the open question."""
    labeled: tuple[str, ...]
    """Data sets: digits (d = 640), mnist (d = 7,840)."""
    labeled_horizon: int
    labeled_trials: int
    labeled_betas: tuple[float, ...] = (0.1, 0.3, 1.0)
    betas: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)
    seed: int = 2

    def with_seeds(self, seeds: Sequence[int]) -> Self:
        """The same problems, played from another seed."""
        return replace(self, seed=require_seeds(seeds, most=1)[0])


SCALES = {
    "smoke": Settings(
        horizon=60,
        trials=4,
        selection_trials=2,
        dimensions=(5,),
        n_actions=10,
        changing_dimensions=(3,),
        changing_actions=5,
        drifting_dimensions=(3,),
        drifting_horizon=500,
        open_dimensions=(2, 4),
        labeled=("digits",),
        labeled_horizon=30,
        labeled_trials=2,
        betas=(0.3, 1.0),
    ),
    "laptop": Settings(
        horizon=2_000,
        trials=50,
        selection_trials=20,
        dimensions=(5, 10, 20),
        n_actions=100,
        changing_dimensions=(10,),
        changing_actions=20,
        drifting_dimensions=(5,),
        drifting_horizon=2_000,
        open_dimensions=(2, 5, 10, 20),
        labeled=("digits", "mnist"),
        labeled_horizon=1_000,
        labeled_trials=4,
    ),
    "paper": Settings(
        horizon=10_000,
        trials=100,
        selection_trials=10,
        dimensions=(5, 10, 20),
        n_actions=100,
        changing_dimensions=(10,),
        changing_actions=20,
        drifting_dimensions=(5,),
        drifting_horizon=10_000,
        open_dimensions=(5, 10, 20),
        labeled=("digits", "mnist"),
        labeled_horizon=2_000,
        labeled_trials=6,
    ),
}
"""T, K and the number of runs are those of the published tables at the scale of the paper."""

# ---- Verdict ---------------------------------------------------------------------------------------------------------

NEAR = 1.5
"""Regret within this factor of the re-randomized history counts as the same rate."""
ROOT = 0.75
"""Regret that grows no faster than T^0.75 over the second half of the run counts as sublinear."""


def judge(tables: Tables) -> list[Verdict]:
    """ACB beside LinUCB, incremental and lazy beside re-randomized, and forgetting beside not forgetting."""
    published, open_question, drifting = tables["published"], tables["open_question"], tables.get("drifting", ())
    claim = "in a drifting world, decay lowers the regret of ACB"
    return [
        judge_ratio("ACB (re-randomized) is near LinUCB, fixed actions", published, "acb-rerandomized", "linucb"),
        judge_incremental(open_question, tables["open_question_curves"]),
        judge_ratio("lazy ACB is near re-randomized ACB", open_question, "acb-lazy", "acb-rerandomized"),
        *([judge_gain(claim, drifting, "acb-decay", "acb")] if drifting else []),  # tables of 0.1.0 have none
    ]


def judge_ratio(claim: str, rows: Sequence[Row], policy: str, reference: str) -> Verdict:
    """Holds if the regret of ``policy`` is below NEAR times that of ``reference`` on every problem."""
    ratios = [ratio(rows, place, policy, reference) for place in places(rows)]
    worst = max(ratios)
    least = min(ratios)[0]
    measured = f"regret ratio {least:.2f} to {worst[0]:.2f} (± {worst[1]:.2f}) over {len(ratios)} problems"
    return Verdict(claim, measured, judgement(ratios, NEAR))


def judge_gain(claim: str, rows: Sequence[Row], policy: str, reference: str) -> Verdict:
    """Holds if the regret of ``policy`` is below that of ``reference`` on every problem."""
    ratios = [ratio(rows, place, policy, reference) for place in places(rows)]
    text = ", ".join(f"{value:.2f} ± {error:.2f}" for value, error in ratios)
    return Verdict(claim, f"regret ratio {text} over {len(ratios)} problems", judgement(ratios, 1.0))


def judge_incremental(rows: Sequence[Row], curves: Sequence[Row]) -> Verdict:
    """The conjecture of section 3: regret near that of the re-randomized history, and sublinear, at every d."""
    ratios = {place: ratio(rows, place, "acb", "acb-rerandomized") for place in places(rows)}
    slopes = [growth(curves, place, "acb") for place in places(rows)]
    text = ", ".join(f"{name} d = {d}: {value:.2f} ± {error:.2f}" for (name, d), (value, error) in ratios.items())
    tails = [find(rows, p, "acb")["q95"] / find(rows, p, "acb-rerandomized")["q95"] for p in places(rows)]
    measured = (
        f"regret over the re-randomized one: {text}; 95 % quantiles: {min(tails):.2f} to {max(tails):.2f} times; "
        f"grows as T^{min(slopes):.2f} to T^{max(slopes):.2f}"
    )
    verdict = judgement(list(ratios.values()), NEAR)
    if verdict == "holds" and max(slopes) > ROOT:
        verdict = "not enough data"
    return Verdict("conjecture, section 3: incremental ACB extends to linear bandits beyond MAB", measured, verdict)


def judgement(ratios: Sequence[tuple[float, float]], limit: float) -> Judgement:
    """Holds if every ratio is below the limit by three standard errors, does not if one is above it by as many."""
    if any(value - 3 * error > limit for value, error in ratios):
        return "does not hold"
    return "holds" if all(value + 3 * error < limit for value, error in ratios) else "not enough data"


def places(rows: Sequence[Row]) -> list[tuple[str, int]]:
    """The problems of a table."""
    return list(dict.fromkeys((row["problem"], row["d"]) for row in rows))


def ratio(rows: Sequence[Row], place: tuple[str, int], policy: str, reference: str) -> tuple[float, float]:
    """Mean regret of ``policy`` over that of ``reference``, and the standard error by the delta method."""
    a, b = (find(rows, place, name) for name in (policy, reference))
    value = a["mean"] / b["mean"]
    return value, value * math.hypot(a["se"] / a["mean"], b["se"] / b["mean"])


def find(rows: Sequence[Row], place: tuple[str, int], policy: str) -> Row:
    """The row of a policy on a problem."""
    return next(row for row in rows if (row["problem"], row["d"], row["policy"]) == (*place, policy))


def growth(curves: Sequence[Row], place: tuple[str, int], policy: str) -> float:
    """The exponent p of ``regret ~ t^p`` over the second half of the run, by least squares in logarithms."""
    line = [row for row in curves if (row["problem"], row["d"], row["policy"]) == (*place, policy)]
    late = [row for row in line if row["round"] >= line[-1]["round"] / 2 and row["mean"] > 0]
    if len(late) < 2:
        return 0.0
    return float(np.polyfit(np.log([row["round"] for row in late]), np.log([row["mean"] for row in late]), 1)[0])


STUDY = Study(SCALES, measure, judge, figures)
