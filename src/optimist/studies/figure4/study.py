"""Games without reward under ACB, with ensembles of several sizes: the raw score that comes with exploration."""

from pathlib import Path

from optimist.studies.figure4.settings import size_of
from optimist.studies.figure4.verdict import judge
from optimist.studies.game_study import RETURN, run_games
from optimist.studies.outcome import Outcome, Progress
from optimist.studies.training_tasks import TrainingSettings


def run(settings: TrainingSettings, progress: Progress, workers: int | None, folder: Path) -> Outcome:
    """The score by size; the largest ensemble is the one that the others are held against."""
    largest = max((name for task in settings.tasks for name in task.learners), key=size_of)
    return run_games(settings, progress, workers, folder, measure=RETURN, reference=largest, judge=judge)
