"""One run on two processes of one thread each, against one process of two threads; and what two processes exchange.

Protocol, fixed before anything was measured. Two idle cores. For each task (below) a trainer of one process with two
threads and one of two processes with one thread each play the same run, in turns, ``--repeats`` times (5), each of
``--rollouts`` rollouts (6) after one that warms up. Reported are the median over the repeats of the steps per second of
the rollouts together, by the clock of the slowest rank, their ratio (above 1: two processes are faster), and the bytes
that one rank gives to exchanges in a rollout, by kind. Nothing is discarded, and no setting is tuned to the result.

- ``deepsea``: DeepSea-20, ACB as it is by default (exact, some 2,500 dimensions), 16 environments x 128 steps.
- ``atari``: Breakout, ACB with a sketch of 16 per layer (exact), 32 environments x 64 steps, the paper's network.
- ``atari-ppo``: the same without a bonus, so that the trainer itself is seen.

    python benchmarks/bench_ranks.py [--quick] [--sizes] [--out results/benchmarks]

``--sizes`` measures only what is exchanged, which a busy machine does not change; ``--quick`` is for tests.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import torch

from optimist.ranks import Ranks, joined
from optimist.training.config import TrainConfig
from optimist.training.ppo import Trainer
from optimist.training.presets import defaults_for

TASKS: dict[str, TrainConfig] = {
    "deepsea": replace(defaults_for("DeepSea-20"), env="DeepSea-20", n_envs=16, steps=128),
    "atari": replace(
        defaults_for("Breakout-v5"), env="Breakout-v5", bonus_options=("sketch_size=16",), n_envs=32, steps=64
    ),
    "atari-ppo": replace(defaults_for("Breakout-v5"), env="Breakout-v5", bonus="none", n_envs=32, steps=64),
}
QUICK = {"n_envs": 4, "steps": 8, "epochs": 1, "minibatches": 2}
COLUMNS = ("task", "quantity", "value", "unit")


def config_of(task: str, *, threads: int, quick: bool) -> TrainConfig:
    """The configuration of a task for a process of so many threads."""
    config = replace(TASKS[task], threads=threads, device="cpu", warm_up_steps=0, total_steps=10**9)
    return replace(config, **QUICK) if quick else config


def play(config: TrainConfig, rollouts: int, ranks: Ranks) -> dict[str, object]:
    """The seconds of all rollouts after the first, on the slowest rank, and the bytes exchanged in one of them."""
    trainer = Trainer(config, ranks=ranks)
    torch.set_num_threads(config.threads)  # one process has both cores, two have one each
    trainer.start()
    trainer.iterate()
    ranks.exchanged.clear()
    ranks.any(False)  # all begin together
    start = time.perf_counter()
    for _ in range(rollouts):
        trainer.iterate()
    seconds = time.perf_counter() - start
    exchanged = {kind: size // rollouts for kind, size in ranks.exchanged.items()}
    trainer.environments.close()
    return {"seconds": max(ranks.objects(seconds)), "exchanged": exchanged}


def measured(task: str, processes: int, *, rollouts: int, quick: bool) -> dict[str, object]:
    """`play` of a task in processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "told.json"
        inner = [__file__, "--inner", task, str(rollouts), str(3 - processes), str(out), *["--quick"] * quick]
        launch = [] if processes == 1 else ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        environment = os.environ | {"OMP_NUM_THREADS": str(3 - processes)}
        subprocess.run([sys.executable, *launch, *inner], env=environment, check=True, capture_output=True)
        return json.loads(out.read_text())


def rows_of(task: str, *, repeats: int, rollouts: int, quick: bool, sizes: bool) -> list[tuple[str, str, float, str]]:
    """Every number of a task."""
    config, rows = config_of(task, threads=1, quick=quick), []
    if not sizes:
        seconds: dict[int, list[float]] = {1: [], 2: []}
        for _ in range(repeats):
            for processes, times in seconds.items():
                times.append(float(measured(task, processes, rollouts=rollouts, quick=quick)["seconds"]))  # pyrefly: ignore
        speeds = {n: rollouts * config.rollout_steps / statistics.median(times) for n, times in seconds.items()}
        rows += [(task, f"{n} process(es)", round(speed, 1), "steps/s") for n, speed in speeds.items()]
        rows.append((task, "two processes / one", round(speeds[2] / speeds[1], 3), "x"))
    told = measured(task, 2, rollouts=1, quick=quick)["exchanged"]
    for kind, size in told.items():  # pyrefly: ignore
        rows.append((task, f"{kind}, given by one rank in a rollout of {config.rollout_steps:,} steps", size, "bytes"))
    return rows


def main() -> None:
    """Measure, print and, with ``--out``, write ``ranks.csv``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rollouts", type=int, default=6)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--inner", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.inner:
        task, rollouts, threads, out = chosen.inner
        with joined() as ranks:
            told = play(config_of(task, threads=int(threads), quick=chosen.quick), int(rollouts), ranks)
            if ranks.is_first:
                Path(out).write_text(json.dumps(told))
        return
    repeats, rollouts = (1, 1) if chosen.quick else (chosen.repeats, chosen.rollouts)
    rows = [
        row
        for task in chosen.tasks
        for row in rows_of(task, repeats=repeats, rollouts=rollouts, quick=chosen.quick, sizes=chosen.sizes)
    ]
    for row in rows:
        print(*row, sep="  ")
    if chosen.out:
        chosen.out.mkdir(parents=True, exist_ok=True)
        with (chosen.out / "ranks.csv").open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
