"""What RND, ICM and hash codes see: the parts of an observation, the numeric ones whitened by running statistics."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from optimist.bonuses.checkpointing import require_same_layout
from optimist.bonuses.observations import (
    Channels,
    Discrete,
    Observations,
    ObservationShape,
    chunks,
    parts_of,
    read,
    rows_of,
)
from optimist.bonuses.scaling import Whitening
from optimist.bonuses.transitions import Transitions
from optimist.ranks import ALONE, Ranks

CHUNK = 128  # states read at a time: a few megabytes of floats, whatever the length of the rollout


class WhitenedObservations:
    """A rollout's observations as float parts; images and vectors whitened and clipped, discrete states one-hot.

    The statistics are those of all ``ranks``.

    Shapes: rows {name: (T N, ...)} raw -> read {name: (n, *part.shape)} float32.
    """

    def __init__(self, shape: ObservationShape, *, channels: Channels, clip: float, ranks: Ranks = ALONE):
        self._ranks = ranks
        self.parts = parts_of(shape, channels=channels)
        self._whitening = {
            name: Whitening(part.shape, clip=clip)
            for name, part in self.parts.items()
            if not isinstance(part, Discrete)
        }

    @property
    def count(self) -> int:
        """How many observations the statistics rest on; 0 for discrete observations, which have none."""
        return next((whitening.count for whitening in self._whitening.values()), 0)

    def rows(self, observations: Observations) -> dict[str, Tensor]:
        """The raw parts, checked, one row per state; an error says what was expected."""
        return rows_of(self.parts, observations)

    def read(self, rows: Mapping[str, Tensor], index: Tensor | slice) -> dict[str, Tensor]:
        """The chosen rows as whitened float parts."""
        parts = read(self.parts, rows, index)
        return {name: self._whitening[name].whiten(x) if name in self._whitening else x for name, x in parts.items()}

    def update(self, rows: Mapping[str, Tensor]) -> None:
        """Move the statistics by all rows of a rollout; those of several ranks are merged once, at the end of it."""
        for name, whitening in self._whitening.items():
            seen = whitening if self._ranks.alone else whitening.fresh()
            for chunk in chunks(len(rows.get(name, ())), CHUNK):
                seen.update(self.parts[name].read(rows[name][chunk]))
            if seen is not whitening:
                whitening.merge(seen, self._ranks)

    def warm_up(self, transitions: Transitions) -> None:
        """Move the statistics by the next states of the valid steps."""
        valid = transitions.only_valid
        if valid is not None or not self._ranks.alone:  # the other ranks wait for what this one has seen
            self.update({} if valid is None else self.rows(valid.next_observations))

    def state_dict(self) -> dict[str, Any]:
        """The statistics of every whitened part."""
        return {name: whitening.state_dict() for name, whitening in self._whitening.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state."""
        state = require_same_layout(state, self.state_dict())
        for name, whitening in self._whitening.items():
            whitening.load_state_dict(state[name])
