"""The one atomic write (a file is complete or not there at all), and the one lock (a folder has one writer).

Also folders that go again if nothing came of them.
"""

import errno
import json
import os
import secrets
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

try:
    import fcntl
except ImportError:  # Windows: the record of the owner alone keeps writers apart
    fcntl = None

PARTIAL, OWNER = ".partial", "owner.json"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""What a network disk answers that has no locks."""


def write_atomically(
    path: str | Path, write: Callable[[BinaryIO], object], *, require: Callable[[], object] = lambda: None
) -> None:
    """Writes ``path`` by ``write(opened file)``: into a neighbor first, which takes the name when it is on the disk.

    A kill at any moment leaves the old file or the new one. What is there and is no regular file (a device, a folder,
    a pipe) is refused and untouched; a symbolic link stays one, and the file that it names is replaced. ``require`` is
    called just before the file takes its name, and may raise an error instead.
    """
    target = require_replaceable(path)
    neighbor = target.with_name(f".{target.name}.{os.getpid()}{PARTIAL}")
    try:
        with neighbor.open("wb") as opened:
            write(opened)
            opened.flush()
            os.fsync(opened.fileno())
        require()
        if target.exists():
            neighbor.chmod(stat.S_IMODE(target.stat().st_mode))
        neighbor.replace(target)
        _sync_folder(target.parent)
    finally:
        neighbor.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Writes ``text`` to ``path`` atomically, in UTF-8."""
    write_atomically(path, lambda opened: opened.write(text.encode()))


def partial_files(folder: Path, pattern: str) -> list[Path]:
    """What writers of files called ``pattern`` left in ``folder`` when they were killed."""
    return list(folder.glob(f".{pattern}{PARTIAL}"))


@contextmanager
def removed_if_empty(path: Path) -> Iterator[None]:
    """If the block fails, ``path`` and the folders above it that were not there before go again, if they are empty."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        yield
    except BaseException:
        for folder in missing:  # the innermost first; one that is not empty stays, and so do those above it
            with suppress(OSError):
                folder.rmdir()
        raise


def require_replaceable(path: str | Path) -> Path:
    """The place that ``path`` names, symbolic links followed; an error unless a file there may be made or replaced."""
    try:
        target = Path(path).resolve()
    except RuntimeError:  # Python before 3.13
        raise FileExistsError(f"{path} is a symbolic link that leads to itself: give another name") from None
    if target.is_symlink():
        raise FileExistsError(f"{path} is a symbolic link that leads to itself: give another name")
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"{path} is no regular file, and only those are replaced: give another name")
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(f"{path} may not be written to: give another name, or change its permissions")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}: make it first, or give another name")
    return target


def _sync_folder(folder: Path) -> None:
    """Make the renaming itself survive a power failure."""
    if os.name == "posix":
        opened = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


class InUse(RuntimeError):
    """Another process writes to a folder; the message says which."""


@dataclass(frozen=True)
class Token:
    """Which attempt at which work a process is: a later attempt takes the folder of an earlier one away from it.

    Whoever hands out tokens makes a new attempt only when it takes the one before for dead. If that one lives after
    all, on a machine that was cut off, it finds the folder taken (`Lock.require_held`) and writes nothing more.
    """

    work: str
    """What no other work is called, see `new_work`."""
    attempt: int = 1

    def supersedes(self, record: dict[str, Any] | None) -> bool:
        """Whether the owner in a record is this attempt, started again by a scheduler, or one before it."""
        token = (record or {}).get("token")
        return isinstance(token, dict) and token.get("work") == self.work and token.get("attempt", 0) <= self.attempt


def new_work() -> str:
    """A name that no other work has."""
    return secrets.token_hex(8)


@dataclass(frozen=True)
class Lock:
    """The right to write to ``folder``, held by this process through the open file ``opened``."""

    folder: Path
    opened: int
    record: str

    def require_held(self) -> None:
        """An error if the lock's file is no longer ours: it was deleted, and perhaps another process goes on here."""
        with suppress(FileNotFoundError):
            if (self.folder / OWNER).read_text() == self.record:
                return
        raise InUse(
            f"{self.folder} is no longer this process's: its {OWNER} was deleted or replaced while it was written to, "
            f"or the folder was moved. Now {_owner(self.folder / OWNER)} may write there"
        )


