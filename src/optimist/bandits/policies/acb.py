"""ACB: anti-concentrated confidence bonuses for linear bandits, the paper's Algorithms 1 and 3."""

from typing import Literal, final

import numpy as np

from optimist.bandits import inputs, kernels
from optimist.bandits.arrays import Floats
from optimist.bandits.policies.ensembles import (
    Ensemble,
    IncrementalEnsemble,
    LazyEnsemble,
    RerandomizedEnsemble,
    prior_columns,
)
from optimist.bandits.policies.policy import Policy, Question
from optimist.bandits.regression import PolyakSGD, RecursiveLeastSquares, Regression
from optimist.bandits.theory import LAZY_GAMMA

History = Literal["incremental", "rerandomized", "lazy"]
Solver = Literal["exact", "sgd"]
Aggregate = Literal["max", "rms"]


@final
class ACB(Policy):
    """Plays the largest of ``<x, theta> + beta max_m |<x, w^(m)>|``, the w^(m) being trained to predict noise.

    ``solver="sgd"`` needs O(M d) memory and time and is the only one without a d x d matrix; it is for the
    incremental history. ``aggregate="rms"`` is the root of the mean square in place of the maximum (as in Vowpal
    Wabbit's --rnd): it follows LinUCB's elliptical bonus more closely and is less optimistic.
    ``gamma`` is Algorithm 3's, for the lazy history; by default the theorem's ``beta^2 pi log(2) / 2``.
    Paper: Algorithm 1 (incremental, rerandomized), Algorithm 3 (lazy).
    """

    def __init__(
        self,
        n_features: int,
        *,
        history: History = "incremental",
        ensemble_size: int = 32,
        beta: float = 0.3,
        ridge: float = 1.0,
        solver: Solver = "exact",
        aggregate: Aggregate = "max",
        learning_rate: float = 1.0,
        is_implicit: bool = True,
        gamma: float | None = None,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, dtype, seed)
        self.history = inputs.require_choice("history", history, ("incremental", "rerandomized", "lazy"))
        self.ensemble_size = inputs.require_count("ensemble_size", ensemble_size)
        self.beta = inputs.require_not_negative("beta", beta, "it scales the bonus")
        self.solver = inputs.require_choice("solver", solver, ("exact", "sgd"))
        self.aggregate = inputs.require_choice("aggregate", aggregate, ("max", "rms"))
        self.learning_rate = inputs.require_positive("learning_rate", learning_rate, "it is the step of solver='sgd'")
        self.is_implicit = bool(is_implicit)
        self.gamma = None if gamma is None else inputs.require_positive("gamma", gamma, "it sets how long lazy holds")
        if solver == "sgd" and history != "incremental":
            raise ValueError(
                f"solver='sgd' needs history='incremental', got {history!r}: fresh targets for the whole past need a "
                "d x d factor; use solver='exact'"
            )
        if history == "lazy" and gamma is None and beta == 0:
            raise ValueError("history='lazy' holds an action for gamma / bonus^2 rounds, so it needs beta > 0, got 0")
        self._start()

    @property
    def rerandomizations(self) -> int:
        """How often the lazy history has drawn fresh targets; to be held against the theorem's bound."""
        if not isinstance(self._ensemble, LazyEnsemble):
            raise AttributeError(f"rerandomizations are counted for history='lazy', this one is {self.history!r}")
        return int(self._ensemble.rerandomizations[0])

    def _begin(self, learners: int, models: int) -> Ensemble:
        if self.history == "incremental":
            return IncrementalEnsemble(self._make_regression(learners, models))
        fresh = RerandomizedEnsemble(learners, models, self.n_features, self.ensemble_size, self.ridge)
        if self.history == "rerandomized":
            return fresh
        return LazyEnsemble(fresh, LAZY_GAMMA * self.beta**2 if self.gamma is None else self.gamma)

    def initial_columns(self) -> Floats:
        """Theta and members of the incremental history before any sample, (l, a, d, 1 + M)."""
        return self._ensemble.draw(self._streams.copy(), 1)[:, 0]

    def _make_regression(self, learners: int, models: int) -> Regression:
        initial = prior_columns(self._streams, models, self.n_features, self.ensemble_size, self.ridge, self.dtype)
        if self.solver == "exact":
            return RecursiveLeastSquares(initial, self.ridge)
        return PolyakSGD(initial, self.ridge, self.learning_rate, self.is_implicit)

    def _bonuses(self, question: Question) -> Floats:
        deviations = question.deviations
        if self.aggregate == "max":
            return self.beta * kernels.largest_magnitudes(deviations)
        return self.beta * np.sqrt(np.einsum("lbnm,lbnm->lbn", deviations, deviations) / self.ensemble_size)
