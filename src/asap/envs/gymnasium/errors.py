"""What an environment did wrong."""

import traceback as tracebacks
from typing import Any

from asap.base.errors import RunError, message_of

_LONGEST = 300


class EnvError(Exception):
    """Raised where a value from an environment is refused; CheckedEnv adds where in the episode that was."""

    def __init__(self, what: str, value: str = "", traceback: str = "", field: str = ""):
        super().__init__(what)
        self.what, self.value, self.traceback = _one_line(what), _one_line(value), traceback
        self.field, self.step, self.actions = field, 0, []

    def at(self, field: str, step: int, actions: list[Any]) -> "EnvError":
        self.field, self.step = self.field or field, step
        self.actions = [action if isinstance(action, int) else action.tolist() for action in actions]
        return self

    def report(self) -> dict[str, Any]:
        """The fields of `Failed`, apart from the episode."""
        names = ("field", "what", "value", "step", "actions", "traceback")
        return {name: getattr(self, name) for name in names}


def raised(error: BaseException, what: str = "env raised") -> EnvError:
    """The environment's own exception."""
    lines = "".join(tracebacks.format_exception(error))
    return EnvError(f"{what} {type(error).__name__}: {message_of(error)}".removesuffix(": "), traceback=lines)


def unreadable(error: Exception) -> EnvError:
    """What was wrong with a value from an environment, which may also be an object that raises when it is looked at."""
    return error if isinstance(error, EnvError) else raised(error, "returned what cannot be read:")


def explained(failed: Any, which: str, seed: int, cure: str) -> RunError:
    """For the user: what the environment did, in which episode, and how to see it again. `failed` is an EnvError, or
    the `Failed` that a worker made of one."""
    got = f" (got {failed.value})" if failed.value else ""
    return RunError(failed.field, f"{failed.what}{got} at {which} step {failed.step} (seed {seed})", cure=cure)


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[:_LONGEST] + "..."


def show(value: Any) -> str:
    """A value of unknown origin, short enough for a line, with its type where that is the point."""
    try:
        shown = repr(value)
    except Exception:
        shown = "a value without a repr"
    shown = " ".join(shown[:_LONGEST].split())
    shown = shown if len(shown) <= 80 else shown[:80] + "..."
    return shown if value is None or isinstance(value, (bool, int, float)) else f"{type(value).__name__} {shown}"
