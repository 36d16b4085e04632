"""M linear regressors ``w_m`` on features in blocks: their first draw, their predictions, and the bonus these make."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from optimist.bonuses.acb.config import Aggregate, BonusForm, Prior
from optimist.bonuses.acb.standardize import Standardized
from optimist.bonuses.features.batch import FeatureBatch

UNCHUNKED = 2**20  # numbers: below this a block of all members is handled at once
CHUNKS = 16  # above it, a temporary of a block holds at most this fraction of the ensemble
CACHED = 2**21  # and at most this many numbers: 8 megabytes stay in cache, and in memory that the allocator reuses


def draw_prior(
    shapes: Sequence[torch.Size], ensemble_size: int, prior: Prior, ridge: float, *, generator: torch.Generator
) -> list[Tensor]:
    """The first weights ``w_0``: N(0, 1 / ridge), or torch.nn.Linear's U(-1/sqrt d, 1/sqrt d), of variance 1 / 3d.

    In a direction without data ``w_0`` stays, so it is the prior: its variance is the bonus of a unit step into the
    unknown.

    Shapes: block k of the result is (m, *shapes[k]), float32.
    Paper: Algorithm 1, line 1: warm-start targets y ~ N(0, 1) at features sqrt(ridge) e_i give w_0 ~ N(0, 1 / ridge).
    """
    blocks = [torch.empty(ensemble_size, *shape) for shape in shapes]
    half_width = sum(shape.numel() for shape in shapes) ** -0.5
    for block in blocks:
        if prior == "gaussian":
            block.normal_(generator=generator).mul_(ridge**-0.5)
        else:
            block.uniform_(-half_width, half_width, generator=generator)
    return blocks


def slices(count: int, size: int, ensemble_numbers: int) -> Iterator[slice]:
    """Slices of ``count`` rows of ``size`` numbers, each small beside the ensemble of ``ensemble_numbers`` = M d."""
    step = max(1, max(UNCHUNKED, min(CACHED, ensemble_numbers // CHUNKS)) // size)
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


def member_slices(block: Tensor, ensemble_numbers: int) -> Iterator[slice]:
    """Slices over the members of a block (m, ...), so that what is made of a slice is small beside the ensemble."""
    return slices(len(block), block[0].numel(), ensemble_numbers)


def count_numbers(blocks: Sequence[Tensor]) -> int:
    """M d, the numbers that one copy of the ensemble holds."""
    return sum(block.numel() for block in blocks)


def predictions(weights: Sequence[Tensor], features: FeatureBatch) -> Tensor:
    """``<w_m, g_n>`` for every state and member. Shapes: block k of weights (m, *shapes[k]) -> (n, m)."""
    total = count_numbers(weights)
    if len(weights) == 1 and total <= UNCHUNKED:
        return features.readout(0, weights[0])
    columns: list[Tensor] = []
    for k, block in enumerate(weights):
        parts = [features.readout(k, block[members]) for members in member_slices(block, total)]
        columns.append(parts[0] if len(parts) == 1 else torch.cat(parts, 1))
    return columns[0] if len(columns) == 1 else torch.stack(columns).sum(0)


class Reader:
    """The predictions of regressors that stay the same from one read to the next, multiplied in ``dtype``, if given.

    The regressors are then rounded once and kept: ``w`` or, where features are standardized on the weights, ``D w`` and
    its offsets. A cache; not part of the state: `forget` it when the regressors change.
    """

    def __init__(self, dtype: torch.dtype | None):
        self._dtype = dtype
        self._weights: list[Tensor] = []
        self._offsets = torch.empty(0)
        self._of: object = None  # what the weights were rounded for: the coordinates that were folded in, or themselves

    def forget(self) -> None:
        """Round anew at the next read."""
        self._of = None

    def predictions(self, weights: Sequence[Tensor], features: FeatureBatch, *, lasts: bool) -> Tensor:
        """``<w_m, g_n>`` for every state and member; ``lasts``: whether the next batch has the same coordinates.

        Shapes: block k of weights (m, *shapes[k]) -> (n, m).
        """
        if self._dtype is None:
            return predictions(weights, features)
        x = features.in_precision(self._dtype)
        if isinstance(x, Standardized) and not lasts:
            return predictions(weights, x)
        if not self._weights:
            self._weights = [torch.empty_like(block, dtype=self._dtype) for block in weights]
        if not isinstance(x, Standardized):
            if self._of is not self:
                for rounded, block in zip(self._weights, weights, strict=True):
                    rounded.copy_(block)
                self._of = self
            return predictions(self._weights, x)
        if self._of is not x.mean:
            self._offsets, self._of = self._folded(weights, x), x.mean
        return predictions(self._weights, x.features) - self._offsets

    def _folded(self, weights: Sequence[Tensor], x: Standardized) -> Tensor:
        """The offsets ``<D w_m, mean>`` of the rounded ``D w``, which is written down. Shapes: -> (m,)."""
        total, offsets = count_numbers(weights), x.like.new_zeros(len(weights[0]))
        for k, block in enumerate(weights):
            for members in member_slices(block, total):
                offsets[members] += x.folded(k, block[members], self._weights[k][members])[1]
        return offsets


def squared_deviation(predicted: Tensor, aggregate: Aggregate) -> Tensor:
    """The bonus ``max_m p_nm^2``, or the mean over m of ``p_nm^2`` (its rms squared). Shapes: (..., n, m) -> (..., n).

    With ``w_m ~ N(0, Sigma^-1)`` the second has mean ``g' Sigma^-1 g``, the first that times ``expected_maximum(m)``.

    Paper: Algorithm 2, line 6, for the maximum; the rms is that of Vowpal Wabbit's ``--rnd``.
    """
    squares = predicted.square()
    return squares.amax(-1) if aggregate == "max" else squares.mean(-1)


def in_form(squares: Tensor, form: BonusForm) -> Tensor:
    """The bonus made of ``q = x' Sigma^-1 x``: q itself, its root, or, bounded, the root of ``q / (1 + q)``, (n,).

    By Sherman and Morrison ``x' (Sigma + x x')^-1 x = q / (1 + q)``: the square of the width after x itself is counted.
    It lies below 1, keeps the order of q, and is q where q is small.

    Paper: Algorithm 2, line 6, for the square; section 2, LinUCB, for the width. Deviation: bounded is ours; the
    potential argument of appendix B.1 bounds the same ``min(1, q)``.
    """
    if form == "square":
        return squares
    return squares.sqrt() if form == "width" else (1 + squares.reciprocal()).rsqrt()


def expected_maximum(ensemble_size: int) -> float:
    """``E max_m z_m^2`` of M standard normals: what to divide a maximum by to read it as an elliptical bonus.

    ``E max = int_0^inf 1 - (2 Phi(sqrt t) - 1)^M dt``, by the trapezium rule on a grid whose tail beyond 200 is below
    1e-40.
    """
    t = torch.linspace(0, 200, 400_001, dtype=torch.float64)
    return torch.trapezoid(1 - torch.erf((t / 2).sqrt()) ** ensemble_size, t).item()
