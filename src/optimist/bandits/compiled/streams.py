"""Random numbers inside compiled loops: one xoshiro256++ stream per learner, normals by the ziggurat method.

NumPy's generators cannot be called from many compiled threads at once. A stream here is four 64-bit words, a row of an
array that is saved with the policy, so results depend neither on the number of threads nor on who plays beside whom.

References: Blackman and Vigna, *Scrambled linear pseudorandom number generators* (2021); Marsaglia and Tsang, *The
ziggurat method for generating random variables* (2000), here with 256 layers and independent bits for layer and place.
"""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from optimist.compiling import Floats, compiled

Streams = NDArray[np.uint64]
"""Random states, four words each, (l, 4); one alone is (4,)."""


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


@compiled(inline=True)
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


@compiled()
def uniform(stream: Streams) -> float:
    """A number in [0, 1) with 53 random bits."""
    return (next_bits(stream) >> uint64(11)) * 2.0**-53


@compiled()
def integer_below(stream: Streams, bound: int) -> int:
    """A whole number in [0, bound), for bounds far below 2^53, where the bias is below 2^-53 * bound."""
    return int(uniform(stream) * bound)


@compiled(inline=True)
def _place(stream: Streams) -> tuple[np.int64, float]:
    """A random layer of the ziggurat and a random place in it, from independent bits of one word."""
    word = next_bits(stream)
    layer = np.int64(word & uint64(_LAYERS - 1))
    return layer, (np.int64(word) >> 11) * 2.0**-52 * _EDGES[layer]


@compiled(inline=True)
def normal(stream: Streams) -> float:
    """A draw of N(0, 1)."""
    layer, z = _place(stream)
    if abs(z) < _EDGES[layer + 1]:  # 98.8 % of the draws end here
        return z
    return _in_corner(stream, layer, z)


@compiled()
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


@compiled()
def _beyond_tail(stream: Streams, sign: float) -> float:
    """A draw of N(0, 1) given that it lies beyond the tail's beginning, on the side of ``sign``: Marsaglia (1964)."""
    while True:
        x = -math.log(1.0 - uniform(stream)) / _TAIL
        y = -math.log(1.0 - uniform(stream))
        if 2.0 * y > x * x:
            return math.copysign(_TAIL + x, sign)


@compiled()
def fill_normal(stream: Streams, out: Floats) -> None:
    """Fills the vector ``out`` with draws of N(0, 1) from one stream."""
    for i in range(out.size):
        out[i] = normal(stream)


@compiled(nogil=True)
def normals(streams: Streams, size: int) -> Floats:
    """``size`` draws of N(0, 1) from each stream. Shapes: streams (l, 4) -> (l, size)."""
    out = np.empty((streams.shape[0], size))
    for learner in range(streams.shape[0]):
        fill_normal(streams[learner], out[learner])
    return out


@compiled(nogil=True)
def noisy_targets(streams: Streams, rewards: Floats, members: int) -> Floats:
    """The targets of rewards and of noise ``y ~ N(0, 1)``, side by side. Shapes: rewards (l, s) -> (l, s, 1 + m)."""
    out = np.empty((*rewards.shape, 1 + members))
    for learner in range(rewards.shape[0]):
        for s in range(rewards.shape[1]):
            out[learner, s, 0] = rewards[learner, s]
            fill_normal(streams[learner], out[learner, s, 1:])
    return out


@compiled(nogil=True)
def uniforms(streams: Streams, size: int) -> Floats:
    """``size`` draws of U[0, 1) from each stream. Shapes: streams (l, 4) -> (l, size)."""
    out = np.empty((streams.shape[0], size))
    for learner in range(streams.shape[0]):
        for i in range(size):
            out[learner, i] = uniform(streams[learner])
    return out


_GOLDEN = uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: the steps of SplitMix64


@compiled(inline=True)
def scrambled(word: np.uint64) -> np.uint64:
    """A hash of 64 bits to 64 bits, one to one: the finalizer of SplitMix64 (Steele, Lea and Flood, 2014)."""
    word = (word ^ (word >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> uint64(27))) * uint64(0x94D049BB133111EB)
    return word ^ (word >> uint64(31))


@compiled(nogil=True)
def fork(streams: Streams, purpose: int, number: int) -> Streams:
    """Streams independent of ``streams`` and of its other forks, (l, 4): hashes of its state, purpose and number."""
    out = np.empty_like(streams)
    for learner in range(streams.shape[0]):
        word = scrambled(scrambled(uint64(purpose) + _GOLDEN) ^ uint64(number))
        for i in range(4):
            word = scrambled((word + _GOLDEN) ^ streams[learner, i])
        for i in range(4):  # as the authors of xoshiro advise: by SplitMix64
            word += _GOLDEN
            out[learner, i] = scrambled(word)
    return out


@compiled(inline=True)
def numbered_key(key: np.uint64, number: int) -> np.uint64:
    """A key for ``counted_normal`` made of another key and a number."""
    return scrambled(key ^ scrambled(uint64(number) + _GOLDEN))


_LANES, _BITS = 5, 12  # draws of a word, and the bits of each


def _equally_likely() -> NDArray[np.float32]:
    """4,096 equally likely values with the quantiles of N(0, 1) and its variance, (2^12,)."""
    count = 1 << _BITS
    upper = [NormalDist().inv_cdf((count // 2 + i + 0.5) / count) for i in range(count // 2)]
    values = np.concatenate([-np.array(upper), upper])
    return (values / values.std()).astype(np.float32)  # half the room in the fastest cache


_VALUES = _equally_likely()


@compiled(inline=True)
def counted_normal(key: np.uint64, index: int) -> float:
    """The draw of N(0, 1) with this index: a pure function of ``key`` and ``index``, so that it need not be kept.

    It takes one of 4,096 values up to 3.7 in size: fast, and enough for a prior, which is a sum over many columns.
    """
    word = scrambled(key + uint64(index // _LANES) * _GOLDEN)
    return _VALUES[(word >> uint64(_BITS * (index % _LANES))) & uint64((1 << _BITS) - 1)]


@compiled(inline=True)
def add_counted(key: np.uint64, scale: float, out: Floats) -> None:
    """Adds ``scale`` times the draws with the indices 0, 1, 2, ... to the vector ``out``."""
    whole = out.size // _LANES
    mask = uint64((1 << _BITS) - 1)
    for group in range(whole):
        word = scrambled(key + uint64(group) * _GOLDEN)
        i = group * _LANES
        out[i] += scale * _VALUES[word & mask]
        out[i + 1] += scale * _VALUES[(word >> uint64(12)) & mask]
        out[i + 2] += scale * _VALUES[(word >> uint64(24)) & mask]
        out[i + 3] += scale * _VALUES[(word >> uint64(36)) & mask]
        out[i + 4] += scale * _VALUES[(word >> uint64(48)) & mask]
    word = scrambled(key + uint64(whole) * _GOLDEN)
    for i in range(whole * _LANES, out.size):
        out[i] += scale * _VALUES[word & mask]
        word >>= uint64(_BITS)


@compiled(inline=True)
def fill_counted(key: np.uint64, scale: float, out: Floats) -> None:
    """``scale`` times the draws with the indices 0, 1, 2, ..., into the vector ``out``."""
    out[:] = 0
    add_counted(key, scale, out)


@compiled(nogil=True)
def next_words(streams: Streams) -> NDArray[np.uint64]:
    """The next 64 random bits of every stream. Shapes: streams (l, 4) -> (l,)."""
    out = np.empty(streams.shape[0], np.uint64)
    for learner in range(streams.shape[0]):
        out[learner] = next_bits(streams[learner])
    return out
