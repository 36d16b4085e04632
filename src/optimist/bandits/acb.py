"""ACB: anti-concentrated confidence bonuses for linear bandits, the paper's Algorithm 1 and Algorithm 3.

Read ``ACB._begin`` and ``ACB._evaluate`` beside Algorithm 1, and ``LazyEnsemble`` beside Algorithm 3: comments name the
lines. Letters in shapes are those of ``compiled``; the paper's j is m here.
"""

from typing import ClassVar, Literal, cast, final

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled.linear import largest_magnitudes
from optimist.bandits.compiled.streams import Streams
from optimist.bandits.ensembles import Ensemble, IncrementalEnsemble, RerandomizedEnsemble, prior_columns
from optimist.bandits.learners import Evaluation
from optimist.bandits.policy import Policy
from optimist.bandits.probabilities import Chances, by_draws
from optimist.bandits.regression import (
    ExactLeastSquares,
    FadingLeastSquares,
    Regression,
    exact_least_squares,
    read_columns,
)
from optimist.bandits.sgd import ADAPTIVE, AdaptiveSGD, PolyakSGD, Solver, Steps
from optimist.bandits.storage import Arrays
from optimist.bandits.theory import LAZY_GAMMA
from optimist.checks import require_choice, require_count, require_number, require_positive
from optimist.compiling import Floats, Integers

History = Literal["incremental", "rerandomized", "lazy"]
Aggregate = Literal["max", "rms"]
Averaging = Literal["none", "uniform"]


