"""What adapters need to build: the bonus for a host, a random network if it shows no policy, the error without it."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from optimist import bonuses
from optimist.bonuses.actions import Actions
from optimist.bonuses.checkpointing import seeded_generator
from optimist.bonuses.features import Loss
from optimist.bonuses.learned.networks import linear
from optimist.bonuses.observations import Discrete, ObservationShape
from optimist.bonuses.protocol import Bonus, require_bonus
from optimist.training.agent import make_agent
from optimist.training.trunks import SMALLEST_PICTURE, Grid, Trunk

LOGITS = 16
"""Outputs of a random network. Nothing acts by them, so they need not be as many as actions."""
WIDTH = 64
"""Its hidden units."""


class RandomPolicy(nn.Module):
    """A trunk for each key of a Dict observation, side by side, and logits: a fixed feature map for ACB.

    Shapes: {key: (n, ...)} -> (n, 16).
    """

    def __init__(self, trunks: Mapping[str, Trunk], *, generator: torch.Generator):
        super().__init__()
        self.keys = tuple(trunks)
        self.trunks = nn.ModuleList(trunks.values())  # a ModuleDict refuses keys with dots
        self.actor = linear(sum(trunk.width for trunk in trunks.values()), LOGITS, generator=generator, gain=0.01)

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Logits of nothing in particular."""
        return self.actor(
            torch.cat([trunk(observations[key]) for key, trunk in zip(self.keys, self.trunks, strict=True)], dim=1)
        )


def random_policy(shape: ObservationShape, *, seed: int) -> nn.Module:
    """A network for observations of ``shape``, drawn from ``seed`` alone, that ACB may look into."""
    generator = seeded_generator(seed, "random policy")
    if isinstance(shape, Mapping):
        trunks = {key: _policy(part, generator).trunk for key, part in shape.items()}
        return RandomPolicy(trunks, generator=generator)
    return _policy(shape, generator)


def bonus_for(
    bonus: str | Bonus,
    *,
    observation_shape: ObservationShape,
    actions: Actions | None,
    seed: int,
    policy_network: nn.Module | None = None,
    loss: Loss | None = None,
    settings: Mapping[str, Any],
) -> Bonus:
    """The bonus called so, or the ready one that was given. Without ``policy_network`` ACB reads a random one.

    ``loss`` is that of the policy's own actions, if it is not the log-loss of one discrete action.
    """
    if not isinstance(bonus, str):
        if settings:
            raise ValueError(f"settings {sorted(settings)} are of a bonus by name: give the ready one its own")
        return require_bonus(bonus, "a ready bonus")
    if policy_network is None:
        policy_network = random_policy(observation_shape, seed=seed)
    return bonuses.make(
        bonus,
        seed=seed,
        observation_shape=observation_shape,
        actions=actions,
        policy_network=policy_network,
        loss=loss,
        **settings,
    )


def missing_host(host: str, *, extra: str) -> ModuleNotFoundError:
    """An error that names the extra which installs ``host``. Raise it from the ImportError that was caught."""
    return ModuleNotFoundError(f"this adapter needs {host}: pip install 'optimist[{extra}]'", name=host)


def _policy(shape: Any, generator: torch.Generator) -> Any:
    """A policy for one array. An image of fewer than 8 x 8 pixels can only be codes, as MiniGrid's view of 7 x 7."""
    if not isinstance(shape, Discrete) and len(shape) == 3 and 3 <= min(shape[1:]) <= max(shape[1:]) < SMALLEST_PICTURE:
        shape = Grid(tuple(shape))
    return make_agent(shape, LOGITS, network="auto", activation="leaky-relu", width=WIDTH, generator=generator).policy
