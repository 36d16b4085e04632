"""DeepSea under every bonus, without reward and with it."""

from functools import partial
from pathlib import Path

from optimist.reporting.learning_curves import draw_learning_curves, draw_solved
from optimist.studies.deepsea.settings import AIM, PUBLISHED
from optimist.studies.deepsea.verdict import judge, solved_share
from optimist.studies.outcome import Outcome, Progress
from optimist.studies.training_rows import curves, failure_rows, failures, played, run_row, summary
from optimist.studies.training_runs import play
from optimist.studies.training_tasks import TrainingSettings


def run(settings: TrainingSettings, progress: Progress, workers: int | None, folder: Path) -> Outcome:
    """A row for each run, unique states and solved seas by learner, and their curves."""
    results = play(settings.jobs(), folder, workers=workers, progress=progress)
    runs = played(results)
    free = [run for run in runs if run.job.config.extrinsic_weight == 0]
    paid = [run for run in runs if run.job.config.extrinsic_weight > 0]
    free_rows = [run_row(run, measure="unique_states", aim=AIM) for run in free]
    paid_rows = [run_row(run, measure="success_rate", aim=AIM) for run in paid]
    shares = solved_share(paid_rows)
    free_curves, paid_curves = curves(free, "unique_states"), curves(paid, "success_rate")
    tables = {
        "runs": free_rows + paid_rows,
        "summary": summary(free_rows, "unique_states", PUBLISHED) + summary(paid_rows, "solved_at", {}),
        "solved": shares,
        "unique_states_curves": free_curves,
        "success_curves": paid_curves,
    }
    figures = {
        "unique_states": (free, partial(draw_learning_curves, free_curves, "unique states", PUBLISHED)),
        "success": (
            paid,
            partial(draw_learning_curves, paid_curves, "success rate, last 100 episodes", {}, is_share=True),
        ),
        "solved": (paid, partial(draw_solved, shares)),
    }
    return Outcome(
        tables={name: rows for name, rows in tables.items() if rows},
        verdicts=judge(free_rows, paid_rows) + failures(results),
        failures=failure_rows(results),
        figures={name: draw for name, (rows, draw) in figures.items() if rows},
    )
