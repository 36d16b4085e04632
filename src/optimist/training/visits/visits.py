"""Everything that a run counts about where it has been: unique states, unique stacks of frames, and the map."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from optimist.bonuses.observations import (
    Discrete,
    Image,
    ObservationShape,
    flatten_time,
    named,
    parts_of,
    unnamed,
)
from optimist.bonuses.transitions import Transitions
from optimist.ranks import ALONE, Ranks
from optimist.training.visits.unique_states import UniqueStates, fingerprints
from optimist.training.visits.visit_map import PARTS, VisitMap


class Visits:
    """The states that were acted on, counted whole (``stacks``) and by their newest frame (``states``); the ``map``.

    Paper: section 4, unique states by a hash.
    """

    def __init__(
        self, shape: ObservationShape, *, limit_bytes: int, total_steps: int, frames: int = 1, ranks: Ranks = ALONE
    ):
        self._shape, self._frames, self._ranks = shape, frames, ranks
        self.states = UniqueStates(limit_bytes // 2)
        self.stacks = UniqueStates(limit_bytes // 2)
        self.map = VisitMap(-(-total_steps // PARTS))

    def add(self, step: int, transitions: Transitions, places: np.ndarray | None, bonuses: Tensor) -> None:
        """Count a rollout that began at ``step``. Shapes: places (T, N, 2) or None, bonuses (T, N).

        Of several ranks the first counts what all of them have seen.
        """
        rows = named(flatten_time(transitions.observations))
        seen: Any = unnamed({k: part.numpy() for k, part in rows.items()}, like=self._shape)  # pyrefly: ignore
        newest = newest_frames(self._shape, seen, self._frames)
        prints = np.stack([fingerprints(_side_by_side(rows)) for rows in (seen, newest)], 1).view(np.int64)
        told: list[Tensor | None] = [torch.from_numpy(prints).unflatten(0, transitions.ended.shape), transitions.valid]
        told += [None if places is None else torch.from_numpy(np.ascontiguousarray(places)), bonuses]
        if not self._ranks.alone:
            told[1] = torch.ones_like(transitions.terminated) if transitions.valid is None else transitions.valid
            told = [None if part is None else self._ranks.gather(part, 1) for part in told]
        if self._ranks.is_first:
            self._count(step, *told)  # pyrefly: ignore

    def _count(self, step: int, prints: Tensor, real: Tensor | None, places: Tensor | None, bonuses: Tensor) -> None:
        """Count what is given: the prints of stacks and states, (T, N, 2)."""
        valid = slice(None) if real is None else real.flatten()
        stacks, states = prints.flatten(0, 1)[valid].T.contiguous().numpy().view(np.uint64)
        self.stacks.add(stacks)
        self.states.add(states)
        if places is not None:
            self.map.add(step, places.flatten(0, 1)[valid].numpy(), bonuses.flatten()[valid].numpy())

    def counts(self) -> dict[str, float]:
        """How many different states there were, by the column in ``metrics.csv``."""
        return {"unique_states": float(self.states.count), "unique_stacks": float(self.stacks.count)}

    def state_dict(self) -> dict[str, Any]:
        """Both counts and the map."""
        parts = {"states": self.states, "stacks": self.stacks, "map": self.map}
        return {name: part.state_dict() for name, part in parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where ``state`` was taken."""
        self.states.load_state_dict(state["states"])
        self.stacks.load_state_dict(state["stacks"])
        self.map.load_state_dict(state["map"])


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
