"""``config.json``: the configuration of a run, as a file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import optimist
from optimist.files import write_text
from optimist.training.config import Balance, Signal, TrainConfig

CONFIG = "config.json"
PARTS: Mapping[str, type] = {"extrinsic": Signal, "intrinsic": Signal, "balance": Balance}
"""The nested configurations, by their field."""
FORMER_FIELDS = {"environments", "intrinsic_memory", *(f"{signal}_{field.name}" for signal in ("extrinsic", "intrinsic")
                                                     for field in fields(Signal))}  # fmt: skip
"""What only configurations of Optimist 0.1.0 have."""


def write_config(folder: Path, config: TrainConfig) -> None:
    """Writes ``config.json``, as a whole or not at all."""
    stored = {"optimist": optimist.__version__, **asdict(config)}
    write_text(folder / CONFIG, json.dumps(stored, indent=2) + "\n")


def read_config(folder: Path) -> TrainConfig:
    """The configuration of the run in ``folder``."""
    path = folder / CONFIG
    if not path.is_file():
        raise FileNotFoundError(f"there is no run in {folder}: config.json is missing")
    try:
        stored: Any = json.loads(path.read_text())
        if not isinstance(stored, dict):
            raise ValueError("it must be a JSON object, one entry per setting")
    except ValueError as problem:
        raise ValueError(f"{path} is not the configuration of a run: {problem}") from None
    version = stored.pop("optimist", "of an unknown version")
    if former := sorted(FORMER_FIELDS & stored.keys()):
        raise ValueError(
            f"{path} was written by an older version, Optimist {version}, whose settings {', '.join(former)} have "
            "other names now: train the run anew, or read it with the version of Optimist that wrote it"
        )
    try:
        return config_of(stored)
    except (ValueError, TypeError) as problem:
        raise ValueError(f"{path} is not the configuration of a run: {problem}") from None


def config_of(stored: Mapping[str, Any]) -> TrainConfig:
    """The configuration that JSON has kept: lists are tuples, objects are `PARTS`; all entries, and no others."""
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in stored.items()}
    parts = {name: kind(**_exactly(kind, values[name])) for name, kind in PARTS.items() if name in values}
    return TrainConfig(**_exactly(TrainConfig, values | parts))


def _exactly(kind: type, values: Any) -> dict[str, Any]:
    """``values`` itself, or an error unless its entries are the fields of ``kind``."""
    if not isinstance(values, dict):
        raise ValueError(f"expected an object with the entries of {kind.__name__}, got {values!r}")
    names = {field.name for field in fields(kind)}
    if values.keys() != names:
        missing, unknown = (", ".join(sorted(some)) for some in (names - values.keys(), values.keys() - names))
        raise ValueError(f"missing entries: {missing or 'none'}; unknown entries: {unknown or 'none'}")
    return values
