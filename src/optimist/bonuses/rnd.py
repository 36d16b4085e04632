"""Random network distillation: how badly a trained network predicts a fixed random one (Burda et al. 2018)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from optimist.bonuses.networks import Encoder, linear, minibatches
from optimist.bonuses.observations import Channels, ObservationShape, chunks
from optimist.bonuses.protocol import Transitions
from optimist.bonuses.state import (
    load_optimizer_state,
    module_state,
    optimizer_state,
    require_same_layout,
    seeded_generator,
)
from optimist.bonuses.whitened import CHUNK, WhitenedObservations


@dataclass(frozen=True)
class RNDConfig:
    """Every default of RND. Source of each: Burda et al. 2018, section 2.4, appendix A, and its code."""

    features: int = 512
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
        if min(self.features, self.epochs, self.minibatches) < 1:
            raise ValueError("features, epochs and minibatches must be >= 1")
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction must lie in (0, 1], got {self.fraction}: it is the share of states trained on")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate must be > 0, got {self.learning_rate}")


class RND:
    """The bonus ``mean_k (predictor_k(s') - target_k(s'))^2`` of the successor s', whitened; the target never moves.

    ``observation_shape`` is (C, H, W), a vector's shape, ``Discrete(n)``, or a mapping of a Dict's chosen keys to them.
    Whitening statistics move once a rollout, before the predictor is trained; ``warm_up`` sets them beforehand, as RND
    does with 50 x 128 random steps of every environment.

    Paper: RND, section 2.2 and appendix A.4.
    Deviation: the MLP for vectors and one-hot states is ours, RND has images only.
    """

    def __init__(self, observation_shape: ObservationShape, *, seed: int, config: RNDConfig | None = None):
        self.config = config or RNDConfig()
        self._generator = seeded_generator(seed, "rnd")
        self._observations = WhitenedObservations(
            observation_shape, channels=self.config.channels, clip=self.config.clip
        )
        parts, features = self._observations.parts, self.config.features
        self._target = Encoder(parts, features, generator=self._generator).requires_grad_(False)
        self._predictor = nn.Sequential(
            Encoder(parts, features, generator=self._generator),
            nn.ReLU(),
            linear(features, features, generator=self._generator),
            nn.ReLU(),
            linear(features, features, generator=self._generator),
        )
        self._optimizer = torch.optim.Adam(self._predictor.parameters(), lr=self.config.learning_rate)

    @torch.no_grad()
    def compute(self, transitions: Transitions) -> Tensor:
        """The prediction error at every successor, (T, N); changes nothing."""
        rows = self._observations.rows(transitions.next_observations)
        errors = [self._errors(rows, chunk) for chunk in chunks(transitions.ended.numel(), CHUNK)]
        return torch.cat(errors).reshape(transitions.ended.shape)

    @torch.enable_grad()
    def update(self, transitions: Transitions) -> dict[str, float]:
        """Move the whitening statistics once, then train the predictor; returns its mean loss and the states used."""
        rows = self._observations.rows(transitions.next_observations)
        self._observations.update(rows)
        loss_sum, trained = 0.0, 0
        for batch in minibatches(
            transitions.ended.numel(),
            epochs=self.config.epochs,
            count=self.config.minibatches,
            generator=self._generator,
        ):
            # RND masks the loss of the others; leaving them out gives the same gradient at a quarter of the cost.
            kept = batch[torch.rand(len(batch), generator=self._generator) < self.config.fraction]
            if not len(kept):
                continue
            loss = self._errors(rows, kept).mean()
            self._optimizer.zero_grad()
            loss.backward()
            self._optimizer.step()
            loss_sum, trained = loss_sum + loss.item() * len(kept), trained + len(kept)
        self._optimizer.zero_grad()
        return {"loss": loss_sum / max(trained, 1), "trained": float(trained)}

    def warm_up(self, transitions: Transitions) -> None:
        """Move the whitening statistics alone, by the successors of random play before training."""
        self._observations.update(self._observations.rows(transitions.next_observations))

    def state_dict(self) -> dict[str, Any]:
        """Both networks, Adam's moments, the whitening statistics and the random state."""
        return {
            "target": module_state(self._target),
            "predictor": module_state(self._predictor),
            "optimizer": optimizer_state(self._optimizer),
            "observations": self._observations.state_dict(),
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        require_same_layout(state, self.state_dict())
        self._target.load_state_dict(state["target"])
        self._predictor.load_state_dict(state["predictor"])
        load_optimizer_state(self._optimizer, state["optimizer"])
        self._observations.load_state_dict(state["observations"])
        self._generator.set_state(state["generator"])

    def _errors(self, rows: Mapping[str, Tensor], index: Tensor | slice) -> Tensor:
        x = self._observations.read(rows, index)
        return (self._predictor(x) - self._target(x)).square().mean(1)
