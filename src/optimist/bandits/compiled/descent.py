"""Compiled stochastic gradient descent: the paper's with Polyak averaging, and the adaptive one; no d x d matrix."""

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled.linear import CONTRACT
from optimist.bandits.compiled.sparse import Table, catch_up, draw_prior, find_place
from optimist.bandits.compiled.streams import numbered_key
from optimist.compiling import Floats, Integers, compiled

FLOOR = 1e-6  # of the square of a feature, at least this much is taken not to be its mean: for the digits


@compiled(nogil=True, fastmath=CONTRACT)
def averaged_descent(
    iterates: Floats,
    averages: Floats,
    weights: Floats,
    x: Floats,
    arms: Integers,
    targets: Floats,
    learning_rate: float,
    is_implicit: bool,
) -> None:
    """One descent step per sample on ``(y - x' c)^2 / 2``, and the running average of the iterates, in place.

    ``c += step * x (y - x' c)``, then ``average_i += (c_i - average_i) / weight_i`` with ``weight_i += 1``, for the
    coordinates with ``x_i != 0`` only. ``step`` is the learning rate, or ``learning_rate / (1 + learning_rate |x|^2)``
    for implicit steps, which cannot overshoot.
    Shapes: iterates and averages (l, a, d, m), weights (l, a, d), x (l, s, d), arms (l, s), targets (l, s, m).
    """
    learners, samples, d = x.shape
    outputs = targets.shape[2]
    predicted = np.empty(outputs, iterates.dtype)
    correction = np.empty(outputs, iterates.dtype)
    for learner in range(learners):
        for s in range(samples):
            arm = arms[learner, s]
            row, c, average = x[learner, s], iterates[learner, arm], averages[learner, arm]
            weight = weights[learner, arm]
            predicted[:] = 0
            length = 0.0
            for i in range(d):
                if row[i] != 0:
                    length += row[i] * row[i]
                    for m in range(outputs):
                        predicted[m] += row[i] * c[i, m]
            step = learning_rate / (1.0 + learning_rate * length) if is_implicit else learning_rate
            for m in range(outputs):
                correction[m] = step * (targets[learner, s, m] - predicted[m])
            for i in range(d):
                if row[i] != 0:
                    weight[i] += 1
                    share = 1 / weight[i]
                    for m in range(outputs):
                        c[i, m] += row[i] * correction[m]
                        average[i, m] += share * (c[i, m] - average[i, m])


@compiled(nogil=True, fastmath=CONTRACT)
def _step(
    rows: Floats,
    moments: Floats,
    slots: Integers,
    values: Floats,
    targets: Floats,
    mass: float,
    share: float,
    gain: float,
    scratch: Floats,
    inverse: Floats,
) -> None:
    """One step of adaptive descent, in place: see ``sgd.AdaptiveSGD``.

    ``mass`` is the number of samples so far, as faded, or 0 to leave the mean of the features out.
    Shapes: slots and values (k,), targets (m,). ``inverse`` (k or more,) and ``scratch`` (3, m) are overwritten; the
    first two rows of ``scratch`` are then the predictions and how far they were corrected.
    """
    predicted, correction, along = scratch[0], scratch[1], scratch[2]
    outputs = targets.size
    members = outputs - 1
    predicted[:] = 0
    correction[:] = 0
    spread, lean, own = 0.0, 0.0, 0.0  # x' E^-1 x, u' E^-1 x, u' E^-1 u, where Sigma is about E + u u' / mass
    for k in range(slots.size):
        square, total = moments[slots[k], 0], moments[slots[k], 1] if mass > 0 else 0.0
        if mass > 0:
            square = max(square - total * total / mass, FLOOR * square)
        inverse[k] = 1 / square
        spread += values[k] * values[k] * inverse[k]
        lean += total * values[k] * inverse[k]
        own += total * total * inverse[k]
        for m in range(outputs):
            predicted[m] += values[k] * rows[slots[k], m]
    if spread == 0:
        return
    pull = lean / (mass + own) if mass > 0 else 0.0
    spread -= pull * lean  # x' (E + u u' / mass)^-1 x, by Sherman and Morrison
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
        total = moments[slots[k], 1] if mass > 0 else 0.0
        direction = (values[k] - pull * total) * inverse[k] / spread
        product = 0.0  # <w_k, X w> over the members: the row of the ensemble's covariance, times x
        for m in range(1, outputs):
            product += row[m] * predicted[m]
        for m in range(outputs):
            if along[m] > 0:
                others = product - row[m] * predicted[m] if m > 0 else product
                row[m] += correction[m] * (along[m] * others + share * direction)
            else:
                row[m] += correction[m] * direction
        moments[slots[k], 0] += values[k] * values[k]
        moments[slots[k], 1] += values[k]


