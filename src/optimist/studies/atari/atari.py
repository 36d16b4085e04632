"""Atari games without reward under every bonus: unique states, and the raw score that comes with them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from optimist.reporting.figures.learning_curves import draw_learning_curves
from optimist.studies.atari.games import FULL_STEPS, GAMES, LAPTOP, PAPER_GAMES, frames, games, smoke_games, visited
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict
from optimist.studies.training.rows import curves, judge_failures, run_row, summary, trained, values_of
from optimist.studies.training.tasks import RANDOM, Task, TrainingSettings
from optimist.studies.training.verdicts import judge_more

# ---- What ------------------------------------------------------------------------------------------------------------


def measure(settings: TrainingSettings, session: Session) -> Measurement:
    """One row per run, unique states and raw return by learner, and their curves."""
    runs, failed = trained(settings.jobs(), session)
    rows = [run_row(run, measure="unique_states", aim=1.0) for run in runs]
    tables = {
        "runs": rows,
        "summary": [row for column in ("unique_states", "unique_cells", "return") for row in summary(rows, column, {})],
        "unique_states_curves": curves(runs, "unique_states"),
        "return_curves": curves(runs, "return_mean"),
    }
    return Measurement(tables | failed)


def figures(tables: Tables) -> Mapping[str, Draw]:
    """Unique states and returns along the steps."""
    states, returns = tables["unique_states_curves"], tables["return_curves"]
    return {
        "unique_states": partial(draw_learning_curves, states, "unique states (newest frame)", []),
        "return": partial(draw_learning_curves, returns, "raw return, last 100 episodes", []),
    }


# ---- Settings --------------------------------------------------------------------------------------------------------

PAPER_FEATURES = "acb-argmax"
"""ACB with the paper's features: the label is the most likely action, and the floor is one for all coordinates."""


def with_paper_features(task: Task) -> Task:
    """``task`` with one learner more."""
    own = {"bonus": "acb", "bonus_options": ("feature_loss=argmax", "floor=all")}
    return replace(task, learners=(*task.learners, PAPER_FEATURES), own=task.own | {PAPER_FEATURES: own})


SCALES = {
    "smoke": smoke_games(GAMES[0], learners=("acb", RANDOM), env_options=("num_threads=1",)),
    "laptop": replace(LAPTOP, tasks=tuple(map(with_paper_features, LAPTOP.tasks))),
    "paper": TrainingSettings(tuple(map(with_paper_features, games(PAPER_GAMES, FULL_STEPS)))),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(tables: Tables) -> list[Verdict]:
    """ACB's unique states and coarse cells against those of every other learner, at this budget, not the paper's."""
    rows = tables["runs"]
    result: list[Verdict] = []
    for task in dict.fromkeys(row["task"] for row in rows):
        steps = max(row["steps"] for row in rows if row["task"] == task)
        for column, words in visited(rows).items():
            acb = values_of(rows, task, "acb", column)
            for learner in dict.fromkeys(row["learner"] for row in rows if row["learner"] != "acb"):
                claim = f"{task}, reward-free, {steps:,} steps: ACB visits more {words} than {learner}"
                verdict = judge_more(claim, acb, values_of(rows, task, learner, column))
                result.append(Verdict(claim, f"{verdict.measured} ({frames(steps)})", verdict.judgement))
    return result + judge_failures(tables, len(rows))


STUDY = Study(SCALES, measure, judge, figures, trains=True)
