"""Figure 2: cumulative regret of incremental ACB against the ensemble size M, exact and with Polyak-averaged SGD.

Paper: section 3 "Synthetic bandit experiments", Appendix A.1. The paper selects beta and the learning rate on the runs
it reports; here they are selected on other trials, and the paper's way stands beside.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, product
from typing import NamedTuple, Self

import numpy as np

from optimist.bandits import ACB, MultiArmed, Simulation, simulate
from optimist.reporting.figures.bandits import draw_ensemble_sizes
from optimist.reporting.tables import Row
from optimist.studies.bandits.comparison import SELECTION_SEED
from optimist.studies.bandits.splitting import Played, simulate_all
from optimist.studies.executors import InProcess, Workers
from optimist.studies.study import Draw, Measurement, Session, Study, Tables, Verdict, require_seeds

# ---- What ------------------------------------------------------------------------------------------------------------

PANELS = ("exact", "sgd")


class Setting(NamedTuple):
    """One point of the grid; the learning rate is 0 for the exact solver, which has none."""

    panel: str
    ridge: float
    ensemble_size: int
    beta: float
    learning_rate: float


def measure(settings: "Settings", session: Session) -> Measurement:
    """Both panels: the whole grid on the selection trials, then the best of it on the report trials.

    The compiled loop uses all cores of this machine by itself: the session's ``workers`` is the number of its threads.
    On a cluster the trials are split over the workers.
    """
    if session.cluster is None:
        return measure_with(InProcess(), session.workers, settings, session)
    with session.executor() as workers:
        return measure_with(workers, 1, settings, session)


def measure_with(workers: Workers, threads: int | None, settings: "Settings", session: Session) -> Measurement:
    """Both panels, by these workers of so many threads each."""
    sizes = settings.ensemble_sizes
    grid = [point for panel in PANELS for size in sizes for point in main_grid(panel, size, settings)]
    grid += [Setting("exact", *point, 0.0) for point in product(settings.other_ridges, sizes, settings.betas)]
    reported = len(sizes) * (2 + len(settings.other_ridges) + len(settings.shown_rates))
    total = len(grid) + reported
    done = 0

    def tell(point: Setting, status: str) -> None:
        nonlocal done
        done += 1
        session.progress(done, total, f"{point.panel}, M = {point.ensemble_size}{status}")

    def simulations(points: Sequence[Setting], seed: int) -> list[Simulation]:
        play = partial(played, settings, seed, threads)
        found = simulate_all(points, settings.trials, play, workers, retries=session.retries, tell=tell)
        return [simulation for simulation, _ in found]

    session.progress(done, total, "begins")
    selection = dict(zip(grid, simulations(grid, settings.selection_seed), strict=True))
    chosen = {
        "selected": [best_of(selection, panel, settings.ridge, size) for panel, size in product(PANELS, sizes)],
        "other ridge": [best_of(selection, "exact", *place) for place in product(settings.other_ridges, sizes)],
        "fixed rate": [
            best_of(selection, "sgd", settings.ridge, size, rate) for rate, size in product(settings.shown_rates, sizes)
        ],
    }
    reports = [(role, p) for role, points in chosen.items() for p in points]
    report = dict(zip(reports, simulations([p for _, p in reports], settings.report_seed), strict=True))
    regret = [summary(point, simulation, role, "held-out") for (role, point), simulation in report.items()]
    regret += [summary(point, selection[point], "selected", "paper") for point in chosen["selected"]]
    drawn = [(role, p) for role in ("selected", "fixed rate") for p in chosen[role]]
    curves: list[Row] = [{"role": role, **row} for role, point in drawn for row in curve(point, report[role, point])]
    grid_rows = [summary(point, selection[point], "grid", "selection") for point in selection]
    return Measurement({"regret": regret, "curves": curves, "grid": grid_rows})


def main_grid(panel: str, ensemble_size: int, settings: "Settings") -> list[Setting]:
    """Every beta, and for SGD every learning rate, at the main ridge."""
    rates = settings.learning_rates if panel == "sgd" else (0.0,)
    return [Setting(panel, settings.ridge, ensemble_size, beta, rate) for beta, rate in product(settings.betas, rates)]


def played(
    settings: "Settings", seed: int, threads: int | None, point: Setting, first_trial: int, trials: int
) -> Played:
    """Some trials of ACB at one point of the grid on the paper's 50 arms, and the seconds that they took."""
    start = time.perf_counter()
    policy = ACB(
        50,
        ensemble_size=point.ensemble_size,
        beta=point.beta,
        ridge=point.ridge,
        solver="sgd" if point.panel == "sgd" else "exact",
        learning_rate=point.learning_rate or 1.0,
        averaging="uniform",
        is_implicit=False,  # the paper's plain steps: those of the grid from 2 on diverge, and are seen to
    )
    problem, horizon = MultiArmed.paper(), settings.horizon
    simulation = simulate(
        policy, problem, horizon=horizon, trials=trials, seed=seed, first_trial=first_trial, threads=threads
    )
    return simulation, time.perf_counter() - start


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


def figures(tables: Tables) -> Mapping[str, Draw]:
    """Regret against M, and along the rounds."""
    return {"figure2": partial(draw_ensemble_sizes, tables["regret"], tables["curves"])}


# ---- Settings --------------------------------------------------------------------------------------------------------

GRID = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
"""The grid of beta and of the learning rate. Paper: Appendix A.1."""


