"""Trunks: what a policy reads observations with. Each kind of observation has one, and none is blind to its kind."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from optimist.bonuses.learned.networks import CONVOLUTIONS, convolution, linear
from optimist.bonuses.observations import SMALLEST_IMAGE, Discrete, Observations, ObservationShape
from optimist.training.config import TrunkName

GRID_CODES = 11
"""MiniGrid's cells hold codes 0 .. 10 (kind), 0 .. 5 (color), 0 .. 3 (state)."""
SMALLEST_PICTURE = 8
"""The least side of an image that is read by convolutions; a smaller one is a vector."""
LEAST_SIDES = {"atari": SMALLEST_IMAGE, "image": SMALLEST_PICTURE, "grid": 3}
"""The least side of what each trunk of images reads."""
LARGEST_SIDE = 128
"""Longer sides of an image are averaged down to at most this: the first linear layer would have millions of weights."""
SMALL_CONVOLUTIONS = {16: ((32, 4, 2), (64, 3, 2), (64, 3, 1)), SMALLEST_PICTURE: ((32, 3, 1), (64, 3, 1))}
"""Channels, kernel and stride of images of at least so many pixels a side that are too small for RND's. Ours."""

Act = Callable[[], nn.Module]


@dataclass(frozen=True)
class Grid:
    """Cells that hold small integer codes, (C, H, W), as MiniGrid's do: names of things, not brightness."""

    shape: tuple[int, int, int]


ArrayShape = tuple[int, ...] | Discrete | Grid
"""One observation that is one array: (C, H, W) an image, any other tuple a vector, one of n states, or codes."""
Shape = ArrayShape | Mapping[str, ArrayShape]
"""One observation: an array, or a Dict of arrays."""
Dtype = np.dtype | Mapping[str, np.dtype]
"""The type of its numbers, or of each array of a Dict."""


def plain_shape(shape: Shape) -> ObservationShape:
    """The shape as bonuses are told it: of codes the sizes alone."""
    if isinstance(shape, Mapping):
        return {name: plain_shape(part) for name, part in shape.items()}  # pyrefly: ignore
    return shape.shape if isinstance(shape, Grid) else shape


def read_numbers(observations: Tensor) -> Tensor:
    """Floats as they are, bytes as 0 .. 1: the one rule of all trunks but those of codes and states."""
    if observations.dtype != torch.uint8:
        return observations.float()
    kind = observations.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else torch.float32
    return observations.to(dtype).mul_(1 / 255)  # in place: half the memory, which is most of the time it takes


class AtariTrunk(nn.Module):
    """Convolutions 32 8x8/4, 64 4x4/2, 64 3x3/1, then 256 and 448 units.

    Shapes: (n, C, H, W), bytes or floats in about 0 .. 1, sides of at least 36 -> (n, 448).
    Paper: Appendix A.2, "three convolutional layers followed by two linear layers"; the sizes are RND's.
    """

    width = 448

    def __init__(self, shape: tuple[int, ...], activation: Act, *, generator: torch.Generator):
        super().__init__()
        layers, flat = convolutions(shape, CONVOLUTIONS, activation, generator=generator)
        layers += [linear(flat, 256, generator=generator), activation()]
        layers += [linear(256, self.width, generator=generator), activation()]
        self.layers = nn.Sequential(*layers)

    def forward(self, observations: Tensor) -> Tensor:
        """Features of frames. Channels come last in memory: in float32 passes then take 0.75 of the time on a CPU."""
        return self.layers(read_numbers(observations.contiguous(memory_format=torch.channels_last)))


class ImageTrunk(nn.Module):
    """Small images: three convolutions from 16 pixels a side on, two below, and one linear layer.

    Shapes: (n, C, H, W), bytes or floats in about 0 .. 1, sides of at least 8 -> (n, width). Ours.
    """

    def __init__(self, shape: tuple[int, ...], width: int, activation: Act, *, generator: torch.Generator):
        super().__init__()
        self.width = width
        chosen = next(sizes for side, sizes in SMALL_CONVOLUTIONS.items() if min(shape[1:]) >= side)
        layers, flat = convolutions(shape, chosen, activation, generator=generator)
        self.layers = nn.Sequential(*layers, linear(flat, width, generator=generator), activation())

    def forward(self, observations: Tensor) -> Tensor:
        """Features of small images."""
        return self.layers(read_numbers(observations))


