"""Noise regression solved exactly, by least squares: a d x d matrix, for a few thousand dimensions."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.acb.config import Exact
from optimist.bonuses.acb.ensemble import predictions
from optimist.bonuses.acb.moments import NoiseMoments, regularized_solve
from optimist.bonuses.acb.solvers.averaging import Minibatches, blocks_state, restore_blocks
from optimist.bonuses.acb.standardize import Coordinates, FeatureScale
from optimist.bonuses.checkpointing import require_same_layout
from optimist.bonuses.scaling import in_double
from optimist.ranks import ALONE, Ranks

LARGEST = 16_384  # dimensions: a Gram matrix of 2 GiB
TOGETHER = 2_048  # states whose products are summed at once: one large product costs less than many


class ExactSolver:
    """The regressors ``w_m = argmin_w sum_n (w x_n - y_nm)^2 + ridge |w - w_0m|^2`` of everything fitted so far.

    With ``w_0 ~ N(0, 1 / ridge)`` they are exact draws of ``N(0, Sigma^-1)``, ``Sigma = ridge I + sum x x'``: the
    mean of their squares is an unbiased elliptical bonus. What is kept are the moments of the raw features g and of the
    noise, in float64; ``x = D (g - mu)`` is made of them at the solve, so that every past state counts in the
    coordinates of today, and Sigma is positive definite as long as the ridge exceeds float64's rounding.
    A rollout of n states costs n d^2 / 2 and one Cholesky factorization of d^3 / 3: O(d^2) per state from n = d on.
    Memory: d^2 + M d in float64, five times the former within an update.

    Paper: Algorithm 1, incremental history.
    """

    def __init__(self, initial: Sequence[Tensor], config: Exact):
        dimensions = sum(block[0].numel() for block in initial)
        if dimensions > LARGEST:
            raise ValueError(
                f"the exact solver keeps a d x d matrix and takes features of at most {LARGEST} dimensions, got "
                f"{dimensions}: use features='sketch' with a smaller sketch_size, or solver='proximal'"
            )
        self._ridge = config.ridge
        self._weights = list(initial)
        self._initial = [block.clone() for block in initial]
        self._moments = NoiseMoments(dimensions, len(initial[0]), device=initial[0].device)

    @property
    def ensembles(self) -> Sequence[Tensor]:
        """The regressors, one ensemble."""
        return [block.unsqueeze(0) for block in self._weights]

    def fit(self, minibatches: Minibatches, scale: FeatureScale, ranks: Ranks = ALONE) -> float:
        """The mean squared error of the regressors before the rollout; afterwards they are those of all data.

        Of several ``ranks`` each has its part of every minibatch; what is summed over all of them are the moments, not
        the features, and every rank then solves the same equations.
        """
        moments, losses = self._moments.copy(), []
        added = moments if ranks.alone else NoiseMoments(*moments.sizes, device=self._weights[0].device)
        rows: list[tuple[Tensor, Tensor]] = []
        for features, targets in minibatches:
            scale.observe(features, ranks)
            errors = (predictions(self._weights, scale.standardize(features, ranks)) - targets).square()
            losses.append((errors.mean().item() if len(errors) else 0.0, len(errors)))
            rows.append((scale.lasting(features, ranks).dense(), targets))
            if sum(len(g) for g, _ in rows) >= TOGETHER:
                added.add(*_joined(rows))
                rows = []
        if rows:
            added.add(*_joined(rows))
        if added is not moments:
            moments.merge(added, ranks)
        if not moments.is_finite():
            raise ValueError("features must be finite: look at the policy network's parameters; nothing was changed")
        solved = self._solved(moments, scale.today())
        self._moments = moments
        for block, part in zip(
            self._weights, solved.split([block[0].numel() for block in self._weights], 1), strict=True
        ):
            block.copy_(part.reshape(block.shape))
        return _mean(losses, ranks)

    def _solved(self, moments: NoiseMoments, coordinates: Coordinates | None) -> Tensor:
        """``Sigma^-1 (ridge w_0 + X' y)``, ``Sigma = ridge I + X' X``, in the given coordinates, (m, d)."""
        prior = in_double(torch.cat([block.flatten(1) for block in self._initial], 1))
        right = moments.products(coordinates).add_(prior.T, alpha=self._ridge)
        return regularized_solve(moments.gram(coordinates), right, self._ridge).T

    def state_dict(self) -> dict[str, Any]:
        """The moments of features and noise, the prior draw, and the regressors themselves."""
        return {
            "moments": self._moments.state_dict(),
            "initial": blocks_state(self._initial),
            "weights": blocks_state(self._weights),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        require_same_layout(state, self.state_dict())
        self._moments.load_state_dict(state["moments"])
        restore_blocks(self._initial, state["initial"])
        restore_blocks(self._weights, state["weights"])


def _joined(rows: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Features and targets of all minibatches as one."""
    return torch.cat([g for g, _ in rows]), torch.cat([y for _, y in rows])


def _mean(losses: Sequence[tuple[float, int]], ranks: Ranks) -> float:
    """The mean over minibatches of their mean losses, given the mean and the number of each rank's part of each."""
    if ranks.alone:
        return sum(mean for mean, _ in losses) / max(len(losses), 1)
    sums, counts = ranks.sum(torch.tensor([[mean * n, n] for mean, n in losses], dtype=torch.float64)).T
    return (sums / counts).mean().item()
