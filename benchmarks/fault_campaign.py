"""Faults by the hundred: real runs killed, damaged, crowded and starved of disk, and every byte of their end compared.

python benchmarks/fault_campaign.py --kills 200                    # what `make campaign` does, into results/campaign/
python benchmarks/fault_campaign.py --kills 4 --tasks sea pole     # a part of it

Each task is a small run of `optimist train`. It is played once without interruption. Then it is played again and again
by `optimist train` and `optimist resume` in processes that are killed at random moments by SIGKILL, SIGTERM and SIGINT;
in between its files are damaged (the newest checkpoint cut off, emptied or with a bit flipped, half a row of metrics),
two processes are started at once (crowded), its checkpoints become larger than a file may be (no room), and a small
disk is filled. Whenever such a run comes to its end, its last checkpoint and its `metrics.csv` must be those of the
uninterrupted run, byte by byte but for the times (compared, identical). The processes are forks of this one, so that
kills fall into the run and not into imports.
"""

import argparse
import csv
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from fault_attempts import Attempt, end_of, fill, lines, require
from fault_tasks import ROLLOUTS, TASKS
from optimist.files import partial_files
from optimist.reporting.figures.learning_curves import draw_run
from optimist.training.presets import train_command
from optimist.training.runs import checkpoints, playing
from optimist.training.runs import run as runs

RESULTS = Path(__file__).parents[1] / "results" / "campaign"
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


