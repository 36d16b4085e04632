"""What a study is: settings at three scales, tables that it measures, verdicts and figures made of these tables alone.

The words of this room, one meaning each:

* a *learner* is who learns: a bonus with its options, or ``random``, which does not learn;
* a *task* is what is played: an environment with its budget;
* a *job* is one learner on one task from one seed, written down in numbers and strings;
* a *run* is a job on disk: the folder in which it was trained, or is being trained.

A study is one module with three headed sections (what, settings, verdict) that ends with ``STUDY = Study(...)``, and
one line in `optimist.studies.registry`.
"""

import csv
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

from optimist.reporting.tables import Row, read_csv, write_csv
from optimist.studies.attempts import RETRIES
from optimist.studies.executors import Workers, local

Tables = Mapping[str, Sequence[Row]]
"""Rows by the name of their file, without its ending."""
Draw = Callable[[Path], None]
"""Draws a figure to a path, whose ending is its format."""
Progress = Callable[[int, int, str], None]
"""Told (steps done, steps in all, what is being done)."""
Judgement = Literal["holds", "does not hold", "not enough data"]

VERDICTS, FAILURES, RECORD = "verdicts", "failures", "record.json"
"""The tables that every study may have, and the file that says how it was made."""
ARCHIVE = "played.zip"
"""The metrics of all training runs of a study: see `optimist.studies.training.archive`."""
FURTHER_SEEDS = (105, 106, 107, 108, 109)
"""For claims that the first five seeds left undecided."""
ALL_RUNS_FINISH = "every run of the study finishes"
"""The claim that no run failed: of every study of training runs, and none of the paper's."""
OPTIONAL = (FAILURES,)
"""Tables that go from a folder when the study is run again and has none."""


@dataclass(frozen=True)
class Verdict:
    """One claim, held against one measurement."""

    claim: str
    measured: str
    """Our number, with its interval."""
    judgement: Judgement
    seeds: int | None = None
    """Runs of the side that has fewest; None where the measurement has none."""
    budget: str = ""
    """How long was played, in words."""


class Settings(Protocol):
    """Everything that a study depends on: a frozen dataclass of numbers and strings."""

    def with_seeds(self, seeds: Sequence[int]) -> Self:
        """The same study on other seeds."""
        ...


Chosen = TypeVar("Chosen", bound=Settings)


@dataclass(frozen=True)
class Session:
    """What a study is given by who starts it."""

    folder: Path
    """Where training runs are, or will be: ``folder/runs/NAME``."""
    workers: int | None = None
    """Processes or threads; as many as there are cores if None, or as the cluster has room for."""
    progress: Progress = lambda done, total, label: None
    cluster: Callable[[int | None], Workers] | None = None
    """Makes the executor of so many workers on other machines; None for this machine alone."""
    retries: int = RETRIES
    """Deaths of its worker in a row, without getting further, after which a call is given up."""
    only: tuple[str, ...] = ()
    """Training runs are played if their name contains one of these texts; all of them if there is none."""

    def executor(self, most: int | None = None) -> Workers:
        """The executor of the session's workers, of no more than ``most`` where they are processes of this machine."""
        if self.cluster is not None:
            return self.cluster(self.workers)
        count = self.workers or os.cpu_count() or 1
        return local(count if most is None else min(count, most))


@dataclass(frozen=True)
class Measurement:
    """What a study measured."""

    tables: Tables
    pictures: dict[str, Draw] = field(default_factory=dict)
    """Figures that need more than the tables, such as film strips: they cannot be redrawn from a folder."""


@dataclass(frozen=True)
class Study(Generic[Chosen]):
    """A study: how it measures, how it judges, what it draws."""

    scales: Mapping[str, Chosen]
    """The settings by the scale: smoke, laptop, paper. They differ in numbers alone."""
    measure: Callable[[Chosen, Session], Measurement]
    judge: Callable[[Tables], Sequence[Verdict]]
    """The verdicts, from the tables."""
    figures: Callable[[Tables], Mapping[str, Draw]]
    """How each figure is drawn from the tables, by its name; those whose table is missing are left out."""
    trains: bool = False
    """Whether it consists of training runs, whose settings have `jobs` and `with_learners`."""
    spreads: bool = True
    """Whether its runs or trials can be played on other machines."""


@dataclass(frozen=True)
class Outcome:
    """The result of a study."""

    tables: Tables
    verdicts: Sequence[Verdict]
    figures: Mapping[str, Draw]


def carry_out(study: Study[Chosen], settings: Chosen, session: Session) -> Outcome:
    """The whole study. Learners that a user added are measured and drawn, and not judged: no claim is about them."""
    measured = study.measure(settings, session)
    added: Sequence[str] = getattr(settings, "added", ())
    judged = {name: [row for row in rows if row.get("learner") not in added] for name, rows in measured.tables.items()}
    return Outcome(measured.tables, study.judge(judged), dict(study.figures(measured.tables)) | measured.pictures)


def write_outcome(outcome: Outcome, folder: Path, suffix: str = "png") -> None:
    """Writes tables, verdicts and figures; a list of failures of before goes if nothing failed now."""
    tables = dict(outcome.tables) | {VERDICTS: [verdict_row(verdict) for verdict in outcome.verdicts]}
    for name, rows in tables.items():
        write_csv(folder / f"{name}.csv", rows)
    for name in OPTIONAL:
        if name not in tables:
            (folder / f"{name}.csv").unlink(missing_ok=True)
    for name, draw in outcome.figures.items():
        draw(folder / f"{name}.{suffix}")


def read_tables(folder: Path) -> dict[str, list[Row]]:
    """The tables that `write_outcome` wrote to ``folder``: numbers are numbers again, to the digits that were kept."""
    return {path.stem: read_csv(path) for path in sorted(folder.glob("*.csv"))}


def verdict_row(verdict: Verdict) -> dict[str, Any]:
    """A row of ``verdicts.csv``."""
    return asdict(verdict)


def read_verdicts(path: Path) -> list[Verdict]:
    """The verdicts in a CSV; columns that an older one lacks are empty."""
    names = {field.name for field in fields(Verdict)}
    with path.open(newline="") as file:
        rows: list[dict[str, Any]] = [{n: v for n, v in row.items() if n in names} for row in csv.DictReader(file)]
    if not all({"claim", "measured", "judgement"} <= row.keys() for row in rows):
        raise ValueError(f"{path} has no verdicts: its columns must be claim, measured and judgement")
    return [Verdict(**row | {"seeds": int(row["seeds"]) if row.get("seeds") else None}) for row in rows]


def require_seeds(seeds: Sequence[int], most: int | None = None) -> tuple[int, ...]:
    """``seeds`` themselves: different whole numbers from 0 on, at least one, at most ``most``."""
    if not seeds or len(set(seeds)) < len(seeds) or min(seeds) < 0:
        raise ValueError(f"--seeds must be different whole numbers, at least 0, got {' '.join(map(str, seeds))}")
    if most is not None and len(seeds) > most:
        raise ValueError(f"--seeds must be at most {most} for this study, got {' '.join(map(str, seeds))}")
    return tuple(seeds)
