"""Gymnasium's spaces as this library reads them: how an observation becomes an array, and what the actions are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from optimist.bonuses.actions import Actions, ContinuousActions, DiscreteActions, MultiDiscreteActions
from optimist.bonuses.observations import Discrete, ObservationShape

MOST_CHANNELS = 4  # RGB with transparency: a last axis no longer than this holds channels


@dataclass(frozen=True)
class ObservationReader:
    """How a batch of raw observations becomes one array: the ``key`` of a Dict, channels first, our dtypes."""

    shape: ObservationShape
    dtype: np.dtype
    key: str | None
    channels_last: bool
    start: int = 0

    def __call__(self, raw: Any) -> np.ndarray:
        """The array of a batch of raw observations. Shapes: (n, ...) -> (n, *shape)."""
        values = np.asarray(raw if self.key is None else raw[self.key])
        if self.channels_last:
            values = np.moveaxis(values, -1, 1)
        if self.start:
            values = values - self.start
        return np.ascontiguousarray(values, dtype=self.dtype)


def observation_reader(space: gymnasium.Space, *, key: str | None) -> ObservationReader:
    """How to read the observations of ``space``, or an error that says why it cannot be done.

    A Dict needs ``key``. Images (H, W, C) become (C, H, W). Discrete states become int64 from 0; uint8 stays; every
    other Box becomes float32.
    """
    if isinstance(space, gymnasium.spaces.Dict):
        if key not in space.spaces:
            raise ValueError(
                f"the observation is a Dict with the keys {sorted(space.spaces)}, got observation_key={key!r}: "
                "choose one of the keys with the option observation_key"
            )
        inner = observation_reader(space.spaces[key], key=None)
        return ObservationReader(inner.shape, inner.dtype, key, inner.channels_last, inner.start)
    if key is not None:
        raise ValueError(f"observation_key={key!r} was given, but the observation is no Dict: it is {space}")
    if isinstance(space, gymnasium.spaces.Discrete):
        return ObservationReader(Discrete(int(space.n)), np.dtype(np.int64), None, False, int(space.start))
    if not isinstance(space, gymnasium.spaces.Box) or not space.shape:
        raise ValueError(
            f"observations must be a Box, a Discrete, or a Dict of them, got {space}: "
            "wrap the environment, e.g. with gymnasium.wrappers.FlattenObservation"
        )
    image = space.dtype == np.uint8
    dtype = np.dtype(np.uint8 if image else np.float32)
    if image and len(space.shape) == 3 and space.shape[2] <= MOST_CHANNELS < min(space.shape[:2]):
        return ObservationReader((space.shape[2], *space.shape[:2]), dtype, None, True)
    return ObservationReader(tuple(space.shape), dtype, None, False)


@dataclass(frozen=True)
class ActionWriter:
    """How our actions become those of a ``space``: clipped to a Box, counted from a Discrete's first."""

    space: gymnasium.Space

    def kind(self) -> Actions:
        """What actions there are, or an error for a space that PPO here cannot act in."""
        space = self.space
        if isinstance(space, gymnasium.spaces.Discrete):
            return DiscreteActions(int(space.n))
        if isinstance(space, gymnasium.spaces.MultiDiscrete) and space.nvec.ndim == 1:
            return MultiDiscreteActions(tuple(int(n) for n in space.nvec))
        if isinstance(space, gymnasium.spaces.Box) and len(space.shape) == 1 and space.dtype.kind == "f":
            return ContinuousActions(space.shape[0])
        raise ValueError(
            f"actions must be Discrete, MultiDiscrete or a Box (k,) of floats, got {space}: wrap the environment"
        )

    def __call__(self, actions: np.ndarray) -> np.ndarray:
        """The actions as the space wants them. Shapes: (n,) or (n, k), unchanged."""
        space = self.space
        if isinstance(space, gymnasium.spaces.Box):
            return np.clip(actions, space.low, space.high).astype(space.dtype, copy=False)
        if isinstance(space, gymnasium.spaces.Discrete | gymnasium.spaces.MultiDiscrete):
            return (actions + space.start).astype(space.dtype, copy=False)
        return actions


def success_return_of(env_id: str, *, limit: int | None, threshold: float | None) -> float | None:
    """The raw return above which an episode of ``env_id`` was a success, or None where nobody has said.

    MiniGrid, FrozenLake and the continuous mountain car pay at the goal alone; the mountain car and Acrobot pay -1 a
    step until it, so that reaching it is ending before the ``limit``; elsewhere the registered ``threshold``.
    """
    if env_id.startswith(("MiniGrid-", "BabyAI-", "FrozenLake", "MountainCarContinuous")):
        return 0.0
    if env_id.startswith(("MountainCar-", "Acrobot-")) and limit is not None:
        return -float(limit)
    return None if threshold is None else float(threshold)


def spread_seeds(sequence: np.random.SeedSequence, count: int) -> list[int]:
    """``count`` seeds below 2^31 - 2^16, so that a library may still add an environment's index to them."""
    return [int(s) % (2**31 - 2**16) for s in sequence.generate_state(count)]


def options_without(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """A copy of ``options`` without ``names``."""
    return {key: value for key, value in options.items() if key not in names}
