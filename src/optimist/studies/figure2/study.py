"""Figure 2: cumulative regret of incremental ACB against the ensemble size M, exact and with Polyak-averaged SGD.

Paper: section 3 "Synthetic bandit experiments", Appendix A.1. The paper selects beta and the learning rate on the runs
it reports; here they are selected on other trials, and the paper's way stands beside.
"""

from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from optimist.bandits import ACB, MultiArmed, Simulation, simulate
from optimist.reporting.regret import draw_ensemble_sizes
from optimist.reporting.tables import Row
from optimist.studies.figure2.settings import Settings
from optimist.studies.figure2.verdict import judge
from optimist.studies.outcome import Outcome, Progress

PANELS = ("exact", "sgd")


class Setting(NamedTuple):
    """One point of the grid; the learning rate is 0 for the exact solver, which has none."""

    panel: str
    ridge: float
    ensemble_size: int
    beta: float
    learning_rate: float


def run(settings: Settings, progress: Progress, workers: int | None = None, folder: Path | None = None) -> Outcome:
    """Both panels: the whole grid on the selection trials, then the best of it on the report trials.

    The compiled loop uses all cores by itself: ``workers`` is the number of its threads.
    """
    sizes = settings.ensemble_sizes
    grid = [point for panel in PANELS for size in sizes for point in main_grid(panel, size, settings)]
    grid += [Setting("exact", *point, 0.0) for point in product(settings.other_ridges, sizes, settings.betas)]
    reported = len(sizes) * (2 + len(settings.other_ridges) + len(settings.shown_rates))
    total = len(grid) + reported
    done = 0

    def play(point: Setting, seed: int) -> Simulation:
        nonlocal done
        progress(done, total, f"{point.panel}, M = {point.ensemble_size}")
        done += 1
        return regret_of(point, settings, seed, workers)

    selection = {point: play(point, settings.selection_seed) for point in grid}
    chosen = {
        "selected": [best_of(selection, panel, settings.ridge, size) for panel, size in product(PANELS, sizes)],
        "other ridge": [best_of(selection, "exact", *place) for place in product(settings.other_ridges, sizes)],
        "fixed rate": [
            best_of(selection, "sgd", settings.ridge, size, rate) for rate, size in product(settings.shown_rates, sizes)
        ],
    }
    report = {(role, p): play(p, settings.report_seed) for role, points in chosen.items() for p in points}
    progress(total, total, "done")
    regret = [summary(point, simulation, role, "held-out") for (role, point), simulation in report.items()]
    regret += [summary(point, selection[point], "selected", "paper") for point in chosen["selected"]]
    drawn = [(role, p) for role in ("selected", "fixed rate") for p in chosen[role]]
    curves: list[Row] = [{"role": role, **row} for role, point in drawn for row in curve(point, report[role, point])]
    return Outcome(
        tables={
            "regret": regret,
            "curves": curves,
            "grid": [summary(point, selection[point], "grid", "selection") for point in selection],
        },
        verdicts=judge({label(role, p): s.final for (role, p), s in report.items() if role != "other ridge"}),
        figures={"figure2": partial(draw_ensemble_sizes, regret, curves)},
    )


def label(role: str, point: Setting) -> tuple[str, int]:
    """The line of the figure that a point belongs to, and its place on it."""
    return point.panel if role == "selected" else f"sgd, learning rate {point.learning_rate:g}", point.ensemble_size


def main_grid(panel: str, ensemble_size: int, settings: Settings) -> list[Setting]:
    """Every beta, and for SGD every learning rate, at the main ridge."""
    rates = settings.learning_rates if panel == "sgd" else (0.0,)
    return [Setting(panel, settings.ridge, ensemble_size, beta, rate) for beta, rate in product(settings.betas, rates)]


def regret_of(point: Setting, settings: Settings, seed: int, threads: int | None) -> Simulation:
    """The regret of ACB at one point of the grid on the paper's 50 arms."""
    policy = ACB(
        50,
        ensemble_size=point.ensemble_size,
        beta=point.beta,
        ridge=point.ridge,
        solver="sgd" if point.panel == "sgd" else "exact",
        learning_rate=point.learning_rate or 1.0,
        is_implicit=False,  # the paper's plain steps: those of the grid from 2 on diverge, and are seen to
    )
    return simulate(
        policy, MultiArmed.paper(), horizon=settings.horizon, trials=settings.trials, seed=seed, threads=threads
    )


def best_of(
    selection: dict[Setting, Simulation],
    panel: str,
    ridge: float,
    ensemble_size: int,
    learning_rate: float | None = None,
) -> Setting:
    """The point of the grid with the smallest mean regret, at the given learning rate if there is one."""
    place = (panel, ridge, ensemble_size)
    points = [p for p in selection if p[:3] == place and learning_rate in (None, p.learning_rate)]
    return min(points, key=lambda point: selection[point].final.mean())


def summary(point: Setting, simulation: Simulation, role: str, protocol: str) -> Row:
    """Mean, standard deviation, standard error and quantiles of the regret at the horizon."""
    final = simulation.final
    low, median, high, tail = np.quantile(final, (0.1, 0.5, 0.9, 0.95)).tolist()
    spread = float(final.std(ddof=1))
    return point._asdict() | {
        "role": role,
        "protocol": protocol,
        "trials": len(final),
        "mean": float(final.mean()),
        "sd": spread,
        "se": spread / np.sqrt(len(final)),
        "q10": low,
        "q50": median,
        "q90": high,
        "q95": tail,
    }


def curve(point: Setting, simulation: Simulation) -> list[Row]:
    """Mean and standard deviation of the regret along the rounds."""
    kept = slice(1, None, 2)  # every second of the points, the last included, draws the same line
    rounds, regret = simulation.rounds[kept], simulation.regret[:, kept]
    return [
        {**point._asdict(), "round": int(t), "mean": float(m), "sd": float(s)}
        for t, m, s in zip(rounds, regret.mean(axis=0), regret.std(axis=0, ddof=1), strict=True)
    ]
