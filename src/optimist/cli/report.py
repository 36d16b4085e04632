"""``optimist report``: one page about runs and studies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console


@dataclass(frozen=True)
class ReportCommand:
    """Make one self-contained HTML page of runs and studies: verdicts, curves, tables, and how to repeat them."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs and of studies, any number."""
    out: Path = Path("report.html")
    """The page."""


def run_report(command: ReportCommand, screen: Console) -> None:
    """``optimist report``."""
    from optimist.reporting.report import write_report
    from optimist.reporting.report.sections import counted

    contents = write_report(command.folders, command.out)
    found = [
        counted(len(contents.runs), "run", "runs"),
        counted(len(contents.studies), "study", "studies"),
        counted(len(contents.problems), "note", "notes"),
    ]
    screen.print(", ".join(found), highlight=False)
    screen.print(f"  {command.out.resolve()}", markup=False, highlight=False, soft_wrap=True)
