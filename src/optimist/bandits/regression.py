"""The exact regression oracles of lines 4 and 6 of Algorithm 1: recursive least squares, and one that forgets.

Those without a d x d matrix are in ``sgd``. Rewards and noise are regressed on the same features, so one oracle holds
all targets side by side: column 0 of its coefficients is the reward estimate theta, the others are the noise regressors
w^(1) .. w^(M). Letters in shapes are those of ``compiled``.
"""

from typing import Protocol

import numpy as np

from optimist.bandits.blocks import Block, Factorized, blocks, inverse
from optimist.bandits.compiled import linear
from optimist.bandits.storage import Arrays
from optimist.compiling import Floats, Integers


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

    def theta(self) -> Floats:
        """The estimate of the rewards' coefficients, (l, a, d)."""
        ...

    def condition(self) -> Floats:
        """The condition number of Sigma, (l, a)."""
        ...

    def update(self, x: Floats, arms: Integers, targets: Floats) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s), targets (l, s, m)."""
        ...


class ExactLeastSquares:
    """Exact: ``c = Sigma^-1 (ridge c_0 + sum x y)`` with ``Sigma = ridge I + sum x x'``, at O(d^2 + d m) per sample.

    ``P = Sigma^-1`` is kept by rank-one updates of its lower triangle, always in float64: Sherman and Morrison's
    formula drifts in float32. A model that gets at least d samples at once learns them as one block.
    Paper: Algorithm 1, lines 4 and 6.
    """

    def __init__(self, initial: Floats, ridge: float):
        learners, arms, d, _ = initial.shape
        self.ridge = ridge
        self.columns = initial
        self.inverse = np.zeros((learners, arms, d, d))
        self.inverse[..., np.arange(d), np.arange(d)] = 1 / ridge
        self.log_det = np.zeros((learners, arms))  # log det(Sigma / ridge)

    @property
    def arrays(self) -> Arrays:
        """Coefficients, inverse covariance and its determinant."""
        return {"columns": self.columns, "inverse": self.inverse, "log_det": self.log_det}

    def theta(self) -> Floats:
        """The estimate of the rewards' coefficients, (l, a, d)."""
        return self.columns[..., 0].copy()

    def condition(self) -> Floats:
        """The condition number of Sigma, (l, a)."""
        return condition_number(self.inverse)

    def elliptical_norms(self, x: Floats, arms: Integers) -> Floats:
        """``sqrt(x' Sigma^-1 x)``. Shapes: x (l|1, b, n|1, d), arms (n,) -> (l, b, n). Paper: section 2, LinUCB."""
        return elliptical_norms(x, arms, self.inverse)

    def update(self, x: Floats, arms: Integers, targets: Floats) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s), targets (l, s, m)."""
        self.add(blocks(x, arms), x, arms, targets)

    def add(self, parts: list[Block], x: Floats, arms: Integers, targets: Floats) -> None:
        """The same, the batch being split into ``parts`` already; none stand for sample by sample."""
        if not parts:
            linear.recursive_least_squares(self.inverse, self.log_det, self.columns, x, arms, targets)
        for block in parts:
            i, places = slice(block.learner, block.learner + 1), block.places
            if block.is_large:
                self._add_large(block, targets[block.learner, places])
            else:
                rows, mine, y = x[i, places], arms[i, places], targets[i, places]
                linear.recursive_least_squares(self.inverse[i], self.log_det[i], self.columns[i], rows, mine, y)

    def _add_large(self, block: Block, targets: Floats) -> None:
        """``Sigma += X'X``, ``c += Sigma^-1 (X'y - X'X c)``. Shapes: targets (s, m)."""
        place = block.learner, block.arm
        is_untrained = self.log_det[place] == 0  # then Sigma is ridge I still
        d = block.gram.shape[0]
        sigma = block.gram + (self.ridge * np.eye(d) if is_untrained else inverse(self.inverse[place]))
        block.sigma = Factorized(sigma)
        self.inverse[place] = block.sigma.inverse()
        self.log_det[place] = block.sigma.log_det - d * np.log(self.ridge)
        columns = self.columns[place].astype(np.float64, copy=False)
        error = (targets.T @ block.rows).T - block.gram @ columns  # in this order BLAS is a third faster
        self.columns[place] += block.sigma.solve(error).astype(self.columns.dtype, copy=False)


