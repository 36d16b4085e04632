"""Stable-Baselines3's PPO on CartPole without and with a bonus: what `bench_adapters` times side by side."""

from collections.abc import Callable
from functools import partial
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import Logger

from optimist.adapters.sb3 import BonusCallback, BonusVecEnv

ENVIRONMENTS, STEPS = 8, 128
ITERATION = ENVIRONMENTS * STEPS
"""Steps of one call, of all environments."""


def overhead_case(*, quick: bool = False) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One rollout and its update: PPO alone, and with the callback, ACB on the live policy."""
    return ppo(quick), ppo(quick, callback=BonusCallback("acb"))


def wrapper_case(*, quick: bool = False) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The same with the wrapper: RND scores every step as it comes and learns once in ``ITERATION`` steps."""
    return ppo(quick), ppo(quick, wrapped=True)


def ppo(quick: bool, *, callback: BonusCallback | None = None, wrapped: bool = False) -> Callable[[], Any]:
    """A function that trains for one more iteration; it logs to nowhere."""
    steps = 8 if quick else STEPS
    venv = make_vec_env("CartPole-v1", ENVIRONMENTS, seed=0)
    if wrapped:
        venv = BonusVecEnv(venv, "rnd", learning_starts=0, train_every=ENVIRONMENTS * steps)
    model = PPO("MlpPolicy", venv, n_steps=steps, batch_size=ENVIRONMENTS * steps // 4, seed=0, device="cpu")
    model.set_logger(Logger(None, []))
    return partial(model.learn, ENVIRONMENTS * steps, callback=callback, reset_num_timesteps=False)
