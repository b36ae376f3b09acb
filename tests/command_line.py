"""The command line in this process, for tests."""

import sys

import pytest

from asap.cli import app as cli


def asap(arguments, capsys, monkeypatch):
    """Exit code, stdout and stderr of `asap ARGUMENTS`."""
    monkeypatch.setattr(sys, "argv", ["asap", *arguments])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    captured = capsys.readouterr()
    return exit_.value.code, captured.out, captured.err
