"""``metrics.csv``, one row per rollout: the log that writes it, and other loggers beside it, and its one reader."""

import csv
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from optimist.files import write_atomically
from optimist.training.config import LoggerName
from optimist.training.runs.loggers import LOGGERS, Logger, shown

FILE = "metrics.csv"
NOTHING: Mapping[str, Any] = MappingProxyType({})
Columns = dict[str, NDArray[np.float64]]


class MetricsLog:
    """Rows of numbers, appended to ``metrics.csv`` and to other loggers; the first row fixes the columns.

    Nothing is opened before the first row. ``config`` is shown by loggers that show settings.
    """

    def __init__(
        self,
        folder: Path,
        *,
        loggers: Sequence[LoggerName] = ("tensorboard",),
        config: Mapping[str, Any] = NOTHING,
        state: Mapping[str, Any] | None = None,
    ):
        if state is None and (folder / FILE).exists():
            raise FileExistsError(f"{folder / FILE} is there already: resume its run, or choose another folder")
        self._folder = folder
        self._resumed = state is not None
        self._columns: list[str] = [] if state is None else list(state["columns"])
        self._step = -1 if state is None else int(state["step"])
        self._file: BinaryIO | None = None
        self._names, self._config = loggers, config
        self._loggers: list[Logger] = []

    @classmethod
    def resume(cls, folder: Path, state: Mapping[str, Any], **others: Any) -> Self:
        """The log as it was when ``state`` was taken; the rows after it are dropped, for its run writes them again."""
        _cut_back(folder / FILE, int(state["bytes"]))
        return cls(folder, state=state, **others)

    def write(self, step: int, row: Mapping[str, float | None]) -> None:
        """Append the row of ``step``; columns that it lacks stay empty."""
        file = self._file or self._open(row)
        if unknown := [name for name in row if name not in self._columns]:
            raise ValueError(f"unknown columns {unknown}: the first row fixed {self._columns}")
        values = [row.get(name) for name in self._columns]
        file.write(_line([str(step), *("" if value is None else repr(float(value)) for value in values)]))
        self._step = step
        for logger in self._loggers:
            logger.write(step, shown(dict(zip(self._columns, values, strict=True))))

    def state_dict(self) -> dict[str, Any]:
        """The columns, the last step, and the length of ``metrics.csv``, which is on the disk when this returns."""
        length = 0
        if self._file is not None:
            os.fsync(self._file.fileno())
            length = os.fstat(self._file.fileno()).st_size
        elif self._resumed and (self._folder / FILE).exists():
            length = (self._folder / FILE).stat().st_size
        for logger in self._loggers:
            logger.flush()
        return {"bytes": length, "columns": list(self._columns), "step": self._step}

    def close(self) -> None:
        """Close the file and all loggers; a later ``write`` is an error."""
        if self._file is not None:
            self._file.close()
        for logger in self._loggers:
            logger.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(*(() if kind is None else (OSError,))):  # an error that is under way matters more
            self.close()

    def _open(self, first: Mapping[str, float | None]) -> BinaryIO:
        columns = self._columns or list(first)
        if odd := [name for name in columns if name == "step" or any(mark in name for mark in ',"\r\n')]:
            raise ValueError(f"columns must not be called 'step' nor contain commas, quotes or line ends, got {odd}")
        self._folder.mkdir(parents=True, exist_ok=True)
        file = (self._folder / FILE).open("ab", buffering=0)  # a row is one write
        if file.tell() == 0:
            file.write(_line(["step", *columns]))
        resumed_at = self._step if self._resumed else None
        self._loggers = [LOGGERS[name](self._folder, self._config, resumed_at) for name in self._names]
        self._columns, self._file = columns, file
        return file


def read_metrics(path: Path) -> Columns:
    """The columns of a run's ``metrics.csv``, NaN where a cell is empty; an error if a row is damaged."""
    columns, damage = read_whole_metrics(path)
    if damage:
        raise ValueError(damage)
    return columns


def read_whole_metrics(path: Path) -> tuple[Columns, str]:
    """The columns up to the first damaged row, NaN where a cell is empty, and what the damage is: "" for none."""
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


def whole_rows(path: Path) -> tuple[list[str], list[list[str]], str]:
    """The columns of a CSV file, its rows up to the first one that is cut, and what the damage is: "" for none."""
    with path.open(newline="", errors="replace") as file:
        names, *rows = list(csv.reader(file)) or [[]]
    cut = next((k for k, row in enumerate(rows) if len(row) != len(names)), None)
    if cut is None:
        return names, rows, ""
    return names, rows[:cut], _damage(path, cut + 2, f"it has {len(rows[cut])} of {len(names)} cells")


def _damage(path: Path, line: int, problem: str) -> str:
    return f"{path.name} is damaged in line {line}: {problem}; it was read up to there"


def _cut_back(path: Path, length: int) -> None:
    """Shorten the file to ``length`` bytes, and to whole lines if it is shorter already.

    It becomes another file of that name: a process that has lost the run, and does not know it yet, writes to the old
    one, which nobody reads.
    """
    if not path.exists():
        if length > 0:
            warnings.warn(f"{path} is gone: the run goes on with a new one, without its earlier rows", stacklevel=3)
        return
    with path.open("rb") as file:
        held = file.read(length)
    whole = held.rfind(b"\n") + 1
    write_atomically(path, lambda opened: opened.write(held[:whole]))
    if whole < length:
        warnings.warn(
            f"{path} has {whole} bytes of whole rows, the checkpoint knew {length}: rows are missing", stacklevel=3
        )


def _line(cells: list[str]) -> bytes:
    return (",".join(cells) + "\n").encode()
