"""Who is compared: every policy under a short name, with the one width that scales its exploration."""

from collections.abc import Callable
from typing import TypedDict

from optimist.bandits import (
    ACB,
    DiagonalLinUCB,
    EnsembleSampling,
    EpsilonGreedy,
    Greedy,
    LinPHE,
    LinTS,
    LinUCB,
    Policy,
    Problem,
)

WIDTHS = (0.03, 0.1, 0.3, 1.0, 3.0)
"""The grid on which widths are selected, in units of the noise."""

Maker = Callable[[Problem, float], Policy]
"""Makes a policy for a problem, with a width (beta, scale or epsilon, as the policy has it)."""


class Sizes(TypedDict):
    """The arguments of a policy that come from the problem."""

    n_features: int
    n_arms: int | None


def _sizes(problem: Problem) -> Sizes:
    return {"n_features": problem.n_features, "n_arms": problem.n_arms}


def _scale(problem: Problem) -> float:
    """The unit of widths: the noise of the rewards; for noiseless labels, the spread of a 0/1 reward."""
    return problem.noise.sub_gaussian or 0.5


LINEUP: dict[str, Maker] = {
    "acb": lambda p, w: ACB(**_sizes(p), beta=w * _scale(p)),
    "acb-rms": lambda p, w: ACB(**_sizes(p), beta=w * _scale(p), aggregate="rms"),
    "acb-rerandomized": lambda p, w: ACB(**_sizes(p), beta=w * _scale(p), history="rerandomized"),
    "acb-lazy": lambda p, w: ACB(**_sizes(p), beta=w * _scale(p), history="lazy"),
    "acb-sgd": lambda p, w: ACB(**_sizes(p), beta=w * _scale(p), solver="sgd"),
    "linucb": lambda p, w: LinUCB(**_sizes(p), width=w * _scale(p)),
    "linucb-theory": lambda p, w: LinUCB(**_sizes(p), width="theory", sigma=_scale(p)),
    "lints": lambda p, w: LinTS(**_sizes(p), scale=w * _scale(p)),
    "linphe": lambda p, w: LinPHE(**_sizes(p), scale=w * _scale(p)),
    "ensemble-sampling": lambda p, w: EnsembleSampling(**_sizes(p), scale=w * _scale(p)),
    "diagonal-linucb": lambda p, w: DiagonalLinUCB(**_sizes(p), width=w * _scale(p)),
    "epsilon-greedy": lambda p, w: EpsilonGreedy(**_sizes(p), epsilon=min(1.0, 0.1 * w)),
    "greedy": lambda p, w: Greedy(**_sizes(p)),
}

WITHOUT_WIDTH = frozenset({"greedy", "linucb-theory"})
"""Policies that have no width to select."""
