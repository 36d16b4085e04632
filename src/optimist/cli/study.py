"""``optimist study``: a figure of the paper, or a benchmark, with its verdicts."""

import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table

from optimist.cli.console import command_line, print_paths, progress_bar
from optimist.reporting.tables import prepare_folder, write_csv, write_record
from optimist.studies.outcome import Outcome

STUDIES = {
    "figure2": "optimist.studies.figure2",
    "linear-bandits": "optimist.studies.linear_bandits",
    "fidelity": "optimist.studies.fidelity",
    "deepsea": "optimist.studies.deepsea",
    "frozen-lake": "optimist.studies.frozen_lake",
    "combination-lock": "optimist.studies.combination_lock",
    "minigrid": "optimist.studies.minigrid",
    "atari": "optimist.studies.atari",
}


@dataclass(frozen=True)
class StudyCommand:
    """Reproduce a figure of the paper or run a benchmark study."""

    name: Annotated[
        Literal[
            "figure2",
            "linear-bandits",
            "fidelity",
            "deepsea",
            "frozen-lake",
            "combination-lock",
            "minigrid",
            "atari",
        ],
        tyro.conf.Positional,
    ]
    """Which study."""
    scale: Literal["smoke", "laptop", "paper"] = "laptop"
    """Seconds, minutes, or the budget of the paper."""
    workers: int | None = None
    """Cores to use; all of them if not given."""
    out: Path | None = None
    """The folder of the results; runs/NAME-SCALE if not given."""
    overwrite: bool = False
    """Write into the folder even if it is in use. A study of training runs goes on where it stopped without this."""


def run_study(command: StudyCommand, screen: Console) -> None:
    """``optimist study``."""
    settings = import_module(f"{STUDIES[command.name]}.settings").SCALES[command.scale]
    run = import_module(f"{STUDIES[command.name]}.study").run
    path = command.out or Path("runs") / f"{command.name}-{command.scale}"
    folder = prepare_folder(path, command.overwrite or (path / "runs").is_dir())
    start = time.perf_counter()
    with progress_bar(screen) as progress:
        outcome: Outcome = run(settings, progress, command.workers, folder)
    seconds = time.perf_counter() - start
    for name, rows in outcome.tables.items():
        write_csv(folder / f"{name}.csv", rows)
    for name, draw in outcome.figures.items():
        draw(folder / f"{name}.png")
    verdicts = [{"claim": v.claim, "measured": v.measured, "judgement": v.judgement} for v in outcome.verdicts]
    write_csv(folder / "verdicts.csv", verdicts)
    write_record(folder / "record.json", command_line(), settings, seconds)
    table = Table("claim", "measured", "verdict", title=f"{command.name}, scale {command.scale}, {seconds:.0f} s")
    for verdict in outcome.verdicts:
        table.add_row(verdict.claim, verdict.measured, verdict.judgement)
    screen.print(table)
    print_paths(screen, folder)
