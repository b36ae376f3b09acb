"""Files of rules on the command line and in Python: trained from, checked, printed and loaded again; errors are one line."""

import json
import os

import numpy as np
import pytest
from command_line import asap

from asap import ASAP, UserError, load_rules

RULES = "if pole angle + 0.2*pole angular velocity > 0.01 then push right\notherwise push left\n"
SMALL = ["--set", "learn.batch_episodes=2", "--set", "run.final_episodes=3", "--set", "run.chunk=2"]


@pytest.fixture
def rules(tmp_path) -> str:
    (tmp_path / "rules.txt").write_text(RULES)
    return str(tmp_path / "rules.txt")


def test_check_plays_and_draws_rules(rules, tmp_path, capsys, monkeypatch):
    code, out, _ = asap(["check", "CartPole-v1", "--rules", rules, "--episodes", "4", "--json"], capsys, monkeypatch)
    report = json.loads(out.splitlines()[-1])
    assert code == 0 and (report["tests"], report["skills"], report["better_than_random"]) == (1, 2, True)
    assert sum(case["share"] for case in report["cases"]) == pytest.approx(1)
    assert (tmp_path / "rules.png").read_bytes().startswith(b"\x89PNG")


def test_what_explain_prints_can_be_trained_from(rules, tmp_path, capsys, monkeypatch):
    first, again = str(tmp_path / "first"), str(tmp_path / "again")
    train = ["train", "CartPole-v1", "--steps", "2500", *SMALL]
    assert asap([*train, "--rules", rules, "--out", first], capsys, monkeypatch)[0] == 0
    code, out, _ = asap(["explain", first, "--rules"], capsys, monkeypatch)
    (tmp_path / "printed.txt").write_text(out)
    assert code == 0
    assert asap([*train, "--rules", str(tmp_path / "printed.txt"), "--out", again], capsys, monkeypatch)[0] == 0
    code, out, _ = asap(["explain", first, "--changes", "--json"], capsys, monkeypatch)
    changes = json.loads(out.splitlines()[-1])
    assert code == 0 and len(changes["planes"]) == 1 and changes["gain"]["episodes"] == 3


@pytest.mark.parametrize("kind", ["missing", "directory", "binary", "fifo", "name"])
def test_a_bad_file_is_one_line_and_exit_2(kind, tmp_path, capsys, monkeypatch):
    path = tmp_path / "bad"
    if kind == "directory":
        path.mkdir()
    elif kind == "binary":
        path.write_bytes(b"\xff\xfe\x00if")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "name":
        path.write_text(RULES.replace("pole angle", "pole angel"))
    code, _, err = asap(["train", "CartPole-v1", "--rules", str(path)], capsys, monkeypatch)
    assert code == 2 and sum(line.startswith("error: ") for line in err.splitlines()) == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("test", "features", "cure"),
    [
        ("pole angle*cart position > 0", None, "poly2"),
        ("pole angle^2 > 0.1", None, "poly2"),
        ("sin(pi*(2*pole angle)) > 0", None, "fourier"),
        ("sin(pi*(2*pole angle)) > 0", "poly2", "fourier"),
    ],
)
def test_terms_that_features_do_not_have_are_refused(test, features, cure):
    with pytest.raises(UserError, match=f"--features {cure}"):
        ASAP("CartPole-v1", rules=f"if {test} then push right\notherwise push left", features=features)


def test_without_environment_features_follow_from_the_text(tmp_path):
    text = "if x*y > 0.5 then go\notherwise stay\n"
    model = load_rules(text, observation_names=["x", "y"], action_names=["stay", "go"])
    states = np.random.default_rng(0).uniform(-2, 2, (200, 2))
    expected = (states.prod(1) > 0.5).astype(int)
    np.testing.assert_array_equal(model.predict(states, deterministic=True)[0], expected)
    model.save(tmp_path / "model.asap")
    loaded = ASAP.load(tmp_path / "model.asap")
    np.testing.assert_array_equal(loaded.predict(states, deterministic=True)[0], expected)
