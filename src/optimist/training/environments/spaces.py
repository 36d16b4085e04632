"""Gymnasium's spaces as this library reads them: how an observation becomes an array, and what the actions are."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np

from optimist.bonuses.actions import Actions, ContinuousActions, DiscreteActions, MultiDiscreteActions
from optimist.bonuses.observations import SMALLEST_IMAGE, Discrete
from optimist.training.trunks import ArrayShape, Grid, raw_sizes

Keys = str | Sequence[str]
MOST_CHANNELS = 4  # RGB with transparency: a last axis no longer than this holds channels
MOST_CHOICES = 1000  # of one integer among actions
LARGEST_BOUND = 1e6  # a bound beyond it says that there is none, as EnvPool's 3.4e38 does


@dataclass(frozen=True)
class ObservationReader:
    """How a batch of raw observations becomes one array: where it is in a Dict, channels first, our dtypes and units.

    Numbers are read as ``(x - start) * scale``.
    """

    shape: ArrayShape
    dtype: np.dtype
    path: tuple[str, ...] = ()
    channels_last: bool = False
    start: float = 0
    scale: float = 1

    def __call__(self, raw: Any) -> np.ndarray:
        """The array of a batch of raw observations. Shapes: (n, ...) -> (n, *shape)."""
        return self._read(np.asarray(self._picked(raw)))

    def stacked(self, singles: Sequence[Any]) -> np.ndarray:
        """The array of single raw observations."""
        return self._read(np.stack([self._picked(raw) for raw in singles]))

    def _picked(self, raw: Any) -> Any:
        for key in self.path:
            raw = raw[key]
        return raw

    def _read(self, values: np.ndarray) -> np.ndarray:
        if self.channels_last:
            values = np.moveaxis(values, -1, 1)
        if self.start:
            values = values - self.start
        if self.scale != 1:
            values = values * self.scale
        return np.ascontiguousarray(values, dtype=self.dtype).reshape(len(values), *raw_sizes(self.shape))


@dataclass(frozen=True)
class DictReader:
    """How a batch of raw observations becomes several arrays, by name."""

    parts: Mapping[str, ObservationReader]

    @property
    def shape(self) -> Mapping[str, ArrayShape]:
        """The shape of each array."""
        return {name: part.shape for name, part in self.parts.items()}

    @property
    def dtype(self) -> Mapping[str, np.dtype]:
        """The dtype of each array."""
        return {name: part.dtype for name, part in self.parts.items()}

    def __call__(self, raw: Any) -> dict[str, np.ndarray]:
        """The arrays of a batch of raw observations."""
        return {name: part(raw) for name, part in self.parts.items()}

    def stacked(self, singles: Sequence[Any]) -> dict[str, np.ndarray]:
        """The arrays of single raw observations."""
        return {name: part.stacked(singles) for name, part in self.parts.items()}


def observation_reader(space: gymnasium.Space, *, key: str | None) -> ObservationReader:
    """How a bonus reads the observations of ``space``, in their own units, or an error that says why it cannot.

    A Dict needs ``key``. Images of bytes (H, W, C) become (C, H, W). Discrete states become int64 from 0; uint8 stays;
    every other Box becomes float32.
    """
    path = () if key is None else (key,)
    inner = space.spaces[key] if isinstance(space, gymnasium.spaces.Dict) and key in space.spaces else space
    if isinstance(inner, gymnasium.spaces.Discrete):
        return _state_reader(inner, path)
    if not isinstance(inner, gymnasium.spaces.Box) or not inner.shape:
        raise ValueError(
            f"observations must be a Box, a Discrete, or a Dict of them, got {inner}: "
            "wrap the environment, e.g. with gymnasium.wrappers.FlattenObservation"
        )
    image = inner.dtype == np.uint8
    dtype = np.dtype(np.uint8 if image else np.float32)
    if image and len(inner.shape) == 3 and inner.shape[2] <= MOST_CHANNELS < min(inner.shape[:2]):
        return ObservationReader((inner.shape[2], *inner.shape[:2]), dtype, path, channels_last=True)
    return ObservationReader(tuple(inner.shape), dtype, path)


def policy_reader(space: gymnasium.Space, *, keys: Keys | None, codes: bool) -> ObservationReader | DictReader:
    """How the observations of ``space`` are read for training, in units that a network can read.

    Of a Dict all arrays are read, or those under ``keys``: a list, or a text with commas. What lies in an inner Dict is
    called ``outer.inner``. A single array is read as such, several as a dictionary.
    Images of bytes 0 .. 255 stay bytes, which networks divide by 255; images of another range become floats in 0 .. 1,
    if they say their range and are not in -1 .. 1 already. Channels go first, a gray (H, W) becomes (1, H, W). With
    ``codes`` an image of bytes is a `Grid`. Vectors become float32, but bytes 0 .. 255 stay.
    """
    if not isinstance(space, gymnasium.spaces.Dict):
        if keys is not None:
            raise ValueError(f"observation_key={keys!r} was given, but the observation is no Dict: it is {space}")
        return _array_reader(space, (), codes=codes)
    leaves = {".".join(path): (path, inner) for path, inner in _leaves(space)}
    wanted = None if keys is None else [key.strip() for key in (keys.split(",") if isinstance(keys, str) else keys)]
    names = [
        name for name in leaves if wanted is None or any(name == key or name.startswith(f"{key}.") for key in wanted)
    ]
    unknown = [key for key in wanted or [] if not any(name == key or name.startswith(f"{key}.") for name in names)]
    if unknown or not names:
        raise ValueError(
            f"the observation is a Dict with the keys {sorted(leaves)}, got observation_key={keys!r}: "
            "choose one or several of them, with commas between"
        )
    parts = {}
    for name in names:
        path, inner = leaves[name]
        try:
            parts[name] = _array_reader(inner, path, codes=codes)
        except ValueError as error:
            raise ValueError(
                f"the key {name!r} of the observation cannot be read: {error}. Or read others, of {sorted(leaves)}, "
                "by the option observation_key"
            ) from error
    return DictReader(parts) if len(parts) > 1 else parts[names[0]]


def _leaves(space: gymnasium.spaces.Dict, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The spaces of a Dict that are no Dicts, those of inner ones included, and the way to each."""
    for key, inner in space.spaces.items():
        if isinstance(inner, gymnasium.spaces.Dict):
            yield from _leaves(inner, (*path, key))
        else:
            yield (*path, key), inner