@contextmanager
def locked(folder: Path, token: Token | None = None) -> Iterator[Lock]:
    """In this block nobody else who asks for it writes to ``folder``, which is made; `InUse` if somebody does already.

    Who it is stands in ``owner.json``, which goes again after the block. A process that is killed leaves the file, and
    the system takes its lock away. On a disk without locks the file itself counts, as long as its process may live.
    Who has a ``token`` takes the folder from an earlier attempt at the same work, whether that one lives or not.
    """
    try:
        lock = _take(folder, token)
    except OSError as error:  # of the same errno, so of the same subclass
        told = f"cannot write to {folder}: {error.strerror}. Choose a folder that can be written to"
        raise OSError(error.errno, told) from error
    _HELD.add(lock.opened)
    try:
        yield lock
    finally:
        with suppress(InUse, OSError):
            lock.require_held()
            (folder / OWNER).unlink()
        _HELD.discard(lock.opened)
        os.close(lock.opened)


def only_leftovers(folder: Path) -> bool:
    """Whether ``folder`` holds nothing but what a process leaves that was killed before it wrote anything."""
    return all(path.name == OWNER or path.name.endswith(PARTIAL) for path in folder.iterdir())


_HELD: set[int] = set()
if hasattr(os, "register_at_fork"):  # a child that outlives its parent must not keep the parent's lock
    os.register_at_fork(after_in_child=lambda: [os.close(_HELD.pop()) for _ in range(len(_HELD))])


def _take(folder: Path, token: Token | None) -> Lock:
    path, record = folder / OWNER, _my_record(token)
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            opened = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # the folder was just removed by a process whose start was refused
            continue
        try:
            _lock(opened, path)
            if _is_at(opened, path):
                os.ftruncate(opened, 0)
                os.write(opened, record.encode())
                return Lock(folder, opened, record)
        except InUse:
            os.close(opened)
            if token is None or not token.supersedes(_record(path)):
                raise
            return _supersede(folder, record)
        except BaseException:
            os.close(opened)
            raise
        os.close(opened)  # its last owner has deleted it in between


def _supersede(folder: Path, record: str) -> Lock:
    """The lock of a new file in the place of the owner's, who may hold on to the old one: nobody looks at that."""
    path = folder / OWNER
    neighbor = path.with_name(f".{OWNER}.{secrets.token_hex(4)}{PARTIAL}")
    opened = os.open(neighbor, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with suppress(OSError):  # a disk without locks; nobody else knows this file
            if fcntl is not None:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(opened, record.encode())
        os.fsync(opened)
        neighbor.replace(path)
        lock = Lock(folder, opened, record)
        lock.require_held()  # of two that come at once the last has it
        return lock
    except BaseException:
        os.close(opened)
        neighbor.unlink(missing_ok=True)
        raise


def _my_record(token: Token | None) -> str:
    since, me = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()), os.getpid()
    record: dict[str, Any] = {"host": socket.gethostname(), "process": me, "started": _started(me), "since": since}
    record["key"] = secrets.token_hex(8)  # in containers hosts and processes of one name are many
    if token is not None:
        record["token"] = asdict(token)
    return json.dumps(record)


def _is_at(opened: int, path: Path) -> bool:
    """Whether ``path`` still names the open file."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(opened), path.stat())
    return False


def _lock(opened: int, path: Path) -> None:
    told = "{} is being written to by {}: wait for it, or stop it first"
    try:
        if fcntl is not None:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
    except BlockingIOError:
        for _ in range(20):  # who has just taken it may not have written who it is: that of a killed one stands there
            if _may_live(path):
                break
            time.sleep(0.05)
            with suppress(BlockingIOError):  # a child of a killed one has let it go only now
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)  # pyrefly: ignore
                return
        raise InUse(told.format(path.parent, _owner(path))) from None
    except OSError as problem:
        if problem.errno not in _NO_LOCKS:
            raise
    if _may_live(path):
        known = f". This disk has no locks: if you know that this process has ended, delete {path}"
        raise InUse(told.format(path.parent, _owner(path)) + known)


def _owner(path: Path) -> str:
    record = _record(path)
    if record is None or not _may_live(path):
        return "another process"
    return "process {process} on {host}, since {since}".format(**record)


def _record(path: Path) -> dict[str, Any] | None:
    with suppress(OSError, ValueError):
        record = json.loads(path.read_text())
        if isinstance(record, dict) and record.keys() >= {"host", "process", "started", "since"}:
            return record
    return None


def _may_live(path: Path) -> bool:
    """Whether the process in a record may be at work: that it is not can be known of this machine's alone."""
    record = _record(path)
    if record is None or record["host"] != socket.gethostname() or record["started"] is None:
        return record is not None
    return _started(record["process"]) == record["started"]


def _started(process: int) -> int | None:
    """When a process was started, in Linux's ticks since the boot: numbers of processes are used again, this is not."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19])
    return None
