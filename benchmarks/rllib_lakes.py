"""RLlib's own curiosity tasks, played by `examples/rllib_frozen_lake.py`: two lakes, three learners, five seeds.

Each run is a process of its own and stops at success. A row is added to ``runs.csv`` as soon as a run has ended; what
is there already is not played again, so that the command can be stopped and given again at any time. The page is made
from the rows that there are.

python benchmarks/rllib_lakes.py --bonuses acb none    # 20 runs: some 40 minutes of one core
python benchmarks/rllib_lakes.py                       # and RLlib's counts, 30 runs
python benchmarks/rllib_lakes.py --limits cuts --sizes 8 --bonuses acb rllib-count    # as RLlib's example: 10 more
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import torch

from measuring import machine
from optimist.files import write_text
from optimist.reporting.tables import Row, read_csv, write_csv

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples/rllib_frozen_lake.py"
PUBLISHED = {8: "**194,000** | counts, return 0.99", 12: "**786,000** | a curiosity module, return 1.0"}
"""What RLlib's two examples state: one run each."""
STEPS = {8: 250_000, 12: 400_000}
"""Steps at most."""
LIMITS = {"ends": "", "cuts": ", limit cuts"}
BONUSES = {"acb": "ACB", "rllib-count": "RLlib's counts", "none": "no bonus"}
SEEDS = (100, 101, 102, 103, 104)
KEY = ("size", "limit", "bonus", "seed")
Job = tuple[int, str, str, int]


def main() -> None:
    """Play what is missing, and write ``runs.csv`` and ``README.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(PUBLISHED), choices=list(PUBLISHED))
    parser.add_argument("--limits", nargs="+", default=["ends"], choices=list(LIMITS))
    parser.add_argument("--bonuses", nargs="+", default=list(BONUSES), choices=list(BONUSES))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--steps", type=int, help="steps at most, in place of 250,000 (8x8) and 400,000 (12x12)")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--out", type=Path, default=ROOT / "results/rllib", help="the folder of the two files")
    chosen = parser.parse_args()
    torch.set_num_threads(1)  # as the runs have: the page says so
    path = chosen.out / "runs.csv"
    rows = read_csv(path) if path.exists() else []
    done = {tuple(row[name] for name in KEY) for row in rows}
    wanted = itertools.product(chosen.sizes, chosen.limits, chosen.bonuses, chosen.seeds)
    jobs = [job for job in wanted if job not in done]
    print(f"{len(done)} runs are there, {len(jobs)} are to be played", flush=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    with ThreadPoolExecutor(chosen.jobs) as pool:
        running = [pool.submit(played, job, chosen.steps or STEPS[job[0]]) for job in jobs]
        try:
            for ended in as_completed(running):
                if ended.exception() is not None:
                    failed += 1
                    print(ended.exception(), file=sys.stderr, flush=True)
                    continue
                rows = sorted([*rows, ended.result()], key=place)
                write_csv(path, rows)
                write_text(chosen.out / "README.md", page(rows, machine()))
                print(f"{len(rows)} rows:", ", ".join(f"{k} {v}" for k, v in ended.result().items()), flush=True)
        finally:
            pool.shutdown(cancel_futures=True)  # what has not begun, if the command is stopped
    sys.exit(1 if failed else 0)


def place(row: Row) -> tuple[int, int, int, int]:
    """Where a row stands in the table."""
    return row["size"], [*LIMITS].index(row["limit"]), [*BONUSES].index(row["bonus"]), row["seed"]


def played(job: Job, steps: int) -> Row:
    """The row of one run, in a process of its own, which has a home of its own for what Ray writes there."""
    size, limit, bonus, seed = job
    with tempfile.TemporaryDirectory(prefix="lake-") as home:
        variables = {"HOME": home, "OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
        words = ["--size", size, "--limit", limit, "--bonus", bonus, "--seed", seed, "--steps", steps]
        ended = subprocess.run(
            [sys.executable, EXAMPLE, *map(str, words), "--out", Path(home) / "row.csv"],
            env=os.environ | variables, cwd=home, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ended.returncode:
            raise RuntimeError(f"the run {job} failed:\n{ended.stderr[-3000:]}")
        (row,) = read_csv(Path(home) / "row.csv")
    return row


def page(rows: Sequence[Row], where: str) -> str:
    """The rows as a page of markdown."""
    lines = [HEAD]
    for size, published in PUBLISHED.items():
        lines.append(f"| {size}x{size} | RLlib states | 1 run | {published} | | |")
        for limit, bonus in itertools.product(LIMITS, BONUSES):
            found = [row for row in rows if (row["size"], row["limit"], row["bonus"]) == (size, limit, bonus)]
            if found:
                lines.append(f"| {size}x{size} | {BONUSES[bonus]}{LIMITS[limit]} | {summary(found)} |")
    return "\n".join([*lines, "", TAIL.format(machine=where)])


def summary(found: Sequence[Row]) -> str:
    """One learner on one lake: runs solved, steps of each and their median, first rewards, rates."""
    steps = sorted(row["steps"] for row in found if row["solved"] == "True")
    share = f"{len(steps)} of {len(found)}"
    if len(steps) < len(found):
        share += f" in {max(row['steps'] for row in found):,}"
    median = f"**{statistics.median(steps):,.0f}**" if len(steps) == len(found) else ""
    met = [row["first_reward_by"] for row in found if row["first_reward_by"] != ""]
    goal = f"{len(met)} of {len(found)}" + (f", {statistics.median(met):,.0f}" if met else "")
    rate = sum(row["steps"] for row in found) / max(1, sum(row["cpu_seconds"] for row in found))
    return f"{share} | {median} | {', '.join(f'{n:,}' for n in steps)} | {goal} | {rate:,.0f}"


HEAD = """# RLlib's own curiosity tasks with a bonus of Optimist

