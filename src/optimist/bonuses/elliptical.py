"""The exact elliptical bonus of everything seen, in any feature space of a few thousand dimensions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from optimist.bonuses.acb.config import DEFAULT, BonusForm, EpsilonForm, FloorOver, require_floor
from optimist.bonuses.acb.ensemble import in_form
from optimist.bonuses.acb.moments import NoiseMoments, regularized_factor
from optimist.bonuses.acb.standardize import RunningScale, Unscaled, first_rollout, make_scale
from optimist.bonuses.checkpointing import module_state, require_same_layout, unchanged_on_error
from optimist.bonuses.features.batch import Dense
from optimist.bonuses.features.maps import FeatureMap, still_fits
from optimist.bonuses.observations import Observations, ObservationShape, chunks, parts_of, rows_of, take, unnamed
from optimist.bonuses.protocol import Bonus
from optimist.bonuses.transitions import Transitions, at_valid_steps, from_valid_steps
from optimist.checks import require_choice, require_counts, require_positive_fields
from optimist.ranks import ALONE, Ranks, SharedRows

EllipticalStatistics = Literal["running", "none"]
CHUNK = 1024  # states whose features are written out at a time


@dataclass(frozen=True)
class EllipticalConfig:
    """Every default of the exact elliptical bonus: those of ACB's DEFAULT, so that it is what ACB estimates.

    Its features are settings of `bonuses.make`.
    """

    ridge: float = 1.0
    """lambda: Sigma starts as lambda I. The ACB paper, section 2."""
    statistics: EllipticalStatistics = "running"
    """running: features are standardized by the statistics of everything seen; none: as they are."""
    epsilon: float = DEFAULT.epsilon
    """Added to the variance of a coordinate, as in ACB."""
    epsilon_form: EpsilonForm = DEFAULT.epsilon_form
    """absolute: epsilon itself; relative: epsilon times the mean variance of all coordinates."""
    floor: FloorOver = DEFAULT.floor
    """The coordinates whose mean variance a relative epsilon is a share of: all, or those of the same layer."""
    form: BonusForm = DEFAULT.form
    """bounded, width or square: see `ACBConfig.form`."""
    largest: int = 8192
    """The largest d accepted: at 8192 dimensions the two d x d matrices in float64 have 1 GB together. Ours."""

    def __post_init__(self) -> None:
        require_positive_fields(self, "ridge", why="with no ridge the covariance starts singular")
        require_positive_fields(self, "epsilon", why="a coordinate that never varied would be divided by 0")
        require_choice("statistics", self.statistics, EllipticalStatistics)
        require_choice("epsilon_form", self.epsilon_form, EpsilonForm)
        require_choice("floor", self.floor, FloorOver)
        require_floor(self.floor, self.epsilon_form)
        require_choice("form", self.form, BonusForm)
        require_counts(self, "largest")


UNSKETCHED = -1
"""The seed of features that draw nothing."""


class Elliptical(Bonus):
    """The width ``sqrt(x' Sigma^-1 x)`` of the next state, ``Sigma = ridge I + sum x x'`` over all states of updates.

    By default in the form that ACB has, bounded: with q the square of the width, the root of ``q / (1 + q)``.

    x is the feature g standardized just as ACB does it, by the same `RunningScale`, and Sigma is made of the same raw
    moments: what ACB's ensemble estimates by draws. When the statistics move, every past state counts in the
    coordinates of today; no past feature is read again.
    Memory: two (d, d) matrices in float64, more within an update. Time: O(n d^2) for n states, and d^3 / 3 for the one
    factorization of an update.
    The feature map is given raw observations: the chosen keys of a Dict, or the tensor (n, ...) itself.
    ``features.network`` belongs to the bonus (give a copy of the policy): Sigma means something only while it is fixed.

    Paper: section 2, the bonus of LinUCB.
    """

    reads_policy = True
    shares_ranks = True

    def __init__(
        self,
        features: FeatureMap,
        observation_shape: ObservationShape,
        *,
        config: EllipticalConfig | None = None,
        ranks: Ranks = ALONE,
    ):
        self.ranks = ranks
        self.config = config or EllipticalConfig()
        self._parts = parts_of(observation_shape, channels="all")
        self._features = features
        d = sum(shape.numel() for shape in features.shapes)
        if d > self.config.largest:
            raise ValueError(
                f"the features have {d} dimensions, more than {self.config.largest}: the exact bonus needs a {d} x {d} "
                "matrix; use features='sketch', or the ACB bonus, which needs none"
            )
        scale = make_scale([torch.Size((d,))], features, self.config)
        self._scale = scale if isinstance(scale, RunningScale) else Unscaled()
        self._moments = NoiseMoments(d, 0, device=torch.device("cpu"))
        self._factor = self._factorized()

    @torch.no_grad()
    def compute(self, transitions: Transitions) -> Tensor:
        """The bonus of every next state, (T, N); changes nothing."""
        return at_valid_steps(transitions, self._bonuses)

    @torch.no_grad()
    @from_valid_steps
    def update(self, transitions: Transitions, rows: SharedRows) -> dict[str, float]:
        """How many states Sigma holds, after adding those of a rollout and factorizing it once; all or nothing."""
        if not self._moments.count:
            self._require_fitting(transitions)
        with unchanged_on_error(self._scale):
            moments = added = self._moments.copy()
            seen = self._scale
            if not self.ranks.alone:  # what each rank has seen is summed once, at the end
                added, seen = NoiseMoments(*moments.sizes, device=torch.device("cpu")), seen.fresh()
            for g in self._dense(transitions):
                seen.observe(g)
                added.add(g.features)
            if not self.ranks.alone:
                moments.merge(added, self.ranks)
                self._scale.merge(seen, self.ranks)
            factor = self._factorized(moments)
        self._moments, self._factor = moments, factor
        return {"states": float(moments.count)}

    def state_dict(self) -> dict[str, Any]:
        """The moments of all features, their scale, the network that makes them, and the seed of its sketch."""
        return {
            "seed": getattr(self._features, "seed", UNSKETCHED),
            "moments": self._moments.state_dict(),
            "scale": self._scale.state_dict(),
            "network": module_state(self._features.network),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where ``state`` was taken."""
        own = self.state_dict()
        state = require_same_layout(state, own)
        if state["seed"] != own["seed"]:
            raise ValueError(
                f"the state is of features sketched with seed {state['seed']}, these are of seed {own['seed']}: "
                "build the bonus with the seed saved; nothing was changed"
            )
        self._moments.load_state_dict(state["moments"])
        self._scale.load_state_dict(state["scale"])
        self._features.network.load_state_dict(state["network"])
        self._factor = self._factorized()

    def __repr__(self) -> str:
        features, config, d = type(self._features).__name__, self.config, len(self._factor)
        sizes = f"dimensions={d}, states={self._moments.count}"
        return f"Elliptical(features={features}, {sizes}, ridge={config.ridge}, statistics={config.statistics!r})"

    def _bonuses(self, transitions: Transitions) -> Tensor:
        scale = self._scale.settled(lambda: self._dense(transitions), self.ranks)
        squares = []
        for g in self._dense(transitions):
            x = scale.standardize(g).dense()
            # Sigma = L L': x' Sigma^-1 x = |L^-1 x|^2.
            squares.append(torch.linalg.solve_triangular(self._factor, x.T, upper=False).square().sum(0))
        together, form = torch.cat(squares).float(), self.config.form
        return in_form(together if form == "bounded" else together / first_rollout(self._scale, scale), form)

    def _require_fitting(self, transitions: Transitions) -> None:
        """An error if the feature map, made for an example, does not hold for the first real states."""
        if not still_fits(self._features, self._rows(transitions)):
            raise ValueError(
                "the network behaves otherwise on these states than at the example that its features were made for: "
                "another branch is taken, or a weight is used twice; make the features with real observations as the "
                "example; nothing was changed"
            )

    def _rows(self, transitions: Transitions) -> Observations:
        given = transitions.next_observations
        return unnamed(rows_of(self._parts, given), like=given)

    def _dense(self, transitions: Transitions) -> Iterator[Dense]:
        """The features of the next states in chunks of at most 1024, float64."""
        observations = self._rows(transitions)
        for chunk in chunks(transitions.ended.numel(), CHUNK):
            g = self._features(take(observations, chunk)).dense().detach()
            if not bool(torch.isfinite(g).all()):
                raise ValueError("features must be finite, got NaN or infinity: the network has diverged")
            yield Dense(g.cpu().double())  # where the moments are: not every device has float64

    def _factorized(self, moments: NoiseMoments | None = None) -> Tensor:
        """The lower Cholesky factor of Sigma in the coordinates of today, (d, d)."""
        return regularized_factor((moments or self._moments).gram(self._scale.today()), self.config.ridge)
