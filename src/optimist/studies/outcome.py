"""What every study hands over: tables, verdicts and a way to draw its figures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from optimist.reporting.tables import Row
from optimist.studies.verdicts import Verdict

Progress = Callable[[int, int, str], None]
"""Told (steps done, steps in all, what is being done)."""


@dataclass(frozen=True)
class Outcome:
    """The result of a study."""

    tables: dict[str, list[Row]]
    """Rows by the name of the file, without its ending."""
    verdicts: list[Verdict]
    figures: dict[str, Callable[[Path], None]] = field(default_factory=dict)
    """Functions that draw a figure to a path, by the name of the file."""
    failures: list[Row] = field(default_factory=list)
    """The runs that failed; the rest of the outcome is that of the others."""
