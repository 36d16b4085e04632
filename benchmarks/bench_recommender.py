"""A recommender with hashed features, steady and with a change of taste half-way: regret beside Vowpal Wabbit's.

Ten articles per round out of random topics and authors, a user with three of twenty interests; the features are the
topic, the author and their crosses with the interests, hashed into 2^18 columns, the very same numbers for all. A click
has a probability that is linear in them. Ours keep the settings they were given beforehand: beta = 0.3 times the spread
0.4 of a click, and for the change of taste a memory of about 500 rounds (decay = 0.998). Vowpal Wabbit plays with its
own defaults, which know nothing of a change; a click costs it -1, and --noconstant leaves out the constant feature that
the others do not have either. Neither side was tuned. Regret is in clicks, the mean over seeds, one standard error.

Where the defaults are published: wiki pages Contextual-Bandit-algorithms (epsilon 0.05) and
Contextual-Bandit-Exploration-with-SquareCB of github.com/VowpalWabbit/vowpal_wabbit, and the options that
vowpalwabbit/core/src/reductions/cb/cb_explore_adf_rnd.cc there declares for --rnd (rnd_alpha 0.1, rnd_invlambda 0.1,
epsilon 0) and cb_explore_adf_squarecb.cc for --squarecb (gamma_scale 10, gamma_exponent 0.5). What was in force is
read from the program itself and written beside the results.

    python benchmarks/bench_recommender.py [--quick] [--out results/benchmarks]
"""

import argparse
import csv
import math
import os
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import vowpalwabbit

from optimist import bandits

K, BITS, INTERESTS, TOPICS, AUTHORS = 10, 18, 20, 10, 50
ROUNDS, SEEDS, MEMORY, BETA = 2_000, 10, 500, 0.3 * 0.4
EXPLORERS = ("--squarecb", "--rnd 32", "--epsilon 0.05")


class Round(NamedTuple):
    """Hashed columns of every article, (K, non-zeros), and the chance of a click before and after the change."""

    columns: np.ndarray
    before: np.ndarray
    after: np.ndarray


def column(name: str) -> int:
    """The hashed column of a feature."""
    return zlib.crc32(name.encode()) % 2**BITS


def recommender(seed: int, rounds: int) -> list[Round]:
    """The rounds of one seed."""
    rng = np.random.default_rng(seed)
    tastes = [_taste(rng) for _ in range(2)]
    made = []
    for _ in range(rounds):
        user = rng.choice(INTERESTS, 3, replace=False)
        topics, authors = rng.integers(TOPICS, size=K), rng.integers(AUTHORS, size=K)
        names = [
            [f"t{t}", f"a{a}", *(f"{i}*t{t}" for i in user), *(f"{i}*a{a}" for i in user)]
            for t, a in zip(topics, authors, strict=True)
        ]
        chances = [
            np.clip(0.3 + topic[topics] + author[authors] + cross[user][:, topics].sum(axis=0), 0.02, 0.98)
            for topic, author, cross in tastes
        ]
        made.append(Round(np.array([[column(name) for name in row] for row in names]), *chances))
    return made


