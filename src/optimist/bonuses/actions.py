"""Actions as an inverse-dynamics model reads and predicts them: discrete, multi-discrete and continuous."""

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Actions(Protocol):
    """What kind of actions there are: how they are written as numbers, and how wrong a prediction of them is."""

    @property
    def width(self) -> int:
        """How many numbers an action is written as, and how many a model must predict."""
        ...

    def rows_of(self, actions: Tensor) -> Tensor:
        """A rollout's actions, checked, one row per transition. Shapes: (T, N) or (T, N, k) -> (T N, ...)."""
        ...

    def encode(self, actions: Tensor) -> Tensor:
        """Rows of numbers. Shapes: (n,) or (n, k) -> (n, width)."""
        ...

    def loss(self, prediction: Tensor, actions: Tensor) -> Tensor:
        """How badly ``prediction`` (n, width) explains ``actions``, (n,)."""
        ...


@dataclass(frozen=True)
class DiscreteActions:
    """One of ``n`` actions: one-hot, predicted as logits, cross-entropy."""

    n: int

    def __post_init__(self) -> None:
        _require_sizes((self.n,))

    @property
    def width(self) -> int:
        """One logit per action."""
        return self.n

    def rows_of(self, actions: Tensor) -> Tensor:
        """Integers 0 .. n - 1. Shapes: (T, N) -> (T N,)."""
        _require_shape(actions, ())
        return _require_integers(actions.flatten(0, 1), torch.tensor(self.n))

    def encode(self, actions: Tensor) -> Tensor:
        """One-hot. Shapes: (n,) -> (n, width)."""
        return functional.one_hot(actions, self.n).float()

    def loss(self, prediction: Tensor, actions: Tensor) -> Tensor:
        """``-log p(a)``. Shapes: (n, width), (n,) -> (n,)."""
        return functional.cross_entropy(prediction, actions, reduction="none")


@dataclass(frozen=True)
class MultiDiscreteActions:
    """k independent choices of ``sizes[0] .. sizes[k-1]`` actions: one-hot each, the cross-entropies added."""

    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        _require_sizes(self.sizes)

    @property
    def width(self) -> int:
        """The logits of all choices."""
        return sum(self.sizes)

    def rows_of(self, actions: Tensor) -> Tensor:
        """Integers below their own size. Shapes: (T, N, k) -> (T N, k)."""
        _require_shape(actions, (len(self.sizes),))
        return _require_integers(actions.flatten(0, 1), torch.tensor(self.sizes))

    def encode(self, actions: Tensor) -> Tensor:
        """One-hot of each choice, side by side. Shapes: (n, k) -> (n, width)."""
        return torch.cat([functional.one_hot(actions[:, j], size).float() for j, size in enumerate(self.sizes)], dim=1)

    def loss(self, prediction: Tensor, actions: Tensor) -> Tensor:
        """``-sum_j log p_j(a_j)``. Shapes: (n, width), (n, k) -> (n,)."""
        heads = prediction.split(list(self.sizes), dim=1)
        losses = [functional.cross_entropy(head, actions[:, j], reduction="none") for j, head in enumerate(heads)]
        return torch.stack(losses).sum(0)


@dataclass(frozen=True)
class ContinuousActions:
    """``size`` real numbers: as they are, mean squared error."""

    size: int

    def __post_init__(self) -> None:
        _require_sizes((self.size,))

    @property
    def width(self) -> int:
        """One number per dimension."""
        return self.size

    def rows_of(self, actions: Tensor) -> Tensor:
        """Float rows. Shapes: (T, N, size) -> (T N, size)."""
        _require_shape(actions, (self.size,))
        return actions.flatten(0, 1).float()

    def encode(self, actions: Tensor) -> Tensor:
        """The actions themselves. Shapes: (n, size) -> (n, size)."""
        return actions

    def loss(self, prediction: Tensor, actions: Tensor) -> Tensor:
        """``mean_j (prediction_j - a_j)^2``. Shapes: (n, size), (n, size) -> (n,)."""
        return (prediction - actions).square().mean(1)


def _require_sizes(sizes: tuple[int, ...]) -> None:
    if not sizes or min(sizes) < 1:
        raise ValueError(f"actions must have at least one choice each, got {sizes}")


def _require_shape(actions: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(actions.shape[2:]) != shape:
        raise ValueError(
            f"actions must have shape (T, N{''.join(f', {s}' for s in shape)}), got {tuple(actions.shape)}: "
            "they must match the actions that the bonus was built for"
        )


def _require_integers(actions: Tensor, sizes: Tensor) -> Tensor:
    if actions.is_floating_point():
        raise ValueError(
            f"discrete actions must be integers, got dtype {actions.dtype}: pass indices, not one-hot rows"
        )
    actions = actions.to(torch.int64)
    if bool(((actions < 0) | (actions >= sizes)).any()):
        raise ValueError(
            f"actions must lie below {sizes.tolist()} and not below 0, "
            f"got {int(actions.min())} .. {int(actions.max())}: give the true number of actions"
        )
    return actions
