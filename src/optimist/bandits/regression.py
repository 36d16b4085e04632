"""The two regression oracles of lines 4 and 6 of Algorithm 1: recursive least squares (exact), averaged SGD (scalable).

Rewards and noise are regressed on the same features, so one oracle holds all targets side by side: column 0 of its
coefficients is the reward estimate theta, the others are the noise regressors w^(1) .. w^(M).
Letters in shapes are those of ``kernels.py``.
"""

from typing import Protocol

import numpy as np

from optimist.bandits import descent, kernels
from optimist.bandits.arrays import Arrays, Floats, Integers


class Regression(Protocol):
    """Ridge regressions of several targets on the same features, one sample at a time."""

    @property
    def arrays(self) -> Arrays:
        """Every array of the state, by name, live: writing into them restores a saved state."""
        ...

    @property
    def columns(self) -> Floats:
        """The coefficients of every target, (l, a, d, m)."""
        ...

    def update(self, x: Floats, arms: Integers, targets: Floats) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s), targets (l, s, m)."""
        ...


class RecursiveLeastSquares:
    """Exact: ``c = Sigma^-1 (ridge c_0 + sum x y)`` with ``Sigma = ridge I + sum x x'``, at O(d^2 + d m) a sample.

    ``P = Sigma^-1`` is kept by rank-one updates of its lower triangle, always in float64: Sherman and Morrison's
    formula drifts in float32.
    Paper: Algorithm 1, lines 4 and 6.
    """

    def __init__(self, initial: Floats, ridge: float):
        learners, arms, d, _ = initial.shape
        self.columns = initial
        self.inverse = np.zeros((learners, arms, d, d))
        self.inverse[:] = np.eye(d) / ridge
        self.log_det = np.zeros((learners, arms))  # log det(Sigma / ridge)

    @property
    def arrays(self) -> Arrays:
        """Coefficients, inverse covariance and its determinant."""
        return {"columns": self.columns, "inverse": self.inverse, "log_det": self.log_det}

    def elliptical_norms(self, x: Floats, arms: Integers) -> Floats:
        """``sqrt(x' Sigma^-1 x)``. Shapes: x (l|1, b, n|1, d), arms (n,) -> (l, b, n). Paper: section 2, LinUCB."""
        rows, all_arms = merge_decisions(x, arms)
        norms = np.sqrt(kernels.squared_norms(rows, all_arms, self.inverse))
        return norms.reshape(-1, x.shape[1], arms.size)

    def update(self, x: Floats, arms: Integers, targets: Floats) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s), targets (l, s, m)."""
        kernels.recursive_least_squares(self.inverse, self.log_det, self.columns, x, arms, targets)


class PolyakSGD:
    """Scalable: the average of descent iterates, at O(d m) a sample and in memory; no d x d matrix exists.

    The average starts at ``c_0`` with the weight ``ridge``, as the warm-start samples of Algorithm 1 do, and a
    coordinate is averaged over the samples in which it is not zero: over all of them for dense features (Polyak's
    average), over an arm's own pulls for one-hot ones.
    Paper: section 3, "Polyak-averaged SGD updates to each regressor". Deviation: implicit steps by default, which are
    stable for features of any length; see docs/deviations.md.
    """

    def __init__(self, initial: Floats, ridge: float, learning_rate: float, is_implicit: bool):
        self.iterates = initial.copy()
        self.columns = initial  # the averages
        self.weights = np.full(initial.shape[:3], ridge, initial.dtype)
        self.learning_rate = learning_rate
        self.is_implicit = is_implicit

    @property
    def arrays(self) -> Arrays:
        """Iterates, their averages and the weight of each coordinate's average."""
        return {"iterates": self.iterates, "averages": self.columns, "weights": self.weights}

    def update(self, x: Floats, arms: Integers, targets: Floats) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s), targets (l, s, m)."""
        descent.averaged_descent(
            self.iterates, self.columns, self.weights, x, arms, targets, self.learning_rate, self.is_implicit
        )


class DiagonalLeastSquares:
    """Recursive least squares that keeps only the diagonal of Sigma: O(d) a sample, exact for one-hot features.

    ``k = D^-1 x / (1 + x' D^-1 x)``, ``c += k (y - x' c)``, ``D += x^2``.
    """

    def __init__(self, initial: Floats, ridge: float):
        self.columns = initial
        self.diagonal = np.full(initial.shape[:3], ridge, np.float64)

    @property
    def arrays(self) -> Arrays:
        """Coefficients and the diagonal of the covariance."""
        return {"columns": self.columns, "diagonal": self.diagonal}

    def elliptical_norms(self, x: Floats, arms: Integers) -> Floats:
        """``sqrt(x' D^-1 x)``. Shapes: x (l|1, b, n|1, d), arms (n,) -> (l, b, n)."""
        return np.sqrt((x * x / self.diagonal[:, None, arms]).sum(-1))

    def update(self, x: Floats, arms: Integers, targets: Floats) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s), targets (l, s, m)."""
        learner = np.arange(x.shape[0])
        for s in range(x.shape[1]):
            row, arm = x[:, s], arms[:, s]
            diagonal = self.diagonal[learner, arm]
            error = targets[:, s] - np.einsum("ld,ldm->lm", row, self.columns[learner, arm])
            gain = row / diagonal / (1 + (row * row / diagonal).sum(-1, keepdims=True))
            self.columns[learner, arm] += np.einsum("ld,lm->ldm", gain, error).astype(self.columns.dtype)
            self.diagonal[learner, arm] = diagonal + row * row


class CholeskyFactor:
    """The factor R of a covariance ``R'R = start I + sum x x'``, kept by Givens rotations at O(d^2) a sample.

    Paper: what it samples is the law of the re-randomized regressors: see ``policies/ensembles.py``.
    """

    def __init__(self, learners: int, arms: int, d: int, start: float):
        self.factor = np.zeros((learners, arms, d, d))
        self.factor[:] = np.sqrt(start) * np.eye(d)

    @property
    def arrays(self) -> Arrays:
        """The upper-triangular factor."""
        return {"factor": self.factor}

    def update(self, x: Floats, arms: Integers) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s)."""
        kernels.rotate_in(self.factor, x, arms)


def read_columns(x: Floats, arms: Integers, columns: Floats) -> Floats:
    """``<x_n, c_m>`` for every decision.

    Shapes: x (l|1, b, n|1, d), arms (n,), columns (l, b|1, a, d, m) -> (l, b, n, m).
    """
    learners, drawn, models, d, targets = columns.shape
    if drawn == x.shape[1]:  # columns of its own for every decision (also: a single decision)
        rows, all_arms = x.reshape(-1, x.shape[2], d), arms
    else:  # the same columns for all decisions of the batch
        rows, all_arms = merge_decisions(x, arms)
    answers = kernels.predictions(rows, all_arms, columns.reshape(learners * drawn, models, d, targets))
    return answers.reshape(learners, x.shape[1], arms.size, targets)


def merge_decisions(x: Floats, arms: Integers) -> tuple[Floats, Integers]:
    """All actions of all decisions in a row. Shapes: x (l|1, b, n|1, d), arms (n,) -> (l|1, b n, d), (b n,)."""
    learners, decisions, _, d = x.shape
    if decisions == 1:
        return x[:, 0], arms
    rows = np.broadcast_to(x, (learners, decisions, arms.size, d)).reshape(learners, decisions * arms.size, d)
    return rows, np.tile(arms, decisions)
