"""Compiled regression without a matrix, on rows given by their non-zeros: O(m) per non-zero, whatever d is.

Every coefficient belongs to a key, ``arm * d + column``. The coefficients of a key are a row of ``rows``, (slots, m):
column 0 theta, the others the members. Either every key has its slot (``table`` is empty, and the slot is the key), or
only keys that have been learned from have one, found in an open-addressing hash table. A key without a slot has its
prior: theta 0 and members ``N(0, 1/ridge)``, a pure function of the learner's ``prior_key``, the key and the member.

With ``decay`` below 1 a key's knowledge fades when it is next touched or read: ``last`` says up to which of its model's
samples (``clocks``) that was done. Letters in shapes are those of ``compiled``.
"""

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from optimist.bandits.compiled.linear import CONTRACT
from optimist.bandits.compiled.streams import counted_normal, fill_counted, numbered_key, scrambled
from optimist.compiling import Floats, Integers, compiled

Table = NDArray[np.int64]
"""Places of the hash table, (a power of 2, 2): a key, or -1 where it is free, and its slot."""


@compiled(inline=True)
def _place(table: Table, key: int) -> np.int64:
    """Where ``key`` stands in the table, or the free place where it belongs; one place at least is always free."""
    mask = table.shape[0] - 1
    place = np.int64(scrambled(uint64(key)) & uint64(mask))
    while table[place, 0] != key and table[place, 0] >= 0:
        place = (place + 1) & mask
    return place


@compiled(inline=True)
def _slot(table: Table, key: int) -> int | np.int64:
    """The slot of ``key``, or -1."""
    if table.shape[0] == 0:
        return key
    place = _place(table, key)
    return table[place, 1] if table[place, 0] == key else -1


@compiled(nogil=True)
def rebuild(table: Table, keys: Integers) -> bool:
    """Enters ``keys`` with their places as slots into an empty table; False if one comes twice."""
    for slot in range(keys.size):
        place = _place(table, keys[slot])
        if table[place, 0] == keys[slot]:
            return False
        table[place, 0], table[place, 1] = keys[slot], slot
    return True


@compiled(nogil=True)
def fault(indices: Integers, values: Floats, d: int) -> int:
    """0 for sound rows, 1 for a column outside 0 .. d - 1, 2 for a value that is not finite."""
    for k in range(indices.size):
        if indices[k] < 0 or indices[k] >= d:
            return 1
        if not np.isfinite(values[k]):
            return 2
    return 0


@compiled()
def _draw_prior(out: Floats, key: np.uint64, ridge: float) -> None:
    """Theta and members of a key before any sample. Shapes: out (m,)."""
    out[0] = 0
    fill_counted(key, 1 / np.sqrt(ridge), out[1:])


@compiled(nogil=True)
def fill_prior(rows: Floats, prior_key: np.uint64, ridge: float) -> None:
    """The prior of all keys 0, 1, 2, ... Shapes: rows (keys, m)."""
    for key in range(rows.shape[0]):
        _draw_prior(rows[key], numbered_key(prior_key, key), ridge)


@compiled(nogil=True)
def insert(
    table: Table,
    keys: Integers,
    count: int,
    rows: Floats,
    diagonal: Floats,
    last: Integers,
    prior_key: np.uint64,
    ridge: float,
    d: int,
    indptr: Integers,
    indices: Integers,
    arms: Integers,
    start: int,
) -> tuple[int, int]:
    """Gives every key of the samples from ``start`` on a slot, as far as there is room.

    Returns how many slots are taken, and the first sample that still lacks some. Shapes: keys, diagonal and last
    (slots,), rows (slots, m), indptr (s + 1,), arms (s,).
    """
    for s in range(start, arms.size):
        for k in range(indptr[s], indptr[s + 1]):
            key = arms[s] * d + indices[k]
            place = _place(table, key)
            if table[place, 0] == key:
                continue
            if count == keys.size:
                return count, s
            table[place, 0], table[place, 1] = key, count
            keys[count] = key
            _draw_prior(rows[count], numbered_key(prior_key, key), ridge)
            diagonal[count] = ridge
            last[count] = 0
            count += 1
    return count, arms.size


