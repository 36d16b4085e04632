"""Compiled stochastic gradient descent with Polyak averaging: O(m d) per sample, no d x d matrix anywhere."""

import numpy as np

from optimist.bandits.compiled.linear import CONTRACT
from optimist.compiling import Floats, Integers, compiled


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
