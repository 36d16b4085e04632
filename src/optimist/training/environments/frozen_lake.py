"""FrozenLake without slipping, any map, N environments at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optimist.bonuses.actions import DiscreteActions
from optimist.bonuses.observations import Discrete
from optimist.training.environments.protocol import (
    Step,
    replaced,
    require_choices,
    require_count,
    require_integers,
)

MOVES = np.array([[0, -1], [1, 0], [0, 1], [-1, 0]])  # Gymnasium's order: left, down, right, up


@dataclass(frozen=True)
class Map:
    """A lake: ``rows`` of S (start), F (ice), H (hole), G (goal), and how many steps an episode may have."""

    rows: tuple[str, ...]
    max_episode_steps: int


# The lakes of RLlib's examples/curiosity: 8x8 in count_based_curiosity.py (solved with counts after 194k steps), 12x12
# without holes in intrinsic_curiosity_model_based_curiosity.py (with ICM after 786k). In both the limit is the
# length of a shortest path, so that every step must be right; the reward is plain, 1 at the goal.
MAPS: Mapping[str, Map] = {
    "FrozenLake-8x8": Map(
        ("SFFHFFFH", "FFFHFFFF", "FFFHHFFF", "FFFFFFFH", "HFFHFFFF", "HHFHFFHF", "FFFHFHHF", "FHFFFFFG"),
        max_episode_steps=14,
    ),
    "FrozenLake-12x12": Map(("SFFFFFFFFFFF", *("FFFFFFFFFFFF",) * 10, "FFFFFFFFFFFG"), max_episode_steps=22),
}


class FrozenLake:
    """``count`` lakes of Gymnasium's FrozenLake-v1 with ``is_slippery=False``, its rules and its numbering.

    Left, down, right, up; a move out of the lake stays. The goal pays 1; goal and holes terminate, and the last of
    ``max_episode_steps`` truncates (at once with a termination, as Gymnasium has it). Observed is the cell's index.
    """

    success_return = 0.0
    observation_dtype = np.dtype(np.int64)

    def __init__(self, rows: Sequence[str], *, max_episode_steps: int, count: int) -> None:
        cells = "".join(rows)
        if len({len(row) for row in rows}) != 1 or set(cells) - set("SFHG") or cells.count("S") != 1:
            raise ValueError(f"a lake is rows of one length made of F, H, G and a single S, got {list(rows)}")
        if max_episode_steps < 1:
            raise ValueError(f"max_episode_steps must be at least 1, got {max_episode_steps}")
        self.count, self.max_episode_steps = require_count(count), max_episode_steps
        self._start = cells.index("S")
        self.observation_shape = Discrete(len(cells))
        self.actions = DiscreteActions(4)
        shape = (len(rows), len(rows[0]))
        self._places = np.stack(np.unravel_index(np.arange(len(cells)), shape), axis=1)
        moved = np.clip(self._places[:, None] + MOVES, 0, np.array(shape) - 1)  # (cells, 4, 2)
        self._next = np.ravel_multi_index((moved[..., 0], moved[..., 1]), shape)
        kinds = np.array(list(cells))
        self._goal, self._ends = kinds == "G", np.isin(kinds, ["G", "H"])
        self._cell = np.full(self.count, self._start)
        self._elapsed = np.zeros(self.count, np.int64)

    def reset(self, seed: int) -> np.ndarray:
        """The start everywhere: nothing here is random, so ``seed`` is not read."""
        self._cell = np.full(self.count, self._start)
        self._elapsed = np.zeros(self.count, np.int64)
        return self._cell.copy()

    def step(self, actions: np.ndarray) -> Step:
        """One cell further."""
        successors = self._next[self._cell, require_choices(actions, count=self.count, choices=4)]
        self._elapsed = self._elapsed + 1
        terminated, truncated = self._ends[successors], self._elapsed >= self.max_episode_steps
        ended, observations = terminated | truncated, successors
        if ended.any():
            observations = replaced(successors, ended, np.full(ended.sum(), self._start))
            self._elapsed[ended] = 0
        self._cell = observations.copy()
        rewards = self._goal[successors].astype(np.float32)
        return Step(observations, successors, rewards, terminated, truncated, places=self._places[successors])

    def state_dict(self) -> dict[str, Any]:
        """The cells and how long each episode has lasted."""
        return {"cell": self._cell.copy(), "elapsed": self._elapsed.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> np.ndarray:
        """The saved cells."""
        cell = require_integers(state["cell"], count=self.count, below=len(self._goal), name="cell")
        elapsed = require_integers(state["elapsed"], count=self.count, below=self.max_episode_steps, name="elapsed")
        self._cell, self._elapsed = cell, elapsed
        return self._cell.copy()

    def close(self) -> None:
        """Nothing to release."""
