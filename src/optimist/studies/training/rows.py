"""Rows of training runs: one per run, one per condition beside what was published, and the curves of a condition."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from optimist.reporting.statistics import bootstrap_interval, mean
from optimist.reporting.tables import Row
from optimist.seeding import split
from optimist.studies.study import ALL_RUNS_FINISH, ARCHIVE, FAILURES, Session, Tables, Verdict
from optimist.studies.training.archive import Played, add_to_archive, archived
from optimist.studies.training.runs import Failed, Finished, Job, Result, train_all
from optimist.training.runs.metrics_log import Columns, read_metrics

Published = Mapping[tuple[str, str], float]
"""A number from elsewhere, by task and learner."""

POINTS = 60
"""Points of a curve, at most."""
OTHER_COUNTS = ("unique_cells", "unique_places")
"""Further counts of what was visited, NaN in a run without images or without a map."""
NAMED = 3
"""Failed runs that a verdict names, at most."""
RATE, WINDOW = "success_rate", 100
"""A column, and the episodes that must have ended before it counts: it is taken over the last 100."""


def trained(jobs: Sequence[Job], session: Session) -> tuple[list[Played], dict[str, list[Row]]]:
    """The runs of ``jobs`` that finished, and the table of those that failed, if any did; an error if all did.

    What is in the archive of the session's folder is not played again, and what was played now is added to it.
    """
    archive = session.folder / ARCHIVE
    before = archived(jobs, archive)
    results = train_all([job for job in jobs if job.name not in before], session)
    if now := played(results, needed=not before):
        add_to_archive(now, archive)
    runs = archived(jobs, archive)  # also what was played now: tables are the same wherever they are made
    return [runs[job.name] for job in jobs if job.name in runs], failures(results)


def played(results: Sequence[Result], *, needed: bool = True) -> list[Played]:
    """The runs that finished; an error if one is ``needed`` and none did."""
    runs = [Played(r.job, read_metrics(r.folder / "metrics.csv")) for r in results if isinstance(r, Finished)]
    if needed and not runs:
        messages = [f"{r.job.name}: {r.message}" for r in results if isinstance(r, Failed)]
        raise ChildProcessError(f"all {len(messages)} runs failed, the first with  {messages[0] if messages else ''}")
    return runs


def failures(results: Sequence[Result]) -> dict[str, list[Row]]:
    """The table of the runs that failed, one row each; no table if none did."""
    rows: list[Row] = [
        {"task": r.job.task, "learner": r.job.learner, "seed": r.job.config.seed, "run": r.job.name, "error": r.message}
        for r in results
        if isinstance(r, Failed)
    ]
    return {FAILURES: rows} if rows else {}


def judge_failures(tables: Tables, finished: int) -> list[Verdict]:
    """A verdict that names the first runs that failed, if any did; ``finished`` others did not."""
    failed = [f"{row['run']}: {row['error']}" for row in tables.get(FAILURES, ())]
    if not failed:
        return []
    measured = "; ".join([f"{len(failed)} of {len(failed) + finished} failed", *failed[:NAMED]])
    if len(failed) > NAMED:
        measured += f"; the others are in {FAILURES}.csv"
    return [Verdict(ALL_RUNS_FINISH, measured, "does not hold")]


def run_row(run: Played, *, measure: str, aim: float) -> Row:
    """How a run ended, the mean of ``measure`` over its steps, and when its success rate first reached ``aim``."""
    metrics, config = run.metrics, run.job.config
    return {
        "task": run.job.task,
        "learner": run.job.learner,
        "seed": config.seed,
        "steps": int(metrics["step"][-1]),
        "episodes": int(metrics["episodes"][-1]),
        "unique_states": int(metrics["unique_states"][-1]),
        "return": float(metrics["return_mean"][-1]),
        "success_rate": float(metrics["success_rate"][-1]),
        "area": area(metrics["step"], counted(metrics, measure), config.total_steps),
        "solved_at": solved_at(metrics, aim),
        **{name: float(metrics[name][-1]) if name in metrics else math.nan for name in OTHER_COUNTS},
        "seconds": round(float(sum(column.sum() for name, column in metrics.items() if name.startswith("seconds/")))),
    }


def area(steps: NDArray[np.float64], values: NDArray[np.float64], total: int) -> float:
    """The mean of ``values`` over ``total`` steps: each holds since the row before, the last one to the end."""
    lengths = np.diff(np.concatenate([[0.0], steps]))
    lengths[-1] += max(0.0, total - steps[-1])
    known = np.isfinite(values)
    return float(values[known] @ lengths[known] / lengths[known].sum()) if known.any() else math.nan


def counted(metrics: Columns, column: str) -> NDArray[np.float64]:
    """A column. A success rate is NaN while fewer than 100 episodes have ended: the first to end are the successes."""
    return np.where(metrics["episodes"] >= WINDOW, metrics[column], math.nan) if column == RATE else metrics[column]


def curve(metrics: Columns, column: str) -> NDArray[np.float64]:
    """A column as `counted`; its last value alone, whatever it was taken over, if none of them counts."""
    values = counted(metrics, column)
    return values if np.isfinite(values).any() else np.append(values[:-1], metrics[column][-1])


def solved_at(metrics: Columns, aim: float) -> float:
    """The first step at which the success rate of the last 100 episodes was at least ``aim``; NaN if never."""
    reached = counted(metrics, RATE) >= aim
    return float(metrics["step"][reached.argmax()]) if reached.any() else math.nan


def values_of(rows: Sequence[Row], task: str, learner: str, column: str) -> list[float]:
    """A column's values over the seeds of one condition."""
    return [float(row[column]) for row in rows if (row["task"], row["learner"]) == (task, learner)]


