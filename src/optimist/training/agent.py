"""The agent: a trunk that reads observations, an actor, and a critic with an extrinsic and an intrinsic head."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from optimist.bonuses.learned.networks import linear
from optimist.training.config import Activation, TrunkName
from optimist.training.trunks import ArrayShape, AtariTrunk, Trunk, make_trunk

ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "leaky-relu": nn.LeakyReLU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
}


class Policy(nn.Module):
    """Trunk and actor: what ACB differentiates. Shapes: (n, ...) -> (n, outputs), as `distributions` reads them."""

    def __init__(self, trunk: Trunk, actor: nn.Sequential):
        super().__init__()
        self.trunk = trunk
        self.actor = actor

    def forward(self, observations: Tensor) -> Tensor:
        """Logits of discrete actions; means and log deviations of continuous ones."""
        return self.actor(self.trunk(observations))


class Agent(nn.Module):
    """Policy and critic on one trunk. Heads: value 0 is extrinsic, value 1 intrinsic.

    The critic is ``x + act(linear(x))`` and two linear heads; actor and heads have gain 0.01. The heads give values in
    units of ``value_deviation`` around ``value_mean``, which `rescale_values` moves without moving any value.
    Paper: RND's network, as Appendix A.2 takes it over; van Hasselt et al. 2016 (PopArt) for the units.
    """

    value_mean: Tensor
    value_deviation: Tensor

    def __init__(self, policy: Policy, activation: Callable[[], nn.Module], *, generator: torch.Generator):
        super().__init__()
        self.policy = policy
        width = policy.trunk.width
        self.critic = nn.Sequential(linear(width, width, generator=generator), activation())
        self.values = linear(width, 2, generator=generator, gain=0.01)
        self.register_buffer("value_mean", torch.zeros(2))
        self.register_buffer("value_deviation", torch.ones(2))

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's outputs and both values. Shapes: (n, ...) -> (n, outputs), (n, 2)."""
        x = self.policy.trunk(observations)
        heads = self.values(x + self.critic(x))
        return self.policy.actor(x), torch.addcmul(self.value_mean, heads, self.value_deviation)

    @torch.no_grad()
    def rescale_values(self, mean: Tensor, deviation: Tensor) -> None:
        """Change the units of the heads, and the heads themselves so that every value stays what it was."""
        ratio = self.value_deviation / deviation
        self.values.weight.mul_(ratio.unsqueeze(1))
        self.values.bias.copy_((self.values.bias * self.value_deviation + self.value_mean - mean) / deviation)
        self.value_mean.copy_(mean)
        self.value_deviation.copy_(deviation)


def make_agent(
    shape: ArrayShape,
    outputs: int,
    *,
    network: TrunkName,
    activation: Activation,
    width: int,
    generator: torch.Generator,
) -> Agent:
    """An agent for observations of ``shape`` whose actor has ``outputs`` numbers, drawn from ``generator`` alone."""
    act = ACTIVATIONS[activation]
    trunk = make_trunk(network, shape, act, width, generator=generator)
    layers = []
    if isinstance(trunk, AtariTrunk):  # RND's actor has a hidden layer of its own
        layers = [linear(trunk.width, trunk.width, generator=generator, gain=0.01), act()]
    actor = nn.Sequential(*layers, linear(trunk.width, outputs, generator=generator, gain=0.01))
    return Agent(Policy(trunk, actor), act, generator=generator)


def chosen_device(name: str) -> torch.device:
    """The device called ``name``, auto being the fastest there is, or an error that says what to write."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(1, device=device).tolist()  # the device "meta" computes nothing
    except (RuntimeError, AssertionError, NotImplementedError) as problem:
        reason = str(problem).partition("\n")[0]
        raise ValueError(f"the device {name!r} cannot be used here: {reason}. Choose auto, cpu, cuda or mps") from None
    return device
