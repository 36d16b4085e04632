"""What lies in the folders that a report is made of: runs, studies, and what could not be read of them."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from optimist.training.config import TrainConfig
from optimist.training.runs.metrics_log import Columns, read_whole_metrics, whole_rows

RUN_FILES = ("config.json", "metrics.csv", "error.txt")
STUDY_FILES = ("record.json", "verdicts.csv")
PASSED_OVER = "passed over: neither a run nor a study"
WINDOW = 100
"""Episodes behind a success rate: with fewer a run does not end for it."""


@dataclass(frozen=True)
class Problem:
    """Something to know about a folder: what was wrong with it, or why it was passed over."""

    folder: Path
    message: str
    details: str = ""
    is_broken: bool = False
    """Whether something that should be there could not be read."""


@dataclass(frozen=True, eq=False)
class Run:
    """A training run: its configuration, the columns of its ``metrics.csv``, and whether it is at its end."""

    folder: Path
    config: TrainConfig
    metrics: Columns
    pictures: tuple[Path, ...] = ()

    @property
    def step(self) -> int:
        """Steps played so far."""
        return int(self.metrics["step"][-1])

    @property
    def is_finished(self) -> bool:
        """Whether all steps were played, or as many episodes succeeded as were asked for."""
        aim = self.config.stop_at_success
        succeeded = aim > 0 and self.last("episodes") >= WINDOW and self.last("success_rate") >= aim
        return succeeded or self.step >= self.config.total_steps

    def last(self, column: str) -> float:
        """The value at the end; NaN if there is none."""
        return float(self.metrics[column][-1]) if column in self.metrics else np.nan


@dataclass(frozen=True)
class Study:
    """A study: its record, its tables by name, and its figures. Its runs are among those of the report."""

    folder: Path
    record: dict[str, Any]
    tables: dict[str, list[dict[str, str]]]
    pictures: tuple[Path, ...]


@dataclass
class Contents:
    """Everything that was found."""

    runs: list[Run] = field(default_factory=list)
    studies: list[Study] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def read_folders(folders: Sequence[Path]) -> Contents:
    """The runs and studies in ``folders``, each once; what is broken, or neither, is a problem.

    So ``results/*`` may name a README too. It is an error if a path is not there, or if there is neither among all.
    """
    if not folders:
        raise ValueError("a report needs at least one folder of a run or a study")
    for folder in folders:
        require_existing(folder)
    known = [folder for folder in folders if is_run(folder) or is_study(folder)]
    for folder in folders if not known else ():
        require_run_or_study(folder)
    contents = Contents(problems=[Problem(folder, PASSED_OVER) for folder in folders if folder not in known])
    seen: set[Path] = set()
    for folder in known:
        members = [folder] if is_run(folder) else runs_of(folder)
        if not is_run(folder) and _is_new(folder, seen):
            read_study(folder, contents)
        for member in members:
            if _is_new(member, seen):
                read_run(member, contents)
    return contents


def require_existing(folder: Path) -> None:
    """An error if there is nothing at ``folder``, or if it holds several runs or studies instead of being one."""
    if not folder.exists():
        raise ValueError(f"there is no folder {folder}: give folders made by optimist train, study or bandit")
    if folder.is_dir() and not is_run(folder) and not is_study(folder) and inside(folder):
        require_run_or_study(folder)


def inside(folder: Path) -> list[Path]:
    """The runs and studies that ``folder`` itself holds."""
    return [path for path in sorted(folder.iterdir()) if path.is_dir() and (is_run(path) or is_study(path))]


def require_run_or_study(folder: Path) -> None:
    """An error that says what was expected, for a ``folder`` that is neither a run nor a study."""
    held = len(inside(folder)) if folder.is_dir() else 0
    hint = f"it holds {held} of them: write  optimist report {folder}/*" if held else "is it the right one?"
    raise ValueError(
        f"{folder} is neither a run (config.json, metrics.csv) nor a study (record.json, verdicts.csv, runs/): {hint}"
    )


def is_run(folder: Path) -> bool:
    """Whether ``folder`` has something of a run."""
    return any((folder / name).is_file() for name in RUN_FILES)


def is_study(folder: Path) -> bool:
    """Whether ``folder`` has something of a study."""
    return any((folder / name).is_file() for name in STUDY_FILES) or bool(runs_of(folder))


def runs_of(folder: Path) -> list[Path]:
    """The runs of a study, in the order of their names."""
    place = folder / "runs"
    return sorted(path for path in place.iterdir() if path.is_dir() and is_run(path)) if place.is_dir() else []


def read_run(folder: Path, contents: Contents) -> None:
    """Adds the run in ``folder``, and what is wrong with it."""
    from optimist.training.runs.run import read_config  # PyTorch, which a report of bandits does not need

    problems = contents.problems
    error = folder / "error.txt"
    if error.is_file():
        text = error.read_text(errors="replace")
        problems.append(Problem(folder, f"the run failed: {text.strip().rpartition(chr(10))[2]}", text))
    try:
        config = read_config(folder)
        metrics, damage = read_whole_metrics(folder / "metrics.csv")
    except (OSError, ValueError) as problem:
        if not error.is_file():
            problems.append(Problem(folder, f"left out: {problem}", is_broken=True))
        return
    twin = next((run for run in contents.runs if run.config == config), None)
    if twin is not None:  # a copy would make an interval look narrower than it is
        problems.append(Problem(folder, f"left out: the configuration and the seed are those of {twin.folder}"))
        return
    if damage:
        problems.append(Problem(folder, damage, is_broken=True))
    contents.runs.append(Run(folder, config, metrics, tuple(pictures_in(folder / "play"))))


def pictures_in(folder: Path) -> list[Path]:
    """The pictures in ``folder`` that a page can show; of one in two formats the PNG."""
    found = {path.stem: path for suffix in ("svg", "png") for path in folder.glob(f"*.{suffix}")}
    return [found[name] for name in sorted(found)]


def read_study(folder: Path, contents: Contents) -> None:
    """Adds the study in ``folder``, and what is wrong with it."""
    record: dict[str, Any] = {}
    path = folder / "record.json"
    try:
        stored = json.loads(path.read_text())
        record = stored if isinstance(stored, dict) else {}
    except FileNotFoundError:
        contents.problems.append(Problem(folder, "the study is not finished: it has no record.json yet"))
    except (OSError, ValueError) as problem:
        contents.problems.append(Problem(folder, f"record.json could not be read: {problem}", is_broken=True))
    tables = {}
    for path in sorted(folder.glob("*.csv")):
        try:
            names, rows, damage = whole_rows(path)
        except (OSError, csv.Error) as problem:
            damage = f"{path.name} could not be read: {problem}"
        else:
            tables[path.stem] = [dict(zip(names, row, strict=True)) for row in rows]
        if damage:
            contents.problems.append(Problem(folder, damage, is_broken=True))
    contents.studies.append(Study(folder, record, tables, tuple(pictures_in(folder))))


def _is_new(folder: Path, seen: set[Path]) -> bool:
    place = folder.resolve()
    known = place in seen
    seen.add(place)
    return not known
