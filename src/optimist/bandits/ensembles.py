"""The reward estimate theta and the noise regressors ``w^(1) .. w^(M)``, and how they treat the history of targets.

All are regressed on the same features, so they are columns side by side: column 0 is theta, the others the members.
What a decision draws at random is drawn apart (``draw``) from what it changes (``commit``), so that scores can be
looked at without moving anything. Algorithm 3's ensemble is ``acb.LazyEnsemble``. Letters in shapes are those of
``compiled``.
"""

from typing import Protocol

import numpy as np

from optimist.bandits.blocks import Factorized, blocks
from optimist.bandits.compiled.linear import multiply_symmetric, solve_upper
from optimist.bandits.compiled.streams import Streams, noisy_targets, normals
from optimist.bandits.regression import (
    CholeskyFactor,
    FadingLeastSquares,
    Regression,
    exact_least_squares,
    read_columns,
)
from optimist.bandits.sgd import AdaptiveSGD
from optimist.bandits.storage import Arrays
from optimist.compiling import Floats, Integers

NO_COLUMNS: Floats = np.empty((1, 1, 0, 0, 0))


class Ensemble(Protocol):
    """A reward estimate and M regressors trained to predict noise."""

    remembers_decisions: bool
    """Whether ``commit`` changes anything."""
    reads_sparse: bool
    """Whether sparse rows may stand for x; other ensembles are given them with their zeros."""

    @property
    def regression(self) -> Regression | AdaptiveSGD:
        """What column 0, the estimate of the rewards, is fitted by."""
        ...

    @property
    def arrays(self) -> Arrays:
        """Every array of the state, by name, live."""
        ...

    def read(self, x: Floats, arms: Integers, streams: Streams) -> tuple[Floats, Floats]:
        """``<x, theta>`` and ``<x, w^(m)>``, (l, b, n, 1 + M), and the columns that they were read from.

        Moves ``streams`` and nothing else. Shapes: x (l|1, b, n|1, d), arms (n,), columns (l, b|1, a, d, 1 + M).
        """
        ...

    def make_room(self, saved: Arrays) -> None:
        """Takes the layout of a saved state, if that differs with what was learned."""
        ...

    def commit(self, columns: Floats, bonuses: Floats, chosen: Integers) -> None:
        """Takes note that decisions were made with these columns. Shapes: bonuses (l, b, n), chosen actions (l, b)."""
        ...

    def update(self, x: Floats, arms: Integers, rewards: Floats, streams: Streams) -> None:
        """Learns from samples in their order. Shapes: x (l, s, d), arms (l, s), rewards (l, s)."""
        ...


class IncrementalEnsemble:
    """Every sample gets its noise targets once: ``w <- w + k (y - <x, w>)``, never refitted.

    ``w_0 ~ N(0, 1/ridge)`` is what the warm-start samples ``(sqrt(ridge) e_i, y_i)`` fit, so it is the prior.
    With no members it is the plain estimate of the rewards.
    Paper: Algorithm 1, "incremental".
    """

    remembers_decisions = False

    def __init__(self, regression: Regression | AdaptiveSGD, size: int):
        self.regression = regression
        self.size = size
        self.reads_sparse = isinstance(regression, AdaptiveSGD)

    @property
    def arrays(self) -> Arrays:
        """The state of the regression."""
        return self.regression.arrays

    def read(self, x: Floats, arms: Integers, streams: Streams) -> tuple[Floats, Floats]:
        """The answers of the columns as they stand: their targets were drawn when the samples came."""
        if isinstance(self.regression, AdaptiveSGD):
            return self.regression.read(x, arms), NO_COLUMNS
        columns = self.regression.columns[:, None]
        return read_columns(x, arms, columns), columns

    def make_room(self, saved: Arrays) -> None:
        """Room for the columns that a saved sparse state has."""
        if isinstance(self.regression, AdaptiveSGD):
            self.regression.make_room(saved)

    def commit(self, columns: Floats, bonuses: Floats, chosen: Integers) -> None:
        """Nothing to note."""

    def update(self, x: Floats, arms: Integers, rewards: Floats, streams: Streams) -> None:
        """Learns rewards and fresh noise ``y^(m) ~ N(0, 1)``. Shapes: x (l, s, d), arms and rewards (l, s)."""
        targets = noisy_targets(streams, rewards, self.size)  # line 5, incremental
        self.regression.update(x, arms, targets)  # lines 4 and 6, in one


