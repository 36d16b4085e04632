"""How much the paper's experiments take, from rates that were measured: core-hours, GPU-hours, memory, disk.

Reads the committed tables of `bench_training.py` and `bench_bonuses.py`, measures what is cheap to measure (CPU time of
environments and of the network against the number of environments; the study's own process with 1,000 runs), and writes
``sizing.csv`` and ``sizing.md``. What is computed and not measured says so in its row.

    python benchmarks/sizing.py
"""

import argparse
import csv
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import torch

from measuring import machine
from optimist.reporting.tables import write_csv
from optimist.studies.attempts import attempted
from optimist.studies.cluster import Answered, Cluster, News, Started
from optimist.studies.executors import Call, answered
from optimist.studies.training.runs import last_step
from optimist.training.environments.names import make
from paper_setting import PAPER, PaperNetwork

RESULTS = Path(__file__).parents[1] / "results/benchmarks"
CORES = 2
"""Cores of the machine that the committed tables were measured on."""
GAMES, REPLICATES, FRAMES, SKIP = 8, 5, 2e9, 4
ENVIRONMENTS, STEPS, EPOCHS = 128, 128, 4
GPU_FLOPS = 20e12 * 0.3
"""A GPU of 20 TFLOP/s in single precision, of which small convolutions reach 30 %: an assumption, not a measurement."""
ROW = 4 * 84 * 84
"""Bytes of an observation, four frames."""


@dataclass(frozen=True)
class Size:
    """One number, and where it comes from."""

    question: str
    what: str
    value: float
    unit: str
    origin: str
    """measured, or computed, and from what."""


def main() -> None:
    """Measure, compute, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="a smoke run whose numbers mean nothing")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder of the tables")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    where = machine()
    rows = [*budget(), *environments(arguments.quick), *dimensions(), *thousand_runs(arguments.quick)]
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_csv(arguments.out / "sizing.csv", [vars(row) for row in rows])
    lines = ["# Sizing", "", f"`python benchmarks/sizing.py` on {where}. CPU time, one thread.", ""]
    lines += ["| question | what | value | unit | origin |", "|---|---|---:|---|---|"]
    lines += [f"| {r.question} | {r.what} | {r.value:,.4g} | {r.unit} | {r.origin} |" for r in rows]
    (arguments.out / "sizing.md").write_text("\n".join(lines) + "\n")
    for row in rows:
        print(*(getattr(row, field.name) for field in fields(row)), sep="  ")


def budget() -> Iterator[Size]:
    """The paper's budget for one bonus, by the committed speed of training."""
    question, runs = "the paper's budget, one bonus", GAMES * REPLICATES
    steps = FRAMES / SKIP
    yield Size(question, "runs", runs, "runs", f"{GAMES} games x {REPLICATES} replicates")
    yield Size(question, "steps of the agent per run", steps, "steps", "computed: 2e9 frames / 4")
    source = "computed from results/benchmarks/training.csv (Breakout, 16 environments, measured, 2 cores)"
    for variant in ("no bonus", "ACB (default)", "RND"):
        row = read("training", task="Breakout-v5", variant=f"optimist, {variant}")
        hours = CORES * runs * steps / float(row["steps_per_second"]) / 3600
        yield Size(question, f"{variant}: all on CPU", hours, "core-hours", source)
        yield Size(question, f"{variant}: one run on 2 cores", hours / runs / CORES / 24, "days", source)
    parts = read("training", task="Breakout-v5", variant="optimist, ACB (default)")
    seconds = {name: float(parts[f"{name}_ms"]) / 1e3 for name in ("environment", "inference", "bonus", "update")}
    total = sum(seconds.values())
    for name, value in seconds.items():
        yield Size(question, f"ACB: share of {name}", 100 * value / total, "%", source)
    emulation = CORES * runs * steps * seconds["environment"] / 2048 / 3600
    yield Size(question, "emulation, which stays on CPU", emulation, "core-hours", source)
    flops = forward_flops()
    per_step = flops * (1 + 3 * EPOCHS + 3)
    yield Size(question, "network, one forward pass", flops / 1e6, "MFLOP", "computed from its layers")
    rate = 3 * EPOCHS * flops * 2048 / seconds["update"]
    yield Size(question, "what the update reaches on 2 cores", rate / 1e9, "GFLOP/s", source)
    told = f"computed: one inference, {EPOCHS} epochs and one gradient for the bonus, at {GPU_FLOPS / 1e12:.0f} TFLOP/s"
    yield Size(question, "network and bonus on a GPU", runs * steps * per_step / GPU_FLOPS / 3600, "GPU-hours", told)
    exact = {name: float(read("bonuses", what="gradient", quantity=f"{name} speed")["value"]) for name in SPEEDS}
    hours = CORES * runs * steps * (1 / exact["compute"] + 16 * 128 / (128 * 128) / exact["update"]) / 3600
    told = "computed from results/benchmarks/bonuses.csv: every state read, 16 updates of 128 states per rollout"
    yield Size(question, "bonus with the exact gradient, as the paper's (d = 1.2 million)", hours, "core-hours", told)


