"""Features of a batch of states, read only through products, so that a million dimensions need never be written out."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class FeatureBatch(Protocol):
    """The features ``g_1 .. g_n`` of n states, in named-by-index blocks (one a layer, or a single one).

    A weight vector of a regressor has the same blocks: block ``k`` of an ensemble is ``(m, *shapes[k])``, contiguous.
    Einsum letters: n sample, m member, o output, i input, d the flattened feature.
    """

    @property
    def shapes(self) -> Sequence[torch.Size]:
        """The shape of each block of one state's feature; their sizes add up to d."""
        ...

    def __len__(self) -> int:
        """n, the number of states."""
        ...

    def readout(self, block: int, weights: Tensor) -> Tensor:
        """Block ``block`` of ``<w_m, g_n>``. Shapes: weights (m, *shapes[block]) -> (n, m)."""
        ...

    def pullback(self, block: int, coefficients: Tensor) -> Tensor:
        """``sum_n c_nm g_n``, the transpose of ``readout``. Shapes: coefficients (n, m) -> (m, *shapes[block])."""
        ...

    def moments(self, block: int) -> tuple[Tensor, Tensor]:
        """The mean and the mean square over the n states of every coordinate of the block, each ``shapes[block]``."""
        ...

    def dense(self) -> Tensor:
        """All features written out, (n, d). Only for features of a few thousand dimensions and for oracles."""
        ...


class Dense:
    """Features that are written out: one block, one matrix (n, d)."""

    def __init__(self, features: Tensor):
        if features.ndim != 2:
            raise ValueError(
                f"dense features must be (n, d), got shape {tuple(features.shape)}: flatten each state first"
            )
        self.features = features

    @property
    def shapes(self) -> Sequence[torch.Size]:
        """One block of d numbers."""
        return (self.features.shape[1:],)

    def __len__(self) -> int:
        return self.features.shape[0]

    def readout(self, block: int, weights: Tensor) -> Tensor:
        """``<w_m, g_n>``. Shapes: weights (m, d) -> (n, m)."""
        return self.features @ weights.T

    def pullback(self, block: int, coefficients: Tensor) -> Tensor:
        """``sum_n c_nm g_n``. Shapes: coefficients (n, m) -> (m, d)."""
        return coefficients.T @ self.features

    def moments(self, block: int) -> tuple[Tensor, Tensor]:
        """Mean and mean square of every coordinate, each (d,)."""
        return self.features.mean(0), self.features.square().mean(0)

    def dense(self) -> Tensor:
        """The matrix itself, (n, d)."""
        return self.features
