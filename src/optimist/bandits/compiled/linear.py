"""Compiled linear algebra of many small models: predictions, elliptical norms, recursive least squares, rotations."""

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled.streams import Streams, integer_below
from optimist.compiling import Floats, Integers, compiled

CONTRACT = {"contract", "nnan", "ninf", "nsz"}  # fused multiply-add; sums keep their order
BLOCK = 64  # rows that are used for all actions before the next are fetched
REASSOCIATE = {"contract", "nnan", "ninf", "nsz", "reassoc"}  # and vectorized sums


@compiled(nogil=True, fastmath=CONTRACT)
def predictions(x: Floats, arms: Integers, coefficients: Floats) -> Floats:
    """``<x_n, c_m>`` for every action and target. Shapes: x (l|1, n|1, d), arms (n,), c (l, a, d, m) -> (l, n, m)."""
    learners, _, d, targets = coefficients.shape
    out = np.zeros((learners, arms.size, targets), coefficients.dtype)
    for learner in range(learners):
        shared = learner % x.shape[0]
        for start in range(0, d, BLOCK):  # a block of coefficients stays in the cache for all actions
            for action in range(arms.size):
                row, model = action % x.shape[1], arms[action]
                for i in range(start, min(d, start + BLOCK)):
                    value = x[shared, row, i]
                    if value != 0:  # sparse features cost what they hold
                        for m in range(targets):
                            out[learner, action, m] += value * coefficients[learner, model, i, m]
    return out


@compiled(nogil=True, fastmath=CONTRACT)
def largest_magnitudes(deviations: Floats) -> Floats:
    """``max_m |deviation_m|``. Shapes: (l, b, n, m) -> (l, b, n)."""
    learners, decisions, actions, members = deviations.shape
    out = np.empty((learners, decisions, actions), deviations.dtype)
    for learner in range(learners):
        for decision in range(decisions):
            for action in range(actions):
                most = abs(deviations[learner, decision, action, 0])
                for m in range(1, members):
                    most = max(most, abs(deviations[learner, decision, action, m]))
                out[learner, decision, action] = most
    return out


@compiled(nogil=True, fastmath=REASSOCIATE)
def squared_norms(x: Floats, arms: Integers, inverse: Floats) -> Floats:
    """``x' P x``, P given by its lower triangle. Shapes: x (l|1, n|1, d), arms (n,), inverse (l, a, d, d) -> (l, n)."""
    learners, actions, d = inverse.shape[0], arms.size, x.shape[2]
    out = np.zeros((learners, actions))
    for learner in range(learners):
        for start in range(0, d, BLOCK):  # a block of rows stays in the cache for all actions
            for action in range(actions):
                row = x[learner % x.shape[0], action % x.shape[1]]
                p = inverse[learner, arms[action]]
                total = 0.0
                for i in range(start, min(d, start + BLOCK)):
                    if row[i] != 0:
                        half = 0.5 * row[i] * p[i, i]
                        for j in range(i):  # the lower triangle twice is the whole
                            half += p[i, j] * row[j]
                        total += 2.0 * row[i] * half
                out[learner, action] += total
    return out


@compiled(nogil=True, fastmath=REASSOCIATE)
def multiply_lower(p: Floats, x: Floats, out: Floats) -> None:
    """``P x`` into ``out``, P symmetric and given by its lower triangle. Shapes: p (d, d), x and out (d,)."""
    for i in range(x.size):
        total = 0.0
        value = x[i]
        for j in range(i):
            total += p[i, j] * x[j]
            out[j] += p[i, j] * value
        out[i] = total + p[i, i] * value


@compiled(nogil=True)
def multiply_symmetric(inverse: Floats, right: Floats) -> Floats:
    """``P z`` for P given by its lower triangle. Shapes: inverse (l, a, d, d), right (l, b, a, d) -> (l, b, a, d)."""
    out = np.empty_like(right)
    learners, decisions, models, _ = right.shape
    for learner in range(learners):
        for decision in range(decisions):
            for model in range(models):
                multiply_lower(inverse[learner, model], right[learner, decision, model], out[learner, decision, model])
    return out


@compiled(nogil=True, fastmath=REASSOCIATE)
def recursive_least_squares(
    inverse: Floats, log_det: Floats, coefficients: Floats, x: Floats, arms: Integers, targets: Floats
) -> None:
    """Adds the samples to the ridge regressions, in place, one after the other: Sherman and Morrison.

    ``k = P x / (1 + x' P x)``, ``c += k (y - x' c)``, ``P -= k (P x)'``, ``log det(Sigma) += log(1 + x' P x)``.
    Only the lower triangle of P is kept up: half the memory to move, which is what a step costs.
    Shapes: inverse (l, a, d, d), log_det (l, a), coefficients (l, a, d, m), x (l, s, d), arms (l, s),
    targets (l, s, m).
    """
    d, outputs = x.shape[2], targets.shape[2]
    for learner in range(x.shape[0]):
        px = np.empty(d)
        error = np.empty(outputs)
        for s in range(x.shape[1]):
            row = x[learner, s]
            p = inverse[learner, arms[learner, s]]
            c = coefficients[learner, arms[learner, s]]
            multiply_lower(p, row, px)
            surprise = 1.0
            for i in range(d):
                surprise += px[i] * row[i]
            for m in range(outputs):
                error[m] = targets[learner, s, m]
            for i in range(d):
                if row[i] != 0:
                    for m in range(outputs):
                        error[m] -= row[i] * c[i, m]
            for i in range(d):
                gain = px[i] / surprise
                for m in range(outputs):
                    c[i, m] += gain * error[m]
                for j in range(i + 1):
                    p[i, j] -= gain * px[j]
            log_det[learner, arms[learner, s]] += np.log(surprise)


