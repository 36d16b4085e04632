"""DeepSea: a grid where a treasure lies at the end of one path among 2^N, N environments at once."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from optimist.bonuses.actions import DiscreteActions
from optimist.bonuses.observations import Discrete
from optimist.checks import require_count
from optimist.training.environments.protocol import (
    Layout,
    Step,
    replaced,
    require_choices,
    require_integers,
)

MOVE_COST = 0.01  # of a whole episode of moves to the right: the best return is 1 - 0.01


class DeepSea:
    """``n_envs`` deep seas of ``size`` x ``size`` cells. Deterministic.

    An episode starts at the top left and goes one row down with every step, one column to the right or to the left
    (never out of the grid). Which of the two actions means "right" is drawn once for every cell from ``mapping_seed``,
    the seed of the problem, not of the run. Right costs ``0.01 / size``; right in the last column, which only the path
    of all rights reaches, with its last step, pays 1. Observed is the cell's index, row * size + column, and after the
    last row size * size (bsuite's all-zero observation).

    Paper: Osband et al., Behavior Suite for RL (bsuite), "deep sea", mapping seed 42 as its sweep has it.
    """

    success_return = 0.5
    observation_dtype = np.dtype(np.int64)

    def __init__(self, size: int, *, n_envs: int, mapping_seed: int = 42) -> None:
        if size < 2:
            raise ValueError(f"DeepSea needs a size of at least 2, got {size}: pass e.g. DeepSea-10")
        self.size, self.n_envs = size, require_count("n_envs", n_envs)
        self.observation_shape = Discrete(size * size + 1)
        self.actions = DiscreteActions(2)
        # bsuite's own generator and draw, so that the problem is cell for cell the published one
        self.rightwards = np.random.RandomState(mapping_seed).binomial(1, 0.5, (size, size))
        self._row = np.zeros(self.n_envs, np.int64)
        self._column = np.zeros(self.n_envs, np.int64)

    def layout(self) -> Layout:
        """The cells that can be reached are those on and below the diagonal; the treasure lies at its end."""
        rows = ["." * (row + 1) + "#" * (self.size - row - 1) for row in range(self.size)]
        return ("S" + rows[0][1:], *rows[1:-1], rows[-1][:-1] + "G")

    def set_part(self, first: int, total: int) -> None:
        """Nothing here is random: a part plays as it would among all."""

    def reset(self, seed: int) -> np.ndarray:
        """The top left cell everywhere: nothing here is random, so ``seed`` is not read."""
        self._row = np.zeros(self.n_envs, np.int64)
        self._column = np.zeros(self.n_envs, np.int64)
        return self._observations()

    def step(self, actions: np.ndarray) -> Step:
        """One row down, one column to the side."""
        actions = require_choices(actions, n_envs=self.n_envs, choices=2)
        right = actions == self.rightwards[self._row, self._column]
        treasure = right & (self._column == self.size - 1)
        rewards = (treasure - right * (MOVE_COST / self.size)).astype(np.float32)
        self._column = np.clip(self._column + np.where(right, 1, -1), 0, self.size - 1)
        self._row = self._row + 1
        ended, truncated = self._row == self.size, np.zeros(self.n_envs, bool)
        places = np.stack([np.where(ended, -1, self._row), self._column], axis=1)
        next_observations = observations = self._observations()
        if ended.any():
            self._row[ended] = self._column[ended] = 0
            observations = replaced(next_observations, ended, self._observations()[ended])
        return Step(observations, next_observations, rewards, ended, truncated, places=places)

    def state_dict(self) -> dict[str, Any]:
        """The cells."""
        return {"row": self._row.copy(), "column": self._column.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> np.ndarray:
        """The observations of the saved cells."""
        row = require_integers(state["row"], n_envs=self.n_envs, below=self.size, name="row")
        column = require_integers(state["column"], n_envs=self.n_envs, below=self.size, name="column")
        self._row, self._column = row, column
        return self._observations()

    def close(self) -> None:
        """Nothing to release."""

    def _observations(self) -> np.ndarray:
        return np.where(self._row < self.size, self._row * self.size + self._column, self.size * self.size)
