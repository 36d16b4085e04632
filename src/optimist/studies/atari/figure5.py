"""Figure 5: games without reward under every bonus: the raw score that comes with exploration."""

from collections.abc import Sequence

from optimist.reporting.tables import Row
from optimist.studies.atari.comparison import RETURN, game_study
from optimist.studies.atari.games import (
    EIGHT_GAMES,
    FULL_STEPS,
    GAMES,
    LAPTOP,
    games,
    known,
    scores_by_learner,
    smoke_games,
)
from optimist.studies.study import Verdict
from optimist.studies.training.rows import bootstrap_generator
from optimist.studies.training.tasks import RANDOM, TrainingSettings
from optimist.studies.training.verdicts import judge_as_good, judge_more, judge_overall

# ---- What ------------------------------------------------------------------------------------------------------------

MEASURE = RETURN
"""The raw score, by game and over all games; ACB stands beside the other learners."""

# ---- Settings --------------------------------------------------------------------------------------------------------

SCALES = {
    "smoke": smoke_games(GAMES[0], learners=("acb", "rnd", RANDOM)),
    "laptop": LAPTOP,
    "paper": TrainingSettings(games(EIGHT_GAMES, FULL_STEPS)),
}
"""The laptop's runs are those of the study ``atari``, and those of Figure 6 are these: ``--runs`` trains them once."""

# ---- Verdict ---------------------------------------------------------------------------------------------------------


def judge(rows: Sequence[Row]) -> list[Verdict]:
    """On every game whether it plays better than at random, and at least as well as each bonus; then over all games."""
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    rivals = [learner for learner in learners if learner not in ("acb", RANDOM)]
    result: list[Verdict] = []
    for game in dict.fromkeys(row["task"] for row in rows):
        acb = known(rows, game, "acb", "return")
        if RANDOM in learners:
            claim = f"{game}: an agent trained on ACB's bonuses alone scores more than an untrained one"
            result.append(judge_more(claim, acb, known(rows, game, RANDOM, "return")))
        for rival in rivals:
            claim = f"{game}, bonuses alone: ACB scores at least as much as {rival.upper()}"
            result.append(judge_as_good(claim, acb, known(rows, game, rival, "return")))
    scores = scores_by_learner(rows, "return")
    for rival in rivals:
        claim = f"all games, bonuses alone: ACB's score is competitive with {rival.upper()}'s"
        result.append(judge_overall(claim, scores.get("acb", []), scores.get(rival, []), rng=bootstrap_generator()))
    return result


STUDY = game_study(SCALES, MEASURE, judge)
