"""Independent runs on all cores: a pool of processes, or none for a single worker."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Pool:
    """Runs independent tasks in ``workers`` processes, one core each; results come in the order of the tasks.

    Processes are spawned, not forked: a fork of a process that has started threads may hang.
    """

    def __init__(self, workers: int | None = None):
        self.workers = workers or os.cpu_count() or 1
        self._processes: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self.workers > 1:
            self._processes = ProcessPoolExecutor(self.workers, multiprocessing.get_context("spawn"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._processes is not None:
            self._processes.shutdown(cancel_futures=True)

    def each(self, function: Callable[[Task], Result], tasks: Sequence[Task]) -> Iterator[Result]:
        """``function(task)`` of every task, in order."""
        return map(function, tasks) if self._processes is None else self._processes.map(function, tasks)