def _array_reader(space: gymnasium.Space, path: tuple[str, ...], *, codes: bool) -> ObservationReader:
    match space:
        case gymnasium.spaces.Discrete():
            return _state_reader(space, path)
        case gymnasium.spaces.MultiBinary():
            low, high = 0.0, 1.0
        case gymnasium.spaces.Box() if space.dtype.kind in "fiub":
            low, high = float(np.min(space.low)), float(np.max(space.high))
        case _:
            raise ValueError(
                f"observations must be a Box of numbers, a Discrete, a MultiBinary, or a Dict of them, got {space}: "
                "wrap the environment, e.g. with gymnasium.wrappers.FlattenObservation"
            )
    dtype = np.dtype(np.uint8 if space.dtype == np.uint8 and (low, high) == (0, 255) else np.float32)
    sizes, last = _image_sizes(space)
    if sizes is None:
        return ObservationReader(tuple(space.shape) or (1,), dtype, path)
    if codes and space.dtype == np.uint8:
        return ObservationReader(Grid(sizes), np.dtype(np.uint8), path, channels_last=last)
    if dtype == np.uint8 or (low >= -1 and high <= 1) or max(-low, high) > LARGEST_BOUND:
        return ObservationReader(sizes, dtype, path, channels_last=last)
    return ObservationReader(sizes, dtype, path, channels_last=last, start=low, scale=1 / (high - low))


