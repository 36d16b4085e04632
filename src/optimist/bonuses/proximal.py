"""Noise regression by averaged proximal (implicit) steps: stable at any step size, O((M + n) d) a state, no matrix."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.ensemble import count_numbers, member_slices, predictions, slices
from optimist.bonuses.features.batch import Dense, FeatureBatch
from optimist.bonuses.solvers import (
    Averaging,
    IterateAverage,
    Minibatches,
    blocks_state,
    require_finite_predictions,
    restore_blocks,
)
from optimist.bonuses.state import require_same_layout


class AveragedProximal:
    """The average of the iterates ``w <- argmin_v |G v - y|^2 + ridge |v - w|^2``, G the n states of a minibatch.

    The step solves an n x n system: ``w + G' (G G' + ridge I)^-1 (y - G w)``. It is stochastic gradient descent with
    the step 1 / ridge taken implicitly: a strong direction of the minibatch is solved outright where an explicit step
    would have to be small enough for it, so weak directions need not wait. Uniformly averaged over N samples, the
    noise part has the covariance ``(sum g g')^-1`` in every direction whose ``N lambda`` exceeds the ridge, and the
    draw ``w_0 ~ N(0, 1 / ridge)`` stays in the others: the elliptical bonus with that ridge, with no d x d matrix and
    one pass.

    ``initial`` is taken over, not copied. Each state costs two gemms of M and two of n columns: the kernel is made of
    rows written out some at a time.

    Deviation: ours, not the paper's; its fidelity against RMSprop's is in `optimist study fidelity`.
    """

    def __init__(self, initial: Sequence[Tensor], *, ridge: float, averaging: Averaging, averaging_rate: float):
        self._ridge = ridge
        self._iterate = list(initial)
        self._average = IterateAverage(initial, averaging=averaging, rate=averaging_rate)

    @property
    def weights(self) -> Sequence[Tensor]:
        """The averaged regressors."""
        return self._average.blocks

    def fit(self, minibatches: Minibatches) -> float:
        """The mean squared error before each step, over the minibatches."""
        losses = [self._step(features, targets) for features, targets in minibatches]
        return sum(losses) / max(len(losses), 1)

    def _step(self, features: FeatureBatch, targets: Tensor) -> float:
        total = count_numbers(self._iterate)
        residuals = targets - require_finite_predictions(predictions(self._iterate, features))
        coefficients = self._proximal_coefficients(features, residuals)
        self._average.advance()
        for k, block in enumerate(self._iterate):
            for members in member_slices(block, total):
                block[members] += features.pullback(k, coefficients[:, members])
                self._average.fold(k, members, block[members])
        return residuals.square().mean().item()

    def _proximal_coefficients(self, features: FeatureBatch, residuals: Tensor) -> Tensor:
        """``(G G' + ridge I)^-1 residuals``, (n, m), solved in float64."""
        gram = kernel(features, count_numbers(self._iterate), like=residuals).double()
        return regularised_solve(gram, residuals.double(), self._ridge).to(residuals.dtype)

    def state_dict(self) -> dict[str, Any]:
        """Iterate and average."""
        return {
            "iterate": blocks_state(self._iterate),
            "average": blocks_state(self._average.blocks),
            "count": self._average.count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        require_same_layout(state, self.state_dict())
        restore_blocks(self._iterate, state["iterate"])
        restore_blocks(self._average.blocks, state["average"])
        self._average.count = state["count"]


def regularised_solve(gram: Tensor, values: Tensor, ridge: float) -> Tensor:
    """``(gram + ridge I)^-1 values``; eigenvalues of ``gram`` below 0, which only its rounding can make, count as 0.

    Shapes: gram (n, n), values (n, m) -> (n, m).
    """
    identity = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    factor, failed = torch.linalg.cholesky_ex(gram + ridge * identity)
    if not failed:
        return torch.cholesky_solve(values, factor)
    eigenvalues, vectors = torch.linalg.eigh(gram)
    return vectors @ ((vectors.T @ values) / (eigenvalues.clamp_min(0) + ridge)[:, None])


def kernel(features: FeatureBatch, ensemble_numbers: int, *, like: Tensor) -> Tensor:
    """``G G'``, the inner products of the n states of a batch, (n, n), a few states written out at a time.

    Features that are written out already are multiplied as they are. Of others, a state is its own pullback, ``sum_i
    delta_in g_i = g_n``; reading that out gives its inner product with every state.
    """
    if isinstance(features, Dense):
        return features.features @ features.features.T
    n = len(features)
    identity = torch.eye(n, dtype=like.dtype, device=like.device)
    gram = torch.zeros_like(identity)
    for k, shape in enumerate(features.shapes):
        for states in slices(n, shape.numel(), ensemble_numbers):
            gram[:, states] += features.readout(k, features.pullback(k, identity[:, states]))
    return (gram + gram.T) / 2
