"""Figure 2: cumulative regret of incremental ACB against the ensemble size M, exact and with Polyak-averaged SGD.

Paper: section 3 "Synthetic bandit experiments", Appendix A.1. The paper selects beta and the learning rate on the runs
it reports; here they are selected on other trials, and the paper's way stands beside.
"""

from functools import partial
from itertools import product
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


def run(settings: Settings, progress: Progress) -> Outcome:
    """Both panels: the whole grid on the selection trials, then the best of it on the report trials."""
    grid = [point for panel in PANELS for size in settings.ensemble_sizes for point in main_grid(panel, size, settings)]
    total = len(grid) + 2 * len(settings.ensemble_sizes) * (1 + len(settings.other_ridges) * (1 + len(settings.betas)))
    done = 0

    def play(point: Setting, seed: int) -> Simulation:
        nonlocal done
        progress(done, total, f"{point.panel}, M = {point.ensemble_size}")
        done += 1
        return regret_of(point, settings, seed)

    selection = {point: play(point, settings.selection_seed) for point in grid}
    for panel, size, ridge in product(PANELS, settings.ensemble_sizes, settings.other_ridges):
        rate = best_of(selection, panel, settings.ridge, size).learning_rate  # only beta is selected anew
        for beta in settings.betas:
            point = Setting(panel, ridge, size, beta, rate)
            selection[point] = play(point, settings.selection_seed)
    chosen = [
        best_of(selection, panel, ridge, size)
        for panel, ridge, size in product(PANELS, (settings.ridge, *settings.other_ridges), settings.ensemble_sizes)
    ]
    report = {point: play(point, settings.report_seed) for point in chosen}
    progress(total, total, "done")
    regret = [summary(point, report[point], "held-out") for point in chosen]
    regret += [summary(point, selection[point], "paper") for point in chosen]
    curves = [row for point in chosen for row in curve(point, report[point])]
    return Outcome(
        tables={
            "regret": regret,
            "curves": curves,
            "grid": [summary(point, selection[point], "grid") for point in selection],
        },
        verdicts=judge({point: report[point].final for point in chosen if point.ridge == settings.ridge}),
        figures={"figure2": partial(draw_ensemble_sizes, regret, curves, settings.ridge)},
    )


def main_grid(panel: str, ensemble_size: int, settings: Settings) -> list[Setting]:
    """Every beta, and for SGD every learning rate, at the main ridge."""
    rates = settings.learning_rates if panel == "sgd" else (0.0,)
    return [Setting(panel, settings.ridge, ensemble_size, beta, rate) for beta, rate in product(settings.betas, rates)]


def regret_of(point: Setting, settings: Settings, seed: int) -> Simulation:
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
    return simulate(policy, MultiArmed.paper(), horizon=settings.horizon, trials=settings.trials, seed=seed)


def best_of(selection: dict[Setting, Simulation], panel: str, ridge: float, ensemble_size: int) -> Setting:
    """The point of the grid with the smallest mean regret."""
    points = [p for p in selection if (p.panel, p.ridge, p.ensemble_size) == (panel, ridge, ensemble_size)]
    return min(points, key=lambda point: selection[point].final.mean())


def summary(point: Setting, simulation: Simulation, protocol: str) -> Row:
    """Mean, standard deviation, standard error and quantiles of the regret at the horizon."""
    final = simulation.final
    low, median, high, tail = np.quantile(final, (0.1, 0.5, 0.9, 0.95)).tolist()
    spread = float(final.std(ddof=1))
    return point._asdict() | {
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