@final
class ACB(Policy):
    """Plays the largest of ``<x, theta> + beta max_m |<x, w^(m)>|``, the w^(m) being trained to predict noise.

    ``solver="sgd"`` has no d x d matrix: a step of O(M) per non-zero feature, sized by the members' own deviations
    (``sgd.AdaptiveSGD``; ``learning_rate`` multiplies it); it is for the incremental history, and takes sparse rows as
    they are. ``averaging="uniform"`` is the paper's instead: steps of a constant ``learning_rate`` and their Polyak
    average, implicit ones unless ``is_implicit=False``.
    ``aggregate="rms"`` is the root of the mean square in place of the maximum (as in Vowpal Wabbit's --rnd): it follows
    LinUCB's elliptical bonus more closely and is less optimistic.
    ``gamma`` is Algorithm 3's, for the lazy history; by default the theorem's ``beta^2 pi log(2) / 2``.
    Paper: Algorithm 1 (incremental, rerandomized), Algorithm 3 (lazy).
    """

    ADJUSTABLE: ClassVar[frozenset[str]] = frozenset({"beta", "aggregate", "gamma", "learning_rate", "is_implicit"})

    def __init__(
        self,
        n_features: int,
        *,
        history: History = "incremental",
        ensemble_size: int = 32,
        beta: float = 0.3,
        ridge: float = 1.0,
        decay: float = 1.0,
        solver: Solver = "exact",
        aggregate: Aggregate = "max",
        averaging: Averaging = "none",
        learning_rate: float = 1.0,
        is_implicit: bool = True,
        gamma: float | None = None,
        n_arms: int | None = None,
        dtype: str = "float64",
        seed: int = 0,
    ):
        super().__init__(n_features, n_arms, ridge, decay, dtype, seed)
        self.history = require_choice("history", history, History)
        self.ensemble_size = require_count("ensemble_size", ensemble_size)
        self.beta = require_number("beta", beta, least=0, why="it scales the bonus")
        self.solver = require_choice("solver", solver, Solver)
        self.aggregate = require_choice("aggregate", aggregate, Aggregate)
        self.averaging = require_choice("averaging", averaging, Averaging)
        self.learning_rate = require_positive("learning_rate", learning_rate, "it is the step of solver='sgd'")
        self.is_implicit = bool(is_implicit)
        self.gamma = None if gamma is None else require_positive("gamma", gamma, "it sets how long lazy holds")
        if solver == "sgd" and history != "incremental":
            raise ValueError(
                f"solver='sgd' needs history='incremental', got {history!r}: fresh targets for the whole past need a "
                "d x d factor; use solver='exact'"
            )
        if averaging == "uniform" and self.decay < 1:
            raise ValueError(f"averaging='uniform' forgets nothing, got decay={decay}: use averaging='none'")
        if averaging == "none" and not is_implicit:
            raise ValueError("is_implicit=False is a choice of averaging='uniform': steps of 'none' are all implicit")
        if history == "lazy" and gamma is None and beta == 0:
            raise ValueError("history='lazy' holds an action for gamma / bonus^2 rounds, so it needs beta > 0, got 0")
        self._start()

    # Algorithm 1. Line 2, "for t = 1, ..., T", is the user's loop over ``predict`` and ``partial_fit``.

    def _begin(self, learners: int, models: int) -> Ensemble:
        d, size = self.n_features, self.ensemble_size
        if self.history == "incremental":
            # Line 1: the targets y ~ N(0, 1) of the warm-start features sqrt(ridge) e_i are fitted by y / sqrt(ridge).
            if self.solver == "sgd" and self.averaging == "none":
                regression = AdaptiveSGD(
                    learners, models, d, 1 + size, self.ridge, self.decay, self._steps, self.dtype, self._streams
                )
                return IncrementalEnsemble(regression, size)
            initial = prior_columns(self._streams, models, d, size, self.ridge, self.dtype)
            if self.solver == "exact":
                return IncrementalEnsemble(exact_least_squares(initial, self.ridge, self.decay), size)
            return IncrementalEnsemble(PolyakSGD(initial, self.ridge, self.learning_rate, self.is_implicit), size)
        # Line 1: line 5 draws these targets anew in every round, so that only Sigma = ridge I is to be kept of them.
        fresh = RerandomizedEnsemble(learners, models, d, size, self.ridge, self.decay)
        if self.history == "rerandomized":
            return fresh
        return LazyEnsemble(fresh, self._lazy_gamma)

    def _evaluate(self, x: Floats, arms: Integers, streams: Streams) -> Evaluation:
        # Line 3: x holds the features of the actions.
        # Line 4: theta is column 0. Lines 5 and 6: the members w^(m) are the other columns. The incremental ensemble
        #   drew their targets and fitted them when the last sample came; the re-randomized one draws them here.
        predictions, columns = self._ensemble.read(x, arms, streams)
        mean, deviations = predictions[..., 0], predictions[..., 1:]  # <x, theta>, <x, w^(m)>
        # Line 7: the bonus of every action.
        bonus = self._bonus_of(deviations)
        # Line 8: ``predict`` returns the arg max of mean + bonus.
        # Line 9: ``partial_fit`` observes the reward and hands it to ``update`` of the ensemble.
        return Evaluation(mean, bonus, columns)

    def _bonus_of(self, deviations: Floats) -> Floats:
        """``beta max_m |<x, w^(m)>|``, or the root of their mean square. Shapes: (l, b, n, m) -> (l, b, n)."""
        if self.aggregate == "max":
            return self.beta * largest_magnitudes(deviations)
        # not in the paper
        return self.beta * np.sqrt(np.einsum("lbnm,lbnm->lbn", deviations, deviations) / self.ensemble_size)

    # Its randomness, what is there to look at, and its size --------------------------------------------------------

    def _chances(self, x: Floats, arms: Integers, allowed: NDArray[np.bool_], streams: Streams, draws: int) -> Chances:
        ensemble = self._ensemble
        if isinstance(ensemble, LazyEnsemble) and ensemble.rounds_left[0] <= 0:
            ensemble = ensemble.current
        if not isinstance(ensemble, RerandomizedEnsemble):
            return super()._chances(x, arms, allowed, streams, draws)
        return by_draws(ensemble, self.ensemble_size, self._bonus_of, x[0], arms, allowed, streams, draws)

    @property
    def _draws_for_every_decision(self) -> bool:
        return self.history == "rerandomized"

    def _adjusted(self) -> None:
        if isinstance(self._ensemble, LazyEnsemble):
            self._ensemble.gamma = self._lazy_gamma
        elif isinstance(descent := self._ensemble.regression, PolyakSGD):
            descent.learning_rate, descent.is_implicit = self.learning_rate, self.is_implicit
        elif isinstance(descent, AdaptiveSGD):
            descent.steps = self._steps

    @property
    def _steps(self) -> Steps:
        return ADAPTIVE._replace(gain=ADAPTIVE.gain * self.learning_rate)

    def _is_kept_sparse(self, n_arms: int | None) -> bool:
        return self.averaging == "none" and super()._is_kept_sparse(n_arms)

    @property
    def _lazy_gamma(self) -> float:
        return LAZY_GAMMA * self.beta**2 if self.gamma is None else self.gamma

    @property
    def rerandomizations(self) -> int:
        """How often the lazy history has drawn fresh targets; to be held against the theorem's bound."""
        if not isinstance(self._ensemble, LazyEnsemble):
            raise AttributeError(f"rerandomizations are counted for history='lazy', this one is {self.history!r}")
        return int(self._ensemble.rerandomizations[0])

    def initial_columns(self) -> Floats:
        """Theta and members of the incremental history before any sample, (l, a, d, 1 + M)."""
        return cast(Regression, self._ensemble.regression).columns

    def _state_per_model(self) -> tuple[int, int]:
        if self.history == "incremental":
            if self.solver == "exact":
                return 1, 1 + self.ensemble_size
            return 0, 2 * (1 + self.ensemble_size) + 1 if self.averaging == "uniform" else 3 + self.ensemble_size
        return (2, 1) if self.history == "rerandomized" else (2, 2 + self.ensemble_size)


