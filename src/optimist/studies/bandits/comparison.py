"""Policies side by side on one problem: who is compared, beta selected on other trials, then regret and time."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from optimist.bandits import (
    ACB,
    DiagonalLinUCB,
    EnsembleSampling,
    EpsilonGreedy,
    Greedy,
    LinPHE,
    LinTS,
    LinUCB,
    Policy,
    Problem,
    Simulation,
    simulate,
)
from optimist.reporting.tables import Row
from optimist.studies.attempts import RETRIES
from optimist.studies.bandits.splitting import Played, simulate_all
from optimist.studies.executors import Workers
from optimist.studies.study import Progress

BETAS = (0.03, 0.1, 0.3, 1.0, 3.0)
"""The grid on which beta is selected, in units of the noise."""

Maker = Callable[[Problem, float], Policy]
"""Makes a policy for a problem, with a beta in units of the noise (a tenth of it is the epsilon of epsilon-greedy)."""
SELECTION_SEED = 1_000_000
"""Added to the seed of the run for the trials on which beta is selected."""


class Sizes(TypedDict):
    """The arguments of a policy that come from the problem."""

    n_features: int
    n_arms: int | None


def _sizes(problem: Problem) -> Sizes:
    return {"n_features": problem.n_features, "n_arms": problem.n_arms}


def _scale(problem: Problem) -> float:
    """The unit of beta: the noise of the rewards; for noiseless labels, the spread of a 0/1 reward."""
    return problem.noise.sub_gaussian or 0.5


DECAY = 0.98
"""Of the policies that forget: 50 samples are remembered at any time."""
LINEUP: dict[str, Maker] = {
    "acb": lambda p, b: ACB(**_sizes(p), beta=b * _scale(p)),
    "acb-rms": lambda p, b: ACB(**_sizes(p), beta=b * _scale(p), aggregate="rms"),
    "acb-rerandomized": lambda p, b: ACB(**_sizes(p), beta=b * _scale(p), history="rerandomized"),
    "acb-lazy": lambda p, b: ACB(**_sizes(p), beta=b * _scale(p), history="lazy"),
    "acb-sgd": lambda p, b: ACB(**_sizes(p), beta=b * _scale(p), solver="sgd"),
    "linucb": lambda p, b: LinUCB(**_sizes(p), beta=b * _scale(p)),
    "linucb-theory": lambda p, b: LinUCB(**_sizes(p), beta="theory", sigma=_scale(p)),
    "lints": lambda p, b: LinTS(**_sizes(p), beta=b * _scale(p)),
    "linphe": lambda p, b: LinPHE(**_sizes(p), beta=b * _scale(p)),
    "ensemble-sampling": lambda p, b: EnsembleSampling(**_sizes(p), beta=b * _scale(p)),
    "diagonal-linucb": lambda p, b: DiagonalLinUCB(**_sizes(p), beta=b * _scale(p)),
    "epsilon-greedy": lambda p, b: EpsilonGreedy(**_sizes(p), epsilon=min(1.0, 0.1 * b)),
    "greedy": lambda p, b: Greedy(**_sizes(p)),
    "acb-decay": lambda p, b: ACB(**_sizes(p), beta=b * _scale(p), decay=DECAY),
    "acb-sgd-decay": lambda p, b: ACB(**_sizes(p), beta=b * _scale(p), solver="sgd", decay=DECAY),
    "linucb-decay": lambda p, b: LinUCB(**_sizes(p), beta=b * _scale(p), decay=DECAY),
    "lints-decay": lambda p, b: LinTS(**_sizes(p), beta=b * _scale(p), decay=DECAY),
}
FORGETTING = tuple(name for name in LINEUP if name.endswith("-decay"))
"""Policies for a world that drifts; where it stands still they are not played unless they are asked for."""
STEADY = tuple(name for name in LINEUP if name not in FORGETTING)

WITHOUT_MATRIX = ("acb-sgd", "diagonal-linucb", "acb-sgd-decay")
"""Policies whose memory is linear in the number of features."""
WITHOUT_BETA = frozenset({"greedy", "linucb-theory"})
"""Policies that have no beta to select."""


@dataclass(frozen=True)
class Budget:
    """How long and how often is played, and from which seeds."""

    horizon: int
    trials: int
    selection_trials: int
    """Other trials, on which each policy's beta is selected; 0 takes one unit of noise untried."""
    seed: int
    betas: tuple[float, ...] = BETAS


