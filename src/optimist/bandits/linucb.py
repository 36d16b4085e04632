"""LinUCB: the exact elliptical bonus that ACB approximates, and its diagonal shortcut."""

from typing import ClassVar, Literal, cast, final

import numpy as np

from optimist.bandits.compiled.streams import Streams
from optimist.bandits.ensembles import IncrementalEnsemble
from optimist.bandits.learners import Evaluation
from optimist.bandits.policy import Policy
from optimist.bandits.regression import ExactLeastSquares, FadingLeastSquares, exact_least_squares
from optimist.bandits.sgd import DIAGONAL, AdaptiveSGD
from optimist.checks import require_fraction, require_number, require_positive
from optimist.compiling import Floats, Integers


@final
class LinUCB(Policy):
    """Plays the largest of ``<x, theta> + beta sqrt(x' Sigma^-1 x)``.

    ``beta="theory"`` is the confidence width of the paper's Lemma 2 at the present Sigma,
    ``sqrt(ridge) W + sigma sqrt(2 log(det(Sigma) ridge^-d / delta))``, from the noise's ``sigma``, the bound
    ``theta_norm`` = W and ``delta``.
    Paper: section 2.
    """

    ADJUSTABLE: ClassVar[frozenset[str]] = frozenset({"beta", "sigma", "theta_norm", "delta"})

    def __init__(
        self,
        n_features: int,
        *,
        beta: float | Literal["theory"] = 1.0,
        ridge: float = 1.0,
        decay: float = 1.0,
        sigma: float = 1.0,
        theta_norm: float = 1.0,
        delta: float = 0.05,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, decay, dtype, seed)
        why = "it scales the bonus; 'theory' is the other choice"
        self.beta = (
            beta if isinstance(beta, str) and beta == "theory" else require_number("beta", beta, least=0, why=why)
        )
        self.sigma = require_positive("sigma", sigma, "it is the scale of the noise in the reward")
        self.theta_norm = require_positive("theta_norm", theta_norm, "it bounds the norm of the true theta")
        self.delta = require_fraction("delta", delta, "it is the probability that a bound fails")
        self._start()

    def _begin(self, learners: int, models: int) -> IncrementalEnsemble:
        initial = np.zeros((learners, models, self.n_features, 1), self.dtype)
        return IncrementalEnsemble(exact_least_squares(initial, self.ridge, self.decay), 0)

    def _evaluate(self, x: Floats, arms: Integers, streams: Streams) -> Evaluation:
        mean, _, columns = self._read(x, arms, streams)
        norms = self._regression.elliptical_norms(x, arms)
        return Evaluation(mean, self._betas()[:, None, arms] * norms, columns)

    @property
    def _regression(self) -> ExactLeastSquares | FadingLeastSquares:
        return cast(ExactLeastSquares | FadingLeastSquares, self._ensemble.regression)

    def _betas(self) -> Floats:
        """The beta of each model, (l, a)."""
        log_det = self._regression.log_det
        if self.beta != "theory":
            return np.full(log_det.shape, self.beta)
        spread = np.sqrt(2 * (log_det + np.log(1 / self.delta)))
        return np.sqrt(self.ridge) * self.theta_norm + self.sigma * spread


@final
class DiagonalLinUCB(Policy):
    """LinUCB that keeps only the diagonal of Sigma: O(1) per non-zero feature, blind to correlations between features.

    ``k = D^-1 x / (1 + x' D^-1 x)``, ``theta += k (r - <x, theta>)``, ``D += x^2``; sparse rows are taken as they are.
    """

    def __init__(
        self,
        n_features: int,
        *,
        beta: float = 1.0,
        ridge: float = 1.0,
        decay: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, decay, dtype, seed)
        self.beta = require_number("beta", beta, least=0, why="it scales the bonus")
        self._start()

    def _begin(self, learners: int, models: int) -> IncrementalEnsemble:
        d, streams = self.n_features, self._streams.copy()  # with no members, the prior takes no draws
        regression = AdaptiveSGD(learners, models, d, 1, self.ridge, self.decay, DIAGONAL, self.dtype, streams)
        return IncrementalEnsemble(regression, 0)

    def _evaluate(self, x: Floats, arms: Integers, streams: Streams) -> Evaluation:
        mean, _, columns = self._read(x, arms, streams)
        return Evaluation(mean, self.beta * self._regression.elliptical_norms(x, arms), columns)

    @property
    def _regression(self) -> AdaptiveSGD:
        return cast(AdaptiveSGD, self._ensemble.regression)

    def _state_per_model(self) -> tuple[int, int]:
        return 0, 3
