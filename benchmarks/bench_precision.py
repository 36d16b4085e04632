"""Whether a policy whose trunk multiplies in bfloat16 learns as one in float32: the same seeds, turn by turn.

python benchmarks/bench_precision.py            # DoorKey-8x8, five seeds: about twenty minutes on an idle core
python benchmarks/bench_precision.py --quick    # one rollout each, seconds: only that everything runs
"""

import argparse
import csv
import time
from dataclasses import replace
from pathlib import Path
from typing import get_args

from measuring import machine
from optimist.training.config import Precision, TrainConfig
from optimist.training.ppo import Trainer
from optimist.training.presets import defaults_for

COLUMNS = ("precision", "seed", "solved", "steps", "steps_per_second")


def play(config: TrainConfig) -> dict[str, object]:
    """Whether a run solved its task within its budget, after how many steps, and how fast it was."""
    trainer = Trainer(config)
    trainer.start()
    start = time.perf_counter()
    while trainer.step < config.total_steps and not trainer.succeeded:
        trainer.iterate()
    trainer.environments.close()
    speed = trainer.step / (time.perf_counter() - start)
    numbers = (config.precision, config.seed, trainer.succeeded, trainer.step, round(speed))
    return dict(zip(COLUMNS, numbers, strict=True))


def main() -> None:
    """Play, print, and write ``precision.csv`` and ``precision.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one rollout each: only that everything runs")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"), help="folder of the two files")
    parser.add_argument("--env", default="MiniGrid-DoorKey-8x8-v0", help="a task that says what a success is")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=1_000_000, help="the budget of a run")
    chosen = parser.parse_args()
    defaults = replace(defaults_for(chosen.env), stop_at_success=0.9, total_steps=chosen.steps, threads=1)
    if chosen.quick:
        defaults = replace(defaults, total_steps=defaults.rollout_steps)
    configs = [
        replace(defaults, seed=seed, precision=precision)
        for seed in range(1 if chosen.quick else chosen.seeds)
        for precision in get_args(Precision)
    ]
    rows = [play(config) for config in configs]
    flags = f"--env {chosen.env} --seeds {chosen.seeds} --steps {chosen.steps}" + " --quick" * chosen.quick
    lines = [
        "# Learning in bfloat16",
        "",
        f"`python benchmarks/bench_precision.py {flags}` on {machine()}; ACB, one thread. Solved: 0.9 of the last 100 "
        f"episodes succeeded, within {defaults.total_steps:,} steps.",
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---|---:|---|---:|---:|",
        *(f"| {' | '.join(str(row[column]) for column in COLUMNS)} |" for row in rows),
    ]
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "precision.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    page = "\n".join(lines) + "\n"
    (chosen.out / "precision.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
