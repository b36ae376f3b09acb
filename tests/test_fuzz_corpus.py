"""Damaged inputs end in one line or are taken for what they are: all that `make fuzz` ever found, and some fresh ones.

Never a traceback, an internal error, a hang, a wrong read, or a file touched outside of its folder. The targets and their
damage are in bench/fuzz*.py, the inputs that once broke the promise in tests/data/fuzz, the first line of each being what
it did then.
"""

import random
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "bench"))  # At the end: it has names of other packages in it.
import fuzz
import fuzz_watch
from fuzz_watch import Forbidden, Target, Wrong, tried

from asap.base.errors import UserError

# Fresh inputs of each target: a second's worth, and none of the training, which compiles for seconds each.
FRESH = {"checkpoint": 300, "events": 200, "frame": 400, "replay": 200, "environment": 200, "data": 150}
FRESH |= {"model": 40, "config": 60, "override": 60, "command": 12, "rules": 200}


@pytest.fixture(scope="module")
def fuzzers(tmp_path_factory):
    made = {}

    def of(target: Target) -> fuzz.Fuzzer:
        if target.name not in made:
            made[target.name] = fuzz.Fuzzer(target, tmp_path_factory.mktemp(target.name))
        return made[target.name]

    return of


@pytest.mark.parametrize("path", fuzz.corpus(), ids=lambda path: path.name)
def test_what_was_found_stays_mended(path, fuzzers):
    target, data = fuzz.read_case(path)
    assert fuzzers(target).tried(data).problem == ""


@pytest.mark.parametrize("name", FRESH)
def test_fresh_inputs_end_in_one_line_or_right(name, fuzzers):
    fuzzer, rng = fuzzers(fuzz.TARGETS[name]), random.Random(0)
    outcomes = []
    for _ in range(FRESH[name]):
        data = fuzzer.built(fuzzer.fresh(rng))
        outcomes.append(fuzzer.tried(data))
        assert outcomes[-1].problem == "", data[:2000]
    refused = sum(not outcome.accepted for outcome in outcomes)
    assert 0 < refused < len(outcomes) or name == "command"


def test_every_seed_is_right(fuzzers):
    """Damage is done to good inputs: were the seeds refused, nothing behind the first check would be reached."""
    for name in FRESH.keys() - {"command"}:
        fuzzer = fuzzers(fuzz.TARGETS[name])
        for seed in fuzzer.seeds:
            outcome = fuzzer.tried(fuzzer.target.encode(seed))
            assert outcome.accepted and not outcome.problem, (name, outcome)


# ---- The watch itself -----------------------------------------------------------------------------------------------


def outside(folder: Path) -> None:
    (folder.parent / "outside").write_text("x")


def endless(folder: Path) -> None:
    while True:
        pass


def refuse(line: str):
    error = UserError("field", "what")
    error.args = (line,)
    raise error


BROKEN = {
    "traceback": (lambda folder: [][0], "IndexError"),
    "wrong": (lambda folder: (_ for _ in ()).throw(Wrong("another number")), "another number"),
    "outside": (outside, "outside of its folder"),
    "process": (lambda folder: __import__("subprocess").run(["true"]), "subprocess.Popen"),
    "hang": (endless, "hangs"),
    "two lines": (lambda folder: refuse("a\nb"), "2 lines"),
    "internal": (lambda folder: refuse("internal: x"), "internal error"),
    "no word": (lambda folder: refuse(" "), "without a word"),
    "overflow": (lambda folder: __import__("numpy").float32(1e300), "RuntimeWarning"),
    "swallowed": (lambda folder: swallow(folder), "outside of its folder"),
}


def swallow(folder: Path) -> None:
    try:
        outside(folder)
    except Forbidden:
        pass


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_promise_is_noticed(case, tmp_path):
    run, told = BROKEN[case]
    target = Target(
        case, lambda folder: [b""], lambda rng, data: data, bytes, lambda data, folder: run(folder), seconds=0.5
    )
    folder = tmp_path / "folder"
    folder.mkdir()
    assert told in tried(target, b"", folder).problem
    assert not (tmp_path / "outside").exists()


def test_too_much_memory_is_noticed(tmp_path, monkeypatch):
    peaks = iter([1 << 30, 3 << 30])
    monkeypatch.setattr(fuzz_watch, "_peak_memory", lambda: next(peaks))
    target = Target("memory", lambda folder: [b""], lambda rng, data: data, bytes, lambda data, folder: None)
    assert "2,147 MB of memory" in tried(target, b"", tmp_path).problem
