"""Streams: named, independent of each other, and refused for what is no seed."""

import numpy as np
import pytest

from optimist.seeding import split


def test_a_stream_depends_on_its_seed_and_name_only():
    words = {key: tuple(split(*key).generate_state(4)) for key in [(0, "a"), (0, "b"), (1, "a")]}
    assert len(set(words.values())) == 3
    assert tuple(split(0, "a").generate_state(4)) == words[0, "a"]


@pytest.mark.parametrize("seed", [-1, 1.5, None, "1", True])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(ValueError, match="seed must be a non-negative integer"):
        split(seed, "a")


def test_numpy_integers_are_seeds():
    assert split(np.int64(3), "a").entropy == 3
