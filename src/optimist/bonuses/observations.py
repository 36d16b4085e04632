"""Observations, a tensor or a flat mapping of tensors: taken apart and put together, and read as named float parts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

Observations = Tensor | Mapping[str, Tensor]
"""A batch of observations: a tensor, or a flat mapping of tensors (a Dict), all with the same leading axes."""
WHOLE = "whole"
"""The name of the only part of an observation that is not a Dict."""


def named(observations: Observations) -> dict[str, Tensor]:
    """The tensors of observations by name: those of a Dict, or the tensor itself as the ``WHOLE``."""
    return dict(observations) if isinstance(observations, Mapping) else {WHOLE: observations}


def unnamed(parts: Mapping[str, Tensor], *, like: object) -> Observations:
    """The observations that ``named`` took apart: a Dict if ``like`` (observations, or their shape) is a mapping."""
    return parts if isinstance(like, Mapping) else parts[WHOLE]


def label(observations: str, name: str) -> str:
    """How an error calls a part of the argument ``observations``."""
    return observations if name == WHOLE else f"{observations}[{name!r}]"


def map_observations(function: Callable[[Tensor], Tensor], observations: Observations) -> Observations:
    """``function`` of the tensor, or of every tensor of a Dict."""
    return unnamed({name: function(part) for name, part in named(observations).items()}, like=observations)


def take(observations: Observations, index: Tensor | slice) -> Observations:
    """The chosen entries of the first axis. Shapes: (n, ...) -> (k, ...)."""
    return map_observations(lambda part: part[_beside(index, part)], observations)


def _beside(index: Tensor | slice, part: Tensor) -> Tensor | slice:
    """The index on the device of what it chooses from."""
    return index.to(part.device) if isinstance(index, Tensor) else index


def join(pieces: Sequence[Observations]) -> Observations:
    """The observations one after the other along the first axis. Shapes: (n_k, ...) -> (sum n_k, ...)."""
    parts = [named(piece) for piece in pieces]
    return unnamed({name: torch.cat([part[name] for part in parts]) for name in parts[0]}, like=pieces[0])


def flatten_time(observations: Observations) -> Observations:
    """The time and environment axes merged into rows. Shapes: (T, N, ...) -> (T N, ...), row t N + n."""
    return map_observations(lambda part: part.flatten(0, 1), observations)


def unflatten_time(observations: Observations, leading: tuple[int, ...]) -> Observations:
    """The inverse of `flatten_time`, with ``leading`` = (T, N). Shapes: (T N, ...) -> (T, N, ...)."""
    return map_observations(lambda part: part.unflatten(0, leading), observations)


def count(observations: Observations) -> int:
    """n, the length of the first axis, which every tensor of a Dict must share."""
    if isinstance(observations, Tensor) and observations.ndim and observations.shape[0]:
        return observations.shape[0]
    lengths = {name: part.shape[0] if part.ndim else 0 for name, part in named(observations).items()}
    if not lengths or len(set(lengths.values())) > 1 or 0 in lengths.values():
        raise ValueError(
            "observations must be n >= 1 rows along a first batch axis, the same n in every tensor, got lengths "
            f"{lengths}: pass (n, ...), or observation.unsqueeze(0) for a single one"
        )
    return next(iter(lengths.values()))


def chunks(total: int, size: int) -> Iterator[slice]:
    """Slices of at most ``size`` rows that cover ``total`` rows in order, so that memory does not grow with them."""
    return (slice(start, min(start + size, total)) for start in range(0, total, size))


SMALLEST_IMAGE = 36  # the least side on which the convolutions 8x8/4, 4x4/2, 3x3/1 leave one position


@dataclass(frozen=True)
class Discrete:
    """A state among ``n``, observed as an integer 0 .. n - 1 and read as a one-hot vector of n numbers."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"Discrete needs n >= 1 states, got {self.n}")

    @property
    def raw_shape(self) -> tuple[int, ...]:
        """The shape of one observation as it comes: a single integer."""
        return ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one observation as it is read."""
        return (self.n,)

    def require(self, name: str, values: Tensor) -> None:
        """An error unless ``values`` holds integers from 0 to n - 1."""
        if values.is_floating_point():
            raise ValueError(f"{name} must be integers below {self.n}, got dtype {values.dtype}: pass state indices")
        low, high = (int(v) for v in torch.aminmax(values.to(torch.int64)))
        if low < 0 or high >= self.n:
            raise ValueError(f"{name} must lie in 0 .. {self.n - 1}, got {low} .. {high}: give Discrete the true n")

    def read(self, values: Tensor) -> Tensor:
        """One-hot rows. Shapes: (n,) -> (n, states)."""
        return torch.nn.functional.one_hot(values.to(torch.int64), self.n).float()


@dataclass(frozen=True)
class Vector:
    """Numbers of any shape, read flat."""

    raw_shape: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """One axis."""
        return (torch.Size(self.raw_shape).numel(),)

    def require(self, name: str, values: Tensor) -> None:
        """Any real numbers will do."""

    def read(self, values: Tensor) -> Tensor:
        """Flat float rows. Shapes: (n, ...) -> (n, size)."""
        return values.flatten(1).float() if values.ndim > 1 else values.float().unsqueeze(1)


@dataclass(frozen=True)
class Image:
    """An image (C, H, W), uint8 or float, of which the last ``channels`` are read: the newest frame, or all."""

    raw_shape: tuple[int, int, int]
    channels: int

    def __post_init__(self) -> None:
        if not 1 <= self.channels <= self.raw_shape[0]:
            raise ValueError(f"channels must be 1 .. {self.raw_shape[0]}, got {self.channels}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The channels that are read."""
        return (self.channels, *self.raw_shape[1:])

    def require(self, name: str, values: Tensor) -> None:
        """Any real numbers will do."""

    def read(self, values: Tensor) -> Tensor:
        """The last channels as floats. Shapes: (n, C, H, W) -> (n, channels, H, W)."""
        return values[:, -self.channels :].float()