@dataclass(frozen=True)
class Settings:
    """Everything that Figure 2 depends on."""

    horizon: int
    """T. Not stated in the paper."""
    trials: int
    """Trials on which the figure reports, and as many others on which beta and learning rate are selected."""
    ensemble_sizes: tuple[int, ...]
    """M."""
    betas: tuple[float, ...] = GRID
    learning_rates: tuple[float, ...] = GRID
    ridge: float = 1.0
    """lambda of the main figure. Not stated in the paper."""
    other_ridges: tuple[float, ...] = (0.1, 0.01)
    """The lambdas that show how much it matters (exact panel)."""
    shown_rates: tuple[float, ...] = (0.5, 0.1)
    """Learning rates shown beside the selected one (SGD panel): at 1 the averaged descent is the exact fit itself."""
    selection_seed: int = 1
    """The run on which beta and learning rate are selected."""
    report_seed: int = 2
    """The run that is reported."""

    def with_seeds(self, seeds: Sequence[int]) -> Self:
        """The last of ``seeds`` is the run that is reported; of two, the first is the one that is selected on."""
        *first, report = require_seeds(seeds, most=2)
        return replace(self, selection_seed=first[0] if first else report + SELECTION_SEED, report_seed=report)


SCALES = {
    "smoke": Settings(
        horizon=150,
        trials=6,
        ensemble_sizes=(1, 4, 16),
        betas=(0.1, 0.5),
        learning_rates=(0.5, 1.0, 5.0),
        other_ridges=(0.1,),
        shown_rates=(0.5,),
    ),
    "laptop": Settings(horizon=2_000, trials=100, ensemble_sizes=(1, 2, 4, 8, 16, 32, 64, 128, 256)),
    "paper": Settings(horizon=10_000, trials=100, ensemble_sizes=(1, 2, 4, 8, 16, 32, 64, 128, 256)),
}
"""T is 10,000 at the scale of the paper; laptop takes a fifth of it."""

# ---- Verdict ---------------------------------------------------------------------------------------------------------

CLAIM = "Figure 2: up to a point, increasing ensemble size improves cumulative regret ({})"
SIGNIFICANT = 3.0
"""Standard errors: for normal means, a false alarm in 370 comparisons."""


def judge(tables: Tables) -> list[Verdict]:
    """A verdict for each line of the figure, from the trials that nothing was selected on."""
    lines: dict[str, dict[int, Row]] = {}
    for row in tables["regret"]:
        if row["protocol"] == "held-out" and row["role"] != "other ridge":
            lines.setdefault(line_of(row), {})[row["ensemble_size"]] = row
    judged = [judge_line(line, regret) for line, regret in lines.items()]
    return judged + [judge_too_large(line, regret) for line, regret in lines.items()]


def line_of(row: Row) -> str:
    """The line of the figure that a row belongs to."""
    return row["panel"] if row["role"] == "selected" else f"sgd, learning rate {row['learning_rate']:g}"


def judge_line(line: str, regret: Mapping[int, Row]) -> Verdict:
    """Holds if the best M beats M = 1 significantly and no step on the way to it is significantly worse.

    ``regret`` has, by M, the mean over the trials, its standard error, and the number of trials.
    """
    sizes = sorted(regret)
    first, last = regret[sizes[0]], regret[sizes[-1]]
    best = min(sizes, key=lambda size: regret[size]["mean"])
    gain, error = difference(first, regret[best])
    way = [size for size in sizes if size <= best]
    setbacks = [b for a, b in pairwise(way) if is_significantly_less(regret[a], regret[b])]
    measured = (
        f"regret {first['mean']:.1f} at M = {sizes[0]}, {regret[best]['mean']:.1f} at M = {best} "
        f"(less by {gain:.1f} ± {error:.1f}), {last['mean']:.1f} at M = {sizes[-1]}; {regret[best]['trials']} trials"
    )
    claim = CLAIM.format(line)
    if best != sizes[0] and gain > SIGNIFICANT * error and not setbacks:
        return Verdict(claim, measured, "holds")
    if setbacks or is_significantly_less(first, regret[sizes[1]]):
        where = f"; significantly worse again at M = {', '.join(map(str, setbacks))}" if setbacks else ""
        return Verdict(claim, measured + where, "does not hold")
    return Verdict(claim, measured, "not enough data")


def judge_too_large(line: str, regret: Mapping[int, Row]) -> Verdict:
    """Holds if the largest M has significantly more regret than the best one, does not if it is the best itself.

    Paper: section 3, M must be small enough to avoid too many upper-tail events.
    """
    largest = max(regret)
    best = min(regret, key=lambda size: regret[size]["mean"])
    loss, error = difference(regret[largest], regret[best])
    measured = f"regret {regret[best]['mean']:.1f} at M = {best}, more by {loss:.1f} ± {error:.1f} at M = {largest}"
    claim = f"Figure 2: too large an ensemble costs regret ({line})"
    if is_significantly_less(regret[best], regret[largest]):
        return Verdict(claim, measured, "holds")
    return Verdict(claim, measured, "does not hold" if best == largest else "not enough data")


def difference(a: Row, b: Row) -> tuple[float, float]:
    """The mean of a less that of b and its standard error, the trials being independent."""
    return a["mean"] - b["mean"], float(np.hypot(a["se"], b["se"]))


def is_significantly_less(a: Row, b: Row) -> bool:
    """Whether the mean of a is below that of b by more than chance explains."""
    gap, error = difference(b, a)
    return gap > SIGNIFICANT * error


STUDY = Study(SCALES, measure, judge, figures)
