"""Features of a batch of states, read only through products, so that a million dimensions need never be written out.

Einsum letters: n sample, m member, o output, i input, p position, d the flattened feature.
"""

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

CACHED_NUMBERS = 2**18
"""How many numbers the intermediate of a read-out may have: a megabyte in single precision, so that it stays in cache.

Measured, one core, the 256 x 3136 layer, M = n = 128: 79 Gflop/s, against 62 of the same product in one piece.
"""


class FeatureBatch(Protocol):
    """The features ``g_1 .. g_n`` of n states, in blocks (one per parameter, or a single one).

    A weight vector of a regressor has the same blocks: block ``k`` of an ensemble is ``(m, *shapes[k])``, contiguous.
    """

    @property
    def shapes(self) -> Sequence[torch.Size]:
        """The shape of each block of one state's feature; their sizes add up to d."""
        ...

    @property
    def like(self) -> Tensor:
        """Any tensor of the features' own dtype, on their device."""
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

    @property
    def like(self) -> Tensor:
        """The features."""
        return self.features

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


class Block(Protocol):
    """The gradients of n states in one parameter of shape ``shape``."""

    @property
    def shape(self) -> torch.Size:
        """The shape of the parameter."""
        ...

    @property
    def like(self) -> Tensor:
        """Any tensor of the gradients' own dtype, on their device."""
        ...

    def readout(self, weights: Tensor) -> Tensor:
        """``<w_m, g_n>``. Shapes: weights (m, *shape) -> (n, m)."""
        ...

    def pullback(self, coefficients: Tensor) -> Tensor:
        """``sum_n c_nm g_n``. Shapes: coefficients (n, m) -> (m, *shape)."""
        ...

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and mean square over the states, each ``shape``."""
        ...

    def rows(self) -> Tensor:
        """The gradients written out, (n, *shape)."""
        ...


class Rows:
    """Gradients written out, one row per state: for parameters of few numbers."""

    def __init__(self, gradients: Tensor):
        self.gradients = gradients

    @property
    def shape(self) -> torch.Size:
        """The shape of the parameter."""
        return self.gradients.shape[1:]

    @property
    def like(self) -> Tensor:
        """The gradients."""
        return self.gradients

    def readout(self, weights: Tensor) -> Tensor:
        """``<w_m, g_n>``. Shapes: weights (m, *shape) -> (n, m)."""
        return self.gradients.flatten(1) @ weights.flatten(1).T

    def pullback(self, coefficients: Tensor) -> Tensor:
        """``sum_n c_nm g_n``. Shapes: coefficients (n, m) -> (m, *shape)."""
        return (coefficients.T @ self.gradients.flatten(1)).unflatten(1, self.shape)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Mean and mean square over the states, each ``shape``."""
        n = self.gradients.shape[0]
        return self.gradients.mean(0), torch.einsum("n...,n...->...", self.gradients, self.gradients) / n

    def rows(self) -> Tensor:
        """The gradients, (n, *shape)."""
        return self.gradients


class OuterProduct:
    """Gradients ``e_n h_n'`` of a linear layer's weights, never written out: two factors (n, o) and (n, i)."""

    def __init__(self, left: Tensor, right: Tensor):
        self.left = left
        self.right = right

    @property
    def shape(self) -> torch.Size:
        """(o, i)."""
        return torch.Size((self.left.shape[1], self.right.shape[1]))

    @property
    def like(self) -> Tensor:
        """One of the factors."""
        return self.left

    def readout(self, weights: Tensor) -> Tensor:
        """``e_n' w_m h_n``, a few members at a time. Shapes: weights (m, o, i) -> (n, m)."""
        n, o = self.left.shape
        members = max(1, CACHED_NUMBERS // (n * o))
        column = self.left.unsqueeze(2)
        pieces = [
            torch.bmm((self.right @ some.reshape(-1, some.shape[2]).T).view(n, -1, o), column).squeeze(2)
            for some in weights.split(members)
        ]
        return torch.cat(pieces, dim=1)

    def pullback(self, coefficients: Tensor) -> Tensor:
        """``sum_n c_nm e_n h_n'``. Shapes: coefficients (n, m) -> (m, o, i)."""
        scaled = coefficients.T.unsqueeze(1) * self.left.T  # (m, o, n)
        return (scaled.flatten(0, 1) @ self.right).unflatten(0, scaled.shape[:2])

    def moments(self) -> tuple[Tensor, Tensor]:
        """``sum_n e h' / n`` and ``sum_n (e^2) (h^2)' / n``, each (o, i)."""
        n = self.left.shape[0]
        return self.left.T @ self.right / n, self.left.square().T @ self.right.square() / n

    def rows(self) -> Tensor:
        """The outer products written out, (n, o, i)."""
        return self.left.unsqueeze(2) * self.right.unsqueeze(1)


class BlockFeatures:
    """A ``FeatureBatch`` of one block per parameter: block ``k`` has the shape of the ``k``-th parameter."""

    def __init__(self, blocks: Sequence[Block], length: int):
        self.blocks = blocks
        self.length = length

    @property
    def shapes(self) -> Sequence[torch.Size]:
        """The shapes of the parameters."""
        return tuple(block.shape for block in self.blocks)

    @property
    def like(self) -> Tensor:
        """A tensor of the first block."""
        return self.blocks[0].like

    def __len__(self) -> int:
        return self.length

    def readout(self, block: int, weights: Tensor) -> Tensor:
        """Block ``block`` of ``<w_m, g_n>``. Shapes: weights (m, *shapes[block]) -> (n, m)."""
        return self.blocks[block].readout(weights)

    def pullback(self, block: int, coefficients: Tensor) -> Tensor:
        """``sum_n c_nm g_n``. Shapes: coefficients (n, m) -> (m, *shapes[block])."""
        return self.blocks[block].pullback(coefficients)

    def moments(self, block: int) -> tuple[Tensor, Tensor]:
        """Mean and mean square of every coordinate of the block, each ``shapes[block]``."""
        return self.blocks[block].moments()

    def dense(self) -> Tensor:
        """All gradients written out, (n, d)."""
        return torch.cat([block.rows().reshape(len(self), math.prod(block.shape)) for block in self.blocks], dim=1)