class RerandomizedEnsemble:
    """Every decision sees regressors refitted to fresh noise over the whole history.

    With fresh targets, warm start included, ``X' y ~ N(0, Sigma)``, so ``w = Sigma^-1 X' y`` is exactly
    N(0, Sigma^-1): a draw from the Cholesky factor, and the past is not needed.
    Paper: Algorithm 1, "re-randomized"; the law is in the proof of Proposition 1.
    """

    remembers_decisions = False
    reads_sparse = False

    def __init__(self, learners: int, arms: int, d: int, size: int, ridge: float, decay: float):
        self.regression = exact_least_squares(np.zeros((learners, arms, d, 1)), ridge, decay)
        self.covariance = CholeskyFactor(learners, arms, d, ridge, 1.0)
        self.size = size

    @property
    def arrays(self) -> Arrays:
        """The reward regression and the Cholesky factor of Sigma."""
        return self.regression.arrays | self.covariance.arrays

    def read(self, x: Floats, arms: Integers, streams: Streams) -> tuple[Floats, Floats]:
        """The answers of freshly drawn columns, and these."""
        columns = self.draw(streams, x.shape[1])
        return read_columns(x, arms, columns), columns

    def draw(self, streams: Streams, decisions: int) -> Floats:
        """Theta, and fresh members for every decision, (l, b, a, d, 1 + M)."""
        learners, arms, d, _ = self.regression.columns.shape
        z = normals(streams, decisions * arms * d * self.size).reshape(learners, decisions, arms, d, self.size)
        members = solve_upper(self.covariance.factor, z)  # lines 5 (re-randomized) and 6, in one
        theta = np.broadcast_to(self.regression.columns[:, None], (*members.shape[:-1], 1))
        return np.concatenate([theta, members], axis=-1)

    def make_room(self, saved: Arrays) -> None:
        """The layout is always the same."""

    def roots(self, x: Floats, arm: int) -> Floats:
        """L with ``L z ~ <x, w>`` jointly for z ~ N(0, I), for one learner. Shapes: x (n, d) -> (n, min(n, d))."""
        inverse = self.regression.inverse[0, arm]
        if len(x) > x.shape[1]:
            values, vectors = np.linalg.eigh(inverse)  # reads the lower triangle, which is the one kept
            return x @ (vectors * np.sqrt(np.maximum(values, 0)))
        products = multiply_symmetric(inverse[None, None], np.ascontiguousarray(x, np.float64)[None, :, None])[0, :, 0]
        values, vectors = np.linalg.eigh(x @ products.T)
        return vectors * np.sqrt(np.maximum(values, 0))

    def commit(self, columns: Floats, bonuses: Floats, chosen: Integers) -> None:
        """Nothing to note."""

    def update(self, x: Floats, arms: Integers, rewards: Floats, streams: Streams) -> None:
        """Learns rewards. Shapes: x (l, s, d), arms and rewards (l, s)."""
        if isinstance(self.regression, FadingLeastSquares):
            self.regression.update(x, arms, rewards[..., None])
            for learner in range(x.shape[0]):
                for arm in np.unique(arms[learner]):
                    sigma = Factorized(self.regression.covariance(learner, arm))
                    self.covariance.factor[learner, arm] = sigma.factor
            return
        parts = blocks(x, arms)
        self.regression.add(parts, x, arms, rewards[..., None])  # line 4
        self.covariance.add(parts, x, arms)


class PerturbedEnsemble:
    """One member for every decision: the ridge fit of fresh noise on the history alone, its prior unperturbed.

    ``w = Sigma^-1 sum x z`` with ``z ~ N(0, 1)``. The sum is N(0, sum x x') and is drawn from the Cholesky factor of
    ``sum x x'``, so the past is not needed.
    """

    remembers_decisions = False
    reads_sparse = False

    def __init__(self, learners: int, arms: int, d: int, ridge: float, decay: float):
        self.regression = exact_least_squares(np.zeros((learners, arms, d, 1)), ridge, decay)
        self.history = CholeskyFactor(learners, arms, d, 0.0, decay)

    @property
    def arrays(self) -> Arrays:
        """The reward regression and the Cholesky factor of the history."""
        return self.regression.arrays | self.history.arrays

    def read(self, x: Floats, arms: Integers, streams: Streams) -> tuple[Floats, Floats]:
        """The answers of freshly drawn columns, and these."""
        columns = self.draw(streams, x.shape[1])
        return read_columns(x, arms, columns), columns

    def draw(self, streams: Streams, decisions: int) -> Floats:
        """Theta, and a fresh member for every decision, (l, b, a, d, 2)."""
        learners, arms, d, _ = self.regression.columns.shape
        z = normals(streams, decisions * arms * d).reshape(learners, decisions, arms, d, 1)
        noise = np.matmul(self.history.factor.swapaxes(-1, -2)[:, None], z)[..., 0]
        member = multiply_symmetric(self.regression.inverse, noise)[..., None]
        return np.concatenate([np.broadcast_to(self.regression.columns[:, None], member.shape), member], axis=-1)

    def make_room(self, saved: Arrays) -> None:
        """The layout is always the same."""

    def roots(self, x: Floats, arm: int) -> Floats:
        """L with ``L z ~ <x, w>`` jointly for z ~ N(0, I), for one learner. Shapes: x (n, d) -> (n, min(n, d))."""
        rows = np.ascontiguousarray(x, np.float64)[None, :, None]
        root = (
            multiply_symmetric(self.regression.inverse[:1, arm : arm + 1], rows)[0, :, 0]
            @ self.history.factor[0, arm].T
        )
        return root if len(x) > x.shape[1] else np.linalg.qr(root.T).R.T

    def commit(self, columns: Floats, bonuses: Floats, chosen: Integers) -> None:
        """Nothing to note."""

    def update(self, x: Floats, arms: Integers, rewards: Floats, streams: Streams) -> None:
        """Learns rewards. Shapes: x (l, s, d), arms and rewards (l, s)."""
        if isinstance(self.regression, FadingLeastSquares):
            self.regression.update(x, arms, rewards[..., None])
            self.history.update(x, arms)
            return
        parts = blocks(x, arms)
        self.regression.add(parts, x, arms, rewards[..., None])
        self.history.add(parts, x, arms)


def prior_columns(streams: Streams, models: int, d: int, size: int, ridge: float, dtype: str) -> Floats:
    """The regressors before any sample: theta 0 and members ``w_0 ~ N(0, 1/ridge)``, (l, a, d, 1 + M).

    Paper: Algorithm 1, line 1: targets y on the warm-start features ``sqrt(ridge) e_i`` fit ``w_0 = y / sqrt(ridge)``.
    """
    columns = np.zeros((len(streams), models, d, 1 + size), dtype)
    for member in range(size):  # one at a time: normals for all members at a million features are not held twice
        columns[..., 1 + member] = normals(streams, models * d).reshape(len(streams), models, d) / np.sqrt(ridge)
    return columns
