"""One state in one file: written whole or not at all, read without executing anything."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from optimist.files import write_atomically
from optimist.training.runs import serialization
from optimist.training.runs.serialization import NotAStateFile, StateFile


def write_state(path: Path, state: Mapping[str, Any], *, kind: str) -> None:
    """Write ``state`` to ``path``, in a folder that is made if it is not there."""
    file = StateFile(state, {"kind": kind})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, file.write)
    except OSError as error:
        if error.errno is None:  # refused before anything was written, with a message that says why
            raise
        raise OSError(
            error.errno, f"{path} was not written: {error.strerror}. It needs {file.size} bytes in a folder of yours"
        ) from error


def read_state(path: Path, *, kind: str) -> dict[str, Any]:
    """The state in the file at ``path``, or an error unless it is one of this ``kind``."""
    try:
        labels, state = serialization.read(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no file {path}: save writes one") from error
    except (ValueError, KeyError, SafetensorError) as error:
        raise NotAStateFile(f"{path} cannot be used: {error}") from error
    if labels.get("kind") != kind:
        raise NotAStateFile(f"{path} must hold the state of one {kind}, got {labels.get('kind')!r}")
    return state
