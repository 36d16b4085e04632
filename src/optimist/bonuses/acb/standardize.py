"""Batch normalization ``(g - mean) / sqrt(variance + eps)`` of features, done on the weights: no (n, d) matrix."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from optimist.bonuses.checkpointing import require_same_layout
from optimist.bonuses.features.batch import Dense, FeatureBatch, Scratch
from optimist.bonuses.features.maps import FeatureMap
from optimist.bonuses.scaling import merge_moments, pooled
from optimist.ranks import ALONE, Ranks

ROUNDING = 1e-6  # of a mean: deviations below it are single precision's


class Standardized:
    """The features ``D (g_n - mean)`` of a batch, D the diagonal of ``inverse_scale``; itself a ``FeatureBatch``.

    ``<w, D (g - mean)> = <D w, g> - <D w, mean>``: reading out with ``D w`` and subtracting one number per member is
    enough.
    """

    def __init__(
        self,
        features: FeatureBatch,
        mean: Sequence[Tensor],
        inverse_scale: Sequence[Tensor],
        dtype: torch.dtype | None = None,
    ):
        self.features = features if dtype is None else features.in_precision(dtype)
        self.mean = mean
        self._inverse_scale = inverse_scale
        self._dtype = dtype or features.like.dtype
        self._scratch = Scratch()

    @property
    def shapes(self) -> Sequence[torch.Size]:
        """The shapes of the features' own blocks."""
        return self.features.shapes

    @property
    def like(self) -> Tensor:
        """A tensor of the features themselves."""
        return self.features.like

    def __len__(self) -> int:
        return len(self.features)

    def readout(self, block: int, weights: Tensor) -> Tensor:
        """``<w_m, D (g_n - mean)>``. Shapes: weights (m, *shapes[block]) -> (n, m)."""
        rounded, offsets = self.folded(block, weights, self._scratch.like(weights, self._dtype))
        return self.features.readout(block, rounded) - offsets

    def folded(self, block: int, weights: Tensor, rounded: Tensor) -> tuple[Tensor, Tensor]:
        """``D w``, written into ``rounded``, and the offsets ``<D w_m, mean>`` of what is written there.

        Shapes: weights, rounded (m, *shapes[block]) -> the same, (m,).
        """
        mean = self.mean[block].flatten()
        scaled = torch.mul(weights, self._inverse_scale[block], out=self._scratch.like(weights))
        if rounded.dtype == scaled.dtype:
            return scaled, scaled.flatten(1) @ mean
        # The offset of the rounded weights: a rounding then meets g - mean only.
        return rounded.copy_(scaled), scaled.copy_(rounded).flatten(1) @ mean

    def in_precision(self, dtype: torch.dtype) -> "Standardized":
        """The same features, multiplied in ``dtype``."""
        return Standardized(self.features, self.mean, self._inverse_scale, dtype)

    def pullback(self, block: int, coefficients: Tensor) -> Tensor:
        """``D sum_n c_nm (g_n - mean)``. Shapes: coefficients (n, m) -> (m, *shapes[block])."""
        mean = self.mean[block]
        total = coefficients.sum(0).reshape(-1, *[1] * mean.ndim)
        made = self.features.pullback(block, coefficients)
        return made.addcmul_(total, mean, value=-1).mul_(self._inverse_scale[block])

    def moments(self, block: int) -> tuple[Tensor, Tensor]:
        """The mean and the mean square of every standardized coordinate, each ``shapes[block]``."""
        first, second = self.features.moments(block)
        mean, inverse = self.mean[block], self._inverse_scale[block]
        return (first - mean) * inverse, (second - 2 * first * mean + mean.square()) * inverse.square()

    def dense(self) -> Tensor:
        """The standardized features written out, (n, d)."""
        mean = torch.cat([m.flatten() for m in self.mean])
        return (self.features.dense() - mean) * torch.cat([s.flatten() for s in self._inverse_scale])


