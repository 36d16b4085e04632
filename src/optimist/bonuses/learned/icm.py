"""The intrinsic curiosity module: how badly the next state's features are predicted (Pathak et al. 2017)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.actions import Actions
from optimist.bonuses.checkpointing import seeded_generator, unchanged_on_error
from optimist.bonuses.learned.inverse_dynamics import InverseModel, embedded
from optimist.bonuses.learned.networks import linear
from optimist.bonuses.learned.trainer import NetworkTrainer, minibatches
from optimist.bonuses.learned.whitened import CHUNK, WhitenedObservations
from optimist.bonuses.observations import Channels, Observations, ObservationShape, chunks
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.transitions import Transitions, at_valid_steps, from_valid_steps, read_on_cpu
from optimist.checks import require_counts, require_fields, require_positive_fields
from optimist.ranks import ALONE, Ranks, SharedRows


@dataclass(frozen=True)
class ICMConfig:
    """Every default of ICM. Source unless said otherwise: ICM as the ACB paper ran it."""

    n_features: int = 512
    """Numbers that a state is encoded as."""
    forward_weight: float = 1.0
    """Weight of the forward loss, 1 : 1 with the inverse one (Pathak et al.: 0.2 to 0.8)."""
    inverse_weight: float = 1.0
    """Weight of the inverse loss."""
    learning_rate: float = 1e-4
    """Adam's step size: the ACB paper's appendix."""
    epochs: int = 3
    """Passes over a rollout: the ACB paper's appendix."""
    minibatches: int = 8
    """Parts of a rollout in an epoch."""
    clip: float = 5.0
    """Whitened observations are clipped to +-5, as in RND."""
    channels: Channels = "all"
    """Channels of an image that are read: all, so that the encoder sees motion."""

    def __post_init__(self) -> None:
        require_counts(self, "n_features", "epochs", "minibatches")
        require_fields(self, "forward_weight", "inverse_weight", least=0)
        require_positive_fields(self, "learning_rate", "clip")


class ICM(Bonus):
    """The bonus ``mean_k (f_k(phi(s), a) - phi_k(s'))^2``: the forward model's error in features of the inverse model.

    The encoder ``phi`` is trained to tell the action from phi(s), phi(s') (inverse loss) and, through phi(s), to make
    the next state predictable (forward loss), of which phi(s') is a constant target.

    Paper: ICM, section 2.
    Deviation: the forward model is two layers as in ICM, without the residual blocks of later code; the mean of squares
    replaces half their sum, a constant which return-scale normalization takes out.
    """

    needs_warm_up = True
    reads_actions = True
    shares_ranks = True

    def __init__(
        self,
        observation_shape: ObservationShape,
        actions: Actions,
        *,
        seed: int = 0,
        config: ICMConfig | None = None,
        ranks: Ranks = ALONE,
    ):
        self.ranks = ranks
        self.config = config or ICMConfig()
        self._actions = actions
        self._generator = seeded_generator(seed, "icm")
        self._observations = WhitenedObservations(
            observation_shape, channels=self.config.channels, clip=self.config.clip, ranks=ranks
        )
        n_features = self.config.n_features
        self._model = InverseModel(self._observations.parts, actions, n_features, generator=self._generator)
        self._forward = nn.Sequential(
            linear(n_features + actions.width, n_features, generator=self._generator),
            nn.LeakyReLU(),
            linear(n_features, n_features, generator=self._generator),
        )
        self._trainer = NetworkTrainer(
            {"model": self._model, "forward": self._forward},
            self._observations,
            learning_rate=self.config.learning_rate,
            generator=self._generator,
            ranks=ranks,
        )

    @read_on_cpu
    @torch.no_grad()
    def compute(self, transitions: Transitions) -> Tensor:
        """The forward model's error at every transition, (T, N); changes nothing."""
        return at_valid_steps(transitions, self._bonuses)

    @read_on_cpu
    @from_valid_steps
    def update(self, transitions: Transitions, rows: SharedRows) -> dict[str, float]:
        """Move the whitening statistics once, then train both models; returns their mean losses."""
        actions, before, after = self._rows(transitions)
        batches = minibatches(
            rows.total, epochs=self.config.epochs, count=self.config.minibatches, generator=self._generator
        )
        with unchanged_on_error(self._trainer):
            self._observations.update(after)
            metrics, _ = self._trainer.fit(
                batches,
                lambda own: self._losses(before, after, actions, own),
                weights={"forward_loss": self.config.forward_weight, "inverse_loss": self.config.inverse_weight},
                rows=rows,
            )
        return metrics

    @read_on_cpu
    def warm_up(self, transitions: Transitions) -> None:
        """Move the whitening statistics alone, by the next states of random play before training."""
        self._observations.warm_up(transitions)

    @property
    def size(self) -> int:
        """The length of an embedding."""
        return self.config.n_features

    def embed(self, observations: Observations) -> Tensor:
        """``phi`` of every observation, for bonuses built on it. Shapes: (T, N, ...) -> (T N, n_features)."""
        return embedded(self._model.encoder, self._observations, observations)

    def require(self, transitions: Transitions) -> None:
        """An error if ``update`` could not learn from ``transitions``."""
        self._rows(transitions)

    def state_dict(self) -> dict[str, Any]:
        """The three networks, Adam's moments, the whitening statistics and the random state."""
        return self._trainer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        self._trainer.load_state_dict(state)

    def _bonuses(self, transitions: Transitions) -> Tensor:
        actions, before, after = self._rows(transitions)
        losses = (self._losses(before, after, actions, chunk) for chunk in chunks(len(actions), CHUNK))
        return torch.cat([loss["forward_loss"] for loss in losses])

    def _rows(self, transitions: Transitions) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        return (
            self._actions.rows_of(transitions.actions),
            self._observations.rows(transitions.observations),
            self._observations.rows(transitions.next_observations),
        )

    def _losses(
        self, before: Mapping[str, Tensor], after: Mapping[str, Tensor], actions: Tensor, index: Tensor | slice
    ) -> dict[str, Tensor]:
        """The forward and the inverse loss of the chosen rows, each (n,)."""
        taken = actions[index]
        phi, next_phi, prediction = self._model(
            self._observations.read(before, index), self._observations.read(after, index)
        )
        predicted = self._forward(torch.cat([phi, self._actions.encode(taken)], dim=1))
        forward_loss = (predicted - next_phi.detach()).square().mean(1)
        return {"forward_loss": forward_loss, "inverse_loss": self._actions.loss(prediction, taken)}
