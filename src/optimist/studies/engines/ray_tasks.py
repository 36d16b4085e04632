"""Calls as tasks of Ray: a cluster that is there, or one that is started on this machine."""

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from optimist.studies.cluster import Answered, Cluster, News, Started, died
from optimist.studies.executors import Call, answered

PATIENCE = 10.0
"""Seconds in which the head of a cluster must answer."""


def ray_cluster(address: str | None, workers: int | None, options: Mapping[str, Any]) -> Cluster:
    """An executor of ``workers`` tasks at a time, as many as the cluster's CPUs allow if None.

    ``options`` are those of a Ray task: num_cpus (1), num_gpus, memory, resources, scheduling_strategy ...
    """
    tasks = RayTasks(address, workers, options)
    return Cluster(tasks, workers or tasks.capacity())


class RayTasks:
    """The engine of Ray.

    Each task first says where it runs, then gives its answer. Ray itself makes no task again: who counts attempts, and
    hands out tokens for them, is the study.
    """

    def __init__(self, address: str | None, workers: int | None, options: Mapping[str, Any]):
        self._is_ours = not ray.is_initialized()
        if self._is_ours:
            connect(address or os.environ.get("RAY_ADDRESS"), workers)
        try:
            self._options: dict[str, Any] = {"num_cpus": 1, "max_retries": 0, **options, "num_returns": "streaming"}
            self._task = ray.remote(announced).options(**self._options)
        except Exception as problem:
            self.close()
            raise ValueError(f"--executor-options must be options of a Ray task: {problem}") from problem
        self._held: dict[Any, Call] = {}

    def capacity(self) -> int:
        """Tasks that the cluster can run at a time, as it is now; at least one."""
        return max(1, int(ray.cluster_resources().get("CPU", 1) // (self._options["num_cpus"] or 1)))

    def start(self, calls: Sequence[Call]) -> None:
        """Hands the calls to Ray, which queues them."""
        for call in calls:
            self._held[self._task.remote(call.function, call.args, call.kwargs)] = call

    def news(self, patience: float) -> Iterator[tuple[Call, News]]:
        """Starts, answers, and deaths of workers and nodes."""
        tasks = list(self._held)
        ready, _ = ray.wait(tasks, num_returns=1, timeout=patience) if tasks else ([], [])
        for task in ready:
            call = self._held[task]
            news = self._next(task)
            if isinstance(news, Answered):
                del self._held[task]
            yield call, news

    def _next(self, task: Any) -> News:
        try:
            told = ray.get(next(task))
        except RayTaskError as problem:  # it could not be begun there, or its answer cannot be sent
            if isinstance(problem.cause, TaskCancelledError):
                return Answered(None, died(problem.cause))
            return Answered(None, ChildProcessError(str(problem)))
        except (RayError, SystemExit) as problem:
            return Answered(None, died(problem))
        except StopIteration:
            return Answered(None, died(RuntimeError("it ended too early")))
        return Started(told) if isinstance(told, str) else Answered(*told)

    def ask_to_stop(self) -> None:
        """Every task that runs hears a Ctrl-C; those that wait are dropped."""
        for task in list(self._held):
            ray.cancel(task)

    def close(self) -> None:
        """Kills what still runs, and disconnects, unless somebody else had connected."""
        for task in list(getattr(self, "_held", ())):
            ray.cancel(task, force=True)
        if self._is_ours:
            ray.shutdown()


def announced(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """The node on which a task runs, then its answer."""
    yield ray.get_runtime_context().get_node_id()
    yield answered(function, args, kwargs)


@contextmanager
def own_handlers() -> Iterator[None]:
    """Ray sets handlers of signals where it is started: ours stay."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


def connect(address: str | None, workers: int | None) -> None:
    """Connects to the cluster at ``address``, or starts one on this machine; an error if nobody answers there."""
    if address is not None and "://" in address:
        raise ValueError(f"--ray-address must be HOST:PORT of the cluster's head, or auto, got {address}")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anybody
    there = "on this machine" if address in (None, "auto") else f"at {address}"
    own = {"num_cpus": workers, "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    started: dict[str, Any] = {} if address else own
    try:
        if address not in (None, "auto"):
            host, _, port = str(address).rpartition(":")
            socket.create_connection((host, int(port)), PATIENCE).close()
        with own_handlers():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **started)
    except Exception as problem:
        told = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise ConnectionError(
            f"no Ray cluster answers {there} ({told}): start one with  ray start --head  and give HOST:PORT of its "
            "head as --ray-address, or leave the address out to start one on this machine"
        ) from problem
