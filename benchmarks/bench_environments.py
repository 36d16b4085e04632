"""What a step of the trainer costs with 128 and with 1,024 environments: Breakout, whole iterations, part by part.

Both play rollouts of 8,192 steps in all (128 x 64 and 1,024 x 8), so that updates and bonuses are of the same size and
only emulation and inference see the difference. Each number of environments has a process of its own.

python benchmarks/bench_environments.py            # some eight minutes on two idle cores
python benchmarks/bench_environments.py --quick    # a few environments: only that everything runs
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from measuring import MEGABYTE, in_subprocess, machine, memory_growth
from optimist.reporting.tables import write_csv
from optimist.training.ppo import Trainer
from optimist.training.presets import defaults_for

RESULTS = Path(__file__).parents[1] / "results/benchmarks"
ENV, BONUS, THREADS = "Breakout-v5", "acb", 2
PARTS = ("environment", "inference", "bonus", "update", "bookkeeping")
NOTE = (
    "One iteration, a rollout and its update, is not counted; the numbers are of those after it. Parts are in "
    "microseconds of wall time per step of one environment, with both cores; `CPU` is the time that all threads of the "
    "process had the processor, per step. `start` is from nothing to the first rollout: 1,024 emulators are made one "
    "after the other. Memory is the peak of the process over what it had before."
)


def main() -> None:
    """Measure each number of environments, print, and write ``environments.csv`` and ``environments.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke run whose numbers mean nothing")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the tables")
    parser.add_argument("--rollouts", type=int, default=2, help="iterations that are counted")
    parser.add_argument("--n-envs", type=int, nargs="+", help="numbers of environments")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    total, counts = (32, (2, 4)) if chosen.quick else (8192, (128, 1024))
    if chosen.measure:
        print(json.dumps(measured(chosen.measure, total // chosen.measure, chosen.rollouts)))
        return
    where, rows = machine(), []
    for n_envs in chosen.n_envs or counts:
        more = ["--quick"] if chosen.quick else []
        words = [__file__, "--measure", str(n_envs), "--rollouts", str(chosen.rollouts), *more]
        rows.append(json.loads(in_subprocess(words).splitlines()[-1]))
        print(rows[-1], flush=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    write_csv(chosen.out / "environments.csv", rows)
    (chosen.out / "environments.md").write_text(page(rows, where), encoding="utf-8")


def measured(n_envs: int, steps: int, rollouts: int) -> dict[str, Any]:
    """What one number of environments costs. Runs in a process of its own."""
    torch.set_num_threads(THREADS)
    config = replace(
        defaults_for(ENV),
        bonus=BONUS,
        n_envs=n_envs,
        steps=steps,
        env_options=(f"num_threads={THREADS}",),
        warm_up_steps=max(1, 2048 // n_envs) if n_envs >= 16 else 4,
        device="cpu",
        threads=THREADS,
    )
    found: dict[str, Any] = {}

    def play() -> None:
        wall, used = time.perf_counter(), time.process_time()
        trainer = Trainer(config)
        trainer.start()
        found["start_s"], found["start_cpu_s"] = time.perf_counter() - wall, time.process_time() - used
        trainer.iterate()
        wall, used = time.perf_counter(), time.process_time()
        told = [trainer.iterate() for _ in range(rollouts)]
        played = rollouts * n_envs * steps
        wall, used = time.perf_counter() - wall, time.process_time() - used
        found["steps_per_second"], found["cpu_us"] = played / wall, 1e6 * used / played
        found.update({f"{part}_us": 1e6 * sum(t[f"seconds/{part}"] for t in told) / played for part in PARTS})
        trainer.environments.close()

    found["memory_mb"] = memory_growth(play) / MEGABYTE
    return {"n_envs": n_envs, "steps": steps, "rollouts": rollouts} | {key: round(v, 1) for key, v in found.items()}


def page(rows: list[dict[str, Any]], where: str) -> str:
    """The results as a page of markdown."""
    lines = ["# The trainer with many environments", "", f"`python benchmarks/bench_environments.py` on {where}."]
    lines += [f"{ENV} in EnvPool, bonus {BONUS}, {THREADS} threads.", "", NOTE, ""]
    heads = ["environments", "steps each", *PARTS, "CPU", "steps/s", "start, s", "start CPU, s", "memory, MB"]
    lines += [f"| {' | '.join(heads)} |", f"|{'---:|' * len(heads)}"]
    keys = ["n_envs", "steps", *(f"{p}_us" for p in PARTS), "cpu_us", "steps_per_second"]
    for row in rows:
        cells = [row[key] for key in (*keys, "start_s", "start_cpu_s", "memory_mb")]
        lines.append(f"| {' | '.join(f'{cell:,.0f}' for cell in cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
