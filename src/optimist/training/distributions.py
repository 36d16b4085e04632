"""How actions are drawn from a policy's outputs, and how likely they were: softmax or Gaussian."""

import math
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from optimist.bonuses.actions import Actions, ContinuousActions, DiscreteActions


class Distribution(Protocol):
    """A family of distributions over actions, indexed by a policy's outputs."""

    @property
    def outputs(self) -> int:
        """How many numbers the policy must give."""
        ...

    def sample(self, outputs: Tensor, *, generator: torch.Generator) -> Tensor:
        """One action a row."""
        ...

    def log_probability(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """``log p(a)`` of each row's action, (n,)."""
        ...

    def entropy(self, outputs: Tensor) -> Tensor:
        """The entropy of every row's distribution, (n,)."""
        ...


@dataclass(frozen=True)
class Softmax:
    """One of ``outputs`` discrete actions, ``p = softmax(outputs)``."""

    outputs: int

    def sample(self, outputs: Tensor, *, generator: torch.Generator) -> Tensor:
        """``argmax_a p_a / e_a`` with exponential ``e``, which is distributed as p. Shapes: (n, A) -> (n,)."""
        exponential = torch.empty(outputs.shape).exponential_(generator=generator).to(outputs)
        return (outputs - exponential.log()).argmax(1)

    def log_probability(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Shapes: (n, A), (n,) -> (n,)."""
        return outputs.log_softmax(1).gather(1, actions.unsqueeze(1)).squeeze(1)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Shapes: (n, A) -> (n,)."""
        logs = outputs.log_softmax(1)
        return -(logs.exp() * logs).sum(1)


@dataclass(frozen=True)
class Gaussian:
    """``size`` real numbers, independent: the outputs are means and log standard deviations, side by side."""

    size: int

    @property
    def outputs(self) -> int:
        """Means and log deviations."""
        return 2 * self.size

    def sample(self, outputs: Tensor, *, generator: torch.Generator) -> Tensor:
        """Shapes: (n, 2 size) -> (n, size)."""
        mean, log_deviation = outputs.chunk(2, dim=1)
        return mean + log_deviation.exp() * torch.randn(mean.shape, generator=generator).to(mean)

    def log_probability(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Shapes: (n, 2 size), (n, size) -> (n,)."""
        mean, log_deviation = outputs.chunk(2, dim=1)
        z = (actions - mean) / log_deviation.exp()
        return -(0.5 * z.square() + log_deviation + 0.5 * math.log(2 * math.pi)).sum(1)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Shapes: (n, 2 size) -> (n,)."""
        return (outputs.chunk(2, dim=1)[1] + 0.5 * math.log(2 * math.pi * math.e)).sum(1)


def distribution_of(actions: Actions) -> Distribution:
    """The distribution over ``actions``."""
    match actions:
        case DiscreteActions(n=n):
            return Softmax(n)
        case ContinuousActions(size=size):
            return Gaussian(size)
    raise ValueError(f"actions must be discrete or continuous, got {actions}: write them as one discrete choice")


def gaussian_moments(network: nn.Module, observations: Any) -> tuple[Tensor, Tensor]:
    """The means and log deviations that a policy gives, as ACB's loss of a Gaussian policy reads them."""
    mean, log_deviation = network(observations).chunk(2, dim=1)
    return mean, log_deviation
