"""Policies side by side on one problem: widths selected on other trials, then the regret and the time of a round."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimist.bandits import Problem, Simulation, simulate
from optimist.reporting.tables import Row
from optimist.studies.lineup import LINEUP, WIDTHS, WITHOUT_WIDTH
from optimist.studies.outcome import Progress
from optimist.studies.workers import Pool

SELECTION_SEED = 1_000_000
"""Added to the seed of the run for the trials on which widths are selected."""


@dataclass(frozen=True)
class Budget:
    """How long and how often is played, and from which seeds."""

    horizon: int
    trials: int
    selection_trials: int
    """Other trials, on which each policy's width is selected; 0 takes the width 1 untried."""
    seed: int
    widths: tuple[float, ...] = WIDTHS


@dataclass(frozen=True)
class Entry:
    """One policy's result."""

    policy: str
    width: float
    simulation: Simulation
    microseconds: float
    """Wall time on one core of a round of one trial, decision and update, many trials side by side."""


@dataclass(frozen=True)
class Run:
    """One simulation, small enough to be sent to another process."""

    policy: str
    width: float
    problem: Problem
    horizon: int
    trials: int
    seed: int


def play(run: Run) -> Entry:
    """Simulates a run on one core."""
    policy = LINEUP[run.policy](run.problem, run.width)
    simulate(policy, run.problem, horizon=1, trials=1, seed=0, threads=1)  # compiles, if need be
    start = time.perf_counter()
    simulation = simulate(policy, run.problem, horizon=run.horizon, trials=run.trials, seed=run.seed, threads=1)
    seconds = time.perf_counter() - start
    return Entry(run.policy, run.width, simulation, 1e6 * seconds / (run.horizon * run.trials))


def compare(
    problem: Problem, selection: Problem, names: Sequence[str], budget: Budget, pool: Pool, progress: Progress
) -> list[Entry]:
    """The policies called ``names`` on the same trials of ``problem``, the best first.

    ``selection`` is the problem on which widths are selected: the same one, or other instances of its kind.
    """
    seed = budget.seed + SELECTION_SEED
    tries = [
        Run(name, width, selection, budget.horizon, budget.selection_trials, seed)
        for name in names
        for width in widths_to_try(name, budget)
    ]
    total = len(tries) + len(names)
    tried = []
    for done, entry in enumerate(pool.each(play, tries), start=1):
        progress(done, total, f"{entry.policy}, width {entry.width:g} tried")
        tried.append(entry)
    reports = [Run(n, best_width(n, tried), problem, budget.horizon, budget.trials, budget.seed) for n in names]
    entries = []
    for done, entry in enumerate(pool.each(play, reports), start=1 + len(tries)):
        progress(done, total, entry.policy)
        entries.append(entry)
    return sorted(entries, key=lambda entry: entry.simulation.final.mean())


def widths_to_try(name: str, budget: Budget) -> tuple[float, ...]:
    """The widths to select from; none for a policy without one, or without selection trials."""
    return () if name in WITHOUT_WIDTH or not budget.selection_trials else budget.widths


def best_width(name: str, tried: Sequence[Entry]) -> float:
    """The width with the smallest mean regret; 1 if none was tried."""
    mine = [entry for entry in tried if entry.policy == name]
    return min(mine, key=lambda entry: entry.simulation.final.mean()).width if mine else 1.0


def summary(entry: Entry) -> Row:
    """Regret with its standard error and quantiles, the width selected, the time of a round."""
    final = entry.simulation.final
    median, tail = np.quantile(final, (0.5, 0.95)).tolist()
    return {
        "policy": entry.policy,
        "width": entry.width if entry.policy not in WITHOUT_WIDTH else float("nan"),
        "trials": len(final),
        "mean": float(final.mean()),
        "se": float(final.std(ddof=1) / np.sqrt(len(final))) if len(final) > 1 else float("nan"),
        "q50": median,
        "q95": tail,
        "microseconds": entry.microseconds,
    }


def curve(entry: Entry) -> list[Row]:
    """Mean regret and its standard error along the rounds."""
    simulation = entry.simulation
    trials = len(simulation.regret)
    mean = simulation.regret.mean(axis=0)
    error = simulation.regret.std(axis=0, ddof=min(1, trials - 1)) / np.sqrt(trials)
    return [
        {"policy": entry.policy, "round": int(t), "mean": float(m), "se": float(e)}
        for t, m, e in zip(simulation.rounds, mean, error, strict=True)
    ]
