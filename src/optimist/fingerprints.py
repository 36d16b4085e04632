"""64-bit fingerprints of the rows of an array: equal for equal rows, the same in every run.

References: Steele, Lea, Flood, *Fast splittable pseudorandom number generators* (2014) for the finalizer (Stafford's
mix13); Collet, *xxHash* (2012) for the multiply-rotate-multiply round.
"""

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from optimist.compiling import compiled

Fingerprints = NDArray[np.uint64]

_WORD, _LANES = 8, 4  # bytes; chains of multiplications that run side by side
_A, _B, _C = uint64(0x9E3779B97F4A7C15), uint64(0xBF58476D1CE4E5B9), uint64(0x94D049BB133111EB)


def fingerprints(rows: np.ndarray) -> Fingerprints:
    """A 64-bit hash of every row's bytes, the same in every run. Shapes: (n, ...) -> (n,).

    Rows that differ in one word of 8 bytes never share a fingerprint, others with probability 2^-64 a pair. Floats:
    -0.0 and 0.0 are one state.
    """
    if rows.ndim == 0:
        raise ValueError("rows must have a leading axis, one entry a state; got a single number")
    if np.issubdtype(rows.dtype, np.floating):
        rows = rows + rows.dtype.type(0)
    rows = np.ascontiguousarray(rows).reshape(len(rows), int(np.prod(rows.shape[1:])))
    return _hash_rows(rows.view(np.uint8))


@compiled(nogil=True, inline=True)
def _mix(x: np.uint64) -> np.uint64:
    x = (x ^ (x >> uint64(30))) * _B
    x = (x ^ (x >> uint64(27))) * _C
    return x ^ (x >> uint64(31))


@compiled(nogil=True, inline=True)
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    # One to one in the lane and in the word. The word is multiplied first: else two flipped bits would cancel.
    lane += word * _A
    return ((lane << uint64(31)) | (lane >> uint64(33))) * _C


@compiled(nogil=True, inline=True)
def _read(row: NDArray[np.uint8], start: int, size: int) -> np.uint64:
    word = uint64(0)
    for k in range(size):  # little-endian everywhere; compiled to one load where size is 8
        word |= uint64(row[start + k]) << uint64(8 * k)
    return word


@compiled(nogil=True)
def _hash_rows(rows: NDArray[np.uint8]) -> Fingerprints:
    n, size = rows.shape
    out = np.empty(n, np.uint64)
    block = _WORD * _LANES
    for i in range(n):
        row = rows[i]
        a, b, c, d = _A, _B, _C, uint64(size)
        start = 0
        while start + block <= size:
            a = _round(a, _read(row, start, 8))
            b = _round(b, _read(row, start + 8, 8))
            c = _round(c, _read(row, start + 16, 8))
            d = _round(d, _read(row, start + 24, 8))
            start += block
        while start + _WORD <= size:
            a = _round(a, _read(row, start, 8))
            start += _WORD
        if start < size:
            a = _round(a, _read(row, start, size - start))
        out[i] = _mix(_round(_round(_round(_mix(a), _mix(b)), _mix(c)), _mix(d)))
    return out
