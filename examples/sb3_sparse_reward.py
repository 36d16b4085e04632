"""Stable-Baselines3 on a sparse reward: PPO alone, and the same PPO with one callback.

The task is a corridor of doors: in each of 16 rooms one of two doors leads on and the other back to the start, and only
the last room pays. Of 65,536 tries at random one gets there.

python examples/sb3_sparse_reward.py
Needs: pip install 'optimist[sb3]'
"""

import sys

import gymnasium
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env

from optimist.adapters.sb3 import BonusCallback

ROOMS = 16


class Doors(gymnasium.Env):
    """One of two doors leads on, the other back to the first room; the last room pays 1 and ends the episode."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Discrete(ROOMS + 1)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.right_door = np.random.default_rng(7).integers(2, size=ROOMS)
        self.room = self.time = 0

    def reset(self, *, seed=None, options=None):
        """Back to the first room."""
        super().reset(seed=seed)
        self.room = self.time = 0
        return self.room, {}

    def step(self, action):
        """Through one of the two doors."""
        self.room = self.room + 1 if action == self.right_door[self.room] else 0
        self.time += 1
        arrived = self.room == ROOMS
        return self.room, float(arrived), arrived, self.time == 2 * ROOMS, {}


def mean_return(callback: BonusCallback | None, steps: int) -> float:
    """The mean return of the last 100 episodes of training."""
    env = make_vec_env(Doors, 16, seed=0)
    model = PPO("MlpPolicy", env, n_steps=48, batch_size=192, n_epochs=4, learning_rate=1e-3, seed=0, device="cpu")
    model.learn(steps, callback=callback)
    return float(np.mean([episode["r"] for episode in model.ep_info_buffer]))


def main() -> None:
    """Train twice and print both returns."""
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 30_000
    print(f"PPO alone:    mean return {mean_return(None, steps):.2f}")
    print(f"PPO with ACB: mean return {mean_return(BonusCallback('acb', weight=1.0), steps):.2f}")


if __name__ == "__main__":
    main()
