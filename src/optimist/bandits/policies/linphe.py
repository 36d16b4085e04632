"""LinPHE: perturbed-history exploration, the nearest relative of re-randomized ACB."""

from typing import final

from optimist.bandits import inputs
from optimist.bandits.arrays import Floats
from optimist.bandits.policies.ensembles import PerturbedEnsemble
from optimist.bandits.policies.policy import Policy, Question


@final
class LinPHE(Policy):
    """Plays greedily on the rewards of the whole history, each perturbed by fresh noise ``scale z``, ``z ~ N(0, 1)``.

    ``theta~ = Sigma^-1 sum x (r + scale z)``. Unlike in LinTS the prior is not perturbed.
    Reference: Kveton et al., *Perturbed-history exploration in stochastic linear bandits* (2019).
    Deviation: Gaussian noise in place of the Bernoulli pseudo-rewards, which need rewards in [0, 1].
    """

    def __init__(
        self,
        n_features: int,
        *,
        scale: float = 0.5,
        ridge: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, dtype, seed)
        self.scale = inputs.require_not_negative("scale", scale, "it is the standard deviation of the perturbations")
        self._start()

    def _begin(self, learners: int, models: int) -> PerturbedEnsemble:
        return PerturbedEnsemble(learners, models, self.n_features, self.ridge)

    def _bonuses(self, question: Question) -> Floats:
        return self.scale * question.deviations[..., 0]
