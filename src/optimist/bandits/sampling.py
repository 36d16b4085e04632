"""Policies that play greedily on one random draw of the parameters: LinTS, LinPHE and ensemble sampling.

Each adds ``beta <x, w>`` to the mean, its sign kept, with one w per decision; they differ in the law of w. They are the
nearest relatives of ACB, which takes the largest magnitude over M of them.
"""

from typing import cast, final

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled.streams import Streams, uniforms
from optimist.bandits.ensembles import IncrementalEnsemble, PerturbedEnsemble, RerandomizedEnsemble, prior_columns
from optimist.bandits.learners import Evaluation
from optimist.bandits.policy import Policy
from optimist.bandits.probabilities import Chances, by_draws, shared_by_best
from optimist.bandits.regression import exact_least_squares
from optimist.bandits.sgd import ADAPTIVE, AdaptiveSGD, Solver
from optimist.checks import require_choice, require_count, require_number
from optimist.compiling import Floats, Integers


@final
class LinTS(Policy):
    """Plays the largest of ``<x, theta + beta w>`` with ``w ~ N(0, Sigma^-1)`` fresh for every decision.

    That is a re-randomized ensemble of one member, its sign kept.
    Reference: Agrawal and Goyal, *Thompson sampling for contextual bandits with linear payoffs* (2013).
    """

    def __init__(
        self,
        n_features: int,
        *,
        beta: float = 0.3,
        ridge: float = 1.0,
        decay: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, decay, dtype, seed)
        self.beta = require_number("beta", beta, least=0, why="it is the standard deviation of the samples")
        self._start()

    def _begin(self, learners: int, models: int) -> RerandomizedEnsemble:
        return RerandomizedEnsemble(learners, models, self.n_features, 1, self.ridge, self.decay)

    def _evaluate(self, x: Floats, arms: Integers, streams: Streams) -> Evaluation:
        mean, deviations, columns = self._read(x, arms, streams)
        return Evaluation(mean, self.beta * deviations[..., 0], columns)

    def _chances(self, x: Floats, arms: Integers, allowed: NDArray[np.bool_], streams: Streams, draws: int) -> Chances:
        ensemble = cast(RerandomizedEnsemble, self._ensemble)
        return by_draws(ensemble, 1, lambda w: self.beta * w[..., 0], x[0], arms, allowed, streams, draws)

    @property
    def _draws_for_every_decision(self) -> bool:
        return True

    def _state_per_model(self) -> tuple[int, int]:
        return 2, 1


@final
class LinPHE(Policy):
    """Plays greedily on the rewards of the whole history, each perturbed by fresh noise ``beta z``, ``z ~ N(0, 1)``.

    ``theta~ = Sigma^-1 sum x (r + beta z)``. Unlike in LinTS the prior is not perturbed.
    Reference: Kveton et al., *Perturbed-history exploration in stochastic linear bandits* (2019).
    Deviation: Gaussian noise in place of the Bernoulli pseudo-rewards, which need rewards in [0, 1].
    """

    def __init__(
        self,
        n_features: int,
        *,
        beta: float = 0.5,
        ridge: float = 1.0,
        decay: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, decay, dtype, seed)
        self.beta = require_number("beta", beta, least=0, why="it is the standard deviation of the perturbations")
        self._start()

    def _begin(self, learners: int, models: int) -> PerturbedEnsemble:
        return PerturbedEnsemble(learners, models, self.n_features, self.ridge, self.decay)

    def _evaluate(self, x: Floats, arms: Integers, streams: Streams) -> Evaluation:
        mean, deviations, columns = self._read(x, arms, streams)
        return Evaluation(mean, self.beta * deviations[..., 0], columns)

    def _chances(self, x: Floats, arms: Integers, allowed: NDArray[np.bool_], streams: Streams, draws: int) -> Chances:
        ensemble = cast(PerturbedEnsemble, self._ensemble)
        return by_draws(ensemble, 1, lambda w: self.beta * w[..., 0], x[0], arms, allowed, streams, draws)

    @property
    def _draws_for_every_decision(self) -> bool:
        return True

    def _state_per_model(self) -> tuple[int, int]:
        return 2, 1


@final
class EnsembleSampling(Policy):
    """Plays greedily on one member, ``<x, theta + beta w^(J)>``, J drawn uniformly for every decision.

    A model trained on rewards with noise ``beta y`` added is, by linearity, theta plus beta times ACB's regressor of
    that noise: the ensemble is ACB's, only used otherwise, and has its solvers.
    Reference: Lu and Van Roy, *Ensemble sampling* (2017).
    """

    def __init__(
        self,
        n_features: int,
        *,
        ensemble_size: int = 32,
        beta: float = 0.3,
        ridge: float = 1.0,
        solver: Solver = "exact",
        decay: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, decay, dtype, seed)
        self.solver = require_choice("solver", solver, Solver)
        self.ensemble_size = require_count("ensemble_size", ensemble_size)
        self.beta = require_number("beta", beta, least=0, why="it is the scale of the noise in the models")
        self._start()

    def _begin(self, learners: int, models: int) -> IncrementalEnsemble:
        d, size, ridge, decay = self.n_features, self.ensemble_size, self.ridge, self.decay
        if self.solver == "sgd":
            steps, dtype, streams = ADAPTIVE, self.dtype, self._streams
            regression = AdaptiveSGD(learners, models, d, 1 + size, ridge, decay, steps, dtype, streams)
            return IncrementalEnsemble(regression, size)
        initial = prior_columns(self._streams, models, d, size, ridge, self.dtype)
        return IncrementalEnsemble(exact_least_squares(initial, ridge, decay), size)

    def _evaluate(self, x: Floats, arms: Integers, streams: Streams) -> Evaluation:
        mean, deviations, columns = self._read(x, arms, streams)
        member = (uniforms(streams, x.shape[1]) * self.ensemble_size).astype(np.int64)  # J, (l, b)
        return Evaluation(
            mean, self.beta * np.take_along_axis(deviations, member[:, :, None, None], axis=3)[..., 0], columns
        )

    def _chances(self, x: Floats, arms: Integers, allowed: NDArray[np.bool_], streams: Streams, draws: int) -> Chances:
        mean, deviations, _ = self._read(x, arms, streams)
        scores = (mean[..., None] + self.beta * deviations)[0].swapaxes(1, 2)  # of every member, (b, M, n)
        return Chances(shared_by_best(scores, allowed[:, None]).mean(axis=1), is_counted=False)

    @property
    def _draws_for_every_decision(self) -> bool:
        return True

    def _state_per_model(self) -> tuple[int, int]:
        return (1, 1 + self.ensemble_size) if self.solver == "exact" else (0, 3 + self.ensemble_size)
