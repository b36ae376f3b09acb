"""Rules are corrected from logged data alone: learning starts from them, nothing is played before it, and what was changed is told."""

import json

import numpy as np
import pytest
from command_line import asap

from asap import load_rules
from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings
from asap.envs import catalog
from asap.envs.controllers import explored, find_controller
from asap.experience.choose import choose
from asap.experience.collect import collect
from asap.experience.compiled import Compiled
from asap.learn.from_rules import start_from_rules
from asap.learn.search import Trials
from asap.policy.rules.from_policy import rules_text

RULES = """# Half right: the wall is at 0.5, and the door is above.
if x > 0.62 m then down (70 %), right (20 %)
if y > 0.8 m [keep] then right (80 %)
otherwise up (60 %)
"""
SMALL = ["--set", "run.eval_episodes=5", "--set", "run.final_episodes=20", "--set", "run.chunk=5"]


@pytest.fixture(scope="module")
def logged(tmp_path_factory) -> str:
    task, path = catalog.find("two-rooms"), tmp_path_factory.mktemp("data") / "doors.npz"
    collect(task, explored(find_controller(task, "doors"), 0.3), 0.3, 150, 1, path)
    return str(path)


@pytest.fixture
def rules(tmp_path) -> str:
    (tmp_path / "rules.txt").write_text(RULES)
    return str(tmp_path / "rules.txt")


def refuse(*_, **__):
    raise AssertionError("something was played")


def test_learning_starts_from_the_rules_and_what_was_logged(logged, tmp_path, monkeypatch):
    """No episode is played, and not even states of random play are looked at; limits are softened by the logged states."""
    settings = parse_settings(Config, ["run.episodes=100"])
    config, tasks = compose([], {"offline.data": logged, "policy.rules": RULES}, overrides=settings)
    with np.load(logged) as file:
        spread = file["observation"][:, 0].std()
    for part in ("_played", "_visited_at_random", "evaluate", "look"):
        monkeypatch.setattr(Compiled, part, refuse)
    monkeypatch.setattr(Trials, "play", refuse)
    experience = choose(config, tasks, "0", tmp_path, print)
    start, notes = start_from_rules(config, experience, 0)
    text = rules_text(start.policy, tasks.tasks, digits=2)
    assert "x > 0.62 m within" in text and "y > 0.8 m [keep]" in text and "up (60 %)" in text
    (note,) = [note for note in notes if "x > 0.62" in note]
    assert float(note.split("within ")[1].split()[0]) == pytest.approx(spread, rel=0.15)


def test_the_command_corrects_rules_and_tells_what_it_changed(logged, rules, tmp_path, capsys, monkeypatch):
    run = str(tmp_path / "run")
    train = ["train", "--offline", logged, "--rules", rules, "--episodes", "600", *SMALL, "--out", run, "--json"]
    code, out, error = asap(train, capsys, monkeypatch)
    assert code == 0 and json.loads(out.splitlines()[-1])["offline"]["data"] == logged, error
    code, out, error = asap(["explain", run, "--changes", "--json"], capsys, monkeypatch)
    changes = json.loads(out.splitlines()[-1])
    assert code == 0, error
    first, second = changes["planes"]
    assert first["given"] == "x > 0.62 m" and first["changed"] and first["corrected"] != first["given"]
    assert second["given"].startswith("y > 0.8 m [keep]") and not second["changed"]
    assert changes["gain"]["episodes"] == 20
    code, out, error = asap(["explain", run, "--rules"], capsys, monkeypatch)
    assert code == 0 and "y > 0.8 m" in out, error
    assert load_rules(out, "two-rooms").predict([0.2, 0.9, 0.9, 0.1], deterministic=True)[0] in range(4)
    assert asap(["plot", run, "--out", str(tmp_path / "pictures")], capsys, monkeypatch)[0] == 0
    assert (tmp_path / "pictures" / "changes.png").exists()
