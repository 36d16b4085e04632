"""Figure 3: games without reward under ACB, with gradient and with penultimate features: states visited."""

from collections.abc import Sequence
from dataclasses import replace

from optimist.reporting.tables import Row
from optimist.studies.atari.comparison import STATES, game_study
from optimist.studies.atari.games import (
    EIGHT_GAMES,
    FULL_STEPS,
    GAMES,
    LAPTOP,
    games,
    known,
    scores_by_learner,
    smoke_games,
    visited,
)
from optimist.studies.study import Verdict
from optimist.studies.training.rows import bootstrap_generator
from optimist.studies.training.tasks import Task, TrainingSettings, with_variants
from optimist.studies.training.verdicts import judge_more, judge_overall

# ---- What ------------------------------------------------------------------------------------------------------------

MEASURE = STATES
"""Unique states, by game and over all games; gradient features stand beside penultimate ones."""

# ---- Settings --------------------------------------------------------------------------------------------------------

FEATURES = {"acb": {}, "acb-penultimate": {"bonus_options": ("features=penultimate",)}}
"""``acb`` itself has sketched gradients (docs/deviations.md, D9); both have the same exact solver."""


def compared(*tasks: Task) -> tuple[Task, ...]:
    """The tasks with both kinds of features."""
    return tuple(with_variants(task, "acb", FEATURES) for task in tasks)


SMOKE = smoke_games(GAMES[0])
SCALES = {
    "smoke": replace(SMOKE, tasks=compared(*SMOKE.tasks)),
    # One game; the runs of ``acb`` are those of the study ``atari``: --runs takes them from there.
    "laptop": TrainingSettings(compared(LAPTOP.tasks[0]), LAPTOP.seeds),
    "paper": TrainingSettings(compared(*games(EIGHT_GAMES, FULL_STEPS))),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """By exact states and by coarse cells: on every game, then over all games."""
    return [verdict for column, words in visited(rows).items() for verdict in judge_by(rows, column, words)]


def judge_by(rows: Sequence[Row], column: str, words: str) -> list[Verdict]:
    """By one count of what was visited."""
    result = [
        judge_more(
            f"{game}, bonuses alone: ACB visits more {words} with gradient than with penultimate features",
            known(rows, game, "acb", column),
            known(rows, game, "acb-penultimate", column),
        )
        for game in dict.fromkeys(row["task"] for row in rows)
    ]
    scores = scores_by_learner(rows, column)
    gradient, penultimate = scores.get("acb", []), scores.get("acb-penultimate", [])
    claim = f"all games, bonuses alone: gradient features explore at least as many {words} as penultimate ones"
    return [*result, judge_overall(claim, gradient, penultimate, rng=bootstrap_generator())]


STUDY = game_study(SCALES, MEASURE, judge)
