"""What every test has: the signal handlers that it found are there again after it."""

import signal

import pytest


@pytest.fixture(autouse=True)
def signal_handlers():
    """A command that runs in this process changes them; the next test that is interrupted must not end the process."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
