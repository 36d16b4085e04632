"""Many trials of a policy on a problem at once: independent learners side by side, one random stream each.

Results do not depend on the number of threads, and trial i of a run does not depend on how many trials there are.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from optimist.bandits import multi_armed
from optimist.bandits.inputs import require_count
from optimist.bandits.policies import Policy
from optimist.bandits.problems import Problem
from optimist.bandits.streams import make_streams
from optimist.seeding import split

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Simulation:
    """The regret of every trial along the way."""

    rounds: NDArray[np.int64]
    """The rounds after which the regret was noted, (points,)."""
    regret: NDArray[np.float64]
    """The cumulative regret R(t), (trials, points)."""

    @property
    def final(self) -> NDArray[np.float64]:
        """R(T) of every trial, (trials,)."""
        return self.regret[:, -1]


def simulate(
    policy: Policy,
    problem: Problem,
    *,
    horizon: int,
    trials: int,
    seed: int,
    points: int = 100,
    progress: Progress | None = None,
) -> Simulation:
    """The regret of fresh copies of ``policy`` on ``problem``; the policy passed in is not touched.

    ``policy.n_features`` is that of the problem; for a problem with arms, either one arm's with ``n_arms``, or all
    arms' together. ``progress`` is told (rounds done, rounds in all) now and then.
    """
    require_count("horizon", horizon), require_count("trials", trials)
    learners = policy.spawn(make_streams(split(seed, "policy"), trials), **fitting_sizes(policy, problem))
    streams = make_streams(split(seed, "problem"), trials)
    rounds = np.unique(np.linspace(horizon / min(points, horizon), horizon, min(points, horizon)).round().astype(np.int64))
    if multi_armed.applies(learners, problem):
        return Simulation(rounds, multi_armed.play(learners, problem, streams, rounds))
    every_trial = np.arange(trials)
    total = np.zeros(trials)
    regret = np.empty((trials, len(rounds)))
    point = 0
    for t in range(1, horizon + 1):
        x, means = problem.deal(streams)
        actions = learners.play(x)
        mean = means[every_trial % len(means), actions]
        learners.learn(
            x[every_trial % len(x), actions % x.shape[1]], actions, problem.noise.rewards(mean, streams)
        )
        total += means.max(axis=1) - mean
        if t == rounds[point]:
            regret[:, point] = total
            point += 1
            if progress is not None:
                progress(t, horizon)
    return Simulation(rounds, regret)


def fitting_sizes(policy: Policy, problem: Problem) -> dict[str, int | None]:
    """The policy's sizes for the problem: with arms, the block-diagonal form of the same model.

    One-hot and disjoint features make a block-diagonal covariance, so a policy over all of them is one model an arm.
    """
    sizes = (policy.n_features, policy.n_arms)
    if sizes == (problem.n_features, problem.n_arms):
        return {}
    if problem.n_arms is not None and sizes == (problem.n_features * problem.n_arms, None):
        return {"n_features": problem.n_features, "n_arms": problem.n_arms}
    arms = "" if problem.n_arms is None else f", n_arms={problem.n_arms}"
    raise ValueError(
        f"the problem has n_features={problem.n_features}{arms}; the policy has n_features={policy.n_features}, "
        f"n_arms={policy.n_arms}: make it with the sizes of the problem"
    )
