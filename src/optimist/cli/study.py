"""``optimist study``: a figure of the paper, or a benchmark, with its verdicts."""

import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from optimist.cli.console import command_line, print_paths, progress_bar
from optimist.reporting.tables import prepare_folder, write_csv, write_record
from optimist.studies.outcome import Outcome
from optimist.studies.verdicts import verdict_row

RECORD, FAILURES = "record.json", "failures.csv"

StudyName = Literal[
    "figure1",
    "figure2",
    "figure3",
    "figure4",
    "figure5",
    "figure6",
    "figure7",
    "linear-bandits",
    "fidelity",
    "deepsea",
    "frozen-lake",
    "combination-lock",
    "minigrid",
    "atari",
    "ablation",
]
"""The one list of studies; each is the package of `optimist.studies` of the same name."""
STUDIES: tuple[str, ...] = get_args(StudyName)


@dataclass(frozen=True)
class StudyCommand:
    """Reproduce a figure of the paper or run a benchmark study."""

    name: Annotated[StudyName, tyro.conf.Positional]
    """Which study."""
    scale: Literal["smoke", "laptop", "paper"] = "laptop"
    """Seconds, minutes, or the budget of the paper."""
    workers: int | None = None
    """Cores to use; all of them if not given. 0 plays nothing: the training runs that are finished are judged."""
    out: Path | None = None
    """The folder of the results; runs/NAME-SCALE if not given."""
    runs: Path | None = None
    """The folder of another study whose training runs are used and added to; if not given, the study's own. Figures 5
    and 6 have the same runs, and share some with 3, 4 and atari."""
    overwrite: bool = False
    """Write into the folder even if it is in use. A study of training runs goes on where it stopped without this."""


def run_study(command: StudyCommand, screen: Console) -> None:
    """``optimist study``."""
    package = f"optimist.studies.{command.name.replace('-', '_')}"
    settings = import_module(f"{package}.settings").SCALES[command.scale]
    run = import_module(f"{package}.study").run
    trains = hasattr(settings, "jobs") or hasattr(settings, "training")
    if command.runs is not None and not trains:
        raise ValueError(f"{command.name} is no study of training runs, got --runs {command.runs}: leave it out")
    least = 0 if trains else 1
    if command.workers is not None and command.workers < least:
        raise ValueError(f"--workers must be at least {least} for {command.name}, got {command.workers}")
    path = command.out or Path("runs") / f"{command.name}-{command.scale}"
    goes_on = (path / "runs").is_dir() or (command.runs is not None and (path / RECORD).is_file())
    folder = prepare_folder(path, command.overwrite or goes_on)
    start = time.perf_counter()
    with progress_bar(screen) as progress:
        outcome: Outcome = run(settings, progress, command.workers, command.runs or folder)
    seconds = time.perf_counter() - start
    write_outcome(outcome, folder)
    write_record(folder / RECORD, command_line(), settings, seconds)
    table = Table("claim", "measured", "verdict", title=f"{command.name}, scale {command.scale}, {seconds:.0f} s")
    for verdict in outcome.verdicts:
        table.add_row(*map(escape, (verdict.claim, verdict.measured, verdict.judgement)))
    screen.print(table)
    print_paths(screen, folder)


def write_outcome(outcome: Outcome, folder: Path) -> None:
    """Writes tables, verdicts, figures, and the runs that failed; an older list of these goes if none did."""
    tables = outcome.tables | {"verdicts": [verdict_row(verdict) for verdict in outcome.verdicts]}
    for name, rows in tables.items():
        write_csv(folder / f"{name}.csv", rows)
    (folder / FAILURES).unlink(missing_ok=True)
    if outcome.failures:
        write_csv(folder / FAILURES, outcome.failures)
    for name, draw in outcome.figures.items():
        draw(folder / f"{name}.png")