@dataclass(frozen=True)
class Floor:
    """What is added to the variance of a coordinate before its root divides: absolute, or relative to other variances.

    relative: ``epsilon`` times the mean variance of all d coordinates or, with ``layers``, of the coordinate's own
    layer. ``layers`` names the layer of each run of coordinates, in order: ``(("trunk", 800), ("trunk", 32), ...)``.
    FACTS, the eps trap: gradients of a fresh policy have variances of 1e-14 to 1e-8, so an absolute eps of 1e-5 does
    not whiten at all. Where nothing has varied yet the mean of all counts, and 1 if that is 0; and a deviation of less
    than a millionth of the mean is rounding.
    """

    epsilon: float
    relative: bool
    layers: Sequence[tuple[str, int]] | None = None

    def inverse_scale(self, mean: Sequence[Tensor], variance: Sequence[Tensor]) -> list[Tensor]:
        """``1 / sqrt(v + floor)`` of every coordinate, block by block."""
        if not self.relative:
            return [(v + self.epsilon).rsqrt_() for v in variance]
        average = total(variance) / sum(v.numel() for v in variance) or 1.0
        if self.layers is None:
            floors: Sequence[float | Tensor] = [self.epsilon * average] * len(variance)
        else:
            floors = [self.epsilon * block for block in self._layer_averages(variance, average, self.layers)]
        rounding = ROUNDING**2
        return [(v + f + rounding * m.square()).rsqrt_() for m, v, f in zip(mean, variance, floors, strict=True)]

    def _layer_averages(
        self, variance: Sequence[Tensor], average: float, layers: Sequence[tuple[str, int]]
    ) -> list[Tensor]:
        """The mean variance of its layer at every coordinate, in the blocks of ``variance``."""
        flat = torch.cat([v.flatten() for v in variance])
        runs = flat.split([size for _, size in layers])
        sums, sizes = dict.fromkeys((name for name, _ in layers), 0.0), Counter[str]()
        for (name, size), run in zip(layers, runs, strict=True):
            sums[name] += run.sum().item()
            sizes[name] += size
        averages = {name: sums[name] / sizes[name] or average for name in sums}
        filled = [run.new_full((size,), averages[name]) for (name, size), run in zip(layers, runs, strict=True)]
        blocks = torch.cat(filled).split([v.numel() for v in variance])
        return [block.view_as(v) for block, v in zip(blocks, variance, strict=True)]


