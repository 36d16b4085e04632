"""Many trials of a policy on a problem at once: independent learners side by side, one random stream each.

Results do not depend on the number of threads, and trial i of a run does not depend on how many trials there are.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from optimist.bandits.acb import ACB
from optimist.bandits.compiled import multi_armed
from optimist.bandits.compiled.streams import Streams, make_streams
from optimist.bandits.policy import Policy
from optimist.bandits.problems import MultiArmed, Problem
from optimist.checks import require_count, require_seed
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

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """The simulation whose trials are those of ``parts``, one part after the other."""
        return cls(parts[0].rounds, np.concatenate([part.regret for part in parts]))


def simulate(
    policy: Policy,
    problem: Problem,
    *,
    horizon: int,
    trials: int,
    seed: int = 0,
    first_trial: int = 0,
    points: int = 100,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """The regret of fresh copies of ``policy`` on ``problem``; the policy passed in is not touched.

    ``policy.n_features`` is that of the problem; for a problem with arms, either one arm's with ``n_arms``, or all
    arms' together. ``first_trial`` leaves out the trials before it: those of 0 to 9 and of 10 to 19, from two calls,
    are the 20 of one call, see `Simulation.joined`. ``threads`` is all cores by default. ``progress`` is told (rounds
    done, rounds in all) now and then.
    """
    require_count("horizon", horizon), require_count("trials", trials), require_count("points", points)
    require_seed(seed), require_count("first_trial", first_trial, least=0)
    threads = min(trials, require_count("threads", (os.cpu_count() or 1) if threads is None else threads))
    sizes = fitting_sizes(policy, problem)
    policy.spawn(policy.streams[:1], **sizes).require_fits(trials)
    rounds = evenly_spaced(horizon, points)

    def play(part: int) -> NDArray[np.float64]:
        indices = range(first_trial + part, first_trial + trials, threads)
        learners = policy.spawn(make_streams(split(seed, "policy"), indices), **sizes)
        streams = make_streams(split(seed, "problem"), indices)
        compiled = compiled_regret(learners, problem, streams, rounds)
        if compiled is not None:
            return compiled
        return play_rounds(learners, problem, indices, streams, rounds, progress if part == 0 else None)

    regret = np.empty((trials, len(rounds)))
    with ThreadPoolExecutor(threads) as pool:
        for part, result in enumerate(pool.map(play, range(threads))):
            regret[part::threads] = result
    return Simulation(rounds, regret)


def compiled_regret(
    policy: Policy, problem: Problem, streams: Streams, rounds: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """The same by the compiled loop: incremental ACB on Gaussian arms; None for all that it does not cover."""
    if not isinstance(policy, ACB) or policy.history != "incremental" or policy.aggregate != "max":
        return None
    if policy.decay < 1 or (policy.solver == "sgd" and policy.averaging != "uniform"):
        return None
    if not isinstance(problem, MultiArmed) or problem.noise.kind != "gaussian" or policy.dtype != "float64":
        return None
    step = 1.0  # the average of the targets themselves is the exact fit
    if policy.solver == "sgd":
        step = policy.learning_rate / (1 + policy.learning_rate if policy.is_implicit else 1)
    columns = policy.initial_columns()[:, :, 0]
    own_streams, noise = policy.streams, problem.noise.scale
    return multi_armed.play(
        columns, problem.means, noise, policy.beta, policy.ridge, step, own_streams, streams, rounds
    )


def play_rounds(
    learners: Policy,
    problem: Problem,
    trials: Sequence[int],
    streams: Streams,
    rounds: NDArray[np.int64],
    progress: Progress | None,
) -> NDArray[np.float64]:
    """The cumulative regret of the learners, one per trial, after each of ``rounds``, (l, points)."""
    every_learner = np.arange(len(trials))
    total = np.zeros(len(trials))
    regret = np.empty((len(trials), len(rounds)))
    point = 0
    for t in range(1, int(rounds[-1]) + 1):
        x, means = problem.deal(trials, streams, t - 1)
        actions = learners.play(x)
        mean = means[every_learner % len(means), actions]
        rewards = problem.noise.rewards(mean, streams)
        learners.learn(x[every_learner % len(x), actions % x.shape[1]], actions, rewards)
        total += means.max(axis=1) - mean
        if t == rounds[point]:
            regret[:, point] = total
            point += 1
            if progress is not None:
                progress(t, int(rounds[-1]))
    return regret


def evenly_spaced(horizon: int, points: int) -> NDArray[np.int64]:
    """About ``points`` rounds up to the horizon, the horizon included, (points,)."""
    points = min(points, horizon)
    return np.unique(np.linspace(horizon / points, horizon, points).round().astype(np.int64))


def fitting_sizes(policy: Policy, problem: Problem) -> dict[str, int | None]:
    """The policy's sizes for the problem: with arms, the block-diagonal form of the same model.

    One-hot and disjoint features make a block-diagonal covariance, so a policy over all of them is one model per arm.
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
