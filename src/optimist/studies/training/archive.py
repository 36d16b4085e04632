"""Runs that were played before, perhaps on another machine: the metrics of each, in one file beside a study's tables.

The folders of runs are large and stay where they were played. ``played.zip`` is small, and goes wherever the tables go:
a study that finds a run in it does not play that run again, so seeds can be added to a study anywhere, at any time.
"""

import json
import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import optimist
from optimist.config import leaves
from optimist.files import write_atomically
from optimist.studies.training.runs import Job
from optimist.training.config import TrainConfig
from optimist.training.mixing import unread
from optimist.training.runs.metrics_log import Columns

KEPT = ("step", "episodes", "unique_states", "return_mean", "success_rate", "unique_cells", "unique_places")
"""The columns of ``metrics.csv`` that studies read; one that a run lacks is left out."""
SECONDS = "seconds/all"
"""The sum of all columns of seconds."""
WHERE_PLAYED = ("threads", "device")
"""Settings that say where a run is computed, not what: they are not kept."""
LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The date of every entry: the same runs make the same file."""


@dataclass(frozen=True, eq=False)
class Played:
    """A finished run and the columns of its ``metrics.csv``."""

    job: Job
    metrics: Columns


def archived(jobs: Sequence[Job], path: Path) -> dict[str, Played]:
    """Those of ``jobs`` whose runs are in the archive ``path``, by their names; none if there is no archive.

    An error if one of them was played with other settings, of those that it reads, or by another version.
    """
    if not path.is_file():
        return {}
    entries = _entries(path)
    return {job.name: _played(job, entries[job.name], path) for job in jobs if job.name in entries}


def add_to_archive(runs: Sequence[Played], path: Path) -> None:
    """Writes ``runs`` to the archive ``path``, with what it holds already; numbers have six digits, as in tables."""
    entries = _entries(path) if path.is_file() else {}
    entries |= {run.job.name: _entry(run) for run in runs}

    def write(opened: Any) -> None:
        with zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name, entry in sorted(entries.items()):
                archive.writestr(zipfile.ZipInfo(f"{name}.json", LONG_AGO), entry, zipfile.ZIP_DEFLATED)

    write_atomically(path, write)


def _entries(path: Path) -> dict[str, str]:
    """The texts of all runs in the archive, by name."""
    try:
        with zipfile.ZipFile(path) as archive:
            return {name.removesuffix(".json"): archive.read(name).decode() for name in archive.namelist()}
    except (zipfile.BadZipFile, zlib.error, EOFError, UnicodeDecodeError, NotImplementedError, RuntimeError) as problem:
        raise ValueError(f"{path} is not an archive of runs, or is damaged: {problem}. {_way_on(path)}") from None


def _entry(run: Played) -> str:
    """A run as text: who played it, its settings, its columns."""
    seconds = sum(column for name, column in run.metrics.items() if name.startswith("seconds/"))
    columns = {name: run.metrics[name] for name in KEPT if name in run.metrics}
    columns[SECONDS] = np.broadcast_to(np.asarray(seconds, dtype=np.float64), columns["step"].shape)
    numbers = {name: [_number(value) for value in column.tolist()] for name, column in columns.items()}
    entry = {"optimist": optimist.__version__, "config": _settings(run.job), "metrics": numbers}
    return json.dumps(entry, separators=(",", ":"))


def _settings(job: Job) -> dict[str, Any]:
    return {name: value for name, value in asdict(job.config).items() if name not in WHERE_PLAYED}


def _number(value: float) -> int | float | None:
    """A whole number as such, others to six digits; None for NaN, which JSON does not have."""
    if math.isnan(value):
        return None
    return int(value) if value.is_integer() else float(f"{value:.6g}")


def _played(job: Job, text: str, path: Path) -> Played:
    """The run of ``job`` from its entry."""
    try:
        entry = json.loads(text)
        version, config, metrics = (entry[name] for name in ("optimist", "config", "metrics"))
        columns = {str(name): np.array(values, dtype=np.float64) for name, values in metrics.items()}
        missing = {*KEPT[:5], SECONDS} - columns.keys()
        if missing or len({column.shape for column in columns.values()}) > 1 or not len(columns["step"]):
            raise ValueError("columns are missing, or differ in length")
        then, now = _flat(config), _flat(json.loads(json.dumps(_settings(job))))
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise ValueError(f"the run {job.name} in {path} is damaged: {problem}. {_way_on(path)}") from None
    if version != optimist.__version__:
        raise ValueError(
            f"the run {job.name} in {path} was played by version {version}, and this is {optimist.__version__}: "
            f"they cannot be compared. {_way_on(path)}"
        )
    usual = leaves(TrainConfig())
    names = [*then, *(name for name in now if name not in then)]
    was = {name: then.get(name, usual.get(name)) for name in names}  # a setting that came later had its default
    differing = [name for name in names if was[name] != now.get(name) and name not in unread(job.config)]
    if differing:
        changes = ", ".join(f"{name}={was[name]!r} (now {now.get(name)!r})" for name in differing)
        raise ValueError(f"the run {job.name} in {path} was played with {changes}. {_way_on(path)}")
    return Played(job, columns)


def _flat(config: Mapping[str, Any], outer: str = "") -> dict[str, Any]:
    """Settings by name as `leaves` names them, from nested objects of JSON."""
    result: dict[str, Any] = {}
    for name, value in config.items():
        result |= _flat(value, f"{outer}{name}.") if isinstance(value, dict) else {f"{outer}{name}": value}
    return result


def _way_on(path: Path) -> str:
    return f"Choose another folder with --out, or remove {path.name} to play its runs anew"