@dataclass(frozen=True)
class Entry:
    """One policy's result."""

    policy: str
    beta: float
    """In units of the noise."""
    simulation: Simulation
    microseconds: float
    """Wall time on one core of a round of one trial, decision and update, many trials side by side."""


@dataclass(frozen=True)
class Run:
    """One simulation, small enough to be sent to another process."""

    policy: str
    beta: float
    """In units of the noise."""
    problem: Problem
    horizon: int
    seed: int


def simulated(run: Run, first_trial: int, trials: int) -> Played:
    """Some trials of a run, on one core, and the seconds that they took."""
    policy, problem = LINEUP[run.policy](run.problem, run.beta), run.problem
    simulate(policy, problem, horizon=1, trials=1, seed=0, threads=1)  # compiles, if need be
    start = time.perf_counter()
    simulation = simulate(
        policy, problem, horizon=run.horizon, trials=trials, seed=run.seed, first_trial=first_trial, threads=1
    )
    return simulation, time.perf_counter() - start


def compare(
    problem: Problem,
    selection: Problem,
    names: Sequence[str],
    budget: Budget,
    workers: Workers,
    progress: Progress,
    retries: int = RETRIES,
) -> list[Entry]:
    """The policies called ``names`` on the same trials of ``problem``, the best first.

    ``selection`` is the problem on which beta is selected: the same one, or other instances of its kind. Trials are
    split over the workers.
    """
    tries = [
        Run(name, beta, selection, budget.horizon, budget.seed + SELECTION_SEED)
        for name in names
        for beta in betas_to_try(name, budget)
    ]
    total, done = len(tries) + len(names), 0

    def entries(runs: Sequence[Run], trials: int, label: Callable[[Run], str]) -> list[Entry]:
        def tell(run: Run, status: str) -> None:
            nonlocal done
            done += 1
            progress(done, total, label(run) + status)

        played = simulate_all(runs, trials, simulated, workers, retries=retries, tell=tell)
        return [
            Entry(run.policy, run.beta, simulation, 1e6 * seconds / (run.horizon * trials))
            for run, (simulation, seconds) in zip(runs, played, strict=True)
        ]

    tried = entries(tries, budget.selection_trials, lambda run: f"{run.policy}, beta {run.beta:g} tried")
    reports = [Run(n, best_beta(n, tried), problem, budget.horizon, budget.seed) for n in names]
    found = entries(reports, budget.trials, lambda run: run.policy)
    return sorted(found, key=lambda entry: entry.simulation.final.mean())


def betas_to_try(name: str, budget: Budget) -> tuple[float, ...]:
    """The values to select from; none for a policy without beta, or without selection trials."""
    return () if name in WITHOUT_BETA or not budget.selection_trials else budget.betas


def best_beta(name: str, tried: Sequence[Entry]) -> float:
    """The beta with the smallest mean regret; 1 if none was tried."""
    mine = [entry for entry in tried if entry.policy == name]
    return min(mine, key=lambda entry: entry.simulation.final.mean()).beta if mine else 1.0


def summary(entry: Entry) -> Row:
    """Regret with its standard error and quantiles, the beta selected, the time of a round."""
    final = entry.simulation.final
    median, tail = np.quantile(final, (0.5, 0.95)).tolist()
    return {
        "policy": entry.policy,
        "beta_over_noise": entry.beta if entry.policy not in WITHOUT_BETA else float("nan"),
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
