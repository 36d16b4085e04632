"""Rows of numbers on disk, as CSV, and the record of the run that made them."""

import csv
import io
import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import optimist
from optimist.files import write_text

Row = Mapping[str, Any]


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Writes rows with the columns of the first one; floats to six significant digits."""
    if not rows:
        raise ValueError(f"no rows to write to {path}")
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    write_text(path, text.getvalue())


def _cell(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def read_csv(path: Path) -> list[Row]:
    """The rows of a CSV: whole numbers, other numbers (NaN is one), and everything else as text."""
    with path.open(newline="", encoding="utf-8") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _value(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def is_number(value: Any) -> bool:
    """Whether a cell holds a finite number: not NaN, and not the empty text of a cell that was left out."""
    return isinstance(value, int | float) and math.isfinite(value)


def write_record(path: Path, command: str, settings: Any, seconds: float) -> None:
    """Writes what was run, with which settings, on which machine and for how long, as JSON."""
    record = {
        "command": command,
        "version": optimist.__version__,
        "settings": asdict(settings) if is_dataclass(settings) and not isinstance(settings, type) else settings,
        "seconds": round(seconds, 1),
        "machine": {"cores": os.cpu_count(), "processor": platform.machine(), "python": platform.python_version()},
    }
    write_text(path, json.dumps(record, indent=2) + "\n")


def prepare_folder(path: Path, may_overwrite: bool) -> Path:
    """An empty folder to write to; an existing one with content is refused unless it may be overwritten."""
    if not may_overwrite:
        require_unused(path, "choose another with --out, or add --overwrite")
    elif path.exists() and not path.is_dir():
        raise FileExistsError(f"the output folder {path} is a file: choose another with --out")
    path.mkdir(parents=True, exist_ok=True)
    return path


def require_unused(path: Path, what_to_do: str) -> None:
    """Nothing is made: an error if ``path`` is a file or a folder with content."""
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"the output folder {path} is a file: choose another with --out")
    if path.is_dir() and any(path.iterdir()):
        raise FileExistsError(f"the output folder {path} is in use: {what_to_do}")
