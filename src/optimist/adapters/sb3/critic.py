"""A value of the intrinsic returns for a host that has one value head, and keeps it for its own rewards."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.checkpointing import seeded_generator
from optimist.bonuses.learned.networks import Encoder, linear
from optimist.bonuses.learned.trainer import NetworkTrainer, minibatches
from optimist.bonuses.learned.whitened import WhitenedObservations
from optimist.bonuses.observations import Observations, ObservationShape, chunks, named

CLIP = 5.0  # of whitened observations, as RND's
CHUNK = 1024  # states valued at a time


class IntrinsicCritic:
    """The expected discounted sum of intrinsic rewards from a state on, by a network of its own.

    Observations are whitened by running statistics; the network is the encoder that RND has, and a linear layer. Values
    are in the units of the normalized bonus. ``values`` changes nothing, ``update`` is the only mutation.
    """

    def __init__(self, shape: ObservationShape, *, width: int, learning_rate: float, seed: int):
        generator = seeded_generator(seed, "intrinsic critic")
        self._observations = WhitenedObservations(shape, channels="all", clip=CLIP)
        self._network = nn.Sequential(
            Encoder(self._observations.parts, width, generator=generator),
            nn.LeakyReLU(),
            linear(width, 1, generator=generator, gain=0.01),
        )
        self._generator = generator
        self._trainer = NetworkTrainer(
            {"network": self._network}, self._observations, learning_rate=learning_rate, generator=generator
        )

    @torch.no_grad()
    def values(self, observations: Observations) -> Tensor:
        """The values of a rollout's states. Shapes: (T, N, ...) -> (T, N)."""
        rows = self._observations.rows(observations)
        steps, n_envs = next(iter(named(observations).values())).shape[:2]
        return torch.cat([self._value(rows, chunk) for chunk in chunks(steps * n_envs, CHUNK)]).reshape(steps, n_envs)

    def update(self, observations: Observations, returns: Tensor, *, epochs: int, batch_size: int) -> dict[str, float]:
        """The mean squared error over ``epochs`` passes towards ``returns``. Shapes: (T, N, ...), (T, N)."""
        rows, targets = self._observations.rows(observations), returns.flatten()
        self._observations.update(rows)
        count = -(-len(targets) // batch_size)
        metrics, _ = self._trainer.fit(
            minibatches(len(targets), epochs=epochs, count=count, generator=self._generator),
            lambda chosen: {"critic_loss": (self._value(rows, chosen) - targets[chosen]).square()},
            weights={"critic_loss": 0.5},
        )
        return metrics

    def state_dict(self) -> dict[str, Any]:
        """The network, Adam's moments, the whitening statistics and the random state."""
        return self._trainer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        self._trainer.load_state_dict(state)

    def _value(self, rows: Mapping[str, Tensor], index: Tensor | slice) -> Tensor:
        return self._network(self._observations.read(rows, index)).squeeze(1)
