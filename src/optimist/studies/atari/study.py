"""Atari games without reward under every bonus: unique states, and the raw score that comes with them."""

from functools import partial
from pathlib import Path

from optimist.reporting.learning_curves import draw_learning_curves
from optimist.studies.atari.verdict import judge
from optimist.studies.outcome import Outcome, Progress
from optimist.studies.training_rows import curves, failure_rows, failures, played, run_row, summary
from optimist.studies.training_runs import play
from optimist.studies.training_tasks import TrainingSettings


def run(settings: TrainingSettings, progress: Progress, workers: int | None, folder: Path) -> Outcome:
    """A row for each run, unique states and raw return by learner, and their curves."""
    results = play(settings.jobs(), folder, workers=workers, progress=progress)
    runs = played(results)
    rows = [run_row(run, measure="unique_states", aim=1.0) for run in runs]
    states, returns = curves(runs, "unique_states"), curves(runs, "return_mean")
    return Outcome(
        tables={
            "runs": rows,
            "summary": summary(rows, "unique_states", {}) + summary(rows, "return", {}),
            "unique_states_curves": states,
            "return_curves": returns,
        },
        verdicts=judge(rows) + failures(results),
        failures=failure_rows(results),
        figures={
            "unique_states": partial(draw_learning_curves, states, "unique states (newest frame)", {}),
            "return": partial(draw_learning_curves, returns, "raw return, last 100 episodes", {}),
        },
    )
