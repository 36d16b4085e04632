"""What the studies of Figures 3 to 7 share: games are played, one measure is tabled, aggregated, drawn and judged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from optimist.reporting.aggregates import draw_aggregates
from optimist.reporting.learning_curves import draw_learning_curves
from optimist.reporting.statistics import (
    bootstrap_interval,
    interquartile_mean,
    mean,
    performance_profile,
    probability_of_improvement,
)
from optimist.reporting.tables import Row
from optimist.seeding import split
from optimist.studies.atari.settings import REFERENCE_FRAMES, SKIP
from optimist.studies.games import scores_by_learner
from optimist.studies.outcome import Outcome, Progress
from optimist.studies.training_rows import curves, failure_rows, failures, played, run_row, summary
from optimist.studies.training_runs import play
from optimist.studies.training_tasks import TrainingSettings
from optimist.studies.verdicts import Verdict

THRESHOLDS = 41
"""Points of a performance profile."""


@dataclass(frozen=True)
class Measure:
    """What a figure shows: a column of the rows of runs, and the column of ``metrics.csv`` that it is the end of."""

    column: str
    curve: str
    label: str
    unit: str
    """In which games are averaged: see `scores_by_learner`."""


RETURN = Measure("return", "return_mean", "raw return, last 100 episodes", "return: random play is 0, a human 1")
STATES = Measure("unique_states", "unique_states", "unique states (newest frame)", "states: the game's mean is 1")


def run_games(
    settings: TrainingSettings,
    progress: Progress,
    workers: int | None,
    folder: Path,
    *,
    measure: Measure,
    reference: str,
    judge: Callable[[Sequence[Row]], list[Verdict]],
) -> Outcome:
    """A row for each run, ``measure`` by game and learner, over all games beside ``reference``, and its curves."""
    results = play(settings.jobs(), folder, workers=workers, progress=progress)
    runs = played(results)
    rows = [run_row(run, measure=measure.curve, aim=1.0) for run in runs]
    lines, overall, profiles = curves(runs, measure.curve), aggregate(rows, measure, reference), profile(rows, measure)
    tables = {
        "runs": rows,
        "summary": summary(rows, measure.column, {}),
        f"{measure.column}_curves": lines,
        "aggregate": overall,
        "profile": profiles,
    }
    figures = {
        measure.column: (lines, partial(draw_learning_curves, lines, measure.label, {})),
        "aggregate": (overall, partial(draw_aggregates, overall, profiles, measure.unit, reference)),
    }
    return Outcome(
        tables={name: table for name, table in tables.items() if table},
        verdicts=[replace(verdict, budget=budget(rows)) for verdict in judge(rows)] + failures(results),
        figures={name: draw for name, (table, draw) in figures.items() if table},
        failures=failure_rows(results),
    )


def aggregate(rows: Sequence[Row], measure: Measure, reference: str) -> list[Row]:
    """Over all games: interquartile mean and mean of each learner, and the chance that ``reference`` improves on it.

    Intervals are stratified bootstraps, with rliable's definitions; the units are those of `scores_by_learner`.
    """
    scores = scores_by_learner(rows, measure.column)
    result: list[Row] = []
    for learner, mine in scores.items():
        low, high = bootstrap_interval(interquartile_mean, mine, rng=generator())
        row = {"learner": learner, "games": len(mine), "runs": sum(map(len, mine))}
        row |= {"iqm": float(interquartile_mean(mine)), "iqm_low": float(low), "iqm_high": float(high)}
        row |= {"mean": float(mean(mine)), "reference": reference}
        row |= dict.fromkeys(("improvement", "improvement_low", "improvement_high"), float("nan"))
        if reference in scores and learner != reference:
            ours = scores[reference]
            low, high = bootstrap_interval(probability_of_improvement, ours, mine, rng=generator())
            row |= {"improvement": float(probability_of_improvement(ours, mine))}
            row |= {"improvement_low": float(low), "improvement_high": float(high)}
        result.append(row)
    return result


def profile(rows: Sequence[Row], measure: Measure) -> list[Row]:
    """The performance profile of each learner: the share of runs above a score, with its interval."""
    scores = scores_by_learner(rows, measure.column)
    if not scores:
        return []
    every = np.concatenate([task for mine in scores.values() for task in mine])
    thresholds = np.linspace(min(0.0, every.min()), max(every.max(), 1e-9), THRESHOLDS)
    result: list[Row] = []
    for learner, mine in scores.items():
        share = partial(performance_profile, thresholds=thresholds)
        low, high = bootstrap_interval(share, mine, rng=generator())
        columns = {"score": thresholds, "share": share(mine), "low": low, "high": high}
        points = zip(*columns.values(), strict=True)
        result += [{"learner": learner} | dict(zip(columns, map(float, point), strict=True)) for point in points]
    return result


def generator() -> np.random.Generator:
    """Every bootstrap draws the same: its interval depends on the scores alone."""
    return np.random.default_rng(split(0, "bootstrap"))


def budget(rows: Sequence[Row]) -> str:
    """How long a run was, in words, beside RND's."""
    steps = max(int(row["steps"]) for row in rows)
    return f"{steps:,} steps a run, {steps * SKIP / REFERENCE_FRAMES:.2g} of RND's {REFERENCE_FRAMES:.0e} frames"
