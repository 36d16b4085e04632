"""Noise regression by recursive least squares that remembers the strongest directions: no d x d matrix, no average."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.acb.config import Streaming
from optimist.bonuses.acb.moments import centered_rows, strips
from optimist.bonuses.acb.solvers.averaging import Minibatches, require_finite_predictions
from optimist.bonuses.acb.standardize import Coordinates, FeatureScale
from optimist.bonuses.checkpointing import require_same_layout, unchanged_on_error
from optimist.bonuses.features.batch import FeatureBatch
from optimist.bonuses.scaling import device_with_double, in_double, merge_moments

SMALLEST = 1e-10  # of the largest eigenvalue: what rows of single precision hold below it is rounding
COLUMNS = 4096  # of the rows that are converted to float64 at a time


class StreamingSolver:
    """The regressors ``w <- w + P G' (G P G' + I)^-1 (y - G w)`` for each minibatch G, P an estimate of ``Sigma^-1``.

    With ``P = Sigma^-1`` this is recursive least squares, hence `ExactSolver`. Here Sigma is known in the directions V
    that ``rank`` rows B span, the strongest of all states so far: there P is ``(ridge + B' B)^-1``. In the others the
    members themselves tell how much is left to learn: at a state x with the part c in those directions P is ``1 /
    ridge``, times the members' mean square at c over what their prior has there, at most 1. So a state that does not
    fit into B is averaged over its visits too. Whatever P is, every member suffers its errors: the bonus is that of
    this estimator, never too small for it. States that fit into ``rank`` directions are learned exactly.

    Minibatches enter as `NoiseMoments` does: rows about their own mean, and one row for the shift between the mean of
    the minibatch and that of the past. When D, the scale of the coordinates, moves by the factors R, B becomes B R, and
    the regressors solve ``(ridge + R B' B R) w = ridge (w_0 + R (w_before - w_0)) + R B' B w_before``. Where B holds
    all, the right side is ``ridge w_0 + R X' y``, as in `ExactSolver`: ``X' y`` is what ``(ridge + B' B) w_before`` has
    beside ``ridge w_0``. For that the first weights are kept.

    All that a minibatch needs are the products of B and its rows with each other, which are summed in float64, and with
    the regressors: weak directions are told apart beside strong ones, however long the stream.

    Memory: (2 M + rank) d, and as much again while a minibatch, which is written out, is learned.

    Deviation: ours, not the paper's.
    """

    def __init__(self, initial: Sequence[Tensor], config: Streaming):
        self._ridge = config.ridge
        self._shapes = [block.shape[1:] for block in initial]
        self._weights = torch.cat([block.flatten(1) for block in initial], 1)
        self._initial = self._weights.clone()
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
                rows, noise = self._centered(features, targets, scale, before, today)
                losses.append(self._step(rows, noise, before, today))
        return sum(losses) / max(len(losses), 1)

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

    def _step(self, g: Tensor, y: Tensor, before: Coordinates | None, today: Coordinates | None) -> float:
        """The mean squared error at rows g (u, d) of the targets y (u, m), which are then learned.

        Letters: V = ``root' B`` are the directions of B, orthonormal; ``known`` and ``rest`` are the parts of g in them
        and outside, of which only products are needed.
        """
        r = len(self._rows)
        values = self._rescaled(before, today)
        stacked = torch.cat([self._rows, g])
        predicted = in_double(require_finite_predictions(stacked @ self._weights.T))
        gram = gram_of(stacked)
        eigenvalues, vectors = spectrum(gram[:r, :r])
        precision, root = self._ridge + eigenvalues, vectors / eigenvalues.sqrt()
        coefficients = torch.zeros_like(predicted)  # of the rows of B and of g in the change of the regressors
        if values is not None:  # solve anew in the coordinates of today
            coefficients[:r] = vectors @ ((vectors.T @ (values - predicted[:r])) / precision.unsqueeze(1))
            predicted += gram[:, :r] @ coefficients[:r]
        known = gram[r:, :r] @ root
        kernel = (gram[r:, r:] - known @ known.T) / self._ridge
        is_full = len(eigenvalues) == r
        share = torch.ones_like(kernel.diagonal())
        if is_full:  # something may be left out of B: else there is the prior alone in the other directions
            spread = (predicted[r:] - known @ (root.T @ predicted[:r])).square().mean(1)
            share = (spread / kernel.diagonal().clamp_min(torch.finfo(torch.float64).tiny)).clamp(0, 1)
        system = (known / precision) @ known.T + kernel * share
        system.diagonal().add_(1)
        error = in_double(y) - predicted[r:]
        solved = torch.linalg.solve(system, error)
        outside = solved * (share / self._ridge).unsqueeze(1)
        coefficients[:r] += root @ ((known / precision).T @ solved - known.T @ outside)
        coefficients[r:] = outside
        self._weights += self._like_weights(coefficients).T @ stacked
        self._rows = self._like_weights(strongest(gram, r, is_full=is_full)).T @ stacked
        return error.square().mean().item()

    def _rescaled(self, before: Coordinates | None, today: Coordinates | None) -> Tensor | None:
        """Multiply rows and what was learned by the factors R of the scales: the values ``B w`` before, if these move.

        Shapes: -> (r, m).
        """
        if before is None or today is None:
            return None
        values = in_double(self._rows @ self._weights.T)
        ratio = self._flat(today.inverse_scale) / self._flat(before.inverse_scale)
        self._weights = torch.lerp(self._initial, self._weights, ratio)  # w_0 + R (w - w_0)
        self._rows = self._rows * ratio
        return values

    def _flat(self, blocks: Sequence[Tensor]) -> Tensor:
        return self._like_weights(torch.cat([block.flatten() for block in blocks]))

    def _like_weights(self, values: Tensor) -> Tensor:
        """The dtype first: a device without float64 (mps) never sees it."""
        return values.to(self._weights.dtype).to(self._weights.device)

    def state_dict(self) -> dict[str, Any]:
        """Regressors, first and last, the remembered rows, the count of states and the mean of their noise."""
        return {
            "initial": self._initial.clone(),
            "weights": self._weights.clone(),
            "rows": self._rows.clone(),
            "target_mean": self._target_mean.clone(),
            "count": self._count,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        state = require_same_layout(state, self.state_dict())
        self._initial, self._weights = state["initial"].clone(), state["weights"].clone()
        self._rows = state["rows"].clone()
        self._target_mean, self._count = state["target_mean"].clone(), state["count"]


def gram_of(rows: Tensor) -> Tensor:
    """``rows rows'``, summed in float64, on the device of the rows if it has that. Shapes: (s, d) -> (s, s)."""
    gram = in_double(rows.new_zeros(len(rows), len(rows)))
    for part in map(in_double, rows.split(COLUMNS, 1)):
        for start, some in strips(len(rows)):
            gram[start:, some].addmm_(part[start:], part[some].T)
    return gram.tril() + gram.tril(-1).T


def spectrum(gram: Tensor) -> tuple[Tensor, Tensor]:
    """The eigenvalues (k,) and vectors (r, k) of a matrix (r, r), but for those that are rounding."""
    eigenvalues, vectors = torch.linalg.eigh(gram)
    kept = eigenvalues > SMALLEST * eigenvalues[-1].clamp_min(torch.finfo(torch.float64).tiny)
    return eigenvalues[kept], vectors[:, kept]


def strongest(gram: Tensor, r: int, *, is_full: bool) -> Tensor:
    """Orthonormal combinations, (s, r), of rows with these products (s, s) that have most of their energy.

    Once the first r rows are full, by a step of subspace iteration that starts at them, which have the strongest of
    before: a tenth of the time of all eigenvectors.
    """
    return torch.linalg.qr(gram @ gram[:, :r]).Q if is_full else torch.linalg.eigh(gram).eigenvectors[:, -r:]
