"""The paper's formulas: ensemble sizes, widths, tail bounds and regret bounds, each named by its place in the paper.

Symbols: T ``horizon``, d ``n_features``, A ``n_actions``, ``delta`` the probability that a lemma fails, ``sigma`` the
sub-Gaussian scale of the noise, W ``theta_norm``, B ``feature_norm``, lambda ``ridge``, M ``ensemble_size``.
Where the paper's constants slip, the docstring says so and the valid constant stands beside it; see
docs/deviations.md.
"""

import math
from dataclasses import dataclass
from typing import Literal

from optimist.checks import require_choice, require_count, require_fraction, require_positive

History = Literal["rerandomized", "incremental", "lazy"]

LAZY_GAMMA = math.pi * math.log(2) / 2
"""``gamma / beta^2`` of Algorithm 3. Paper: Theorem 2 (lazy re-randomization), Lemmas 5 and 6."""


@dataclass(frozen=True)
class ACBParameters:
    """What the paper prescribes for a problem, and what it then guarantees with probability ``1 - 2 delta``."""

    history: str
    ensemble_size: int
    """M as the proposition states it."""
    sufficient_ensemble_size: int
    """M for which Lemma 1 does give the lower bound that the proof uses; about four times the stated one."""
    beta: float
    """The width of the bonus."""
    ridge: float
    """lambda = sigma^2 / W^2."""
    gamma: float | None
    """How long lazy ACB holds an action, ``omega = ceil(gamma / bonus^2)``; None for the other histories."""
    regret_bound: float
    """The right-hand side of the proof, constants included, for the sufficient ensemble size."""
    confidence: float
    """``1 - 2 delta``: the proofs spend delta on the confidence ellipsoid (Lemma 2) and delta on the maxima of the
    ensemble (Lemma 1). Deviation: the statements have ``1 - delta``."""
    is_potential_covered: bool
    """Whether ``lambda >= B^2``, for which the elliptical potential lemma holds as the proofs use it."""
    is_vacuous: bool
    """Whether the bound says no more than that a round costs at most ``2 W B``, or holds with no probability at all."""
    max_rerandomizations: int | None
    """How often lazy ACB may draw fresh targets; None for the other histories."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """What is to be known before the bound is believed, in sentences; empty where there is nothing."""
        said = []
        if not self.is_potential_covered:
            said.append(
                f"lambda = {self.ridge:.4g} is below B^2: the elliptical potential lemma does not cover it, so the "
                "regret bound is not proved; with sigma = W B, which bounds smaller noise too, it is"
            )
        if self.confidence <= 0:
            said.append("1 - 2 delta is not positive, so the bounds say nothing: choose delta < 0.5")
        elif self.is_vacuous:
            said.append(
                "the regret bound is vacuous at this horizon: no policy can lose more than 2 W B per round anyway"
            )
        return tuple(said)


def acb_parameters(
    *,
    horizon: int,
    n_features: int,
    n_actions: int,
    delta: float = 0.05,
    sigma: float = 1.0,
    theta_norm: float = 1.0,
    feature_norm: float = 1.0,
    history: History = "rerandomized",
) -> ACBParameters:
    """M, beta, lambda, gamma and the bounds for a problem.

    Paper: Proposition 1 (re-randomized), Proposition 2 (incremental; multi-armed, so d = A), Theorem 2 (lazy; fixed
    actions).
    """
    require_choice("history", history, History)
    t, d, a = (
        require_count("horizon", horizon),
        require_count("n_features", n_features),
        require_count("n_actions", n_actions),
    )
    require_fraction("delta", delta, "it is the probability that a bound fails")
    require_positive("sigma", sigma, "it is the sub-Gaussian scale of the noise")
    require_positive("theta_norm", theta_norm, "it bounds the norm of the true theta")
    require_positive("feature_norm", feature_norm, "it bounds the norm of the features")
    if history == "incremental" and d != a:
        raise ValueError(
            f"the incremental bound is for multi-armed bandits, where n_features = n_actions; got {d} and {a}: "
            "beyond them it is the paper's open question (optimist study linear-bandits measures it)"
        )
    try:
        parameters = _parameters(t, d, a, delta, sigma, theta_norm, feature_norm, history)
        if math.isfinite(parameters.beta) and math.isfinite(parameters.regret_bound):
            return parameters
    except (OverflowError, ZeroDivisionError):
        pass
    raise ValueError(
        "the bounds are too large or too small for floating-point numbers: choose a smaller horizon, a larger delta, "
        "or units in which sigma, theta_norm and feature_norm are of the order of 1"
    )


def _parameters(
    t: int, d: int, a: int, delta: float, sigma: float, theta_norm: float, feature_norm: float, history: History
) -> ACBParameters:
    ridge = sigma**2 / theta_norm**2
    width = confidence_width(t, d, delta, sigma, theta_norm, feature_norm, ridge)
    beta = width * math.sqrt(1 / LAZY_GAMMA) if history == "lazy" else width
    is_lazy = history == "lazy"
    sufficient = sufficient_ensemble_size(t, a, delta, history)
    bound = regret_bound(t, d, a, delta, beta, width, ridge, feature_norm, sufficient, history)
    return ACBParameters(
        history=history,
        ensemble_size=ensemble_size(t, a, delta, history),
        sufficient_ensemble_size=sufficient,
        beta=beta,
        ridge=ridge,
        gamma=LAZY_GAMMA * beta**2 if is_lazy else None,
        regret_bound=bound,
        confidence=1 - 2 * delta,
        is_potential_covered=ridge >= feature_norm**2,
        is_vacuous=bound >= 2 * theta_norm * feature_norm * t or 2 * delta >= 1,
        max_rerandomizations=max_rerandomizations(t, d, a, delta, ridge, feature_norm) if is_lazy else None,
    )


def ensemble_size(horizon: int, n_actions: int, delta: float, history: History) -> int:
    """M as stated: ``ceil(log(2T/delta))``, ``ceil(log(T/delta))``, ``ceil(log(AT/delta))``.

    Paper: Propositions 1 and 2, Theorem 2 (in this order).
    """
    inside = {"rerandomized": 2 * horizon, "incremental": horizon, "lazy": n_actions * horizon}[history]
    return max(1, math.ceil(math.log(inside / delta)))


def sufficient_ensemble_size(horizon: int, n_actions: int, delta: float, history: History) -> int:
    """The M of the paper with the constant that its proof needs: ``ceil(4 log(1/delta'))``.

    Lemma 1 at the failure probability delta' of one round gives ``max|z| >= sqrt(pi/2 (log(M/2) - loglog(1/delta')))``,
    and the proofs put ``sqrt(pi log(2) / 2)`` there, which holds from ``M = 4 log(1/delta')`` on. delta' is
    ``delta/2T`` (Proposition 1), ``delta/2AT`` in each of T rounds (Proposition 2), ``delta/2AT`` (Lemma 4).
    Deviation: the stated sizes lack the factor 4.
    """
    rounds = {"rerandomized": horizon, "incremental": n_actions * horizon**2, "lazy": n_actions * horizon}[history]
    return math.ceil(4 * math.log(2 * rounds / delta))


def confidence_width(
    horizon: int, n_features: int, delta: float, sigma: float, theta_norm: float, feature_norm: float, ridge: float
) -> float:
    """``beta-bar = sqrt(lambda) W + sqrt(2) sigma sqrt(d log(1 + T B^2 / (lambda d)) + log(T/delta))``.

    Paper: Lemma 3, which bounds the beta_t of Lemma 2 for all rounds.
    """
    information = log_det_bound(horizon, n_features, ridge, feature_norm) + math.log(horizon / delta)
    return math.sqrt(ridge) * theta_norm + math.sqrt(2) * sigma * math.sqrt(information)


def log_det_bound(horizon: int, n_features: int, ridge: float, feature_norm: float) -> float:
    """``d log(1 + T B^2 / (lambda d))``, a bound on ``log det(Sigma_T / lambda)``.

    Paper: the last step in the proof of Lemma 3. Deviation: the paper writes T B; the trace of the sum of x x' is
    bounded by T B^2.
    """
    return n_features * math.log1p(horizon * feature_norm**2 / (ridge * n_features))


def gaussian_maximum_lower(ensemble_size: int, delta: float) -> float:
    """``sqrt(pi/2) sqrt(log(M/2) - loglog(1/delta))``, which ``max_m |z_m|`` exceeds with probability 1 - delta.

    0 where the root is not real: then the lemma says nothing. Paper: Lemma 1, first inequality.
    """
    inside = math.log(ensemble_size / 2) - math.log(math.log(1 / delta))
    return math.sqrt(math.pi / 2 * max(0.0, inside))


def gaussian_maximum_upper(ensemble_size: int, delta: float) -> float:
    """``sqrt(2) (sqrt(log(2M)) + sqrt(log(1/delta)))``, which ``max_m |z_m|`` stays below with probability 1 - delta.

    Paper: Lemma 1, second inequality.
    """
    return math.sqrt(2) * (math.sqrt(math.log(2 * ensemble_size)) + math.sqrt(math.log(1 / delta)))


def regret_bound(
    horizon: int,
    n_features: int,
    n_actions: int,
    delta: float,
    beta: float,
    width: float,
    ridge: float,
    feature_norm: float,
    ensemble_size: int,
    history: History,
) -> float:
    """The bound on R(T) with its constants: ``(gamma_2 + beta-bar) sqrt(2 T log det)``; lazy: 2e times that.

    ``gamma_2`` is the upper bound of the bonus over the elliptical norm, from Lemma 1 over all actions and rounds
    (Lemma 4 for lazy: ``beta sqrt(8 log(2AT/delta))``).
    Paper: Lemma 3 and the proofs of Propositions 1 and 2; the proof of Theorem 2. Deviation: the statement of Lemma 3
    drops the sqrt(2) of its proof. Like the paper it takes the elliptical potential lemma for lambda >= B^2.
    """
    potential = math.sqrt(2 * horizon * log_det_bound(horizon, n_features, ridge, feature_norm))
    if history == "lazy":
        most = math.sqrt(8 * math.log(2 * n_actions * horizon / delta))
        return 2 * math.e * (most + math.sqrt(LAZY_GAMMA)) * beta * potential
    per_round = {"rerandomized": 2 * n_actions * horizon, "incremental": 2 * (n_actions * horizon) ** 2}[history]
    return (beta * gaussian_maximum_upper(ensemble_size, delta / per_round) + width) * potential


def max_rerandomizations(
    horizon: int, n_features: int, n_actions: int, delta: float, ridge: float, feature_norm: float
) -> int:
    """How often lazy ACB can re-randomize: ``2 log det / log(1 + pi log(2) / (16 log(2AT/delta)))``, and once to begin.

    Each re-randomization raises det(Sigma) by the factor of Lemma 5, and Lemma 3 bounds it.
    Paper: Theorem 2, last lines of the proof.
    """
    growth = math.log1p(LAZY_GAMMA / (8 * math.log(2 * n_actions * horizon / delta)))
    return 1 + math.floor(2 * log_det_bound(horizon, n_features, ridge, feature_norm) / growth)
