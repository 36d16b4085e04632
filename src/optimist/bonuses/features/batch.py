"""Features of a batch of states, read only through products, so that a million dimensions need never be written out.

Products are made in the features' own dtype, or in another (``in_precision``): factors are rounded to it, a product is
summed in single precision inside the multiply, and what comes out has the features' own dtype again.
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

    def in_precision(self, dtype: torch.dtype) -> "FeatureBatch":
        """The same features, whose ``readout`` and ``pullback`` multiply numbers of ``dtype``."""
        ...

    def moments(self, block: int) -> tuple[Tensor, Tensor]:
        """The mean and the mean square over the n states of every coordinate of the block, each ``shapes[block]``."""
        ...

    def dense(self) -> Tensor:
        """All features written out, (n, d). Only for features of a few thousand dimensions and for oracles."""
        ...


class Scratch:
    """Memory for one temporary after another: an allocator would give each of them back, and get new pages."""

    def __init__(self) -> None:
        self._held: dict[torch.dtype, Tensor] = {}

    def like(self, tensor: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """A tensor of any numbers, of the shape of ``tensor`` and its dtype unless another is given.

        It is valid until the next call with this dtype.
        """
        kind = dtype or tensor.dtype
        held = self._held.get(kind)
        if held is None or held.numel() < tensor.numel() or held.device != tensor.device:
            held = self._held[kind] = torch.empty(tensor.numel(), dtype=kind, device=tensor.device)
        return held[: tensor.numel()].view(tensor.shape)


def product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """``left @ right``, multiplied in ``dtype``, in the dtype of the features that one of them is: the wider one."""
    made = left.to(dtype) @ right.to(dtype)
    return made.to(torch.promote_types(left.dtype, right.dtype))


class Dense:
    """Features that are written out: one block, one matrix (n, d)."""

    def __init__(self, features: Tensor, dtype: torch.dtype | None = None):
        if features.ndim != 2:
            raise ValueError(
                f"dense features must be (n, d), got shape {tuple(features.shape)}: flatten each state first"
            )
        self.features = features
        self._dtype = dtype or features.dtype

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
        return product(self.features, weights.T, self._dtype)

    def pullback(self, block: int, coefficients: Tensor) -> Tensor:
        """``sum_n c_nm g_n``. Shapes: coefficients (n, m) -> (m, d)."""
        return product(coefficients.T, self.features, self._dtype)

    def in_precision(self, dtype: torch.dtype) -> "Dense":
        """The same features, multiplied in ``dtype``."""
        return Dense(self.features, dtype)

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

    def readout(self, weights: Tensor, dtype: torch.dtype) -> Tensor:
        """``<w_m, g_n>``, multiplied in ``dtype``. Shapes: weights (m, *shape) -> (n, m)."""
        ...

    def pullback(self, coefficients: Tensor, dtype: torch.dtype) -> Tensor:
        """``sum_n c_nm g_n``, multiplied in ``dtype``. Shapes: coefficients (n, m) -> (m, *shape)."""
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

    def readout(self, weights: Tensor, dtype: torch.dtype) -> Tensor:
        """``<w_m, g_n>``. Shapes: weights (m, *shape) -> (n, m)."""
        return product(self.gradients.flatten(1), weights.flatten(1).T, dtype)

    def pullback(self, coefficients: Tensor, dtype: torch.dtype) -> Tensor:
        """``sum_n c_nm g_n``. Shapes: coefficients (n, m) -> (m, *shape)."""
        return product(coefficients.T, self.gradients.flatten(1), dtype).unflatten(1, self.shape)

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

    def readout(self, weights: Tensor, dtype: torch.dtype) -> Tensor:
        """``e_n' w_m h_n``, a few members at a time. Shapes: weights (m, o, i) -> (n, m)."""
        n, o = self.left.shape
        members = max(1, CACHED_NUMBERS // (n * o))
        column, right = self.left.unsqueeze(2), self.right.to(dtype)
        pieces = []
        for some in weights.split(members):
            hidden = (right @ some.reshape(-1, some.shape[2]).to(dtype).T).to(self.left.dtype)
            pieces.append(torch.bmm(hidden.view(n, -1, o), column).squeeze(2))
        return torch.cat(pieces, dim=1)

    def pullback(self, coefficients: Tensor, dtype: torch.dtype) -> Tensor:
        """``sum_n c_nm e_n h_n'``. Shapes: coefficients (n, m) -> (m, o, i)."""
        scaled = coefficients.T.unsqueeze(1) * self.left.T  # (m, o, n)
        return product(scaled.flatten(0, 1), self.right, dtype).unflatten(0, scaled.shape[:2])

    def moments(self) -> tuple[Tensor, Tensor]:
        """``sum_n e h' / n`` and ``sum_n (e^2) (h^2)' / n``, each (o, i)."""
        n = self.left.shape[0]
        return self.left.T @ self.right / n, self.left.square().T @ self.right.square() / n

    def rows(self) -> Tensor:
        """The outer products written out, (n, o, i)."""
        return self.left.unsqueeze(2) * self.right.unsqueeze(1)


class BlockFeatures:
    """A ``FeatureBatch`` of one block per parameter: block ``k`` has the shape of the ``k``-th parameter."""

    def __init__(self, blocks: Sequence[Block], length: int, dtype: torch.dtype | None = None):
        self.blocks = blocks
        self.length = length
        self._dtype = dtype or self.like.dtype

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
        return self.blocks[block].readout(weights, self._dtype)

    def pullback(self, block: int, coefficients: Tensor) -> Tensor:
        """``sum_n c_nm g_n``. Shapes: coefficients (n, m) -> (m, *shapes[block])."""
        return self.blocks[block].pullback(coefficients, self._dtype)

    def in_precision(self, dtype: torch.dtype) -> "BlockFeatures":
        """The same features, multiplied in ``dtype``."""
        return BlockFeatures(self.blocks, self.length, dtype)

    def moments(self, block: int) -> tuple[Tensor, Tensor]:
        """Mean and mean square of every coordinate of the block, each ``shapes[block]``."""
        return self.blocks[block].moments()

    def dense(self) -> Tensor:
        """All gradients written out, (n, d)."""
        return torch.cat([block.rows().reshape(len(self), math.prod(block.shape)) for block in self.blocks], dim=1)
