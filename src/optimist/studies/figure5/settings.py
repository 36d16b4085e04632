"""Which games are played without reward and for how long, at three scales that differ only in numbers.

The laptop's runs are those of the study ``atari``, and the runs of Figure 6 are these: ``--runs`` plays them once.
"""

from optimist.studies.atari import settings as atari
from optimist.studies.games import EIGHT_GAMES
from optimist.studies.training_tasks import TrainingSettings, smoke

FULL_STEPS = atari.REFERENCE_FRAMES // atari.SKIP
"""RND's budget: the paper does not state its own."""
SHORT_EPISODES = ("num_threads=1", "max_episode_steps=6")
"""At the smallest scale games are cut off, so that some end."""

SCALES = {
    "smoke": smoke(
        *atari.games(
            atari.GAMES[:1], 32, ("acb", "rnd", "random"), steps=8, warm_up_steps=0, env_options=SHORT_EPISODES
        )
    ),
    "laptop": atari.SCALES["laptop"],
    "paper": TrainingSettings(atari.games(EIGHT_GAMES, FULL_STEPS)),
}
