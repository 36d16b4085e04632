"""Ctrl-C and SIGTERM while a run is played: it is asked to stop, writes a checkpoint, and says which signal asked."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Interrupted(Exception):
    """The run was asked to stop by the signal ``signal_number``; its checkpoint is written, and it can be resumed."""

    def __init__(self, message: str, signal_number: int = signal.SIGINT):
        super().__init__(message)
        self.signal_number = int(signal_number)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.signal_number)  # so that it passes from process to process


class Abandoned(Exception):
    """The rollout that was being played is given up: the run was asked to stop."""


class StopRequest:
    """Which signal has asked the run to stop: None while none has."""

    signal_number: int | None = None

    def abandon_if_asked(self) -> None:
        """Raises `Abandoned` if the run has been asked to stop."""
        if self.signal_number is not None:
            raise Abandoned


@contextmanager
def stop_requests(*, launched: bool = False) -> Iterator[StopRequest]:
    """In this block the first Ctrl-C or SIGTERM is only noted; a second one ends at once. Only in the main thread.

    What was noted can still be read after the block, so a request in the last moments is not lost. SIGUSR2 is treated
    in the same way where somebody listens to it: submitit does, whose jobs are told of a preemption by it.
    ``launched`` says that torchrun or srun started this process: it may then hear SIGTERM twice, from the scheduler and
    from torchrun, which heard it too. The second one does nothing; who launched it kills it after some patience.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    before: dict[int, Any] = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    warning = getattr(signal, "SIGUSR2", 0)
    if warning and callable(signal.getsignal(warning)):
        before[warning] = signal.getsignal(warning)

    def note(number: int, frame: FrameType | None) -> None:
        if request.signal_number == warning:
            return  # a scheduler's SIGTERM follows its warning, and must not end a run that writes its checkpoint
        request.signal_number = number
        if number == warning:
            return
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_IGN if launched else signal.SIG_DFL)

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
