"""What the commands share on the screen: progress, and where results are."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress_bar(screen: Console) -> Iterator[Callable[[int, int, str], None]]:
    """Yields the function that moves a live bar on a terminal; elsewhere a line is printed at every tenth."""
    if not screen.is_terminal:
        tenths = [-1]
        yield lambda done, total, label: _print_tenth(screen, tenths, done, total, label)
        return
    text, counts = TextColumn("{task.description}"), MofNCompleteColumn()
    with Progress(text, BarColumn(), counts, TimeElapsedColumn(), TimeRemainingColumn(), console=screen) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, label: bar.update(task, completed=done, total=total, description=label)


def _print_tenth(screen: Console, tenths: list[int], done: int, total: int, label: str) -> None:
    if 10 * done // total > tenths[-1]:
        tenths.append(10 * done // total)
        screen.print(f"{10 * tenths[-1]:>3} %  {label}", markup=False, highlight=False)
        screen.file.flush()


def print_paths(screen: Console, folder: Path) -> None:
    """Print what is in ``folder``."""
    for path in sorted(folder.iterdir()):
        screen.print(f"  {path}", highlight=False, soft_wrap=True)


def command_line() -> str:
    """What was typed."""
    return shlex.join(["optimist", *sys.argv[1:]])
