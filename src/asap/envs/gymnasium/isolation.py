"""Keeping what a foreign environment does to this process within the environment: its prints, its handlers, its
moves."""

import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

_MOST_KEPT = 2000


class Sink(io.StringIO):
    """Stands in for stdout; keeps the beginning of what was printed."""

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


def silently(sink: Sink, call: Callable[[], Any]) -> Any:
    stdout, sys.stdout = sys.stdout, sink
    try:
        return call()
    finally:
        sys.stdout = stdout


def close(env: Any) -> None:
    """An environment that cannot even be closed has nothing more to tell us."""
    try:
        silently(Sink(), env.close)
    except (Exception, SystemExit):
        pass


class Surroundings(NamedTuple):
    """Signal handlers and working directory as they were."""

    handlers: dict[signal.Signals, Any]
    folder: str | None

    @classmethod
    def now(cls) -> "Surroundings":
        return cls({number: signal.getsignal(number) for number in _SIGNALS}, _folder())

    def restore(self) -> list[str]:
        """Puts back what was changed since, and tells it."""
        told = []
        now = Surroundings.now()
        if now.folder != self.folder and self.folder is not None:
            os.chdir(self.folder)
            told.append(f"the environment changed the working directory to '{now.folder}'; changed back")
        if now.handlers != self.handlers and threading.current_thread() is threading.main_thread():
            changed = [number for number, handler in self.handlers.items() if now.handlers[number] != handler]
            for number in changed:
                signal.signal(number, self.handlers[number] or signal.SIG_DFL)  # None: not installed from Python.
            told.append(
                f"the environment installed handlers of {', '.join(number.name for number in changed)}; put back"
            )
        return told


# Those that stop a run; asking for all there are takes longer than the reset of a small environment.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except FileNotFoundError:  # Somebody removed it: there is nothing to go back to.
        return None
