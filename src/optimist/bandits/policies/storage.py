"""Policies on disk: one ``.npz`` of plain arrays and a JSON header. Reading executes no code: pickle is refused."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from optimist.bandits.arrays import Arrays

FORMAT = "optimist-bandit-1"
_HEADER = "header"


def write(path: Path, kind: str, parameters: dict[str, Any], arrays: Arrays) -> None:
    """Writes the file whole or not at all: into a neighbour first, which then takes the name."""
    header = json.dumps({"format": FORMAT, "policy": kind, "parameters": parameters})
    neighbour = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with neighbour.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays, **{_HEADER: np.array(header)})
            file.flush()
            os.fsync(file.fileno())
        neighbour.replace(path)
    finally:
        neighbour.unlink(missing_ok=True)


def read(path: Path) -> tuple[str, dict[str, Any], Arrays]:
    """The name of the policy, its parameters and its arrays."""
    if not path.is_file():
        raise FileNotFoundError(f"no saved policy at {path}")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as content:
            arrays = {name: content[name] for name in content.files}
        header = json.loads(str(arrays.pop(_HEADER)))
        if header["format"] != FORMAT:
            raise ValueError(f"format {header['format']!r}")
        return header["policy"], header["parameters"], arrays
    except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile) as problem:
        raise ValueError(
            f"{path} is not a policy saved by this version of Optimist ({FORMAT}), or it was cut short: {problem}"
        ) from problem


def require_same_layout(own: Arrays, given: Arrays) -> None:
    """Raises where the given arrays are not those of ``own`` in name, shape and type."""
    layout = {name: (array.shape, array.dtype) for name, array in own.items()}
    found = {name: (array.shape, array.dtype) for name, array in given.items()}
    if layout != found:
        wrong = sorted(name for name in layout.keys() | found.keys() if layout.get(name) != found.get(name))
        raise ValueError(f"the saved state does not fit this policy: {', '.join(wrong)} differ in shape or type")