class FadingLeastSquares:
    """``c = Sigma^-1 (ridge c_0 + sum v x y)`` with ``Sigma = ridge I + sum v x x'`` and weights ``v = decay^age``.

    For a world that drifts: the age of a sample is the number of later samples of its model, and the prior does not
    fade. A sample of weight v is the row ``sqrt(v) x`` with the reward ``sqrt(v) r`` and unit noise y, so that the
    members keep the law N(0, Sigma^-1) whatever the weights are. Hence what the members learned fades by
    ``sqrt(decay)`` per sample and what theta learned by ``decay``. The ridge that does not fade makes the change of
    Sigma one of full rank: it is factorized anew after every batch, at O(d^3).
    Reference: Russac, Vernade and Cappe, *Weighted linear bandits for non-stationary environments* (2019).
    """

    def __init__(self, initial: Floats, ridge: float, decay: float):
        learners, arms, d, targets = initial.shape
        self.ridge = ridge
        self.fades = np.full(targets, np.sqrt(decay))  # per sample, of what each column has learned
        self.fades[0] = decay
        self.prior = initial.astype(np.float64)
        self.columns = initial
        self.gram = np.zeros((learners, arms, d, d))  # sum v x x'
        self.moments = np.zeros((learners, arms, d, targets))  # sum v x y
        self.inverse = np.zeros((learners, arms, d, d))
        self.inverse[..., np.arange(d), np.arange(d)] = 1 / ridge
        self.log_det = np.zeros((learners, arms))  # log det(Sigma / ridge)

    @property
    def arrays(self) -> Arrays:
        """Sums, and what is computed from them."""
        sums = {"prior": self.prior, "gram": self.gram, "moments": self.moments}
        return sums | {"columns": self.columns, "inverse": self.inverse, "log_det": self.log_det}

    def elliptical_norms(self, x: Floats, arms: Integers) -> Floats:
        """``sqrt(x' Sigma^-1 x)``. Shapes: x (l|1, b, n|1, d), arms (n,) -> (l, b, n). Paper: section 2, LinUCB."""
        return elliptical_norms(x, arms, self.inverse)

    def theta(self) -> Floats:
        """The estimate of the rewards' coefficients, (l, a, d)."""
        return self.columns[..., 0].copy()

    def condition(self) -> Floats:
        """The condition number of Sigma, (l, a)."""
        return condition_number(self.inverse)

    def covariance(self, learner: int, arm: int) -> Floats:
        """Sigma of one model, (d, d)."""
        return self.gram[learner, arm] + self.ridge * np.eye(self.gram.shape[-1])

    def update(self, x: Floats, arms: Integers, targets: Floats) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s), targets (l, s, m)."""
        large = [block for block in blocks(x, arms) if block.is_large]
        if not large:
            linear.fade_in(self.gram, self.moments, x, arms, targets, self.fades)
        for block in blocks(x, arms) if large else ():
            place = block.learner, block.arm
            powers = self.fades ** np.arange(len(block.rows))[::-1, None]  # (s, m): theta's column is v itself
            self.gram[place] *= self.fades[0] ** len(block.rows)
            self.gram[place] += (powers[:, :1] * block.rows).T @ block.rows
            self.moments[place] *= self.fades ** len(block.rows)
            self.moments[place] += block.rows.T @ (powers * targets[block.learner, block.places])
        for learner in range(x.shape[0]):
            for arm in np.unique(arms[learner]):
                self._solve(learner, int(arm))

    def _solve(self, learner: int, arm: int) -> None:
        sigma = Factorized(self.covariance(learner, arm))
        self.inverse[learner, arm] = sigma.inverse()
        self.log_det[learner, arm] = sigma.log_det - self.gram.shape[-1] * np.log(self.ridge)
        self.columns[learner, arm] = sigma.solve(self.ridge * self.prior[learner, arm] + self.moments[learner, arm])


def exact_least_squares(initial: Floats, ridge: float, decay: float) -> ExactLeastSquares | FadingLeastSquares:
    """The exact regression for this decay. Shapes: initial (l, a, d, m)."""
    return ExactLeastSquares(initial, ridge) if decay == 1 else FadingLeastSquares(initial, ridge, decay)


class CholeskyFactor:
    """The factor R of a covariance ``R'R = start I + sum x x'``, kept by Givens rotations at O(d^2) per sample.

    With ``start = 0`` the samples may fade: ``R'R = sum decay^age x x'``. A model that gets at least d samples at once
    learns them as one block.
    Paper: what it samples is the law of the re-randomized regressors: see ``ensembles.RerandomizedEnsemble``.
    """

    def __init__(self, learners: int, arms: int, d: int, start: float, decay: float):
        self.factor = np.zeros((learners, arms, d, d))
        self.factor[..., np.arange(d), np.arange(d)] = np.sqrt(start)
        self.is_of_sigma = start > 0
        self.decay = decay

    @property
    def arrays(self) -> Arrays:
        """The upper-triangular factor."""
        return {"factor": self.factor}

    def update(self, x: Floats, arms: Integers) -> None:
        """Adds samples in their order. Shapes: x (l, s, d), arms (l, s)."""
        self.add(blocks(x, arms), x, arms)

    def add(self, parts: list[Block], x: Floats, arms: Integers) -> None:
        """The same, the batch being split into ``parts`` already; none stand for sample by sample."""
        if not parts or self.decay != 1:
            linear.rotate_in(self.factor, x, arms, self.decay)
            return
        for block in parts:
            if not (block.is_large and self._add_large(block)):
                i, places = slice(block.learner, block.learner + 1), block.places
                linear.rotate_in(self.factor[i], x[i, places], arms[i, places], self.decay)

    def _add_large(self, block: Block) -> bool:
        """Factorizes ``R'R + X'X``; False, and nothing done, where its conditioning would cost too many digits."""
        factor = self.factor[block.learner, block.arm]
        if self.is_of_sigma and block.sigma is not None:
            factor[...] = block.sigma.factor
            return True
        try:
            new = Factorized(factor.T @ factor + block.gram).factor
        except FloatingPointError:  # singular: without a ridge, and with features that depend on each other
            return False
        diagonal = np.diag(new)
        if diagonal.min() < 1e-3 * diagonal.max():
            return False
        factor[...] = new
        return True


def condition_number(matrices: Floats) -> Floats:
    """The largest eigenvalue over the smallest, of symmetric matrices given by their lower triangles."""
    values = np.linalg.eigvalsh(matrices)
    return values[..., -1] / values[..., 0]


def elliptical_norms(x: Floats, arms: Integers, inverses: Floats) -> Floats:
    """``sqrt(x' P x)``. Shapes: x (l|1, b, n|1, d), arms (n,), inverses (l, a, d, d) -> (l, b, n)."""
    rows, all_arms = merge_decisions(x, arms)
    norms = np.sqrt(linear.squared_norms(rows, all_arms, inverses))
    return norms.reshape(-1, x.shape[1], arms.size)


def read_columns(x: Floats, arms: Integers, columns: Floats) -> Floats:
    """``<x_n, c_m>`` for every decision.

    Shapes: x (l|1, b, n|1, d), arms (n,), columns (l, b|1, a, d, m) -> (l, b, n, m).
    """
    learners, drawn, models, d, targets = columns.shape
    if drawn == x.shape[1]:  # columns of its own for every decision (also: a single decision)
        rows, all_arms = x.reshape(-1, x.shape[2], d), arms
    else:  # the same columns for all decisions of the batch
        rows, all_arms = merge_decisions(x, arms)
    answers = linear.predictions(rows, all_arms, columns.reshape(learners * drawn, models, d, targets))
    return answers.reshape(learners, x.shape[1], arms.size, targets)


def merge_decisions(x: Floats, arms: Integers) -> tuple[Floats, Integers]:
    """All actions of all decisions in a row. Shapes: x (l|1, b, n|1, d), arms (n,) -> (l|1, b n, d), (b n,)."""
    learners, decisions, _, d = x.shape
    if decisions == 1:
        return x[:, 0], arms
    rows = np.broadcast_to(x, (learners, decisions, arms.size, d)).reshape(learners, decisions * arms.size, d)
    return rows, np.tile(arms, decisions)
