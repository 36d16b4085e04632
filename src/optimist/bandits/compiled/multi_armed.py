"""The compiled multi-armed simulation of incremental ACB: a round touches only the pulled arm, O(M + A).

The numbers are those of the general path, drawn in the same order from the same streams: only the other arms, whose
estimates do not change, are not computed again. The general path is its oracle in the tests.
"""

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.compiled.streams import Streams, fill_normal, integer_below, normal
from optimist.compiling import Floats, compiled


@compiled(nogil=True, fastmath={"contract", "reassoc", "nsz"})
def play(
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
    """The cumulative regret of every learner after each of ``rounds``, (l, points).

    ``averages`` are theta and the members before any sample, ``step`` moves an iterate towards its target (1: the exact
    fit), ``own_streams`` are the learners', ``streams`` the problem's. Moves none of its arguments.
    Shapes: averages (l, a, 1 + m), means (a,), rounds (points,).
    """
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


@compiled(inline=True)
def _descend(iterate: Floats, average: Floats, target: Floats, step: float, share: float) -> None:
    for m in range(target.size):
        iterate[m] += step * (target[m] - iterate[m])
        average[m] += share * (iterate[m] - average[m])


@compiled(inline=True)
def _score(average: Floats, beta: float) -> float:
    """Mean and bonus; a diverged regression scores infinity, so that it is played and its regret is seen."""
    most = 0.0
    for m in range(1, average.size):
        most = max(most, abs(average[m]))
    score = average[0] + beta * most
    return score if score == score else np.inf


@compiled()
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
