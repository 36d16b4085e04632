"""The chance of every action under a policy's own randomness: by formula, or counted over draws.

Letters in shapes are those of ``compiled``; s counts draws, k directions.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled.streams import Streams, normals
from optimist.bandits.regression import Regression
from optimist.compiling import Floats, Integers

DRAWS = 1_000
"""How many draws the probabilities are counted over that have no formula: a standard deviation of at most 0.016."""

_AT_ONCE = 2**20  # numbers drawn at once


class Chances(NamedTuple):
    """The probability of every action, (b, n)."""

    values: NDArray[np.float64]
    is_counted: bool
    """Whether they are frequencies over draws, not exact."""


class GaussianMembers(Protocol):
    """An ensemble whose members are drawn from a Gaussian for every decision."""

    @property
    def regression(self) -> Regression:
        """What estimates the rewards."""
        ...

    def roots(self, x: Floats, arm: int) -> Floats:
        """L with ``L z ~ <x, w>`` jointly for z ~ N(0, I). Shapes: x (n, d) -> (n, k)."""
        ...


def shared_by_best(scores: Floats, allowed: NDArray[np.bool_]) -> NDArray[np.float64]:
    """1, shared evenly by the allowed actions of the largest score. Shapes: (..., n), (..., n) -> (..., n)."""
    best = np.where(allowed, scores, -np.inf).max(axis=-1, keepdims=True)
    ties = allowed & (scores == best)
    return ties / ties.sum(axis=-1, keepdims=True)


def by_draws(
    ensemble: GaussianMembers,
    members: int,
    bonus_of: Callable[[Floats], Floats],
    x: Floats,
    arms: Integers,
    allowed: NDArray[np.bool_],
    streams: Streams,
    draws: int,
) -> Chances:
    """How often each action has the largest score in ``draws`` draws of the members.

    What a decision sees of a member is ``<x, w>`` at its n actions, a Gaussian in n dimensions, so that is what is
    drawn: n numbers in place of d. Models of different arms are independent.
    Shapes: x (b, n|1, d), arms (n,), allowed (b|1, n); bonus_of: (1, s, n, m) -> (1, s, n).
    """
    chances = np.zeros((len(x), arms.size))
    theta = ensemble.regression.columns[0, :, :, 0]
    is_one_model = not arms.any()
    step = max(1, min(draws, _AT_ONCE // (arms.size * members)))
    for i, rows in enumerate(x):
        if is_one_model:
            # Equal actions tie exactly, which rounding must not decide: each of the different ones is drawn once.
            rows, place = np.unique(rows, axis=0, return_inverse=True)
            roots, mean = ensemble.roots(rows, 0), rows @ theta[0]
        else:
            rows, place = np.broadcast_to(rows, (arms.size, rows.shape[1])), arms
            roots = np.array([[np.linalg.norm(ensemble.roots(rows[a : a + 1], a))] for a in arms])
            mean = np.einsum("nd,nd->n", rows, theta[arms])
        directions = roots.shape[1] if is_one_model else arms.size
        for start in range(0, draws, step):
            drawn = min(step, draws - start)
            z = normals(streams, drawn * directions * members)[0].reshape(drawn, directions, members)
            deviations = roots @ z if is_one_model else roots * z
            scores = mean + bonus_of(np.ascontiguousarray(deviations[None]))[0]
            chances[i] += shared_by_best(scores[:, place.ravel()], allowed[i % len(allowed)]).sum(axis=0)
    return Chances(chances / draws, is_counted=True)
