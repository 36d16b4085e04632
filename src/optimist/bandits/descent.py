"""Compiled stochastic gradient descent with Polyak averaging: O(m d) a sample, and no matrix of size d x d anywhere."""

import numpy as np
from numba import njit, prange

CHUNK = 2048  # rows of the coefficients that one thread takes at a time; fixed, so that sums never depend on threads
_FAST = {"contract", "nnan", "ninf", "nsz"}


@njit(cache=True, parallel=True, fastmath=_FAST)
def averaged_descent(iterates, averages, weights, x, arms, targets, learning_rate, is_implicit):
    """One descent step a sample on ``(y - x' c)^2 / 2``, and the running average of the iterates, in place.

    ``c += step * x (y - x' c)``, then ``average_i += (c_i - average_i) / weight_i`` with ``weight_i += 1``, for the
    coordinates with ``x_i != 0`` only. ``step`` is the learning rate, or ``learning_rate / (1 + learning_rate |x|^2)``
    for implicit steps, which cannot overshoot.
    Shapes: iterates and averages (l, a, d, m), weights (l, a, d), x (l, s, d), arms (l, s), targets (l, s, m).
    """
    learners, samples, d = x.shape
    outputs = targets.shape[2]
    chunks = (d + CHUNK - 1) // CHUNK
    partial = np.empty((learners, chunks, outputs + 1), iterates.dtype)
    error = np.empty((learners, outputs), iterates.dtype)
    for s in range(samples):
        for place in prange(learners * chunks):
            learner, chunk = divmod(np.int64(place), chunks)
            row, c, sums = x[learner, s], iterates[learner, arms[learner, s]], partial[learner, chunk]
            sums[:] = 0
            for i in range(chunk * CHUNK, min(d, (chunk + 1) * CHUNK)):
                if row[i] != 0:
                    for m in range(outputs):
                        sums[m] += row[i] * c[i, m]
                    sums[outputs] += row[i] * row[i]
        for learner in range(learners):
            length = 0.0
            for chunk in range(chunks):
                length += partial[learner, chunk, outputs]
            step = learning_rate / (1.0 + learning_rate * length) if is_implicit else learning_rate
            for m in range(outputs):
                predicted = 0.0
                for chunk in range(chunks):
                    predicted += partial[learner, chunk, m]
                error[learner, m] = step * (targets[learner, s, m] - predicted)
        for place in prange(learners * chunks):
            learner, chunk = divmod(np.int64(place), chunks)
            arm = arms[learner, s]
            row, c, average = x[learner, s], iterates[learner, arm], averages[learner, arm]
            weight = weights[learner, arm]
            for i in range(chunk * CHUNK, min(d, (chunk + 1) * CHUNK)):
                if row[i] != 0:
                    weight[i] += 1
                    share = 1 / weight[i]
                    for m in range(outputs):
                        c[i, m] += row[i] * error[learner, m]
                        average[i, m] += share * (c[i, m] - average[i, m])
