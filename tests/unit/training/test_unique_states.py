"""Fingerprints of states, and the count of different ones against a Python set."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimist.training.visits.unique_states import REGISTERS, SMALLEST_TABLE, UniqueStates, fingerprints

ROOM = 1 << 24  # bytes: no test with this limit leaves the exact count
keys = st.lists(st.integers(1, 2**64 - 1) | st.integers(1, 50), max_size=200)


def counter_after(*batches: np.ndarray, limit_bytes: int = ROOM) -> UniqueStates:
    counter = UniqueStates(limit_bytes)
    for batch in batches:
        counter.add(np.asarray(batch, np.uint64))
    return counter


@given(st.lists(keys, max_size=5))
@settings(max_examples=100, deadline=None)
def test_the_count_is_that_of_a_set(batches: list[list[int]]) -> None:
    counter = counter_after(*batches)
    assert counter.exact
    assert counter.count == len(counter) == len(set().union(*batches))


def test_the_exact_count_survives_doublings_crowded_slots_and_repetition() -> None:
    crowded = np.arange(1, 20_000, dtype=np.uint64) << np.uint64(20)  # the low bits, which choose the slot, are 0
    spread = np.random.default_rng(0).integers(1, 2**64, 200_000, dtype=np.uint64)
    assert counter_after(crowded[:3000], spread, crowded[:3000], spread).count == 3000 + len(set(spread.tolist()))


def test_zero_is_a_fingerprint_too() -> None:
    assert counter_after(np.array([0, 0, 7])).count == 2


def test_the_order_and_the_batches_do_not_matter_to_the_exact_count() -> None:
    rng = np.random.default_rng(1)
    drawn = rng.integers(1, 3000, 10_000, dtype=np.uint64)
    counts = {counter_after(*np.array_split(rng.permutation(drawn), parts)).count for parts in (1, 7, 500)}
    assert counts == {len(np.unique(drawn))}


def test_the_saved_state_depends_on_the_set_alone_not_on_the_history_of_its_table() -> None:
    keys = np.arange(1000, dtype=np.uint64) * np.uint64(2**40)  # crowded slots
    at_once, resumed = UniqueStates(ROOM), UniqueStates(ROOM)
    at_once.add(keys)
    for batch in np.array_split(keys[::-1], 7):
        before, resumed = resumed.state_dict(), UniqueStates(ROOM)
        resumed.load_state_dict(before)
        resumed.add(batch)
    assert at_once.state_dict()["fingerprints"].tobytes() == resumed.state_dict()["fingerprints"].tobytes()


def test_the_count_turns_into_an_estimate_just_where_the_table_is_full() -> None:
    room = SMALLEST_TABLE * 3 // 4
    counter = counter_after(fingerprints(np.arange(room)), limit_bytes=8 * SMALLEST_TABLE)
    assert counter.exact
    counter.add(fingerprints(np.arange(room)))
    assert counter.exact
    counter.add(fingerprints(np.arange(room + 1)))
    assert not counter.exact
    # A new state misses all changes with probability of about room / REGISTERS, one in a hundred.
    assert counter.count == room + 1


@pytest.mark.parametrize("total", [20_000, 200_000, 2_000_000])
def test_the_estimate_is_close_never_falls_and_ignores_repetition(total: int) -> None:
    states = fingerprints(np.arange(total))
    counter, counts = UniqueStates(8 * SMALLEST_TABLE), []
    for batch in np.array_split(states, 20):
        counter.add(batch)
        counts.append(counter.count)
    assert counts == sorted(counts)
    # Ting 2014: the relative sd is below sqrt(ln 2 / m); Gaussian, so 5 sd is a false alarm in 2 million.
    assert abs(counter.count / total - 1) < 5 * math.sqrt(math.log(2) / REGISTERS)
    counter.add(states)
    assert counter.count == counts[-1]


@pytest.mark.parametrize("limit_bytes", [8 * SMALLEST_TABLE, ROOM])
def test_a_saved_state_continues_identically(limit_bytes: int) -> None:
    states = fingerprints(np.arange(50_000))
    whole, first, second = (UniqueStates(limit_bytes) for _ in range(3))
    whole.add(states)
    first.add(states[:20_000])
    second.load_state_dict(first.state_dict())
    assert (second.exact, second.count) == (first.exact, first.count)
    second.add(states[20_000:])
    assert (second.exact, second.count) == (whole.exact, whole.count)
    expected, got = whole.state_dict(), second.state_dict()
    assert expected.keys() == got.keys()
    if whole.exact:
        np.testing.assert_array_equal(np.sort(expected["fingerprints"]), np.sort(got["fingerprints"]))
    else:
        np.testing.assert_array_equal(expected["registers"], got["registers"])
        assert expected["estimate"] == got["estimate"]


def test_a_saved_state_is_a_copy() -> None:
    counter = counter_after(fingerprints(np.arange(5000)), limit_bytes=8 * SMALLEST_TABLE)
    saved = counter.state_dict()
    before = saved["registers"].copy()
    other = UniqueStates(8 * SMALLEST_TABLE)
    other.load_state_dict(saved)
    for each in (counter, other):
        each.add(fingerprints(np.arange(50_000)))
    np.testing.assert_array_equal(saved["registers"], before)


@pytest.mark.parametrize("size", [1, 7, 8, 9, 31, 32, 40, 147, 7056])
def test_the_fingerprint_depends_on_every_bit(size: int) -> None:
    rows = np.tile(np.random.default_rng(2).integers(0, 256, size, dtype=np.uint8), (size * 8 + 1, 1))[:2049]
    flips = np.random.default_rng(3).permutation(size * 8)[: len(rows) - 1]
    rows[np.arange(1, len(rows)), flips // 8] ^= np.uint8(1) << (flips % 8).astype(np.uint8)
    hashed = fingerprints(rows)
    assert len(np.unique(hashed)) == len(rows)
    # Of 64 bits each flips with probability 1/2: n flips give a mean of 32 with sd 4 / sqrt(n); 5 sd: 1 in 2 million.
    changed = np.bitwise_count(hashed[1:] ^ hashed[0])
    assert abs(changed.mean() - 32) < 5 * 4 / math.sqrt(len(changed))


def test_two_flipped_bits_never_cancel() -> None:
    size = 64  # two blocks of four words: some pairs of bits meet in a lane, some only at the end
    pairs = np.array(np.triu_indices(size * 8, 1)).T
    rows = np.zeros((len(pairs) + 1, size), np.uint8)
    for flipped in pairs.T:
        rows[np.arange(len(pairs)), flipped // 8] ^= np.uint8(1) << (flipped % 8).astype(np.uint8)
    assert len(np.unique(fingerprints(rows))) == len(rows)


def test_a_million_similar_rows_do_not_collide() -> None:
    rows = np.zeros((1_000_000, 40), np.uint8)
    rows[:, 3:35:8] = np.arange(1_000_000, dtype=np.uint32).view(np.uint8).reshape(-1, 4)
    # 10^12 / 2 pairs at 2^-64 each: a false alarm in 37 million.
    assert len(np.unique(fingerprints(rows))) == len(rows)


def test_rows_of_different_lengths_differ() -> None:
    assert len({int(fingerprints(np.zeros((1, size), np.uint8))[0]) for size in range(100)}) == 100


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.bool_])
def test_equal_rows_have_equal_fingerprints_whatever_their_memory(dtype: type) -> None:
    rows = np.random.default_rng(4).integers(0, 2, (6, 5, 3)).astype(dtype)
    np.testing.assert_array_equal(fingerprints(rows), fingerprints(np.asfortranarray(rows)))
    np.testing.assert_array_equal(fingerprints(rows)[::2], fingerprints(rows[::2]))
    np.testing.assert_array_equal(fingerprints(rows), fingerprints(rows.reshape(6, 15)))
    assert fingerprints(rows[:0]).shape == (0,)


def test_negative_zero_is_zero() -> None:
    assert len(set(fingerprints(np.array([[0.0, 1.0], [-0.0, 1.0]], np.float32)).tolist())) == 1


def test_the_function_is_fixed_for_good() -> None:
    # Computed by this function when it was written: a change would break the counts of saved runs.
    rows = np.arange(3 * 45, dtype=np.uint8).reshape(3, 45)
    assert fingerprints(rows).tolist() == [3837949467547602055, 8647192831832035788, 3931368337283616490]


def test_errors_say_what_came() -> None:
    with pytest.raises(ValueError, match=r"at least 8192, got 100"):
        UniqueStates(100)
    with pytest.raises(ValueError, match=r"uint64 \(n,\), got int64 \(2,\)"):
        UniqueStates(ROOM).add(np.array([1, 2]))
    with pytest.raises(ValueError, match=r"leading axis"):
        fingerprints(np.array(3))
    with pytest.raises(ValueError, match=r"saved by UniqueStates"):
        UniqueStates(ROOM).load_state_dict({"registers": np.zeros(3)})
    with pytest.raises(ValueError, match=r"registers must be uint8"):
        UniqueStates(ROOM).load_state_dict({"registers": np.zeros(3), "estimate": 4.0})
