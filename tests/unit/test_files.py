"""One writer for a folder: whoever comes second is told who is first, and a killed owner is in nobody's way."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from optimist import files
from optimist.files import InUse, Token, locked, new_work, only_leftovers

# Holds the lock, and has a child of its own that would outlive it. Says when it does, and whose it is.
HOLDER = """
import os, sys, time
from pathlib import Path
from optimist.files import locked
with locked(Path(sys.argv[1])):
    child = os.fork()
    if child == 0:
        time.sleep(600)
    print(child, flush=True)
    time.sleep(600)
"""


def test_a_lock_that_a_killed_one_left_to_its_child_is_taken_once_the_child_lets_it_go(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    with gone:
        assert gone.stdout is not None
        os.kill(int(gone.stdout.readline()), signal.SIGKILL)
        gone.kill()
    with (tmp_path / "run/owner.json").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        late = threading.Timer(0.3, fcntl.flock, (held.fileno(), fcntl.LOCK_UN))
        late.start()
        with locked(tmp_path / "run"):
            assert json.loads((tmp_path / "run/owner.json").read_text())["process"] == os.getpid()
        late.join()


def test_the_second_of_two_processes_is_told_who_is_first_and_a_killed_one_is_in_nobodys_way(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "run")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        child = int(first.stdout.readline())
        try:
            told = (
                rf"run is being written to by process {first.pid} on \S+, since 2.* UTC: wait for it, or stop it first$"
            )
            with pytest.raises(InUse, match=told), locked(tmp_path / "run"):
                pytest.fail("two have the lock")
            assert json.loads((tmp_path / "run/owner.json").read_text())["process"] == first.pid
            first.kill()
            first.wait()
            os.kill(child, 0)  # it lives, and does not hold the lock for its parent
            assert only_leftovers(tmp_path / "run")
            with locked(tmp_path / "run"):
                assert json.loads((tmp_path / "run/owner.json").read_text())["process"] == os.getpid()
        finally:
            os.kill(child, signal.SIGKILL)
    assert not list((tmp_path / "run").iterdir())


def test_one_process_cannot_have_it_twice_and_leaves_nothing(tmp_path: Path) -> None:
    with locked(tmp_path / "a/run") as lock:
        lock.require_held()
        with pytest.raises(InUse, match=f"by process {os.getpid()} on"), locked(tmp_path / "a/run"):
            pytest.fail("it has it twice")
        lock.require_held()
    assert not list((tmp_path / "a/run").iterdir())
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "a/run"):
        _ = 1 // 0
    assert not list((tmp_path / "a/run").iterdir())


def test_an_owner_that_has_not_yet_said_who_it_is_is_not_taken_for_the_killed_one_before_it(tmp_path: Path) -> None:
    """The record of a killed process stands in the file until the next owner has written its own."""
    with locked(tmp_path) as lock:
        dead = json.loads(lock.record) | {"started": 1}
        (tmp_path / "owner.json").write_text(json.dumps(dead))
        with pytest.raises(InUse, match="is being written to by another process: wait"), locked(tmp_path):
            pytest.fail("two have the lock")
        late = threading.Timer(0.2, (tmp_path / "owner.json").write_text, (lock.record,))
        late.start()
        with pytest.raises(InUse, match=f"is being written to by process {os.getpid()} on"), locked(tmp_path):
            pytest.fail("two have the lock")
        late.join()


@pytest.mark.parametrize("how", ["deleted", "taken", "moved"])
def test_an_owner_whose_folder_was_taken_away_notices_and_leaves_the_other_alone(how: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    with locked(run) as lock:
        if how == "moved":
            run.rename(tmp_path / "elsewhere")
        else:
            (run / "owner.json").unlink()
        if how == "taken":
            other = {"host": "elsewhere", "process": 7, "started": 3, "since": "today"}
            (run / "owner.json").write_text(json.dumps(other))
        told = "process 7 on elsewhere, since today" if how == "taken" else "another process"
        with pytest.raises(InUse, match=f"is no longer this process's: .* Now {told} may write there"):
            lock.require_held()
    assert (run / "owner.json").exists() == (how == "taken")


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that knows no locks."""

    def refuse(opened: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "flock", refuse)


@pytest.mark.usefixtures("no_locks")
@pytest.mark.parametrize(
    ("change", "lives"),
    [({}, True), ({"started": 1}, False), ({"host": "elsewhere"}, True), ({"process": 2**22}, False)],
)
def test_without_locks_the_record_counts_as_long_as_its_process_may_live(
    change: dict[str, object], lives: bool, tmp_path: Path
) -> None:
    with locked(tmp_path):
        mine = json.loads((tmp_path / "owner.json").read_text())
    (tmp_path / "owner.json").write_text(json.dumps(mine | change))
    if lives:
        told = r"is being written to by process .* if you know that this process has ended, delete .*owner\.json"
        with pytest.raises(InUse, match=told), locked(tmp_path):
            pytest.fail("two have the lock")
    else:
        with locked(tmp_path) as lock:
            lock.require_held()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file/run", Path("/proc/optimist")):
        with (
            pytest.raises(OSError, match=rf"^\[Errno \d+\] cannot write to {folder}: .*Choose a folder"),
            locked(folder),
        ):
            pytest.fail("it was locked")


def test_what_a_killed_start_leaves_is_told_from_a_run(tmp_path: Path) -> None:
    (tmp_path / "owner.json").write_text("")
    (tmp_path / ".config.json.7.partial").write_text("{")
    assert only_leftovers(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert not only_leftovers(tmp_path)


@pytest.mark.parametrize("has_locks", [True, False])
def test_a_later_attempt_takes_the_folder_from_an_earlier_one_that_lives(
    has_locks: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if not has_locks:
        request.getfixturevalue("no_locks")
    work = new_work()
    with locked(tmp_path, Token(work, 1)) as first:
        with locked(tmp_path, Token(work, 2)) as second:
            second.require_held()
            with pytest.raises(InUse, match="is no longer this process's"):
                first.require_held()
            for token in (None, Token(work, 1), Token(new_work(), 3)):  # nobody, a late start of the first, a stranger
                with pytest.raises(InUse, match="is being written to by"), locked(tmp_path, token):
                    pytest.fail("two have the lock")
            with locked(tmp_path, Token(work, 2)) as again:  # the same attempt, started again by a scheduler
                again.require_held()
                with pytest.raises(InUse):
                    second.require_held()
        with pytest.raises(InUse):
            first.require_held()
    assert not list(tmp_path.iterdir())


def test_a_token_takes_nothing_from_an_owner_without_one(tmp_path: Path) -> None:
    with locked(tmp_path) as lock:
        with pytest.raises(InUse, match="is being written to by"), locked(tmp_path, Token(new_work(), 9)):
            pytest.fail("two have the lock")
        lock.require_held()


def test_a_file_is_not_replaced_if_the_last_look_before_it_forbids(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")

    def refuse() -> None:
        raise InUse("taken")

    with pytest.raises(InUse, match="taken"):
        files.write_atomically(tmp_path / "a", lambda opened: opened.write(b"after"), require=refuse)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "before")]
