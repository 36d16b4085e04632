"""What the tests of executors call in other processes: functions of a module that imports nothing slow."""

import os
import signal
import threading
import time
from pathlib import Path

LONG = 300.0


def doubled(x):
    return 2 * x


def broken(x):
    raise ValueError(f"no {x}")


def dying(x):
    os._exit(7)


def process_id():
    return os.getpid()


def deaf(path):
    """Hears a request to stop, as a training run in its last rollout does, and returns as if it had not."""
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    Path(path).touch()
    asked.wait(LONG)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return "done"


def stubborn(path):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    Path(path).touch()
    time.sleep(LONG)


def blocks_ctrl_c():
    """Whether a terminal's Ctrl-C does not reach this process."""
    return signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def dying_until(path, times, until=None):
    """Ends its process the first ``times`` times that it is called, then says how often it was called.

    Before it does so it waits, at most a minute, for the file ``until``.
    """
    calls = len(Path(path).read_text()) if Path(path).exists() else 0
    Path(path).write_text("x" * (calls + 1))
    if calls < times:
        os._exit(9)
    last = time.monotonic() + 60
    while until is not None and not Path(until).exists() and time.monotonic() < last:
        time.sleep(0.02)
    return calls + 1
