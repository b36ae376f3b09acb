"""One input of a fuzzing target, tried under watch: it ends in time, in one line or in what is right, within its folder.

    from fuzz_watch import tried
    tried(target, data, folder)

Files outside of the folder, processes and connections are refused by an audit hook, which can't be taken off again: it
looks only while an input is tried. Names that a file holds must not be imported; ids of Gymnasium may be made.
"""

import contextlib
import errno
import importlib
import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import asap
from asap.base.errors import UserError

LONGEST_LINE = 10_000  # A path or a word of the user's may be long.
MOST_MEMORY = 500_000_000  # Bytes that the peak may grow by.
PACKAGE = str(Path(asap.__file__).parent)
_READABLE = [sys.prefix, sys.base_prefix, *filter(None, sys.path), PACKAGE, str(Path(__file__).parent)]
_READABLE += ["/proc", "/sys", "/usr", "/etc/localtime", "/etc/fonts", os.devnull, "/dev/urandom"]
_READABLE = [os.path.realpath(path) for path in _READABLE]
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATHS = {  # Audit events that change a file: how many paths they name, and where the descriptors of folders stand.
    "os.mkdir": (1, 2),
    "os.remove": (1, 1),
    "os.rmdir": (1, 1),
    "os.truncate": (1, None),
    "os.chmod": (1, 2),
    "os.chown": (1, 3),
    "os.utime": (1, 3),
    "os.rename": (2, 2),
    "os.link": (2, 2),
}
_NEVER = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "socket.connect", "socket.bind")
_NEVER += ("os.kill", "ctypes.dlopen", "pickle.find_class", "webbrowser.open")
SAFE_IDS = {"CartPole-v1", "Pendulum-v1", "FrozenLake-v1", "Taxi-v3", "MountainCar-v0"}


class Hang(BaseException):
    """Took longer than an input may."""


class Forbidden(BaseException):
    """Touched what is none of its business."""


class Wrong(Exception):
    """Was accepted, and is not what it should be."""


class Target(NamedTuple):
    """One kind of input, and what is promised for it."""

    name: str
    seeds: Callable[[Path], list[Any]]  # Good inputs to start from, in a form that has parts.
    change: Callable[[Random, Any], Any]  # One part changed.
    encode: Callable[[Any], bytes]
    run: Callable[[bytes, Path], None]  # Raises a refusal, `Wrong`, or whatever must not be.
    refusals: tuple[type[BaseException], ...] = (UserError,)
    raw: float = 0.3  # Share of changes that are made to the bytes.
    seconds: float = 5.0  # For one input.
    prepare: Callable[[Path], None] = lambda folder: None  # Before each input, not under watch.
    names_files: bool = False  # Inputs are the user's own words: they may name any file, and code to import.


class Outcome(NamedTuple):
    """Empty problem: accepted and right, or refused in one line."""

    accepted: bool
    problem: str = ""
    where: str = ""  # Tells one problem from another.


class _Watch:
    """What the audit hook looks at; one for the process."""

    def __init__(self):
        self.folders: tuple[str, ...] = ()
        self.is_on = self.is_installed = self.reads_all = False
        self.touched: list[str] = []

    def install(self) -> None:
        if not self.is_installed:
            sys.addaudithook(self.look)
            self.is_installed = True

    def look(self, event: str, arguments: tuple) -> None:
        if not self.is_on or (event != "open" and event not in _PATHS and event not in _NEVER):
            return
        self.is_on = False
        try:
            touched = self._touched(event, arguments)
        finally:
            self.is_on = True
        if touched and self.reads_all and event not in _NEVER:
            raise PermissionError(errno.EACCES, "Permission denied")  # The user's own word led there.
        if touched:
            self.touched.append(touched)
            raise Forbidden(touched)

    def _touched(self, event: str, arguments: tuple) -> str:
        if event in _NEVER:
            return f"{event} {arguments!r:.200}"
        count, folders = _PATHS.get(event, (1, None))
        paths = [_full(path, arguments, folders and folders + at) for at, path in enumerate(arguments[:count])]
        if event == "open":
            writes = bool((arguments[2] or 0) & _WRITES)
            if isinstance(arguments[0], int) or (self.reads_all and not writes):
                return ""
            allowed = self.folders if writes else (*self.folders, *_READABLE)
        else:
            allowed = self.folders
        for path in paths:
            if not isinstance(path, int) and not _is_within(os.fsdecode(path), allowed):
                return f"{event} of {os.fsdecode(path)!r:.200}, outside of its folder"
        return ""


_WATCH = _Watch()


def _full(path: Any, arguments: tuple, at: int | None) -> Any:
    """With the folder that a descriptor stands for."""
    if at is None or at >= len(arguments) or arguments[at] < 0:
        return path
    return os.path.join(os.readlink(f"/proc/self/fd/{arguments[at]}"), os.fsdecode(path))


