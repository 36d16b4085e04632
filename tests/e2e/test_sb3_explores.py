"""Stable-Baselines3 on DeepSea: PPO alone never finds the treasure, with the bonus it does, by either adapter."""

import pytest

pytest.importorskip("stable_baselines3")

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback, CallbackList

from optimist.adapters.sb3 import BonusCallback, BonusVecEnv
from sb3_tasks import DeepSeaVecEnv

SIZE = 12
STEPS = 24_000
"""2,000 episodes of 12 steps. Uniform play takes the one path of 2^12 at least once in 1 - (1 - 2^-12)^2000 = 39 % of
such runs: a bound on PPO's luck, not its chance, for it soon learns that moves to the right cost something and hardly
plays them, and it would have to solve the task from that one find. Seeds 0 to 3: PPO alone found nothing in its last
hundred episodes in all four; the callback solved all four in 11,344 to 19,216 steps, the wrapper in 11,920 to 13,648.
"""


class Solved(BaseCallback):
    """Ends training when nine of ten of the last hundred episodes found the treasure."""

    def _on_step(self):
        last = [episode["r"] > 0.5 for episode in self.model.ep_info_buffer]
        self.reached = len(last) == 100 and sum(last) >= 90
        return not self.reached


def solves(wrap=lambda venv: venv, callbacks=()):
    venv = wrap(DeepSeaVecEnv(SIZE, 16))
    options = {"n_steps": 2 * SIZE, "batch_size": 32 * SIZE, "n_epochs": 4, "learning_rate": 1e-3}
    solved = Solved()
    PPO("MlpPolicy", venv, seed=0, device="cpu", **options).learn(STEPS, CallbackList([*callbacks, solved]))
    return solved.reached


def test_ppo_alone_fails():
    assert not solves()


def test_ppo_with_the_callback_solves():
    settings = {"sketch_size": 12, "ensemble_size": 64}
    assert solves(callbacks=[BonusCallback("acb", weight=1.0, settings=settings)])


def test_ppo_with_the_wrapper_solves():
    schedule = {"learning_starts": 0, "train_every": 16 * SIZE}
    assert solves(lambda venv: BonusVecEnv(venv, "count", weight=0.2, **schedule))
