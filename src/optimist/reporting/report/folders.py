"""What lies in the folders that a report is made of: runs, studies, and what could not be read of them."""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from optimist.training.config import TrainConfig

Columns = dict[str, NDArray[np.float64]]
RUN_FILES = ("config.json", "metrics.csv", "error.txt")
STUDY_FILES = ("record.json", "verdicts.csv")
WINDOW = 100
"""Episodes behind a success rate: with fewer a run does not end for it."""


@dataclass(frozen=True)
class Problem:
    """Something that could not be read: where, and what was wrong."""

    folder: Path
    message: str
    details: str = ""


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
    """The runs and studies in ``folders``, each once; what is broken is a problem, what is neither an error."""
    if not folders:
        raise ValueError("a report needs at least one folder of a run or a study")
    for folder in folders:
        require_run_or_study(folder)
    contents = Contents()
    seen: set[Path] = set()
    for folder in folders:
        members = [folder] if is_run(folder) else runs_of(folder)
        if not is_run(folder) and _is_new(folder, seen):
            read_study(folder, contents)
        for member in members:
            if _is_new(member, seen):
                read_run(member, contents)
    return contents


def require_run_or_study(folder: Path) -> None:
    """An error that says what was expected, unless ``folder`` is a run or a study."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}: give folders made by optimist train, study or bandit")
    if is_run(folder) or is_study(folder):
        return
    inside = [path for path in sorted(folder.iterdir()) if path.is_dir() and (is_run(path) or is_study(path))]
    hint = f"it holds {len(inside)} of them: write  optimist report {folder}/*" if inside else "is it the right one?"
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
    from optimist.training.runs import read_config  # PyTorch, which a report of bandits does not need

    problems = contents.problems
    error = folder / "error.txt"
    if error.is_file():
        text = error.read_text(errors="replace")
        problems.append(Problem(folder, f"the run failed: {text.strip().rpartition(chr(10))[2]}", text))
    try:
        config = read_config(folder)
        metrics, damage = read_metrics(folder / "metrics.csv")
    except (OSError, ValueError) as problem:
        if not error.is_file():
            problems.append(Problem(folder, f"left out: {problem}"))
        return
    twin = next((run for run in contents.runs if run.config == config), None)
    if twin is not None:  # a copy would make an interval look narrower than it is
        problems.append(Problem(folder, f"left out: the configuration and the seed are those of {twin.folder}"))
        return
    if damage:
        problems.append(Problem(folder, damage))
    contents.runs.append(Run(folder, config, metrics, tuple(sorted((folder / "play").glob("*.png")))))


def read_metrics(path: Path) -> tuple[Columns, str]:
    """The columns of a run's metrics up to the first damaged row, NaN where a cell is empty, and what the damage is."""
    names, rows, damage = whole_rows(path)
    if "step" not in names:
        raise ValueError(f"{path.name} has no column 'step': it is empty or no file of a run")
    step, numbers = names.index("step"), list[list[float]]()
    try:
        for row in rows:
            if not row[step].isdecimal():
                raise ValueError(f"its step is {row[step]!r}")
            numbers.append([float(cell or "nan") for cell in row])
    except ValueError as problem:
        damage = _damage(path, len(numbers) + 2, str(problem))
    if not numbers:
        raise ValueError(damage or f"{path.name} has no row yet")
    return dict(zip(names, np.array(numbers).T, strict=True)), damage


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
        contents.problems.append(Problem(folder, f"record.json could not be read: {problem}"))
    tables = {}
    for path in sorted(folder.glob("*.csv")):
        try:
            names, rows, damage = whole_rows(path)
        except (OSError, csv.Error) as problem:
            damage = f"{path.name} could not be read: {problem}"
        else:
            tables[path.stem] = [dict(zip(names, row, strict=True)) for row in rows]
        if damage:
            contents.problems.append(Problem(folder, damage))
    contents.studies.append(Study(folder, record, tables, tuple(sorted(folder.glob("*.png")))))


def whole_rows(path: Path) -> tuple[list[str], list[list[str]], str]:
    """The columns of a CSV file, its rows up to the first one that is cut, and what the damage is."""
    with path.open(newline="", errors="replace") as file:
        names, *rows = list(csv.reader(file)) or [[]]
    cut = next((k for k, row in enumerate(rows) if len(row) != len(names)), None)
    if cut is None:
        return names, rows, ""
    return names, rows[:cut], _damage(path, cut + 2, f"it has {len(rows[cut])} of {len(names)} cells")


def _damage(path: Path, line: int, problem: str) -> str:
    return f"{path.name} is damaged in line {line}: {problem}; it was read up to there"


def _is_new(folder: Path, seen: set[Path]) -> bool:
    place = folder.resolve()
    known = place in seen
    seen.add(place)
    return not known
