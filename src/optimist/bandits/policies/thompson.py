"""LinTS: Thompson sampling from the Gaussian posterior of the ridge estimate."""

from typing import final

from optimist.bandits import inputs
from optimist.bandits.arrays import Floats
from optimist.bandits.policies.ensembles import RerandomizedEnsemble
from optimist.bandits.policies.policy import Policy, Question


@final
class LinTS(Policy):
    """Plays the largest of ``<x, theta + scale w>`` with ``w ~ N(0, Sigma^-1)`` fresh for every decision.

    That is a re-randomized ensemble of one member, its sign kept.
    Reference: Agrawal and Goyal, *Thompson sampling for contextual bandits with linear payoffs* (2013).
    """

    def __init__(
        self,
        n_features: int,
        *,
        scale: float = 0.3,
        ridge: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, dtype, seed)
        self.scale = inputs.require_not_negative("scale", scale, "it is the standard deviation of the samples")
        self._start()

    def _begin(self, learners: int, models: int) -> RerandomizedEnsemble:
        return RerandomizedEnsemble(learners, models, self.n_features, 1, self.ridge)

    def _bonuses(self, question: Question) -> Floats:
        return self.scale * question.deviations[..., 0]
