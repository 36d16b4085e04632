"""States that occur more than once in a rollout: what depends on the state alone is computed once for each."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from optimist.bonuses.observations import Observations, named, take

WORTHWHILE = 0.75
"""Of the rows: with more different ones than this, telling them apart would not pay."""
FEWEST = 32
"""Rows: to tell fewer apart takes about as long as to read them all (8 states of a small network: 80 microseconds)."""


@dataclass(frozen=True, eq=False)
class Distinct:
    """The different ones among n rows: where each is first found, ``first`` (u,), and which each row is, (n,)."""

    first: Tensor
    which: Tensor

    def of(self, rows: Observations) -> Observations:
        """Every different row once. Shapes: (n, ...) -> (u, ...)."""
        return take(rows, self.first)

    @property
    def counts(self) -> Tensor:
        """How often each occurs, (u,), int64."""
        return torch.bincount(self.which, minlength=len(self.first))


def distinct_rows(rows: Observations) -> Distinct | None:
    """The different rows among ``rows``, by fingerprints of their bytes; None where it does not pay to know.

    So it is if they are few, if most are different, or on another device than the CPU. Rows that differ are taken for
    the same with probability 2^-64 a pair. Shapes: (n, ...).
    """
    parts = list(named(rows).values())
    if len(parts[0]) < FEWEST or any(part.device.type != "cpu" for part in parts):
        return None
    from optimist.fingerprints import fingerprints  # Numba

    keys = np.stack([fingerprints(part.detach().contiguous().numpy()) for part in parts], axis=1)
    one = keys[:, 0] if len(parts) == 1 else fingerprints(keys)
    _, first, which = np.unique(one, return_index=True, return_inverse=True)
    if len(first) > WORTHWHILE * len(one):
        return None
    return Distinct(torch.from_numpy(first), torch.from_numpy(which))
