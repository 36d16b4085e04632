"""ACB on several ranks: each rank's part of the steps of an update, and the states on which all probe the network."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from optimist.bonuses.acb.sizing import Regression
from optimist.bonuses.acb.solvers.averaging import Minibatches
from optimist.bonuses.acb.solvers.exact import ExactSolver
from optimist.bonuses.acb.standardize import FeatureScale
from optimist.bonuses.features.batch import Dense, FeatureBatch
from optimist.bonuses.features.maps import GradientFeatures
from optimist.bonuses.features.per_state.plan import CANDIDATES
from optimist.bonuses.observations import Observations, flatten_time, map_observations
from optimist.ranks import ALONE, Ranks, SharedRows

Features = Callable[[Tensor], FeatureBatch]


@dataclass(frozen=True, eq=False)
class SharedSteps:
    """An update whose steps are of the rows of all ranks: what this rank reads of each, and whom it then sums over."""

    features: Features
    """The features that this rank reads of a step, given the numbers of its rows among those of all."""
    kept: Callable[[Tensor, Tensor], Tensor]
    """Of the noise of all rows of a step, (n, m), that of the rows which this rank reads."""
    summed_over: Ranks

    def fit(self, regression: Regression, minibatches: Minibatches, scale: FeatureScale) -> float:
        """The loss of the regressors before the update."""
        if isinstance(regression.solver, ExactSolver):
            return regression.solver.fit(minibatches, scale, self.summed_over)
        return regression.solver.fit(minibatches, scale)


def shared_steps(
    features: Features, regression: Regression, states: Observations, rows: SharedRows, ranks: Ranks
) -> SharedSteps:
    """How an update of ``regression`` is shared, given the ``features`` of this rank's own rows of ``states``.

    The exact solver sums its moments over the ranks, each of which reads its own rows. A stream takes the same steps on
    every rank, on the rows of all of them: their features are gathered. Features that are never written out, of which
    one state may have millions, are not: there observations are gathered, and every rank reads the features of all.
    """
    if ranks.alone:
        return SharedSteps(features, lambda _, noise: noise, ALONE)
    if isinstance(regression.features, GradientFeatures):
        observed, read = regression.rows(states), regression.features

        def read_again(index: Tensor) -> FeatureBatch:
            return read(map_observations(lambda part: rows.together(index, part[rows.own(index)]), observed))

        return SharedSteps(read_again, lambda _, noise: noise, ALONE)
    if isinstance(regression.solver, ExactSolver):
        return SharedSteps(lambda index: features(rows.own(index)), rows.kept, ranks)
    gathered: Features = lambda index: Dense(rows.together(index, features(rows.own(index)).dense()))  # noqa: E731
    return SharedSteps(gathered, lambda _, noise: noise, ALONE)


def own_rows(rows: SharedRows, index: Tensor) -> Tensor:
    """The rows that this rank needs features of for an update on the rows ``index`` of all; never none."""
    own = rows.own(index).unique()
    return own if len(own) else torch.zeros(1, dtype=torch.int64)


def probes(states: Observations, rows: SharedRows) -> Observations:
    """The states that one rank would probe the network on, on every rank. Shapes: (k, 1, ...) -> (n, 1, ...)."""
    index = torch.linspace(0, rows.total - 1, min(rows.total, CANDIDATES)).long()
    return map_observations(lambda part: rows.together(index, part[rows.own(index)]).unsqueeze(1), flatten_time(states))
