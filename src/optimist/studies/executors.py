"""Where independent calls are carried out: executors of `concurrent.futures`, in this process or in several.

Those of other machines are in `optimist.studies.cluster`. What travels is a function of a module and its arguments,
numbers, strings and a path; what comes back is small. A training run is watched by its ``metrics.csv``, so nothing is
sent while it lasts.
"""

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, final

SPAWN = multiprocessing.get_context("spawn")  # a fork of a process that has started threads may hang
GRACE = 12.0
"""Seconds that calls have to end after they were asked to; then they are killed."""
LOOK = 0.2
"""Seconds between two looks at whether a process still lives."""


class WorkerDied(ChildProcessError):
    """The process of a call ended without an answer."""


class EngineFailed(RuntimeError):
    """The cluster itself does not take calls, or is gone: no other call will fare better."""


class Workers(Executor):
    """An executor that also says how many calls it makes at a time, and on how many machines."""

    size: int
    """Calls at a time, at most."""
    nodes: int = 1
    """Machines at work now."""
    restarts: int = 0
    """How often a scheduler has started a call again by itself."""

    def stop(self) -> None:
        """Cancels what waits, and asks what runs to stop: ``with`` is left so by an exception, such as Ctrl-C."""
        self.shutdown(wait=False, cancel_futures=True)

    def __exit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        if exc_type is None:
            self.shutdown()
        else:
            self.stop()


def local(workers: int | None) -> Workers:
    """This machine's executor of ``workers`` processes, all cores if None; a single worker is this process itself."""
    count = workers or os.cpu_count() or 1
    return Processes(count) if count > 1 else InProcess()


class InProcess(Workers):
    """Every call at once, in this process; `map` calls as its results are asked for."""

    size = 1

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of the call, which is done."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as problem:
            future.set_exception(problem)
        return future

    def map(  # pyrefly: ignore
        self, fn: Callable[..., Any], *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[Any]:
        """``fn`` of every item, in order."""
        return map(fn, *iterables)


@dataclass(frozen=True, eq=False)
class Call:
    """A function, its arguments, and the future of its result."""

    future: Future[Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Queued(Workers, ABC):
    """Calls wait in a queue, from which threads of this process hand them on to whoever makes them.

    Leaving ``with`` by an exception, such as Ctrl-C, cancels what waits and asks what runs to stop: a training run then
    writes a checkpoint. What has not ended after `GRACE` seconds is killed, and so is everything by a second Ctrl-C.
    """

    def __init__(self, size: int, *, threads: int):
        """Starts the threads, so what `_serve` reads must be there before."""
        self.size = size
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._is_stopping = False
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(threads)]
        for thread in self._threads:
            thread.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The future of the call."""
        call = Call(Future(), fn, args, kwargs)
        self._calls.put(call)
        return call.future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the workers when all calls are done; with ``cancel_futures`` those that wait here are cancelled."""
        if cancel_futures:
            self._cancel()
        for _ in self._threads:
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()
            self._close()

    def stop(self, grace: float = GRACE) -> None:
        """Cancels what waits, asks what runs to stop, and ends what has not stopped after ``grace`` seconds."""
        self._is_stopping = True
        try:
            self.shutdown(wait=False, cancel_futures=True)
            self._ask_to_stop()
            deadline = time.monotonic() + grace
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
        finally:  # also by a second Ctrl-C
            self._close()

    def _cancel(self) -> None:
        with suppress(queue.Empty):
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    call.future.cancel()

    @abstractmethod
    def _serve(self) -> None:
        """What each thread does: it takes calls out of the queue until it finds None, and ends their futures."""

    @abstractmethod
    def _ask_to_stop(self) -> None:
        """Asks every call that runs to stop; none is begun from here on."""

    @abstractmethod
    def _close(self) -> None:
        """Kills what still runs."""


@final
class Processes(Queued):
    """Calls in ``workers`` processes of this machine, one at a time in each; they are asked to stop by SIGTERM.

    A process that dies fails its call with `WorkerDied`, and is replaced. A terminal's Ctrl-C does not reach the
    processes themselves. If this process is killed, they stop too.
    """

    def __init__(self, workers: int):
        self._processes: set[BaseProcess] = set()
        self._lock = threading.Lock()
        super().__init__(workers, threads=workers)

    def _ask_to_stop(self) -> None:
        with self._lock:  # no process is started from here on
            self._signal(BaseProcess.terminate)

    def _close(self) -> None:
        self._signal(BaseProcess.kill)

    def _signal(self, how: Callable[[BaseProcess], None]) -> None:
        for process in list(self._processes):
            if process.is_alive():
                how(process)

    def _serve(self) -> None:
        """Hands calls to a process of its own, one after the other."""
        worker: tuple[BaseProcess, Connection] | None = None
        while (call := self._calls.get()) is not None:
            if self._is_stopping:
                call.future.cancel()
            if not call.future.set_running_or_notify_cancel():
                continue
            try:
                worker = worker or self._start()
                answer, problem = _answer(call, *worker)
            except Exception as fault:
                answer, problem = None, fault
            settle(call, answer, problem)
            if worker is not None and isinstance(problem, WorkerDied):
                self._end(*worker)
                worker = None
        if worker is not None:
            self._end(*worker)

    def _start(self) -> tuple[BaseProcess, Connection]:
        ours, theirs = SPAWN.Pipe()
        process = SPAWN.Process(target=_work, args=(theirs,), daemon=True)
        with self._lock:
            if self._is_stopping:
                raise WorkerDied("not begun: the study was stopped")
            resource_tracker.ensure_running()  # before the mask: whoever starts it first has SIGINT unblocked by it
            if hasattr(signal, "pthread_sigmask"):  # inherited: a terminal sends its Ctrl-C to all processes
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            process.start()
            self._processes.add(process)
        theirs.close()
        return process, ours

    def _end(self, process: BaseProcess, pipe: Connection) -> None:
        """Without its pipe a process that waits for a call ends, even if the signal to stop came while it worked."""
        pipe.close()
        process.join()
        self._processes.discard(process)


def settle(call: Call, answer: Any, problem: BaseException | None) -> None:
    """Ends the future of a call, by its result or by what went wrong."""
    if problem is None:
        call.future.set_result(answer)
    else:
        call.future.set_exception(problem)


def answered(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The result of a call, or what it raised, with its traceback as a note: what a worker sends back."""
    try:
        return function(*args, **kwargs), None
    except Exception as problem:
        problem.add_note(traceback.format_exc())
        return None, problem


def _answer(call: Call, process: BaseProcess, pipe: Connection) -> tuple[Any, Exception | None]:
    """What the process answers to a call: a result, or what it raised; `WorkerDied` if it ends without an answer."""
    try:
        pipe.send((call.function, call.args, call.kwargs))
        while not pipe.poll(LOOK):
            if process.exitcode is not None and not pipe.poll():
                raise EOFError
        return pipe.recv()
    except (EOFError, OSError):
        process.join()
        return None, WorkerDied(f"its process ended with exit code {process.exitcode}")


def _work(pipe: Connection) -> None:
    """What each process does: it answers calls until its pipe is closed."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            answer = answered(*pipe.recv())
            try:
                pipe.send(answer)
            except (pickle.PicklingError, TypeError, AttributeError):  # an exception or a result that cannot travel
                pipe.send((None, ChildProcessError(f"an answer that cannot be sent: {answer!r}")))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
