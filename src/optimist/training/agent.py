"""The agent: a trunk that reads observations, an actor, and a critic with an extrinsic and an intrinsic head."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from optimist.bonuses.learned.networks import CONVOLUTIONS, convolution, linear
from optimist.bonuses.observations import SMALLEST_IMAGE, Discrete, ObservationShape
from optimist.training.config import Activation, NetworkName

ACTIVATIONS: dict[Activation, Callable[[], nn.Module]] = {
    "leaky-relu": nn.LeakyReLU,
    "relu": nn.ReLU,
    "tanh": nn.Tanh,
}
GRID_CODES = 11
"""MiniGrid's cells hold codes 0 .. 10 (kind), 0 .. 5 (color), 0 .. 3 (state)."""


class AtariTrunk(nn.Module):
    """Convolutions 32 8x8/4, 64 4x4/2, 64 3x3/1, then 256 and 448 units.

    Shapes: (n, C, H, W), 0 .. 255 -> (n, 448).
    Paper: Appendix A.2, "three convolutional layers followed by two linear layers"; the sizes are RND's.
    """

    width = 448

    def __init__(self, shape: tuple[int, ...], activation: Callable[[], nn.Module], *, generator: torch.Generator):
        super().__init__()
        channels, height, width = shape
        layers: list[nn.Module] = []
        for outputs, kernel, stride in CONVOLUTIONS:
            layers += [convolution(channels, outputs, kernel, stride, generator=generator), activation()]
            channels, height, width = outputs, (height - kernel) // stride + 1, (width - kernel) // stride + 1
        layers += [nn.Flatten(), linear(channels * height * width, 256, generator=generator), activation()]
        layers += [linear(256, self.width, generator=generator), activation()]
        self.layers = nn.Sequential(*layers)

    def forward(self, observations: Tensor) -> Tensor:
        """Features of frames."""
        return self.layers(observations.float() * (1 / 255))


class GridTrunk(nn.Module):
    """A grid of small integer codes, one-hot, through convolutions 16 2x2 and 32 2x2 and one linear layer.

    Shapes: (n, C, H, W), codes 0 .. 10 -> (n, width). A code above 10 is read as no code at all.
    Ours: a code is a name, so it is not read as a number.
    """

    codes: Tensor

    def __init__(
        self, shape: tuple[int, ...], width: int, activation: Callable[[], nn.Module], *, generator: torch.Generator
    ):
        super().__init__()
        self.width = width
        channels, rows, columns = shape
        self.register_buffer("codes", torch.arange(GRID_CODES, dtype=torch.uint8).view(-1, 1, 1), persistent=False)
        self.layers = nn.Sequential(
            convolution(channels * GRID_CODES, 16, 2, 1, generator=generator),
            activation(),
            convolution(16, 32, 2, 1, generator=generator),
            activation(),
            nn.Flatten(),
            linear(32 * (rows - 2) * (columns - 2), width, generator=generator),
            activation(),
        )

    def forward(self, observations: Tensor) -> Tensor:
        """Features of grids."""
        one_hot = observations.to(torch.uint8).unsqueeze(2) == self.codes  # (n, C, codes, H, W)
        return self.layers(one_hot.flatten(1, 2).float())


class MLPTrunk(nn.Module):
    """Two hidden layers on a vector, or on the one-hot vector of a discrete state. Shapes: (n, ...) -> (n, width)."""

    def __init__(
        self, shape: ObservationShape, width: int, activation: Callable[[], nn.Module], *, generator: torch.Generator
    ):
        super().__init__()
        self.width = width
        self.states = shape.n if isinstance(shape, Discrete) else 0
        inputs = self.states or torch.Size(shape).numel()  # pyrefly: ignore
        self.layers = nn.Sequential(
            linear(inputs, width, generator=generator),
            activation(),
            linear(width, width, generator=generator),
            activation(),
        )

    def forward(self, observations: Tensor) -> Tensor:
        """Features of vectors or states."""
        if self.states:
            x = nn.functional.one_hot(observations.to(torch.int64), self.states).float()
        else:
            x = observations.flatten(1).float()
        return self.layers(x)


class Policy(nn.Module):
    """Trunk and actor: what ACB differentiates. Shapes: (n, ...) -> (n, outputs), as `distributions` reads them."""

    def __init__(self, trunk: AtariTrunk | GridTrunk | MLPTrunk, actor: nn.Sequential):
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
    shape: ObservationShape,
    outputs: int,
    *,
    network: NetworkName,
    activation: Activation,
    width: int,
    generator: torch.Generator,
) -> Agent:
    """An agent for observations of ``shape`` whose actor has ``outputs`` numbers, drawn from ``generator`` alone."""
    act = ACTIVATIONS[activation]
    chosen = chosen_network(shape) if network == "auto" else network
    if chosen != "mlp" and (isinstance(shape, Discrete) or len(shape) != 3):
        raise ValueError(f"network {chosen!r} reads images (C, H, W), got observations {shape}: use --network mlp")
    match chosen:
        case "atari":
            trunk = AtariTrunk(shape, act, generator=generator)  # pyrefly: ignore
            layers = [linear(trunk.width, trunk.width, generator=generator, gain=0.01), act()]
        case "grid":
            trunk, layers = GridTrunk(shape, width, act, generator=generator), []  # pyrefly: ignore
        case _:
            trunk, layers = MLPTrunk(shape, width, act, generator=generator), []
    actor = nn.Sequential(*layers, linear(trunk.width, outputs, generator=generator, gain=0.01))
    return Agent(Policy(trunk, actor), act, generator=generator)


def chosen_network(shape: ObservationShape) -> NetworkName:
    """The trunk that fits observations of ``shape``: images, small images of codes, everything else."""
    if isinstance(shape, Discrete) or len(shape) != 3:
        return "mlp"
    return "atari" if min(shape[1:]) >= SMALLEST_IMAGE else "grid"  # pyrefly: ignore


def chosen_device(name: str) -> torch.device:
    """The device called ``name``, or an error that says what to write.

    ``auto`` is an accelerator that can compute what a run computes, else, with a warning if there is one that cannot,
    the CPU.
    """
    if name != "auto":
        return _require_usable(name)
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    for accelerator in [name for name, is_there in there.items() if is_there]:
        try:
            return _require_usable(accelerator)
        except ValueError as problem:
            warnings.warn(f"training on the CPU instead: {problem}", stacklevel=2)
    return torch.device("cpu")


def _require_usable(name: str) -> torch.device:
    """The device called ``name``, after a step of Adam and a number in double precision there."""
    try:
        device = torch.device(name)
        weight = nn.Parameter(torch.ones(2, 2, device=device))
        with torch.enable_grad():
            (weight @ weight).sum().backward()
        torch.optim.Adam([weight], fused=True).step()
        torch.ones(1, device=device, dtype=torch.float64).tolist()  # the device "meta" computes nothing
        return device
    except (RuntimeError, AssertionError, NotImplementedError, TypeError) as problem:
        reason = str(problem).partition("\n")[0]
        raise ValueError(f"the device {name!r} cannot be used here: {reason}. Choose auto, cpu, cuda or mps") from None
