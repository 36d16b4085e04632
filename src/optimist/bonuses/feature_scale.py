"""Batch normalisation ``(g - mean) / sqrt(variance + eps)`` of features, done on the weights: no (n, d) matrix."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from optimist.bonuses.features.batch import Dense, FeatureBatch
from optimist.bonuses.state import require_same_layout


class Standardised:
    """The features ``D (g_n - mean)`` of a batch, D the diagonal of ``inverse_scale``; itself a ``FeatureBatch``.

    ``<w, D (g - mean)> = <D w, g> - <D w, mean>``: reading out with ``D w`` and subtracting one number a member is
    enough.
    """

    def __init__(self, features: FeatureBatch, mean: Sequence[Tensor], inverse_scale: Sequence[Tensor]):
        self._features = features
        self._mean = mean
        self._inverse_scale = inverse_scale

    @property
    def shapes(self) -> Sequence[torch.Size]:
        """The shapes of the features' own blocks."""
        return self._features.shapes

    def __len__(self) -> int:
        return len(self._features)

    def readout(self, block: int, weights: Tensor) -> Tensor:
        """``<w_m, D (g_n - mean)>``. Shapes: weights (m, *shapes[block]) -> (n, m)."""
        scaled = weights * self._inverse_scale[block]
        return self._features.readout(block, scaled) - scaled.flatten(1) @ self._mean[block].flatten()

    def pullback(self, block: int, coefficients: Tensor) -> Tensor:
        """``D sum_n c_nm (g_n - mean)``. Shapes: coefficients (n, m) -> (m, *shapes[block])."""
        mean = self._mean[block]
        total = coefficients.sum(0).reshape(-1, *[1] * mean.ndim)
        return torch.addcmul(self._features.pullback(block, coefficients), total, mean, value=-1).mul_(
            self._inverse_scale[block]
        )

    def moments(self, block: int) -> tuple[Tensor, Tensor]:
        """The mean and the mean square of every standardised coordinate, each ``shapes[block]``."""
        first, second = self._features.moments(block)
        mean, inverse = self._mean[block], self._inverse_scale[block]
        return (first - mean) * inverse, (second - 2 * first * mean + mean.square()) * inverse.square()

    def dense(self) -> Tensor:
        """The standardised features written out, (n, d)."""
        mean = torch.cat([m.flatten() for m in self._mean])
        return (self._features.dense() - mean) * torch.cat([s.flatten() for s in self._inverse_scale])


class FeatureScale(Protocol):
    """What is done to features before the regressors read them."""

    def observe(self, features: FeatureBatch) -> None:
        """Take the statistics of a batch in. The only mutation."""
        ...

    def standardise(self, features: FeatureBatch) -> FeatureBatch:
        """The batch as the regressors read it; changes nothing."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Copies of the statistics."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved statistics."""
        ...


class Unscaled:
    """Features as they are."""

    def observe(self, features: FeatureBatch) -> None:
        """Nothing to take in."""

    def standardise(self, features: FeatureBatch) -> FeatureBatch:
        """The batch itself."""
        return features

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Accept nothing but the empty state."""
        require_same_layout(state, {})


class BatchScale:
    """Statistics of the very batch that is read: the bonus of a state is then relative to the states beside it.

    Paper: section 4, "batch normalization is applied to gradient features"; in training mode always, as the released
    code.
    Deviation: the affine part of batch normalisation belongs to the solver that trains it (see ``AveragedRMSprop``).
    """

    def __init__(self, *, epsilon: float, relative: bool):
        self._epsilon = epsilon
        self._relative = relative

    def observe(self, features: FeatureBatch) -> None:
        """Nothing to take in: every batch brings its own statistics."""

    def standardise(self, features: FeatureBatch) -> FeatureBatch:
        """The batch with mean 0 and variance ``v / (v + eps)`` in every coordinate of variance ``v``."""
        if len(features) < 2:
            raise ValueError(
                "batch statistics need at least two states read together, got one: "
                "run two or more environments, or use statistics='running'"
            )
        mean, variance = _mean_and_variance(features)
        return standardised(features, mean, _inverse_scale(variance, self._epsilon, self._relative))

    def state_dict(self) -> dict[str, Any]:
        """Nothing is carried over."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Accept nothing but the empty state."""
        require_same_layout(state, {})


