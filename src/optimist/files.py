"""The one atomic write: a file is complete or not there at all, and only regular files are ever replaced."""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

PARTIAL = ".partial"


def write_atomically(path: str | Path, write: Callable[[BinaryIO], object]) -> None:
    """Writes ``path`` by ``write(opened file)``: into a neighbor first, which takes the name when it is on the disk.

    A kill at any moment leaves the old file or the new one. What is there and is no regular file (a device, a folder,
    a pipe) is refused and untouched; a symbolic link stays one, and the file that it names is replaced.
    """
    target = require_replaceable(path)
    neighbor = target.with_name(f".{target.name}.{os.getpid()}{PARTIAL}")
    try:
        with neighbor.open("wb") as opened:
            write(opened)
            opened.flush()
            os.fsync(opened.fileno())
        if target.exists():
            neighbor.chmod(stat.S_IMODE(target.stat().st_mode))
        neighbor.replace(target)
        _sync_folder(target.parent)
    finally:
        neighbor.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes ``text`` to ``path`` atomically, in UTF-8."""
    write_atomically(path, lambda opened: opened.write(text.encode()))


def partial_files(folder: Path, pattern: str) -> list[Path]:
    """What writers of files called ``pattern`` left in ``folder`` when they were killed."""
    return list(folder.glob(f".{pattern}{PARTIAL}"))


def require_replaceable(path: str | Path) -> Path:
    """The place that ``path`` names, symbolic links followed; an error unless a file there may be made or replaced."""
    try:
        target = Path(path).resolve()
    except RuntimeError:  # Python before 3.13
        raise FileExistsError(f"{path} is a symbolic link that leads to itself: give another name") from None
    if target.is_symlink():
        raise FileExistsError(f"{path} is a symbolic link that leads to itself: give another name")
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{path} is no regular file, and only those are replaced: give another name")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{path} may not be written to: give another name, or change its permissions")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}: make it first, or give another name")
    return target


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself survive a power failure."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)