@compiled(nogil=True, fastmath=CONTRACT)
def fade_in(gram: Floats, moments: Floats, x: Floats, arms: Integers, targets: Floats, fades: Floats) -> None:
    """Adds the samples to ``sum v x x'`` and ``sum v x y``, in place, which fade before each sample of their model.

    Shapes: gram (l, a, d, d), moments (l, a, d, m), x (l, s, d), arms (l, s), targets (l, s, m), fades (m,); the first
    of ``fades`` is also that of the Gram matrix.
    """
    learners, samples, d = x.shape
    for learner in range(learners):
        for s in range(samples):
            arm = arms[learner, s]
            row, g, b = x[learner, s], gram[learner, arm], moments[learner, arm]
            for i in range(d):
                for j in range(d):
                    g[i, j] = fades[0] * g[i, j] + row[i] * row[j]
                for m in range(fades.size):
                    b[i, m] = fades[m] * b[i, m] + row[i] * targets[learner, s, m]


@compiled(nogil=True, fastmath=CONTRACT)
def rotate_in(factor: Floats, x: Floats, arms: Integers, decay: float) -> None:
    """Adds the samples to upper-triangular Cholesky factors R, R'R = Sigma, in place, by Givens rotations.

    Before each sample its model's Sigma fades by ``decay``.
    Shapes: factor (l, a, d, d), x (l, s, d), arms (l, s). Starts from any factor, the zero matrix included.
    """
    d = x.shape[2]
    fade = np.sqrt(decay)
    for learner in range(x.shape[0]):
        rest = np.empty(d)
        for s in range(x.shape[1]):
            r = factor[learner, arms[learner, s]]
            if decay != 1:
                for i in range(d):
                    for j in range(i, d):
                        r[i, j] *= fade
            for i in range(d):
                rest[i] = x[learner, s, i]
            for i in range(d):
                if rest[i] != 0:
                    length = np.hypot(r[i, i], rest[i])
                    cosine, sine = r[i, i] / length, rest[i] / length
                    for j in range(i, d):
                        upper, lower = r[i, j], rest[j]
                        r[i, j] = cosine * upper + sine * lower
                        rest[j] = cosine * lower - sine * upper


@compiled(nogil=True, fastmath=CONTRACT)
def solve_upper(factor: Floats, right: Floats) -> Floats:
    """``R^-1 z`` by back substitution. Shapes: factor (l, a, d, d), right (l, b, a, d, m) -> (l, b, a, d, m)."""
    out = right.copy()
    learners, decisions, models, d, members = right.shape
    for learner in range(learners):
        for decision in range(decisions):
            for model in range(models):
                r, w = factor[learner, model], out[learner, decision, model]
                for i in range(d - 1, -1, -1):
                    for j in range(i + 1, d):
                        for m in range(members):
                            w[i, m] -= r[i, j] * w[j, m]
                    for m in range(members):
                        w[i, m] /= r[i, i]
    return out


@compiled(nogil=True)
def choose(scores: Floats, allowed: NDArray[np.bool_], streams: Streams) -> NDArray[np.int64]:
    """A place of the largest score among the allowed ones, ties broken at random; -1 where one of them is not finite.

    Shapes: scores (l, b, n), allowed (l|1, b|1, n) -> (l, b).
    """
    learners, decisions, actions = scores.shape
    out = np.empty((learners, decisions), np.int64)
    for learner in range(learners):
        for decision in range(decisions):
            out[learner, decision] = -1
            row = scores[learner, decision]
            may = allowed[learner % allowed.shape[0], decision % allowed.shape[1]]
            best, ties = -np.inf, 0
            for action in range(actions):
                if may[action] and not np.isfinite(row[action]):
                    out[learner, decision], ties = -1, 0
                    break
                if may[action] and row[action] > best:
                    best, ties = row[action], 1
                    out[learner, decision] = action
                elif may[action] and row[action] == best:
                    ties += 1
            if ties > 1:
                left = integer_below(streams[learner], ties)
                for action in range(actions):
                    if may[action] and row[action] == best:
                        if left == 0:
                            out[learner, decision] = action
                            break
                        left -= 1
    return out
