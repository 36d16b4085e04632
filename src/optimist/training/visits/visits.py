"""Everything that a run counts about where it has been: states, stacks of frames, coarse cells, and the map."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from optimist.bonuses.observations import (
    Discrete,
    Image,
    Observations,
    ObservationShape,
    flatten_time,
    named,
    parts_of,
    unnamed,
)
from optimist.bonuses.transitions import Transitions
from optimist.ranks import ALONE, Ranks
from optimist.training.runs.checkpoints import require_entries
from optimist.training.visits.unique_states import UniqueStates, fingerprints
from optimist.training.visits.visit_map import PARTS, VisitMap

CHUNK = 512
"""Frames that are made coarse at a time."""
CELLS, GRAYS = 12, 8
"""A coarse picture: so many cells a side, each the mean of its pixels in so many shades. After Go-Explore (Ecoffet et
al. 2019), whose 11 x 8 cells do not divide 84 pixels."""


class Visits:
    """The states that were acted on, counted whole (``stacks``) and by their newest frame (``states``); the ``map``.

    Where observations are images, ``cells`` counts the newest frames that differ when seen coarsely: two games hardly
    ever show the same 84 x 84 pixels, so every learner's exact count is nearly its number of steps.

    Paper: section 4, unique states by a hash.
    """

    def __init__(
        self, shape: ObservationShape, *, limit_bytes: int, total_steps: int, frames: int = 1, ranks: Ranks = ALONE
    ):
        self._shape, self._frames, self._ranks = shape, frames, ranks
        self.states = UniqueStates(limit_bytes // 2)
        self.stacks = UniqueStates(limit_bytes // 2)
        self.cells = UniqueStates(limit_bytes // 2) if is_image(shape) else None
        self.map = VisitMap(-(-total_steps // PARTS))

    def add(self, step: int, transitions: Transitions, places: np.ndarray | None, bonuses: Tensor) -> None:
        """Count a rollout that began at ``step``. Shapes: places (T, N, 2) or None, bonuses (T, N).

        Of several ranks the first counts what all of them have seen.
        """
        seen, newest = self._seen(transitions.observations)
        counted = [_side_by_side(seen), _side_by_side(newest), *([] if self.cells is None else [coarse(newest)])]
        prints = np.stack([fingerprints(rows) for rows in counted], 1).view(np.int64)
        told: list[Tensor | None] = [torch.from_numpy(prints).unflatten(0, transitions.ended.shape), transitions.valid]
        told += [None if places is None else torch.from_numpy(np.ascontiguousarray(places)), bonuses]
        if not self._ranks.alone:
            told[1] = torch.ones_like(transitions.terminated) if transitions.valid is None else transitions.valid
            told = [None if part is None else self._ranks.gather(part, 1) for part in told]
        if self._ranks.is_first:
            self._count(step, *told)  # pyrefly: ignore

    @property
    def is_exact(self) -> bool:
        """Whether it is known which states were seen, and not only how many."""
        return (self.states if self.cells is None else self.cells).exact

    def familiar(self, observations: Observations) -> np.ndarray:
        """Whether each observation was acted on before, by its newest frame, images seen coarsely.

        Shapes: (T, N, ...) -> (T, N).
        """
        _, newest = self._seen(observations)
        is_known = (
            self.states.holds(fingerprints(_side_by_side(newest)))
            if self.cells is None
            else self.cells.holds(fingerprints(coarse(newest)))
        )
        return is_known.reshape(next(iter(named(observations).values())).shape[:2])

    def _seen(self, observations: Observations) -> tuple[Any, Any]:
        """Observations (T, N, ...) as arrays (T N, ...), whole and by their newest frames."""
        rows = named(flatten_time(observations))
        seen: Any = unnamed({k: part.numpy() for k, part in rows.items()}, like=self._shape)  # pyrefly: ignore
        return seen, newest_frames(self._shape, seen, self._frames)

    def _count(self, step: int, prints: Tensor, real: Tensor | None, places: Tensor | None, bonuses: Tensor) -> None:
        """Count what is given: the prints of stacks, states and, of images, cells, (T, N, 2 or 3)."""
        valid = slice(None) if real is None else real.flatten()
        counters = [self.stacks, self.states, *([] if self.cells is None else [self.cells])]
        rows = prints.flatten(0, 1)[valid].T.contiguous().numpy().view(np.uint64)
        for counter, row in zip(counters, rows, strict=True):
            counter.add(row)
        if places is not None:
            self.map.add(step, places.flatten(0, 1)[valid].numpy(), bonuses.flatten()[valid].numpy())

    def counts(self) -> dict[str, float]:
        """How many different states there were, by the column in ``metrics.csv``; NaN places without a map."""
        counts = {"unique_states": float(self.states.count), "unique_stacks": float(self.stacks.count)}
        if self.cells is not None:
            counts["unique_cells"] = float(self.cells.count)
        return counts | {"unique_places": float(self.map.places) if self.map else math.nan}

    def state_dict(self) -> dict[str, Any]:
        """The counts and the map."""
        return {name: part.state_dict() for name, part in self._parts().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where ``state`` was taken."""
        parts = self._parts()
        require_entries(state, *parts)
        for name, part in parts.items():
            part.load_state_dict(state[name])

    def _parts(self) -> dict[str, UniqueStates | VisitMap]:
        parts = {"states": self.states, "stacks": self.stacks, "map": self.map}
        return parts if self.cells is None else parts | {"cells": self.cells}


def is_image(shape: ObservationShape) -> bool:
    """Whether an observation is one image."""
    return not isinstance(shape, Mapping) and all(
        isinstance(part, Image) for part in parts_of(shape, channels="newest").values()
    )


def coarse(frames: np.ndarray) -> np.ndarray:
    """Every frame as the means of `CELLS` x `CELLS` cells in `GRAYS` shades. Shapes: (n, c, H, W) -> (n, c, 12, 12).

    Bytes are in 0 .. 255, floats in 0 .. 1.
    """
    shades = GRAYS / (256 if frames.dtype == np.uint8 else 1)
    parts = np.array_split(frames, -(-len(frames) // CHUNK))  # one at a time as floats
    cells = [nn.functional.adaptive_avg_pool2d(torch.from_numpy(part).float(), CELLS) for part in parts]
    return torch.cat(cells).mul(shades).floor().clamp(0, GRAYS - 1).byte().numpy()


def newest_frames(shape: ObservationShape, observations: Any, frames: int = 1) -> Any:
    """The newest of ``frames`` stacked observations, and of an image its newest frame; other arrays as they are.

    Shapes: (n, C, ...) -> (n, c, ...); of a Dict each array.
    """
    parts, newest = parts_of(shape, channels="newest"), {}
    for name, rows in named(observations).items():
        part = parts[name]
        one = rows[:, -part.channels :] if isinstance(part, Image) else rows
        if frames > 1 and not isinstance(part, Discrete):
            one = rows[:, -(rows.shape[1] // frames) :]
        newest[name] = np.ascontiguousarray(one)
    return unnamed(newest, like=shape)


def _side_by_side(observations: Any) -> np.ndarray:
    """The array of the observations; of a Dict, the bytes of its arrays in one row per state. -0.0 and 0.0 are one."""
    if not isinstance(observations, Mapping):
        return observations
    rows = [np.ascontiguousarray(part + part.dtype.type(0)).reshape(len(part), -1) for part in observations.values()]
    return np.concatenate([row.view(np.uint8) for row in rows], axis=1)