SPEEDS = ("compute", "update")


def environments(quick: bool) -> Iterator[Size]:
    """What changes between 128 and 1,024 environments."""
    question, counts = "environments", (4, 8) if quick else (ENVIRONMENTS, 1024)
    network = PaperNetwork(PAPER)
    told = "measured: CPU time, Breakout in EnvPool, uniform actions"
    for n_envs in (2, 4) if quick else (16, ENVIRONMENTS):  # 1,024 take minutes to start here
        yield Size(
            question, f"{n_envs}: emulation", 1e6 * emulation_seconds(n_envs, 2 if quick else 20), "us/step", told
        )
    for n_envs in counts:
        told = "measured: CPU time, one thread, the paper's network"
        yield Size(question, f"{n_envs}: inference", 1e6 * inference_seconds(network, n_envs), "us/step", told)
        rollout = n_envs * STEPS
        told = f"computed: {STEPS} steps, observations and next observations as bytes, 4 frames each"
        yield Size(question, f"{n_envs}: memory of a rollout", 2 * rollout * ROW / 1e9, "GB", told)
        yield Size(question, f"{n_envs}: rollouts per run", FRAMES / SKIP / rollout, "rollouts", "computed")


def dimensions() -> Iterator[Size]:
    """The bonus with the exact gradient at d = 1.2 million, measured, and at 10 million, computed."""
    question, d = "dimensions", 1_205_426
    memory = float(read("bonuses", what="gradient", quantity="weights, optimizer state and average")["value"]) / 1e3
    for size, origin in ((d, "measured: results/benchmarks/bonuses.csv"), (10_000_000, "computed: linear in d")):
        yield Size(question, f"d = {size:,}: state of the ensemble, M = 128", memory * size / d, "GB", origin)
        for name in SPEEDS:
            rate = float(read("bonuses", what="gradient", quantity=f"{name} speed")["value"]) * d / size
            yield Size(question, f"d = {size:,}: {name}, 2 cores", rate, "states/s", origin)
    for name in SPEEDS:
        rate = float(read("bonuses", what="sketch", quantity=f"{name} speed")["value"])
        yield Size(question, f"sketch of d = {d:,}: {name}, 2 cores", rate, "states/s", "measured: the same table")
    yield Size(
        question, "covariance of d = 10,000,000, which no solver here keeps", 8e14 / 1e12, "TB", "computed: 8 d^2"
    )


