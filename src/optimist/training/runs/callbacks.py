"""What a run tells those who watch it, and how they stop it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optimist.training.config import TrainConfig
from optimist.training.runs.metrics_log import FILE, Columns, read_metrics

if TYPE_CHECKING:
    from optimist.training.ppo import Trainer


class Moment:
    """A run after a rollout, whose row is in ``metrics.csv`` already: what a callback is given.

    ``trainer`` is there to be read: what a callback changes in it, a resumed run does not know of.
    """

    def __init__(self, trainer: "Trainer", folder: Path, metrics: Mapping[str, float]):
        self.trainer = trainer
        self.folder = folder
        self.metrics = metrics
        self.reason = ""

    @property
    def step(self) -> int:
        """Steps done."""
        return self.trainer.step

    @property
    def total_steps(self) -> int:
        """Steps in all."""
        return self.trainer.config.total_steps

    def stop(self, reason: str = "a callback asked for it") -> None:
        """Let the run stop here, with a checkpoint: nothing is lost, and it can be resumed."""
        self.reason = self.reason or reason or "a callback asked for it"


Callback = Callable[[Moment], object]
"""Called after every rollout. Where it raises, a checkpoint is written before the error passes on."""


@dataclass(frozen=True)
class Outcome:
    """How a call of `train` or `resume` ended."""

    folder: Path
    config: TrainConfig
    step: int
    """Steps done."""
    reason: str = ""
    """Why a callback stopped it; empty if the run is at its end."""

    @property
    def is_finished(self) -> bool:
        """Whether the run is at its end: all steps are done, or its task is solved."""
        return not self.reason

    @property
    def metrics(self) -> Columns:
        """The columns of its ``metrics.csv``, by name."""
        return read_metrics(self.folder / FILE)
