"""The setting of the measurements: the paper's network, PPO's four epochs on it, and rollouts of random frames."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from optimist.bonuses import Transitions

ACTIONS = 18
FRAMES = (4, 84, 84)
NUMBERS = (16,)


@dataclass(frozen=True)
class Scale:
    """How large the measurements are."""

    convolutions: tuple[int, int, int]
    """Channels of the three convolutions."""
    hidden: tuple[int, int]
    """Widths of the trunk's two linear layers."""
    ensemble_size: int
    """M."""
    batch: int
    """States that are read or trained on at a time."""
    steps: int
    """T of a rollout."""
    environments: int
    """N of a rollout."""
    repeats: int
    """Rounds that the medians of ratios are taken over."""
    table_repeats: int
    """Rounds that the medians of the table of all bonuses are taken over."""
    threads: int
    """Threads of torch."""


PAPER = Scale((32, 64, 64), (256, 448), 128, 128, 128, 16, repeats=3, table_repeats=2, threads=2)
QUICK = Scale((2, 4, 4), (8, 8), 4, 8, 4, 4, repeats=1, table_repeats=1, threads=1)


class PaperNetwork(nn.Module):
    """FACTS.md section 2: convolutions 8x8/4, 4x4/2, 3x3/1, two linear layers; actor; two value heads."""

    def __init__(self, scale: Scale):
        super().__init__()
        (a, b, c), (first, width) = scale.convolutions, scale.hidden
        one, two, three = nn.Conv2d(4, a, 8, 4), nn.Conv2d(a, b, 4, 2), nn.Conv2d(b, c, 3)
        convolutions = [one, nn.ReLU(), two, nn.ReLU(), three, nn.ReLU(), nn.Flatten()]
        linear = [nn.Linear(49 * c, first), nn.ReLU(), nn.Linear(first, width), nn.ReLU()]
        self.trunk = nn.Sequential(*convolutions, *linear)
        self.actor = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, ACTIONS))
        self.value = nn.Sequential(nn.Linear(width, width), nn.ReLU())
        self.heads = nn.Linear(width, 2)
        for layer in [*self.trunk, *self.actor, *self.value, self.heads]:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                final = layer in [*self.actor, self.heads]
                nn.init.orthogonal_(layer.weight, 0.01 if final else 2**0.5)
                nn.init.zeros_(layer.bias)

    def forward(self, frames: Tensor) -> Tensor:
        """The logits. Shapes: (n, 4, 84, 84) bytes -> (n, ACTIONS)."""
        return self.actor(self.trunk(frames.float() / 255))

    def actor_parameters(self) -> list[nn.Parameter]:
        """Those that move the logits: trunk and actor, d of them together."""
        return [*self.trunk.parameters(), *self.actor.parameters()]

    def logits_and_values(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        """What PPO reads. Shapes: (n, 4, 84, 84) bytes -> (n, ACTIONS), (n, 2)."""
        x = self.trunk(frames.float() / 255)
        return self.actor(x), self.heads(x + self.value(x))


def vector_network() -> nn.Module:
    """A policy on vectors of 16: two hidden layers of 256."""
    hidden = [nn.Linear(*NUMBERS, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
    return nn.Sequential(*hidden, nn.Linear(256, ACTIONS))


class PPO:
    """PPO's learning on one rollout, four epochs of four minibatches: FACTS.md section 2, without the environments."""

    def __init__(self, network: PaperNetwork):
        self.network = network
        self.optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)
        self.generator = torch.Generator().manual_seed(0)

    def learn(self, frames: Tensor) -> None:
        """Forward, backward and Adam over all frames, four times. Shapes: frames (n, 4, 84, 84)."""
        n = len(frames)
        actions = torch.randint(ACTIONS, (n,), generator=self.generator)
        old = torch.full((n,), -2.9)
        advantages, returns = torch.randn(n, generator=self.generator), torch.randn(n, 2, generator=self.generator)
        for _ in range(4):
            for rows in torch.randperm(n, generator=self.generator).chunk(4):
                logits, values = self.network.logits_and_values(frames[rows])
                every = F.log_softmax(logits, 1)
                ratio = (every.gather(1, actions[rows, None]).squeeze(1) - old[rows]).exp()
                surrogate = torch.minimum(ratio * advantages[rows], ratio.clamp(0.9, 1.1) * advantages[rows])
                entropy = -(every.exp() * every).sum(1)
                errors = 0.5 * (values - returns[rows]).square().sum(1)
                self.optimizer.zero_grad()
                (errors - surrogate - 0.001 * entropy).mean().backward()
                self.optimizer.step()


def rollout(shape: Sequence[int], steps: int, environments: int, seed: int) -> Transitions:
    """Random transitions, bytes for images and normal numbers for vectors; an episode ends every 64 steps or so."""
    generator = torch.Generator().manual_seed(seed)
    leading = (steps, environments)

    def draw() -> Tensor:
        if len(shape) == 3:
            return torch.randint(256, (*leading, *shape), generator=generator, dtype=torch.uint8)
        return torch.randn(*leading, *shape, generator=generator)

    actions = torch.randint(ACTIONS, leading, generator=generator)
    terminated = torch.rand(leading, generator=generator) < 1 / 64
    return Transitions(draw(), actions, draw(), terminated, torch.zeros(leading, dtype=torch.bool))
