"""The smallest hosts there are: a lock that chance does not open, a counter that tells its steps, a tabular learner."""

from collections.abc import Callable

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv

LENGTH, DIGITS = 7, 4


class Lock(gymnasium.Env):
    """LENGTH states in a row. The state's own digit leads on, the others back to the start; the last pays ``prize``.

    An episode has LENGTH steps, so that random play opens it once in 4^7 = 16,384 episodes.
    """

    observation_space = gymnasium.spaces.Discrete(LENGTH + 1)
    action_space = gymnasium.spaces.Discrete(DIGITS)
    digits = np.random.default_rng(7).integers(DIGITS, size=LENGTH)

    def __init__(self, prize: float = 1.0):
        self.prize = prize

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.time = 0
        return self.place, {}

    def step(self, action):
        self.place = self.place + 1 if action == self.digits[self.place] else 0
        self.time += 1
        opened = self.place == LENGTH
        return self.place, self.prize * opened, opened, self.time == LENGTH and not opened, {}


class Counter(gymnasium.Env):
    """Observes its own number times 100 plus the steps of its episode, which ends after 3 + number steps."""

    observation_space = gymnasium.spaces.Box(0, 1000, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (2, 3), np.float32)

    def __init__(self, number: int = 0, *, as_dict: bool = False):
        self.number, self.as_dict = number, as_dict
        if as_dict:
            image = gymnasium.spaces.Box(0, 255, (40, 40, 3), np.uint8)
            self.observation_space = gymnasium.spaces.Dict({"count": Counter.observation_space, "image": image})

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._observed(), {}

    def step(self, action):
        self.time += 1
        ended = self.time == 3 + self.number
        return self._observed(), 1.0, ended and self.number % 2 == 0, ended and self.number % 2 == 1, {}

    def _observed(self):
        count = np.array([100 * self.number + self.time], np.float32)
        if not self.as_dict:
            return count
        return {"count": count, "image": np.full((40, 40, 3), 10 * self.time, np.uint8)}


def vector(make: Callable[[int], gymnasium.Env], count: int, mode: AutoresetMode) -> SyncVectorEnv:
    """``count`` environments, each made from its number."""
    return SyncVectorEnv([lambda k=k: make(k) for k in range(count)], autoreset_mode=mode)


class ActorCritic:
    """A tabular actor-critic: `act` draws from the softmax of its logits, `learn` moves by the error of its values."""

    def __init__(self, states: int, actions: int, *, seed: int):
        self.logits, self.values = np.zeros((states, actions)), np.zeros(states)
        self._rng = np.random.default_rng(seed)

    def act(self, states: np.ndarray) -> np.ndarray:
        return (self._probabilities(states).cumsum(1) < self._rng.random((len(states), 1))).sum(1)

    def learn(self, states, actions, rewards, next_states, terminated) -> None:
        errors = rewards + 0.95 * self.values[next_states] * ~terminated - self.values[states]
        steps = -self._probabilities(states)
        steps[np.arange(len(states)), actions] += 1
        np.add.at(self.logits, states, 1.0 * errors[:, None] * steps)
        np.add.at(self.values, states, 0.2 * errors)

    def _probabilities(self, states: np.ndarray) -> np.ndarray:
        exponents = np.exp(self.logits[states] - self.logits[states].max(1, keepdims=True))
        return 0.9 * exponents / exponents.sum(1, keepdims=True) + 0.1 / exponents.shape[1]
