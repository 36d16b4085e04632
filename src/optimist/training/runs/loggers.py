"""Where the rows of ``metrics.csv`` are written besides: TensorBoard, Weights & Biases."""

import math
import os
import uuid
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from optimist.files import write_text
from optimist.training.config import LoggerName

EVENTS = "tensorboard"
ID = "wandb-id.txt"
"""The file in a run's folder by which W&B knows a resumed run as the same one."""


class Logger(Protocol):
    """A place where numbers are written by step."""

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """Write the numbers of ``step``, by the name under which they are shown."""
        ...

    def flush(self) -> None:
        """Bring what was written to the disk."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class TensorBoard:
    """Events in ``folder/tensorboard``; what was written after ``resumed_at`` is hidden, its run writes it again."""

    def __init__(self, folder: Path, config: Mapping[str, Any], resumed_at: int | None):
        from torch.utils.tensorboard import SummaryWriter  # takes seconds: only runs that write pay for it

        purge = None if resumed_at is None else resumed_at + 1
        self._writer = SummaryWriter(str(folder / EVENTS), purge_step=purge)

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """One scalar per number."""
        for name, value in row.items():
            self._writer.add_scalar(name, value, step)

    def flush(self) -> None:
        """Bring events to the disk."""
        self._writer.flush()

    def close(self) -> None:
        """Close the file of events."""
        self._writer.close()


class WandB:
    """A run of Weights & Biases, whose files are in ``folder/wandb``.

    Project, entity and mode are W&B's own: ``WANDB_PROJECT`` (optimist if it is not set), ``WANDB_MODE=offline``. A
    resumed run goes on as the same one; rows that it writes again are passed over there, and are the same.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], resumed_at: int | None):
        import wandb

        if not (folder / ID).is_file():
            write_text(folder / ID, uuid.uuid4().hex)
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "optimist"),
            id=(folder / ID).read_text().strip(),
            name=folder.resolve().name,
            dir=str(folder),
            config=dict(config),
            resume="allow",
            settings=wandb.Settings(silent=True, console="off", disable_git=True, disable_code=True),
        )

    def write(self, step: int, row: Mapping[str, float]) -> None:
        """One row."""
        self._run.log(dict(row), step=step)

    def flush(self) -> None:
        """W&B's own process writes as rows come."""

    def close(self) -> None:
        """Let W&B finish."""
        self._run.finish()


LOGGERS: dict[LoggerName, Callable[[Path, Mapping[str, Any], int | None], Logger]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
}
PACKAGES: dict[LoggerName, tuple[str, str]] = {"tensorboard": ("tensorboard", "rl"), "wandb": ("wandb", "wandb")}
"""The package that a logger needs, and our extra that installs it."""


def require_loggers(names: tuple[LoggerName, ...]) -> None:
    """An error before any work if a logger's package is missing."""
    for name in names:
        package, extra = PACKAGES[name]
        if find_spec(package) is None:
            raise ModuleNotFoundError(
                f"the logger {name} needs the package {package}: install it with  pip install 'optimist[{extra}]'",
                name=package,
            )


def shown(row: Mapping[str, float | None]) -> dict[str, float]:
    """The numbers of a row that loggers are given, by name: no empty cells, no NaN."""
    return {
        name if "/" in name else f"train/{name}": value
        for name, value in row.items()
        if value is not None and not math.isnan(value)
    }
