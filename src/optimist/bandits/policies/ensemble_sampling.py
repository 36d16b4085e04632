"""Ensemble sampling: Thompson sampling from the members of an incremental ensemble."""

from typing import final

import numpy as np

from optimist.bandits import inputs
from optimist.bandits.arrays import Floats, Streams
from optimist.bandits.policies.ensembles import IncrementalEnsemble, prior_columns
from optimist.bandits.policies.policy import Policy, Question
from optimist.bandits.regression import RecursiveLeastSquares
from optimist.bandits.streams import uniforms


@final
class EnsembleSampling(Policy):
    """Plays greedily on one member, ``<x, theta + scale w^(J)>``, J drawn uniformly for every decision.

    A model trained on rewards with noise ``scale y`` added is, by linearity, theta plus scale times ACB's regressor of
    that noise: the ensemble is ACB's, only used otherwise.
    Reference: Lu and Van Roy, *Ensemble sampling* (2017).
    """

    def __init__(
        self,
        n_features: int,
        *,
        ensemble_size: int = 32,
        scale: float = 0.3,
        ridge: float = 1.0,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, dtype, seed)
        self.ensemble_size = inputs.require_count("ensemble_size", ensemble_size)
        self.scale = inputs.require_not_negative("scale", scale, "it is the scale of the noise in the models")
        self._start()

    def _begin(self, learners: int, models: int) -> IncrementalEnsemble:
        initial = prior_columns(self._streams, models, self.n_features, self.ensemble_size, self.ridge, self.dtype)
        return IncrementalEnsemble(RecursiveLeastSquares(initial, self.ridge))

    def _lots(self, streams: Streams, decisions: int, actions: int) -> Floats:
        """A number in [0, 1) for every decision, (l, b)."""
        return uniforms(streams, decisions)

    def _bonuses(self, question: Question) -> Floats:
        member = (question.lots * self.ensemble_size).astype(np.int64)
        return self.scale * np.take_along_axis(question.deviations, member[:, :, None, None], axis=3)[..., 0]