class LazyEnsemble:
    """Algorithm 3: theta and the members stand still for ``omega = ceil(gamma / bonus^2)`` rounds, then are drawn anew.

    With a fixed action set the same action is then played omega times, as the algorithm asks. With a changing one the
    frozen columns score the new actions, which the theorem does not cover.
    Paper: Algorithm 3, Theorem 2. Deviation: indices slip in three of its lines. Line 9 reads ``w_tau`` before line 12
    has set tau to t: ``w_t`` is meant. Line 14 plays ``a_tau`` and line 15 rewards ``s_t``: ``s_tau``, the action of
    the last update, is meant in both, as in the proof; see docs/deviations.md (B4).
    """

    remembers_decisions = True
    reads_sparse = False

    def __init__(self, current: RerandomizedEnsemble, gamma: float):
        self.current = current  # line 1, and the history
        self.gamma = gamma
        learners, arms, d, _ = current.regression.columns.shape
        self.frozen = np.zeros((learners, arms, d, 1 + current.size))  # theta and w of round tau (line 2)
        self.rounds_left = np.zeros(learners, np.int64)  # line 3: omega = 0
        self.rerandomizations = np.zeros(learners, np.int64)

    def make_room(self, saved: Arrays) -> None:
        """The layout is always the same."""

    def read(self, x: Floats, arms: Integers, streams: Streams) -> tuple[Floats, Floats]:
        """The answers of the frozen columns, or of fresh ones, and these."""
        columns = self.draw(streams, x.shape[1])
        return read_columns(x, arms, columns), columns

    def draw(self, streams: Streams, decisions: int) -> Floats:
        """The frozen columns, or fresh ones for learners that have no rounds left, (l, 1, a, d, 1 + M)."""
        due = self.rounds_left <= 0  # line 5: if omega = 0
        if not due.any():
            return self.frozen[:, None]
        kept = streams[~due].copy()  # who is not due draws nothing
        fresh = self.current.draw(streams, 1)  # lines 6 to 8: theta, targets, members
        streams[~due] = kept
        return np.where(due[:, None, None, None, None], fresh, self.frozen[:, None])

    # Lines 9 and 10, the bonuses and their arg max s_t, are ``ACB._evaluate`` and ``Policy.predict``. Line 14, play
    # s_tau, needs no code: frozen columns score the same actions alike, so that ``predict`` chooses s_tau again.

    def commit(self, columns: Floats, bonuses: Floats, chosen: Integers) -> None:
        """Freezes the columns, sets omega from the bonus of the first action chosen, counts the rounds played."""
        due = self.rounds_left <= 0
        with np.errstate(divide="ignore"):
            omega = np.ceil(self.gamma / bonuses[due, 0, chosen[due, 0]] ** 2)  # line 11
        self.rounds_left[due] = np.minimum(omega, 2.0**62).astype(np.int64)
        self.frozen[due] = columns[due, 0]  # line 12: tau = t
        self.rerandomizations += due
        self.rounds_left -= chosen.shape[1]  # line 16: decrease omega, once per decision

    def update(self, x: Floats, arms: Integers, rewards: Floats, streams: Streams) -> None:
        """Line 15: the reward joins the history. Shapes: x (l, s, d), arms and rewards (l, s)."""
        self.current.update(x, arms, rewards, streams)

    @property
    def regression(self) -> ExactLeastSquares | FadingLeastSquares:
        """The running estimate of the rewards, which decisions see when they are next drawn anew."""
        return self.current.regression

    @property
    def arrays(self) -> Arrays:
        """The running state, what is frozen of it, and for how long."""
        counts = {"rounds_left": self.rounds_left, "rerandomizations": self.rerandomizations}
        return self.current.arrays | {"frozen": self.frozen} | counts