def _is_within(path: str, folders: tuple[str, ...]) -> bool:
    # The folder is resolved, the last part is not: a link is what is touched.
    folder, name = os.path.split(os.path.abspath(path))
    place = os.path.join(os.path.realpath(folder), name)
    return any(place == folder or place.startswith(folder + os.sep) for folder in folders) or path == os.devnull


def tried(target: Target, data: bytes, folder: Path) -> Outcome:
    """Runs one input and judges how it ended."""
    target.prepare(folder)
    before, began, told = _peak_memory(), time.perf_counter(), io.StringIO()
    accepted, problem, where = True, "", ""
    try:
        with _watched(target, folder), contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            target.run(data, folder)
    except Hang as error:
        problem, where = f"hangs: {_place(error)}", f"hang {_place(error)}"
    except KeyboardInterrupt:
        raise
    except target.refusals as error:
        accepted = False
        problem = _unfit_line(str(error))
        where = f"line {_place(error)}"
    except BaseException as error:
        problem, where = (
            f"{type(error).__name__}: {error!s:.300} at {_place(error)}",
            f"{type(error).__name__} {_place(error)}",
        )
    if _WATCH.touched and not problem:
        problem = where = f"touches {_WATCH.touched[0]}"
    if not problem and "Traceback (most recent call last)" in told.getvalue():
        problem, where = f"prints a traceback: {told.getvalue()[-200:]}", "traceback"
    grown = _peak_memory() - before
    if not problem and grown > MOST_MEMORY:
        problem, where = f"takes {grown / 1e6:,.0f} MB of memory", "memory"
    if not problem and time.perf_counter() - began > target.seconds:
        problem, where = f"takes {time.perf_counter() - began:.1f} s", "time"
    return Outcome(accepted, " ".join(problem.split()), where)


@contextlib.contextmanager
def _watched(target: Target, folder: Path) -> Iterator[None]:
    def late(number: int, frame: Any) -> None:
        raise Hang

    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR")
    _WATCH.install()
    _WATCH.folders = tuple(os.path.realpath(each) for each in (folder, cache) if each)
    _WATCH.touched, _WATCH.reads_all = [], target.names_files
    earlier = signal.signal(signal.SIGALRM, late)
    with warnings.catch_warnings(), contextlib.ExitStack() as guards:
        guards.enter_context(at_home(str(folder)))
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", RuntimeWarning)  # Overflows and invalid values: a wrong number, printed or not.
        if not target.names_files:
            guards.enter_context(_guarded_names())
        signal.setitimer(signal.ITIMER_REAL, target.seconds)
        _WATCH.is_on = True
        try:
            yield
        finally:
            _WATCH.is_on = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, earlier)


@contextlib.contextmanager
def at_home(folder: str) -> Iterator[None]:
    """What is kept for the user, or for a while, goes into the folder too."""
    homes = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"), folder) | {"ASAP_KEY_FILE": f"{folder}/key"}
    before, temporary = {name: os.environ.get(name) for name in homes}, tempfile.tempdir
    writes_code, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    os.environ.update(homes)
    tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir, sys.dont_write_bytecode = temporary, writes_code
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


@contextlib.contextmanager
def _guarded_names() -> Iterator[None]:
    """Modules that the package would import by a name from outside; environments other than a few small ones."""
    import gymnasium

    import_module, make = importlib.import_module, gymnasium.make

    def guarded_import(name: str, package: str | None = None) -> Any:
        caller = sys._getframe(1).f_globals.get("__name__", "")
        if caller.split(".")[0] == "asap" and not name.startswith("asap."):
            _WATCH.touched.append(f"import of {name!r}")
            raise Forbidden(f"import of {name!r:.100}")
        return import_module(name, package)

    def guarded_make(name: Any, **options: Any) -> Any:
        if name in SAFE_IDS:
            return make(name, **options)
        raise gymnasium.error.Error("is not made while fuzzing")

    importlib.import_module, gymnasium.make = guarded_import, guarded_make
    try:
        yield
    finally:
        importlib.import_module, gymnasium.make = import_module, make


def _unfit_line(line: str) -> str:
    if not line.strip():
        return "is refused without a word"
    lines = line.splitlines()
    if len(lines) == 3 and lines[2].strip() == "^":  # Of rules: the line of the text, and a mark under the place.
        line = lines[0]
    if len(line.splitlines()) > 1:
        return f"is refused in {len(line.splitlines())} lines: {line!r:.300}"
    if len(line) > LONGEST_LINE:
        return f"is refused in a line of {len(line):,} characters: {line[:200]}"
    return "" if "internal" not in line.split(":")[0] else f"is refused as an internal error: {line:.300}"


def _place(error: BaseException) -> str:
    """The innermost function of the package that the error went through; else of the harness."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if frame.filename.startswith(PACKAGE)] or frames[-1:]
    return " ".join(f"{Path(frame.filename).name}:{frame.name}" for frame in ours[-1:])


def _peak_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
