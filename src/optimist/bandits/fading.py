"""Exact ridge regression in a world that drifts: a sample of age n counts ``decay^n``, and the prior does not fade.

A sample of weight v is the row ``sqrt(v) x`` with the reward ``sqrt(v) r`` and unit noise y, so that the members keep
the law N(0, Sigma^-1) whatever the weights are. Hence what the members learned fades by ``sqrt(decay)`` per sample and
what theta learned by ``decay``. The ridge that does not fade makes the change of Sigma one of full rank: it is
factorized anew after every batch, at O(d^3). Letters in shapes are those of ``compiled``.
"""

import numpy as np

from optimist.bandits.blocks import Factorized, blocks
from optimist.bandits.compiled import linear
from optimist.bandits.regression import ExactLeastSquares, condition_number, merge_decisions
from optimist.bandits.storage import Arrays
from optimist.compiling import Floats, Integers


class FadingLeastSquares:
    """``c = Sigma^-1 (ridge c_0 + sum v x y)`` with ``Sigma = ridge I + sum v x x'`` and weights ``v = decay^age``.

    The age of a sample is the number of later samples of its model.
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
        rows, all_arms = merge_decisions(x, arms)
        norms = np.sqrt(linear.squared_norms(rows, all_arms, self.inverse))
        return norms.reshape(-1, x.shape[1], arms.size)

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
