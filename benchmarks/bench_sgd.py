"""``solver="sgd"`` beside the exact solver of ACB: regret on ten problems, and its bonus against the exact one.

Regret: both solvers with their defaults but ``beta``, the noise of the problem, on the same trials; every trial of a
problem with fixed actions has actions and a theta of its own. The aim is a ratio of at most 1.5. The error is that of
the ratio of two means, one standard error, by the delta method; it is large where few trials lock in on a wrong action.

Bonus: the root mean square of the members over ``sqrt(x' Sigma^-1 x)``, Sigma of the same samples, on actions of the
policy's own choice, for a ridge of 0.01 to 10; the median over actions, four rounds and the seeds. The aim is a factor
of 2. Dense rows are dense as given; rows with few non-zeros are given dense, and as scipy.sparse.

    python benchmarks/bench_sgd.py [--quick] [--out results/benchmarks]
"""

import argparse
import csv
import math
import os
import platform
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from optimist import bandits

HORIZON, TRIALS, SEED = 2_000, 60, 11
RIDGES = (0.01, 0.03, 0.1, 1.0, 10.0)
LOOKS = (50, 100, 200, 400)
"""The rounds after which bonuses are compared."""


def problems(trials: int) -> Iterator[tuple[str, bandits.Problem]]:
    """Ten problems, of 1 to 64 features per model."""
    for d in (5, 10, 20):
        yield f"fixed, d = {d}", bandits.FixedActions.random(100, d, instances=trials, seed=SEED)
    yield "fixed, few non-zeros, d = 40", few_nonzeros(trials)
    for d in (5, 20, 64):
        yield f"changing, d = {d}", bandits.ChangingActions(20, d, 0.3, seed=SEED)
    yield "fixed, a constant feature, d = 10", with_constant(trials)
    yield "arms, 50 of them", bandits.MultiArmed.paper()
    yield "digits, 10 models of d = 64", bandits.LabeledData.digits()


def few_nonzeros(trials: int) -> bandits.Problem:
    """60 actions with 4 of 40 features each."""
    rng = np.random.default_rng(SEED)
    x = np.stack([sparse_actions(rng) for _ in range(trials)])
    return bandits.FixedActions(x, rng.normal(size=(trials, 40)) / 3, 0.3)


def with_constant(trials: int) -> bandits.Problem:
    """30 actions whose first feature is 1: features with a mean, which a diagonal does not see."""
    rng = np.random.default_rng(SEED + 1)
    x = rng.normal(size=(trials, 30, 10)) / 3
    x[..., 0] = 1
    return bandits.FixedActions(x, rng.normal(size=(trials, 10)) / 3, 0.3)


def dense_actions(rng: np.random.Generator) -> np.ndarray:
    """100 actions in 20 dimensions with a common mean: the problem of the LinReBoot tables."""
    x = rng.uniform(size=(100, 20))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def sparse_actions(rng: np.random.Generator) -> np.ndarray:
    """60 actions with 4 of 40 features each."""
    x = np.zeros((60, 40))
    for row in x:
        row[rng.choice(40, 4, replace=False)] = 0.5
    return x


def regret_rows(horizon: int, trials: int) -> Iterator[dict[str, object]]:
    """The regret of both solvers on every problem, and their ratio."""
    for name, problem in problems(trials):
        beta = problem.noise.sub_gaussian or 0.5
        sizes = {"n_features": problem.n_features, "n_arms": problem.n_arms}
        finals = [
            bandits.simulate(
                bandits.ACB(**sizes, beta=beta, solver=solver),
                problem,
                horizon=horizon,
                trials=trials,
                seed=SEED,
                threads=1,
            ).final
            for solver in ("exact", "sgd")
        ]
        means = [float(final.mean()) for final in finals]
        errors = [float(final.std(ddof=1) / math.sqrt(trials)) for final in finals]
        ratio = means[1] / means[0]
        error = ratio * math.hypot(*(e / m for e, m in zip(errors, means, strict=True)))
        row = {"problem": name, "beta": round(beta, 3), "exact": round(means[0], 1), "sgd": round(means[1], 1)}
        yield row | {"ratio": round(ratio, 2), "error": round(error, 2), "trials": trials, "horizon": horizon}


def bonus_rows(seeds: int, looks: tuple[int, ...]) -> Iterator[dict[str, object]]:
    """The bonus of the descent over the exact one, for every ridge and kind of rows."""
    kinds = {
        "dense": (dense_actions, np.asarray),
        "few non-zeros, dense": (sparse_actions, np.asarray),
        "few non-zeros, sparse": (sparse_actions, sparse.csr_array),
    }
    for kind, (draw, given) in kinds.items():
        for ridge in RIDGES:
            ratios = np.stack([bonus_ratios(draw, given, ridge, seed, looks) for seed in range(seeds)])
            low, median, high = np.quantile(ratios, (0.1, 0.5, 0.9))
            row = {"rows": kind, "ridge": ridge, "median": round(float(median), 2)}
            yield row | {"q10": round(float(low), 2), "q90": round(float(high), 2), "seeds": seeds}


def bonus_ratios(draw, given, ridge: float, seed: int, looks: tuple[int, ...]) -> np.ndarray:
    """Ratios of one run, (looks, actions)."""
    rng = np.random.default_rng(seed)
    x = draw(rng)
    means, rows = x @ rng.normal(size=x.shape[1]) / 3, given(x)
    descent = bandits.ACB(x.shape[1], ridge=ridge, beta=0.3, aggregate="rms", solver="sgd", seed=seed)
    exact = bandits.LinUCB(x.shape[1], ridge=ridge, beta=0.3)
    ratios = []
    for t in range(1, looks[-1] + 1):
        action = descent.predict(rows)
        reward = [means[action] + 0.3 * rng.normal()]
        descent.partial_fit(rows[[action]], reward)
        exact.partial_fit(x[[action]], reward)
        if t in looks:
            ratios.append(descent.bonus(rows) / exact.bonus(x))
    return np.stack(ratios)


def main() -> None:
    """Simulates, prints, writes ``sgd.csv``, ``sgd_bonus.csv`` and ``sgd.md``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="short and few: a smoke test")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    horizon, trials, seeds, looks = (40, 4, 1, (5, 10)) if options.quick else (HORIZON, TRIALS, 4, LOOKS)
    for name, rows in (("sgd", regret_rows(horizon, trials)), ("sgd_bonus", bonus_rows(seeds, looks))):
        found = []
        for row in rows:
            found.append(row)
            print("  ".join(map(str, row.values())), flush=True)
        with (options.out / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, found[0], lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
    about = " ".join(__doc__.split("\n\n")[1].split()) + "\n\n" + " ".join(__doc__.split("\n\n")[2].split())
    machine = f"{platform.system()}, Python {platform.python_version()}, {os.cpu_count()} cores; seeded throughout."
    (options.out / "sgd.md").write_text(f"# Descent beside the exact solver\n\n{about}\n\n{machine}\n")


if __name__ == "__main__":
    main()
