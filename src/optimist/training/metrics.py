"""What a run measures: a row a rollout in ``metrics.csv`` and TensorBoard, its episodes, and where its time goes."""

import math
import os
import time
import warnings
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

import numpy as np

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FILE, EVENTS = "metrics.csv", "tensorboard"
NEVER = math.nan


class MetricsLog:
    """Rows of numbers, appended to ``metrics.csv`` and to TensorBoard; the first row fixes the columns.

    Nothing is opened before the first row.
    """

    def __init__(self, folder: Path, *, state: Mapping[str, Any] | None = None):
        if state is None and (folder / FILE).exists():
            raise FileExistsError(f"{folder / FILE} is there already: resume its run, or choose another folder")
        self._folder = folder
        self._resumed = state is not None
        self._columns: list[str] = [] if state is None else list(state["columns"])
        self._step = -1 if state is None else int(state["step"])
        self._file: BinaryIO | None = None
        self._events: SummaryWriter | None = None

    @classmethod
    def resume(cls, folder: Path, state: Mapping[str, Any]) -> Self:
        """The log as it was when ``state`` was taken; the rows after it are dropped, for its run writes them again."""
        _cut_back(folder / FILE, int(state["bytes"]))
        return cls(folder, state=state)

    def write(self, step: int, row: Mapping[str, float | None]) -> None:
        """Append the row of ``step``; columns that it lacks stay empty."""
        file = self._file or self._open(row)
        if unknown := [name for name in row if name not in self._columns]:
            raise ValueError(f"unknown columns {unknown}: the first row fixed {self._columns}")
        values = [row.get(name) for name in self._columns]
        file.write(_line([str(step), *("" if value is None else repr(float(value)) for value in values)]))
        self._step = step
        if self._events is not None:
            for name, value in zip(self._columns, values, strict=True):
                if value is not None and not math.isnan(value):
                    self._events.add_scalar(name if "/" in name else f"train/{name}", value, step)

    def state_dict(self) -> dict[str, Any]:
        """The columns, the last step, and the length of ``metrics.csv``, which is on the disk when this returns."""
        length = 0
        if self._file is not None:
            os.fsync(self._file.fileno())
            length = os.fstat(self._file.fileno()).st_size
        elif self._resumed and (self._folder / FILE).exists():
            length = (self._folder / FILE).stat().st_size
        if self._events is not None:
            self._events.flush()
        return {"bytes": length, "columns": list(self._columns), "step": self._step}

    def close(self) -> None:
        """Close both files; a later ``write`` is an error."""
        if self._file is not None:
            self._file.close()
        if self._events is not None:
            self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self, first: Mapping[str, float | None]) -> BinaryIO:
        from torch.utils.tensorboard import SummaryWriter  # takes seconds: only runs that write pay for it

        columns = self._columns or list(first)
        if odd := [name for name in columns if name == "step" or any(mark in name for mark in ',"\r\n')]:
            raise ValueError(f"columns must not be called 'step' nor contain commas, quotes or line ends, got {odd}")
        self._folder.mkdir(parents=True, exist_ok=True)
        file = (self._folder / FILE).open("ab", buffering=0)  # a row is one write
        if file.tell() == 0:
            file.write(_line(["step", *columns]))
        purge = self._step + 1 if self._resumed else None
        self._events = SummaryWriter(str(self._folder / EVENTS), purge_step=purge)
        self._columns, self._file = columns, file
        return file


