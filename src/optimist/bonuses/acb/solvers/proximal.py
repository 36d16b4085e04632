"""Noise regression by averaged proximal (implicit) steps: stable at any step, O((M + n) d) per state, no matrix."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.acb.config import Proximal
from optimist.bonuses.acb.ensemble import count_numbers, member_slices, predictions, slices
from optimist.bonuses.acb.moments import regularized_solve
from optimist.bonuses.acb.solvers.averaging import (
    IterateAverages,
    Minibatches,
    blocks_state,
    require_finite_predictions,
    restore_blocks,
)
from optimist.bonuses.acb.standardize import Coordinates, FeatureScale
from optimist.bonuses.checkpointing import require_same_layout, unchanged_on_error
from optimist.bonuses.features.batch import Dense, FeatureBatch

STRIP = 64  # columns of the kernel that are multiplied at once


class ProximalSolver:
    """The average of the iterates ``w <- argmin_v |G v - y|^2 + ridge |v - w|^2``, G the n states of a minibatch.

    The step solves an n x n system: ``w + G' (G G' + ridge I)^-1 (y - G w)``. It is stochastic gradient descent with
    the step 1 / ridge taken implicitly: a strong direction of the minibatch is solved outright where an explicit step
    would have to be small enough for it, so weak directions need not wait. Uniformly averaged over N samples, the
    noise part has the covariance ``(sum g g')^-1`` in every direction whose ``N lambda`` exceeds the ridge, and the
    draw ``w_0 ~ N(0, 1 / ridge)`` stays in the others: the elliptical bonus with that ridge, with no d x d matrix and
    one pass.

    When running statistics move, the weights are carried over into the new coordinates, coordinate by coordinate (see
    `Coordinates.carried`): on a moving frontier with a floor per layer, often-seen states otherwise had 2.3 times the
    exact bonus, and 1.2 times with it. That of the mean is left to the steps. The exact solver, which keeps moments,
    has neither error.

    ``initial`` is taken over, not copied. Each state costs two gemms of M and two of n columns: the kernel is made of
    rows written out some at a time.

    ``dtype`` is what predictions are multiplied in, if not the features' own. Kernel and step never are: the kernel's
    eigenvalues reach n d, and the ridge beside them counts; and at states that come several times in a minibatch the
    coefficients of a step are large and cancel. Rounded to bfloat16 they gave often-seen states 30 times the bonus.

    Deviation: ours, not the paper's; its fidelity against RMSprop's is in `optimist study fidelity`.
    """

    def __init__(self, initial: Sequence[Tensor], config: Proximal, dtype: torch.dtype | None = None):
        self._ridge = config.ridge
        self._dtype = dtype
        self._iterate = list(initial)
        self._average = IterateAverages(
            initial, averaging=config.averaging, rate=config.averaging_rate, powers=config.powers
        )

    @property
    def ensembles(self) -> Sequence[Tensor]:
        """The averaged regressors, one ensemble for each average."""
        return self._average.ensembles

    def fit(self, minibatches: Minibatches, scale: FeatureScale) -> float:
        """The mean squared error before each step, over the minibatches; all or nothing, by a copy of the state."""
        losses = []
        with unchanged_on_error(self):
            for features, targets in minibatches:
                before = scale.today()
                scale.observe(features)
                self._carry(before, scale.today())
                losses.append(self._step(scale.standardize(features), targets))
        return sum(losses) / max(len(losses), 1)

    def _carry(self, before: Coordinates | None, today: Coordinates | None) -> None:
        """Take iterate and averages over into the coordinates of today."""
        if before is None or today is None:
            return
        for k, factor in enumerate(today.carried(before, self._ridge)):
            for block in (self._iterate[k], self._average.ensembles[k]):
                block.mul_(factor.to(block.dtype).to(block.device))

    def _step(self, features: FeatureBatch, targets: Tensor) -> float:
        total = count_numbers(self._iterate)
        rounded = features if self._dtype is None else features.in_precision(self._dtype)
        residuals = targets - require_finite_predictions(predictions(self._iterate, rounded))
        coefficients = self._proximal_coefficients(features, residuals)
        self._average.advance()
        for k, block in enumerate(self._iterate):
            for members in member_slices(block, total):
                block[members] += features.pullback(k, coefficients[:, members])
                self._average.fold(k, members, block[members])
        return residuals.square().mean().item()

    def _proximal_coefficients(self, features: FeatureBatch, residuals: Tensor) -> Tensor:
        """``(G G' + ridge I)^-1 residuals``, (n, m), solved in float64."""
        gram = kernel(features, count_numbers(self._iterate), like=residuals)
        return regularized_solve(gram, residuals, self._ridge)

    def state_dict(self) -> dict[str, Any]:
        """Iterate and averages."""
        return {
            "iterate": blocks_state(self._iterate),
            "average": self._average.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        require_same_layout(state, self.state_dict())
        restore_blocks(self._iterate, state["iterate"])
        self._average.load_state_dict(state["average"])


def kernel(features: FeatureBatch, ensemble_numbers: int, *, like: Tensor) -> Tensor:
    """The lower triangle of ``G G'``, the inner products of the n states of a batch, (n, n); above it, anything.

    Features that are written out already are multiplied as they are, some columns at a time: half the products, and
    measured at n = 512, d = 2144 on one core in a third of the time. Of others, a few are written out at a time: a
    state is its own pullback, ``sum_i delta_in g_i = g_n``; reading that out gives its inner product with every state.
    """
    n = len(features)
    if isinstance(features, Dense):
        g = features.features
        gram = g.new_zeros(n, n)
        for start in range(0, n, STRIP):
            torch.mm(g[start:], g[start : start + STRIP].T, out=gram[start:, start : start + STRIP])
        return gram
    identity = torch.eye(n, dtype=like.dtype, device=like.device)
    gram = torch.zeros_like(identity)
    for k, shape in enumerate(features.shapes):
        for states in slices(n, shape.numel(), ensemble_numbers):
            gram[:, states] += features.readout(k, features.pullback(k, identity[:, states]))
    return (gram + gram.T) / 2
