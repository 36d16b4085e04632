"""The paper's Atari games: how they are trained without reward, and the units in which their scores can be averaged."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.reporting.tables import Row, is_number
from optimist.studies.training.rows import values_of
from optimist.studies.training.tasks import RANDOM, REPORTED_SEEDS, Task, TrainingSettings, smoke

Array = NDArray[np.float64]

LEARNERS = ("acb", "rnd", "icm", RANDOM)
SKIP = 4
"""Frames per step."""
REFERENCE_FRAMES = 2_000_000_000
"""The budget of RND's table. The paper takes RND's settings and does not state its own budget in words."""
FULL_STEPS = REFERENCE_FRAMES // SKIP
LAPTOP_STEPS = 500_000
"""Two million frames: 12 to 18 minutes of one core per run."""
JOINT_STEPS = 200_000
"""The same with the rewards on, for more runs in a day: 800,000 frames, 4e-4 of RND's."""
SHORT_RUNS: dict[str, Any] = {
    "n_envs": 8,
    "steps": 64,
    "learning_rate": 5e-4,
    "clip": 0.2,
    "entropy_weight": 0.01,
    "normalize_advantages": True,
    "max_gradient_norm": 0.5,
    "warm_up_steps": 256,
    "mixing": "balanced",
}
"""PPO with small rollouts and large steps. With RND's own numbers a policy has not left its start after so few steps:
on a tuning seed of Breakout the KL divergence of a rollout stayed below 1e-4, here it is 0.003."""
LAPTOP_NUMBERS: dict[str, Any] = SHORT_RUNS | {"n_envs": 32, "epochs": 2, "precision": "auto", "mixing": "rnd"}
"""The same in rollouts of 2,048 steps, with half of the passes, and the trunk in bfloat16 where a machine has it, for
speed: how they were chosen is in docs/experiment_log.md, session 13. Task and bonus are weighed by RND's mix, as in
the paper: the balanced one takes the bonus away where half of the games pay."""
JOINT: dict[str, Any] = {"extrinsic.weight": 2.0, "intrinsic.weight": 1.0}
"""With their rewards: advantages are 2 x extrinsic + 1 x intrinsic, as in RND and the released code."""
VISITED = {"unique_states": "states", "unique_cells": "coarse cells"}
"""Counts of what was visited and their words: frames that differ in a pixel, and those that differ seen coarsely."""
SHORT_EPISODES = ("num_threads=1", "max_episode_steps=6")
"""At the smallest scale games are cut off, so that some end."""

GAMES = ("Breakout-v5", "PrivateEye-v5")
LAPTOP_GAMES = ("Breakout-v5", "Qbert-v5", "PrivateEye-v5", "Gravitar-v5")
PAPER_GAMES = (*GAMES, "Qbert-v5", "Pitfall-v5", "Gravitar-v5")
"""The games that the paper names; it played eight."""
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
"""A random player's score and a human's (Wang et al. 2016, table 2): what rliable normalizes with."""


def games(
    names: tuple[str, ...], total_steps: int, learners: tuple[str, ...] = LEARNERS, **changes: Any
) -> tuple[Task, ...]:
    """The games without reward; EnvPool on one core, for runs are played side by side."""
    fields: dict[str, Any] = {"extrinsic.weight": 0.0, "env_options": ("num_threads=1",)} | changes
    own = {RANDOM: {"epochs": 1}} if RANDOM in learners else {}  # what learns nothing need not try four times
    return tuple(Task(name.removesuffix("-v5"), name, total_steps, learners, fields, own) for name in names)


def smoke_games(*names: str, learners: tuple[str, ...] = LEARNERS, **changes: Any) -> TrainingSettings:
    """The games cut short, for a few rollouts."""
    short = {"steps": 8, "warm_up_steps": 0, "env_options": SHORT_EPISODES}
    return smoke(*games(names, 32, learners, **short | changes))


LAPTOP = TrainingSettings(
    games(LAPTOP_GAMES, LAPTOP_STEPS, ("acb", "rnd", RANDOM), **LAPTOP_NUMBERS), REPORTED_SEEDS[:3]
)
"""The runs of Figures 5 and 6. The study ``atari`` has these and more, 3 and 4 some of them: ``--runs`` trains them
once. ICM is left to the paper's scale, or to ``--bonus icm``."""


def frames(steps: int) -> str:
    """A number of steps in frames, beside RND's budget, in words."""
    return f"{steps * SKIP:,} frames, {steps * SKIP / REFERENCE_FRAMES:.2g} of RND's {REFERENCE_FRAMES:.0e}"


def scores_by_learner(rows: Sequence[Row], column: str) -> dict[str, list[Array]]:
    """Each learner's values of ``column``, one array per game, in units that all games share.

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


def visited(rows: Sequence[Row]) -> dict[str, str]:
    """Those of `VISITED` that all rows have a number for: runs of 0.1.0 have no coarse cells."""
    return {name: words for name, words in VISITED.items() if all(is_number(row.get(name)) for row in rows)}


def human(game: str) -> tuple[float, float]:
    """A random player's score of ``game`` and a human's."""
    if game not in HUMAN:
        raise ValueError(f"no human score of {game} is known, only of {', '.join(HUMAN)}: add it to HUMAN")
    return HUMAN[game]


def known(rows: Sequence[Row], task: str, learner: str, column: str) -> list[float]:
    """The values of one condition that are numbers: a run in which no episode ended has no return."""
    return [value for value in values_of(rows, task, learner, column) if math.isfinite(value)]
