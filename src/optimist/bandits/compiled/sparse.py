"""Compiled coefficients without a matrix, read by rows given by their non-zeros: O(m) per non-zero, whatever d is.

Every coefficient belongs to a key, ``arm * d + column``. The coefficients of a key are a row of ``rows``, (slots, m):
column 0 theta, the others the members. Either every key has its slot (``table`` is empty, and the slot is the key), or
only keys that have been learned from have one, found in an open-addressing hash table. A key without a slot has its
prior: theta 0 and members ``N(0, 1/ridge)``, a pure function of the learner's ``prior_key``, the key and the member.
Of the samples a key knows its ``moments``, (slots, 2): its place on the diagonal of Sigma, and the sum of its features.

With ``decay`` below 1 a key's knowledge fades when it is next touched or read: ``last`` says up to which of its model's
samples (``clocks``) that was done. Letters in shapes are those of ``compiled``.
"""

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from optimist.bandits.compiled.linear import CONTRACT
from optimist.bandits.compiled.streams import add_counted, counted_normal, fill_counted, numbered_key, scrambled
from optimist.compiling import Floats, Integers, compiled

Table = NDArray[np.int32]
"""The hash table, (a power of 2,): a slot, or -1 where it is free. Small, so that it stays in a near cache."""


@compiled(inline=True)
def find_place(table: Table, keys: Integers, key: int) -> np.int64:
    """Where the slot of ``key`` stands in the table, or the free place where it belongs; one at least is free."""
    mask = table.size - 1
    place = np.int64(scrambled(uint64(key)) & uint64(mask))
    while table[place] >= 0 and keys[table[place]] != key:
        place = (place + 1) & mask
    return place


@compiled(inline=True)
def find_slot(table: Table, keys: Integers, key: int) -> int | np.int64:
    """The slot of ``key``, or -1."""
    return key if table.size == 0 else np.int64(table[find_place(table, keys, key)])


@compiled(nogil=True)
def rebuild(table: Table, keys: Integers) -> bool:
    """Enters ``keys`` with their places as slots into an empty table; False if one comes twice."""
    for slot in range(keys.size):
        place = find_place(table, keys, keys[slot])
        if table[place] >= 0:
            return False
        table[place] = slot
    return True


@compiled(nogil=True)
def fault(indptr: Integers, indices: Integers, values: Floats, n_rows: int, d: int) -> int:
    """0 for sound rows, 1 for a column outside 0 .. d - 1, 2 for a value that is not finite, 3 for wrong pointers."""
    if indptr.size != n_rows + 1 or indptr[0] != 0 or indptr[n_rows] > min(indices.size, values.size):
        return 3
    for row in range(n_rows):
        if indptr[row] > indptr[row + 1]:
            return 3
    for k in range(indptr[n_rows]):
        if indices[k] < 0 or indices[k] >= d:
            return 1
        if not np.isfinite(values[k]):
            return 2
    return 0


@compiled()
def draw_prior(out: Floats, key: np.uint64, ridge: float) -> None:
    """Theta and members of a key before any sample. Shapes: out (m,)."""
    out[0] = 0
    fill_counted(key, 1 / np.sqrt(ridge), out[1:])


@compiled(nogil=True)
def fill_prior(rows: Floats, prior_key: np.uint64, ridge: float) -> None:
    """The prior of all keys 0, 1, 2, ... Shapes: rows (keys, m)."""
    for key in range(rows.shape[0]):
        draw_prior(rows[key], numbered_key(prior_key, key), ridge)


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


@compiled()
def catch_up(
    rows: Floats,
    moments: Floats,
    last: Integers,
    slot: int,
    clock: int,
    key: np.uint64,
    ridge: float,
    decay: float,
) -> None:
    """Lets the knowledge of one slot fade up to now."""
    power = decay ** (clock - last[slot])
    moments[slot, 0] = _fade(rows[slot], moments[slot, 0], power, key, ridge, rows[slot])
    moments[slot, 1] *= power
    last[slot] = clock


