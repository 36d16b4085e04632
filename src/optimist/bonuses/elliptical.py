"""The exact elliptical bonus of everything seen, in any feature space of a few thousand dimensions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from optimist.bonuses.features.feature_map import FeatureMap
from optimist.bonuses.observations import WHOLE, ObservationShape, chunks, parts_of, rows_of
from optimist.bonuses.protocol import Transitions
from optimist.bonuses.state import module_state, require_same_layout
from optimist.bonuses.valid_steps import at_valid_steps, from_valid_steps
from optimist.configuration import require_positive

CHUNK = 1024  # states whose features are written out at a time


@dataclass(frozen=True)
class EllipticalConfig:
    """Every default of the exact elliptical bonus."""

    ridge: float = 1.0
    """lambda: Sigma starts as lambda I. The ACB paper, section 2."""
    whiten: bool = False
    """Whether g is centred and scaled to unit variance by the statistics of everything seen. Ours."""
    relative_floor: float = 1e-5
    """Share of the mean variance added to every variance when whitening. Ours: an absolute floor would not whiten."""
    largest: int = 8192
    """The largest d accepted: at 8192 dimensions the two d x d matrices in float64 have 1 GB together. Ours."""

    def __post_init__(self) -> None:
        require_positive(self, "ridge", why="with no ridge the covariance starts singular")
        require_positive(self, "relative_floor", why="a variance may be 0")


UNSKETCHED = -1
"""The seed of features that draw nothing."""


class Elliptical:
    """The bonus ``g' Sigma^-1 g`` of the successor, ``Sigma = ridge I + sum g g'`` over all states of past updates.

    The sum is kept as a count, a mean and a scatter about the mean, so with ``whiten`` Sigma is just what it would be
    had every past feature been whitened by the statistics of today: nothing has to be replayed when they move.
    Memory: two (d, d) matrices in float64, twice that within an update. Time: O(n d^2) for n states, and d^3 / 3
    for the one factorisation of an update.
    The feature map is given raw observations: the chosen keys of a Dict, or the tensor (n, ...) itself.
    ``features.network`` belongs to the bonus (give a copy of the policy): Sigma means something only while it is fixed.

    Paper: section 2, the bonus of LinUCB, squared as in Algorithm 2.
    """

    def __init__(
        self, features: FeatureMap, observation_shape: ObservationShape, *, config: EllipticalConfig | None = None
    ):
        self.config = config or EllipticalConfig()
        self._parts = parts_of(observation_shape, channels="all")
        self._is_dict = isinstance(observation_shape, Mapping)
        self._features = features
        d = sum(shape.numel() for shape in features.shapes)
        if d > self.config.largest:
            raise ValueError(
                f"the features have {d} dimensions, more than {self.config.largest}: the exact bonus needs a {d} x {d} "
                "matrix; use features='sketch', or the ACB bonus, which needs none"
            )
        self._count = 0
        self._mean = torch.zeros(d, dtype=torch.float64)
        self._scatter = torch.zeros(d, d, dtype=torch.float64)
        self._factor = self._factorised()

    def compute(self, transitions: Transitions) -> Tensor:
        """``g' Sigma^-1 g`` at every successor, (T, N); changes nothing."""
        return at_valid_steps(transitions, self._bonuses)

    @from_valid_steps
    def update(self, transitions: Transitions) -> dict[str, float]:
        """Add the successors to Sigma and factorise it once; returns how many states it holds."""
        # Into copies: whatever a feature map raises, nothing has been changed.
        count, mean, scatter = self._count, self._mean, self._scatter.clone()
        for g in self._dense(transitions):
            total = count + len(g)
            batch_mean = g.mean(0)
            shift, centred = batch_mean - mean, g - batch_mean
            scatter.addmm_(centred.T, centred).addr_(shift, shift, alpha=count * len(g) / total)
            mean = mean + shift * (len(g) / total)
            count = total
        self._count, self._mean, self._scatter = count, mean, scatter
        self._factor = self._factorised()
        return {"states": float(count)}

    def warm_up(self, transitions: Transitions) -> None:
        """Nothing: Sigma is of everything seen in training."""

    def state_dict(self) -> dict[str, Any]:
        """The count, mean and scatter of all features, the network that makes them, and the seed of its sketch."""
        return {
            "seed": getattr(self._features, "seed", UNSKETCHED),
            "count": self._count,
            "mean": self._mean.clone(),
            "scatter": self._scatter.clone(),
            "network": module_state(self._features.network),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        own = self.state_dict()
        require_same_layout(state, own)
        if state["seed"] != own["seed"]:
            raise ValueError(
                f"the state is of features sketched with seed {state['seed']}, these are of seed {own['seed']}: "
                "build the bonus with the seed saved; nothing was changed"
            )
        self._count = state["count"]
        self._mean, self._scatter = state["mean"].clone(), state["scatter"].clone()
        self._features.network.load_state_dict(state["network"])
        self._factor = self._factorised()

    def _bonuses(self, transitions: Transitions) -> Tensor:
        mean, scale = self._whitening()
        bonuses = []
        for g in self._dense(transitions):
            white = (g - mean) / scale
            # Sigma = L L': g' Sigma^-1 g = |L^-1 g|^2.
            bonuses.append(torch.linalg.solve_triangular(self._factor, white.T, upper=False).square().sum(0))
        return torch.cat(bonuses).float()

    def _dense(self, transitions: Transitions) -> Iterator[Tensor]:
        """The features of the successors in chunks, each (at most 1024, d), float64."""
        rows = rows_of(self._parts, transitions.next_observations)
        for chunk in chunks(transitions.ended.numel(), CHUNK):
            observations = {name: x[chunk] for name, x in rows.items()} if self._is_dict else rows[WHOLE][chunk]
            g = self._features(observations).dense().detach()
            if not bool(torch.isfinite(g).all()):
                raise ValueError("features must be finite, got NaN or infinity: the network has diverged")
            yield g.double()

    def _whitening(self) -> tuple[Tensor, Tensor]:
        """What is subtracted from g and what it is divided by, each (d,): 0 and 1 unless whitening."""
        if not self.config.whiten or self._count == 0:
            return torch.zeros_like(self._mean), torch.ones_like(self._mean)
        variance = self._scatter.diagonal() / self._count
        floor = self.config.relative_floor * variance.mean()
        deviation = (variance + floor).sqrt()
        return self._mean, torch.where(deviation > 0, deviation, 1.0)

    def _factorised(self) -> Tensor:
        """The lower Cholesky factor of Sigma, in the space of the whitened features, (d, d)."""
        mean, scale = self._whitening()
        offset = self._mean - mean  # sum (g - mean)(g - mean)' = scatter + n offset offset'
        sigma = torch.addr(self._scatter, offset, offset, alpha=self._count)
        sigma = sigma / scale / scale.unsqueeze(1)
        sigma.diagonal().add_(self.config.ridge)
        return torch.linalg.cholesky(sigma)
