"""The reward estimate theta and the noise regressors ``w^(1) .. w^(M)``, under the three ways to treat their history.

All are regressed on the same features, so they are columns side by side: column 0 is theta, the others the members.
What a decision draws at random is drawn apart (``draw``) from what it changes (``commit``), so that scores can be
looked at without moving anything. Letters in shapes are those of ``kernels.py``.
"""

from typing import Protocol

import numpy as np

from optimist.bandits import kernels
from optimist.bandits.arrays import Arrays, Floats, Integers, Streams
from optimist.bandits.regression import CholeskyFactor, RecursiveLeastSquares, Regression
from optimist.bandits.streams import normals


class Ensemble(Protocol):
    """A reward estimate and M regressors trained to predict noise."""

    @property
    def arrays(self) -> Arrays:
        """Every array of the state, by name, live."""
        ...

    def draw(self, streams: Streams, decisions: int) -> Floats:
        """The columns that the next decisions read, (l, b|1, a, d, 1 + M); moves ``streams`` and nothing else."""
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
    Paper: Algorithm 1, "incremental".
    """

    def __init__(self, regression: Regression):
        self.regression = regression

    @property
    def arrays(self) -> Arrays:
        """The state of the regression."""
        return self.regression.arrays

    def draw(self, streams: Streams, decisions: int) -> Floats:
        """The columns as they stand: their targets were drawn when the samples came."""
        return self.regression.columns[:, None]

    def commit(self, columns: Floats, bonuses: Floats, chosen: Integers) -> None:
        """Nothing to note."""

    def update(self, x: Floats, arms: Integers, rewards: Floats, streams: Streams) -> None:
        """Learns rewards and fresh noise ``y^(m) ~ N(0, 1)``. Shapes: x (l, s, d), arms and rewards (l, s)."""
        learners, samples = rewards.shape
        size = self.regression.columns.shape[-1] - 1
        noise = normals(streams, samples * size).reshape(learners, samples, size)
        self.regression.update(x, arms, np.concatenate([rewards[..., None], noise], axis=2))


class RerandomizedEnsemble:
    """Every decision sees regressors refitted to fresh noise over the whole history.

    With fresh targets, warm start included, ``X' y ~ N(0, Sigma)``, so ``w = Sigma^-1 X' y`` is exactly
    N(0, Sigma^-1): a draw from the Cholesky factor, and the past is not needed.
    Paper: Algorithm 1, "re-randomized"; the law is in the proof of Proposition 1.
    """

    def __init__(self, learners: int, arms: int, d: int, size: int, ridge: float):
        self.regression = RecursiveLeastSquares(np.zeros((learners, arms, d, 1)), ridge)
        self.covariance = CholeskyFactor(learners, arms, d, ridge)
        self.size = size

    @property
    def arrays(self) -> Arrays:
        """The reward regression and the Cholesky factor of Sigma."""
        return self.regression.arrays | self.covariance.arrays

    def draw(self, streams: Streams, decisions: int) -> Floats:
        """Theta, and fresh members for every decision, (l, b, a, d, 1 + M)."""
        learners, arms, d, _ = self.regression.columns.shape
        z = normals(streams, decisions * arms * d * self.size).reshape(learners, decisions, arms, d, self.size)
        members = kernels.solve_upper(self.covariance.factor, z)
        theta = np.broadcast_to(self.regression.columns[:, None], (*members.shape[:-1], 1))
        return np.concatenate([theta, members], axis=-1)

    def commit(self, columns: Floats, bonuses: Floats, chosen: Integers) -> None:
        """Nothing to note."""

    def update(self, x: Floats, arms: Integers, rewards: Floats, streams: Streams) -> None:
        """Learns rewards. Shapes: x (l, s, d), arms and rewards (l, s)."""
        self.regression.update(x, arms, rewards[..., None])
        self.covariance.update(x, arms)


class LazyEnsemble:
    """Re-randomizes rarely: theta and the members stand still for ``omega = ceil(gamma / bonus^2)`` rounds.

    With a fixed action set the same action is then played omega times, as Algorithm 3 asks. With a changing one the
    frozen columns score the new actions, which the theorem does not cover.
    Paper: Algorithm 3. Deviation: its indices slip (``a_tau`` stands for ``s_tau``); see docs/deviations.md.
    """

    def __init__(self, current: RerandomizedEnsemble, gamma: float):
        self.current = current
        self.gamma = gamma
        learners, arms, d, _ = current.regression.columns.shape
        self.frozen = np.zeros((learners, arms, d, 1 + current.size))
        self.rounds_left = np.zeros(learners, np.int64)  # omega
        self.rerandomizations = np.zeros(learners, np.int64)

    @property
    def arrays(self) -> Arrays:
        """The running state, what is frozen of it, and for how long."""
        counts = {"rounds_left": self.rounds_left, "rerandomizations": self.rerandomizations}
        return self.current.arrays | {"frozen": self.frozen} | counts

    def draw(self, streams: Streams, decisions: int) -> Floats:
        """The frozen columns, or fresh ones for learners that have no rounds left, (l, 1, a, d, 1 + M)."""
        due = self.rounds_left <= 0
        if not due.any():
            return self.frozen[:, None]
        kept = streams[~due].copy()
        fresh = self.current.draw(streams, 1)
        streams[~due] = kept
        return np.where(due[:, None, None, None, None], fresh, self.frozen[:, None])

    def commit(self, columns: Floats, bonuses: Floats, chosen: Integers) -> None:
        """Freezes the columns, sets omega from the bonus of the first action chosen, counts the rounds played."""
        due = self.rounds_left <= 0
        self.frozen[due] = columns[due, 0]
        with np.errstate(divide="ignore"):
            omega = np.ceil(self.gamma / bonuses[due, 0, chosen[due, 0]] ** 2)
        self.rounds_left[due] = np.minimum(omega, 2.0**62).astype(np.int64)
        self.rerandomizations += due
        self.rounds_left -= chosen.shape[1]

    def update(self, x: Floats, arms: Integers, rewards: Floats, streams: Streams) -> None:
        """Learns rewards. Shapes: x (l, s, d), arms and rewards (l, s)."""
        self.current.update(x, arms, rewards, streams)


class PerturbedEnsemble:
    """One member for every decision: the ridge fit of fresh noise on the history alone, its prior unperturbed.

    ``w = Sigma^-1 sum x z`` with ``z ~ N(0, 1)``. The sum is N(0, sum x x') and is drawn from the Cholesky factor of
    ``sum x x'``, so the past is not needed.
    """

    def __init__(self, learners: int, arms: int, d: int, ridge: float):
        self.regression = RecursiveLeastSquares(np.zeros((learners, arms, d, 1)), ridge)
        self.history = CholeskyFactor(learners, arms, d, start=0.0)

    @property
    def arrays(self) -> Arrays:
        """The reward regression and the Cholesky factor of the history."""
        return self.regression.arrays | self.history.arrays

    def draw(self, streams: Streams, decisions: int) -> Floats:
        """Theta, and a fresh member for every decision, (l, b, a, d, 2)."""
        learners, arms, d, _ = self.regression.columns.shape
        z = normals(streams, decisions * arms * d).reshape(learners, decisions, arms, d, 1)
        noise = np.matmul(self.history.factor.swapaxes(-1, -2)[:, None], z)[..., 0]
        member = kernels.multiply_symmetric(self.regression.inverse, noise)[..., None]
        return np.concatenate([np.broadcast_to(self.regression.columns[:, None], member.shape), member], axis=-1)

    def commit(self, columns: Floats, bonuses: Floats, chosen: Integers) -> None:
        """Nothing to note."""

    def update(self, x: Floats, arms: Integers, rewards: Floats, streams: Streams) -> None:
        """Learns rewards. Shapes: x (l, s, d), arms and rewards (l, s)."""
        self.regression.update(x, arms, rewards[..., None])
        self.history.update(x, arms)


def prior_columns(streams: Streams, models: int, d: int, size: int, ridge: float, dtype: str) -> Floats:
    """The regressors before any sample: theta 0 and members ``w_0 ~ N(0, 1/ridge)``, (l, a, d, 1 + M).

    Paper: Algorithm 1, line 1: targets y on the warm-start features ``sqrt(ridge) e_i`` fit ``w_0 = y / sqrt(ridge)``.
    """
    columns = np.zeros((len(streams), models, d, 1 + size), dtype)
    for member in range(size):  # one at a time: normals for all members at a million features are not held twice
        columns[..., 1 + member] = normals(streams, models * d).reshape(len(streams), models, d) / np.sqrt(ridge)
    return columns
