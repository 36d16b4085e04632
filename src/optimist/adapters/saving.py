"""One state in one file: written whole or not at all, read without executing anything."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from optimist.training import state_files
from optimist.training.state_files import NotAStateFile, StateFile


def write_state(path: Path, state: Mapping[str, Any], *, kind: str) -> None:
    """Write ``state`` to ``path`` beside what is there, and only then in its place."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    file = StateFile(state, {"kind": kind})
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as opened:
            file.write(opened)
            opened.flush()
            os.fsync(opened.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(
            error.errno, f"{path} was not written: {error.strerror}. It needs {file.size} bytes in a folder of yours"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def read_state(path: Path, *, kind: str) -> dict[str, Any]:
    """The state in the file at ``path``, or an error unless it is one of this ``kind``."""
    try:
        labels, state = state_files.read(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no file {path}: save writes one") from error
    except (ValueError, KeyError, SafetensorError) as error:
        raise NotAStateFile(f"{path} cannot be used: {error}") from error
    if labels.get("kind") != kind:
        raise NotAStateFile(f"{path} must hold the state of an {kind}, got {labels.get('kind')!r}")
    return state
