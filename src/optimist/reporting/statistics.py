"""Statistics of a handful of seeds on a handful of tasks, with rliable's definitions (Agarwal et al. 2021).

``Scores`` are one array per task, its runs along the last axis; tasks may differ in their number of runs. Statistics
take leading axes too, which hold resamples: so a bootstrap is one call.

rliable itself (1.2.0) brings arch, statsmodels and pandas, and does not import beside pandas 3; these are its formulas.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Scores = Sequence[Array]
Statistic = Callable[..., Any]
"""A function of one or more ``Scores`` that keeps their leading axes."""

LEVEL = 0.95
"""Of every interval."""
RESAMPLES = 10_000


def interquartile_mean(scores: Scores) -> Array:
    """The mean of the middle half of all runs of all tasks: a quarter, rounded down, is left out at either end.

    Shapes: scores (..., runs) a task -> (...).
    """
    pooled = np.sort(np.concatenate(list(scores), axis=-1), axis=-1)
    cut = pooled.shape[-1] // 4
    return pooled[..., cut : pooled.shape[-1] - cut].mean(-1)


def mean(scores: Scores) -> Array:
    """The mean over the tasks of the mean over their runs. Shapes: scores (..., runs) a task -> (...)."""
    return np.mean([task.mean(-1) for task in scores], axis=0)


def probability_of_improvement(ours: Scores, theirs: Scores) -> Array:
    """The chance that a run of ours scores above one of theirs on the same task, a tie half; the mean over the tasks.

    Shapes: ours (..., runs) a task, theirs (..., other runs) a task -> (...).
    """
    if len(ours) != len(theirs):
        raise ValueError(f"both sides must have the same tasks, got {len(ours)} and {len(theirs)}")
    gaps = [x[..., :, None] - y[..., None, :] for x, y in zip(ours, theirs, strict=True)]
    return np.mean([(0.5 + 0.5 * np.sign(gap)).mean((-2, -1)) for gap in gaps], axis=0)


def performance_profile(scores: Scores, thresholds: Array) -> Array:
    """The share of runs that score above each threshold, the mean over the tasks.

    Shapes: scores (..., runs) a task, thresholds (k,) -> (..., k).
    """
    return np.mean([(task[..., None, :] > thresholds[:, None]).mean(-1) for task in scores], axis=0)


def bootstrap_interval(statistic: Statistic, *sides: Scores, rng: np.random.Generator) -> tuple[Array, Array]:
    """The percentile interval of ``statistic(*sides)`` over resamples of the runs, drawn task by task.

    Few runs have few resamples: below five the interval is too narrow, and should not decide alone.
    Shapes: scores (runs,) a task -> low and high, each of the statistic's own shape.
    """
    values = statistic(*(resampled(scores, rng=rng) for scores in sides))
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return low, high


def resampled(scores: Scores, *, rng: np.random.Generator) -> list[Array]:
    """Each task's runs drawn anew with replacement (stratified). Shapes: (runs,) -> (RESAMPLES, runs) a task."""
    for task in scores:
        if task.ndim != 1 or not len(task) or not np.isfinite(task).all():
            raise ValueError(
                f"a task's scores must be one finite number a run, got {task}: leave out runs without a score"
            )
    return [task[rng.integers(len(task), size=(RESAMPLES, len(task)))] for task in scores]
