"""What the studies of Figures 3 to 7 share: one measure over games is tabled, aggregated, drawn and judged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from optimist.reporting.figures.comparisons import draw_aggregates
from optimist.reporting.figures.learning_curves import draw_learning_curves
from optimist.reporting.statistics import (
    bootstrap_interval,
    interquartile_mean,
    mean,
    performance_profile,
    probability_of_improvement,
)
from optimist.reporting.tables import Row
from optimist.studies.atari.games import REFERENCE_FRAMES, SKIP, scores_by_learner
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import bootstrap_generator, curves, judge_failures, run_row, summary, trained
from optimist.studies.training.tasks import TrainingSettings

Judge = Callable[[Sequence[Row]], Sequence[Verdict]]
"""The verdicts on the rows of runs."""
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


def game_study(
    scales: Mapping[str, TrainingSettings],
    measure: Measure,
    judge: Judge,
    reference: Callable[[TrainingSettings], str] = lambda settings: "acb",
) -> Study[TrainingSettings]:
    """The study of ``measure`` on games; over all games each learner stands beside that which ``reference`` names."""
    return Study(
        scales,
        measure=lambda settings, session: tabled(settings, session, measure, reference(settings)),
        judge=partial(judged, judge=judge),
        figures=partial(drawn, measure=measure),
        trains=True,
    )


def tabled(settings: TrainingSettings, session: Session, measure: Measure, reference: str) -> Measurement:
    """One row per run, ``measure`` by game and learner, over all games beside ``reference``, and its curves."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure=measure.curve, aim=1.0) for run in runs]
    tables = {
        "runs": rows,
        "summary": summary(rows, measure.column, {}),
        f"{measure.column}_curves": curves(runs, measure.curve),
        "aggregate": aggregate(rows, measure, reference),
        "profile": profile(rows, measure),
    }
    return Measurement({name: table for name, table in tables.items() if table} | failed)


def judged(tables: Tables, judge: Judge) -> list[Verdict]:
    """The verdicts on the rows of runs, with their budget, and one on runs that failed."""
    rows = tables["runs"]
    return [replace(verdict, budget=budget(rows)) for verdict in judge(rows)] + judge_failures(tables, len(rows))


def drawn(tables: Tables, measure: Measure) -> Mapping[str, Draw]:
    """The curves of every game, and all games together."""
    lines = tables[f"{measure.column}_curves"]
    result: dict[str, Draw] = {measure.column: partial(draw_learning_curves, lines, measure.label, [])}
    if "aggregate" in tables:
        overall = tables["aggregate"]
        reference = overall[0]["reference"]
        result["aggregate"] = partial(draw_aggregates, overall, tables["profile"], measure.unit, reference)
    return result


def aggregate(rows: Sequence[Row], measure: Measure, reference: str) -> list[Row]:
    """Over all games: interquartile mean and mean of each learner, and the chance that ``reference`` improves on it.

    Intervals are stratified bootstraps, with rliable's definitions; the units are those of `scores_by_learner`.
    """
    scores = scores_by_learner(rows, measure.column)
    result: list[Row] = []
    for learner, mine in scores.items():
        low, high = bootstrap_interval(interquartile_mean, mine, rng=bootstrap_generator())
        row = {"learner": learner, "games": len(mine), "runs": sum(map(len, mine))}
        row |= {"iqm": float(interquartile_mean(mine)), "iqm_low": float(low), "iqm_high": float(high)}
        row |= {"mean": float(mean(mine)), "reference": reference}
        row |= dict.fromkeys(("improvement", "improvement_low", "improvement_high"), float("nan"))
        if reference in scores and learner != reference:
            ours = scores[reference]
            low, high = bootstrap_interval(probability_of_improvement, ours, mine, rng=bootstrap_generator())
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
        low, high = bootstrap_interval(share, mine, rng=bootstrap_generator())
        columns = {"score": thresholds, "share": share(mine), "low": low, "high": high}
        points = zip(*columns.values(), strict=True)
        result += [{"learner": learner} | dict(zip(columns, map(float, point), strict=True)) for point in points]
    return result


def budget(rows: Sequence[Row]) -> str:
    """How long a run was, in words, beside RND's."""
    steps = max(int(row["steps"]) for row in rows)
    return f"{steps:,} steps per run, {steps * SKIP / REFERENCE_FRAMES:.2g} of RND's {REFERENCE_FRAMES:.0e} frames"
