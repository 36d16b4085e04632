"""Which sizes of ensemble are compared on which games, at three scales that differ only in numbers."""

from collections.abc import Mapping
from typing import Any

from optimist.bonuses.presets import DEFAULT
from optimist.studies.atari import settings as atari
from optimist.studies.figure5.settings import FULL_STEPS, SHORT_EPISODES
from optimist.studies.games import EIGHT_GAMES
from optimist.studies.training_tasks import TrainingSettings, smoke, with_variants

SIZES = (8, 32, 128, 512)
"""The text names none but 128."""


def learner_of(size: int) -> str:
    """The name of the learner with ``size`` regressors; plain ``acb`` for its default, whose runs others share."""
    return "acb" if size == DEFAULT.ensemble_size else f"acb-{size}"


def size_of(learner: str) -> int:
    """The number of regressors of a learner."""
    return DEFAULT.ensemble_size if learner == "acb" else int(learner.rpartition("-")[2])


def ensembles(*sizes: int) -> Mapping[str, Mapping[str, Any]]:
    """What makes a learner of each size out of ``acb``."""
    options = {size: (f"ensemble_size={size}",) for size in sizes if size != DEFAULT.ensemble_size}
    return {learner_of(size): {"bonus_options": options[size]} if size in options else {} for size in sizes}


LAPTOP = atari.SCALES["laptop"]
SCALES = {
    "smoke": smoke(
        *(
            with_variants(task, "acb", ensembles(2, 128))
            for task in atari.games(atari.GAMES[:1], 32, steps=8, warm_up_steps=0, env_options=SHORT_EPISODES)
        )
    ),
    # One game and three sizes; the runs of the middle one are those of the study ``atari``.
    "laptop": TrainingSettings((with_variants(LAPTOP.tasks[0], "acb", ensembles(8, 128, 512)),), LAPTOP.seeds),
    "paper": TrainingSettings(
        tuple(with_variants(task, "acb", ensembles(*SIZES)) for task in atari.games(EIGHT_GAMES, FULL_STEPS))
    ),
}
