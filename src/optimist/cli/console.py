"""What the commands share on the screen: progress, tables that never cut a number, and where results are."""

import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

WORD = 12
"""Characters that a column of text needs at least; what is longer goes on in the next line."""


def make_screen() -> Console:
    """The screen: colors on a terminal only."""
    return Console()


@contextmanager
def progress_bar(screen: Console) -> Iterator[Callable[[int, int, str], None]]:
    """Yields the function that moves a live bar on a terminal; elsewhere a line is printed at every tenth."""
    if not screen.is_terminal:
        tenths = [-1]
        yield lambda done, total, label: _print_tenth(screen, tenths, done, total, label)
        return
    text, counts = TextColumn("{task.description}", markup=False), MofNCompleteColumn()
    with Progress(text, BarColumn(), counts, TimeElapsedColumn(), TimeRemainingColumn(), console=screen) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total, label: bar.update(task, completed=min(done, total), total=total, description=label)


def _print_tenth(screen: Console, tenths: list[int], done: int, total: int, label: str) -> None:
    tenth = 10 * min(done, total) // total if total > 0 else 10
    if tenth > tenths[-1]:
        tenths.append(tenth)
        screen.print(f"{10 * tenth:>3} %  {label}", markup=False, highlight=False, soft_wrap=True)
        screen.file.flush()


def print_table(screen: Console, title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table; where the screen is too narrow for it, one block per row, so that nothing is cut.

    Columns of text go on in the next line. A column is text if a cell of it is longer than any number.
    """
    columns = list(zip(header, *rows, strict=True))
    widths = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in columns]
    prose = [max((cell_len(cell) for cell in column[1:]), default=0) > 2 * WORD for column in columns]
    least = [WORD if is_prose else width for is_prose, width in zip(prose, widths, strict=True)]
    print_line(screen, title)
    if sum(least) + 3 * len(columns) + 1 > screen.width:
        for row in rows:
            print_line(screen, row[0])
            for name, cell in zip(header[1:], row[1:], strict=True):
                print_line(screen, f"  {' '.join(name.split())}: {cell}")
        return
    table = Table()
    for name, is_prose in zip(header, prose, strict=True):
        table.add_column(escape(name), no_wrap=not is_prose, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    screen.print(table)


def print_line(screen: Console, text: str) -> None:
    """Print a line as it is: no markup is read, no number colored, nothing wrapped."""
    screen.print(text, markup=False, highlight=False, soft_wrap=True)


def print_paths(screen: Console, folder: Path) -> None:
    """Print what is in ``folder``."""
    for path in sorted(folder.iterdir()):
        print_line(screen, f"  {path}")


def command_line() -> str:
    """What was typed."""
    return shlex.join(["optimist", *sys.argv[1:]])
