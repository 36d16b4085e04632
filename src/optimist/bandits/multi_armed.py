"""The compiled multi-armed simulation of incremental ACB: a round touches only the pulled arm, O(M + A).

The numbers are those of the general path, drawn in the same order from the same streams: only the other arms, whose
estimates do not change, are not computed again. The general path is its oracle in the tests.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from optimist.bandits.arrays import Floats, Streams
from optimist.bandits.policies import ACB, Policy
from optimist.bandits.problems import MultiArmed, Problem
from optimist.bandits.streams import fill_normal, integer_below, normal


def regret(policy: Policy, problem: Problem, streams: Streams, rounds: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """The cumulative regret of every learner after each of ``rounds``, (l, points); None if not covered."""
    if not isinstance(policy, ACB) or policy.history != "incremental" or policy.aggregate != "max":
        return None
    if not isinstance(problem, MultiArmed) or problem.noise.kind != "gaussian" or policy.dtype != "float64":
        return None
    step = 1.0  # the average of the targets themselves is the exact fit
    if policy.solver == "sgd":
        step = policy.learning_rate / (1 + policy.learning_rate if policy.is_implicit else 1)
    columns = policy.initial_columns()[:, :, 0]
    noise, own_streams = problem.noise.scale, policy.streams
    return _play(columns, problem.means, noise, policy.beta, policy.ridge, step, own_streams, streams, rounds)


@njit(cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz"})
def _play(
    averages: Floats,
    means: Floats,
    noise: float,
    beta: float,
    ridge: float,
    step: float,
    own_streams: Streams,
    streams: Streams,
    rounds: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Shapes: averages (l, a, 1 + m), means (a,), rounds (points,) -> (l, points)."""
    learners, arms, targets = averages.shape
    regret = np.empty((learners, rounds.size))
    best_mean = means.max()
    for learner in range(learners):
        average = averages[learner].copy()
        iterate = average.copy()
        weight = np.full(arms, ridge)
        target = np.empty(targets)
        stream, own = streams[learner].copy(), own_streams[learner].copy()
        score = np.empty(arms)
        for arm in range(arms):
            score[arm] = _score(average[arm], beta)
        total = 0.0
        point = 0
        for t in range(1, rounds[-1] + 1):
            arm = _best(score, own)
            total += best_mean - means[arm]
            target[0] = means[arm] + noise * normal(stream)
            fill_normal(own, target[1:])
            weight[arm] += 1
            _descend(iterate[arm], average[arm], target, step, 1 / weight[arm])
            score[arm] = _score(average[arm], beta)
            if t == rounds[point]:
                regret[learner, point] = total
                point += 1
    return regret


@njit(cache=True, inline="always")
def _descend(iterate: Floats, average: Floats, target: Floats, step: float, share: float) -> None:
    for m in range(target.size):
        iterate[m] += step * (target[m] - iterate[m])
        average[m] += share * (iterate[m] - average[m])


@njit(cache=True, inline="always")
def _score(average: Floats, beta: float) -> float:
    """Mean and bonus; a diverged regression scores infinity, so that it is played and its regret is seen."""
    most = 0.0
    for m in range(1, average.size):
        most = max(most, abs(average[m]))
    score = average[0] + beta * most
    return score if score == score else np.inf


@njit(cache=True)
def _best(score: Floats, stream: Streams) -> int:
    """The arm of the largest score, ties broken at random."""
    best, arm, ties = score[0], 0, 1
    for a in range(1, score.size):
        if score[a] > best:
            best, arm, ties = score[a], a, 1
        elif score[a] == best:
            ties += 1
    if ties == 1:
        return arm
    left = integer_below(stream, ties)
    for a in range(score.size):
        if score[a] == best:
            if left == 0:
                return a
            left -= 1
    return arm
