"""Ctrl-C and SIGTERM outside of training runs, which answer them with a checkpoint (`stop_requests`).

While a command works, the first signal raises `Stopped`, so that files and processes are closed on the way out; a
second one, or `PATIENCE` seconds in which the command has not ended, ends the process at once. Before and after the
work there is nothing to close: a signal ends the process at once.
"""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

NUMBERS = (signal.SIGINT, signal.SIGTERM)
PATIENCE = 20.0
"""Seconds that a command has to end after a signal."""


class Stopped(KeyboardInterrupt):
    """The process was asked to stop, by the signal ``number``."""

    def __init__(self, number: int):
        super().__init__(word_for(number))
        self.number = number


def word_for(number: int) -> str:
    """What a signal did to the command, in one word."""
    return "interrupted" if number == signal.SIGINT else "terminated"


def leave_at_once_on_signals() -> None:
    """From now on a signal ends the process."""
    _handle(leave_at_once)


def ignore_signals() -> None:
    """From now on signals do nothing: the work is done, and Python only closes down with the exit code it has."""
    _handle(signal.SIG_IGN)


@contextmanager
def raised_signals() -> Iterator[None]:
    """In this block the first signal raises `Stopped`; after it, signals do what they did before."""
    unraisable, before = sys.unraisablehook, [signal.getsignal(number) for number in NUMBERS]
    sys.unraisablehook = _raised_again
    _handle(_raise_once)
    try:
        yield
    finally:
        _handle(*before)
        sys.unraisablehook = unraisable


def leave_closed(code: int) -> None:
    """End a process whose command has closed what it opened: what is registered for the end is done.

    Python's own close-down is left out. A signal can come in the middle of the import of a library in C, which is then
    half made, and ends the process by SIGABRT when it is taken apart. And one rank of a run that was done ended by
    SIGABRT there: we suppose that a thread of gloo asked the closed-down Python for something.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed, or nobody reads
            stream.flush()
    os._exit(code)


def leave_at_once(number: int, frame: FrameType | None) -> None:
    """End the process and those that it started, without any closing."""
    if sys.stdout is not None and sys.stdout.isatty():
        os.write(1, b"\x1b[?25h\n")  # a progress bar hides the cursor
    os.write(2, f"optimist: {word_for(number)}\n".encode())
    _exit(number)


def _raise_once(number: int, frame: FrameType | None) -> None:
    _handle(leave_at_once)
    watchdog = threading.Timer(PATIENCE, _exit, (number,))
    watchdog.daemon = True
    watchdog.start()
    raise Stopped(number)


def _raised_again(ignored: "UnraisableHookArgs") -> None:
    """An exception in a destructor is printed and dropped; a request to stop must not be: it is sent again."""
    if isinstance(ignored.exc_value, Stopped):
        _handle(_raise_once)
        signal.raise_signal(ignored.exc_value.number)
    else:
        sys.__unraisablehook__(ignored)


def _exit(number: int) -> None:
    if "multiprocessing" in sys.modules:
        for child in sys.modules["multiprocessing"].active_children():
            child.kill()
    os._exit(128 + number)


def _handle(*handlers: signal.Handlers | object) -> None:
    """Set one handler for all signals, or one for each."""
    if threading.current_thread() is threading.main_thread():
        for number, handler in zip(NUMBERS, handlers * len(NUMBERS), strict=False):
            signal.signal(number, handler)  # pyrefly: ignore
