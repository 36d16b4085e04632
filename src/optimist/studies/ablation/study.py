"""ACB on DeepSea without reward, as it ships and with one choice taken back: how many states are visited."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from optimist.reporting.bars import draw_bars
from optimist.reporting.tables import Row
from optimist.studies.ablation.settings import CHOICES
from optimist.studies.ablation.verdict import judge
from optimist.studies.outcome import Outcome, Progress
from optimist.studies.training_rows import (
    conditions,
    curves,
    failure_rows,
    failures,
    played,
    run_row,
    standard_error,
    values_of,
)
from optimist.studies.training_runs import play
from optimist.studies.training_tasks import TrainingSettings
from optimist.studies.training_verdicts import interval


def run(settings: TrainingSettings, progress: Progress, workers: int | None, folder: Path) -> Outcome:
    """A row for each run and for each choice, the curves of states, and a bar a choice."""
    results = play(settings.jobs(), folder, workers=workers, progress=progress)
    runs = played(results)
    rows = [run_row(run, measure="unique_states", aim=1.0) for run in runs]
    table = choices(rows)
    return Outcome(
        tables={"runs": rows, "ablation": table, "unique_states_curves": curves(runs, "unique_states")},
        verdicts=judge(rows) + failures(results),
        figures={"ablation": partial(draw_bars, table, "unique states, reward-free", "acb")},
        failures=failure_rows(results),
    )


def choices(rows: Sequence[Row]) -> list[Row]:
    """States visited by the end and on average over the steps, with Student's interval of the former."""
    result: list[Row] = []
    for task, learner in conditions(rows):
        states = values_of(rows, task, learner, "unique_states")
        low, high = interval(states)
        result.append(
            {
                "learner": learner,
                "deviation": CHOICES[learner].deviation if learner in CHOICES else "",
                "seeds": len(states),
                "mean": float(np.mean(states)),
                "se": standard_error(states),
                "low": low,
                "high": high,
                "lowest": min(states),
                "highest": max(states),
                "mean_over_steps": float(np.mean(values_of(rows, task, learner, "area"))),
                "seconds": float(np.mean(values_of(rows, task, learner, "seconds"))),
            }
        )
    return result
