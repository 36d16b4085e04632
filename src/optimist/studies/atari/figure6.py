"""Figure 6: games without reward under every bonus: how many states are visited."""

from collections.abc import Sequence

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
from optimist.studies.training.tasks import RANDOM, TrainingSettings
from optimist.studies.training.verdicts import judge_at_least, judge_most, judge_overall

# ---- What ------------------------------------------------------------------------------------------------------------

MEASURE = STATES
"""Unique states, by game and over all games; ACB stands beside the other learners."""

# ---- Settings --------------------------------------------------------------------------------------------------------

SCALES = {
    "smoke": smoke_games(GAMES[0], learners=("acb", "rnd", RANDOM)),
    "laptop": LAPTOP,
    "paper": TrainingSettings(games(EIGHT_GAMES, FULL_STEPS)),
}
"""The runs of Figure 5: ``optimist study figure6 --runs FOLDER-OF-FIGURE5`` trains none of them again."""

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """By exact states and by coarse cells: on every game against each bonus, then in most games, then over all."""
    return [verdict for column, words in visited(rows).items() for verdict in judge_by(rows, column, words)]


def judge_by(rows: Sequence[Row], column: str, words: str) -> list[Verdict]:
    """By one count of what was visited."""
    rivals = [n for n in dict.fromkeys(row["learner"] for row in rows) if n not in ("acb", RANDOM)]
    games: dict[str, list[Verdict]] = {}
    for game in dict.fromkeys(row["task"] for row in rows):
        acb = known(rows, game, "acb", column)
        games[game] = [
            judge_at_least(
                f"{game}, bonuses alone: ACB visits at least as many {words} as {rival.upper()}",
                acb,
                known(rows, game, rival, column),
            )
            for rival in rivals
        ]
    scores = scores_by_learner(rows, column)
    overall = [
        judge_overall(
            f"all games, bonuses alone: ACB visits as many {words} as {rival.upper()} or more",
            scores.get("acb", []),
            scores.get(rival, []),
            rng=bootstrap_generator(),
        )
        for rival in rivals
    ]
    most = judge_most(f"ACB visits as many or more {words} than the baselines in most games", games)
    return [verdict for verdicts in games.values() for verdict in verdicts] + [most, *overall]


STUDY = game_study(SCALES, MEASURE, judge)
