"""Checks of the systems are kept when they are done, and made anew by other code; a stop comes through between their parts."""

import pytest

from asap.paper import check_pg_ella, rivals_checks
from asap.paper.claims import Claim
from asap.paper.experiments import CHECKS
from asap.paper.laboratory import Laboratory

CLAIMS = [Claim("it learns", "yes", "0.5", (0.25, 0.75), True, "a note", 3), Claim("it flies", "", "no", None, False)]


@pytest.fixture
def calls(monkeypatch) -> list[int]:
    found: list[int] = []

    def check(seeds, quick, tell):
        tell("the first part")
        found.append(seeds)
        return CLAIMS

    monkeypatch.setattr(check_pg_ella, "check", check)
    return found


def test_a_finished_check_is_kept(tmp_path, calls):
    first = rivals_checks.pg_ella(Laboratory(tmp_path, seeds=3))
    again = rivals_checks.pg_ella(Laboratory(tmp_path, seeds=3))
    assert calls == [3] and first.claims == again.claims == CLAIMS
    rivals_checks.pg_ella(Laboratory(tmp_path, seeds=4))
    rivals_checks.pg_ella(Laboratory(tmp_path, seeds=3, quick=True))
    assert calls == [3, 4, 3]


def test_other_code_makes_it_anew(tmp_path, calls, monkeypatch):
    rivals_checks.pg_ella(Laboratory(tmp_path, seeds=3))
    monkeypatch.setattr(rivals_checks, "_digest", lambda check: "other")
    rivals_checks.pg_ella(Laboratory(tmp_path, seeds=3))
    assert calls == [3, 3]


def test_a_stop_comes_through(tmp_path, calls):
    laboratory = Laboratory(tmp_path, seeds=3)
    laboratory.stop.requested = 15
    with pytest.raises(SystemExit) as stopped:
        rivals_checks.pg_ella(laboratory)
    assert stopped.value.code == 143 and not calls and not list(tmp_path.rglob("*.json"))


def test_every_check_has_the_name_of_its_experiment():
    assert {experiment.name for experiment in CHECKS} == {
        f"check-{experiment.function.replace('_', '-')}" for experiment in CHECKS
    }
