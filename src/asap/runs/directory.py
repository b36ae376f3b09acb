"""A run directory: config.toml, events.jsonl, checkpoints/, and the lock of the one process that may write.

Reading needs no lock. Everything that writes belongs inside `with run.locked():`.
"""

import contextlib
import itertools
import json
import math
import mmap
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from asap.base import files
from asap.base.errors import RunError, UserError, to_stderr
from asap.base.files import BadFile, parsed, reported
from asap.config.toml import MAX_FILE_BYTES
from asap.runs import checkpoints
from asap.runs.checkpoints import Checkpoint
from asap.runs.lock import LOCK, OWNER, flocked, owned

Notice = Callable[[str], None]
_CONFIG, _TASKS, _EVENTS, _CHECKPOINTS = "config.toml", "tasks.json", "events.jsonl", "checkpoints"
MAX_LINE = 1 << 26  # Bytes of an event; ours are thousands.
MAX_TASKS = 1 << 22  # Bytes of the records of tasks; of four thousand observations they are half a million.


def print_note(text: str) -> None:
    to_stderr(f"note: {text}")


class Run:
    """One run on disk. Make it with `Run.create` or `Run.open`."""

    def __init__(self, path: str | Path, notice: Notice):
        if not os.fspath(path):
            raise UserError("run", "is an empty path", "''", "name a directory, or `.` for this one")
        if "\0" in os.fspath(path):
            raise UserError("run", "has a NUL in it", ascii(os.fspath(path))[:80], "choose a plain name")
        with reported("cannot be found", path, "change to a directory that exists"):
            self.path = Path(os.path.abspath(path))  # Environments may change the working directory.
        self.checkpoints = self.path / _CHECKPOINTS
        self.notice = notice
        self._holder: int | None = None  # The process that is inside `locked()`.

    @classmethod
    def create(
        cls, path: str | Path, config_text: str, tasks_text: str | None = None, notice: Notice = print_note
    ) -> "Run":
        """A new run in a new or empty directory. `tasks_text` describes its tasks without an environment."""
        run, config = cls(path, notice), _utf8(config_text)
        if os.path.lexists(run.path) and not run.path.is_dir():
            raise UserError("run", "is a file, not a directory", path, "choose another --out")
        with reported("cannot create", run.path, "choose another --out"):
            run.path.mkdir(parents=True, exist_ok=True)
            run._refuse_occupied()
            with run.locked():
                run._refuse_occupied()  # Another process may have been first.
                for name in ("ckpt", "best"):  # An old checkpoint beside a new config would be resumed.
                    for old in checkpoints.generations(run.checkpoints, name):
                        old.unlink()
                if tasks_text is not None:
                    run.write_tasks(tasks_text)
                files.replace(run.path / _CONFIG, config, "run")
        return run

    @classmethod
    def open(cls, path: str | Path, notice: Notice = print_note) -> "Run":
        """An existing run, to read, or to resume inside `locked()`."""
        run = cls(path, notice)
        cure = "give the directory of a run, as made by --out"
        if not os.path.lexists(run.path):
            raise UserError("run", "no such directory", path, cure)
        if not run.path.is_dir():
            cure += "; go on from a saved model by `asap train --from FILE`"
            raise UserError("run", "is a file, not a run directory", path, cure)
        with contextlib.suppress(PermissionError):  # Reported by config_text, with its own name.
            if _CONFIG not in os.listdir(run.path):
                raise UserError("run", f"is not a run directory: no {_CONFIG}", path, cure)
        run.config_text()
        run._refuse_linked_checkpoints()
        return run

    @classmethod
    def create_or_continue(cls, path: str | Path, config_text: str, tasks_text: str | None = None) -> "Run":
        """A new run, or the one that is there if it has the same settings."""
        if not os.path.exists(os.path.join(path, _CONFIG)):
            return cls.create(path, config_text, tasks_text)
        run = cls.open(path)
        if run.config_text() != config_text:
            cure = "choose another directory, or `asap train --resume` it"
            raise UserError("--out", "holds a run with other settings or seeds", path, cure)
        return run

    @staticmethod
    def next_free(parent: str | Path, stem: str) -> Path:
        """Makes the first free one of parent/stem-001, -002, ...; mkdir decides, so two processes never share one."""
        if "/" in stem or "\0" in stem:
            raise UserError("run", "name has a '/' or a NUL in it", repr(stem), "choose a plain name")
        with reported("cannot create", f"{parent}/{stem}", "choose another --out"):
            os.makedirs(parent, exist_ok=True)
            for number in itertools.count(1):
                path = Path(parent) / f"{stem}-{number:03d}"
                with contextlib.suppress(FileExistsError):
                    os.mkdir(path)
                    return path

    def config_text(self) -> str:
        try:
            return files.read_regular(self.path / _CONFIG, MAX_FILE_BYTES).decode("utf-8")
        except (BadFile, OSError, UnicodeDecodeError) as error:
            what = "not UTF-8 text" if isinstance(error, UnicodeDecodeError) else error
            raise UserError("run", f"{_CONFIG}: {what}", self.path, "restore it or give another run") from None

    def write_config(self, text: str) -> None:
        """Puts new settings in place of the old."""
        self._require_lock()
        files.replace(self.path / _CONFIG, _utf8(text), "run")

    def tasks_text(self) -> str | None:
        """What the maker of the run has recorded about its tasks; None in runs of earlier releases."""
        if not os.path.lexists(self.path / _TASKS):
            return None
        try:
            return files.read_regular(self.path / _TASKS, MAX_TASKS).decode("utf-8", "replace")
        except (BadFile, OSError) as error:
            raise RunError("run", f"{_TASKS}: {error}", self.path, "restore it, or remove it") from None

    def write_tasks(self, text: str) -> None:
        self._require_lock()
        files.replace(self.path / _TASKS, _utf8(text), "run")

    def save(self, step: int, arrays: Mapping[str, Any], meta: dict[str, Any]) -> Path:
        """Saves a checkpoint and keeps the last three."""
        return self._save(step, arrays, meta, "ckpt", keep=3)

    def save_best(self, step: int, arrays: Mapping[str, Any], meta: dict[str, Any]) -> Path:
        """Saves a checkpoint that stays until the next best."""
        return self._save(step, arrays, meta, "best", keep=1)

    def _save(self, step: int, arrays: Mapping[str, Any], meta: dict[str, Any], name: str, keep: int) -> Path:
        self._require_lock()
        path = checkpoints.write(self.checkpoints, step, arrays, meta, name)
        checkpoints.prune(self.checkpoints, keep, name)
        return path

    def latest(self) -> Checkpoint | None:
        return checkpoints.newest(self.checkpoints, self.notice)

    def best(self) -> Checkpoint | None:
        return checkpoints.newest(self.checkpoints, self.notice, name="best")

    def best_score(self) -> float:
        """Of the best checkpoint; -infinity before there is one."""
        best = self.best()
        score = None if best is None else best.meta.get("score")
        return score if isinstance(score, float) else -math.inf

    @property
    def where(self) -> str:
        return str(self.path)

    def append(self, event: Mapping[str, Any]) -> None:
        """Adds one line to the event log. What is not finite becomes null."""
        self._require_lock()
        line = json.dumps(_plain(event), allow_nan=False).encode() + b"\n"
        with reported(f"cannot write {_EVENTS}", self.path, "free space or make it writable, then resume"):
            descriptor = files.open_to_write(self.path / _EVENTS, os.O_RDWR | os.O_APPEND)
            with open(descriptor, "r+b", buffering=0):
                size = self._mend_tail(descriptor)
                try:
                    while line:
                        line = line[os.write(descriptor, line) :]
                except BaseException:
                    os.ftruncate(descriptor, size)  # Half a line must not spoil the next one.
                    raise

    def events(self) -> Iterator[dict[str, Any]]:
        """The events in the order of their lines; what cannot be read is left out, with one notice."""
        path, num_bad, line, event = self.path / _EVENTS, 0, b"", None
        if not os.path.lexists(path):
            return
        try:
            with files.open_regular(path) as file:
                for line in iter(lambda: file.readline(MAX_LINE), b""):
                    event = parsed(line)
                    num_bad += event is None
                    if event is not None:
                        yield event
        except (BadFile, OSError) as error:
            raise RunError("run", f"{_EVENTS}: {error}", self.path, "restore it from a copy") from None
        if num_bad == 1 and event is None and not line.endswith(b"\n"):
            self.notice(f"{_EVENTS}: torn last line ignored ({len(line):,} bytes)")
        elif num_bad:
            self.notice(f"{_EVENTS}: unreadable lines ignored ({num_bad:,})")

    @contextlib.contextmanager
    def locked(self) -> Iterator["Run"]:
        """Holds the run against every other process, and removes what a killed writer left behind."""
        with flocked(self.path) as has_flock:
            if not has_flock:
                self.notice("no flock on this file system; the run is guarded by its owner file alone")
            with owned(self.path, exclusively=not has_flock):
                self._refuse_linked_checkpoints()
                with reported("cannot write", self.path, "make the directory writable"):
                    self.checkpoints.mkdir(exist_ok=True)
                for folder in (self.path, self.checkpoints):
                    files.remove_litter(folder)
                self._holder = os.getpid()
                try:
                    yield self
                finally:
                    self._holder = None

    def _require_lock(self) -> None:
        """Two writers would cut each other's lines off. A forked child holds nothing."""
        if self._holder != os.getpid():
            raise RunError("run", "is not locked by this process", self.path, "write inside `with run.locked():`")

    def _mend_tail(self, descriptor: int) -> int:
        """A killed writer may leave half a line: finish it if only the newline is missing, else cut it off."""
        size = os.fstat(descriptor).st_size
        if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
            return size
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as log:
            start = log.rfind(b"\n") + 1
            tail = log[start : start + MAX_LINE]
        if start + len(tail) == size and parsed(tail) is not None:
            return size + os.write(descriptor, b"\n")
        self.notice(f"{_EVENTS}: torn last line cut off ({size - start:,} bytes)")
        os.ftruncate(descriptor, start)
        return start

    def _refuse_occupied(self) -> None:
        entries = [entry for entry in os.listdir(self.path) if not entry.startswith(files.TEMPORARY)]
        if _CONFIG in entries:
            raise UserError("run", "already exists", self.path, "resume it, or choose another --out")
        if set(entries) - {LOCK, OWNER, _CHECKPOINTS, _TASKS}:  # These a creation that was killed may leave.
            raise UserError("run", "directory has other files in it", self.path, "choose another --out")

    def _refuse_linked_checkpoints(self) -> None:
        if self.checkpoints.is_symlink():
            what = f"path escapes run directory: {_CHECKPOINTS} is a link"
            raise RunError("run", what, self.path, "make it a directory")


def _utf8(text: str) -> bytes:
    """Surrogates are bytes of a path that the locale could not decode: they go back as they came, if that is UTF-8."""
    try:
        data = text.encode("utf-8", "surrogateescape")
        data.decode("utf-8")
    except UnicodeError:
        raise UserError("run", f"{_CONFIG} would not be UTF-8 text", ascii(text), "use names that are") from None
    if len(data) > MAX_FILE_BYTES:
        raise UserError("run", f"{_CONFIG} would be over {MAX_FILE_BYTES:,} bytes", len(data), "use fewer settings")
    return data


def _plain(value: Any) -> Any:
    """The value in JSON's own types, null for what is not finite."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    import numpy as np

    array = np.asarray(value)
    return _plain((array if array.dtype.kind in "biu" else array.astype(float)).tolist())
