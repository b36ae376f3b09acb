"""The page of records says what was measured: numbers are counted as a reader counts them, finished seeds are not run
again, and the page holds every seed, what falls short, and the rules."""

import argparse
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

import asap

sys.path.append(str(Path(__file__).parents[1] / "bench"))  # At the end: it has names of other packages in it.

import records
import records_asap
import records_page
import records_pictures
import records_rivals
import records_rows
from records_numbers import numbers_in
from records_trainings import Training, digest_of_code, reports_of
from trainings import Failed, Finished

LEAN = {"observation_names": ["x", "y"], "action_names": ["left", "right", "wait"]}
PUSH = {"observation_names": ["x", "y"], "action_names": ["force"], "action_low": [-1.0], "action_high": [1.0]}


def counted(text, names=LEAN):
    return tuple(numbers_in(asap.load_rules(text + "\n", **names).given.book))


# ---- Numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("if x > 0.5 then left\notherwise right", 1),  # 100 % is what is left: it says nothing new.
        ("if x + 0.3*y > 0.5 within 0.1 then left (90 %)\notherwise right", 4),  # 0.3, 0.5, 0.1, 90.
        ("if x > 0 then left (70 %), right (20 %), wait (10 %)\notherwise wait (60 %)", 4),  # 0, 70, 20; 60.
        ("left (50 %), right (30 %)", 2),  # What is left goes to the third, and is not printed.
        ("A = x + 0.3*y\nif A > 1 within 0.2 then left\nif A < -1 then right\notherwise wait", 4),  # 0.3, 1, 0.2, -1.
        ("A = x + 0.3*y\nif A > 1 and x < 2 then left\nif A > 1 then right\notherwise wait", 3),  # 0.3, 1, 2.
        ("soft: left (80 %)\nif x > 1 then soft\nif y > 2 then right\nif x < -1 then soft\notherwise wait", 4),
        ("left if x + 0.3*y > 0.2 within 0.4, else right", 3),
        ("the largest of\n  left: 0\n  right: -3*x - 0.5*y\n  wait: 2*x + 1", 5),
        ("the largest of\n  left: x - y\n  right: -x^2", 0),  # Signs and exponents are no numbers to remember.
        ("if sin(pi*(3*x + 0.5)) > 0.2 then left\notherwise right", 3),
    ],
)
def test_what_is_printed_is_counted_once(text, wanted):
    assert counted(text) == (wanted, 0)


def test_numbers_to_set_are_counted():
    assert counted("if x > 0.5 then force = 0.6*x - y + 0.2 (+- 0.3)\notherwise force = 0", PUSH) == (5, 0)


def test_listed_states_are_counted_apart():
    text = "in row 3 column 1 then right\nin row 0 columns 1 to 3; row 2 column 0 then up (80 %)\notherwise left\n"
    assert tuple(numbers_in(asap.load_rules(text, "FrozenLake-v1").given.book)) == (1, 5)


def test_the_count_is_that_of_the_text():
    """Of learned numbers: each one that stands in the text, but not the 100 %."""
    text = (Path(__file__).parents[1] / "examples/rules/cartpole_learned.txt").read_text()
    assert tuple(numbers_in(asap.load_rules(text, "CartPole-v1").given.book)) == (5, 0)


# ---- Finished seeds -----------------------------------------------------------------------------------------------


class FakeProcesses:
    def __init__(self):
        self.jobs = []

    def run(self, python, script, job, name="", core=None):
        self.jobs.append((script, job["env"], job["seed"], job["steps"]))
        return report(500.0)

    def end(self):
        pass


class FailingProcesses(FakeProcesses):
    def run(self, python, script, job, name="", core=None):
        found = super().run(python, script, job, name, core)
        if job["seed"] == 1001:
            raise Failed("no such extra")
        return found


def report(mean, **others):
    parts = {"return": mean, "sampled": mean - 1, "printed": mean - 2, "failed": 0.25, "printed_failed": 0.5}
    parts |= {"steps": 100_123, "seconds": 12.0, "numbers": 5, "states": 0, "rules": "if x > 0.5 then left\n"}
    return parts | {"curve": [[1000, mean / 2], [100_123, mean]], "versions": {"asap": "9"}, "run": "nowhere"} | others


