"""Random network distillation: how badly a trained network predicts a fixed random one (Burda et al. 2018)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.checkpointing import seeded_generator, unchanged_on_error
from optimist.bonuses.distinct import distinct_rows
from optimist.bonuses.learned.networks import Encoder, linear
from optimist.bonuses.learned.trainer import NetworkTrainer, minibatches
from optimist.bonuses.learned.whitened import CHUNK, WhitenedObservations
from optimist.bonuses.observations import Channels, ObservationShape, chunks, count, named
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.transitions import Transitions, at_valid_steps, from_valid_steps, read_on_cpu
from optimist.checks import require_counts, require_positive_fields
from optimist.ranks import ALONE, Ranks, SharedRows


@dataclass(frozen=True)
class RNDConfig:
    """Every default of RND. Source of each: Burda et al. 2018, section 2.4, appendix A, and its code."""

    n_features: int = 512
    """Numbers that the target gives out and the predictor predicts."""
    learning_rate: float = 1e-4
    """Adam's step size."""
    epochs: int = 4
    """Passes over a rollout: the predictor is trained in PPO's own loop of four epochs."""
    minibatches: int = 4
    """Parts of a rollout in an epoch, as in PPO's loop."""
    fraction: float = 0.25
    """Probability with which a state of a minibatch is trained on: a quarter with 128 environments."""
    clip: float = 5.0
    """Whitened observations are clipped to +-5."""
    channels: Channels = "newest"
    """Channels of an image that are read: of the newest frame, the last of a stack."""

    def __post_init__(self) -> None:
        require_counts(self, "n_features", "epochs", "minibatches")
        require_positive_fields(self, "learning_rate", "clip")
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction must lie in (0, 1], got {self.fraction}: it is the share of states trained on")


class RND(Bonus):
    """The bonus ``mean_k (predictor_k(s') - target_k(s'))^2`` of the next state s', whitened; the target is fixed.

    ``observation_shape`` is (C, H, W), a vector's shape, ``Discrete(n)``, or a mapping of a Dict's chosen keys to them.
    Whitening statistics move once per rollout, before the predictor is trained; ``warm_up`` sets them beforehand, as
    RND does with 50 x 128 random steps of every environment.

    Paper: RND, section 2.2 and appendix A.4.
    Deviation: the MLP for vectors and one-hot states is ours, RND has images only.
    """

    needs_warm_up = True
    shares_ranks = True

    def __init__(
        self,
        observation_shape: ObservationShape,
        *,
        seed: int = 0,
        config: RNDConfig | None = None,
        ranks: Ranks = ALONE,
    ):
        self.ranks = ranks
        self.config = config or RNDConfig()
        self._generator = seeded_generator(seed, "rnd")
        self._observations = WhitenedObservations(
            observation_shape, channels=self.config.channels, clip=self.config.clip, ranks=ranks
        )
        parts, n_features = self._observations.parts, self.config.n_features
        self._target = Encoder(parts, n_features, generator=self._generator).requires_grad_(False)
        self._predictor = nn.Sequential(
            Encoder(parts, n_features, generator=self._generator),
            nn.ReLU(),
            linear(n_features, n_features, generator=self._generator),
            nn.ReLU(),
            linear(n_features, n_features, generator=self._generator),
        )
        self._trainer = NetworkTrainer(
            {"target": self._target, "predictor": self._predictor},
            self._observations,
            learning_rate=self.config.learning_rate,
            generator=self._generator,
            ranks=ranks,
        )

    @read_on_cpu
    @torch.no_grad()
    def compute(self, transitions: Transitions) -> Tensor:
        """The prediction error at every next state, (T, N); changes nothing."""
        return at_valid_steps(transitions, self._bonuses)

    @read_on_cpu
    @from_valid_steps
    def update(self, transitions: Transitions, rows: SharedRows) -> dict[str, float]:
        """Move the whitening statistics once, then train the predictor; returns its mean loss and the states used."""
        states = self._observations.rows(transitions.next_observations)
        with unchanged_on_error(self._trainer):
            self._observations.update(states)
            batches = self._thinned(rows.total)
            metrics, trained = self._trainer.fit(
                batches, lambda kept: {"loss": self._errors(states, kept)}, weights={"loss": 1.0}, rows=rows
            )
        return metrics | {"trained": float(trained)}

    @read_on_cpu
    def warm_up(self, transitions: Transitions) -> None:
        """Move the whitening statistics alone, by the next states of random play before training."""
        self._observations.warm_up(transitions)

    def state_dict(self) -> dict[str, Any]:
        """Both networks, Adam's moments, the whitening statistics and the random state."""
        return self._trainer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        self._trainer.load_state_dict(state)

    def _bonuses(self, transitions: Transitions) -> Tensor:
        rows = self._observations.rows(transitions.next_observations)
        distinct = distinct_rows(rows)  # an error is that of a state: equal ones are read once
        read = rows if distinct is None else named(distinct.of(rows))
        errors = torch.cat([self._errors(read, chunk) for chunk in chunks(count(read), CHUNK)])
        return errors if distinct is None else errors[distinct.which]

    def _thinned(self, total: int) -> Iterator[Tensor]:
        """Minibatches of which each state stays with the probability ``fraction``.

        RND masks the loss of the others; leaving them out gives the same gradient at a quarter of the cost.
        """
        for batch in minibatches(
            total, epochs=self.config.epochs, count=self.config.minibatches, generator=self._generator
        ):
            kept = batch[torch.rand(len(batch), generator=self._generator) < self.config.fraction]
            if len(kept):
                yield kept

    def _errors(self, rows: Mapping[str, Tensor], index: Tensor | slice) -> Tensor:
        x = self._observations.read(rows, index)
        return (self._predictor(x) - self._target(x)).square().mean(1)
