"""Noise regression by recursive least squares that remembers the strongest directions: no d x d matrix, no average."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.acb.config import Streaming
from optimist.bonuses.acb.moments import centered_rows
from optimist.bonuses.acb.solvers.averaging import Minibatches, require_finite_predictions
from optimist.bonuses.acb.standardize import Coordinates, FeatureScale
from optimist.bonuses.checkpointing import require_same_layout, unchanged_on_error
from optimist.bonuses.features.batch import FeatureBatch
from optimist.bonuses.scaling import device_with_double, in_double, merge_moments

SMALLEST = 1e-6  # of the largest eigenvalue: what the rows hold below it is rounding


class StreamingSolver:
    """The regressors ``w <- w + P G' (G P G' + I)^-1 (y - G w)`` for each minibatch G, P an estimate of ``Sigma^-1``.

    With ``P = Sigma^-1`` this is recursive least squares, hence `ExactSolver`. Here Sigma is known in the directions V
    that ``rank`` rows B span, the strongest of all states so far: there P is ``(ridge + B' B)^-1``. In the others the
    members themselves tell how much is left to learn: at a state x with the part c in those directions P is ``1 /
    ridge``, times the members' mean square at c over what their prior has there, at most 1. So a state that does not
    fit into B is averaged over its visits too. Whatever P is, every member suffers its errors: the bonus is that of
    this estimator, never too small for it. States that fit into ``rank`` directions are learned exactly.

    Minibatches enter as `NoiseMoments` does: rows about their own mean, and one row for the shift between the mean of
    the minibatch and that of the past. In the coordinates of today B and w are carried over: B exactly, w so that its
    values at the rows of B stay, and by `Coordinates.carried` elsewhere.

    Memory: (M + rank) d, and as much again while a minibatch, which is written out, is learned.

    Deviation: ours, not the paper's.
    """

    def __init__(self, initial: Sequence[Tensor], config: Streaming):
        self._ridge = config.ridge
        self._shapes = [block.shape[1:] for block in initial]
        self._weights = torch.cat([block.flatten(1) for block in initial], 1)
        members, dimensions = self._weights.shape
        self._rows = self._weights.new_zeros(min(config.rank, dimensions), dimensions)
        self._target_mean = torch.zeros(members, dtype=torch.float64)
        self._count = 0

    @property
    def ensembles(self) -> Sequence[Tensor]:
        """The regressors, one ensemble."""
        blocks = self._weights.split([shape.numel() for shape in self._shapes], 1)
        return [block.reshape(1, -1, *shape) for block, shape in zip(blocks, self._shapes, strict=True)]

    def fit(self, minibatches: Minibatches, scale: FeatureScale) -> float:
        """The mean squared error before each step, over the minibatches; all or nothing, by a copy of the state."""
        losses = []
        with unchanged_on_error(self):
            for features, targets in minibatches:
                before = scale.today()
                scale.observe(features)
                today = scale.today()
                self._carry(before, today)
                rows, noise = self._centered(features, targets, scale, before, today)
                losses.append(self._step(rows, noise))
        return sum(losses) / max(len(losses), 1)

    def _carry(self, before: Coordinates | None, today: Coordinates | None) -> None:
        """Take rows and regressors over into the coordinates of today."""
        if before is None or today is None:
            return
        old, new = (self._flat(part.inverse_scale) for part in (before, today))
        values = self._rows @ self._weights.T
        self._weights *= self._flat(today.carried(before, self._ridge))
        self._rows *= new / old
        eigenvalues, vectors = self._spectrum()
        change = vectors.T @ (values - self._rows @ self._weights.T)
        self._weights += (vectors @ (change / (self._ridge + eigenvalues).unsqueeze(1))).T @ self._rows

    def _centered(
        self,
        features: FeatureBatch,
        targets: Tensor,
        scale: FeatureScale,
        before: Coordinates | None,
        today: Coordinates | None,
    ) -> tuple[Tensor, Tensor]:
        """Rows and targets whose products are those of the minibatch about the mean of everything, (u, d), (u, m).

        They are in the coordinates of today; where there are none, the features as they are.
        """
        if today is None:
            return scale.standardize(features).dense(), targets
        dense = features.dense()
        n, mean, target_mean, g, y = centered_rows(dense.to(device_with_double(dense.device)), targets)
        past = mean if before is None else torch.cat([block.flatten() for block in before.mean]).to(mean)
        shift, weight = merge_moments(self._count, past, n, mean)[2:]
        self._target_mean = self._target_mean.to(y.device)
        self._count, self._target_mean, y_shift, _ = merge_moments(self._count, self._target_mean, n, target_mean)
        g, y = torch.vstack([g, weight**0.5 * shift]), torch.vstack([y, weight**0.5 * y_shift])
        return self._like_weights(g) * self._flat(today.inverse_scale), self._like_weights(y)

    def _step(self, g: Tensor, y: Tensor) -> float:
        """The mean squared error at rows g (u, d) of the targets y (u, m), which are then learned."""
        predicted = require_finite_predictions(g @ self._weights.T)
        eigenvalues, vectors = self._spectrum()
        basis = (vectors / eigenvalues.sqrt()).T @ self._rows  # V, orthonormal rows
        known = g @ basis.T
        rest = g - known @ basis  # c
        precision = self._ridge + eigenvalues
        kernel = in_double(rest @ rest.T) / self._ridge
        spread = in_double((rest @ self._weights.T).square().mean(1))
        share = (spread / kernel.diagonal().clamp_min(torch.finfo(torch.float64).tiny)).clamp_max(1)
        is_full = len(eigenvalues) == len(self._rows)
        if not is_full:  # nothing was left out of B: in the other directions there is the prior alone
            share = torch.ones_like(share)
        wide = in_double(known)
        system = (wide / in_double(precision)) @ wide.T + kernel * share
        system.diagonal().add_(1)
        solved = torch.linalg.solve(system, in_double(y - predicted))
        outside = self._like_weights(solved * (share / self._ridge).unsqueeze(1))
        self._weights += ((known / precision).T @ self._like_weights(solved)).T @ basis + outside.T @ rest
        self._remember(g, is_full=is_full)
        return (predicted - y).square().mean().item()

    def _spectrum(self) -> tuple[Tensor, Tensor]:
        """The eigenvalues (k,) and vectors (r, k) of ``B B'``, but for those that are rounding."""
        eigenvalues, vectors = torch.linalg.eigh(in_double(self._rows @ self._rows.T))
        kept = eigenvalues > SMALLEST * eigenvalues[-1].clamp_min(torch.finfo(torch.float64).tiny)
        return self._like_weights(eigenvalues[kept]), self._like_weights(vectors[:, kept])

    def _remember(self, g: Tensor, *, is_full: bool) -> None:
        """Make B the strongest directions of itself and of the rows g, as rows with ``B' B`` at most their products.

        Once B is full, by a step of subspace iteration that starts at B, which has the strongest of before: a tenth of
        the time of all eigenvectors.
        """
        r = len(self._rows)
        stacked = torch.cat([self._rows, g])
        gram = in_double(stacked @ stacked.T)
        chosen = torch.linalg.qr(gram @ gram[:, :r]).Q if is_full else torch.linalg.eigh(gram).eigenvectors[:, -r:]
        self._rows = self._like_weights(chosen.T) @ stacked

    def _flat(self, blocks: Sequence[Tensor]) -> Tensor:
        return self._like_weights(torch.cat([block.flatten() for block in blocks]))

    def _like_weights(self, values: Tensor) -> Tensor:
        """The dtype first: a device without float64 (mps) never sees it."""
        return values.to(self._weights.dtype).to(self._weights.device)

    def state_dict(self) -> dict[str, Any]:
        """Regressors, the remembered rows, the count of states and the mean of their noise."""
        return {
            "weights": self._weights.clone(),
            "rows": self._rows.clone(),
            "target_mean": self._target_mean.clone(),
            "count": self._count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        state = require_same_layout(state, self.state_dict())
        self._weights, self._rows = state["weights"].clone(), state["rows"].clone()
        self._target_mean, self._count = state["target_mean"].clone(), state["count"]
