"""Returns and lengths of a run's episodes: of the last that ended, and of those that outlast them."""

import math
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from optimist.checks import require_count
from optimist.ranks import Ranks
from optimist.training.runs.checkpoints import require_entries

NEVER = math.nan


class Episodes:
    """Returns and lengths of the episodes of ``n_envs`` environments, over the last ``window`` that ended.

    Short episodes end first. Where few have ended, or where environments are restarted before long ones can end, those
    that ended are the survivors: their mean would be of the quick successes alone. So an unfinished episode, running or
    cut by a restart, counts as soon as it is as long as the longest of the window: with its return and length so far,
    and not as a success. One that is shorter says nothing yet, and does not count. And the window has room for an
    episode of every environment, even if these are more than ``window``.

    All statistics are NaN while no episode has ended, the success rate also if no ``success_return`` is defined: an
    episode whose return is above it is a success.
    """

    def __init__(self, n_envs: int, *, window: int = 100, success_return: float | None = None):
        require_count("n_envs", n_envs)
        require_count("window", window)
        self.finished = 0
        self.cut_off = 0
        self._success_return = success_return
        self._running = np.zeros((2, n_envs))  # return and length of the episodes in flight
        self._size = max(window, n_envs)
        self._ended: deque[tuple[float, float]] = deque(maxlen=self._size)
        self._cut: deque[tuple[float, float, float]] = deque()  # return, length, and how many had ended before it

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
            while self._cut and self._cut[0][2] <= self.finished - self._size:
                self._cut.popleft()  # as old as what has left the window

    def cut(self) -> None:
        """The environments were restarted: the episodes in flight are counted as cut, and will never end."""
        begun = self._running[:, self._running[1] > 0]
        self.cut_off += begun.shape[1]
        self._cut.extend((*episode, self.finished) for episode in begun.T.tolist())
        self._running[:] = 0

    @property
    def returns(self) -> list[float]:
        """The returns of the window, the latest last."""
        return [one for one, _ in self._ended]

    @property
    def success_rate(self) -> float:
        """The share of successes among all that count."""
        return self.summary()["success_rate"]

    def summary(self) -> dict[str, float]:
        """The numbers of episodes so far and the statistics of those that count, by their column in ``metrics.csv``."""
        returns, lengths = ended = self._window()
        outlasting = np.zeros((2, 0))
        if self._ended:
            cut = np.array(self._cut, np.float64).reshape(-1, 3).T[:2]
            unfinished = np.concatenate([self._running, cut], axis=1)
            outlasting = unfinished[:, unfinished[1] >= lengths.max()]
            returns, lengths = np.concatenate([ended, outlasting], axis=1)
        known = self._success_return is not None and len(returns) > 0
        return {
            "episodes": float(self.finished),
            "episodes_cut": float(self.cut_off),
            "episodes_unfinished": float(outlasting.shape[1]),
            "return_mean": float(returns.mean()) if len(returns) else NEVER,
            "return_max": float(returns.max()) if len(returns) else NEVER,
            "length_mean": float(lengths.mean()) if len(returns) else NEVER,
            "success_rate": float((ended[0] > self._success_return).sum() / len(returns)) if known else NEVER,
        }

    def state_dict(self) -> dict[str, Any]:
        """Everything: episodes in flight, the window, those that were cut."""
        return {
            "finished": self.finished,
            "cut_off": self.cut_off,
            "running": self._running.copy(),
            "window": self._window(),
            "cut": np.array(self._cut, np.float64).reshape(-1, 3),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        require_entries(state, *self.state_dict())
        running = np.array(state["running"])
        if running.shape != self._running.shape:
            raise ValueError(
                f"the state is of {running.shape[-1]} environments, these are {self._running.shape[1]}: "
                "a run goes on with as many as it began with"
            )
        self.finished, self.cut_off, self._running = int(state["finished"]), int(state["cut_off"]), running
        self._ended.clear()
        self._ended.extend(zip(*state["window"].tolist(), strict=True))
        self._cut = deque(map(tuple, state["cut"].tolist()))

    def add_rollout(self, steps: "Steps", ranks: Ranks) -> None:
        """Add the steps of the environments of all ``ranks``, in the order of time."""
        rewards, ended, valid = (ranks.gather(torch.from_numpy(np.stack(part)), 1).numpy() for part in steps.columns())
        for reward, over, real in zip(rewards, ended, valid, strict=True):
            self.add(reward, over, None if real.all() else real)

    def _window(self) -> np.ndarray:
        """The returns and lengths of the window, the oldest first. Shape: (2, episodes)."""
        return np.array(self._ended, np.float64).reshape(-1, 2).T.copy()


class Steps:
    """The steps of a rollout, kept for `Episodes.add_rollout`: what every environment was paid and whether it ended."""

    def __init__(self) -> None:
        self._steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def add(self, rewards: np.ndarray, ended: np.ndarray, valid: np.ndarray | None) -> None:
        """Keep a step. Shapes: (n,) each."""
        real = np.ones(len(ended), bool) if valid is None else valid.copy()
        self._steps.append((rewards.copy(), ended.copy(), real))

    def columns(self) -> Iterator[tuple[np.ndarray, ...]]:
        """The rewards, the ends and the valid steps, each of all times."""
        return zip(*self._steps, strict=True)
