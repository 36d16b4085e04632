"""What the bonus costs inside each host: the time of its iterations with and without, turn by turn in one run.

python benchmarks/bench_adapters.py            # every host that is installed: some minutes on two idle cores
python benchmarks/bench_adapters.py --quick    # one tiny iteration each, seconds: only that everything runs

A host is a file ``adapter_cases_HOST.py``. Each of its functions ``NAME_case(quick=...)`` gives the host without and
with the bonus, as functions that run one iteration each.
"""

import argparse
import csv
import importlib
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from measuring import machine

FOLDER = Path(__file__).parent
PREFIX, SUFFIX = "adapter_cases_", "_case"
NOTE = (
    "An iteration is a rollout and the host's update. Both hosts of a row take turns in one process, in reversed order "
    "every other round, after one round that is not counted. Ratio: seconds with the bonus over seconds without it in "
    "the same round, its median and quartiles. What a case is, its function in `benchmarks/adapter_cases_HOST.py` says."
)


@dataclass(frozen=True)
class Result:
    """The seconds an iteration of one host without and with the bonus, and their ratio's quartiles and median."""

    host: str
    case: str
    rounds: int
    without: float
    with_bonus: float
    ratio: tuple[float, float, float]


def hosts() -> list[str]:
    """The hosts that have a case here."""
    return sorted(path.stem.removeprefix(PREFIX) for path in FOLDER.glob(f"{PREFIX}*.py"))


def measure(host: str, *, rounds: int, quick: bool) -> list[Result]:
    """One result for each case of a host."""
    cases = inspect.getmembers(importlib.import_module(PREFIX + host), inspect.isfunction)
    results = []
    for name, make in cases:
        if name.endswith(SUFFIX):
            without, with_bonus = take_turns(make(quick=quick), rounds)
            low, middle, high = np.quantile(with_bonus / without, [0.25, 0.5, 0.75])
            seconds = float(np.median(without)), float(np.median(with_bonus))
            results.append(Result(host, name.removesuffix(SUFFIX), rounds, *seconds, (low, middle, high)))
    return results


def take_turns(actions: tuple[Callable[[], object], Callable[[], object]], rounds: int) -> np.ndarray:
    """The seconds of both in every round. A first round warms up and is not counted. Shapes: -> (2, rounds)."""
    seconds = np.zeros((2, rounds + 1))
    for number in range(rounds + 1):
        for k in (0, 1) if number % 2 else (1, 0):
            start = time.perf_counter()
            actions[k]()
            seconds[k, number] = time.perf_counter() - start
    return seconds[:, 1:]


def report(results: list[Result], missing: list[str], machine_line: str, command: str) -> str:
    """The results as a page of markdown."""
    lines = ["# What the bonus costs inside each host", "", f"`{command}` on {machine_line}.", "", NOTE, ""]
    lines += [
        "| host | case | rounds | without, ms | with, ms | ratio | quartiles |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        low, middle, high = result.ratio
        lines.append(
            f"| {result.host} | {result.case} | {result.rounds} | {1e3 * result.without:.3g} "
            f"| {1e3 * result.with_bonus:.3g} | {middle:.2f} | {low:.2f} .. {high:.2f} |"
        )
    if missing:
        lines += ["", f"Not installed: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write ``adapters.csv`` and ``adapters.md``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one tiny iteration each: only that everything runs")
    parser.add_argument("--out", type=Path, default=Path("results/benchmarks"), help="folder of the two files")
    parser.add_argument("--host", choices=hosts(), help="this host alone")
    parser.add_argument("--rounds", type=int, default=20, help="iterations of each that are counted")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    machine_line = machine()
    results, missing = [], []
    for host in [chosen.host] if chosen.host else hosts():
        try:
            results += measure(host, rounds=1 if chosen.quick else chosen.rounds, quick=chosen.quick)
        except ModuleNotFoundError as error:
            missing.append(f"{host} ({error})")
    flags = [*(["--quick"] if chosen.quick else []), *(["--host", chosen.host] if chosen.host else [])]
    page = report(results, missing, machine_line, " ".join(["python benchmarks/bench_adapters.py", *flags]))
    chosen.out.mkdir(parents=True, exist_ok=True)
    with (chosen.out / "adapters.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["host", "case", "rounds", "seconds_without", "seconds_with", "ratio", "ratio_q1", "ratio_q3"])
        for result in results:
            low, middle, high = result.ratio
            numbers = [result.without, result.with_bonus, middle, low, high]
            writer.writerow([result.host, result.case, result.rounds, *(f"{number:.6g}" for number in numbers)])
    (chosen.out / "adapters.md").write_text(page)
    print(page)


if __name__ == "__main__":
    main()
