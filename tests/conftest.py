"""What every test has: one thread, and after it the signal handlers that it found are there again."""

import os
import signal

import pytest

# Before torch is imported. Two workers of two threads each wait for each other on two cores: seven times as long.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True)
def signal_handlers():
    """A command that runs in this process changes them; the next test that is interrupted must not end the process."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
