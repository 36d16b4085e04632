"""FrozenLake without slipping, any map, N environments at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """``n_envs`` lakes of Gymnasium's FrozenLake-v1 with ``is_slippery=False``, its rules and its numbering.

    Left, down, right, up; a move out of the lake stays. The goal pays 1; goal and holes terminate, and the last of
    ``max_episode_steps`` truncates (at once with a termination, as Gymnasium has it). Observed is the cell's index.
    """

    success_return = 0.0
    observation_dtype = np.dtype(np.int64)

    def __init__(self, rows: Sequence[str], *, max_episode_steps: int, n_envs: int) -> None:
        cells = "".join(rows)
        if len({len(row) for row in rows}) != 1 or set(cells) - set("SFHG") or cells.count("S") != 1:
            raise ValueError(f"a lake is rows of one length made of F, H, G and a single S, got {list(rows)}")
        if max_episode_steps < 1:
            raise ValueError(f"max_episode_steps must be at least 1, got {max_episode_steps}")
        self.n_envs, self.max_episode_steps = require_count("n_envs", n_envs), max_episode_steps
        self._rows, self._start = tuple(rows), cells.index("S")
        self.observation_shape = Discrete(len(cells))
        self.actions = DiscreteActions(4)
        shape = (len(rows), len(rows[0]))
        self._places = np.stack(np.unravel_index(np.arange(len(cells)), shape), axis=1)
        moved = np.clip(self._places[:, None] + MOVES, 0, np.array(shape) - 1)  # (cells, 4, 2)
        self._next = np.ravel_multi_index((moved[..., 0], moved[..., 1]), shape)
        kinds = np.array(list(cells))
        self._goal, self._ends = kinds == "G", np.isin(kinds, ["G", "H"])
        self._cell = np.full(self.n_envs, self._start)
        self._elapsed = np.zeros(self.n_envs, np.int64)

    def layout(self) -> Layout:
        """Start, goal, holes, and ice as free places."""
        return tuple(row.replace("F", ".") for row in self._rows)

    def set_part(self, first: int, total: int) -> None:
        """Nothing here is random: a part plays as it would among all."""

    def reset(self, seed: int) -> np.ndarray:
        """The start everywhere: nothing here is random, so ``seed`` is not read."""
        self._cell = np.full(self.n_envs, self._start)
        self._elapsed = np.zeros(self.n_envs, np.int64)
        return self._cell.copy()

    def step(self, actions: np.ndarray) -> Step:
        """One cell further."""
        next_observations = self._next[self._cell, require_choices(actions, n_envs=self.n_envs, choices=4)]
        self._elapsed = self._elapsed + 1
        terminated, truncated = self._ends[next_observations], self._elapsed >= self.max_episode_steps
        ended, observations = terminated | truncated, next_observations
        if ended.any():
            observations = replaced(next_observations, ended, np.full(ended.sum(), self._start))
            self._elapsed[ended] = 0
        self._cell = observations.copy()
        rewards = self._goal[next_observations].astype(np.float32)
        return Step(
            observations, next_observations, rewards, terminated, truncated, places=self._places[next_observations]
        )

    def state_dict(self) -> dict[str, Any]:
        """The cells and how long each episode has lasted."""
        return {"cell": self._cell.copy(), "elapsed": self._elapsed.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> np.ndarray:
        """The saved cells."""
        cell = require_integers(state["cell"], n_envs=self.n_envs, below=len(self._goal), name="cell")
        elapsed = require_integers(state["elapsed"], n_envs=self.n_envs, below=self.max_episode_steps, name="elapsed")
        self._cell, self._elapsed = cell, elapsed
        return self._cell.copy()

    def close(self) -> None:
        """Nothing to release."""
