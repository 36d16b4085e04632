"""Ranks that are threads of one process: they exchange through memory what processes exchange through sockets."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any, TypeVar

import torch
from torch import Tensor

from optimist.ranks import ALONE, Ranks

Result = TypeVar("Result")


class Meeting:
    """Where ``count`` threads lay down what they give, and take up what all of them gave."""

    def __init__(self, count: int):
        self.barrier = Barrier(count, timeout=60)
        self._given: list[Any] = [None] * count

    def exchange(self, rank: int, given: Any) -> list[Any]:
        """What all ranks gave, by rank."""
        self._given[rank] = given
        self.barrier.wait()
        everyones = list(self._given)
        self.barrier.wait()
        return everyones


class ThreadRanks(Ranks):
    """One of ``count`` threads."""

    def __init__(self, rank: int, meeting: Meeting):
        super().__init__(rank, meeting.barrier.parties)
        self._meeting = meeting

    def sum(self, values: Tensor) -> Tensor:
        """The sum of what every thread gives."""
        return torch.stack(self._meeting.exchange(self.rank, values.detach().clone())).sum(0)

    def gather(self, rows: Tensor, dim: int = 0) -> Tensor:
        """The rows of all threads."""
        return torch.cat(self._meeting.exchange(self.rank, rows.detach().clone()), dim)

    def objects(self, one: Any) -> list[Any]:
        """What every thread gives."""
        return self._meeting.exchange(self.rank, one)


def on_ranks(count: int, function: Callable[[Ranks], Result]) -> list[Result]:
    """What ``function(ranks)`` returns on every one of ``count`` ranks; with one, there are no others."""
    if count == 1:
        return [function(ALONE)]
    meeting = Meeting(count)

    def run(rank: int) -> Result:
        try:
            return function(ThreadRanks(rank, meeting))
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(run, rank) for rank in range(count)]
    errors = [future.exception() for future in futures]
    first = next((error for error in errors if error is not None and "Barrier" not in type(error).__name__), None)
    if first is not None:
        raise first
    return [future.result() for future in futures]