@compiled()
def _fade(row: Floats, diagonal: float, power: float, key: np.uint64, ridge: float, out: Floats) -> float:
    """The coefficients of a key whose samples count ``power`` times what they did; returns its new diagonal.

    What theta has learned, ``diagonal * theta``, fades by ``power``, what the members have by its root, and the prior
    by nothing: exact for one-hot features. Shapes: row and out (m,), which may be the same.
    """
    faded = ridge + power * (diagonal - ridge)
    root = np.sqrt(power)
    scale = 1 / np.sqrt(ridge)
    out[0] = power * diagonal * row[0] / faded
    for m in range(1, row.size):
        prior = ridge * scale * counted_normal(key, m - 1)
        out[m] = (prior + root * (diagonal * row[m] - prior)) / faded
    return faded


@compiled(nogil=True, fastmath=CONTRACT)
def read(
    table: Table,
    rows: Floats,
    diagonal: Floats,
    last: Integers,
    clocks: Integers,
    prior_key: np.uint64,
    ridge: float,
    decay: float,
    d: int,
    indptr: Integers,
    indices: Integers,
    values: Floats,
    rows_per_decision: int,
    arms: Integers,
) -> tuple[Floats, Floats]:
    """``<x, c_m>`` and ``x' D^-1 x`` for every action of every decision; changes nothing.

    Shapes: rows (slots, m), diagonal and last (slots,), clocks (a,), indptr (b r + 1,), arms (n,): the model of each
    action -> (b n, m), (b n,). A decision has r rows, n or 1: one context for all arms.
    """
    decisions = (indptr.size - 1) // rows_per_decision
    targets = rows.shape[1]
    answers = np.zeros((decisions * arms.size, targets), rows.dtype)
    norms = np.zeros(decisions * arms.size)
    own = np.empty(targets, rows.dtype)
    for decision in range(decisions):
        for action in range(arms.size):
            out = decision * arms.size + action
            row = decision * rows_per_decision + action % rows_per_decision
            arm = arms[action]
            for k in range(indptr[row], indptr[row + 1]):
                value = values[k]
                key = arm * d + indices[k]
                slot = _slot(table, key)
                if slot < 0:
                    _draw_prior(own, numbered_key(prior_key, key), ridge)
                    norms[out] += value * value / ridge
                    for m in range(targets):
                        answers[out, m] += value * own[m]
                elif decay < 1:
                    power = decay ** (clocks[arm] - last[slot])
                    spread = _fade(rows[slot], diagonal[slot], power, numbered_key(prior_key, key), ridge, own)
                    norms[out] += value * value / spread
                    for m in range(targets):
                        answers[out, m] += value * own[m]
                else:
                    norms[out] += value * value / diagonal[slot]
                    for m in range(targets):
                        answers[out, m] += value * rows[slot, m]
    return answers, norms


@compiled(nogil=True)
def faded(
    columns: Floats,
    diagonal: Floats,
    last: Integers,
    clocks: Integers,
    prior_keys: NDArray[np.uint64],
    ridge: float,
    decay: float,
) -> tuple[Floats, Floats]:
    """All coefficients and the diagonal as of now. Shapes: columns (l, a, d, m), diagonal and last (l, a, d)."""
    learners, arms, d, _ = columns.shape
    now, spread = np.empty_like(columns), np.empty_like(diagonal)
    for learner in range(learners):
        for arm in range(arms):
            for i in range(d):
                power = decay ** (clocks[learner, arm] - last[learner, arm, i])
                key = numbered_key(prior_keys[learner], arm * d + i)
                spread[learner, arm, i] = _fade(
                    columns[learner, arm, i], diagonal[learner, arm, i], power, key, ridge, now[learner, arm, i]
                )
    return now, spread