def options(**said):
    said = {"only": ["CartPole-v1"], "system": ["asap"], "seeds": 3, "seed": 1000, "steps": None, "jobs": 1} | said
    return argparse.Namespace(**{"out": Path("out"), "rival_env": Path(".venv-sb3"), **said})


@pytest.fixture
def ran(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "rival_python", lambda folder, packages: folder)
    monkeypatch.setattr(records, "digest_of_code", lambda: "code")  # It takes a second.

    def run(**said):
        processes = FakeProcesses()
        records.run_all(options(**said), Finished(tmp_path / "records.jsonl"), processes)
        return processes.jobs

    return run


def test_finished_seeds_are_not_run_again(ran, tmp_path):
    assert [seed for *_, seed, _ in ran()] == [1000, 1001, 1002]
    assert ran() == [] and ran(jobs=2) == []
    assert ran(seeds=4) == [("records_asap.py", "CartPole-v1", 1003, 100_000)]


def test_a_line_that_was_being_written_is_run_again(ran, tmp_path):
    ran()
    file = tmp_path / "records.jsonl"
    file.write_text(file.read_text()[:-30])
    assert [seed for *_, seed, _ in ran()] == [1002]
    assert len(file.read_text().splitlines()) == 3 and ran() == []


def test_a_seed_that_fails_keeps_no_other_from_running(ran, tmp_path):
    failing = FailingProcesses()
    failed = records.run_all(options(), Finished(tmp_path / "records.jsonl"), failing)
    assert failed == ["2/3 CartPole-v1 asap seed 1001"] and len(failing.jobs) == 3
    assert [seed for *_, seed, _ in ran()] == [1001]


def test_other_steps_settings_or_code_are_run(ran, monkeypatch):
    ran(seeds=1)
    assert ran(seeds=1, steps=50) == [("records_asap.py", "CartPole-v1", 1000, 50)]
    monkeypatch.setattr(records, "digest_of_code", lambda: "another")
    assert len(ran(seeds=1)) == 1 and ran(seeds=1) == []
    monkeypatch.setitem(records_rows.ROWS, "CartPole-v1", records_rows.Row("CartPole-v1", ("-k", "1")))
    assert len(ran(seeds=1)) == 1


def test_rivals_do_not_depend_on_the_code(ran, monkeypatch):
    assert [script for script, *_ in ran(seeds=1, system=["ppo", "ars"])] == ["records_sb3.py"] * 2
    monkeypatch.setattr(records, "digest_of_code", lambda: "another")
    assert ran(seeds=1, system=["ppo", "ars"]) == []


