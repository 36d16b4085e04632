"""Returns and lengths of a run's episodes, over the last that ended and over a rollout."""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

from optimist.checks import require_count

NEVER = math.nan


class Episodes:
    """Returns and lengths of the episodes of ``n_envs`` environments, over the last ``window`` that ended.

    The mean, maximum and success rate are NaN while there is no episode, the latter also if no ``success_return`` is
    defined: an episode whose return is above it is a success. ``interval`` has the same since ``reset_interval``.
    """

    def __init__(self, n_envs: int, *, window: int = 100, success_return: float | None = None):
        require_count("n_envs", n_envs)
        require_count("window", window)
        self.finished = 0
        self._success_return = success_return
        self._running = np.zeros((2, n_envs))  # return and length of the episodes in flight
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
    def returns(self) -> list[float]:
        """The returns of the window, the latest last."""
        return [one for one, _ in self._ended]

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