def conditions(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """The pairs of task and learner, sorted by task as they come."""
    pairs = list(dict.fromkeys((row["task"], row["learner"]) for row in rows))
    tasks = list(dict.fromkeys(task for task, _ in pairs))
    return sorted(pairs, key=lambda pair: tasks.index(pair[0]))


def summary(rows: Sequence[Row], column: str, published: Published) -> list[Row]:
    """Mean, standard error and range of ``column`` over the seeds of each condition, beside the published number.

    ``known`` counts the seeds for which the column has a value: a run that never solved its task has no ``solved_at``.
    A published learner that was not played has a row of its own.
    """
    result: list[Row] = []
    for task, learner in conditions(rows):
        values = np.array(values_of(rows, task, learner, column))
        known = values[np.isfinite(values)]
        result.append(
            {
                "task": task,
                "learner": learner,
                "measure": column,
                "seeds": len(values),
                "known": len(known),
                **spread(known),
                "published": published.get((task, learner), math.nan),
            }
        )
    tasks = {row["task"] for row in rows}
    others = [pair for pair in published if pair[0] in tasks and pair not in conditions(rows)]
    for task, learner in others:
        played_by_none = {"task": task, "learner": learner, "measure": column, "seeds": 0, "known": 0}
        result.append(played_by_none | spread(np.empty(0)) | {"published": published[task, learner]})
    return result


def spread(values: NDArray[np.float64]) -> dict[str, float]:
    """Mean, standard error and range; NaN where there is nothing to take them of."""
    if not len(values):
        return dict.fromkeys(("mean", "se", "lowest", "highest"), math.nan)
    return {
        "mean": float(values.mean()),
        "se": standard_error(values),
        "lowest": float(values.min()),
        "highest": float(values.max()),
    }


def standard_error(values: Sequence[float] | NDArray[np.float64]) -> float:
    """The standard error of the mean; NaN for a single value."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def bootstrapped(values: Sequence[float]) -> tuple[float, float]:
    """The bootstrap's interval of the mean, which never leaves the range of ``values``."""
    low, high = bootstrap_interval(mean, [np.array(values, dtype=np.float64)], rng=bootstrap_generator())
    return float(low), float(high)


def bootstrap_generator() -> np.random.Generator:
    """Every bootstrap draws the same: its interval depends on the values alone."""
    return np.random.default_rng(split(0, "bootstrap"))


def curves(runs: Sequence[Played], column: str) -> list[Row]:
    """Mean, standard error and range of ``column`` over the seeds along the steps, at most `POINTS` per condition.

    A run that ended early because it had succeeded keeps its last value; NaN while no run has one. A run that ended
    before 100 episodes had has one value, that of its end.
    """
    result: list[Row] = []
    for pair in conditions([{"task": run.job.task, "learner": run.job.learner} for run in runs]):
        mine = [run for run in runs if (run.job.task, run.job.learner) == pair]
        longest = max((run.metrics["step"] for run in mine), key=lambda steps: steps[-1])
        grid = longest[np.unique(np.linspace(0, len(longest) - 1, POINTS).round().astype(int))]
        table = np.stack([held(run.metrics["step"], curve(run.metrics, column), grid) for run in mine])
        for step, values in zip(grid, table.T, strict=True):
            known = values[np.isfinite(values)]
            result.append(
                {
                    "task": pair[0],
                    "learner": pair[1],
                    "step": int(step),
                    "seeds": len(known),
                    **spread(known),
                }
            )
    return result


def held(steps: NDArray[np.float64], values: NDArray[np.float64], grid: NDArray[np.float64]) -> NDArray[np.float64]:
    """The last value at or before every point of ``grid``; NaN before the first."""
    index = np.searchsorted(steps, grid, side="right") - 1
    return np.where(index >= 0, values[np.maximum(index, 0)], math.nan)
