"""The policies that do not measure their own uncertainty: greedy, and greedy with a coin."""

from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled.streams import Streams, uniforms
from optimist.bandits.ensembles import IncrementalEnsemble
from optimist.bandits.learners import Evaluation
from optimist.bandits.policy import Policy
from optimist.bandits.probabilities import Chances, shared_by_best
from optimist.bandits.regression import exact_least_squares
from optimist.bandits.sgd import ADAPTIVE, AdaptiveSGD, Solver
from optimist.checks import require_choice, require_number
from optimist.compiling import Floats, Integers

STEP_MEMBERS = 8
"""Noise regressors that size the steps of ``solver="sgd"`` where the policy itself has none."""


def _estimate(policy: Policy, learners: int, models: int, solver: str, streams: Streams) -> IncrementalEnsemble:
    """The untrained estimate of the rewards."""
    d, ridge, decay, dtype = policy.n_features, policy.ridge, policy.decay, policy.dtype
    if solver == "exact":
        return IncrementalEnsemble(exact_least_squares(np.zeros((learners, models, d, 1), dtype), ridge, decay), 0)
    targets = 1 + STEP_MEMBERS
    regression = AdaptiveSGD(learners, models, d, targets, ridge, decay, ADAPTIVE, dtype, streams)
    return IncrementalEnsemble(regression, STEP_MEMBERS)


@final
class Greedy(Policy):
    """Plays the largest of ``<x, theta>``.

    ``solver="sgd"`` has no d x d matrix: its steps are sized by a few noise regressors of its own, and it takes sparse
    rows as they are.
    """

    ADJUSTABLE: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        n_features: int,
        *,
        ridge: float = 1.0,
        solver: Solver = "exact",
        decay: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, decay, dtype, seed)
        self.solver = require_choice("solver", solver, Solver)
        self._start()

    def _begin(self, learners: int, models: int) -> IncrementalEnsemble:
        return _estimate(self, learners, models, self.solver, self._streams)

    def _state_per_model(self) -> tuple[int, int]:
        return (1, 1) if self.solver == "exact" else (0, 3 + STEP_MEMBERS)

    def _evaluate(self, x: Floats, arms: Integers, streams: Streams) -> Evaluation:
        mean, _, columns = self._read(x, arms, streams)
        return Evaluation(mean, np.zeros_like(mean), columns)


@final
class EpsilonGreedy(Policy):
    """Plays the largest of ``<x, theta>``, or with probability epsilon an action at random; solvers as for Greedy."""

    ADJUSTABLE: ClassVar[frozenset[str]] = frozenset({"epsilon"})

    def __init__(
        self,
        n_features: int,
        *,
        epsilon: float = 0.1,
        ridge: float = 1.0,
        solver: Solver = "exact",
        decay: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, decay, dtype, seed)
        self.solver = require_choice("solver", solver, Solver)
        self.epsilon = require_number("epsilon", epsilon, least=0, most=1, why="it is a probability")
        self._start()

    def _begin(self, learners: int, models: int) -> IncrementalEnsemble:
        return _estimate(self, learners, models, self.solver, self._streams)

    def _state_per_model(self) -> tuple[int, int]:
        return (1, 1) if self.solver == "exact" else (0, 3 + STEP_MEMBERS)

    def _evaluate(self, x: Floats, arms: Integers, streams: Streams) -> Evaluation:
        mean, _, columns = self._read(x, arms, streams)
        learners, decisions, actions = mean.shape
        lots = uniforms(streams, decisions * (1 + actions)).reshape(learners, decisions, 1 + actions)
        is_exploring = lots[..., :1] < self.epsilon  # a coin per decision, then a lot per action
        # Exploring, the bonus takes the mean away and leaves the lots: the best of them is a uniform choice.
        return Evaluation(mean, np.where(is_exploring, lots[..., 1:] - mean, 0.0), columns)

    def _chances(self, x: Floats, arms: Integers, allowed: NDArray[np.bool_], streams: Streams, draws: int) -> Chances:
        mean, _, _ = self._read(x, arms, streams)
        greedy, uniform = shared_by_best(mean[0], allowed), allowed / allowed.sum(axis=-1, keepdims=True)
        return Chances((1 - self.epsilon) * greedy + self.epsilon * uniform, is_counted=False)

    @property
    def _draws_for_every_decision(self) -> bool:
        return self.epsilon > 0
