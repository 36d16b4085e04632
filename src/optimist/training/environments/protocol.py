"""What N environments are (`Environments`) and what they answer to N actions (`Step`)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from optimist.bonuses.actions import Actions
from optimist.bonuses.observations import WHOLE
from optimist.training.trunks import Dtype, Shape

Arrays = np.ndarray | Mapping[str, np.ndarray]
"""The observations of N environments: an array (N, ...), or of a Dict one under every name."""


@dataclass(frozen=True, eq=False)
class Step:
    """What N environments answer to N actions.

    ``observations`` is what to act on next: the first one of a new episode where an episode has just ended.
    ``next_observations`` is what the action led to: the final observation where an episode ended, and the very object
    ``observations`` if none did. ``valid`` is False where the action was ignored because the environment was only
    resetting; None says that all are valid. ``places`` says where on a map ``next_observations`` are, row and column,
    negative off the map; None: there is no map.

    Shapes: observations, next_observations (N, ...); rewards (N,), float32, raw; terminated, truncated, valid (N,),
    bool; places (N, 2).
    """

    observations: Arrays
    next_observations: Arrays
    rewards: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    valid: np.ndarray | None = None
    places: np.ndarray | None = None


Layout = tuple[str, ...]
"""What a map looks like, row by row: S start, G goal, # wall or unreachable, D door, H hole, . free."""


@runtime_checkable
class Mapped(Protocol):
    """Environments that can say what their map looks like, for those who draw it."""

    def layout(self) -> Layout | None:
        """The one map that all episodes share; None before the first `reset`, or where episodes differ."""
        ...


@runtime_checkable
class Parted(Protocol):
    """Environments that can be a part of more, the others of which other processes play."""

    def set_part(self, first: int, total: int) -> None:
        """From the next `reset` on these are the environments ``first``, ``first + 1`` ... of ``total``.

        Each then plays as it would if all were here: what chance there is comes from the seed and its own number, or is
        drawn for all of them. Arrays in the state have one row per environment; all else in it is alike everywhere.
        """
        ...


class Environments(Protocol):
    """N copies of a task. A constructor starts nothing: `reset` does."""

    @property
    def n_envs(self) -> int:
        """N."""
        ...

    @property
    def observation_shape(self) -> Shape:
        """One observation: an image (C, H, W), a vector (k,), one of n states Discrete(n), codes Grid((C, H, W)).

        Of a Dict one of these under every name.
        """
        ...

    @property
    def observation_dtype(self) -> Dtype:
        """One of uint8, float32 and int64 (for Discrete); of a Dict one under every name.

        Bytes that are no codes are divided by 255 by the networks; floats are read as they are: give images in 0 .. 1.
        """
        ...

    @property
    def actions(self) -> Actions:
        """What can be done: DiscreteActions, MultiDiscreteActions or ContinuousActions."""
        ...

    @property
    def success_return(self) -> float | None:
        """An episode whose raw return is above this was a success. None: not defined."""
        ...

    def reset(self, seed: int) -> Arrays:
        """The first observations (N, ...), every environment started anew from ``seed`` alone."""
        ...

    def step(self, actions: np.ndarray) -> Step:
        """The answer to ``actions``, (N,) or (N, k)."""
        ...

    def state_dict(self) -> dict[str, Any] | None:
        """Everything that `step` changes: numpy arrays, numbers, strings, nested. None: it cannot be saved."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> Arrays:
        """The observations to act on, having continued exactly where ``state`` was taken."""
        ...

    def close(self) -> None:
        """Release what `reset` started. Closing twice is no error."""
        ...


MEMBERS = ("n_envs", "observation_shape", "observation_dtype", "actions", "success_return", "reset", "step",
           "state_dict", "load_state_dict", "close")  # fmt: skip


def require_environments(candidate: Any, env_id: str, n_envs: int) -> Environments:
    """``candidate`` itself if it is ``n_envs`` environments; otherwise an error that says what is missing."""
    kinds = "optimist.training.environments.Environments or a gymnasium.vector.VectorEnv"
    missing = [name for name in MEMBERS if not hasattr(candidate, name)]
    if missing:
        kind = type(candidate).__name__
        raise ValueError(f"{env_id} must return {kinds}, got {kind} without {', '.join(missing)}")
    if candidate.n_envs != n_envs:
        raise ValueError(f"{env_id} must return {n_envs} environments, as it was asked to, got {candidate.n_envs}")
    return candidate


def require_parts(candidate: Environments, env_id: str) -> Parted:
    """``candidate`` itself if it can be a part of more environments; otherwise an error that says what is missing."""
    if not isinstance(candidate, Parted):
        raise ValueError(
            f"{env_id} cannot be played by several processes: {type(candidate).__name__} has no method "
            "set_part(first, total), by which environments learn which ones of all they are. Give it one, or make "
            f"{env_id} a gymnasium.vector.VectorEnv, or train in one process"
        )
    return candidate


@contextmanager
def options_refused(env_id: str, options: Mapping[str, Any]) -> Iterator[None]:
    """A call that does not know one of ``options`` becomes an error that says so; every other error stays its own."""
    try:
        yield
    except TypeError as error:
        if not any(f"'{name}'" in str(error) for name in options):
            raise
        raise ValueError(f"{env_id} does not take the options {dict(options)}: {error}") from error


def named_arrays(arrays: Arrays) -> dict[str, np.ndarray]:
    """The arrays by name: those of a Dict, or the one there is as the `WHOLE`."""
    return dict(arrays) if isinstance(arrays, Mapping) else {WHOLE: arrays}


def map_arrays(function: Callable[..., Any], first: Arrays, *others: Arrays) -> Any:
    """``function`` of the arrays; of Dicts, of those under every name."""
    if isinstance(first, Mapping):
        return {name: function(part, *(other[name] for other in others)) for name, part in first.items()}
    return function(first, *others)


def replaced(values: Arrays, where: np.ndarray, rows: Arrays) -> Any:
    """A copy of ``values`` (N, ...) with ``rows`` (one for each True of ``where``, or one for all) in their places."""

    def one(array: np.ndarray, new: np.ndarray) -> np.ndarray:
        array = array.copy()
        array[where] = new
        return array

    return map_arrays(one, values, rows)


def require_choices(actions: np.ndarray, *, n_envs: int, choices: int) -> np.ndarray:
    """``actions`` as (n_envs,) int64, or an error unless they are whole numbers from 0 to ``choices - 1``."""
    actions = np.asarray(actions)
    if actions.shape != (n_envs,) or actions.dtype.kind not in "iu":
        raise ValueError(f"actions must be ({n_envs},) integers, got {actions.dtype} of shape {actions.shape}")
    if actions.min() < 0 or actions.max() >= choices:
        raise ValueError(f"actions must lie in 0 .. {choices - 1}, got {actions.min()} .. {actions.max()}")
    return actions.astype(np.int64, copy=False)


def require_integers(values: np.ndarray, *, n_envs: int, below: int, name: str) -> np.ndarray:
    """A copy of a saved ``(n_envs,)`` int64 array of numbers below ``below``, or an error that names it."""
    values = np.asarray(values)
    if values.shape != (n_envs,) or values.dtype.kind not in "iu" or values.min() < 0 or values.max() >= below:
        raise ValueError(
            f"the saved {name} must be ({n_envs},) integers from 0 to {below - 1}, got {values.dtype} of shape "
            f"{values.shape}: this state was taken from other environments"
        )
    return values.astype(np.int64)
