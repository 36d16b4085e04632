"""Environments that write down what truly happened, and what a bonus of a user's own must then have answered."""

from collections import Counter, defaultdict

import gymnasium
import numpy as np

Log = list[tuple[int, float | None]]
"""What happened in its order: the number of an environment and the state that a step led to, None for a reset."""

PLACES, LIMIT = 4, 7


class Wanderer(gymnasium.Env):
    """A walk on a ring of four places by the digit played. Ends on a whim of the walk, or is cut after seven steps."""

    observation_space = gymnasium.spaces.Box(0, PLACES, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(3)

    def __init__(self, number: int, log: Log):
        self.number, self.log, self.whims = number, log, np.random.default_rng(number)
        self.place = self.time = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.time = 0
        self.log.append((self.number, None))
        return self._observed(), {}

    def step(self, action):
        self.place = (self.place + int(action)) % PLACES
        self.time += 1
        self.log.append((self.number, float(self.place)))
        terminated = bool(self.whims.random() < 0.1)
        return self._observed(), 0.0, terminated, self.time == LIMIT and not terminated, {}

    def _observed(self):
        return np.array([self.place], np.float32)


def answers(log: Log, bonus: str) -> dict[int, list[float]]:
    """The bonuses of every environment's steps, in order: of `own_bonuses.Revisits` ("episodic") or `Census`."""
    visited: defaultdict[int, Counter[float]] = defaultdict(Counter)
    found: defaultdict[int, list[float]] = defaultdict(list)
    for number, place in log:
        key = number if bonus == "episodic" else -1
        if place is not None:
            visited[key][place] += 1
            found[number].append(1 / visited[key][place])
        elif bonus == "episodic":
            visited[number].clear()
    return dict(found)
