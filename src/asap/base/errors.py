"""Errors a user can act on: one line that names the field, the value that came, and the cure. And how lines get to
stderr, and how a person's wish to stop travels."""

import sys


class UserError(Exception):
    """A mistake in what the user gave. Prints as `error: <field>: <what> (got <value>); <cure>`."""

    exit_code = 2
    _NO_VALUE = object()

    def __init__(self, field: str, what: str, value: object = _NO_VALUE, cure: str = ""):
        got = "" if value is self._NO_VALUE else f" (got {value})"
        line = f"{field}: {what}{got}" + (f"; {cure}" if cure else "")
        super().__init__(" ".join(line.split()))
        self.field = field


class RunError(UserError):
    """Something went wrong while running: same form, exit code 1."""

    exit_code = 1


class Interrupted(Exception):
    """A person has asked to stop: the work at hand is given up. What was saved before stands."""


class QuitNow(KeyboardInterrupt):
    """A person has asked a second time. A plain KeyboardInterrupt may be of an environment's own making."""


def message_of(error: BaseException) -> str:
    """What an exception says, on one line, even where it was written by somebody whose `__str__` raises."""
    try:
        return " ".join(str(error).split())
    except Exception:
        return "its message cannot be read"


def to_stderr(line: str) -> None:
    """Tells a person something that must not stop the work: stderr may be missing, closed or full, its reader gone, or
    this may be a signal handler that has interrupted another print."""
    if sys.stderr is None:  # `print` would take stdout instead.
        return
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError, RuntimeError):
        pass
