"""States that a uniformly random policy visits, and the fresh policy networks whose features describe them."""

import math

import envpool
import numpy as np
import torch
from torch import Tensor, nn

from optimist.seeding import split


def random_play(environment: str, *, steps: int, parallel: int, seed: int) -> tuple[Tensor, int]:
    """The observations of random play and the number of actions. Shapes: images (steps, parallel, C, H, W), uint8.

    Atari with sticky actions of 0.25 and four stacked frames, as RND plays it; of a Dict observation the image is
    taken.
    """
    atari = {"stack_num": 4, "frame_skip": 4, "repeat_action_probability": 0.25}
    options = {} if environment.startswith("MiniGrid") else atari
    environment_seed, action_seed = split(seed, f"fidelity {environment}").generate_state(2)
    played = envpool.make(
        environment, env_type="gymnasium", num_envs=parallel, seed=int(environment_seed % 2**31), **options
    )
    rng = np.random.default_rng(action_seed)
    actions = int(played.action_space.n)
    observations = [played.reset()[0]]
    for _ in range(steps - 1):
        observations.append(played.step(rng.integers(0, actions, parallel).astype(np.int32))[0])
    images = np.stack([o["image"].transpose(0, 3, 1, 2) if isinstance(o, dict) else o for o in observations])
    return torch.from_numpy(images), actions


class AtariPolicy(nn.Module):
    """Trunk and actor of RND's policy network: orthogonal weights, gain sqrt 2, in the actor 0.01; zero biases."""

    def __init__(self, actions: int, *, generator: torch.Generator):
        super().__init__()
        self.convolutions = nn.ModuleList([nn.Conv2d(4, 32, 8, 4), nn.Conv2d(32, 64, 4, 2), nn.Conv2d(64, 64, 3, 1)])
        self.linears = nn.ModuleList([nn.Linear(3136, 256), nn.Linear(256, 448)])
        self.actor = nn.ModuleList([nn.Linear(448, 448), nn.Linear(448, actions)])
        initialise([*self.convolutions, *self.linears], math.sqrt(2), generator)
        initialise(self.actor, 0.01, generator)

    def forward(self, observations: Tensor) -> Tensor:
        """The logits (n, A) of frames (n, 4, 84, 84)."""
        h = observations.float() / 255
        for convolution in self.convolutions:
            h = torch.relu(convolution(h))
        h = h.flatten(1)
        for linear in [*self.linears, self.actor[0]]:
            h = torch.relu(linear(h))
        return self.actor[1](h)


class GridPolicy(nn.Module):
    """Two hidden layers of 64 on a MiniGrid view; initialised like `AtariPolicy`."""

    def __init__(self, actions: int, *, generator: torch.Generator):
        super().__init__()
        self.hidden = nn.ModuleList([nn.Linear(147, 64), nn.Linear(64, 64)])
        self.actor = nn.Linear(64, actions)
        initialise(self.hidden, math.sqrt(2), generator)
        initialise([self.actor], 0.01, generator)

    def forward(self, observations: Tensor) -> Tensor:
        """The logits (n, A) of views (n, 3, 7, 7), whose entries are small codes."""
        h = observations.flatten(1).float() / 10
        for linear in self.hidden:
            h = torch.relu(linear(h))
        return self.actor(h)


def initialise(layers: nn.ModuleList | list[nn.Module], gain: float, generator: torch.Generator) -> None:
    """Orthogonal weights times ``gain``, biases zero."""
    for layer in layers:
        nn.init.orthogonal_(layer.get_parameter("weight"), gain, generator=generator)
        nn.init.zeros_(layer.get_parameter("bias"))


def fresh_policy(environment: str, actions: int, *, generator: torch.Generator) -> nn.Module:
    """An untrained policy network for an environment's images."""
    return (GridPolicy if environment.startswith("MiniGrid") else AtariPolicy)(actions, generator=generator)
