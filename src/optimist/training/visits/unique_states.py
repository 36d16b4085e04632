"""How many different states were seen: 64-bit fingerprints, an exact set of them, and an estimate beyond its memory.

References: Steele, Lea, Flood, *Fast splittable pseudorandom number generators* (2014) for the finalizer (Stafford's
mix13); Collet, *xxHash* (2012) for the multiply-rotate-multiply round; Flajolet et al., *HyperLogLog* (2007); Ting,
*Streamed approximate counting of distinct elements* (2014) for the estimate.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from optimist.compiling import compiled

Fingerprints = NDArray[np.uint64]

REGISTERS = 1 << 16  # of the estimate, a byte each: a standard deviation of 0.3 %
SMALLEST_TABLE = 1 << 10  # slots
HIGHEST_RANK = 36  # sums of 2^-rank over the registers are then exact in float64, in whatever order
_INDEX_BITS = 16
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


class UniqueStates:
    """The number of different fingerprints added: exact while a table of ``limit_bytes`` holds them, then estimated.

    The estimate starts at the exact count and never falls. Each change of a HyperLogLog register adds the inverse of
    the probability that a new state changes one: unbiased, with a relative standard deviation below
    ``sqrt(ln 2 / REGISTERS)``.
    """

    def __init__(self, limit_bytes: int):
        if limit_bytes < 8 * SMALLEST_TABLE:
            raise ValueError(f"limit_bytes must be at least {8 * SMALLEST_TABLE}, got {limit_bytes}")
        self._limit_bytes = limit_bytes
        self._table = np.zeros(SMALLEST_TABLE, np.uint64)
        self._stored = 0
        self._registers = np.zeros(0, np.uint8)  # none while the count is exact
        self._estimate = self._unsettled = 0.0

    @property
    def exact(self) -> bool:
        """Whether the count is exact."""
        return self._registers.size == 0

    @property
    def count(self) -> int:
        """The number of different fingerprints added so far."""
        return self._stored if self.exact else round(self._estimate)

    def __len__(self) -> int:
        return self.count

    def add(self, fingerprints: Fingerprints) -> None:
        """Count those that were not there yet. Shapes: fingerprints (n,)."""
        if fingerprints.dtype != np.uint64 or fingerprints.ndim != 1:
            raise ValueError(
                f"fingerprints must be uint64 (n,), got {fingerprints.dtype} {fingerprints.shape}: "
                "unique_states.fingerprints(rows) makes them"
            )
        done = 0
        while self.exact:
            done, self._stored = _insert(self._table, fingerprints, done, self._stored)
            if done == len(fingerprints):
                return
            self._grow()
        self._estimate, self._unsettled = _observe(self._registers, fingerprints, done, self._estimate, self._unsettled)

    def state_dict(self) -> dict[str, Any]:
        """The fingerprints of the exact count, or the registers and the estimate."""
        if self.exact:
            return {"fingerprints": self._held()}
        return {"registers": self._registers.copy(), "estimate": self._estimate}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        if state.keys() == {"registers", "estimate"}:
            registers = np.array(state["registers"])
            if registers.dtype != np.uint8 or registers.shape != (REGISTERS,):
                raise ValueError(f"registers must be uint8 ({REGISTERS},), got {registers.dtype} {registers.shape}")
            self._table, self._stored = np.zeros(0, np.uint64), 0
            self._registers, self._estimate = registers, float(state["estimate"])
            self._unsettled = float(np.exp2(-registers.astype(np.float64)).sum())
        elif state.keys() == {"fingerprints"}:
            fresh = UniqueStates(self._limit_bytes)
            fresh.add(np.asarray(state["fingerprints"]))
            self.__dict__.update(fresh.__dict__)
        else:
            raise ValueError(
                f"expected the entry 'fingerprints', or 'registers' and 'estimate', got {sorted(state)}: "
                "was the state saved by UniqueStates?"
            )

    def _held(self) -> Fingerprints:
        return self._table[self._table != 0]

    def _grow(self) -> None:
        held = self._held()
        if 2 * self._table.nbytes <= self._limit_bytes:
            self._table = np.zeros(2 * len(self._table), np.uint64)
            _insert(self._table, held, 0, 0)
        else:
            self._estimate, self._registers = float(self._stored), np.zeros(REGISTERS, np.uint8)
            _, self._unsettled = _observe(self._registers, held, 0, 0.0, float(REGISTERS))
            self._table, self._stored = np.zeros(0, np.uint64), 0


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


@compiled(nogil=True)
def _insert(table: Fingerprints, keys: Fingerprints, start: int, stored: int) -> tuple[int, int]:
    """Puts ``keys[start:]`` into the table until it is three quarters full: the next position and the number stored."""
    mask, room = uint64(table.size - 1), table.size * 3 // 4
    for i in range(start, keys.size):
        key = max(keys[i], uint64(1))  # 0 marks an empty slot
        slot = key & mask
        while table[slot] != 0 and table[slot] != key:
            slot = (slot + uint64(1)) & mask
        if table[slot] == 0:
            if stored == room:
                return i, stored
            table[slot] = key
            stored += 1
    return keys.size, stored


@compiled(nogil=True)
def _observe(
    registers: NDArray[np.uint8], keys: Fingerprints, start: int, estimate: float, unsettled: float
) -> tuple[float, float]:
    """The estimate and ``unsettled = sum_k 2^-register_k`` after ``keys[start:]``; updates the registers.

    A register keeps the highest rank of its keys, 1 + the number of zeros that their other bits end with. A new key
    changes one of the m registers with probability ``unsettled / m``.
    """
    for i in range(start, keys.size):
        key = max(keys[i], uint64(1))
        rest = key >> uint64(_INDEX_BITS)
        rank = 1
        while rank < HIGHEST_RANK and rest & uint64(1) == 0:
            rank += 1
            rest >>= uint64(1)
        slot = key & uint64(REGISTERS - 1)
        held = registers[slot]
        if rank > held:
            estimate += registers.size / unsettled
            registers[slot] = rank
            unsettled += 2.0 ** -float(rank) - 2.0 ** -float(held)
    return estimate, unsettled