def _taste(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weights of topics, of authors, and of interests times topics."""
    return (
        0.08 * rng.normal(size=TOPICS),
        0.05 * rng.normal(size=AUTHORS),
        0.12 * rng.normal(size=(INTERESTS, TOPICS)),
    )


Player = Callable[[np.ndarray, Callable[[int], float]], None]
"""Plays one round: columns (K, non-zeros) and the function that tells the reward of the chosen article."""


def ours(policy: bandits.Policy) -> Player:
    """A policy on sparse rows."""

    def play(columns: np.ndarray, reward: Callable[[int], float]) -> None:
        rows, width = columns.shape
        values = np.full(columns.size, 1 / math.sqrt(width))
        X = sp.csr_array((values, columns.ravel(), np.arange(0, columns.size + 1, width)), shape=(rows, 2**BITS))
        action = policy.predict(X)
        policy.partial_fit(X[[action]], [reward(action)])

    return play


def vowpal_wabbit(options: str, seed: int) -> Player:
    """Vowpal Wabbit: it names probabilities, we draw, it learns the cost."""
    workspace = vowpalwabbit.Workspace(
        f"--cb_explore_adf {options} --quiet --noconstant -b {BITS} --random_seed {seed}"
    )
    rng = np.random.default_rng(seed)

    def play(columns: np.ndarray, reward: Callable[[int], float]) -> None:
        value = f":{1 / math.sqrt(columns.shape[1]):.6f}"
        lines = ["| " + " ".join(f"{c}{value}" for c in row) for row in columns]
        chances = np.array(workspace.predict(lines))
        action = int(rng.choice(K, p=chances / chances.sum()))
        lines[action] = f"0:{-reward(action)}:{chances[action]:.6f} {lines[action]}"
        workspace.learn(lines)

    return play


def in_force(options: str) -> str:
    """What Vowpal Wabbit itself says that it explores with."""
    config = vowpalwabbit.Workspace(f"--cb_explore_adf {options} --quiet").get_config()
    found = {
        option.name: getattr(option, "value", None)
        for reduction, groups in config.items()
        if reduction.startswith("cb_explore_adf_")
        for _, declared in groups
        for option in declared
    }
    names = ("epsilon", "rnd", "rnd_alpha", "rnd_invlambda", "gamma_scale", "gamma_exponent", "cb_type")
    return ", ".join(f"{name} {found[name]:.3g}" for name in names if isinstance(found.get(name), int | float))


def players(is_changing: bool, seed: int) -> dict[str, Player]:
    """Who plays, made anew."""
    decay = 1 - 1 / MEMORY if is_changing else 1.0
    size = {"n_features": 2**BITS, "seed": seed}
    found = {
        "acb-sgd": ours(bandits.ACB(**size, solver="sgd", beta=BETA)),
        "diagonal-linucb": ours(bandits.DiagonalLinUCB(**size, beta=BETA)),
    } | {f"vw {options}": vowpal_wabbit(options, seed) for options in EXPLORERS}
    if is_changing:
        found["acb-sgd, decay"] = ours(bandits.ACB(**size, solver="sgd", beta=BETA, decay=decay))
        found["diagonal-linucb, decay"] = ours(bandits.DiagonalLinUCB(**size, beta=BETA, decay=decay))
    found["at random"] = lambda columns, reward: reward(int(rng.integers(K))) and None
    rng = np.random.default_rng(seed)
    return found


def regret(play: Player, rounds: list[Round], is_changing: bool, seed: int) -> float:
    """The sum of what the best article's chance of a click exceeds that of the chosen one."""
    lots, lost = np.random.default_rng(seed + 1_000).random(len(rounds)), [0.0]
    for i, one in enumerate(rounds):
        chances = one.after if is_changing and i >= len(rounds) // 2 else one.before

        def reward(action: int, chances: np.ndarray = chances, lot: float = lots[i]) -> float:
            lost[0] += float(chances.max() - chances[action])
            return float(lot < chances[action])

        play(one.columns, reward)
    return lost[0]


def main() -> None:
    """Plays, prints, writes ``recommender.csv`` and ``recommender.md``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, two seeds: a smoke test")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    rounds, seeds = (50, 2) if options.quick else (ROUNDS, SEEDS)
    found: dict[tuple[str, str], list[float]] = {}
    seconds: dict[tuple[str, str], float] = {}
    for play in players(True, 0).values():  # compiles
        regret(play, recommender(0, 3), True, 0)
    for seed in range(seeds):
        game = recommender(seed, rounds)
        for problem in ("steady", "changing"):
            for name, play in players(problem == "changing", seed).items():
                start = time.process_time()
                found.setdefault((problem, name), []).append(regret(play, game, problem == "changing", seed))
                used = time.process_time() - start
                seconds[problem, name] = seconds.get((problem, name), 0.0) + used / (rounds * seeds)
        print(f"seed {seed} played", flush=True)
    rows = [
        {
            "problem": problem,
            "policy": name,
            "regret": round(float(np.mean(values)), 1),
            "se": round(float(np.std(values, ddof=1) / math.sqrt(seeds)), 1),
            "seeds": seeds,
            "rounds": rounds,
            "CPU ms per round": round(1000 * seconds[problem, name], 3),
        }
        for (problem, name), values in found.items()
    ]
    rows.sort(key=lambda row: (row["problem"] != "steady", row["regret"]))
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "recommender.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    table = [list(rows[0]), ["---"] * len(rows[0]), *([str(v) for v in row.values()] for row in rows)]
    about = " ".join(__doc__.split("\n\n")[1].split())
    load = f"CPU time includes making the examples; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores."
    said = "; ".join(f"{options}: {in_force(options)}" for options in EXPLORERS)
    said = f"Vowpal Wabbit {vowpalwabbit.__version__} said of itself: {said}."
    rows_text = [f"| {' | '.join(r)} |" for r in table]
    lines = ["# A recommender with hashed features", "", about, "", said, "", load, "", *rows_text]
    (options.out / "recommender.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
