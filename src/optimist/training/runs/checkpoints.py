"""Checkpoints of a run: one file each, complete or not there at all; the last two are kept, and the best."""

import math
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from optimist.files import partial_files, write_atomically
from optimist.training.runs import serialization as state_files
from optimist.training.runs.serialization import NotAStateFile, StateFile

KEPT = 2
COUNT = KEPT + 2
"""How many need room: the last two, the best, and a new one, which is complete before an old one goes."""
BEST = "best.safetensors"
Score = tuple[float, float]
"""The success rate, 0 where none is defined, and the mean return, which decides between equals."""
_NAME = re.compile(r"step-(\d{12,})\.safetensors")


class DamagedCheckpoint(UserWarning):
    """A checkpoint could not be read, and the one before it is taken."""


Require = Callable[[], object]
"""Raises an error if the run may no longer be written to."""


def anybody() -> None:
    """Everybody may write."""


def save(folder: Path, step: int, state: Mapping[str, Any], *, require: Require = anybody) -> Path:
    """The path of the new checkpoint; of the others only the newest before it stays, and the best.

    A kill at any moment leaves either the complete file or none. Later steps are removed too: a run that writes
    ``step`` did not continue from them, because they were damaged. ``require`` is asked before anything is removed, and
    again when the file is complete: writing it may have taken long.
    """
    path = _write(folder / f"step-{step:012d}.safetensors", state, {"step": str(step)}, require)
    earlier = [other for other in _steps(folder) if other < step]
    for other, old in _steps(folder).items():
        if other != step and other not in earlier[: KEPT - 1]:
            old.unlink(missing_ok=True)
    return path


def save_if_best(
    folder: Path, step: int, state: Mapping[str, Any], score: Score, *, require: Require = anybody
) -> None:
    """Writes ``best.safetensors`` if ``score`` is above that of the one that is there, or if that one is damaged.

    What the best was is read from the file itself. So it is no part of the state of a run, and a run that goes on from
    an earlier checkpoint keeps a best one that it has yet to come to.
    """
    if any(math.isnan(part) for part in score):
        return
    with suppress(OSError, ValueError, KeyError, SafetensorError):
        labels = state_files.read_labels(folder / BEST)
        if (float(labels["success_rate"]), float(labels["return_mean"])) >= score:
            return
    labels = {"step": str(step), "success_rate": repr(score[0]), "return_mean": repr(score[1])}
    _write(folder / BEST, state, labels, require)


def _write(path: Path, state: Mapping[str, Any], labels: Mapping[str, str], require: Require) -> Path:
    file, folder = StateFile(state, labels), path.parent
    require()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for stale in partial_files(folder, "*"):  # left by a run that was killed
            stale.unlink(missing_ok=True)
        write_atomically(path, file.write, require=require)
    except OSError as error:
        raise OSError(error.errno, _failure(path, file.size, error)) from error
    return path


def newest(folder: Path) -> tuple[int, dict[str, Any]]:
    """The step and the state of the newest intact checkpoint; warns of each damaged one that it passes over.

    Where all of the last are damaged, the best is taken.
    """
    passed = []
    for step, path in _candidates(folder):
        try:
            return _read(path, step)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            passed.append(f"{path.name}: {error}")
            warnings.warn(
                f"checkpoint {path} cannot be used: {error}. The one before it is taken",
                DamagedCheckpoint,
                stacklevel=2,
            )
    if passed:
        raise ValueError(f"no checkpoint in {folder} can be used: {'; '.join(passed)}. Start the run anew")
    raise FileNotFoundError(f"no checkpoint in {folder}: expected files like step-000000001234.safetensors")


def best(folder: Path) -> tuple[int, dict[str, Any]]:
    """The step and the state of the best checkpoint."""
    path = folder / BEST
    if not path.is_file():
        raise FileNotFoundError(f"there is no {path}: it is written at a checkpoint once 100 episodes have ended")
    return _read(path, None)


def require_entries(state: Mapping[str, Any], *names: str) -> None:
    """An error if ``state`` lacks one of ``names``, as a checkpoint of an older version does."""
    missing = [name for name in names if name not in state]
    if missing:
        raise ValueError(
            f"the checkpoint has no entry {', '.join(missing)}: another version of Optimist wrote it; train it anew"
        )


def size_in_bytes(state: Mapping[str, Any]) -> int:
    """The size of a checkpoint of ``state``."""
    return StateFile(state, {"step": "0"}).size


def require_writable(folder: Path, needed_bytes: int) -> None:
    """An error before any work if checkpoints of ``needed_bytes`` each cannot be written to ``folder``."""
    needed = COUNT * needed_bytes
    probe = folder / "step-probe"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"0")
        probe.unlink()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot write to {folder}: {error.strerror}. Choose an output folder that can be written to",
        ) from error
    if free < needed:
        raise OSError(
            f"{folder} needs {needed} bytes for {COUNT} checkpoints of {needed_bytes}, and {free} are free. "
            "Free some space or choose a folder on another disk"
        )


def _read(path: Path, step: int | None) -> tuple[int, dict[str, Any]]:
    """The step and the state in a file, which must be of ``step`` if that is given."""
    labels, state = state_files.read(path)
    if step is not None and labels.get("step") != str(step):
        raise NotAStateFile(f"it is of step {labels.get('step')}, not of the step in its name")
    return int(labels["step"]), state


def _candidates(folder: Path) -> list[tuple[int | None, Path]]:
    """What a run may go on from, the newest first, and the best last."""
    return [*_steps(folder).items(), *[(None, path) for path in folder.glob(BEST)]]


def _steps(folder: Path) -> dict[int, Path]:
    """The checkpoints by step, the newest first."""
    found = {int(match[1]): path for path in folder.glob("*") if (match := _NAME.fullmatch(path.name))}
    return dict(sorted(found.items(), reverse=True))


def _failure(path: Path, needed: int, error: OSError) -> str:
    before = next(iter(_steps(path.parent)), None)
    kept = "There is no checkpoint yet" if before is None else f"The run can be resumed from step {before}"
    try:
        free = f"{shutil.disk_usage(path.parent).free} are free"
    except OSError:
        free = "the free space is unknown"
    return (
        f"checkpoint {path} was not written: {error.strerror or error}. It needs {needed} bytes, and {free}. "
        f"{kept}; free some space or make the folder writable first"
    )