class GridTrunk(nn.Module):
    """A grid of small integer codes, one-hot, through convolutions 16 2x2 and 32 2x2 and one linear layer.

    Shapes: (n, C, H, W), codes 0 .. 10 -> (n, width). A code above 10 is read as no code at all.
    Ours: a code is a name, so it is not read as a number.
    """

    codes: Tensor

    def __init__(self, shape: tuple[int, ...], width: int, activation: Act, *, generator: torch.Generator):
        super().__init__()
        self.width = width
        channels, rows, columns = shape
        self.register_buffer("codes", torch.arange(GRID_CODES, dtype=torch.uint8).view(-1, 1, 1), persistent=False)
        self.layers = nn.Sequential(
            convolution(channels * GRID_CODES, 16, 2, 1, generator=generator),
            activation(),
            convolution(16, 32, 2, 1, generator=generator),
            activation(),
            nn.Flatten(),
            linear(32 * (rows - 2) * (columns - 2), width, generator=generator),
            activation(),
        )

    def forward(self, observations: Tensor) -> Tensor:
        """Features of grids."""
        one_hot = observations.to(torch.uint8).unsqueeze(2) == self.codes  # (n, C, codes, H, W)
        return self.layers(one_hot.flatten(1, 2).float())


class MLPTrunk(nn.Module):
    """Two hidden layers on numbers of any shape, flat, or on the one-hot vectors of a discrete state or of codes.

    Shapes: (n, ...) -> (n, width).
    """

    def __init__(self, shape: ArrayShape, width: int, activation: Act, *, generator: torch.Generator):
        super().__init__()
        self.width = width
        self.shape = shape
        self.layers = nn.Sequential(
            linear(self.read(torch.zeros(1, *raw_sizes(shape))).shape[1], width, generator=generator),
            activation(),
            linear(width, width, generator=generator),
            activation(),
        )

    def forward(self, observations: Tensor) -> Tensor:
        """Features of vectors, states or codes."""
        return self.layers(self.read(observations))

    def read(self, observations: Tensor) -> Tensor:
        """What enters the first layer. Shapes: (n, ...) -> (n, inputs)."""
        match self.shape:
            case Discrete(n=n):
                return nn.functional.one_hot(observations.to(torch.int64), n).float()
            case Grid():
                codes = torch.arange(GRID_CODES, dtype=torch.uint8, device=observations.device)
                return (observations.to(torch.uint8).unsqueeze(-1) == codes).flatten(1).float()
        x = read_numbers(observations)
        return x.reshape(len(x), -1)


