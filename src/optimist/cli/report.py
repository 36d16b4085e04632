"""``optimist report``: one page about runs and studies."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from optimist.cli.console import print_line
from optimist.cli.errors import FAILED, tell


@dataclass(frozen=True)
class ReportCommand:
    """Make one self-contained HTML page of runs and studies: verdicts, curves, tables, and how to repeat them."""

    folders: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Folders of runs and of studies, any number."""
    out: Path = Path("report.html")
    """The page."""


def run_report(command: ReportCommand, screen: Console) -> int:
    """``optimist report``. A run or a study that could not be read is told, and makes the exit code 1."""
    from optimist.reporting.report import write_report
    from optimist.reporting.report.sections import counted

    contents = write_report(command.folders, command.out)
    found = [
        counted(len(contents.runs), "run", "runs"),
        counted(len(contents.studies), "study", "studies"),
        counted(len(contents.problems), "note", "notes"),
    ]
    print_line(screen, ", ".join(found))
    for problem in contents.problems:
        print_line(screen, f"  {problem.folder}: {problem.message}")
    print_line(screen, f"  {command.out.resolve()}")
    broken = [str(problem.folder) for problem in contents.problems if problem.is_broken]
    if broken:
        tell(f"not all could be read, and the report is without it: {', '.join(broken)}")
    return FAILED if broken else 0
