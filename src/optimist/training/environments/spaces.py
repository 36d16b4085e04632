"""Gymnasium's spaces as this library reads them: how an observation becomes an array, and what the actions are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from optimist.bonuses.actions import Actions, ContinuousActions, DiscreteActions, MultiDiscreteActions
from optimist.bonuses.observations import SMALLEST_IMAGE, Discrete
from optimist.training.trunks import ArrayShape, Grid, raw_sizes

MOST_CHANNELS = 4  # RGB with transparency: a last axis no longer than this holds channels
LARGEST_BOUND = 1e6  # a bound beyond it says that there is none, as EnvPool's 3.4e38 does


@dataclass(frozen=True)
class ObservationReader:
    """How a batch of raw observations becomes one array: the ``key`` of a Dict, channels first, our dtypes and units.

    Numbers are read as ``(x - start) * scale``.
    """

    shape: ArrayShape
    dtype: np.dtype
    key: str | None = None
    channels_last: bool = False
    start: float = 0
    scale: float = 1

    def __call__(self, raw: Any) -> np.ndarray:
        """The array of a batch of raw observations. Shapes: (n, ...) -> (n, *shape)."""
        values = np.asarray(raw if self.key is None else raw[self.key])
        if self.channels_last:
            values = np.moveaxis(values, -1, 1)
        if self.start:
            values = values - self.start
        if self.scale != 1:
            values = values * self.scale
        return np.ascontiguousarray(values, dtype=self.dtype).reshape(len(values), *raw_sizes(self.shape))


def observation_reader(space: gymnasium.Space, *, key: str | None) -> ObservationReader:
    """How a bonus reads the observations of ``space``, in their own units, or an error that says why it cannot.

    A Dict needs ``key``. Images of bytes (H, W, C) become (C, H, W). Discrete states become int64 from 0; uint8 stays;
    every other Box becomes float32.
    """
    inner = _inner(space, key)
    if isinstance(inner, gymnasium.spaces.Discrete):
        return _state_reader(inner, key)
    box = _require_box(inner)
    image = box.dtype == np.uint8
    dtype = np.dtype(np.uint8 if image else np.float32)
    if image and len(box.shape) == 3 and box.shape[2] <= MOST_CHANNELS < min(box.shape[:2]):
        return ObservationReader((box.shape[2], *box.shape[:2]), dtype, key, channels_last=True)
    return ObservationReader(tuple(box.shape), dtype, key)


def policy_reader(space: gymnasium.Space, *, key: str | None, codes: bool) -> ObservationReader:
    """How the observations of ``space`` are read for training, in units that a network can read.

    A Dict needs ``key``. Images of bytes 0 .. 255 stay bytes, which networks divide by 255; images of another range
    become floats in 0 .. 1, if they say their range and are not in -1 .. 1 already. Channels go first, a gray (H, W)
    becomes (1, H, W). With ``codes`` an image of bytes is a `Grid`. Vectors become float32, but bytes 0 .. 255 stay.
    """
    inner = _inner(space, key)
    if isinstance(inner, gymnasium.spaces.Discrete):
        return _state_reader(inner, key)
    box = _require_box(inner)
    low, high = float(np.min(box.low)), float(np.max(box.high))
    dtype = np.dtype(np.uint8 if box.dtype == np.uint8 and (low, high) == (0, 255) else np.float32)
    sizes, last = _image_sizes(box)
    if sizes is None:
        return ObservationReader(tuple(box.shape), dtype, key)
    if codes and box.dtype == np.uint8:
        return ObservationReader(Grid(sizes), np.dtype(np.uint8), key, channels_last=last)
    if dtype == np.uint8 or (low >= -1 and high <= 1) or max(-low, high) > LARGEST_BOUND:
        return ObservationReader(sizes, dtype, key, channels_last=last)
    return ObservationReader(sizes, dtype, key, channels_last=last, start=low, scale=1 / (high - low))


def _inner(space: gymnasium.Space, key: str | None) -> gymnasium.Space:
    """The space under the ``key`` of a Dict; the space itself if it is none."""
    if isinstance(space, gymnasium.spaces.Dict):
        if key not in space.spaces:
            raise ValueError(
                f"the observation is a Dict with the keys {sorted(space.spaces)}, got observation_key={key!r}: "
                "choose one of the keys with the option observation_key"
            )
        return space.spaces[key]
    if key is not None:
        raise ValueError(f"observation_key={key!r} was given, but the observation is no Dict: it is {space}")
    return space


def _state_reader(space: gymnasium.spaces.Discrete, key: str | None) -> ObservationReader:
    return ObservationReader(Discrete(int(space.n)), np.dtype(np.int64), key, start=int(space.start))


def _require_box(space: gymnasium.Space) -> gymnasium.spaces.Box:
    if not isinstance(space, gymnasium.spaces.Box) or not space.shape:
        raise ValueError(
            f"observations must be a Box, a Discrete, or a Dict of them, got {space}: "
            "wrap the environment, e.g. with gymnasium.wrappers.FlattenObservation"
        )
    return space


def _image_sizes(box: gymnasium.spaces.Box) -> tuple[tuple[int, int, int] | None, bool]:
    """The sizes (C, H, W) of an image and whether its channels come last; None if the box is no image.

    Three axes are an image. Its channels are last if they are fewer than either side, or if the first two are equal
    and the last is not: a board of many planes. Two axes are a gray image if they hold bytes, or floats of at least
    36 x 36.
    """
    shape = box.shape
    if len(shape) == 2 and (box.dtype == np.uint8 or (box.dtype.kind == "f" and min(shape) >= SMALLEST_IMAGE)):
        return (1, *shape), False
    if len(shape) != 3:
        return None, False
    rows, columns, channels = shape
    last = channels != rows if rows == columns else channels < min(rows, columns)
    return ((channels, rows, columns) if last else shape), last


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
