"""How actions are drawn from a policy's outputs, and how likely they were: softmax, several of them, or Gaussian."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from optimist.bonuses.actions import Actions, ContinuousActions, DiscreteActions, MultiDiscreteActions
from optimist.bonuses.features import GaussianLoss, Loss, MultiDiscreteLoss

Moments = Callable[[nn.Module, Any], tuple[Tensor, Tensor]]
"""How the means and log deviations of a Gaussian policy are read from a network and observations."""


class Distribution(Protocol):
    """A family of distributions over actions, indexed by a policy's outputs."""

    @property
    def is_discrete(self) -> bool:
        """Whether entropies are at least 0, which those of densities need not be."""
        ...

    @property
    def outputs(self) -> int:
        """How many numbers the policy must give."""
        ...

    def sample(self, outputs: Tensor, *, generator: torch.Generator) -> Tensor:
        """One action per row."""
        ...

    def mode(self, outputs: Tensor) -> Tensor:
        """The most likely action of every row."""
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
    is_discrete = True

    def sample(self, outputs: Tensor, *, generator: torch.Generator) -> Tensor:
        """``argmax_a p_a / e_a`` with exponential ``e``, which is distributed as p. Shapes: (n, A) -> (n,)."""
        exponential = torch.empty(outputs.shape).exponential_(generator=generator).to(outputs)
        return (outputs - exponential.log()).argmax(1)

    def mode(self, outputs: Tensor) -> Tensor:
        """Shapes: (n, A) -> (n,)."""
        return outputs.argmax(1)

    def log_probability(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Shapes: (n, A), (n,) -> (n,)."""
        return outputs.log_softmax(1).gather(1, actions.unsqueeze(1)).squeeze(1)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Shapes: (n, A) -> (n,)."""
        logs = outputs.log_softmax(1)
        return -(logs.exp() * logs).sum(1)


@dataclass(frozen=True)
class MultiSoftmax:
    """k independent choices of ``sizes[0] .. sizes[k-1]`` actions: the logits of one softmax each, side by side."""

    sizes: tuple[int, ...]
    is_discrete = True

    @property
    def outputs(self) -> int:
        """The logits of all choices."""
        return sum(self.sizes)

    def sample(self, outputs: Tensor, *, generator: torch.Generator) -> Tensor:
        """Shapes: (n, sum A_j) -> (n, k)."""
        return torch.stack([one.sample(logits, generator=generator) for one, logits in self._choices(outputs)], dim=1)

    def mode(self, outputs: Tensor) -> Tensor:
        """Shapes: (n, sum A_j) -> (n, k)."""
        return torch.stack([one.mode(logits) for one, logits in self._choices(outputs)], dim=1)

    def log_probability(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """``sum_j log p_j(a_j)``. Shapes: (n, sum A_j), (n, k) -> (n,)."""
        choices = zip(self._choices(outputs), actions.unbind(1), strict=True)
        return torch.stack([one.log_probability(logits, chosen) for (one, logits), chosen in choices]).sum(0)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Shapes: (n, sum A_j) -> (n,)."""
        return torch.stack([one.entropy(logits) for one, logits in self._choices(outputs)]).sum(0)

    def _choices(self, outputs: Tensor) -> list[tuple[Softmax, Tensor]]:
        return [(Softmax(logits.shape[1]), logits) for logits in outputs.split(self.sizes, dim=1)]


@dataclass(frozen=True)
class Gaussian:
    """``size`` real numbers, independent: the outputs are means and log standard deviations, side by side.

    One unit of an action is half the range of a bounded space, and 0 its middle: see `ActionWriter`.
    """

    size: int
    is_discrete = False

    @property
    def outputs(self) -> int:
        """Means and log deviations."""
        return 2 * self.size

    def sample(self, outputs: Tensor, *, generator: torch.Generator) -> Tensor:
        """Shapes: (n, 2 size) -> (n, size)."""
        mean, log_deviation = outputs.chunk(2, dim=1)
        return mean + log_deviation.exp() * torch.randn(mean.shape, generator=generator).to(mean)

    def mode(self, outputs: Tensor) -> Tensor:
        """Shapes: (n, 2 size) -> (n, size)."""
        return outputs.chunk(2, dim=1)[0]

    def log_probability(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Shapes: (n, 2 size), (n, size) -> (n,)."""
        mean, log_deviation = outputs.chunk(2, dim=1)
        z = (actions - mean) / log_deviation.exp()
        return -(0.5 * z.square() + log_deviation + 0.5 * math.log(2 * math.pi)).sum(1)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Shapes: (n, 2 size) -> (n,)."""
        return (outputs.chunk(2, dim=1)[1] + 0.5 * math.log(2 * math.pi * math.e)).sum(1)


@dataclass(frozen=True)
class Greedy:
    """The most likely action instead of a drawn one."""

    family: Distribution

    @property
    def outputs(self) -> int:
        """How many numbers the policy must give."""
        return self.family.outputs

    @property
    def is_discrete(self) -> bool:
        """As the family."""
        return self.family.is_discrete

    def sample(self, outputs: Tensor, *, generator: torch.Generator) -> Tensor:
        """The mode."""
        return self.family.mode(outputs)

    def mode(self, outputs: Tensor) -> Tensor:
        """Of the family."""
        return self.family.mode(outputs)

    def log_probability(self, outputs: Tensor, actions: Tensor) -> Tensor:
        """Of the family."""
        return self.family.log_probability(outputs, actions)

    def entropy(self, outputs: Tensor) -> Tensor:
        """Of the family."""
        return self.family.entropy(outputs)


def distribution_of(actions: Actions) -> Distribution:
    """The distribution over ``actions``."""
    match actions:
        case DiscreteActions(n=n):
            return Softmax(n)
        case MultiDiscreteActions(sizes=sizes):
            return MultiSoftmax(sizes)
        case ContinuousActions(size=size):
            return Gaussian(size)
    raise ValueError(f"actions must be discrete, multi-discrete or continuous, got {actions}: wrap the environment")


def side_by_side(network: nn.Module, observations: Any) -> tuple[Tensor, Tensor]:
    """The means and log deviations of a policy that gives both as one output, (n, size) each."""
    mean, log_deviation = network(observations).chunk(2, dim=1)
    return mean, log_deviation


def feature_loss(actions: Actions | None, moments: Moments = side_by_side) -> Loss | None:
    """The loss by which ACB differentiates a policy over ``actions``; None: one discrete action, the log-loss.

    ``moments`` reads the means and log deviations of a Gaussian policy from the network.
    """
    match actions:
        case MultiDiscreteActions(sizes=sizes):
            return MultiDiscreteLoss(sizes)
        case ContinuousActions():
            return GaussianLoss(moments)
    return None
