"""Files that are written whole or not at all, and opened with care: no links out of their folder, no FIFOs, no
devices."""

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from asap.base.errors import RunError

TEMPORARY = ".tmp-"
_SAFELY = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # Neither through a link out of the run, nor hanging on a FIFO.


class BadFile(Exception):
    """Why a file is not used, in a few words."""


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` for good when the block ends well: temporary file, fsync, rename, fsync of
    the directory. Otherwise nothing has changed."""
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{os.urandom(4).hex()}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_directory(path.parent)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


@contextlib.contextmanager
def saving(path: Path, field: str, then: str = "then try again", needs: str = "") -> Iterator[BinaryIO]:
    """As `replacing`, with a line for the user where the file system refuses. A link at `path` is replaced, too: what
    it leads to stays as it is."""
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "free space" if is_full else "make the directory writable"
        raise RunError(field, f"cannot save: {error.strerror}{needs}", path, f"{remedy}, {then}") from None


def replace(path: Path, data: bytes, field: str = "file", then: str = "then try again") -> None:
    """Puts `data` at `path` for good."""
    with saving(path, field, then, f" (needs {len(data):,} bytes)") as file:
        file.write(data)


def open_to_write(path: Path, flags: int) -> int:
    """A descriptor of a regular file, made where there is none. Links are not followed, and a FIFO is not waited for."""
    descriptor = os.open(path, flags | os.O_CREAT | _SAFELY, 0o666)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor


def open_regular(path: Path) -> BinaryIO:
    """Opens a file for reading, but no directory, FIFO or device, and nothing a link finds outside its folder."""
    try:
        if os.path.islink(path):
            folder, path = os.path.realpath(path.parent), Path(os.path.realpath(path, strict=True))
            if not path.is_relative_to(folder):
                raise BadFile("path escapes run directory")
        mode = os.lstat(path).st_mode
        if not stat.S_ISREG(mode):
            kinds = {stat.S_IFDIR: "directory", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
            raise BadFile(f"not a regular file but a {kinds.get(stat.S_IFMT(mode), 'device')}")
        return open(os.open(path, os.O_RDONLY | _SAFELY), "rb")
    except OSError as error:
        raise BadFile(f"cannot read: {error.strerror}") from None


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a small file, opened as by `open_regular`; one of more bytes than `most` is refused."""
    with open_regular(path) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise BadFile(f"cannot read: {error.strerror}") from None
    if len(data) > most:
        raise BadFile(f"over {most:,} bytes")
    return data


def remove_litter(folder: Path) -> None:
    """Removes the temporary files of killed writers. Only for the holder of the run's lock."""
    for path in folder.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):
            path.unlink()


@contextlib.contextmanager
def reported(what: str, path: object, cure: str) -> Iterator[None]:
    """Turns what the file system says into a line for the user."""
    try:
        yield
    except OSError as error:
        why = "path escapes run directory" if error.errno == errno.ELOOP else error.strerror
        raise RunError("run", f"{what}: {why}", path, cure) from None


def parsed(line: bytes) -> dict[str, Any] | None:
    """A JSON object, or None for anything else."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # Some network file systems cannot; the rename stands.
            raise
    finally:
        os.close(descriptor)
