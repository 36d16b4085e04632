"""Noise regression solved exactly by recursive least squares: a d x d matrix, for a few thousand dimensions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.solvers import Minibatches, blocks_state, restore_blocks
from optimist.bonuses.state import require_same_layout

LARGEST = 16_384  # dimensions: a Gram matrix of 2 GiB
TOGETHER = 2_048  # states whose products are summed at once
STRIP = 256  # columns of the precision that are summed at once


class RecursiveLeastSquares:
    """The regressors ``w_m = argmin_w sum_n (w g_n - y_nm)^2 + ridge |w - w_0m|^2`` of everything fitted so far.

    With ``w_0 ~ N(0, 1 / ridge)`` they are exact draws of ``N(0, Sigma^-1)``, ``Sigma = ridge I + sum g g'``: the
    mean of their squares is an unbiased elliptical bonus. Kept in information form, ``Sigma`` (its lower triangle) and
    ``Sigma w`` in float64, which only ever adds: it cannot drift or lose positive definiteness as downdates of the
    inverse do. A rollout of n states costs n d^2 / 2 and one Cholesky factorisation of d^3 / 3: O(d^2) a state from
    n = d on.
    Memory: d^2 + M d in float64, twice the former within an update.

    Paper: Algorithm 1, incremental history.
    """

    def __init__(self, initial: Sequence[Tensor], *, ridge: float):
        dimensions = sum(block[0].numel() for block in initial)
        if not ridge > 0:
            raise ValueError(f"ridge must be > 0, got {ridge}: with no ridge the covariance starts singular")
        if dimensions > LARGEST:
            raise ValueError(
                f"the recursive solver keeps a d x d matrix and takes features of at most {LARGEST} dimensions, got "
                f"{dimensions}: use features='sketch' with smaller sides, or solver='proximal'"
            )
        self._sizes = [block[0].numel() for block in initial]
        self._weights = list(initial)
        flat = torch.cat([block.flatten(1) for block in initial], 1).double()
        self._precision = ridge * torch.eye(dimensions, dtype=torch.float64, device=flat.device)
        self._information = ridge * flat.T  # Sigma w, (d, m)

    @property
    def weights(self) -> Sequence[Tensor]:
        """The regressors."""
        return self._weights

    def fit(self, minibatches: Minibatches) -> float:
        """The mean squared error of the regressors before the rollout; afterwards they are those of all data."""
        before = torch.cat([block.flatten(1) for block in self._weights], 1)
        precision, information = self._precision.clone(), self._information.clone()
        losses = []
        for x, y in _joined(minibatches):
            losses.append((x @ before.T - y).square().mean().item())
            # Sums within some thousand states in the features' own precision, a quarter of the time; across, float64.
            for start in range(0, len(precision), STRIP):  # the lower triangle: half the products
                strip = x[:, start : start + STRIP]
                precision[start:, start : start + STRIP] += x[:, start:].T @ strip
            information += x.T @ y
        if not precision.diagonal().isfinite().all():
            raise ValueError("features must be finite: look at the policy network's parameters; nothing was changed")
        solved = torch.cholesky_solve(information, torch.linalg.cholesky(precision)).T
        self._precision, self._information = precision, information
        for block, part in zip(self._weights, solved.split(self._sizes, 1), strict=True):
            block.copy_(part.reshape(block.shape))
        return sum(losses) / max(len(losses), 1)

    def state_dict(self) -> dict[str, Any]:
        """``Sigma`` (its lower triangle; nothing above it counts), ``Sigma w``, and the regressors themselves."""
        return {
            "precision": self._precision.clone(),
            "information": self._information.clone(),
            "weights": blocks_state(self._weights),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        require_same_layout(state, self.state_dict())
        self._precision, self._information = state["precision"].clone(), state["information"].clone()
        restore_blocks(self._weights, state["weights"])


def _joined(minibatches: Minibatches) -> Iterator[tuple[Tensor, Tensor]]:
    """The minibatches written out, joined to some thousand states each: one large product costs less than many."""
    rows: list[tuple[Tensor, Tensor]] = []
    for features, targets in minibatches:
        rows.append((features.dense(), targets))
        if sum(len(x) for x, _ in rows) >= TOGETHER:
            yield torch.cat([x for x, _ in rows]), torch.cat([y for _, y in rows])
            rows = []
    if rows:
        yield torch.cat([x for x, _ in rows]), torch.cat([y for _, y in rows])
