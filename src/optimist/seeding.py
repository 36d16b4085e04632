"""One integer per run, split once into named streams. Global generators are never read or set."""

import hashlib

import numpy as np

from optimist.checks import require_seed


def split(seed: int, name: str) -> np.random.SeedSequence:
    """The seed sequence of the stream called ``name`` in the run ``seed``.

    A stream depends on its own name alone: adding one elsewhere moves no other.
    """
    digest = hashlib.sha256(name.encode()).digest()
    return np.random.SeedSequence(require_seed(seed), spawn_key=tuple(np.frombuffer(digest[:16], np.uint32).tolist()))


def stream_seed(seed: int, name: str) -> int:
    """An integer for the stream ``name`` of the run ``seed``, below 2^31."""
    return int(split(seed, name).generate_state(1)[0] % 2**31)
