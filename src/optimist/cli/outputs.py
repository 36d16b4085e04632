"""Where a command writes: checked before any work starts, and gone again if nothing came of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from optimist.files import removed_if_empty
from optimist.reporting.tables import require_unused


def require_folder(path: Path) -> Path:
    """``path`` itself if it is a folder that may be written to, or if such a folder can be made. Nothing is made."""
    if os.path.lexists(path) and not path.is_dir():
        kind = "is a file" if path.is_file() else "is no folder"
        raise FileExistsError(f"the output folder {path} {kind}: choose another with --out")
    parent = path
    while not os.path.lexists(parent):
        parent = parent.parent
    if not parent.is_dir():
        raise NotADirectoryError(f"the output folder {path} cannot be made, for {parent} is no folder: choose another")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise PermissionError(f"{parent} may not be written to: choose another folder with --out")
    return path


def require_new_folder(path: Path, what_to_do: str) -> Path:
    """``path`` itself if it is a folder without content, or if one can be made. Nothing is made."""
    require_folder(path)
    require_unused(path, what_to_do)
    return path


@contextmanager
def output_folder(path: Path, *, may_overwrite: bool) -> Iterator[Path]:
    """The folder of the results, made now. If the command fails, folders that it made go again where they are empty."""
    if may_overwrite:
        require_folder(path)
    else:
        require_new_folder(path, "choose another with --out, or add --overwrite")
    with removed_if_empty(path):
        path.mkdir(parents=True, exist_ok=True)
        yield path