def test_comments_are_no_other_code(tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(asap, "__file__", str(tmp_path / "__init__.py"))
    before = digest_of_code()
    (tmp_path / "a.py").write_text("# Why.\nx = 1  # How.\n")
    assert digest_of_code() == before
    (tmp_path / "a.py").write_text("x = 2\n")
    assert digest_of_code() != before


def test_every_environment_has_settings_for_every_rival():
    assert all(settings.keys() == records_rows.ENVIRONMENTS.keys() for settings in records_rivals.SETTINGS.values())
    assert all(key.endswith(":best") and not key.startswith("-") for key in records_rows.BEST)


def test_reports_are_of_fresh_seeds_and_of_one_code():
    def key(seed, code):
        return Training("CartPole-v1", "asap", seed, 100_000).key(code)

    kept = {key(999, "old"): report(1.0), key(1001, "old"): report(2.0), key(1000, "old"): report(3.0)}
    kept |= {key(1000, "new"): report(4.0)}
    found = reports_of(kept, "CartPole-v1", "asap", 100_000)
    assert (found.code, found.all("return")) == ("old", [3.0, 2.0])
    found = reports_of(kept | {key(1001, "new"): report(5.0)}, "CartPole-v1", "asap", 100_000)
    assert (found.code, found.all("return")) == ("new", [4.0, 5.0])
    assert not reports_of(kept, "CartPole-v1", "asap", 50) and not reports_of(kept, "CartPole-v1", "ppo", 100_000)


def test_a_curve_is_thinned_to_means_of_neighbours(monkeypatch):
    monkeypatch.setattr(records_asap, "POINTS", 2)
    assert records_asap.thinned([(10, 1.0), (20, None), (30, 3.0), (40, 5.0), (50, 7.0)]) == [[30, 2.0], [50, 6.0]]
    assert records_asap.thinned([(10, None)]) == []


def test_what_is_measured_of_a_policy():
    model = asap.load_rules(Path(__file__).parents[1] / "examples/rules/mountain_car.txt", "MountainCar-v0")
    job = {"env": "MountainCar-v0", "episodes": 4, "starts": 8, "threshold": -110}
    returns = records_asap.played(model, job, True)
    assert returns.shape == (8,) and records_asap.played(model, job, False).shape == (4,)
    assert records_asap.mean(returns, job) == returns[:4].mean()
    assert records_asap.failed(returns, job) == np.mean(returns < -110)


# ---- The page -----------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(monkeypatch):
    """Two seeds of two rows, a row of flags, and rivals: all numbers are made up."""
    best = records_rows.Row("Acrobot-v1", ("-k", "2"), ("-k 1", "-k 2"), True)
    for table in (records_rows.ROWS, records_rows.BEST):
        monkeypatch.setitem(table, "Acrobot-v1:best", best)
    found = {}

    def add(name, system, seed, mean, **others):
        steps = records_rows.ROWS[name].about.steps
        found[Training(name, system, seed, steps).key("c0de")] = report(mean, **others)

    add("CartPole-v1", "asap", 1000, 500.0, failed=0.0, printed=500.0)
    add("CartPole-v1", "asap", 1001, 500.0, failed=0.0, printed=500.0, numbers=4)
    add("Acrobot-v1", "asap", 1000, -90.0)
    add("Acrobot-v1", "asap", 1001, -110.0, numbers=9, states=3)
    add("Acrobot-v1:best", "asap", 1000, -70.0, failed=0.0, printed=-70.0)
    tree = {"return": -77.0, "failed": 0.125, "nodes": 63, "numbers": 63, "steps": 200_000, "seconds": 40.0}
    add("Acrobot-v1", "ppo", 1000, -82.0, tree=tree, numbers=4803)
    add("Acrobot-v1", "ars", 1000, -500.0, printed=None)
    return found


@pytest.fixture
def page(kept, tmp_path):
    return records_page.write_page(kept, tmp_path, tmp_path / "rules", plays=False).read_text()


def row(page, *starts):
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {' | '.join(starts)} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_page_has_every_seed_and_what_they_come_to(page):
    cells = row(page, "Acrobot-v1", "**ASAP, defaults**")
    assert cells[2] == "-100.0 [-110.0, -90.0]"
    assert cells[3:5] == ["-101.0", "-102.0"]
    assert cells[5:8] == ["1 of 2 >= -100", "25 %", "7 (5 to 9) and 2 (0 to 3) states"]
    assert cells[8:] == ["100,123", "12", "-90.0, -110.0"]


def test_rivals_and_published_figures_stand_beside(page):
    assert row(page, "Acrobot-v1", "PPO, stable-baselines3")[7] == "4,803"
    cells = row(page, "Acrobot-v1", "tree distilled from that PPO (VIPER-style)")
    assert cells[6:10] == ["12.5 %", "63 nodes", "200,000", "40"]
    assert row(page, "Acrobot-v1", "*published: VIPER, in SYMPOL's Table 8*")[2] == "-75.0"


def test_the_page_says_what_falls_short(page):
    cells = row(page, "Acrobot-v1, defaults")
    assert cells[1:4] == ["1 of 2", "25 %", "2.0"]
    assert cells[4].split("; ") == [
        "PPO, stable-baselines3: -82.0",
        "tree distilled from that PPO (VIPER-style): -77.0",
        "VIPER, in SYMPOL's Table 8: -75.0",
        "SYMPOL, ICLR 2025: -80.0",
    ]
    for name in ("CartPole-v1, defaults", "Acrobot-v1, best settings"):
        assert row(page, name)[1:] == ["none", "none", "nothing", "nobody"]
    assert "Not measured yet: MountainCar-v0, Pendulum-v1" in page
    assert "No settings of their own yet: LunarLander-v3, LunarLanderContinuous-v3, MountainCarContinuous-v0" in page


def test_the_page_has_the_rules_the_commands_and_what_was_tried(page):
    assert (
        "Seed 1001: 500.0, as printed 500.0, where 50 % of the starts fail. The command is `asap train CartPole-v1 --steps 100000 --seed 1001`."
        in page
    )
    assert "```\nif x > 0.5 then left\n```" in page
    assert "- Acrobot-v1: `-k 2`. Tried on tuning seeds: 2 settings.\n  - `-k 1`\n  - `-k 2`" in page


def test_the_page_is_in_plain_english(page, kept, tmp_path):
    from test_documents import shell_commands, unknown_words
    from test_plain_english import long_sentences, private_words

    assert (private_words(page), long_sentences(page)) == ([], [])
    assert [unknown_words(line) for line in shell_commands(page) if len(line.split()) > 2] == [[]] * 3


def test_a_page_of_nothing_is_written(tmp_path):
    text = records_page.write_page({}, tmp_path, tmp_path / "rules").read_text()
    assert "Not measured yet: CartPole-v1" in text


def test_all_curves_are_drawn(kept, tmp_path):
    rows = {name: reports_of(kept, name, "asap", records_rows.ROWS[name].about.steps) for name in records_rows.ROWS}
    figure = records_pictures.draw_curves({name: reports for name, reports in rows.items() if reports})
    assert [axes.get_title() for axes in figure.axes] == ["CartPole-v1", "Acrobot-v1"]
    figure.savefig(tmp_path / "curves.png", dpi=40)


# ---- Files of rules -----------------------------------------------------------------------------------------------

OLD, NEW = "if velocity > 0.01 then accelerate right\notherwise accelerate left\n", "accelerate left\n"


@pytest.fixture
def rules(tmp_path, monkeypatch):
    """`rules(mean of the new ones)` tells whether they were written over old ones that return -120."""
    spread = np.linspace(-5, 5, 50)

    def keep(mean, name="MountainCar-v0", old=OLD):
        def played(model, job, deterministic, seed):
            return spread + (-120 if model.given.book.tests else mean)

        monkeypatch.setattr(records_pictures, "played", played)
        path = records_pictures.file_of(name, tmp_path)
        path.write_text(old)
        written = records_pictures.keep_if_better(name, 1003, report(mean, rules=NEW), tmp_path)
        assert written == (path.read_text() != old)
        return path.read_text() if written else None

    return keep


def test_rules_are_replaced_by_better_ones_alone(rules):
    assert rules(-121.0) is None and rules(-120.0) is None
    text = rules(-110.0)
    assert text.startswith("# MountainCar-v0: learned, seed 1003 of docs/records.md; -110 over 100 episodes.\n")
    least = -110 - 4 * np.linspace(-5, 5, 50).std() / math.sqrt(20)
    assert f"\n# Tried by the tests: 20 episodes of MountainCar-v0 return at least {least:.4g}.\n" in text
    assert text.endswith(NEW) and asap.load_rules(text, "MountainCar-v0").given.rules.warnings == ()
    assert rules(0.0, old=text) is None  # They are these.


def test_rules_that_fail_too_often_are_no_example(rules, monkeypatch):
    new = "push left\n"
    monkeypatch.setattr(sys.modules[__name__], "NEW", new)
    assert rules(470.0, "CartPole-v1", "if pole angle > 0 then push right\notherwise push left\n") is None
    assert rules(500.0, "CartPole-v1", "if pole angle > 0 then push right\notherwise push left\n") is not None


def test_rivals_are_measured_with_what_they_print():
    """Their scripts get whole jobs: everything in them is JSON."""
    for system in ("ppo", "ars"):
        job = Training("Hopper-v5", system, 1000, 10).job(Path("runs"), "code")
        assert json.loads(json.dumps(job)) == job and (job["tree"] is None) == (system == "ars")
