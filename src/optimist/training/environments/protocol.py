"""What N environments are (`Environments`) and what they answer to N actions (`Step`)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from optimist.bonuses.actions import Actions
from optimist.bonuses.observations import ObservationShape


@dataclass(frozen=True, eq=False)
class Step:
    """What N environments answer to N actions.

    ``observations`` is what to act on next: the first one of a new episode where an episode has just ended.
    ``successors`` is the true successor of the action: the final observation where an episode ended, and the very
    array ``observations`` if none did. ``valid`` is False where the action was ignored because the environment was only
    resetting; None says that all are valid. ``places`` says where on a map the successors are, row and column, negative
    off the map; None: there is no map.

    Shapes: observations, successors (N, ...); rewards (N,), float32, raw; terminated, truncated, valid (N,), bool;
    places (N, 2).
    """

    observations: np.ndarray
    successors: np.ndarray
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray | None = None
    places: np.ndarray | None = None


class Environments(Protocol):
    """N copies of a task. A constructor starts nothing: `reset` does."""

    @property
    def count(self) -> int:
        """N."""
        ...

    @property
    def observation_shape(self) -> ObservationShape:
        """One observation: (C, H, W), (k,), or Discrete(n)."""
        ...

    @property
    def observation_dtype(self) -> np.dtype:
        """One of uint8, float32 and int64 (for Discrete)."""
        ...

    @property
    def actions(self) -> Actions:
        """What can be done: DiscreteActions, MultiDiscreteActions or ContinuousActions."""
        ...

    @property
    def success_return(self) -> float | None:
        """An episode whose raw return is above this was a success. None: not defined."""
        ...

    def reset(self, seed: int) -> np.ndarray:
        """The first observations (N, ...), every environment started anew from ``seed`` alone."""
        ...

    def step(self, actions: np.ndarray) -> Step:
        """The answer to ``actions``, (N,) or (N, k)."""
        ...

    def state_dict(self) -> dict[str, Any] | None:
        """Everything that `step` changes: numpy arrays, numbers, strings, nested. None: it cannot be saved."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> np.ndarray:
        """The observations to act on, having continued exactly where ``state`` was taken."""
        ...

    def close(self) -> None:
        """Release what `reset` started. Closing twice is no error."""
        ...


def replaced(values: np.ndarray, where: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """A copy of ``values`` (N, ...) with ``rows`` (one for each True of ``where``, or one for all) in their places."""
    values = values.copy()
    values[where] = rows
    return values


def require_count(count: int) -> int:
    """``count`` itself, or an error unless it is a positive whole number."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"count must be a whole number of environments, at least 1, got {count!r}")
    return count


def require_choices(actions: np.ndarray, *, count: int, choices: int) -> np.ndarray:
    """``actions`` as (count,) int64, or an error unless they are whole numbers from 0 to ``choices - 1``."""
    actions = np.asarray(actions)
    if actions.shape != (count,) or actions.dtype.kind not in "iu":
        raise ValueError(f"actions must be ({count},) integers, got {actions.dtype} of shape {actions.shape}")
    if actions.min() < 0 or actions.max() >= choices:
        raise ValueError(f"actions must lie in 0 .. {choices - 1}, got {actions.min()} .. {actions.max()}")
    return actions.astype(np.int64, copy=False)


def require_integers(values: np.ndarray, *, count: int, below: int, name: str) -> np.ndarray:
    """A copy of a saved ``(count,)`` int64 array of numbers below ``below``, or an error that names it."""
    values = np.asarray(values)
    if values.shape != (count,) or values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= below:
        raise ValueError(
            f"the saved {name} must be ({count},) integers from 0 to {below - 1}, got {values.dtype} of shape "
            f"{values.shape}: this state was taken from other environments"
        )
    return values.astype(np.int64)
