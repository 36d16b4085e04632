"""One integer a run, split once into named streams. Global generators are never read or set."""

import hashlib

import numpy as np


def split(seed: int, name: str) -> np.random.SeedSequence:
    """The seed sequence of the stream called ``name`` in the run ``seed``.

    A stream depends on its own name alone: adding one elsewhere moves no other.
    """
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.SeedSequence(require_seed(seed), spawn_key=tuple(np.frombuffer(digest[:16], np.uint32).tolist()))


def require_seed(seed: int) -> int:
    """``seed`` itself, or an error that says what a seed is."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"seed must be a non-negative integer, got {seed!r}: pass e.g. seed=0")
    return int(seed)
