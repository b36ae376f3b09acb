"""The bugs that `bench/plants.py` plants are still there to be planted: each is well-formed, and its text stands where
it says, once."""

from pathlib import Path

import pytest

HERE = Path(__file__).parents[1]


@pytest.fixture
def bugs(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "bench"))
    from planted_bugs import BUGS

    return BUGS


def test_no_bug_is_stale(bugs):
    stale = [bug.id for bug in bugs if bug.planted((HERE / "src" / "asap" / bug.file).read_text()) is None]
    assert not stale, f"replace in bench/planted_bugs_*.py, by bugs of the same kind: {stale}"


def test_every_bug_can_be_told_and_tried(bugs):
    assert len(bugs) >= 66
    assert len({bug.id for bug in bugs}) == len({(bug.file, bug.old) for bug in bugs}) == len(bugs)
    for bug in bugs:
        assert bug.new != bug.old and bug.suffers.endswith("."), bug.id
        compile(bug.planted((HERE / "src" / "asap" / bug.file).read_text()), bug.file, "exec")
        assert bug.first and all((HERE / "tests" / file).is_file() for file in bug.first), bug.id


def test_they_are_spread_over_the_library(bugs):
    rooms = {Path(bug.file).parts[0].removesuffix(".py") for bug in bugs}
    assert rooms == set(
        "base config envs policy data workers runs experience show learn compose model distill paper cli".split()
    )
