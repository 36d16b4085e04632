"""The policies that do not know what they do not know: greedy, and greedy with a coin."""

from typing import final

import numpy as np

from optimist.bandits import inputs
from optimist.bandits.arrays import Floats, Streams
from optimist.bandits.policies.ensembles import IncrementalEnsemble
from optimist.bandits.policies.policy import Policy, Question
from optimist.bandits.regression import RecursiveLeastSquares
from optimist.bandits.streams import uniforms


@final
class EpsilonGreedy(Policy):
    """Plays the largest of ``<x, theta>``, or with probability epsilon an action at random."""

    def __init__(
        self,
        n_features: int,
        *,
        epsilon: float = 0.1,
        ridge: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, dtype, seed)
        self.epsilon = inputs.require_not_negative("epsilon", epsilon, "it is a probability")
        if epsilon > 1:
            raise ValueError(f"epsilon must be a probability in [0, 1], got {epsilon!r}")
        self._start()

    def _begin(self, learners: int, models: int) -> IncrementalEnsemble:
        initial = np.zeros((learners, models, self.n_features, 1), self.dtype)
        return IncrementalEnsemble(RecursiveLeastSquares(initial, self.ridge))

    def _lots(self, streams: Streams, decisions: int, actions: int) -> Floats:
        """A coin for every decision, then a lot for every action, (l, b, 1 + n)."""
        return uniforms(streams, decisions * (1 + actions)).reshape(len(streams), decisions, 1 + actions)

    def _bonuses(self, question: Question) -> Floats:
        coin, lots = question.lots[..., :1], question.lots[..., 1:]
        # Exploring, the bonus takes the mean away and leaves the lots: the best of them is a uniform choice.
        return np.where(coin < self.epsilon, lots - question.mean, 0.0)


@final
class Greedy(Policy):
    """Plays the largest of ``<x, theta>``."""

    def __init__(
        self, n_features: int, *, ridge: float = 1.0, n_arms: int | None = None, dtype: str = "float64", seed: int = 0
    ):
        super().__init__(n_features, n_arms, ridge, dtype, seed)
        self._start()

    def _begin(self, learners: int, models: int) -> IncrementalEnsemble:
        initial = np.zeros((learners, models, self.n_features, 1), self.dtype)
        return IncrementalEnsemble(RecursiveLeastSquares(initial, self.ridge))

    def _bonuses(self, question: Question) -> Floats:
        return np.zeros_like(question.mean)