def thousand_runs(quick: bool) -> Iterator[Size]:
    """What 1,000 runs ask of the process of the study, and of the disk."""
    question, runs, workers = "1,000 runs", 20 if quick else 1000, 5 if quick else 100
    start = time.process_time()
    wall = time.monotonic()
    with Cluster(AtOnce(), workers) as cluster:
        submit = lambda item, _: cluster.submit(abs, item)  # noqa: E731
        assert sorted(f.result() for _, f in attempted(range(runs), submit, cluster, retries=0)) == list(range(runs))
    origin = f"measured: {workers} workers that answer at once, by simulation"
    yield Size(question, "CPU of the study's process, all calls", time.process_time() - start, "s", origin)
    yield Size(question, "wall time, all calls", time.monotonic() - wall, "s", origin)
    metrics = Path(os.environ.get("TMPDIR", "/tmp")) / f"sizing-{os.getpid()}.csv"
    metrics.write_text("step,value\n" + "".join(f"{k},{k}\n" for k in range(30_000)))
    try:
        start = time.process_time()
        for _ in range(1000):
            last_step(metrics)
        seconds = time.process_time() - start
    finally:
        metrics.unlink()
    yield Size(
        question, "one look at the progress of 1,000 runs", seconds, "s", "measured: local disk, 30,000 rows each"
    )
    weights = sum(p.numel() for p in PaperNetwork(PAPER).parameters()) * 4
    acb = float(read("bonuses", section="image 4 x 84 x 84", what="ACB sketch, exact", quantity="state")["value"])
    each = (3 * weights / 1e6 + acb) / 1e3
    told = "computed: network, Adam and ACB's state; two checkpoints and the best of each run"
    yield Size(question, "checkpoints while they run", 3 * 1000 * each, "GB", told)
    yield Size(question, "checkpoints when all are finished", 1000 * each, "GB", told + ": one is kept")


class AtOnce:
    """An engine that answers at once: what remains is the work of the study's own process."""

    def __init__(self) -> None:
        self._news: list[tuple[Call, News]] = []
        self._arrived = threading.Condition()

    def start(self, calls: Sequence[Call]) -> None:
        """Every call is begun and answered."""
        with self._arrived:
            for call in calls:
                self._news += [(call, Started("here")), (call, Answered(*answered(call.function, call.args, {})))]
            self._arrived.notify()

    def news(self, patience: float) -> Sequence[tuple[Call, News]]:
        """All of it."""
        with self._arrived:
            self._arrived.wait_for(lambda: bool(self._news), patience)
            told, self._news = self._news, []
        return told

    def ask_to_stop(self) -> None:
        """Nothing runs."""

    def close(self) -> None:
        """Nothing to close."""


def emulation_seconds(n_envs: int, steps: int) -> float:
    """CPU seconds of a step of one environment."""
    made = make("Breakout-v5", n_envs=n_envs)
    generator = torch.Generator().manual_seed(0)
    made.reset(0)

    def play(count: int) -> None:
        for _ in range(count):
            made.step(torch.randint(4, (n_envs,), generator=generator).numpy())

    play(1)
    return cpu_seconds(lambda: play(steps)) / (n_envs * steps)


def inference_seconds(network: PaperNetwork, n_envs: int) -> float:
    """CPU seconds of a forward pass, per state."""
    frames = torch.zeros(n_envs, 4, 84, 84)
    with torch.inference_mode():
        network.trunk(frames)
        return cpu_seconds(lambda: network.trunk(frames)) / n_envs


def cpu_seconds(action: Callable[[], object]) -> float:
    """CPU time of this process, all its threads: what else runs on the machine hardly moves it."""
    start = time.process_time()
    action()
    return time.process_time() - start


def forward_flops() -> float:
    """Floating-point operations of one forward pass of the paper's trunk."""
    (a, b, c), (first, width) = PAPER.convolutions, PAPER.hidden
    convolutions = 400 * a * 4 * 64 + 81 * b * a * 16 + 49 * c * b * 9
    return 2.0 * (convolutions + 49 * c * first + first * width + 2 * width * width)


def read(table: str, **wanted: str) -> dict[str, str]:
    """The first row of a committed table with these values."""
    with (RESULTS / f"{table}.csv").open(newline="") as file:
        return next(row for row in csv.DictReader(file) if all(row[k] == v for k, v in wanted.items()))


if __name__ == "__main__":
    main()
