"""The trials of simulations, split over the workers of an executor and put together again."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

from optimist.bandits import Simulation
from optimist.studies.attempts import Status, attempted
from optimist.studies.executors import Workers

Plan = TypeVar("Plan")
Played = tuple[Simulation, float]
"""Trials, and the seconds that they took on one core."""


@dataclass(frozen=True)
class Part(Generic[Plan]):
    """Some of the trials of a plan."""

    index: int
    """The plan's place among all."""
    plan: Plan
    first_trial: int
    trials: int


def parts_of(index: int, plan: Plan, trials: int, count: int) -> list[Part[Plan]]:
    """The trials of a plan in ``count`` parts of nearly the same size, in fewer if there are fewer trials."""
    edges = [trials * k // min(count, trials) for k in range(min(count, trials) + 1)]
    return [Part(index, plan, first, end - first) for first, end in pairwise(edges)]


def simulate_all(
    plans: Sequence[Plan],
    trials: int,
    play: Callable[[Plan, int, int], Played],
    workers: Workers,
    *,
    retries: int,
    tell: Callable[[Plan, str], None],
) -> list[Played]:
    """``play(plan, first trial, trials)`` of every plan, in order, each in as many parts as keep all workers busy.

    A trial depends on its index and not on the part that it is in, so the result does not depend on the workers.
    ``tell`` hears of each plan that is done, and, in words, of where the others are played.
    """
    parts = [
        part
        for index, plan in enumerate(plans)
        for part in parts_of(index, plan, trials, math.ceil(workers.size / len(plans)))
    ]
    found: dict[int, dict[int, Played]] = {index: {} for index in range(len(plans))}
    missing = [sum(part.index == index for part in parts) for index in range(len(plans))]
    status = Status()

    def watch(now: Status, _: Sequence[Part[Plan]]) -> None:
        nonlocal status
        status = now

    done = attempted(
        parts,
        lambda part, _: workers.submit(play, part.plan, part.first_trial, part.trials),
        workers,
        retries=retries,
        watch=watch,
    )
    for part, future in done:
        found[part.index][part.first_trial] = future.result()
        if len(found[part.index]) == missing[part.index]:
            tell(part.plan, f", {status}" if workers.size > 1 and str(status) else "")
    return [put_together([found[index][first] for first in sorted(found[index])]) for index in range(len(plans))]


def put_together(parts: Sequence[Played]) -> Played:
    """All trials, and the seconds that they took."""
    return Simulation.joined([simulation for simulation, _ in parts]), sum(seconds for _, seconds in parts)