@compiled(nogil=True, fastmath=CONTRACT)
def _reach(rows: Floats, x: Floats, predicted: Floats, correction: Floats) -> None:
    """The rest of a step, in place: along the ensemble's covariance where x is zero, while the prior outweighs noise.

    That is while the mean square v of the members at x exceeds the variance 1 of a sample, by ``1 - 1/v`` of the step.
    A covariance is counted less the nearer it is to what chance gives M members: ``1 - 1 / (M correlation^2)``, or 0.
    Shapes: rows (d, m), x (d,), predicted and correction (m,) as ``_step`` left them.
    """
    outputs = predicted.size
    squares = 0.0
    for m in range(1, outputs):
        squares += predicted[m] * predicted[m]
    if squares <= outputs - 1:
        return
    excess = 1 - (outputs - 1) / squares
    for i in range(x.size):
        if x[i] != 0:
            continue
        product, own = 0.0, 0.0
        for m in range(1, outputs):
            product += rows[i, m] * predicted[m]
            own += rows[i, m] * rows[i, m]
        trust = product * product - own * squares / (outputs - 1)
        if trust <= 0:
            continue
        trust *= excess / (product * product)
        for m in range(outputs):
            others = squares - predicted[m] * predicted[m] if m > 0 else squares
            if others > 1e-30:
                along = product - rows[i, m] * predicted[m] if m > 0 else product
                rows[i, m] += correction[m] * trust * along / others


@compiled(inline=True)
def _mass(clock: int, decay: float) -> float:
    """What ``clock`` samples count together, the last one in full."""
    return float(clock) if decay == 1 else (1 - decay**clock) / (1 - decay)


@compiled(nogil=True)
def descend(
    table: Table,
    keys: Integers,
    count: int,
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
    arms: Integers,
    targets: Floats,
    share: float,
    gain: float,
    is_centered: bool,
    start: int,
) -> tuple[int, int]:
    """Learns from the sparse samples from ``start`` on in their order, in place, as far as there is room for new keys.

    Returns how many slots are taken, and the first sample that was not learned for lack of room. Shapes: keys (slots,),
    rows (slots, m), moments (slots, 2), last (slots,), clocks (a,), indptr (s + 1,), arms (s,), targets (s, m).
    """
    longest = 0
    for s in range(start, arms.size):
        longest = max(longest, indptr[s + 1] - indptr[s])
    slots, inverse = np.empty(longest, np.int64), np.empty(longest)
    scratch = np.empty((3, targets.shape[1]))
    for s in range(start, arms.size):
        arm, first = arms[s], indptr[s]
        size = indptr[s + 1] - first
        for k in range(size):
            key = arm * d + indices[first + k]
            if table.size == 0:  # every key has its slot
                slots[k] = key
                continue
            place = find_place(table, keys, key)
            if table[place] < 0:
                if count == keys.size:
                    return count, s
                table[place] = count
                keys[count] = key
                draw_prior(rows[count], numbered_key(prior_key, key), ridge)
                moments[count, 0], moments[count, 1] = ridge, 0.0
                last[count] = 0
                count += 1
            slots[k] = table[place]
        mass = decay * _mass(clocks[arm], decay) if is_centered else 0.0
        if decay < 1:
            for k in range(size):
                key = numbered_key(prior_key, arm * d + indices[first + k])
                catch_up(rows, moments, last, slots[k], clocks[arm] + 1, key, ridge, decay)
        clocks[arm] += 1
        x = values[first : first + size]
        _step(rows, moments, slots[:size], x, targets[s], mass, share, gain, scratch, inverse)
    return count, arms.size


@compiled(nogil=True)
def descend_dense(
    columns: Floats,
    moments: Floats,
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
    is_centered: bool,
) -> None:
    """The same from dense samples of many learners; without decay a step may also reach where a sample is zero.

    Shapes: columns (l, a, d, m), moments (l, a, d, 2), last (l, a, d), clocks (l, a), x (l, s, d), targets (l, s, m).
    """
    learners, samples, d = x.shape
    slots, values, inverse = np.empty(d, np.int64), np.empty(d, x.dtype), np.empty(d)
    scratch = np.empty((3, targets.shape[2]))
    for learner in range(learners):
        for s in range(samples):
            arm = arms[learner, s]
            rows, seen = columns[learner, arm], last[learner, arm]
            size = 0
            for i in range(d):
                if x[learner, s, i] != 0:
                    slots[size], values[size] = i, x[learner, s, i]
                    size += 1
            mass = decay * _mass(clocks[learner, arm], decay) if is_centered else 0.0
            if decay < 1:
                for k in range(size):
                    key = numbered_key(prior_keys[learner], arm * d + slots[k])
                    catch_up(rows, moments[learner, arm], seen, slots[k], clocks[learner, arm] + 1, key, ridge, decay)
            clocks[learner, arm] += 1
            own, y = moments[learner, arm], targets[learner, s]
            _step(rows, own, slots[:size], values[:size], y, mass, share, gain, scratch, inverse)
            if decay == 1 and size < d:
                _reach(rows, x[learner, s], scratch[0], scratch[1])
