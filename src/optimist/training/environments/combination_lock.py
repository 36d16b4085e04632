"""The bidirectional combination lock: two long locks side by side, the nearer reward in the poorer one."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from optimist.bonuses.actions import DiscreteActions
from optimist.checks import require_count
from optimist.seeding import split
from optimist.training.environments.protocol import (
    Step,
    replaced,
    require_choices,
    require_integers,
)

ACTIONS = 10
RICH, POOR = 5.0, 2.0  # what the last step of a lock pays
COST = 1.0  # of a whole lock of right steps: the anti-shaped reward, that says "stop here"
SWAP = 0.5  # how often a right step changes the chain
DEAD = 2  # the chain that is never left


class CombinationLock:
    """``n_envs`` pairs of locks. An episode has ``horizon`` steps: the choice of a lock, then ``horizon - 1`` in it.

    The first action enters lock 0 (below 5) or lock 1, on one of two chains, by a fair coin. On a chain one of the ten
    actions is right, drawn anew for every step: it costs ``1 / (horizon - 2)`` and goes on, on the other chain half of
    the time; any other leads to a dead chain, where nothing costs or pays. The right last action pays 5 in one lock and
    2 in the other, so that the best returns are 4 and 1: success is the rich lock opened, a return above 2.5.

    Observed: one-hot chain (3), one-hot time in the lock (horizon), the zeros that the original keeps for noise
    (horizon - 1), the lock (1); all zero before the choice.

    Paper: Agarwal et al. 2020 (PC-PG), section 7; its released environment ``diabcombolockhallway`` without noise, with
    its horizons 6, 11 and 16. ``problem_seed`` draws the very locks that the seed of a run draws there (odd: lock 1 is
    the rich one); here the seed of the run only tosses the coins.
    """

    success_return = (RICH + POOR) / 2 - COST
    observation_dtype = np.dtype(np.float32)

    def __init__(self, *, n_envs: int, horizon: int = 11, problem_seed: int = 1) -> None:
        if horizon < 3:
            raise ValueError(f"horizon must be at least 3 (a choice and a lock of two steps), got {horizon}")
        self.n_envs, self.horizon = require_count("n_envs", n_envs), horizon
        self.observation_shape = (2 * horizon + 3,)
        self.actions = DiscreteActions(ACTIONS)
        self._codes = np.stack([_codes(problem_seed, horizon - 1), _codes(10 * problem_seed, horizon - 1)])
        self._prizes = np.array([POOR, RICH] if problem_seed % 2 else [RICH, POOR])
        self._lock, self._chain, self._time = np.zeros((3, self.n_envs), np.int64)
        self._rng = np.random.default_rng(split(0, "environments"))
        self.set_part(0, self.n_envs)

    def set_part(self, first: int, total: int) -> None:
        """Toss the coins of all ``total`` environments, and keep those of these."""
        self._part, self._total = slice(first, first + self.n_envs), total

    def reset(self, seed: int) -> np.ndarray:
        """The state before the choice, everywhere, with the coins of ``seed``."""
        self._lock, self._chain, self._time = np.zeros((3, self.n_envs), np.int64)
        self._rng = np.random.default_rng(split(seed, "environments"))
        return self._observations()

    def step(self, actions: np.ndarray) -> Step:
        """The choice of a lock, or one step in it."""
        actions = require_choices(actions, n_envs=self.n_envs, choices=ACTIONS)
        coin = self._rng.random(self._total)[self._part] < SWAP
        choosing, last = self._time == 0, self._time == self.horizon - 1
        code = self._codes[self._lock, np.minimum(self._chain, 1), self._time - 1]
        right = ~choosing & (self._chain != DEAD) & (actions == code)
        paid = np.where(last, self._prizes[self._lock], -COST / (self.horizon - 2))
        self._lock = np.where(choosing, actions >= ACTIONS // 2, self._lock).astype(np.int64)
        self._chain = np.where(choosing, coin, np.where(right, self._chain ^ coin, DEAD))
        self._time = self._time + 1
        truncated = np.zeros(self.n_envs, bool)
        next_observations = observations = self._observations()
        if last.any():
            self._lock[last] = self._chain[last] = self._time[last] = 0
            observations = replaced(next_observations, last, np.zeros(self.observation_shape))
        return Step(observations, next_observations, np.where(right, paid, 0).astype(np.float32), last, truncated)

    def state_dict(self) -> dict[str, Any]:
        """Where every environment is, and the coins to come."""
        rng = json.dumps(self._rng.bit_generator.state)
        return {"lock": self._lock.copy(), "chain": self._chain.copy(), "time": self._time.copy(), "rng": rng}

    def load_state_dict(self, state: Mapping[str, Any]) -> np.ndarray:
        """The observations of the saved places."""
        lock = require_integers(state["lock"], n_envs=self.n_envs, below=2, name="lock")
        chain = require_integers(state["chain"], n_envs=self.n_envs, below=3, name="chain")
        time = require_integers(state["time"], n_envs=self.n_envs, below=self.horizon, name="time")
        self._rng.bit_generator.state = json.loads(state["rng"])
        self._lock, self._chain, self._time = lock, chain, time
        return self._observations()

    def close(self) -> None:
        """Nothing to release."""

    def _observations(self) -> np.ndarray:
        observations = np.zeros((self.n_envs, *self.observation_shape), np.float32)
        inside = np.flatnonzero(self._time)
        observations[inside, self._chain[inside]] = 1
        observations[inside, 3 + self._time[inside] - 1] = 1
        observations[inside, -1] = self._lock[inside]
        return observations


def _codes(seed: int, length: int) -> np.ndarray:
    """The right actions of a lock's two chains, as PC-PG draws them, (2, length)."""
    rng = np.random.RandomState(seed)  # its generator, so that the locks are the published ones
    return np.stack([rng.randint(0, ACTIONS, length), rng.randint(0, ACTIONS, length)])
