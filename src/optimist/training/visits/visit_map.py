"""Where a run has been: visits and bonuses over the map of a grid, part by part of the run."""

from collections.abc import Mapping
from typing import Any

import numpy as np

PARTS = 12
"""Parts of a run that are kept apart."""


class VisitMap:
    """Visits and sums of bonuses of every place of a map, of each ``period`` steps apart. The map grows as needed.

    Empty for environments that do not tell where they are (`Step.places` is None).
    """

    def __init__(self, period: int):
        if period < 1:
            raise ValueError(f"period must be at least one step, got {period}")
        self.period = period
        self._visits = np.zeros((0, 0, 0), np.int64)
        self._bonuses = np.zeros((0, 0, 0))

    def __bool__(self) -> bool:
        return self._visits.size > 0

    @property
    def places(self) -> int:
        """How many different places were reached."""
        return int(self._visits.any(0).sum())

    @property
    def visits(self) -> np.ndarray:
        """How often each place was reached, (parts, rows, columns)."""
        return self._visits.copy()

    @property
    def mean_bonuses(self) -> np.ndarray:
        """The mean bonus of reaching each place, (parts, rows, columns); NaN where it was not reached."""
        return np.divide(self._bonuses, self._visits, out=np.full(self._visits.shape, np.nan), where=self._visits > 0)

    def add(self, step: int, places: np.ndarray, bonuses: np.ndarray) -> None:
        """Count what was reached in the rollout that began at ``step``; negative places are off the map.

        Shapes: places (n, 2), row and column; bonuses (n,).
        """
        on_map = (places >= 0).all(1)
        places, bonuses = places[on_map], bonuses[on_map]
        if not len(places):
            return
        part = step // self.period
        self._grow((part + 1, *(places.max(0) + 1)))
        np.add.at(self._visits[part], tuple(places.T), 1)
        np.add.at(self._bonuses[part], tuple(places.T), bonuses)

    def state_dict(self) -> dict[str, Any]:
        """The period and both maps."""
        return {"period": self.period, "visits": self._visits.copy(), "bonuses": self._bonuses.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where ``state`` was taken."""
        visits, bonuses = np.asarray(state["visits"]), np.asarray(state["bonuses"])
        if visits.ndim != 3 or visits.shape != bonuses.shape or visits.dtype.kind != "i" or bonuses.dtype.kind != "f":
            raise ValueError(
                f"visits and bonuses must be two maps (parts, rows, columns), got {visits.shape}, {bonuses.shape}"
            )
        self.period, self._visits, self._bonuses = int(state["period"]), visits.copy(), bonuses.copy()

    def _grow(self, least: tuple[int, ...]) -> None:
        wider = [(0, max(0, need - has)) for need, has in zip(least, self._visits.shape, strict=True)]
        if any(more for _, more in wider):
            self._visits, self._bonuses = np.pad(self._visits, wider), np.pad(self._bonuses, wider)
