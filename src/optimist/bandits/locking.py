"""Many threads on one policy: decisions run side by side, a change runs alone.

The compiled loops run without Python's lock, so two threads may be inside them at once: two readers do no harm, a
writer beside anybody does.
"""

import itertools
import threading
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from threading import get_ident
from types import TracebackType


class ReadersWriterLock:
    """Any number of readers, or one writer: ``with lock.reading:`` and ``with lock.writing:``.

    Readers never wait for each other, and take less than half a microsecond while nobody writes. A waiting writer holds
    new readers back, so that it is not starved. Neither may be taken again by a thread that holds one: what a thread
    finds of its own was left behind by Ctrl-C, which may strike between any two steps, and is cleared away.
    """

    def __init__(self) -> None:
        self.reading: AbstractContextManager[None] = _Reading(self)
        self.writing = _Writing(self)
        self.inside: deque[int] = deque()  # the threads that read: appending and removing are atomic
        self.is_writer_here = False
        self.gate = threading.RLock()  # held by the writer, waiting or working
        self.drained = threading.Event()  # set by the last reader to leave
        self.forks = itertools.count()  # numbers the streams of all other decisions, and of snapshots
        self.draws = threading.RLock()  # held by the one reader whose random numbers are the policy's own

    def __reduce__(self) -> tuple[type["ReadersWriterLock"], tuple[()]]:
        """A copy of a policy, pickled or not, has a lock of its own."""
        return ReadersWriterLock, ()

    def leave(self, thread: int) -> None:
        """The end of reading."""
        self.inside.remove(thread)
        if self.is_writer_here and not self.inside:
            self.drained.set()


def unlocked() -> ReadersWriterLock:
    """A lock for what nobody changes: its readers do nothing to come in."""
    lock = ReadersWriterLock()
    lock.reading = nullcontext()
    return lock


class _Reading:
    def __init__(self, lock: ReadersWriterLock):
        self._lock = lock

    def __enter__(self) -> None:
        lock, me = self._lock, get_ident()
        while me in lock.inside:
            lock.leave(me)
        lock.inside.append(me)  # first come in, then look: a writer first says that it is here, then counts
        if lock.is_writer_here:
            lock.leave(me)
            with lock.gate:  # nobody writes while we hold it
                lock.inside.append(me)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.leave(get_ident())


class _Writing:
    def __init__(self, lock: ReadersWriterLock):
        self._lock = lock

    def __enter__(self) -> None:
        lock, me = self._lock, get_ident()
        lock.gate.acquire()
        try:
            lock.is_writer_here = True
            while me in lock.inside:
                lock.leave(me)
            while lock.inside:
                lock.drained.clear()
                if lock.inside:  # the last one may have left before the flag was cleared
                    lock.drained.wait()
        except BaseException:  # Ctrl-C while waiting
            self.__exit__(None, None, None)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.is_writer_here = False
        self._lock.gate.release()
        while self._lock.gate._is_owned():  # pyrefly: ignore[missing-attribute]  (as threading.Condition asks it)
            self._lock.gate.release()
