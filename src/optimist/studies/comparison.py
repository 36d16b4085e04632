"""Policies side by side on one problem: widths selected on other trials, then the regret and the time of a round."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from optimist.bandits import Problem, Simulation, simulate
from optimist.reporting.tables import Row
from optimist.studies.lineup import LINEUP, WIDTHS, WITHOUT_WIDTH
from optimist.studies.outcome import Progress


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
    """Wall time of a round of one trial: decision and update, the trials running side by side on all cores."""


def compare(
    problem: Problem, selection: Problem, names: Sequence[str], budget: Budget, progress: Progress
) -> list[Entry]:
    """The policies called ``names`` on the same trials of ``problem``, the best first.

    ``selection`` is the problem on which widths are selected: the same one, or other instances of its kind.
    """
    total = sum(1 + len(widths_to_try(name, budget)) for name in names)
    entries, done = [], 0
    for name in names:
        means = {}
        for width in widths_to_try(name, budget):
            progress(done, total, f"{name}: trying width {width:g}")
            trial = simulate(
                LINEUP[name](selection, width),
                selection,
                horizon=budget.horizon,
                trials=budget.selection_trials,
                seed=budget.seed + 1_000_000,
            )
            means[width] = trial.final.mean()
            done += 1
        width = min(means, key=lambda tried: means[tried]) if means else 1.0
        progress(done, total, name)
        policy = LINEUP[name](problem, width)
        simulate(policy, problem, horizon=1, trials=budget.trials, seed=budget.seed)  # compiles, if need be
        start = time.perf_counter()
        simulation = simulate(policy, problem, horizon=budget.horizon, trials=budget.trials, seed=budget.seed)
        seconds = time.perf_counter() - start
        entries.append(Entry(name, width, simulation, 1e6 * seconds / (budget.horizon * budget.trials)))
        done += 1
    progress(total, total, "done")
    return sorted(entries, key=lambda entry: entry.simulation.final.mean())


def widths_to_try(name: str, budget: Budget) -> tuple[float, ...]:
    """The widths to select from; none for a policy without one, or without selection trials."""
    return () if name in WITHOUT_WIDTH or not budget.selection_trials else budget.widths


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