def total(blocks: Sequence[Tensor]) -> float:
    """The sum of all numbers."""
    return sum(block.sum().item() for block in blocks)


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The coordinates ``x = D (g - mean)``: a mean and the diagonal of D for every block."""

    mean: list[Tensor]
    inverse_scale: list[Tensor]
    information: list[Tensor]
    """``sum x^2`` of every coordinate over the data behind the mean: what is known of it, against a prior's ridge."""
    _read_as: dict[tuple[torch.dtype, torch.device], tuple[list[Tensor], list[Tensor]]] = field(default_factory=dict)

    def carried(self, before: "Coordinates", ridge: float) -> list[Tensor]:
        """What weights that were learned in the coordinates ``before`` are multiplied by to be read in these.

        For one coordinate alone, with prior precision ridge and information a, r the ratio of the new D to the old:
        ``(ridge + r a) / (ridge + r^2 a)``. Where data decides it is 1 / r, which keeps the function that was learned;
        where there is none it is 1, which keeps the prior.
        """
        pairs = zip(self.inverse_scale, before.inverse_scale, before.information, strict=True)
        return [(ridge + r * a) / (ridge + r * r * a) for r, a in ((new / old, a) for new, old, a in pairs)]

    def standardize(self, features: FeatureBatch) -> FeatureBatch:
        """The batch in these coordinates: written out where the features are, else by `Standardized`.

        Written out it is also more exact: subtracting first does not cancel where a mean is large beside its deviation.
        """
        mean, inverse = self.read_as(features.like)
        if isinstance(features, Dense):
            return Dense((features.features - mean[0]).mul_(inverse[0]))
        return Standardized(features, mean, inverse)

    def read_as(self, like: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """``mean`` and ``inverse_scale`` of the dtype and on the device of ``like``; converted once, then kept."""
        kind = (like.dtype, like.device)
        if kind not in self._read_as:
            # The dtype first: a device without float64 (mps) never sees it.
            mean = [block.to(like.dtype).to(like.device) for block in self.mean]
            self._read_as[kind] = mean, [block.to(like.dtype).to(like.device) for block in self.inverse_scale]
        return self._read_as[kind]


class FeatureScale(Protocol):
    """What is done to features before the regressors read them, in two steps: one for good, one that may still move.

    A solver that keeps sums of the past keeps ``lasting`` features and solves in the coordinates of ``today``; one that
    keeps regressors alone reads ``standardize``, both steps at once. A batch has the statistics of its parts on all of
    the ``ranks`` that are given.
    """

    def observe(self, features: FeatureBatch, ranks: Ranks = ALONE) -> None:
        """Take the statistics of a batch in. The only mutation."""
        ...

    def lasting(self, features: FeatureBatch, ranks: Ranks = ALONE) -> FeatureBatch:
        """The batch after what is done to it for good: nothing, or its own statistics taken out."""
        ...

    def today(self) -> Coordinates | None:
        """The coordinates in which lasting features are read now; None: as they are."""
        ...

    def standardize(self, features: FeatureBatch, ranks: Ranks = ALONE) -> FeatureBatch:
        """The batch as the regressors read it now; changes nothing."""
        ...

    def settled(self, batches: Callable[[], Iterable[FeatureBatch]], ranks: Ranks = ALONE) -> "FeatureScale":
        """Itself or, before anything was observed, one that knows ``batches``, which are about to be read."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """Copies of the statistics."""
        ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved statistics."""
        ...


class Unscaled:
    """Features as they are."""

    def observe(self, features: FeatureBatch, ranks: Ranks = ALONE) -> None:
        """Nothing to take in."""

    def lasting(self, features: FeatureBatch, ranks: Ranks = ALONE) -> FeatureBatch:
        """The batch itself."""
        return features

    def today(self) -> None:
        """As they are."""

    def standardize(self, features: FeatureBatch, ranks: Ranks = ALONE) -> FeatureBatch:
        """The batch itself."""
        return features

    def settled(self, batches: Callable[[], Iterable[FeatureBatch]], ranks: Ranks = ALONE) -> "Unscaled":
        """Itself."""
        return self

    def fresh(self) -> "Unscaled":
        """Itself."""
        return self

    def merge(self, seen: FeatureScale, ranks: Ranks) -> None:
        """Nothing to merge."""

    def state_dict(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Accept nothing but the empty state."""
        require_same_layout(state, {})


class BatchScale:
    """Statistics of the very batch that is read: the bonus of a state is then relative to the states beside it.

    Paper: section 5, "batch normalization is applied to gradient features"; in training mode always, as the released
    code.
    Deviation: the affine part of batch normalization belongs to the solver that trains it (see `RMSpropSolver`).
    """

    def __init__(self, floor: Floor):
        self._floor = floor

    def observe(self, features: FeatureBatch, ranks: Ranks = ALONE) -> None:
        """Nothing to take in: every batch brings its own statistics."""

    def lasting(self, features: FeatureBatch, ranks: Ranks = ALONE) -> FeatureBatch:
        """The batch with mean 0 and variance ``v / (v + eps)`` in every coordinate of variance ``v``."""
        n, mean, variance = pooled(ranks, len(features), *_mean_and_variance(features, lambda values: values))
        if n < 2:
            raise ValueError(
                "batch statistics need at least two states read together, got one: "
                "run two or more environments, or use statistics='running'"
            )
        inverse = self._floor.inverse_scale(mean, variance)
        return Coordinates(mean, inverse, []).standardize(features)

    def today(self) -> None:
        """As they are: what a batch was divided by does not change any more."""

    def standardize(self, features: FeatureBatch, ranks: Ranks = ALONE) -> FeatureBatch:
        """The same as ``lasting``."""
        return self.lasting(features, ranks)

    def settled(self, batches: Callable[[], Iterable[FeatureBatch]], ranks: Ranks = ALONE) -> "BatchScale":
        """Itself."""
        return self

    def state_dict(self) -> dict[str, Any]:
        """Nothing is carried over."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Accept nothing but the empty state."""
        require_same_layout(state, {})


class RunningScale:
    """Statistics of everything observed, merged batch by batch in float64.

    Before anything was observed `compute` reads a rollout by its own statistics (``settled``), so that the first
    bonuses have the scale of the later ones; ``standardize`` then leaves features as they are.

    Paper: section 5, "batch normalization"; with these statistics a bonus does not depend on the states beside it.
    """

    def __init__(self, shapes: Sequence[torch.Size], floor: Floor):
        self._floor = floor
        self._count = 0
        self._today: Coordinates | None = None  # a cache; not part of the state
        self._mean = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]
        self._scatter = [torch.zeros(shape, dtype=torch.float64) for shape in shapes]

    @property
    def count(self) -> int:
        """How many states were observed."""
        return self._count

    def observe(self, features: FeatureBatch, ranks: Ranks = ALONE) -> None:
        """Merge the mean and the scatter of a batch."""
        self._merge(*pooled(ranks, len(features), *_mean_and_variance(features, _double)))

    def _merge(self, n: int, means: Sequence[Tensor], variances: Sequence[Tensor]) -> None:
        count, self._today = self._count, None
        for k, (mean, variance) in enumerate(zip(means, variances, strict=True)):
            merged = merge_moments(count, self._mean[k], n, mean)
            self._mean[k] = merged.mean
            self._scatter[k] += variance * n + merged.shift.square_() * merged.weight
            self._count = merged.count

    def lasting(self, features: FeatureBatch, ranks: Ranks = ALONE) -> FeatureBatch:
        """The batch itself: the statistics will still move."""
        return features

    def today(self) -> Coordinates | None:
        """The running mean, and one over the running deviation; None before the first batch."""
        if self._today is None and self._count:
            variance = [scatter / self._count for scatter in self._scatter]
            inverse = self._floor.inverse_scale(self._mean, variance)
            information = [scatter * s.square() for scatter, s in zip(self._scatter, inverse, strict=True)]
            self._today = Coordinates(list(self._mean), inverse, information)
        return self._today

    def standardize(self, features: FeatureBatch, ranks: Ranks = ALONE) -> FeatureBatch:
        """The batch minus the running mean, over the running deviation."""
        coordinates = self.today()
        return features if coordinates is None else coordinates.standardize(features)

    def settled(self, batches: Callable[[], Iterable[FeatureBatch]], ranks: Ranks = ALONE) -> "RunningScale":
        """Itself or, before the first batch, one that has observed ``batches``; this one is not changed.

        Where nothing varies among them (one state, or the same all along), it is their distance to 0 that counts as one
        deviation: about the bonus of a typical new state among many.
        """
        if self._count:
            return self
        first = self.fresh()
        for batch in batches():
            first.observe(batch)
        if not ranks.alone:
            of_this, first = first, self.fresh()
            first.merge(of_this, ranks)
        squares = [first._count * mean.square() for mean in first._mean]
        if total(first._scatter) <= ROUNDING**2 * total(squares):
            first._scatter, first._mean = squares, [torch.zeros_like(mean) for mean in first._mean]
        return first

    def fresh(self) -> "RunningScale":
        """One of the same kind that has observed nothing."""
        return RunningScale([mean.shape for mean in self._mean], self._floor)

    def merge(self, seen: FeatureScale, ranks: Ranks) -> None:
        """Merge what the one called ``seen``, `fresh` before, of every rank has observed."""
        if not isinstance(seen, RunningScale):
            raise TypeError(f"running statistics merge with their own kind, got {type(seen).__name__}")
        variances = [scatter / max(seen._count, 1) for scatter in seen._scatter]
        self._merge(*pooled(ranks, seen._count, seen._mean, variances))

    def state_dict(self) -> dict[str, Any]:
        """The count, the means and the scatters."""
        return {
            "count": self._count,
            "mean": {str(k): mean.clone() for k, mean in enumerate(self._mean)},
            "scatter": {str(k): scatter.clone() for k, scatter in enumerate(self._scatter)},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from saved statistics."""
        state = require_same_layout(state, self.state_dict())
        self._count, self._today = state["count"], None
        self._mean = [state["mean"][str(k)].clone() for k in range(len(self._mean))]
        self._scatter = [state["scatter"][str(k)].clone() for k in range(len(self._scatter))]


class ScaleConfig(Protocol):
    """The fields of a bonus's configuration that choose how its features are standardized."""

    @property
    def statistics(self) -> str:
        """running, batch, rollout or none."""
        ...

    @property
    def epsilon(self) -> float:
        """What is added to a variance."""
        ...

    @property
    def epsilon_form(self) -> str:
        """Relative or absolute."""
        ...

    @property
    def floor(self) -> str:
        """All or layer."""
        ...


def make_scale(shapes: Sequence[torch.Size], features: FeatureMap, config: ScaleConfig) -> FeatureScale:
    """The standardization that ``config`` asks for of the features of a map, in blocks of these shapes."""
    layers = features.layers if config.floor == "layer" else None
    floor = Floor(config.epsilon, relative=config.epsilon_form == "relative", layers=layers)
    match config.statistics:
        case "running":
            return RunningScale(shapes, floor)
        case "batch" | "rollout":
            return BatchScale(floor)
        case _:
            return Unscaled()


def first_rollout(own: FeatureScale, read_with: FeatureScale) -> int:
    """The number of states of a first rollout, if it is read by its own statistics instead of ``own``; else 1.

    An exact bonus of the first rollout is divided by it, as a square: once learned, n states have a mean square of
    d / n, and so have later ones like them. At the scale of the unseen, d, it would outweigh all later rollouts in a
    `ReturnScale` of all times, and exploration would end (TorchRL's DeepSea-14: 1 of 5 seeds, else 5 of 5).
    """
    return read_with.count if read_with is not own and isinstance(read_with, RunningScale) else 1


def _mean_and_variance(features: FeatureBatch, read: Callable[[Tensor], Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """The mean and the variance of every coordinate over the states, block by block, ``read`` in another precision.

    Written-out features are summed about a rounded mean, whose error the mean of the rest then mends: read in float64
    this is the mean of their numbers in float64, to a rounding of the deviation, in the time of single precision.
    """
    if isinstance(features, Dense):
        rounded = features.features.mean(0)
        centered = features.features - rounded
        rest = read(centered.mean(0))
        # 15 times as fast as torch.var_mean on a CPU
        return [read(rounded) + rest], [(read(centered.square_().mean(0)) - rest.square()).clamp_min_(0)]
    moments = [features.moments(k) for k in range(len(features.shapes))]
    return [read(m) for m, _ in moments], [read((s - m.square()).clamp_min_(0)) for m, s in moments]


def _double(values: Tensor) -> Tensor:
    """On the CPU, then in float64, which not every device has."""
    return values.cpu().double()
