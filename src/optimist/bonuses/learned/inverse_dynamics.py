"""Features that know what the agent controls: an encoder from which the action between two states can be told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.actions import Actions
from optimist.bonuses.checkpointing import seeded_generator, unchanged_on_error
from optimist.bonuses.learned.networks import Encoder, linear
from optimist.bonuses.learned.trainer import NetworkTrainer, minibatches
from optimist.bonuses.learned.whitened import CHUNK, WhitenedObservations
from optimist.bonuses.observations import Channels, Observations, ObservationShape, Part, chunks
from optimist.bonuses.protocol import shown
from optimist.bonuses.transitions import Transitions, from_valid_steps, read_on_cpu
from optimist.checks import require_counts, require_positive_fields
from optimist.ranks import ALONE, Ranks, SharedRows


class InverseModel(nn.Module):
    """The encoder ``phi`` and the head that predicts the action between ``phi(s)`` and ``phi(s')``.

    Paper: ICM (Pathak et al. 2017), section 2.2: two layers, the hidden one as wide as the features.
    """

    def __init__(self, parts: Mapping[str, Part], actions: Actions, n_features: int, *, generator: torch.Generator):
        super().__init__()
        self.encoder = Encoder(parts, n_features, generator=generator)
        self.head = nn.Sequential(
            linear(2 * n_features, n_features, generator=generator),
            nn.ReLU(),
            linear(n_features, actions.width, generator=generator),
        )

    def forward(self, before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """``phi(s)``, ``phi(s')`` and the predicted action. Shapes: (n, n_features) twice, (n, actions.width)."""
        phi, next_phi = self.encoder(before), self.encoder(after)
        return phi, next_phi, self.head(torch.cat([phi, next_phi], dim=1))


@dataclass(frozen=True)
class InverseDynamicsConfig:
    """Every default of the inverse-dynamics embedding that E3B uses."""

    n_features: int = 128
    """The embedding's size d; ours: E3B keeps a d x d matrix per environment, its own code has up to 1024."""
    learning_rate: float = 1e-4
    """Adam's step size: E3B's code, and the ACB paper's appendix for every model."""
    epochs: int = 3
    """Passes over a rollout, as ICM; E3B itself makes one step per actor batch."""
    minibatches: int = 8
    """Parts of a rollout in an epoch, as ICM."""
    clip: float = 5.0
    """Whitened observations are clipped to +-5, as RND."""
    channels: Channels = "all"
    """Channels of an image that are read: all, so that the encoder sees motion."""

    def __post_init__(self) -> None:
        require_counts(self, "n_features", "epochs", "minibatches")
        require_positive_fields(self, "learning_rate", "clip")


class InverseDynamics:
    """An embedding ``phi`` trained only to tell the action from a state and the next one.

    Paper: E3B (Henaff et al. 2022), section 3.2.
    """

    needs_warm_up = True

    def __init__(
        self,
        observation_shape: ObservationShape,
        actions: Actions,
        *,
        seed: int = 0,
        config: InverseDynamicsConfig | None = None,
        ranks: Ranks = ALONE,
    ):
        self.ranks = ranks
        self.config = config or InverseDynamicsConfig()
        self._actions = actions
        self._generator = seeded_generator(seed, "inverse dynamics")
        self._observations = WhitenedObservations(
            observation_shape, channels=self.config.channels, clip=self.config.clip, ranks=ranks
        )
        self._model = InverseModel(self._observations.parts, actions, self.config.n_features, generator=self._generator)
        self._trainer = NetworkTrainer(
            {"model": self._model},
            self._observations,
            learning_rate=self.config.learning_rate,
            generator=self._generator,
            ranks=ranks,
        )

    @property
    def size(self) -> int:
        """d, the length of an embedding."""
        return self.config.n_features

    def embed(self, observations: Observations) -> Tensor:
        """``phi`` of every observation. Shapes: (T, N, ...) -> (T N, d)."""
        return embedded(self._model.encoder, self._observations, observations)

    def require(self, transitions: Transitions) -> None:
        """An error if ``update`` could not learn from ``transitions``."""
        self._actions.rows_of(transitions.actions)
        self._observations.rows(transitions.observations)
        self._observations.rows(transitions.next_observations)

    @read_on_cpu
    @from_valid_steps
    def update(self, transitions: Transitions, rows: SharedRows) -> dict[str, float]:
        """Move the whitening statistics once, then train; returns the mean loss of telling the action."""
        actions = self._actions.rows_of(transitions.actions)
        before = self._observations.rows(transitions.observations)
        after = self._observations.rows(transitions.next_observations)

        def losses(own: Tensor) -> dict[str, Tensor]:
            *_, prediction = self._model(self._observations.read(before, own), self._observations.read(after, own))
            return {"inverse_loss": self._actions.loss(prediction, actions[own])}

        batches = minibatches(
            rows.total, epochs=self.config.epochs, count=self.config.minibatches, generator=self._generator
        )
        with unchanged_on_error(self._trainer):
            self._observations.update(after)
            metrics, _ = self._trainer.fit(batches, losses, weights={"inverse_loss": 1.0}, rows=rows)
        return metrics

    @read_on_cpu
    def warm_up(self, transitions: Transitions) -> None:
        """Move the whitening statistics alone, by the next states of random play before training."""
        self._observations.warm_up(transitions)

    def __repr__(self) -> str:
        return shown(self)

    def state_dict(self) -> dict[str, Any]:
        """The networks, Adam's moments, the whitening statistics and the random state."""
        return self._trainer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        self._trainer.load_state_dict(state)


@torch.no_grad()
def embedded(encoder: Encoder, reader: WhitenedObservations, observations: Observations) -> Tensor:
    """The encoder's features of a rollout's observations. Shapes: (T, N, ...) -> (T N, n_features)."""
    rows = reader.rows(observations)
    total = len(next(iter(rows.values())))
    return torch.cat([encoder(reader.read(rows, chunk)) for chunk in chunks(total, CHUNK)])
