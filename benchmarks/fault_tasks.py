"""The small runs of the fault campaign: every kind of environment, and most bonuses."""

from dataclasses import replace

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from optimist.training.config import TrainConfig

ROLLOUT, ROLLOUTS = 64, 40
SEA = TrainConfig(
    env="DeepSea-6", bonus="acb", bonus_options=("ensemble_size=8", "sketch_size=4"), n_envs=4, steps=ROLLOUT // 4,
    epochs=1, minibatches=2, learning_rate=1e-3, value_scale_rate=0.1, width=16, warm_up_steps=32,
    total_steps=ROLLOUTS * ROLLOUT, checkpoint_every=3 * ROLLOUT, restart_every=7 * ROLLOUT // 4,
    checkpoint_minutes=0.002, device="cpu", threads=1,
)  # fmt: skip
TASKS = {
    "sea": SEA,  # ours: its state is saved
    "lake": replace(SEA, env="FrozenLake-8x8", bonus="count", bonus_options=()),
    "lock": replace(SEA, env="CombinationLock", bonus="elliptical", bonus_options=()),
    "pole": replace(SEA, env="envpool:CartPole-v1", bonus="rnd", bonus_options=("n_features=16",)),
    "key": replace(SEA, env="envpool:MiniGrid-DoorKey-5x5-v0", bonus="acb*episodic-count",
                   bonus_options=("acb.ensemble_size=8", "acb.sketch_size=4")),
    "rooms": replace(SEA, env="MiniGrid-MultiRoom-N2-S4-v0", env_options=("level=0",), bonus="e3b", bonus_options=()),
    "car": replace(SEA, env="gymnasium:MountainCarContinuous-v0", bonus="icm", bonus_options=()),
    "own": replace(SEA, env="fault_tasks:corridor", bonus="count", bonus_options=()),
}  # fmt: skip


class Corridor(gymnasium.Env):
    """A user's own environment: ten cells, a step to the right fails now and then, the last cell pays and ends."""

    observation_space = gymnasium.spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """The first cell."""
        super().reset(seed=seed)
        self.cell = self.time = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        """One cell further, or back."""
        self.cell = max(0, self.cell + (1 if action == 1 and self.np_random.random() < 0.9 else -1))
        self.time += 1
        return np.full(1, self.cell / 10, np.float32), float(self.cell == 10), self.cell == 10, self.time == 60, {}


def corridor(count: int) -> SyncVectorEnv:
    """``count`` corridors whose step after an end only resets."""
    return SyncVectorEnv([Corridor] * count, autoreset_mode=AutoresetMode.NEXT_STEP)