Part = Discrete | Vector | Image
Channels = int | Literal["newest", "all"]
ObservationShape = tuple[int, ...] | Discrete | Mapping[str, tuple[int, ...] | Discrete]


def parts_of(shape: ObservationShape, *, channels: Channels) -> dict[str, Part]:
    """The parts that an observation of ``shape`` is read as, by name: a Dict's chosen keys, or one part alone.

    A tuple (C, H, W) with H and W of at least 36 is an image, read through convolutions; every other tuple is a vector.
    ``channels`` is how many channels of an image are read, from the last; "newest" is 3 where C is a multiple of 3
    (color) and 1 elsewhere (a stack of gray frames).
    """
    if isinstance(shape, Mapping):
        if not shape:
            raise ValueError("observation_shape is an empty mapping: choose at least one key of the Dict observation")
        return {name: _part(part, channels) for name, part in shape.items()}
    return {WHOLE: _part(shape, channels)}


def _part(shape: tuple[int, ...] | Discrete, channels: Channels) -> Part:
    if isinstance(shape, Discrete):
        return shape
    sizes = tuple(shape)
    if any(s < 1 for s in sizes):
        raise ValueError(f"observation_shape must have sizes of at least 1, got {sizes}")
    if len(sizes) == 3 and min(sizes[:2]) >= SMALLEST_IMAGE > sizes[2]:
        raise ValueError(f"images are channels first, (C, H, W), got {sizes}: use observations.movedim(-1, -3)")
    if len(sizes) != 3 or min(sizes[1:]) < SMALLEST_IMAGE:
        return Vector(sizes)
    if channels == "newest":
        channels = 3 if sizes[0] % 3 == 0 else 1
    return Image((sizes[0], sizes[1], sizes[2]), sizes[0] if channels == "all" else channels)


def rows_of(parts: Mapping[str, Part], observations: Observations) -> dict[str, Tensor]:
    """The raw parts of a rollout's observations, checked, one row per state. Shapes: (T, N, ...) -> (T N, ...)."""
    rows = shaped_rows({name: part.raw_shape for name, part in parts.items()}, observations)
    for name, part in parts.items():
        part.require(label("observations", name), rows[name])
    return rows


def shaped_rows(shapes: Mapping[str, tuple[int, ...]], observations: Observations) -> dict[str, Tensor]:
    """The named tensors of a rollout's observations, one row per state, or an error that says what is missing.

    Shapes: (T, N, *shapes[name]) -> (T N, *shapes[name]).
    """
    given = named(flatten_time(observations))
    missing = shapes.keys() - given.keys()
    if missing:
        wanted = "a tensor" if WHOLE in missing else f"a mapping with the keys {sorted(shapes)}"
        came = "a tensor" if WHOLE in given else f"a mapping with the keys {sorted(given)}"
        raise ValueError(f"observations must be {wanted}, got {came}: they must be those the bonus was built for")
    for name, shape in shapes.items():
        if tuple(given[name].shape[1:]) != shape:
            raise ValueError(
                f"{label('observations', name)} must have shape {_rollout_shape(shape)}, "
                f"got {_rollout_shape(given[name].shape[1:])}: they must be those the bonus was built for"
            )
    return {name: given[name] for name in shapes}


def _rollout_shape(shape: Sequence[int]) -> str:
    return f"(T, N{''.join(f', {size}' for size in shape)})"


def read(parts: Mapping[str, Part], rows: Mapping[str, Tensor], index: Tensor | slice) -> dict[str, Tensor]:
    """The float parts of the chosen rows, each (rows, *part.shape)."""
    return {name: part.read(rows[name][index]) for name, part in parts.items()}