def _state_reader(space: gymnasium.spaces.Discrete, path: tuple[str, ...]) -> ObservationReader:
    return ObservationReader(Discrete(int(space.n)), np.dtype(np.int64), path, start=int(space.start))


def _image_sizes(space: Any) -> tuple[tuple[int, int, int] | None, bool]:
    """The sizes (C, H, W) of an image and whether its channels come last; None if the space is no image.

    Three axes are an image. Its channels are last if they are fewer than either side, or if the first two are equal
    and the last is not: a board of many planes. Two axes are a gray image if they hold bytes, or floats of at least
    36 x 36.
    """
    shape = space.shape
    if len(shape) == 2 and (space.dtype == np.uint8 or (space.dtype.kind == "f" and min(shape) >= SMALLEST_IMAGE)):
        return (1, *shape), False
    if len(shape) != 3:
        return None, False
    rows, columns, channels = shape
    last = channels != rows if rows == columns else channels < min(rows, columns)
    return ((channels, rows, columns) if last else shape), last


@dataclass(frozen=True)
class ActionWriter:
    """How our actions become those of a ``space``.

    A bounded number of a Box is brought from the policy's range -1 .. 1 to its bounds and clipped to them; one that has
    no two bounds is clipped as it is. What the policy drew stays as it was drawn: its likelihood is that of the draw.
    Choices, also those of a MultiBinary and of a Box of integers, are counted from the first that the space has.
    """

    space: gymnasium.Space

    def kind(self) -> Actions:
        """What actions there are, or an error for a space that PPO here cannot act in."""
        match self.space:
            case gymnasium.spaces.Discrete(n=n):
                return DiscreteActions(int(n))
            case gymnasium.spaces.MultiDiscrete(nvec=sizes):
                return MultiDiscreteActions(tuple(int(n) for n in sizes.flat))
            case gymnasium.spaces.MultiBinary(shape=shape):
                return MultiDiscreteActions((2,) * math.prod(shape))
            case gymnasium.spaces.Box() as box if box.dtype.kind == "f":
                return ContinuousActions(math.prod(box.shape))
            case gymnasium.spaces.Box() as box if box.dtype.kind in "iu":
                sizes = box.high.astype(np.int64).flatten() - box.low.astype(np.int64).flatten() + 1
                if sizes.max() <= MOST_CHOICES:
                    return MultiDiscreteActions(tuple(int(n) for n in sizes))
        raise ValueError(
            f"actions must be Discrete, MultiDiscrete, MultiBinary, or a Box of floats or of at most {MOST_CHOICES} "
            f"integers each, got {self.space}: wrap the environment"
        )

    def __call__(self, actions: np.ndarray) -> np.ndarray:
        """The actions as the space wants them. Shapes: (n,) or (n, k) -> (n, *space.shape)."""
        space = self.space
        actions = actions.reshape(len(actions), *space.shape)  # pyrefly: ignore
        match space:
            case gymnasium.spaces.Box() if space.dtype.kind == "f":
                middle, half = self._units
                return np.clip(middle + half * actions, space.low, space.high).astype(space.dtype, copy=False)
            case gymnasium.spaces.Box():
                return (actions + space.low).astype(space.dtype, copy=False)
            case gymnasium.spaces.Discrete() | gymnasium.spaces.MultiDiscrete():
                return (actions + space.start).astype(space.dtype, copy=False)
        return actions.astype(space.dtype, copy=False)

    @cached_property
    def _units(self) -> tuple[np.ndarray, np.ndarray]:
        """The middle and half the range of every number of a Box; 0 and 1 where it is not bounded on both sides."""
        low, high = (np.asarray(bound, np.float64) for bound in (self.space.low, self.space.high))  # pyrefly: ignore
        bounded = np.maximum(np.abs(low), np.abs(high)) <= LARGEST_BOUND
        low, high = np.where(bounded, low, -1), np.where(bounded, high, 1)
        return (low + high) / 2, (high - low) / 2


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
