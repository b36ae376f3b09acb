"""Keeps what a user's environment does to this process within it: prints, floating-point error settings, handlers, moves.

Environments may be played in several threads. So nothing of the process is exchanged while one of them runs, apart from
stdout, whose stand-in looks at whose print it is: an environment runs in a context of its own (`contextvars`), which
also holds NumPy's error settings.
"""

import contextvars
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from asap.base.errors import QuitNow

_MOST_KEPT = 2000


class Sink(io.StringIO):
    """Takes what an environment prints; keeps the beginning."""

    def write(self, text: str) -> int:
        room = _MOST_KEPT - self.tell()
        if room > 0:
            super().write(text[:room])
        return len(text)

    def take_line(self) -> str:
        """The first line that was printed since the last call."""
        lines = self.getvalue().strip().splitlines()
        self.seek(0)
        self.truncate()
        return lines[0] if lines else ""


_sink: contextvars.ContextVar[Sink | None] = contextvars.ContextVar("sink", default=None)


class _Stdout:
    """Stands in for stdout while any environment runs: each print goes to the sink of its context, or to stdout."""

    def __init__(self) -> None:
        self.stdout: Any = None
        self._lock, self._running = threading.RLock(), 0

    def enter(self) -> None:
        with self._lock:
            self._running += 1
            if sys.stdout is not self:
                self.stdout, sys.stdout = sys.stdout, self

    def leave(self) -> None:
        with self._lock:
            self._running -= 1
            if not self._running and sys.stdout is self:
                sys.stdout = self.stdout

    def write(self, text: str) -> int:
        stream = _sink.get() or self.stdout
        return len(text) if stream is None else stream.write(text)

    def flush(self) -> None:
        if (stream := _sink.get() or self.stdout) is not None:
            stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(_sink.get() or self.stdout, name)


_stdout = _Stdout()


class Isolated:
    """Runs the calls of one environment, one at a time. What they print is in `sink`."""

    def __init__(self) -> None:
        self.sink, context, self._holds = Sink(), contextvars.copy_context(), False
        context.run(_sink.set, self.sink)
        self.call = context.run  # Between `hold` and `release`.

    def hold(self) -> None:
        """Has stdout stood in for until `release`: once for an episode, since for every step it would cost too much."""
        if not self._holds:
            self._holds = True
            _stdout.enter()

    def release(self) -> None:
        if self._holds:
            self._holds = False
            _stdout.leave()

    __del__ = release  # Of an episode that somebody has given up.

    def run(self, call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """A single call."""
        self.hold()
        try:
            return self.call(call, *arguments, **named)
        finally:
            self.release()

    def close(self, env: Any) -> None:
        """An environment that cannot even be closed has nothing more to tell us."""
        try:
            self.run(env.close)
        except BaseException as error:
            if is_of_a_person(error):
                raise


def is_of_a_person(error: BaseException) -> bool:
    """Whether what comes out of an environment is a Ctrl-C and not the environment's own doing.

    Where somebody handles SIGINT, as a training and a worker do, no plain KeyboardInterrupt comes from the keyboard; nor
    does any outside of the main thread.
    """
    if isinstance(error, QuitNow):
        return True
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    return isinstance(error, KeyboardInterrupt) and is_default and _is_main_thread()


class Surroundings(NamedTuple):
    """Signal handlers, working directory and file mode mask as they were."""

    handlers: dict[signal.Signals, Any]
    folder: str | None
    umask: int

    @classmethod
    def now(cls) -> "Surroundings":
        try:
            folder = os.getcwd()
        except FileNotFoundError:  # Somebody removed it: there is nothing to go back to.
            folder = None
        with _ASKING:  # The mask can only be asked by setting it: for that moment to what no file suffers from.
            umask = os.umask(0o077)
            os.umask(umask)
        return cls({number: signal.getsignal(number) for number in _SIGNALS}, folder, umask)

    def restore(self) -> list[str]:
        """Puts back what was changed since, and tells it."""
        changes, now = [], Surroundings.now()
        if now.folder != self.folder and self.folder is not None:
            os.chdir(self.folder)
            changes.append(f"the environment changed the working directory to '{now.folder}'; changed back")
        if now.umask != self.umask:
            os.umask(self.umask)
            changes.append(f"the environment changed the umask to {now.umask:03o}; changed back")
        changed = [number for number, handler in self.handlers.items() if now.handlers[number] != handler]
        if changed and _is_main_thread():
            for number in changed:
                signal.signal(number, self.handlers[number] or signal.SIG_DFL)  # None: not installed from Python.
            names = ", ".join(number.name for number in changed)
            changes.append(f"the environment installed handlers of {names}; put back")
        return changes


# Those that stop a run; asking for all there are takes longer than the reset of a small environment.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ASKING = threading.Lock()


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