class DictTrunk(nn.Module):
    """A trunk for each key of a Dict, side by side into one layer, which is where they meet.

    Shapes: {key: (n, ...)} -> (n, width).
    """

    def __init__(self, trunks: Mapping[str, "Trunk"], width: int, activation: Act, *, generator: torch.Generator):
        super().__init__()
        self.width = width
        self.keys = tuple(trunks)
        self.trunks = nn.ModuleList(trunks.values())  # a ModuleDict refuses keys with dots
        both = sum(trunk.width for trunk in trunks.values())
        self.joint = nn.Sequential(linear(both, width, generator=generator), activation())

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Features of the arrays together."""
        read = [trunk(observations[key]) for key, trunk in zip(self.keys, self.trunks, strict=True)]
        return self.joint(torch.cat(read, dim=1))


Trunk = AtariTrunk | ImageTrunk | GridTrunk | MLPTrunk | DictTrunk


def make_trunk(name: TrunkName, shape: Shape, activation: Act, width: int, *, generator: torch.Generator) -> Trunk:
    """The trunk called ``name`` for observations of ``shape``, "auto" being the one that fits them.

    Of a Dict, a name other than "mlp" is for the arrays that it can read; the others are read as by "auto".
    """
    if isinstance(shape, Mapping):
        names = {key: name if name == "mlp" or reads(name, part) else "auto" for key, part in shape.items()}
        if name not in ("auto", "mlp", *names.values()):
            raise ValueError(f"network {name!r} can read none of the arrays {dict(shape)}: use --network auto")
        trunks = {
            key: make_trunk(names[key], part, activation, width, generator=generator)  # pyrefly: ignore
            for key, part in shape.items()
        }
        return DictTrunk(trunks, width, activation, generator=generator)
    chosen = fitting_trunk(shape) if name == "auto" else name
    if chosen == "mlp":
        return MLPTrunk(shape, width, activation, generator=generator)
    if not reads(chosen, shape):
        least = LEAST_SIDES[chosen]
        raise ValueError(
            f"network {chosen!r} reads images (C, H, W) of at least {least} x {least}, got observations {shape}: "
            "use --network mlp, or auto"
        )
    sizes = raw_sizes(shape)
    if chosen == "atari":
        return AtariTrunk(sizes, activation, generator=generator)
    kind = GridTrunk if chosen == "grid" else ImageTrunk
    return kind(sizes, width, activation, generator=generator)


def reads(name: str, shape: ArrayShape) -> bool:
    """Whether the trunk called ``name``, one of images, can read observations of ``shape``."""
    sizes = raw_sizes(shape)
    return name in LEAST_SIDES and len(sizes) == 3 and min(sizes[1:]) >= LEAST_SIDES[name]


def raw_sizes(shape: ArrayShape) -> tuple[int, ...]:
    """The axes of one observation as it comes; a state has none."""
    if isinstance(shape, Discrete):
        return ()
    return shape.shape if isinstance(shape, Grid) else shape


def random_observations(shape: Shape, dtype: Dtype, n: int, *, generator: torch.Generator) -> Observations:
    """``n`` observations of ``shape`` that no environment gave: states, codes, bytes, or floats in 0 .. 1."""
    if isinstance(shape, Mapping):
        types = dtype if isinstance(dtype, Mapping) else dict.fromkeys(shape, dtype)
        return {key: _random_array(part, types[key], n, generator=generator) for key, part in shape.items()}
    if isinstance(dtype, Mapping):
        raise ValueError("dtypes by name are those of a Dict, and the observation is none")
    return _random_array(shape, dtype, n, generator=generator)


def _random_array(shape: ArrayShape, dtype: np.dtype, n: int, *, generator: torch.Generator) -> Tensor:
    if isinstance(shape, Discrete):
        return torch.randint(shape.n, (n,), generator=generator)
    if dtype == np.uint8:
        most = GRID_CODES if isinstance(shape, Grid) else 256
        return torch.randint(most, (n, *raw_sizes(shape)), generator=generator, dtype=torch.uint8)
    return torch.rand((n, *raw_sizes(shape)), generator=generator)


def fitting_trunk(shape: ArrayShape) -> TrunkName:
    """The trunk that fits observations of ``shape``: codes, large and small images, everything else."""
    if isinstance(shape, Grid):
        return "grid" if reads("grid", shape) else "mlp"
    return "atari" if reads("atari", shape) else "image" if reads("image", shape) else "mlp"


def convolutions(
    shape: tuple[int, ...], sizes: tuple[tuple[int, int, int], ...], activation: Act, *, generator: torch.Generator
) -> tuple[list[nn.Module], int]:
    """Convolutions of ``sizes`` (channels, kernel, stride) over images of ``shape``, and how many numbers they give.

    Sides above `LARGEST_SIDE` are averaged down first. The numbers leave flat.
    """
    channels, *sides = shape
    thinning = [math.ceil(side / LARGEST_SIDE) for side in sides]
    layers: list[nn.Module] = [nn.AvgPool2d((thinning[0], thinning[1]))] if max(thinning) > 1 else []
    sides = [side // step for side, step in zip(sides, thinning, strict=True)]
    for outputs, kernel, stride in sizes:
        layers += [convolution(channels, outputs, kernel, stride, generator=generator), activation()]
        channels, sides = outputs, [(side - kernel) // stride + 1 for side in sides]
    return [*layers, nn.Flatten()], channels * math.prod(sides)
