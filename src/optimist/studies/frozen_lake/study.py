"""FrozenLake under every bonus: the steps until 99 of the last 100 episodes reach the goal."""

from functools import partial
from pathlib import Path

from optimist.reporting.learning_curves import draw_learning_curves
from optimist.studies.frozen_lake.settings import AIM, PUBLISHED
from optimist.studies.frozen_lake.verdict import judge
from optimist.studies.outcome import Outcome, Progress
from optimist.studies.training_rows import curves, failure_rows, failures, played, run_row, summary
from optimist.studies.training_runs import play
from optimist.studies.training_tasks import TrainingSettings


def run(settings: TrainingSettings, progress: Progress, workers: int | None, folder: Path) -> Outcome:
    """A row for each run, the steps to success by learner, and the curves of the success rate."""
    results = play(settings.jobs(), folder, workers=workers, progress=progress)
    runs = played(results)
    rows = [run_row(run, measure="success_rate", aim=AIM) for run in runs]
    lines = curves(runs, "success_rate")
    draw = partial(
        draw_learning_curves, lines, "success rate, last 100 episodes", PUBLISHED, published_is="step", is_share=True
    )
    return Outcome(
        tables={"runs": rows, "summary": summary(rows, "solved_at", PUBLISHED), "curves": lines},
        verdicts=judge(rows) + failures(results),
        failures=failure_rows(results),
        figures={"success": draw},
    )
