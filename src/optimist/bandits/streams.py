"""Random numbers inside compiled loops: one xoshiro256++ stream a learner, normals by the ziggurat method.

NumPy's generators cannot be called from many compiled threads at once. A stream here is four 64-bit words, a row of an
array that is saved with the policy, so results depend neither on the number of threads nor on who plays beside whom.

References: Blackman and Vigna, *Scrambled linear pseudorandom number generators* (2021); Marsaglia and Tsang, *The
ziggurat method for generating random variables* (2000), here with 256 layers and independent bits for layer and place.
"""

import math
from collections.abc import Sequence

import numpy as np
from numba import njit, uint64
from numpy.typing import NDArray

from optimist.bandits.arrays import Floats, Streams

_LAYERS = 256
_TAIL = 3.6541528853610088  # where the tail begins: the lowest layer, tail included, has the area of the others
_AREA = 0.00492867323399  # the area of each of the 256 layers


def _ziggurat_edges() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The right edges x_0 > x_1 > ... > x_256 = 0 of the layers and the density exp(-x^2 / 2) there."""
    edges = np.zeros(_LAYERS + 1)
    edges[0] = _AREA / math.exp(-0.5 * _TAIL**2)
    edges[1] = _TAIL
    for layer in range(2, _LAYERS):
        height = _AREA / edges[layer - 1] + math.exp(-0.5 * edges[layer - 1] ** 2)
        edges[layer] = math.sqrt(-2 * math.log(height))
    return edges, np.exp(-0.5 * edges**2)


_EDGES, _HEIGHTS = _ziggurat_edges()


def make_streams(seed: np.random.SeedSequence, indices: Sequence[int]) -> Streams:
    """The streams of ``seed`` with these indices, (len, 4); each depends on its index alone."""
    return np.array([_child(seed, i).generate_state(4, np.uint64) for i in indices], np.uint64).reshape(-1, 4)


def _child(seed: np.random.SeedSequence, index: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, index))


@njit(cache=True, inline="always")
def next_bits(stream: Streams) -> np.uint64:
    """The next 64 random bits of ``stream`` (4,): xoshiro256++."""
    s0, s1, s2, s3 = stream[0], stream[1], stream[2], stream[3]
    word = s0 + s3
    word = ((word << uint64(23)) | (word >> uint64(41))) + s0
    t = s1 << uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= t
    s3 = (s3 << uint64(45)) | (s3 >> uint64(19))
    stream[0], stream[1], stream[2], stream[3] = s0, s1, s2, s3
    return word


@njit(cache=True)
def uniform(stream: Streams) -> float:
    """A number in [0, 1) with 53 random bits."""
    return (next_bits(stream) >> uint64(11)) * 2.0**-53


@njit(cache=True)
def integer_below(stream: Streams, bound: int) -> int:
    """A whole number in [0, bound), for bounds far below 2^53, where the bias is below 2^-53 * bound."""
    return int(uniform(stream) * bound)


@njit(cache=True, inline="always")
def _place(stream: Streams) -> tuple[np.int64, float]:
    """A random layer of the ziggurat and a random place in it, from independent bits of one word."""
    word = next_bits(stream)
    layer = np.int64(word & uint64(_LAYERS - 1))
    return layer, (np.int64(word) >> 11) * 2.0**-52 * _EDGES[layer]


@njit(cache=True, inline="always")
def normal(stream: Streams) -> float:
    """A draw of N(0, 1)."""
    layer, z = _place(stream)
    if abs(z) < _EDGES[layer + 1]:  # 98.8 % of the draws end here
        return z
    return _in_corner(stream, layer, z)


@njit(cache=True)
def _in_corner(stream: Streams, layer: np.int64, z: float) -> float:
    """A draw of N(0, 1), begun with a place outside the safe part of its layer."""
    while True:
        if layer == 0:
            return _beyond_tail(stream, z)
        rise = _HEIGHTS[layer + 1] - _HEIGHTS[layer]
        if _HEIGHTS[layer] + uniform(stream) * rise < math.exp(-0.5 * z * z):
            return z
        layer, z = _place(stream)
        if abs(z) < _EDGES[layer + 1]:
            return z


@njit(cache=True)
def _beyond_tail(stream: Streams, sign: float) -> float:
    """A draw of N(0, 1) given that it lies beyond the tail's beginning, on the side of ``sign``: Marsaglia (1964)."""
    while True:
        x = -math.log(1.0 - uniform(stream)) / _TAIL
        y = -math.log(1.0 - uniform(stream))
        if 2.0 * y > x * x:
            return math.copysign(_TAIL + x, sign)


@njit(cache=True)
def fill_normal(stream: Streams, out: Floats) -> None:
    """Fills the vector ``out`` with draws of N(0, 1) from one stream."""
    for i in range(out.size):
        out[i] = normal(stream)


@njit(cache=True, nogil=True)
def normals(streams: Streams, size: int) -> Floats:
    """``size`` draws of N(0, 1) from each stream. Shapes: streams (l, 4) -> (l, size)."""
    out = np.empty((streams.shape[0], size))
    for learner in range(streams.shape[0]):
        fill_normal(streams[learner], out[learner])
    return out


@njit(cache=True, nogil=True)
def uniforms(streams: Streams, size: int) -> Floats:
    """``size`` draws of U[0, 1) from each stream. Shapes: streams (l, 4) -> (l, size)."""
    out = np.empty((streams.shape[0], size))
    for learner in range(streams.shape[0]):
        for i in range(size):
            out[learner, i] = uniform(streams[learner])
    return out
