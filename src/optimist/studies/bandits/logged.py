"""Policies judged on the logs of another: by replay, as they learn, and by importance weights, once they have learned.

The logs are cut in two, in their order. On the first half beta is selected by replay, and a copy of the policy learns
all of it. On the second half the untrained policy is replayed (how well does it learn?), and the trained one is judged
as it stands, without playing (how good has it become?).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import cast

import numpy as np

from optimist.bandits import Noise, Policy, Problem, evaluation
from optimist.bandits.evaluation import Estimate, Logs
from optimist.reporting.tables import Row
from optimist.studies.bandits.comparison import BETAS, LINEUP, WITHOUT_BETA
from optimist.studies.study import Progress

UNTRIED = 0.3
"""Beta in units of the rewards' spread, where the first half is too short to select it."""
DRAWS = 200
"""Draws for the probabilities of policies that have no formula for them."""
LOGGED = "logged"
"""The name of what was played in the logs."""


@dataclass(frozen=True)
class Job:
    """One policy to judge, small enough to be sent to another process."""

    policy: str
    first: Logs
    second: Logs
    seed: int


@dataclass(frozen=True)
class Sizes:
    """What a policy must know of the logs."""

    n_features: int
    n_arms: int | None
    noise: Noise


def judge(logs: Logs, names: Sequence[str], seed: int, executor: Executor, progress: Progress) -> list[Row]:
    """One row per policy and method, the best first by the doubly robust estimate; the logged play among them."""
    half = len(logs) // 2
    if half < 10:
        raise ValueError(f"the logs have {len(logs)} decisions: at least 20 are needed to judge a policy")
    first, second = _part(logs, 0, half), _part(logs, half, len(logs))
    rows: list[list[Row]] = []
    for done, found in enumerate(executor.map(judged, [Job(name, first, second, seed) for name in names]), start=1):
        progress(done, len(names), f"{found[0]['policy']} judged")
        rows.append(found)
    rewards = second.rewards
    error = float(rewards.std(ddof=1) / np.sqrt(len(rewards)))
    mean = float(rewards.mean())
    own = Estimate(mean, error, mean - 1.96 * error, mean + 1.96 * error, len(rewards), 0.95)
    logged = [_row(LOGGED, float("nan"), "on the log", own)]
    order = sorted(rows, key=lambda found: -np.nan_to_num(found[-1]["value"], nan=-np.inf))
    return [row for found in [logged, *order] for row in found]


def judged(job: Job) -> list[Row]:
    """The estimates of one policy on the second half: replay, SNIPS, doubly robust."""
    beta = _selected(job)
    untrained = make(job.policy, job.first, beta)
    arm = None if job.first.n_arms is None else job.first.actions
    trained = untrained.copy().partial_fit(job.first.played, job.first.rewards, arm)
    found = [
        _row(job.policy, beta, "replay", _or_none(lambda: evaluation.replay(untrained, job.second, seed=job.seed)))
    ]
    chances = evaluation.target_probabilities(job.second, trained, DRAWS)
    found.append(_row(job.policy, beta, "snips", _or_none(lambda: evaluation.snips(job.second, chances))))
    robust = evaluation.doubly_robust(job.second, chances, seed=job.seed)
    return [*found, _row(job.policy, beta, "doubly robust", robust)]


def make(name: str, logs: Logs, beta: float) -> Policy:
    """The policy called ``name`` for these logs, with beta in units of the rewards' spread."""
    sizes = Sizes(logs.played.shape[1], logs.n_arms, Noise(float(logs.rewards.std()) or 1.0))
    return LINEUP[name](cast(Problem, sizes), beta)


def _selected(job: Job) -> float:
    """The beta with the largest mean reward in replays of the first half."""
    if job.policy in WITHOUT_BETA:
        return float("nan")
    values = {}
    for beta in BETAS:
        estimate = _or_none(lambda b=beta: evaluation.replay(make(job.policy, job.first, b), job.first, seed=job.seed))
        if estimate is not None:
            values[beta] = estimate.value
    return max(values, key=lambda beta: values[beta]) if values else UNTRIED


def _or_none(estimate: Callable[[], Estimate]) -> Estimate | None:
    try:
        return estimate()
    except ValueError:  # the policy never played what was logged
        return None


def _row(policy: str, beta: float, method: str, found: Estimate | None) -> Row:
    nan = float("nan")
    numbers = (nan, nan, nan, nan, 0.0) if found is None else (
        found.value, found.standard_error, found.low, found.high, found.effective_samples
    )  # fmt: skip
    names = ("value", "standard_error", "low", "high", "effective_samples")
    return {"policy": policy, "beta_over_noise": beta, "method": method} | dict(zip(names, numbers, strict=True))


def _part(logs: Logs, start: int, stop: int) -> Logs:
    mask = None if logs.mask is None else logs.mask[start:stop]
    rest = (array[start:stop] for array in (logs.actions, logs.rewards, logs.probabilities))
    return Logs(logs.X[start:stop], *rest, mask=mask, n_arms=logs.n_arms)  # pyrefly: ignore
