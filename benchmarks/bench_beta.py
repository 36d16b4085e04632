"""How the regret depends on beta: ACB by the largest and by the root mean square of its members, beside LinUCB.

A problem of our own: fixed unit actions and a unit theta drawn at random, Gaussian noise. Every point is the mean over
problems, which are the same for all policies; beta is in units of the noise. A trial is said to be locked in if it
played one action that is not the best in the whole last tenth of its rounds.

    python benchmarks/bench_beta.py [--quick] [--out results/benchmarks]
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from optimist import bandits
from optimist.reporting.figures.bandits import draw_beta

D, K, T, NOISE = 20, 100, 2_000, 0.3
PROBLEMS, TRIALS = 12, 2  # trials per problem
BETAS = (0.01, 0.03, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 4.0)
POLICIES = {
    "acb": lambda beta: bandits.ACB(D, beta=beta * NOISE),
    "acb-rms": lambda beta: bandits.ACB(D, beta=beta * NOISE, aggregate="rms"),
    "linucb": lambda beta: bandits.LinUCB(D, beta=beta * NOISE),
}


def regrets(policy: bandits.Policy, horizon: int, problems: int) -> tuple[np.ndarray, np.ndarray]:
    """Regret at the horizon, and whether the trial was locked in, (problems, trials) each."""
    final, locked = [], []
    for seed in range(problems):
        problem = bandits.FixedActions.random(K, D, noise=NOISE, seed=seed)
        played = bandits.simulate(policy, problem, horizon=horizon, trials=TRIALS, seed=seed, threads=1)
        final.append(played.regret[:, -1])
        end = played.rounds >= 0.9 * horizon
        growth = np.diff(played.regret[:, end], axis=1) / np.diff(played.rounds[end])
        steady = np.ptp(growth, axis=1) < 1e-9 * growth.max(axis=1).clip(1e-12)
        locked.append(steady & (growth[:, 0] > 1e-9))
    return np.array(final), np.array(locked)


def main() -> None:
    """Simulates, prints, writes ``beta.csv`` and ``beta.png``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a short horizon, two problems: a smoke test")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    horizon, problems = (100, 2) if options.quick else (T, PROBLEMS)
    rows = []
    for name, make in POLICIES.items():
        for beta in BETAS:
            final, locked = regrets(make(beta), horizon, problems)
            means = final.mean(axis=1)  # of a problem: problems are what varies
            rows.append(
                {
                    "policy": name,
                    "beta_over_noise": beta,
                    "mean": round(float(means.mean()), 2),
                    "se": round(float(means.std(ddof=1) / np.sqrt(problems)), 2),
                    "q95": round(float(np.quantile(final, 0.95)), 2),
                    "locked_in": round(float(locked.mean()), 4),
                    "problems": problems,
                    "trials": TRIALS * problems,
                    "horizon": horizon,
                }
            )
            print("  ".join(str(value) for value in rows[-1].values()), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "beta.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    title = f"{K} fixed actions of {D} features, T = {horizon:,}, {problems} problems of {TRIALS} trials"
    draw_beta(rows, title, options.out / "beta.png")


if __name__ == "__main__":
    main()
