"""How long a fresh process takes to import the bandits and to make its first decision and its first update.

Every number comes from a process of its own. Cold: an empty folder for Numba's compiled code, so that everything is
compiled; warm: the folder of the run before. User and system CPU time stand beside wall time, because others may keep
the machine busy: the smallest of ``--repeats`` runs is reported, which is what the work itself takes.

    python benchmarks/bench_startup.py [--quick] [--out results/benchmarks]
"""

import argparse
import csv
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

D, K = 20, 10
POLICIES = {
    "ACB": "ACB({d})",
    "ACB, rms": "ACB({d}, aggregate='rms')",
    "ACB, re-randomized": "ACB({d}, history='rerandomized')",
    "ACB, sgd": "ACB({d}, solver='sgd')",
    "LinUCB": "LinUCB({d})",
    "LinTS": "LinTS({d})",
    "EnsembleSampling": "EnsembleSampling({d})",
    "DiagonalLinUCB": "DiagonalLinUCB({d})",
    "EpsilonGreedy": "EpsilonGreedy({d})",
}
CHILD = """
import json, resource, time

def now():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), used.ru_utime + used.ru_stime

stages = [now()]
from optimist import bandits
stages.append(now())
import numpy as np
X = np.random.default_rng(0).normal(size=({k}, {d}))
policy = bandits.{make}
action = policy.predict(X)
stages.append(now())
policy.partial_fit(X[action], 1.0)
stages.append(now())
print(json.dumps([[b - a for a, b in zip(*pair)] for pair in zip(stages, stages[1:])]))
"""
STAGES = ("import", "first decision", "first update")


def measure(make: str, cache: str) -> list[list[float]]:
    """Wall and CPU seconds of every stage in a fresh process whose compiled code is kept in ``cache``."""
    code = CHILD.format(k=K, d=D, make=make.format(d=D))
    environment = os.environ | {"NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def rows(name: str, make: str, repeats: int) -> list[dict[str, object]]:
    """One row per stage, cold and warm."""
    found: dict[str, list[list[list[float]]]] = {"cold": [], "warm": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            for state in ("cold", "warm"):
                found[state].append(measure(make, cache))
    return [
        {
            "policy": name,
            "compiled code": state,
            "stage": stage,
            "wall_seconds": round(min(run[i][0] for run in runs), 3),
            "cpu_seconds": round(min(run[i][1] for run in runs), 3),
        }
        for state, runs in found.items()
        for i, stage in enumerate(STAGES)
    ]


def main() -> None:
    """Measures, prints, writes ``startup.csv`` and the conditions beside it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one policy, once: a smoke test")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"))
    options = parser.parse_args()
    load = os.getloadavg()[0]
    chosen = {"ACB": POLICIES["ACB"]} if options.quick else POLICIES
    found: list[dict[str, object]] = []
    for name, make in chosen.items():
        found += (own := rows(name, make, 1 if options.quick else options.repeats))
        for row in own:
            print("  ".join(str(value) for value in row.values()), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    with (options.out / "startup.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, found[0])
        writer.writeheader()
        writer.writerows(found)
    repeats = 1 if options.quick else options.repeats
    conditions = (
        f"`startup.csv`: {D} features, {K} actions, the smallest of {repeats} fresh processes each; "
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, "
        f"load average {load:.1f} at the start and {os.getloadavg()[0]:.1f} at the end. Above a load of "
        f"{os.cpu_count()} wall time counts others' work too: read the CPU seconds.\n"
    )
    (options.out / "startup.md").write_text("# Starting up\n\n" + conditions)
    print(conditions)


if __name__ == "__main__":
    main()
