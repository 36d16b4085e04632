"""Tasks for the tests of the stable-baselines3 adapter: our own environments as a VecEnv, and constructed ones."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from optimist.bonuses import Bonus, Observations, Transitions
from optimist.training.environments.deep_sea import DeepSea


class DeepSeaVecEnv(VecEnv):
    """Deep seas as stable-baselines3 wants them, each episode's return in ``infos["episode"]``."""

    def __init__(self, size: int, count: int):
        self.sea = DeepSea(size, n_envs=count)
        super().__init__(count, spaces.Discrete(size * size + 1), spaces.Discrete(2))
        self.returns = np.zeros(count)

    def reset(self) -> np.ndarray:
        self.returns[:] = 0
        return self.sea.reset(0)

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self):
        step = self.sea.step(self.actions)
        self.returns += step.rewards
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(step.terminated):
            episode = {"r": float(self.returns[i]), "l": self.sea.size}
            infos[i] = {
                "terminal_observation": step.next_observations[i],
                "TimeLimit.truncated": False,
                "episode": episode,
            }
            self.returns[i] = 0
        return step.observations.copy(), step.rewards.copy(), step.terminated, infos

    def close(self) -> None:
        pass

    def get_attr(self, attr_name, indices=None):
        return [None] * self.num_envs

    def set_attr(self, attr_name, value, indices=None):
        raise NotImplementedError

    def env_method(self, method_name, *arguments, indices=None, **named):
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class, indices=None):
        return [False] * self.num_envs


class Recorder(Bonus):
    """A bonus that is the count after the step, and keeps every rollout that it is given."""

    def __init__(self):
        self.computed: list[Transitions] = []
        self.updated: list[Transitions] = []

    def compute(self, transitions: Transitions) -> torch.Tensor:
        self.computed.append(transitions)
        return counts(transitions.next_observations)

    def update(self, transitions: Transitions) -> dict[str, float]:
        self.updated.append(transitions)
        return {"loss": 0.0}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        pass


def counts(observations: Observations) -> torch.Tensor:
    """The count that `Counter` showed. Shapes: (T, N, ...) -> (T, N)."""
    if isinstance(observations, Mapping):
        assert torch.equal(observations["count"], observations["place"][..., 0].long())
        return observations["count"].float()
    return observations.flatten(2)[..., 0].float()


class Counter(gymnasium.Env):
    """Counts its steps; episodes end at ``length``, by termination and truncation in turn; every step pays ``reward``.

    ``kind`` says how the count is observed: a vector, a Dict of a vector and a discrete state, an image (H, W, C).
    """

    def __init__(self, length: int = 3, *, kind: str = "vector", actions: str = "discrete", reward: float = 0.0):
        self.length, self.kind, self.reward, self.count, self.episode = length, kind, reward, 0, 0
        box = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.observation_space = {
            "vector": box,
            "dict": spaces.Dict({"place": box, "count": spaces.Discrete(length + 1)}),
            "image": spaces.Box(0, 255, (40, 48, 3), np.uint8),
        }[kind]
        self.action_space = {
            "discrete": spaces.Discrete(2),
            "multi-discrete": spaces.MultiDiscrete([2, 3]),
            "multi-binary": spaces.MultiBinary(4),
            "box": spaces.Box(-1, 1, (3,), np.float32),
        }[actions]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observation(), {}

    def step(self, action):
        self.count += 1
        ended = self.count == self.length
        terminated = ended and self.episode % 2 == 0
        self.episode += ended
        return self.observation(), self.reward, terminated, ended and not terminated, {}

    def observation(self):
        place = np.array([self.count, self.episode], np.float32)
        if self.kind == "dict":
            return {"place": place, "count": self.count}
        return np.full((40, 48, 3), self.count, np.uint8) if self.kind == "image" else place