@compiled(nogil=True, fastmath=CONTRACT)
def _step(
    rows: Floats,
    diagonal: Floats,
    slots: Integers,
    values: Floats,
    targets: Floats,
    share: float,
    gain: float,
    scratch: Floats,
) -> None:
    """One step of adaptive descent, in place: see ``sgd.AdaptiveSGD``. Shapes: slots and values (k,), targets (m,).

    ``scratch`` (3, m) is overwritten.
    """
    predicted, correction, along = scratch[0], scratch[1], scratch[2]
    outputs = targets.size
    members = outputs - 1
    predicted[:] = 0
    spread = 0.0  # x' D^-1 x
    for k in range(slots.size):
        spread += values[k] * values[k] / diagonal[slots[k]]
        for m in range(outputs):
            predicted[m] += values[k] * rows[slots[k], m]
    if spread == 0:
        return
    squares = 0.0
    for m in range(1, outputs):
        squares += predicted[m] * predicted[m]
    for m in range(outputs):
        others = squares - predicted[m] * predicted[m] if m > 0 else squares
        counted = members - 1 if m > 0 else members
        variance = gain * (max(others, 0.0) + spread) / (counted + 1)
        correction[m] = (targets[m] - predicted[m]) * variance / (1 + variance)
        along[m] = (1 - share) / others if counted > 0 and others > 1e-30 else 0.0
    for k in range(slots.size):
        row = rows[slots[k]]
        direction = values[k] / diagonal[slots[k]] / spread
        product = 0.0  # <w_k, X w> over the members: the row of the ensemble's covariance, times x
        for m in range(1, outputs):
            product += row[m] * predicted[m]
        for m in range(outputs):
            if along[m] > 0:
                others = product - row[m] * predicted[m] if m > 0 else product
                row[m] += correction[m] * (along[m] * others + share * direction)
            else:
                row[m] += correction[m] * direction
        diagonal[slots[k]] += values[k] * values[k]


@compiled(nogil=True)
def descend(
    table: Table,
    rows: Floats,
    diagonal: Floats,
    last: Integers,
    clocks: Integers,
    prior_key: np.uint64,
    ridge: float,
    decay: float,
    d: int,
    indptr: Integers,
    indices: Integers,
    values: Floats,
    arms: Integers,
    targets: Floats,
    share: float,
    gain: float,
) -> None:
    """Learns from sparse samples in their order, in place; every key must have its slot.

    Shapes: rows (slots, m), diagonal and last (slots,), clocks (a,), indptr (s + 1,), arms (s,), targets (s, m).
    """
    longest = 0
    for s in range(arms.size):
        longest = max(longest, indptr[s + 1] - indptr[s])
    slots = np.empty(longest, np.int64)
    scratch = np.empty((3, targets.shape[1]))
    for s in range(arms.size):
        arm, first = arms[s], indptr[s]
        count = indptr[s + 1] - first
        for k in range(count):
            slots[k] = _slot(table, arm * d + indices[first + k])
        if decay < 1:
            clocks[arm] += 1
            for k in range(count):
                key = numbered_key(prior_key, arm * d + indices[first + k])
                _catch_up(rows, diagonal, last, slots[k], clocks[arm], key, ridge, decay)
        _step(rows, diagonal, slots[:count], values[first : first + count], targets[s], share, gain, scratch)


@compiled(nogil=True)
def descend_dense(
    columns: Floats,
    diagonal: Floats,
    last: Integers,
    clocks: Integers,
    prior_keys: NDArray[np.uint64],
    ridge: float,
    decay: float,
    x: Floats,
    arms: Integers,
    targets: Floats,
    share: float,
    gain: float,
) -> None:
    """The same from dense samples of many learners, zeros being passed over.

    Shapes: columns (l, a, d, m), diagonal and last (l, a, d), clocks (l, a), x (l, s, d), targets (l, s, m).
    """
    learners, samples, d = x.shape
    slots, values = np.empty(d, np.int64), np.empty(d, x.dtype)
    scratch = np.empty((3, targets.shape[2]))
    for learner in range(learners):
        for s in range(samples):
            arm = arms[learner, s]
            rows, spreads, seen = columns[learner, arm], diagonal[learner, arm], last[learner, arm]
            count = 0
            for i in range(d):
                if x[learner, s, i] != 0:
                    slots[count], values[count] = i, x[learner, s, i]
                    count += 1
            if decay < 1:
                clocks[learner, arm] += 1
                for k in range(count):
                    key = numbered_key(prior_keys[learner], arm * d + slots[k])
                    _catch_up(rows, spreads, seen, slots[k], clocks[learner, arm], key, ridge, decay)
            _step(rows, spreads, slots[:count], values[:count], targets[learner, s], share, gain, scratch)


@compiled()
def _catch_up(
    rows: Floats,
    diagonal: Floats,
    last: Integers,
    slot: int,
    clock: int,
    key: np.uint64,
    ridge: float,
    decay: float,
) -> None:
    """Lets the knowledge of one slot fade up to now."""
    power = decay ** (clock - last[slot])
    diagonal[slot] = _fade(rows[slot], diagonal[slot], power, key, ridge, rows[slot])
    last[slot] = clock
