"""A policy whose decisions and rewards survive the death of its process.

Two kinds of files stand in one folder, numbered by generation:

- ``policy-N.npz`` and ``pending-N.json``: everything as it was at one moment, each written whole or not at all; the
  second is written last and makes generation N complete.
- ``journal-N.jsonl``: one line per decision and per reward since that moment. A line is handed to the operating system
  before the caller hears of it, so a kill of the process loses nothing that was answered. (A power failure may lose
  what the disk had not got yet; ``fsync=True`` waits for the disk, line by line.)

Opening the folder loads the newest complete generation and goes through the journals since then. The estimate of the
rewards is then the same to the last bit. Random numbers that decisions drew since the generation are not drawn again:
the noise regressors are equal in law, not in value.
"""

import json
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from optimist import bandits
from optimist.files import write_text


class Unknown(KeyError):
    """No decision with this number was ever made here."""


class Closed(KeyError):
    """The decision has its reward already, or waited so long that it was dropped."""


@dataclass
class Counts:
    """What happened since the folder was made."""

    decisions: int = 0
    updates: int = 0
    dropped: int = 0
    reward: float = 0.0


@dataclass
class DurablePolicy:
    """Decides, remembers the features of what it chose, and learns when the reward comes. For one thread at a time.

    At most ``max_pending`` decisions wait for a reward; beyond that the oldest are dropped.
    """

    folder: Path
    policy: bandits.Policy
    max_pending: int = 100_000
    fsync: bool = False
    counts: Counts = field(default_factory=Counts)
    pending: "OrderedDict[int, list[float]]" = field(default_factory=OrderedDict)
    generation: int = -1
    """The newest that is complete on disk."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if complete := _numbers(self.folder, "pending-*.json"):
            self._recover(max(complete))
        self._journal: int | None = None
        self._next = 1 + max([-1, *complete, *_numbers(self.folder, "journal-*.jsonl")])
        self._updates_at_save = self.counts.updates
        self._is_writing = threading.Lock()
        self.save()

    # Serving ------------------------------------------------------------------------------------------------------

    def decide(self, actions: Any, mask: Any = None) -> tuple[int, int, float]:
        """The number of the decision, the action, and its probability. Shapes: actions (n, d), mask (n,)."""
        action, probability = self.policy.predict(actions, mask, return_probability=True)
        number, row = self.counts.decisions, [float(value) for value in actions[action]]
        self._append({"decision": number, "x": row})
        self._note_decision(number, row)
        return number, int(action), float(probability)

    def reward(self, number: int, reward: float) -> None:
        """Learns the reward of a decision, once."""
        if number not in self.pending:
            raise Closed(number) if 0 <= number < self.counts.decisions else Unknown(number)
        self._append({"reward": reward, "of": number})
        self._note_reward(number, reward)

    def _note_decision(self, number: int, row: list[float]) -> None:
        self.counts.decisions = number + 1
        self.pending[number] = row
        while len(self.pending) > self.max_pending:
            self.pending.popitem(last=False)
            self.counts.dropped += 1

    def _note_reward(self, number: int, reward: float) -> None:
        self.policy.partial_fit(np.array(self.pending.pop(number)), reward)
        self.counts.updates += 1
        self.counts.reward += reward

    # Keeping ------------------------------------------------------------------------------------------------------

    @property
    def updates_since_save(self) -> int:
        """How many updates only the journal knows of."""
        return self.counts.updates - self._updates_at_save

    def save(self) -> None:
        """Makes a new generation, now."""
        self.write(*self.begin_save())

    def begin_save(self) -> tuple[int, bandits.Policy, str]:
        """Turns to a new journal, and returns what ``write`` needs: quick, between two decisions."""
        number, self._next = self._next, self._next + 1
        name = self.folder / f"journal-{number}.jsonl"
        opened = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        before, self._journal = self._journal, opened
        if before is not None:
            os.close(before)
        self._updates_at_save = self.counts.updates
        others = {"counts": vars(self.counts), "pending": list(self.pending.items())}
        return number, self.policy.copy(), json.dumps(others)  # the copy shares the state until the next update

    def write(self, number: int, policy: bandits.Policy, others: str) -> None:
        """Writes generation ``number`` and removes those before it; may run in another thread."""
        with self._is_writing:
            policy.save(self.folder / f"policy-{number}.npz")
            write_text(self.folder / f"pending-{number}.json", others)
            self.generation = number
            for pattern in ("pending-*.json", "policy-*.npz", "journal-*.jsonl"):  # the marks of completeness first
                for old in _numbers(self.folder, pattern):
                    if old < number:
                        (self.folder / pattern.replace("*", str(old))).unlink()

    def close(self) -> None:
        """Saves and lets the files go."""
        self.save()
        if self._journal is not None:
            os.close(self._journal)
            self._journal = None

    def _append(self, entry: dict[str, Any]) -> None:
        if self._journal is None:
            raise RuntimeError("the policy was closed")
        line, length = json.dumps(entry).encode() + b"\n", os.fstat(self._journal).st_size
        if os.write(self._journal, line) != len(line):
            os.ftruncate(self._journal, length)  # half a line would hide those after it
            raise OSError("a line could not be written whole: is the disk full?")
        if self.fsync:
            os.fsync(self._journal)

    # Coming back --------------------------------------------------------------------------------------------------

    def _recover(self, newest: int) -> None:
        saved = bandits.load(self.folder / f"policy-{newest}.npz")
        if (found := saved.parameters) != (asked := self.policy.parameters) or type(saved) is not type(self.policy):
            names = sorted(name for name in found.keys() | asked.keys() if found.get(name) != asked.get(name))
            raise ValueError(
                f"{self.folder} holds {saved!r}, which differs from what is asked for in "
                f"{', '.join(names) or 'its kind'}: ask for the same, or give another folder"
            )
        self.policy = saved
        others = json.loads((self.folder / f"pending-{newest}.json").read_text())
        self.counts = Counts(**others["counts"])
        self.pending = OrderedDict((number, row) for number, row in others["pending"])
        for number in sorted(n for n in _numbers(self.folder, "journal-*.jsonl") if n >= newest):
            self._go_through(self.folder / f"journal-{number}.jsonl")

    def _go_through(self, journal: Path) -> None:
        *whole, _torn = journal.read_bytes().split(b"\n")  # what follows the last line end was never answered
        for place, line in enumerate(whole, start=1):
            try:
                entry = json.loads(line)
                if "decision" in entry:
                    self._note_decision(entry["decision"], entry["x"])
                else:
                    self._note_reward(entry["of"], entry["reward"])
            except (ValueError, KeyError, TypeError) as problem:
                raise ValueError(f"{journal}, line {place}, is no line of a journal: {line[:80]!r}") from problem


def _numbers(folder: Path, pattern: str) -> list[int]:
    """The numbers of the generations that have a file called ``pattern``."""
    start, end = pattern.split("*")
    names = (path.name.removeprefix(start).removesuffix(end) for path in folder.glob(pattern))
    return [int(name) for name in names if name.isdecimal()]