@dataclass
class Campaign:
    """All faults of one task, in ``place``."""

    name: str
    place: Path
    rng: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    damaged: dict[Path, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.config = TASKS[self.name]
        self.folder = self.place / "run-0"
        runs.train(replace(self.config, total_steps=1), self.place / "first")  # imports everything: forks find it done
        draw_run(self.place / "first/metrics.csv", self.place / "first/curves.png")
        start = time.monotonic()
        attempt = self.attempt(self.place / "whole")
        attempt.wait()
        require(attempt.code == 0, f"the uninterrupted run failed: {attempt.told()}")
        self.seconds = time.monotonic() - start
        self.expected = end_of(self.place / "whole")

    def attempt(self, folder: Path, room: int | None = None) -> Attempt:
        """Start the run in ``folder``, or go on with it if there is one."""
        playing.PROMPT = self.rng.choice((0.0, 5.0))  # as if every rollout were slow, or fast
        begun = (folder / "config.json").is_file()
        words = (
            ["resume", str(folder)] if begun else [*shlex.split(train_command(self.config))[1:], "--out", str(folder)]
        )
        return Attempt(words, self.place / f"output-{time.monotonic_ns()}", room)

    def kill(self) -> None:
        """Kill an attempt at a random moment, by one of the three signals in turn."""
        number = SIGNALS[self.counts["kills"] % 3]
        attempt, until = self.attempt(self.folder), time.monotonic() + self.rng.uniform(0, 0.7 * self.seconds)
        attempt.wait(lambda: time.monotonic() > until)
        seconds = 0.0 if attempt.is_over() else attempt.end(number)
        if attempt.code == 0:  # it was at its end already
            self.finish(attempt)
            return
        # In its first moment, before the command has set its answer, a signal ends the process by itself (-number).
        expected = (-9,) if number == signal.SIGKILL else (128 + number, -number)
        require(
            attempt.code in expected, f"{signal.Signals(number).name} gave exit code {attempt.code}: {attempt.told()}"
        )
        require("Traceback" not in attempt.told(), attempt.told())
        for path in (self.folder / "checkpoints").glob("*.safetensors"):
            if not self.is_damaged(path):
                checkpoints.state_files.read(path)  # raises unless it is complete
        self.counts["kills"] += 1
        self.counts[signal.Signals(number).name] += 1
        self.slowest = max(self.slowest, seconds if number != signal.SIGKILL else 0.0)

    def get_going(self) -> None:
        """Bring a run to where it has some checkpoints and is far from its end, and kill it there."""
        if lines(self.folder) > ROLLOUTS // 2:
            self.finish(self.attempt(self.folder))
        attempt = self.attempt(self.folder)
        attempt.wait(lambda: lines(self.folder) > 8)
        attempt.end(signal.SIGKILL)
        require(attempt.code == -9, f"exit code {attempt.code}: {attempt.told()}")

    def damage(self) -> None:
        """Damage what a power failure or a failing disk may damage: the newest checkpoint, the end of metrics.csv."""
        steps = sorted((self.folder / "checkpoints").glob("step-*.safetensors"))
        if len(steps) < 2 or any(map(self.is_damaged, steps)):  # one intact one must be left
            return
        held, how = bytearray(steps[-1].read_bytes()), self.rng.choice(("cut off", "flipped", "emptied", "half a row"))
        if how == "half a row":
            with (self.folder / "metrics.csv").open("ab") as file:
                file.write(b"12345,0.5,")
        elif how == "flipped":
            held[self.rng.randrange(len(held))] ^= 1 << self.rng.randrange(8)
            steps[-1].write_bytes(held)
        else:
            steps[-1].write_bytes(held[: self.rng.randrange(len(held)) if how == "cut off" else 0])
        self.damaged = {} if how == "half a row" else {steps[-1]: steps[-1].read_bytes()}
        self.counts["damaged"] += 1

    def is_damaged(self, path: Path) -> bool:
        """Whether `damage` made this file what it is."""
        return path in self.damaged and path.read_bytes() == self.damaged[path]

    def crowd(self) -> None:
        """Start two processes at once: one plays, the other is refused and says who plays."""
        self.get_going()
        two = [self.attempt(self.folder) for _ in range(2)]
        two[0].wait(two[1].is_over)
        loser, winner = two if two[0].is_over() else reversed(two)
        require(loser.code == 1, f"the second of two processes gave exit code {loser.code}: {loser.told()}")
        named = f"by process {winner.process} on " in loser.told() or "by another process" in loser.told()
        require("is being written to" in loser.told() and named, loser.told())
        winner.end(signal.SIGKILL)
        self.counts["crowded"] += 1

    def starve(self) -> None:
        """Let the disk be full at the next checkpoint: the run stops with a message, and goes on when there is room."""
        self.get_going()
        small = 1 + max((p.stat().st_size for p in (self.folder / "checkpoints").glob("step-*")), default=0) // 2
        attempt = self.attempt(self.folder, room=small)
        attempt.wait()
        require(attempt.code == 1 and "File too large" in attempt.told(), f"{attempt.code}: {attempt.told()}")
        self.counts["no room"] += 1
        disk = self.place / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", f"size={20 * small + 2**20}", "tmpfs", str(disk)]
        if subprocess.run(mount, capture_output=True, check=False).returncode == 0:
            try:
                moved = Path(shutil.copytree(self.folder, disk / "run"))
                rows, attempt = lines(moved), self.attempt(moved)
                attempt.wait(lambda: lines(moved) > rows)
                fill(disk / "filler")
                attempt.wait()
                require(attempt.code == 1 and "No space left" in attempt.told(), f"{attempt.code}: {attempt.told()}")
                (disk / "filler").unlink()
                shutil.rmtree(self.folder)
                shutil.copytree(moved, self.folder)  # and a run may be moved
                self.counts["full disk"] += 1
            finally:
                subprocess.run(["umount", str(disk)], check=True)
        disk.rmdir()

    def finish(self, attempt: Attempt) -> None:
        """Compare a run at its end with the uninterrupted one, and begin another."""
        attempt.wait()
        require(attempt.code == 0, f"exit code {attempt.code}: {attempt.told()}")
        require("Traceback" not in attempt.told(), attempt.told())
        self.counts["compared"] += 1
        require(
            end_of(self.folder) == self.expected, f"the run in {self.folder} has another end than the uninterrupted"
        )
        require(not partial_files(self.folder / "checkpoints", "*"), f"{self.folder} has half-written files")
        require(not (self.folder / "owner.json").exists(), f"{self.folder} is still locked")
        self.counts["identical"] += 1
        shutil.rmtree(self.folder)
        self.folder = self.place / f"run-{self.counts['compared']}"

    def carry_out(self, kills: int) -> None:
        """Faults until there were as many kills, and the last run played to its end."""
        planned = {max(1, kills // 3): self.crowd, max(1, 2 * kills // 3): self.starve}
        while self.counts["kills"] < kills:
            self.kill()
            for after in [count for count in planned if self.counts["kills"] >= count]:
                planned.pop(after)()
            if self.rng.random() < 1 / 3:
                self.damage()
        self.finish(self.attempt(self.folder))


COLUMNS = ("SIGKILL", "SIGTERM", "SIGINT", "damaged", "crowded", "no room", "full disk", "compared", "identical")


def table(campaigns: list[Campaign], command: str) -> tuple[list[list[str]], str]:
    """The rows of the CSV, and the page."""
    head = ["task", "environment", "bonus", *COLUMNS, "slowest answer to a signal, s"]
    rows = [
        [c.name, c.config.env, c.config.bonus, *(str(c.counts[name]) for name in COLUMNS), f"{c.slowest:.2f}"]
        for c in campaigns
    ]
    text = ["# The fault campaign", "", f"`{command}`", "", " ".join(__doc__.split("\n\n")[2].split()), ""]
    text += [f"| {' | '.join(row)} |" for row in (head, ["---"] * 3 + ["---:"] * (len(head) - 3), *rows)]
    return [head, *rows], "\n".join(text) + "\n"


def run() -> None:
    """The campaign that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="in all tasks together")
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seed", type=int, default=0, help="of the moments and the damages")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    campaigns: list[Campaign] = []
    with tempfile.TemporaryDirectory() as place:
        for k, name in enumerate(options.tasks):
            folder = Path(place) / name
            folder.mkdir()
            campaign = Campaign(name, folder, random.Random(f"{options.seed} {name}"))
            share = (k + 1) * options.kills // len(options.tasks) - k * options.kills // len(options.tasks)
            campaign.carry_out(share)
            print(name, dict(campaign.counts), flush=True)
            campaigns.append(campaign)
    rows, text = table(campaigns, shlex.join(["python", "benchmarks/fault_campaign.py", *sys.argv[1:]]))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "campaign.md").write_text(text)
    with (options.out / "campaign.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    print(text)


if __name__ == "__main__":
    if os.environ.get("OMP_NUM_THREADS") != "1":  # a fork takes no threads along, so there must be none
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | one)
    run()
