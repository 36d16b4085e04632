"""Times side by side in one run, memory in a process of its own, and the machine that both were measured on."""

import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

MEGABYTE = 1e6


@dataclass(frozen=True)
class Row:
    """One measured number."""

    section: str
    what: str
    quantity: str
    value: float
    unit: str


def interleaved(actions: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """The median seconds of every action over ``repeats`` rounds, each of which runs all of them in turn.

    What else the machine does then falls on all of them alike. A first round warms up and is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for counted in [False] + [True] * repeats:
        for name, action in actions.items():
            start = time.perf_counter()
            action()
            if counted:
                seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def memory_growth(action: Callable[[], object]) -> float:
    """By how many bytes the largest resident memory of this process exceeds, after ``action``, what it holds before.

    Linux only: from /proc, since ``getrusage`` counts the parent's memory up to the start of a child as the child's.
    """
    before = _status_bytes("VmRSS")
    action()
    return _status_bytes("VmHWM") - before


def in_subprocess(command: list[str]) -> str:
    """What ``command``, a script and its arguments, prints when this interpreter runs it."""
    return subprocess.run([sys.executable, *command], check=True, stdout=subprocess.PIPE, text=True).stdout


def tensor_bytes(state: object) -> int:
    """The bytes of all tensors in a nested dictionary."""
    if isinstance(state, torch.Tensor):
        return state.numel() * state.element_size()
    return sum(map(tensor_bytes, state.values())) if isinstance(state, Mapping) else 0


def machine() -> str:
    """One line: cores, processor, versions, threads, and how busy others kept the machine in the last minute."""
    load = os.getloadavg()[0]
    return (
        f"{os.cpu_count()} cores, {_processor()}, {platform.system()}, Python {platform.python_version()}, "
        f"torch {torch.__version__} with {torch.get_num_threads()} threads, load average at the start {load:.1f}"
    )


def _processor() -> str:
    lines = dict(_colon_separated(Path("/proc/cpuinfo"))) if Path("/proc/cpuinfo").exists() else {}
    name = lines.get("model name", platform.processor() or platform.machine())
    return f"{name} (family {lines['cpu family']}, model {lines['model']})" if "cpu family" in lines else name


def _status_bytes(field: str) -> float:
    kilobytes = dict(_colon_separated(Path("/proc/self/status")))[field]
    return float(kilobytes.split()[0]) * 1024


def _colon_separated(path: Path) -> list[tuple[str, str]]:
    pairs = [line.split(":", 1) for line in path.read_text().splitlines() if ":" in line]
    return [(key.strip(), value.strip()) for key, value in pairs]
