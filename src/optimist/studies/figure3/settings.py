"""Which features are compared on which games, at three scales that differ only in numbers."""

from optimist.studies.atari import settings as atari
from optimist.studies.figure5.settings import FULL_STEPS, SHORT_EPISODES
from optimist.studies.games import EIGHT_GAMES
from optimist.studies.training_tasks import TrainingSettings, smoke, with_variants

FEATURES = {"acb": {}, "acb-penultimate": {"bonus_options": ("features=penultimate",)}}
"""``acb`` itself has sketched gradients (docs/deviations.md, D9); both have the same exact solver."""

LAPTOP = atari.SCALES["laptop"]
SCALES = {
    "smoke": smoke(
        *(
            with_variants(task, "acb", FEATURES)
            for task in atari.games(atari.GAMES[:1], 32, steps=8, warm_up_steps=0, env_options=SHORT_EPISODES)
        )
    ),
    # One game; the runs of ``acb`` are those of the study ``atari``: --runs takes them from there.
    "laptop": TrainingSettings((with_variants(LAPTOP.tasks[0], "acb", FEATURES),), LAPTOP.seeds),
    "paper": TrainingSettings(
        tuple(with_variants(task, "acb", FEATURES) for task in atari.games(EIGHT_GAMES, FULL_STEPS))
    ),
}
