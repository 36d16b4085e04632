"""The combination lock under every bonus: the success rate at the end."""

from functools import partial
from pathlib import Path

from optimist.reporting.learning_curves import draw_learning_curves
from optimist.studies.combination_lock.settings import AIM, PUBLISHED
from optimist.studies.combination_lock.verdict import judge
from optimist.studies.outcome import Outcome, Progress
from optimist.studies.training_rows import curves, failure_rows, failures, played, run_row, summary
from optimist.studies.training_runs import play
from optimist.studies.training_tasks import TrainingSettings


def run(settings: TrainingSettings, progress: Progress, workers: int | None, folder: Path) -> Outcome:
    """A row for each run, the final success rate by learner, and its curves."""
    results = play(settings.jobs(), folder, workers=workers, progress=progress)
    runs = played(results)
    rows = [run_row(run, measure="success_rate", aim=AIM) for run in runs]
    lines = curves(runs, "success_rate")
    return Outcome(
        tables={"runs": rows, "summary": summary(rows, "success_rate", PUBLISHED), "curves": lines},
        verdicts=judge(rows) + failures(results),
        failures=failure_rows(results),
        figures={
            "success": partial(draw_learning_curves, lines, "success rate, last 100 episodes", PUBLISHED, is_share=True)
        },
    )
