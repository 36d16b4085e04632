"""The whole of Figure 2 (both panels, all grids, 100 trials, T = 10,000), and what its compiled loop is limited by.

Printed: the wall time; the time the authors report (18 batches of about one CPU hour); and how close the loop comes to
its limit, the random generator: nanoseconds for a noise target drawn and learned, beside those for drawing it alone.

    python benchmarks/bench_figure2.py [--quick] [--out results/benchmarks]
"""

import argparse
import csv
import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from optimist.bandits import ACB, MultiArmed, simulate
from optimist.bandits.compiled.streams import fill_normal, make_streams
from optimist.studies.bandits.figure2 import SCALES, measure
from optimist.studies.study import Session

CPU_HOURS_OF_THE_PAPER = 18.0  # Appendix A.1: "around 1 CPU hour" for each of 2 x 9 batches


def nanoseconds_a_normal(draws: int) -> float:
    """Drawing standard normals alone, one stream."""
    stream, buffer = make_streams(np.random.SeedSequence(0), [0])[0], np.empty(draws)
    fill_normal(stream, buffer)
    times = []
    for _ in range(7):
        start = time.perf_counter()
        fill_normal(stream, buffer)
        times.append(time.perf_counter() - start)
    return 1e9 * float(np.median(times)) / draws


def nanoseconds_a_target(horizon: int, members: int) -> float:
    """The compiled loop on one thread, per noise target: draw, descend, average, maximum, and the rest of the round."""
    policy = ACB(
        50, ensemble_size=members, beta=0.5, solver="sgd", averaging="uniform", learning_rate=0.5, is_implicit=False
    )
    arguments = {"horizon": horizon, "trials": 4, "seed": 0, "threads": 1}
    simulate(policy, MultiArmed.paper(), **arguments)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        simulate(policy, MultiArmed.paper(), **arguments)
        times.append(time.perf_counter() - start)
    return 1e9 * float(np.median(times)) / (4 * horizon * members)


def main() -> None:
    """Prints and writes the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a smoke run")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    settings = SCALES["smoke" if arguments.quick else "paper"]
    draw = nanoseconds_a_normal(10_000 if arguments.quick else 1_000_000)
    learn = nanoseconds_a_target(100 if arguments.quick else 10_000, 256)
    figure_alone = replace(settings, other_ridges=(), shown_rates=settings.shown_rates[:1])
    start = time.perf_counter()
    measure(figure_alone, Session(Path()))
    seconds = time.perf_counter() - start
    core_seconds = seconds * (os.cpu_count() or 1)
    rows = [
        ("Figure 2, both panels and grids, seconds of wall time", round(seconds, 1)),
        ("cores", os.cpu_count()),
        (
            "CPU time of the paper over ours (other machines, so a magnitude)",
            round(CPU_HOURS_OF_THE_PAPER * 3600 / core_seconds),
        ),
        ("nanoseconds to draw a normal", round(draw, 2)),
        ("nanoseconds to draw and learn a noise target (M = 256)", round(learn, 2)),
        ("share of the loop that is the random generator", round(draw / learn, 2)),
    ]
    with (arguments.out / "figure2.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("what", "value"), *rows])
    for name, value in rows:
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
