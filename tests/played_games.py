"""Games with a known curve for the tests of what is drawn of them."""

import numpy as np

from optimist.training.playback import Game


def game_of(bonuses, *, ends=(), truncated=(), observations=None, rewards=None, familiar=None):
    """A game with the given bonuses, whose episodes end by termination at ``ends``, or were ``truncated``."""
    steps = len(bonuses)
    return Game(
        observations=np.zeros(steps, np.int64) if observations is None else np.asarray(observations),
        actions=np.arange(steps) % 3,
        curve=np.asarray(bonuses, np.float64),
        rewards=np.zeros(steps) if rewards is None else np.asarray(rewards, np.float64),
        terminated=np.isin(np.arange(steps), ends),
        truncated=np.isin(np.arange(steps), truncated),
        familiar=None if familiar is None else np.asarray(familiar, bool),
    )


def saw_game(episodes=4, length=25):
    """A bonus that rises from 1 to 2 within every episode of ``length`` steps, each a hair below the one before."""
    bonuses = np.tile(np.linspace(1, 2, length), episodes) - 1e-5 * np.repeat(np.arange(episodes), length)
    rewards = np.tile(np.arange(length) == length // 2, episodes)
    observations = np.tile(np.arange(length), episodes)
    ends = np.arange(1, episodes + 1) * length - 1
    return game_of(bonuses, ends=ends, observations=observations, rewards=rewards)
