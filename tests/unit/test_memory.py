"""What cannot fit into memory is refused in words."""

import platform
import subprocess
import sys

import pytest

from optimist import memory

FAULTS_OF_TEN_BLOCKS = """
import resource, sys
from optimist import memory
if sys.argv[1] == "kept":
    assert memory.keep_freed_memory()
def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
before = pages()
for _ in range(10):
    block = b"x" * 2**26
    del block
print(pages() - before)
"""


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


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has mallopt")
def test_blocks_that_are_freed_are_used_again():
    """Ten blocks of 64 MiB: each of their 16,384 pages is a fault once, not ten times."""
    faults = {
        mode: int(subprocess.check_output([sys.executable, "-c", FAULTS_OF_TEN_BLOCKS, mode], text=True))
        for mode in ("kept", "given-back")
    }
    assert faults["kept"] < 2 * 2**14
    assert faults["given-back"] > 9 * 2**14
