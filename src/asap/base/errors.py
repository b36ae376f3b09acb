"""Errors a user can act on: one line that names the field, the value that came, and the cure."""


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
