"""Rules of a stranger run nothing and read nothing else, in Python and on the command line; what is no rule ends in one clear line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_rules import BY, SECRET, texts

from asap.base import trust


@pytest.fixture(scope="module")
def looks(tmp_path_factory) -> list[dict]:
    """What each text did in each way, in one process that notes all it touches."""
    folder = tmp_path_factory.mktemp("rules of a stranger")
    environment = {**os.environ, trust.KEY_FILE: str(folder / "key")}
    command = [sys.executable, str(Path(__file__).with_name("hostile_rules.py")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_text_was_read_in_every_way(looks, tmp_path):
    names = list(texts(tmp_path))
    assert len(names) >= 40 and [(row["text"], row["by"]) for row in looks] == [
        (name, by) for name in names for by in BY
    ]


def test_nothing_is_touched(looks):
    assert [row for row in looks if row["touched"] or row["canary"]] == []


def test_each_ends_in_one_clear_line(looks):
    for row in looks:
        errors = [line for line in row["said"].splitlines() if line.startswith("error: ")]
        assert len(errors) == (not row["valid"]), row
        assert row["end"] == 0 if row["valid"] else row["end"] == 2 or row["end"].startswith("error: "), row
        assert "Traceback" not in row["said"] and all(len(line) < 400 for line in errors), row


def test_no_message_shows_what_is_inside(looks):
    """A format string is not filled in, and a file that is named is not shown."""
    for row in looks:
        assert not {
            part
            for part in (SECRET, "<module", "<function", "mappingproxy", " at 0x", "root:x:")
            if part in row["said"]
        }
        assert "\x1b" not in row["said"] and "\x00" not in row["said"], row
