"""Which games are learned and how long they are watched, at three scales that differ only in numbers."""

from dataclasses import dataclass, replace

from optimist.studies.atari.settings import LAPTOP_NUMBERS, LAPTOP_STEPS, REFERENCE_FRAMES, SKIP, games
from optimist.studies.training_tasks import REPORTED_SEEDS, TrainingSettings, smoke

GAMES = ("Breakout-v5", "Qbert-v5")
LEARNERS = ("acb",)


@dataclass(frozen=True)
class Figure1Settings:
    """The runs, and how each agent is watched afterwards: ``steps`` in each of ``environments``."""

    training: TrainingSettings
    steps: int
    environments: int


SHORT = ("num_threads=1", "max_episode_steps=20")  # so that episodes end within seconds

SCALES = {
    "smoke": Figure1Settings(
        replace(
            smoke(*games(GAMES, 32, LEARNERS, steps=8, warm_up_steps=0, env_options=SHORT)), seeds=REPORTED_SEEDS[:1]
        ),
        steps=45,
        environments=1,
    ),
    # The budget of the atari study at this scale: its runs of Breakout are these.
    "laptop": Figure1Settings(
        TrainingSettings(games(GAMES, LAPTOP_STEPS, LEARNERS, **LAPTOP_NUMBERS), REPORTED_SEEDS[:3]),
        steps=1000,
        environments=4,
    ),
    "paper": Figure1Settings(
        TrainingSettings(games(GAMES, REFERENCE_FRAMES // SKIP, LEARNERS)), steps=1000, environments=8
    ),
}
