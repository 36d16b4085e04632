"""Which games are played with bonus and reward and for how long, at three scales that differ only in numbers."""

from typing import Any

from optimist.studies.atari import settings as atari
from optimist.studies.figure5.settings import FULL_STEPS, SHORT_EPISODES
from optimist.studies.games import EIGHT_GAMES
from optimist.studies.training_tasks import REPORTED_SEEDS, Task, TrainingSettings, smoke

LEARNERS = ("acb", "rnd")
GAMES = ("Breakout-v5", "Gravitar-v5")
"""One game with dense rewards, and one of those that the paper calls hard to explore, whose episodes are short."""


def joint(names: tuple[str, ...], total_steps: int, **changes: Any) -> tuple[Task, ...]:
    """The games with their rewards: advantages 2 x extrinsic + 1 x intrinsic, as RND and the released code."""
    return atari.games(names, total_steps, LEARNERS, extrinsic_weight=2.0, intrinsic_weight=1.0, **changes)


SCALES = {
    "smoke": smoke(*joint(GAMES[:1], 32, steps=8, warm_up_steps=0, env_options=SHORT_EPISODES)),
    "laptop": TrainingSettings(joint(GAMES, atari.LAPTOP_STEPS, **atari.LAPTOP_NUMBERS), REPORTED_SEEDS[:3]),
    "paper": TrainingSettings(joint(EIGHT_GAMES, FULL_STEPS)),
}
