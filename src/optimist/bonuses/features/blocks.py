"""The gradients of n states in one parameter, kept in the form that is cheapest to read.

Einsum letters: n sample, m member, o output, i input, p position.
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


class Block(Protocol):
    """The gradients of n states in one parameter of shape ``shape``."""

    @property
    def shape(self) -> torch.Size:
        """The shape of the parameter."""
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
    """Gradients written out, one row a state: for parameters of few numbers."""

    def __init__(self, gradients: Tensor):
        self.gradients = gradients

    @property
    def shape(self) -> torch.Size:
        """The shape of the parameter."""
        return self.gradients.shape[1:]

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
    """A ``FeatureBatch`` of one block a parameter: block ``k`` has the shape of the ``k``-th parameter."""

    def __init__(self, blocks: Sequence[Block], length: int):
        self.blocks = blocks
        self.length = length

    @property
    def shapes(self) -> Sequence[torch.Size]:
        """The shapes of the parameters."""
        return tuple(block.shape for block in self.blocks)

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
