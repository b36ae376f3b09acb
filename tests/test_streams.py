"""Promise: whatever becomes of the standard streams, commands work, tell the truth by their exit codes, and print no
traceback."""

import os
import shlex
import subprocess
import sys

import pytest
from command_line import asap

from asap.base.errors import message_of, to_stderr

ASAP = f"exec {shlex.quote(sys.executable)} -m asap"


def shell(command: str) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("redirection", "code", "error"),
    [
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        ("<&- >&- 2>&-", 0, ""),
        (
            ">/dev/full",
            1,
            "error: stdout: cannot be written: No space left on device; free space, or write elsewhere\n",
        ),
        ("2>/dev/full", 0, ""),
    ],
)
@pytest.mark.parametrize("command", ["settings", "train --help"])
def test_streams_that_are_closed_or_full(command, redirection, code, error):
    done = shell(f"{ASAP} {command} {redirection}")
    assert (done.returncode, done.stderr) == (code, error)


@pytest.mark.parametrize("redirection", [">&-", "2>&-", ">/dev/full", "2>/dev/full"])
def test_usage_errors_keep_their_exit_code(redirection):
    assert shell(f"{ASAP} nonsense {redirection}").returncode == 2


@pytest.mark.parametrize("command", ["settings", "--help", "--version"])
def test_a_reader_that_has_gone_is_no_error(command):
    done = shell(f"({ASAP} {command}; echo $? >&2) | true".replace("exec ", ""))
    assert (done.stdout, done.stderr) == ("", "0\n")


@pytest.mark.parametrize("command", ["train", "check"])
@pytest.mark.parametrize("what", ["BrokenPipeError(32, 'x')", "OSError(28, 'x')"])
def test_a_broken_pipe_of_an_environment_is_its_error(command, what, tmp_path, capsys, monkeypatch):
    (tmp_path / "breaks_pipes.py").write_text(f"def make(**_):\n    raise {what}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "breaks_pipes", raising=False)
    code, out, error = asap([command, "breaks_pipes:make"], capsys, monkeypatch)
    assert (code, out) == (2, "") and error.startswith("error: env: making 'breaks_pipes:make' raised ")


def test_a_broken_pipe_within_a_command_is_not_taken_for_stdout(capsys, monkeypatch):
    def broken(*_):
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("asap.config.settings.describe", broken)
    code, out, error = asap(["settings"], capsys, monkeypatch)
    assert (code, out) == (1, "") and error.startswith("error: internal: [Errno 32] Broken pipe")


def test_a_training_goes_on_when_the_reader_of_its_warnings_has_gone(tmp_path):
    small = "--set learn.lanes=4 --set learn.window=16 --set run.eval_episodes=4 --set run.final_episodes=4"
    run, out = tmp_path / "run", tmp_path / "out"
    command = f"train two-rooms --episodes 1 --set policy.alpha_beta=1000.0 {small} --out {run}"
    done = shell(f"({ASAP} {command} 2>&1 >{out}; echo $? >>{out}) | true".replace("exec ", ""))
    assert done.returncode == 0
    assert out.read_text().startswith("return ") and out.read_text().endswith("\n0\n")


class Gone:
    def write(self, text: str) -> int:
        raise OSError(32, "Broken pipe")

    def flush(self) -> None: ...


@pytest.mark.parametrize("stream", [None, Gone()])
def test_telling_survives_a_missing_or_broken_stderr(stream, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream)
    to_stderr("note: nobody reads this")
    assert capsys.readouterr().out == ""


def test_a_closed_stderr_is_survived(monkeypatch):
    reader, writer = os.pipe()
    os.close(reader)
    closed = os.fdopen(writer, "w")
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    to_stderr("note: nobody reads this")


def test_the_message_of_an_exception_is_one_line_or_says_that_it_cannot_be_read():
    class Mute(Exception):
        def __str__(self):
            raise TypeError

    assert message_of(ValueError("one\n  two")) == "one two"
    assert message_of(Mute()) == "its message cannot be read"
