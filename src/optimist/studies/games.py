"""The paper's Atari games, and the units in which scores of different games can be averaged."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optimist.reporting.tables import Row
from optimist.studies.atari.settings import PAPER_GAMES
from optimist.studies.training_rows import values_of

Array = NDArray[np.float64]

EIGHT_GAMES = (*PAPER_GAMES, "BeamRider-v5", "Seaquest-v5", "SpaceInvaders-v5")
"""The paper names five of its eight games. The other three are ours: the released code offers them, and the paper says
that its remaining games are of the table of Mnih et al., which has these."""

HUMAN: dict[str, tuple[float, float]] = {
    "Breakout": (1.7, 30.5),
    "PrivateEye": (24.9, 69_571.3),
    "Qbert": (163.9, 13_455.0),
    "Pitfall": (-229.4, 6_463.7),
    "Gravitar": (173.0, 3_351.4),
    "BeamRider": (363.9, 16_926.5),
    "Seaquest": (68.4, 42_054.7),
    "SpaceInvaders": (148.0, 1_668.7),
}
"""A random player's score and a human's (Wang et al. 2016, table 2): what rliable normalises with."""


def scores_by_learner(rows: Sequence[Row], column: str) -> dict[str, list[Array]]:
    """Each learner's values of ``column``, an array a game, in units that all games share.

    Returns are 0 for a random player and 1 for a human; other measures are divided by the game's mean over all runs.
    Games that some learner has no value for are left out: its average would be over other games.
    """
    learners = list(dict.fromkeys(row["learner"] for row in rows))
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    result: dict[str, list[Array]] = {learner: [] for learner in learners}
    for task in tasks:
        values = {learner: np.array(known(rows, task, learner, column)) for learner in learners}
        if any(len(mine) == 0 for mine in values.values()):
            continue
        low, high = human(task) if column == "return" else (0.0, float(np.concatenate(list(values.values())).mean()))
        for learner, mine in values.items():
            result[learner].append((mine - low) / (high - low or 1.0))
    return {learner: scores for learner, scores in result.items() if scores}


def human(game: str) -> tuple[float, float]:
    """A random player's score of ``game`` and a human's."""
    if game not in HUMAN:
        raise ValueError(f"no human score of {game} is known, only of {', '.join(HUMAN)}: add it to HUMAN")
    return HUMAN[game]


def known(rows: Sequence[Row], task: str, learner: str, column: str) -> list[float]:
    """The values of one condition that are numbers: a run in which no episode ended has no return."""
    return [value for value in values_of(rows, task, learner, column) if math.isfinite(value)]
