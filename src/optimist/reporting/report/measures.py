"""The numbers of a report: curves over the seeds of a condition, and how its runs ended, with intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimist.reporting.report.conditions import Condition
from optimist.reporting.report.folders import Run
from optimist.reporting.statistics import LEVEL, Array, bootstrap_interval, interquartile_mean
from optimist.seeding import split

MEASURES = {
    "return_mean": "return, last 100 episodes",
    "success_rate": "success, last 100 episodes",
    "unique_states": "unique states",
    "bonus_mean": "bonus, mean of a rollout",
    "evaluation/greedy_return": "return, greedy evaluation",
    "evaluation/sampled_return": "return, sampled evaluation",
    "evaluation/greedy_success": "success, greedy evaluation",
    "evaluation/sampled_success": "success, sampled evaluation",
}
"""What is shown, by its column in ``metrics.csv``; those of evaluations where there are any."""
POINTS = 200
"""Points of a curve, at most."""
RESAMPLES = 1_000
"""Of the band of a curve: it is drawn, not quoted."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The interquartile mean over ``count`` runs along the steps, and its band; each (points,)."""

    steps: Array
    center: Array
    low: Array
    high: Array
    count: Array


@dataclass(frozen=True)
class Estimate:
    """The interquartile mean over runs with its interval, and the runs' own values; NaN without any."""

    center: float
    low: float
    high: float
    values: tuple[float, ...]


def estimate(values: Sequence[float]) -> Estimate:
    """The interquartile mean of the values that there are; a single one has no interval."""
    known = np.array([value for value in values if math.isfinite(value)])
    if not len(known):
        return Estimate(math.nan, math.nan, math.nan, ())
    low = high = math.nan
    if len(known) > 1:
        low, high = map(float, bootstrap_interval(interquartile_mean, [known], rng=_generator()))
    return Estimate(float(interquartile_mean([known])), low, high, tuple(known.tolist()))


def final(condition: Condition, measure: str) -> Estimate:
    """How the finished runs of a condition ended; all of them, while none is finished."""
    finished = [run for run in condition.runs if run.is_finished] or condition.runs
    return estimate([run.last(measure) for run in finished])


def curve(runs: Sequence[Run], measure: str) -> Curve | None:
    """The measure over the runs along the steps, where any has it; None if it never has.

    A finished run keeps its last value; one that goes on counts as far as it came.
    """
    longest = max((run.metrics["step"] for run in runs), key=lambda steps: steps[-1])
    grid = thinned(longest)
    table = np.stack([held(run, measure, grid) for run in runs], axis=1)
    known = np.isfinite(table)
    center, low, high = (np.full(len(grid), math.nan) for _ in range(3))
    for pattern in np.unique(known, axis=0):  # one for each number of runs that came so far
        if pattern.any():
            rows = (known == pattern).all(1)
            center[rows], low[rows], high[rows] = band(table[np.ix_(rows, pattern)])
    some = known.any(1)
    return Curve(grid[some], center[some], low[some], high[some], known.sum(1)[some]) if some.any() else None


def band(table: Array) -> tuple[Array, Array, Array]:
    """The interquartile mean of each row and its bootstrap interval; the runs are drawn as a whole.

    Shapes: table (points, runs) -> (points,) each.
    """
    center, runs = interquartile_mean([table]), table.shape[1]
    if runs == 1:
        return center, center, center
    drawn = _generator().integers(runs, size=(RESAMPLES, runs))
    low, high = np.quantile(interquartile_mean([table[:, drawn]]), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=1)
    return center, low, high


def held(run: Run, measure: str, grid: Array) -> Array:
    """The last value at or before every point of ``grid``; NaN before the first, and beyond an unfinished run."""
    steps = run.metrics["step"]
    values = run.metrics.get(measure, np.full(len(steps), math.nan))
    if is_evaluation(measure):  # it holds until the next one
        known = np.maximum.accumulate(np.where(np.isfinite(values), np.arange(len(steps)), -1))
        values = np.where(known >= 0, values[np.maximum(known, 0)], math.nan)
    index = np.searchsorted(steps, grid, side="right") - 1
    reached = (index >= 0) & (run.is_finished | (grid <= steps[-1]))
    return np.where(reached, values[np.maximum(index, 0)], math.nan)


def is_evaluation(measure: str) -> bool:
    """Whether a measure is of evaluation episodes, which are not played after every rollout."""
    return measure.startswith("evaluation/")


def is_share(measure: str) -> bool:
    """Whether a measure is a share of episodes, between 0 and 1."""
    return measure.endswith(("success_rate", "_success"))


def thinned(values: Array) -> Array:
    """At most `POINTS` of the values, evenly spaced, the first and the last among them."""
    return values[np.unique(np.linspace(0, len(values) - 1, min(POINTS, len(values))).round().astype(int))]


def seconds_of(run: Run) -> dict[str, float]:
    """Where the time of a run went, in seconds by part."""
    return {
        name.removeprefix("seconds/"): float(np.nansum(column))
        for name, column in run.metrics.items()
        if name.startswith("seconds/")
    }


def _generator() -> np.random.Generator:
    return np.random.default_rng(split(0, "report"))  # the same page from the same runs