FrozenLake 8x8 with holes (14 steps, just a shortest path) and 12x12 without (22 steps), as RLlib's examples of
curiosity have them, with PPO's settings of those examples. Steps until RLlib's `episode_return_mean`, of the last 80 to
100 episodes, is 0.99.

| lake | learner | solved | steps, median | steps of each seed | goal ever met, median step | steps per CPU-second |
|---|---|---|---|---|---|---:|"""
TAIL = """`python benchmarks/rllib_lakes.py` on {machine}. Seeds 100 to 104; `runs.csv` has every run.

Ray 2.60.0, one learner, 20 environments in the same process (RLlib's examples have 5, in two more processes). ACB with
`sketch_size=16` (576 dimensions; there are 64 and 144 states) and weight 0.2 on both lakes. At most 250,000 (8x8) and
400,000 steps (12x12). RLlib's counts are its own connector, `CountBasedCuriosity`, as its example for 8x8 has it; its
curiosity module for 12x12 was not played again. RLlib states one run each; that of 12x12 asks for a return of 0.9.

**One thing is not as in RLlib's examples**: an episode *ends* at its limit of steps, which is part of the task. There
it is *cut* ("limit cuts"), and RLlib's PPO goes on with the value of the state where it was cut. To be cut near the
goal is then worth as much as to reach it, as nothing observed tells the time.

This was found on the tuning seed 0 of 8x8, which is not among these. With the limit that cuts, ACB (weight 0.2) reached
a return of 0.78 after 84,193 steps and had 0.04 after 144,390; with the paper's `form="square"`, whose bonus had fallen
below a hundred-thousandth of the reward by then, 0.92 after 84,229 and 0.00 after 160,479. So it is not the bonus that
leads away from the goal. RLlib's own counts on that seed: 0.85 after 72,177 steps, 0.22 after 100,269. With the limit
that ends, ACB solved the tuning seeds 0 and 1 after 80,215 and 88,227 steps (8x8), 50,000 and 58,000 (12x12). Its
weight of 0.2 was kept from trials with the limit that cuts, where 1.0 did worse; no other was tried.
"""


if __name__ == "__main__":
    main()