class RunningScale:
    """Statistics of everything observed, merged batch by batch in float64 (Chan's formula); mean 0, variance 1 before.

    Paper: section 4, "batch normalization"; with these statistics a bonus does not depend on the states beside it.
    """

    def __init__(self, shapes: Sequence[torch.Size], *, epsilon: float, relative: bool):
        self._epsilon = epsilon
        self._relative = relative
        self._count = 0
        self._mean = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
        self._scatter = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]

    def observe(self, features: FeatureBatch) -> None:
        """Merge the mean and the scatter of a batch."""
        n = len(features)
        total = self._count + n
        for k, (mean, variance) in enumerate(zip(*_mean_and_variance(features), strict=True)):
            shift = mean.to("cpu", torch.float64) - self._mean[k]
            self._mean[k] += shift * (n / total)
            self._scatter[k] += variance.to("cpu", torch.float64) * n + shift.square_() * (self._count * n / total)
        self._count = total

    def standardise(self, features: FeatureBatch) -> FeatureBatch:
        """The batch minus the running mean, over the running deviation."""
        if self._count == 0:
            return features
        like = features.moments(0)[0]
        variance = [(scatter / self._count).to(like) for scatter in self._scatter]
        mean = [mean.to(like) for mean in self._mean]
        return standardised(features, mean, _inverse_scale(variance, self._epsilon, self._relative))

    def state_dict(self) -> dict[str, Any]:
        """The count, the means and the scatters."""
        return {
            "count": self._count,
            "mean": {str(k): mean.clone() for k, mean in enumerate(self._mean)},
            "scatter": {str(k): scatter.clone() for k, scatter in enumerate(self._scatter)},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved statistics."""
        require_same_layout(state, self.state_dict())
        self._count = state["count"]
        self._mean = [state["mean"][str(k)].clone() for k in range(len(self._mean))]
        self._scatter = [state["scatter"][str(k)].clone() for k in range(len(self._scatter))]


def standardised(features: FeatureBatch, mean: Sequence[Tensor], inverse_scale: Sequence[Tensor]) -> FeatureBatch:
    """``D (g_n - mean)``: by `Standardised`, or written out where the features already are.

    Written out it is also more exact: subtracting first does not cancel where a mean is large beside its deviation.
    """
    if isinstance(features, Dense):
        return Dense((features.features - mean[0]) * inverse_scale[0])
    return Standardised(features, mean, inverse_scale)


def _mean_and_variance(features: FeatureBatch) -> tuple[list[Tensor], list[Tensor]]:
    if isinstance(features, Dense):
        mean = features.features.mean(0)
        return [mean], [(features.features - mean).square_().mean(0)]  # 15 times as fast as torch.var_mean on a CPU
    moments = [features.moments(k) for k in range(len(features.shapes))]
    return [m for m, _ in moments], [(s - m.square()).clamp_min_(0) for m, s in moments]


def _inverse_scale(variance: Sequence[Tensor], epsilon: float, relative: bool) -> list[Tensor]:
    """``1 / sqrt(v + eps)``; relative: ``1 / sqrt(v + eps vbar)``, vbar the mean variance of all d coordinates.

    FACTS, the eps trap: gradients of a fresh policy have variances of 1e-14 to 1e-8, so an absolute eps of 1e-5 does
    not whiten at all. Where nothing has varied yet, vbar is taken as 1.
    """
    floor = epsilon
    if relative:
        average = sum(v.sum().item() for v in variance) / sum(v.numel() for v in variance)
        floor = epsilon * (average or 1.0)
    return [(v + floor).rsqrt_() for v in variance]
