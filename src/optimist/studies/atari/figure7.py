"""Figure 7: games with bonus and reward, ACB and RND: the raw score."""

from collections.abc import Sequence
from typing import Any

from optimist.reporting.tables import Row
from optimist.studies.atari.comparison import RETURN, game_study
from optimist.studies.atari.games import (
    EIGHT_GAMES,
    FULL_STEPS,
    JOINT,
    JOINT_STEPS,
    LAPTOP_NUMBERS,
    games,
    known,
    scores_by_learner,
    smoke_games,
)
from optimist.studies.study import Verdict
from optimist.studies.training.rows import bootstrap_generator
from optimist.studies.training.tasks import REPORTED_SEEDS, Task, TrainingSettings
from optimist.studies.training.verdicts import judge_as_good, judge_most, judge_overall, judge_some

# ---- What ------------------------------------------------------------------------------------------------------------

MEASURE = RETURN
"""The raw score, by game and over all games; ACB stands beside RND."""

# ---- Settings --------------------------------------------------------------------------------------------------------

LEARNERS = ("acb", "rnd")
GAMES = ("Breakout-v5", "Gravitar-v5")
"""One game with dense rewards, and one of those that the paper calls hard to explore, whose episodes are short."""


def joint(names: tuple[str, ...], total_steps: int, **changes: Any) -> tuple[Task, ...]:
    """The games with their rewards."""
    return games(names, total_steps, LEARNERS, **JOINT | changes)


SCALES = {
    "smoke": smoke_games(GAMES[0], learners=LEARNERS, **JOINT),
    "laptop": TrainingSettings(joint(GAMES, JOINT_STEPS, **LAPTOP_NUMBERS), REPORTED_SEEDS[:3]),
    "paper": TrainingSettings(joint(EIGHT_GAMES, FULL_STEPS)),
}

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """On every game, then in most, in some, and over all games."""
    pairs = {
        game: (known(rows, game, "acb", "return"), known(rows, game, "rnd", "return"))
        for game in dict.fromkeys(row["task"] for row in rows)
    }
    games = {
        game: [judge_as_good(f"{game}, bonus and reward: ACB scores at least as much as RND", ours, theirs)]
        for game, (ours, theirs) in pairs.items()
    }
    scores = scores_by_learner(rows, "return")
    acb, rnd = scores.get("acb", []), scores.get("rnd", [])
    return [
        *(verdict for verdicts in games.values() for verdict in verdicts),
        judge_most("with bonus and reward, ACB performs at least as well as RND on most games", games),
        judge_some("with bonus and reward, ACB scores more than RND on some game", pairs),
        judge_overall("all games, bonus and reward: ACB is competitive with RND", acb, rnd, rng=bootstrap_generator()),
    ]


STUDY = game_study(SCALES, MEASURE, judge)