@compiled(nogil=True, fastmath=CONTRACT)
def read(
    table: Table,
    keys: Integers,
    rows: Floats,
    moments: Floats,
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
) -> Floats:
    """``<x, c_m>`` for every action of every decision; changes nothing.

    Shapes: keys and last (slots,), rows (slots, m), moments (slots, 2), clocks (a,), indptr (b r + 1,), arms (n,): the
    model of each action -> (b n, m). A decision has r rows, n or 1: one context for all arms.
    """
    decisions = (indptr.size - 1) // rows_per_decision
    targets = rows.shape[1]
    answers = np.zeros((decisions * arms.size, targets), rows.dtype)
    own = np.empty(targets, rows.dtype)
    slots = np.empty(indices.size, np.int64)
    scale = 1 / np.sqrt(ridge)
    for out in range(answers.shape[0]):
        decision, action = out // arms.size, out % arms.size
        row = decision * rows_per_decision + action % rows_per_decision
        arm, answer = arms[action], answers[out]
        for k in range(indptr[row], indptr[row + 1]):  # first all look-ups, which need not wait for each other
            slots[k] = find_slot(table, keys, arm * d + indices[k])
        for k in range(indptr[row], indptr[row + 1]):
            value, slot = values[k], slots[k]
            if slot >= 0 and decay == 1:
                for m in range(targets):
                    answer[m] += value * rows[slot, m]
                continue
            key = numbered_key(prior_key, arm * d + indices[k])
            if slot < 0:
                add_counted(key, value * scale, answer[1:])
                continue
            _fade(rows[slot], moments[slot, 0], decay ** (clocks[arm] - last[slot]), key, ridge, own)
            for m in range(targets):
                answer[m] += value * own[m]
    return answers


@compiled(nogil=True, fastmath=CONTRACT)
def diagonal_norms(
    table: Table,
    keys: Integers,
    moments: Floats,
    last: Integers,
    clocks: Integers,
    ridge: float,
    decay: float,
    d: int,
    indptr: Integers,
    indices: Integers,
    values: Floats,
    rows_per_decision: int,
    arms: Integers,
) -> Floats:
    """``x' D^-1 x`` for every action of every decision, (b n,), D the diagonal of Sigma. Shapes as for ``read``."""
    decisions = (indptr.size - 1) // rows_per_decision
    norms = np.zeros(decisions * arms.size)
    for out in range(norms.size):
        decision, action = out // arms.size, out % arms.size
        row = decision * rows_per_decision + action % rows_per_decision
        for k in range(indptr[row], indptr[row + 1]):
            slot = find_slot(table, keys, arms[action] * d + indices[k])
            spread = ridge if slot < 0 else moments[slot, 0]
            if slot >= 0 and decay < 1:
                spread = ridge + decay ** (clocks[arms[action]] - last[slot]) * (spread - ridge)
            norms[out] += values[k] * values[k] / spread
    return norms


@compiled(nogil=True)
def faded(
    columns: Floats,
    moments: Floats,
    last: Integers,
    clocks: Integers,
    prior_keys: NDArray[np.uint64],
    ridge: float,
    decay: float,
) -> tuple[Floats, Floats]:
    """All coefficients and the diagonal as of now. Shapes: columns (l, a, d, m), moments (l, a, d, 2), last (l, a, d).

    Returns (l, a, d, m) and (l, a, d).
    """
    learners, arms, d, _ = columns.shape
    now, spread = np.empty_like(columns), np.empty((learners, arms, d))
    for learner in range(learners):
        for arm in range(arms):
            for i in range(d):
                power = decay ** (clocks[learner, arm] - last[learner, arm, i])
                key = numbered_key(prior_keys[learner], arm * d + i)
                spread[learner, arm, i] = _fade(
                    columns[learner, arm, i], moments[learner, arm, i, 0], power, key, ridge, now[learner, arm, i]
                )
    return now, spread
