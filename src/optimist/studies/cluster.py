"""Calls on other machines: one executor, whatever engine brings them there.

An engine starts calls and brings news of them; `optimist.studies.engines` has one for Ray and one for Slurm.
"""

import queue
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, final

from optimist.studies.executors import LOOK, Call, EngineFailed, Queued, WorkerDied, settle

GATHER = 0.1
"""Seconds in which calls are collected before they are handed on together: one array of jobs instead of many jobs."""


@dataclass(frozen=True)
class Started:
    """A call runs, on ``node``."""

    node: str


@dataclass(frozen=True)
class Answered:
    """A call has ended, by a result or by what went wrong: `WorkerDied` if its worker did not answer."""

    result: Any
    problem: BaseException | None


News = Started | Answered


class Engine(Protocol):
    """What brings calls to other machines."""

    def start(self, calls: Sequence[Call]) -> None:
        """Makes these calls as soon as there is room for them."""
        ...

    def news(self, patience: float) -> Iterable[tuple[Call, News]]:
        """What has happened since the last time; waits up to ``patience`` seconds for something to happen."""
        ...

    def ask_to_stop(self) -> None:
        """Asks every call that runs to stop, and forgets those that do not run yet."""
        ...

    def close(self) -> None:
        """Kills what still runs, and disconnects."""
        ...


@final
class Cluster(Queued):
    """Calls on the machines of an engine, ``size`` at a time; the others wait here."""

    def __init__(self, engine: Engine, size: int):
        self._engine = engine
        self._nodes: dict[Call, str] = {}
        super().__init__(size, threads=1)

    @property
    def nodes(self) -> int:  # pyrefly: ignore
        """Machines on which a call runs now."""
        return len(set(self._nodes.copy().values()))

    def _ask_to_stop(self) -> None:
        self._engine.ask_to_stop()

    def _close(self) -> None:
        self._engine.close()

    def _serve(self) -> None:
        """Hands calls to the engine, and ends their futures as it hears of them."""
        held: set[Call] = set()
        is_open = True
        while is_open or (held and not (self._is_stopping and not self._nodes)):
            fresh: list[Call] = []
            while is_open and len(held) + len(fresh) < self.size:
                try:
                    call = self._calls.get(block=not held and not fresh)
                except queue.Empty:
                    break
                if call is None:
                    is_open = False
                elif not call.future.cancelled():
                    if not held and not fresh:
                        time.sleep(GATHER)
                    fresh.append(call)
            if fresh:
                self._start(fresh, held)
            if held:
                self._hear(held)
        for call in held:
            call.future.cancel()

    def _start(self, calls: Sequence[Call], held: set[Call]) -> None:
        try:
            self._engine.start(calls)
            held.update(calls)
        except Exception as problem:
            for call in calls:
                settle(call, None, EngineFailed(_first_line(problem)))

    def _hear(self, held: set[Call]) -> None:
        try:
            for call, news in self._engine.news(LOOK):
                if isinstance(news, Started):
                    self.restarts += call in self._nodes
                    self._nodes[call] = news.node
                    if not call.future.running():
                        call.future.set_running_or_notify_cancel()
                else:
                    held.discard(call)
                    self._nodes.pop(call, None)
                    if not call.future.cancelled():
                        settle(call, news.result, news.problem)
        except Exception as problem:  # the engine itself has failed: the connection is lost
            for call in held:
                self._nodes.pop(call, None)
                if not call.future.cancelled():
                    settle(call, None, EngineFailed(_first_line(problem)))
            held.clear()


def died(problem: BaseException) -> WorkerDied:
    """What a call fails with whose worker ended without an answer, in the first line of what the engine says."""
    return WorkerDied(f"its worker ended without an answer ({_first_line(problem)})")


def _first_line(problem: BaseException) -> str:
    return f"{type(problem).__name__}: {str(problem).strip()}".splitlines()[0]
