"""Features that know what the agent controls: an encoder from which the action between two states can be told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.actions import Actions
from optimist.bonuses.networks import Encoder, linear, minibatches
from optimist.bonuses.observations import Channels, ObservationShape, Part, chunks
from optimist.bonuses.protocol import Observations, Transitions
from optimist.bonuses.state import (
    load_optimizer_state,
    module_state,
    optimizer_state,
    require_same_layout,
    seeded_generator,
)
from optimist.bonuses.whitened import CHUNK, WhitenedObservations


class InverseModel(nn.Module):
    """The encoder ``phi`` and the head that predicts the action between ``phi(s)`` and ``phi(s')``.

    Paper: ICM (Pathak et al. 2017), section 2.2: two layers, the hidden one as wide as the features.
    """

    def __init__(self, parts: Mapping[str, Part], actions: Actions, features: int, *, generator: torch.Generator):
        super().__init__()
        self.encoder = Encoder(parts, features, generator=generator)
        self.head = nn.Sequential(
            linear(2 * features, features, generator=generator),
            nn.ReLU(),
            linear(features, actions.width, generator=generator),
        )

    def forward(self, before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """``phi(s)``, ``phi(s')`` and the predicted action. Shapes: (n, features) twice, (n, actions.width)."""
        phi, successor = self.encoder(before), self.encoder(after)
        return phi, successor, self.head(torch.cat([phi, successor], dim=1))


@dataclass(frozen=True)
class InverseDynamicsConfig:
    """Every default of the inverse-dynamics embedding that E3B uses."""

    features: int = 128
    """The embedding's size d; ours: E3B keeps a d x d matrix an environment, its own code has up to 1024."""
    learning_rate: float = 1e-4
    """Adam's step size: E3B's code, and the ACB paper's appendix for every model."""
    epochs: int = 3
    """Passes over a rollout, as ICM; E3B itself makes one step an actor batch."""
    minibatches: int = 8
    """Parts of a rollout in an epoch, as ICM."""
    clip: float = 5.0
    """Whitened observations are clipped to +-5, as RND."""
    channels: Channels = "all"
    """Channels of an image that are read: all, so that the encoder sees motion."""

    def __post_init__(self) -> None:
        if min(self.features, self.epochs, self.minibatches) < 1 or not self.learning_rate > 0:
            raise ValueError("features, epochs and minibatches must be >= 1 and learning_rate > 0")


class InverseDynamics:
    """An embedding ``phi`` trained only to tell the action from a state and its successor.

    Paper: E3B (Henaff et al. 2022), section 3.2.
    """

    def __init__(
        self,
        observation_shape: ObservationShape,
        actions: Actions,
        *,
        seed: int,
        config: InverseDynamicsConfig | None = None,
    ):
        self.config = config or InverseDynamicsConfig()
        self._actions = actions
        self._generator = seeded_generator(seed, "inverse dynamics")
        self._observations = WhitenedObservations(
            observation_shape, channels=self.config.channels, clip=self.config.clip
        )
        self._model = InverseModel(self._observations.parts, actions, self.config.features, generator=self._generator)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=self.config.learning_rate)

    @property
    def size(self) -> int:
        """d, the length of an embedding."""
        return self.config.features

    def embed(self, observations: Observations) -> Tensor:
        """``phi`` of every observation. Shapes: (T, N, ...) -> (T N, d)."""
        return embedded(self._model.encoder, self._observations, observations)

    def require(self, transitions: Transitions) -> None:
        """An error if ``update`` could not learn from ``transitions``."""
        self._actions.rows_of(transitions.actions)
        self._observations.rows(transitions.observations)
        self._observations.rows(transitions.next_observations)

    @torch.enable_grad()
    def update(self, transitions: Transitions) -> dict[str, float]:
        """Move the whitening statistics once, then train; returns the mean loss of telling the action."""
        actions = self._actions.rows_of(transitions.actions)
        before = self._observations.rows(transitions.observations)
        after = self._observations.rows(transitions.next_observations)
        self._observations.update(after)
        loss_sum, trained = 0.0, 0
        for batch in minibatches(
            len(actions), epochs=self.config.epochs, count=self.config.minibatches, generator=self._generator
        ):
            *_, prediction = self._model(self._observations.read(before, batch), self._observations.read(after, batch))
            loss = self._actions.loss(prediction, actions[batch]).mean()
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
            loss_sum, trained = loss_sum + loss.item() * len(batch), trained + len(batch)
        self._optimizer.zero_grad()
        return {"inverse_loss": loss_sum / trained}

    def state_dict(self) -> dict[str, Any]:
        """The networks, Adam's moments, the whitening statistics and the random state."""
        return {
            "model": module_state(self._model),
            "optimizer": optimizer_state(self._optimizer),
            "observations": self._observations.state_dict(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        require_same_layout(state, self.state_dict())
        self._model.load_state_dict(state["model"])
        load_optimizer_state(self._optimizer, state["optimizer"])
        self._observations.load_state_dict(state["observations"])
        self._generator.set_state(state["generator"])


@torch.no_grad()
def embedded(encoder: Encoder, reader: WhitenedObservations, observations: Observations) -> Tensor:
    """The encoder's features of a rollout's observations. Shapes: (T, N, ...) -> (T N, features)."""
    rows = reader.rows(observations)
    total = len(next(iter(rows.values())))
    return torch.cat([encoder(reader.read(rows, chunk)) for chunk in chunks(total, CHUNK)])
