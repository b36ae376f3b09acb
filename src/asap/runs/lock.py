"""The lock of a run directory: a flock where the file system has them, and a file that tells who holds it.

filelock in its place would leave the larger part here: its flock does not tell who holds it, and it falls back for
ENOSYS alone, not where a network drive has no locks (ENOLCK, EOPNOTSUPP).
"""

import contextlib
import errno
import json
import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from asap.base import files
from asap.base.errors import RunError
from asap.base.files import BadFile, parsed, reported

LOCK, OWNER = "lock", "owner.json"
_held: set[int] = set()


@contextlib.contextmanager
def flocked(folder: Path) -> Iterator[bool]:
    """Holds the lock file's flock. Yields False where the file system has no such locks."""
    with reported("cannot lock", folder, "make the directory writable"):
        descriptor = files.open_to_write(folder / LOCK, os.O_RDWR)
    _held.add(descriptor)
    try:
        yield _try_flock(descriptor, folder)
    finally:
        if descriptor in _held:
            _held.discard(descriptor)
            os.close(descriptor)


def _try_flock(descriptor: int, folder: Path) -> bool:
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _in_use(folder) from None
    except OSError as error:
        if error.errno in (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise RunError("run", f"cannot lock: {error.strerror}", folder, "use another file system") from None
    return True


def _drop_inherited_locks() -> None:
    """A flock lives as long as any copy of its descriptor: a forked worker would keep the run of its killed parent."""
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_drop_inherited_locks)


@contextlib.contextmanager
def owned(folder: Path, exclusively: bool) -> Iterator[None]:
    """Keeps the owner file, which tells others who holds the run; `exclusively`, it is the lock itself."""
    me = os.getpid()
    if exclusively:
        with reported("cannot lock", folder, "make the directory writable"):
            _claim(folder)
    else:
        files.replace(folder / OWNER, _introduction(), "run")
    try:
        yield
    finally:
        if os.getpid() == me:  # Not in a forked child.
            with contextlib.suppress(OSError):
                os.unlink(folder / OWNER)


def _claim(folder: Path) -> None:
    """Whoever creates the owner file holds the run, until dead."""
    for _ in range(2):
        try:
            descriptor = files.open_to_write(folder / OWNER, os.O_WRONLY | os.O_EXCL)
        except FileExistsError:
            _evict_dead_owner(folder)
            continue
        try:
            with open(descriptor, "wb", buffering=0) as file:
                file.write(_introduction())
        except BaseException:
            os.unlink(folder / OWNER)  # Unsigned, it would lock the run for ever.
            raise
        return
    raise _in_use(folder)


def _evict_dead_owner(folder: Path) -> None:
    path, aside = folder / OWNER, folder / f"{files.TEMPORARY}{os.getpid()}-owner"
    owner = _owner(path)
    if owner.get("host") != socket.gethostname() or _may_be_alive(owner.get("pid")):
        raise _in_use(folder)
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, aside)
        if _owner(aside) != owner:  # Since we looked, another process evicted it and moved in: put that one back.
            os.rename(aside, path)
            raise _in_use(folder)
        os.unlink(aside)


def _may_be_alive(pid: object) -> bool:
    if type(pid) is not int or pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True  # Somebody else's.
    return True


def _introduction() -> bytes:
    started = datetime.now(UTC).isoformat(timespec="microseconds")
    return json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "started": started}).encode() + b"\n"


def _owner(path: Path) -> dict[str, Any]:
    try:
        with files.open_regular(path) as file:
            return parsed(file.read(4096)) or {}
    except (BadFile, OSError):
        return {}


def _in_use(folder: Path) -> RunError:
    owner = _owner(folder / OWNER)
    if not owner.keys() >= {"pid", "host", "started"}:
        cure = f"wait for it, or remove its {OWNER} if it is gone"
        return RunError("run", "in use by an unknown process", folder, cure)
    what = f"in use by pid {owner['pid']} on host {owner['host']} since {owner['started']}"
    return RunError("run", what, folder, "wait for it or choose another --out")
