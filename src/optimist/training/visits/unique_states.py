"""How many different states were seen: 64-bit fingerprints, an exact set of them, and an estimate beyond its memory.

References: Flajolet et al., *HyperLogLog* (2007); Ting, *Streamed approximate counting of distinct elements* (2014) for
the estimate.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from optimist.compiling import compiled
from optimist.fingerprints import Fingerprints, fingerprints

__all__ = ["REGISTERS", "SMALLEST_TABLE", "UniqueStates", "fingerprints"]

REGISTERS = 1 << 16  # of the estimate, a byte each: a standard deviation of 0.3 %
SMALLEST_TABLE = 1 << 10  # slots
HIGHEST_RANK = 36  # sums of 2^-rank over the registers are then exact in float64, in whatever order
_INDEX_BITS = 16


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

    def holds(self, fingerprints: Fingerprints) -> NDArray[np.bool_]:
        """Whether each was added before; an error once they are only estimated. Shapes: (n,) -> (n,)."""
        if not self.exact:
            raise ValueError(
                "the states are more than the memory holds and only estimated: which they are is not known"
            )
        return np.isin(np.maximum(fingerprints, np.uint64(1)), self._held())

    def state_dict(self) -> dict[str, Any]:
        """The fingerprints of the exact count, or the registers and the estimate."""
        if self.exact:
            return {"fingerprints": np.sort(self._held())}  # the table's order depends on its history, the set does not
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
