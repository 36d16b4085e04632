"""LinUCB: the exact elliptical bonus that ACB approximates, and its diagonal shortcut."""

from typing import Literal, final

import numpy as np

from optimist.bandits import inputs
from optimist.bandits.arrays import Floats
from optimist.bandits.policies.ensembles import IncrementalEnsemble
from optimist.bandits.policies.policy import Policy, Question
from optimist.bandits.regression import DiagonalLeastSquares, RecursiveLeastSquares


@final
class LinUCB(Policy):
    """Plays the largest of ``<x, theta> + width sqrt(x' Sigma^-1 x)``.

    ``width="theory"`` is the confidence width of the paper's Lemma 2 at the present Sigma,
    ``sqrt(ridge) W + sigma sqrt(2 log(det(Sigma) ridge^-d / delta))``, from the noise's ``sigma``, the bound
    ``theta_norm`` = W and ``delta``.
    Paper: section 2.
    """

    def __init__(
        self,
        n_features: int,
        *,
        width: float | Literal["theory"] = 1.0,
        ridge: float = 1.0,
        sigma: float = 1.0,
        theta_norm: float = 1.0,
        delta: float = 0.05,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, dtype, seed)
        self.width = width if width == "theory" else inputs.require_not_negative("width", width, "it scales the bonus")
        self.sigma = inputs.require_positive("sigma", sigma, "it is the scale of the noise in the reward")
        self.theta_norm = inputs.require_positive("theta_norm", theta_norm, "it bounds the norm of the true theta")
        self.delta = inputs.require_positive("delta", delta, "it is the probability that a bound fails")
        self._start()

    def _begin(self, learners: int, models: int) -> IncrementalEnsemble:
        initial = np.zeros((learners, models, self.n_features, 1), self.dtype)
        self._regression = RecursiveLeastSquares(initial, self.ridge)
        return IncrementalEnsemble(self._regression)

    def _bonuses(self, question: Question) -> Floats:
        norms = self._regression.elliptical_norms(question.x, question.arms)
        return self._widths()[:, None, question.arms] * norms

    def _widths(self) -> Floats:
        """The width of each model, (l, a)."""
        log_det = self._regression.log_det
        if self.width != "theory":
            return np.full(log_det.shape, self.width)
        spread = np.sqrt(2 * (log_det + np.log(1 / self.delta)))
        return np.sqrt(self.ridge) * self.theta_norm + self.sigma * spread


@final
class DiagonalLinUCB(Policy):
    """LinUCB that keeps only the diagonal of Sigma: O(d) a round, blind to correlations between features."""

    def __init__(
        self,
        n_features: int,
        *,
        width: float = 1.0,
        ridge: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, dtype, seed)
        self.width = inputs.require_not_negative("width", width, "it scales the bonus")
        self._start()

    def _begin(self, learners: int, models: int) -> IncrementalEnsemble:
        initial = np.zeros((learners, models, self.n_features, 1), self.dtype)
        self._regression = DiagonalLeastSquares(initial, self.ridge)
        return IncrementalEnsemble(self._regression)

    def _bonuses(self, question: Question) -> Floats:
        return self.width * self._regression.elliptical_norms(question.x, question.arms)