class Episodes:
    """Returns and lengths of the episodes of ``count`` environments, over the last ``window`` that ended.

    The mean, maximum and success rate are NaN while there is no episode, the latter also if no ``success_return`` is
    defined: an episode whose return is above it is a success. ``interval`` has the same since ``reset_interval``.
    """

    def __init__(self, count: int, *, window: int = 100, success_return: float | None = None):
        if count < 1 or window < 1:
            raise ValueError(f"count and window must be at least 1, got {count} and {window}")
        self.finished = 0
        self._success_return = success_return
        self._running = np.zeros((2, count))  # return and length of the episodes in flight
        self._ended: deque[tuple[float, float]] = deque(maxlen=window)
        self.reset_interval()

    def add(self, rewards: np.ndarray, ended: np.ndarray, valid: np.ndarray | None) -> None:
        """Add a step of every environment; where it was not valid, nothing happened. Shapes: (n,) each."""
        if valid is None:
            self._running[0] += rewards
            self._running[1] += 1
        else:
            ended = ended & valid
            self._running[0, valid] += rewards[valid]
            self._running[1] += valid
        if ended.any():
            episodes = self._running[:, ended]
            self._running[:, ended] = 0
            self.finished += episodes.shape[1]
            self._ended.extend(zip(*episodes.tolist(), strict=True))
            self._sums += [*episodes.sum(1), episodes.shape[1], self._successes(episodes[0])]
            self._highest = max(self._highest, float(episodes[0].max()))

    def abandon(self) -> None:
        """Forget the episodes in flight: their environments were restarted."""
        self._running[:] = 0

    @property
    def returns_mean(self) -> float:
        """The mean return of the window."""
        return float(np.mean(self._window()[0])) if self._ended else NEVER

    @property
    def returns_max(self) -> float:
        """The highest return of the window."""
        return float(np.max(self._window()[0])) if self._ended else NEVER

    @property
    def lengths_mean(self) -> float:
        """The mean length of the window, in steps."""
        return float(np.mean(self._window()[1])) if self._ended else NEVER

    @property
    def success_rate(self) -> float:
        """The share of successes in the window."""
        return self._successes(self._window()[0]) / len(self._ended) if self._ended else NEVER

    def summary(self) -> dict[str, float]:
        """The number of episodes so far and the statistics of the window, by their column in ``metrics.csv``."""
        return {
            "episodes": float(self.finished),
            "return_mean": self.returns_mean,
            "return_max": self.returns_max,
            "length_mean": self.lengths_mean,
            "success_rate": self.success_rate,
        }

    def interval(self) -> dict[str, float]:
        """The same statistics of all episodes that ended since ``reset_interval``."""
        returns, lengths, episodes, successes = (float(total) for total in self._sums)
        return {
            "episodes": episodes,
            "return_mean": returns / episodes if episodes else NEVER,
            "return_max": self._highest if episodes else NEVER,
            "length_mean": lengths / episodes if episodes else NEVER,
            "success_rate": successes / episodes if episodes else NEVER,
        }

    def reset_interval(self) -> None:
        """Begin a new interval, as a rollout does."""
        self._sums = np.zeros(4)  # returns, lengths, episodes, successes
        self._highest = -math.inf

    def state_dict(self) -> dict[str, Any]:
        """Everything: episodes in flight, the window, the interval."""
        return {
            "finished": self.finished,
            "running": self._running.copy(),
            "window": self._window(),
            "sums": self._sums.copy(),
            "highest": self._highest,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        running = np.array(state["running"])
        if running.shape != self._running.shape:
            raise ValueError(
                f"the state is of {running.shape[-1]} environments, these are {self._running.shape[1]}: "
                "a run goes on with as many as it began with"
            )
        self.finished, self._running = int(state["finished"]), running
        self._ended.clear()
        self._ended.extend(zip(*state["window"].tolist(), strict=True))
        self._sums, self._highest = np.array(state["sums"]), float(state["highest"])

    def _window(self) -> np.ndarray:
        """The returns and lengths of the window, the oldest first. Shape: (2, episodes)."""
        return np.array(self._ended, np.float64).reshape(-1, 2).T.copy()

    def _successes(self, returns: np.ndarray) -> float:
        return NEVER if self._success_return is None else float((returns > self._success_return).sum())


class Stopwatch:
    """Seconds by name: ``with watch.time("environment"): ...``. A name within itself would count twice."""

    def __init__(self):
        self._laps: dict[str, _Laps] = {}

    def time(self, name: str) -> "_Laps":
        """A context whose seconds are added to those of ``name``."""
        laps = self._laps.get(name)
        if laps is None:
            laps = self._laps[name] = _Laps()
        return laps

    def read_and_clear(self) -> dict[str, float]:
        """The seconds of every name ever timed, since the last reading."""
        read = {name: laps.seconds for name, laps in self._laps.items()}
        for laps in self._laps.values():
            laps.seconds = 0.0
        return read


class _Laps:
    __slots__ = ("_start", "seconds")

    def __init__(self):
        self.seconds = 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._start


def _cut_back(path: Path, length: int) -> None:
    """Shorten the file to ``length`` bytes, and to whole lines if it is shorter already."""
    if not path.exists():
        if length > 0:
            warnings.warn(f"{path} is gone: the run goes on with a new one, without its earlier rows", stacklevel=3)
        return
    with path.open("r+b") as file:
        held = file.read(length)
        whole = held.rfind(b"\n") + 1
        file.truncate(whole)
        os.fsync(file.fileno())
    if whole < length:
        warnings.warn(
            f"{path} has {whole} bytes of whole rows, the checkpoint knew {length}: rows are missing", stacklevel=3
        )


def _line(cells: list[str]) -> bytes:
    return (",".join(cells) + "\n").encode()
