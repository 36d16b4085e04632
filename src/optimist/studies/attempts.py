"""Calls that are made again when their worker dies, and what there is to say of them meanwhile."""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import TypeVar

from optimist.studies.executors import EngineFailed, WorkerDied, Workers

RETRIES = 3
"""Deaths in a row, without getting further, after which a call is given up."""
LOOK = 0.5
"""Seconds between two looks at how far the calls are."""

Item = TypeVar("Item")
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Status:
    """Where calls stand."""

    running: int = 0
    nodes: int = 0
    """Machines at work."""
    retried: int = 0
    """Calls made again, by us or by the scheduler."""

    def __str__(self) -> str:
        at_work = f"{self.running} running on {self.nodes} node{'s' * (self.nodes != 1)}" if self.running else ""
        return ", ".join(filter(None, (at_work, f"{self.retried} retried" * (self.retried > 0))))


def attempted(
    items: Sequence[Item],
    submit: Callable[[Item, int], Future[Answer]],
    workers: Workers,
    *,
    retries: int,
    reached: Callable[[Item], int] = lambda _: 0,
    watch: Callable[[Status, Sequence[Item]], None] = lambda *_: None,
) -> Generator[tuple[Item, Future[Answer]]]:
    """Every item with its future, which is done, as they come.

    ``submit(item, attempt)`` makes the call, attempts counted from 1. One whose worker died (`WorkerDied`) is made
    again, unless ``retries`` attempts in a row have not ``reached`` further than those before. ``watch`` is told the
    status, and the items that run. If the cluster itself fails, so does this.
    """
    attempts, deaths, furthest = [0] * len(items), [0] * len(items), [-1] * len(items)
    ahead, waiting = deque(range(len(items))), dict[Future[Answer], int]()
    while ahead or waiting:
        while ahead and len(waiting) < workers.size:
            index = ahead.popleft()
            attempts[index] += 1
            waiting[submit(items[index], attempts[index])] = index
        done, _ = wait(waiting, timeout=LOOK, return_when=FIRST_COMPLETED)
        ended: list[tuple[Item, Future[Answer]]] = []
        for future in done:
            index, problem = waiting.pop(future), future.exception()
            if isinstance(problem, EngineFailed):
                raise problem
            if isinstance(problem, WorkerDied):
                here = reached(items[index])
                deaths[index] = 1 if here > furthest[index] else deaths[index] + 1
                furthest[index] = max(here, furthest[index])
                if deaths[index] <= retries:
                    ahead.appendleft(index)
                    continue
            ended.append((items[index], future))
        running = [items[index] for future, index in waiting.items() if future.running()]
        retried = sum(max(0, count - 1) for count in attempts) + workers.restarts
        watch(Status(len(running), workers.nodes, retried), running)
        yield from ended
