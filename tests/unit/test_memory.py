"""What cannot fit into memory is refused in words."""

import pytest

from optimist import memory


def test_more_than_there_is_is_refused_and_less_is_not(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 3 * 1024**2)
    memory.require_memory(3 * 1024**2, "a table", "make it smaller")
    with pytest.raises(
        ValueError, match=r"a table needs 4\.0 MiB of memory, and 3\.0 MiB are available: make it smaller"
    ):
        memory.require_memory(4 * 1024**2, "a table", "make it smaller")


def test_a_system_that_does_not_say_refuses_nothing(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    memory.require_memory(10**30, "everything", "")


def test_the_limit_of_a_container_counts(monkeypatch, tmp_path):
    limit, none = tmp_path / "memory.max", tmp_path / "unlimited"
    limit.write_text("1048576\n")
    none.write_text("max\n")
    monkeypatch.setattr(memory, "_LIMITS_OF_CONTAINERS", (none, limit, tmp_path / "missing"))
    assert memory.available_memory() == 1048576


def test_this_machine_has_some():
    assert 10**7 < memory.available_memory() < 10**15


@pytest.mark.parametrize(
    ("size", "words"), [(12, "12 bytes"), (2048, "2.0 KiB"), (80 * 10**9, "74.5 GiB"), (2**75, "32,768 EiB")]
)
def test_sizes_in_words(size, words):
    assert memory.in_words(size) == words
