"""One attempt at a run of the fault campaign, in a process that can be killed, and what the run has come to."""

import atexit
import csv
import os
import resource
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from optimist.cli import main
from optimist.training.runs import checkpoints
from optimist.training.runs.serialization import StateFile

PATIENCE = 120
"""Seconds after which an answer that has not come is a failure."""


class Lost(AssertionError):
    """A run did not survive a fault."""


def require(claim: bool, what: str) -> None:
    """An error unless the claim holds."""
    if not claim:
        raise Lost(what)


@dataclass
class Attempt:
    """``optimist`` with some words, in a fork of this process; ``room`` limits the size of its files."""

    words: list[str]
    output: Path
    room: int | None = None
    process: int = field(init=False)
    code: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.process = os.fork()
        if self.process == 0:
            code = 1
            atexit._clear()  # what is registered for the end of this process is not the fork's to do
            try:
                written = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(written, 1)
                os.dup2(written, 2)
                if self.room is not None:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (self.room, self.room))
                sys.argv = ["optimist", *self.words]
                main()
            except SystemExit as leaving:
                code = leaving.code if isinstance(leaving.code, int) else 0
            finally:
                os._exit(code)

    def is_over(self) -> bool:
        """Whether the process has ended."""
        if self.code is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self, until: Callable[[], bool] = lambda: False, seconds: float = PATIENCE) -> float:
        """Wait until the process has ended, or ``until`` holds; the seconds that this took."""
        start = time.monotonic()
        while not self.is_over() and not until():
            require(time.monotonic() - start < seconds, f"{shlex.join(self.words)} does not end: {self.told()}")
            time.sleep(0.001)
        return time.monotonic() - start

    def end(self, number: int) -> float:
        """Send a signal; the seconds until the process has ended."""
        os.kill(self.process, number)
        return self.wait()

    def told(self) -> str:
        """What it has printed."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""


def end_of(folder: Path) -> tuple[bytes, list[dict[str, str]]]:
    """Every byte of a run's last state, and its metrics without the columns of time (nor the bytes that these take)."""
    _, state = checkpoints.newest(folder / "checkpoints")
    state["log"].pop("bytes")
    held = BytesIO()
    StateFile(state, {}).write(held)
    with (folder / "metrics.csv").open() as file:
        timed = ("seconds/", "steps_per_second", "evaluation/seconds")
        rows = [{k: v for k, v in row.items() if not k.startswith(timed)} for row in csv.DictReader(file)]
    return held.getvalue(), rows


def lines(folder: Path) -> int:
    """How many whole lines ``metrics.csv`` has."""
    path = folder / "metrics.csv"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def fill(path: Path) -> None:
    """Write to ``path`` until the disk is full."""
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024))
        except OSError:
            return
