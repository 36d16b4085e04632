"""How much memory this process can still get, a refusal in words of what cannot fit, and memory kept for reuse."""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_LIMITS_OF_CONTAINERS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_allowed: ContextVar[int | None] = ContextVar("allowed", default=None)
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's mallopt(3)
_LARGEST_INT = 2**31 - 1


@contextmanager
def allowed_memory(size: int) -> Iterator[None]:
    """Within it, ``require_memory`` refuses more than ``size`` bytes at once, in this thread."""
    token = _allowed.set(size)
    try:
        yield
    finally:
        _allowed.reset(token)


def require_memory(needed: int, what: str, advice: str) -> None:
    """An error if ``needed`` bytes exceed what this machine has left; without it, Linux kills the process instead."""
    allowed, available = _allowed.get(), available_memory()
    if allowed is not None and needed > allowed:
        raise ValueError(f"{what} needs {in_words(needed)} of memory, and {in_words(allowed)} are allowed here")
    if available is not None and needed > available:
        raise ValueError(
            f"{what} needs {in_words(needed)} of memory, and {in_words(available)} are available: {advice}"
        )


def available_memory() -> int | None:
    """Bytes that this process can still get, swap included; None where the system does not say."""
    known = [size for size in (_of_the_machine(), *map(_limit, _LIMITS_OF_CONTAINERS)) if size is not None]
    return min(known) if known else None


def keep_freed_memory() -> bool:
    """Whether large blocks that are freed stay with this process from now on: so where the C library is glibc.

    Else each of them is given back to the system when it is freed, and every page of the next one is a fault: with
    images that is a fifth of the time of training. The most that the process holds at a time does not change.
    """
    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):  # another C library, or none that Python can name
        return False
    return bool(set_option(_MMAP_MAX, 0) and set_option(_TRIM_THRESHOLD, _LARGEST_INT))


def in_words(size: int) -> str:
    """A number of bytes for the reader: ``in_words(80_000_000_000)`` is "74.5 GiB"."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < 1024:
            return f"{value:.0f} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.0f} EiB"


def _of_the_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        sizes = {name: int(rest.split()[0]) for name, rest in (line.split(":", 1) for line in lines)}
        return 1024 * (sizes["MemAvailable"] + sizes["SwapFree"])
    except (OSError, ValueError, KeyError, IndexError):
        pass  # not Linux: all of the memory is a bound, though a loose one
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return None


def _limit(path: Path) -> int | None:
    """The limit of a container, if it has one ("max" means that it has none)."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
