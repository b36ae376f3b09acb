"""The commands on a run of a Gymnasium environment: train, resume, eval, explain, plot."""

import json
import os
import re
import sys

import pytest
from command_line import asap

TINY = ["--steps", "1500", "--seeds", "2", "--set", "run.candidates=16", "--set", "run.final_episodes=5"]


@pytest.fixture(scope="module")
def module_asap():
    """As the fixtures of one test, for the whole file."""
    with pytest.MonkeyPatch.context() as patch:
        yield lambda arguments, capsys: asap(arguments, capsys, patch)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    return str(tmp_path_factory.mktemp("runs") / "cart pole")


def test_train_reports_in_words_and_json(run, module_asap, capsys):
    code, out, err = module_asap(["train", "CartPole-v1", *TINY, "--out", run], capsys)
    assert code == 0 and re.search(r"^solved {12}[012] of 2 seeds \(return at least 475\.0\)", out, re.MULTILINE)
    assert "references" not in out and "success" not in out
    code, out, _ = module_asap(["train", "--resume", run, "--steps", "2500", "--json"], capsys)
    report = json.loads(out.splitlines()[-1])
    assert code == 0 and report["finished"] and report["reference"] is None and report["success"] is None
    assert report["threshold"] == 475 and len(report["return"]["all"]) == 2
    assert 2 * 2500 <= report["env_steps"] < 2 * 4000


def test_eval_explain_and_plot(run, module_asap, capsys):
    code, out, _ = module_asap(["eval", run, "--episodes", "10", "--json"], capsys)
    sure = json.loads(out.splitlines()[-1])["return"]["all"]
    assert code == 0 and len(sure) == 2
    code, out, _ = module_asap(["eval", run, "--episodes", "10", "--stochastic", "--workers", "2"], capsys)
    assert code == 0 and out.startswith("CartPole-v1: return ") and "success" not in out
    code, out, _ = module_asap(["explain", run, "--seed", "1"], capsys)
    assert code == 0 and "pole angular velocity" in out and " then push " in out and " as printed" in out
    code, out, _ = module_asap(["explain", run, "--json"], capsys)
    assert code == 0 and json.loads(out.splitlines()[-1])["task"] == "CartPole-v1"
    code, out, _ = module_asap(["plot", run, "--json"], capsys)
    assert code == 0 and set(json.loads(out.splitlines()[-1])["pictures"]) == {"partition", "learning", "usage"}


def test_check_and_distill_answer_too(module_asap, capsys, tmp_path):
    code, out, _ = module_asap(["check", "CartPole-v1", "--episodes", "2", "--json"], capsys)
    assert code == 0 and json.loads(out.splitlines()[-1])
    path = str(tmp_path / "rules.asap")
    code, out, _ = module_asap(
        ["distill", "test_hosted_commands:teacher", "CartPole-v1", "--episodes", "4", "--out", path, "--json"], capsys
    )
    report = json.loads(out.splitlines()[-1])
    assert code == 0 and report["student_return"] > 0.5 * report["teacher_return"] > 200


TANKS = """
from own_envs import Walk

class TwoTanks(Walk): ...
"""


def test_a_run_of_an_own_class_has_a_plain_name_and_says_where_its_module_is_missing(
    tmp_path, module_asap, capsys, monkeypatch
):
    (tmp_path / "tanks.py").write_text(TANKS)
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    tiny = ["--steps", "60", "--set", "run.candidates=1", "--set", "run.final_episodes=1"]
    code, out, _ = module_asap(["train", "tanks:TwoTanks", *tiny], capsys)
    assert code == 0 and os.listdir("runs") == ["tanks-TwoTanks-001"]
    code, out, _ = module_asap(["train", "--resume", "runs/tanks-TwoTanks-001", "--steps", "90", "--json"], capsys)
    assert code == 0 and json.loads(out.splitlines()[-1])["finished"]
    code, out, _ = module_asap(["eval", "runs/tanks-TwoTanks-001", "--episodes", "1"], capsys)
    assert code == 0 and out.startswith("tanks:TwoTanks: return ")
    code, *_ = module_asap(["transfer", "runs/tanks-TwoTanks-001", "tanks:TwoTanks", "--episodes", "1"], capsys)
    assert code == 0 and sorted(os.listdir("runs"))[1:] == ["tanks-TwoTanks-from-tanks-TwoTanks-001-001"]
    monkeypatch.chdir("other")
    sys.modules.pop("tanks")
    sys.path[:] = [folder for folder in sys.path if folder != str(tmp_path)]
    code, _, err = module_asap(["eval", "../runs/tanks-TwoTanks-001"], capsys)
    cure = "run in the folder that has tanks.py, put that folder on PYTHONPATH, or name another: --env NAME"
    assert code == 2 and f"names 'tanks:TwoTanks', whose module 'tanks' is not found here; {cure}" in err
    assert len(err.splitlines()) == 1


def test_without_a_task_or_with_a_wrong_option_the_way_to_help_is_shown(module_asap, capsys):
    code, _, err = module_asap(["train"], capsys)
    assert (
        code == 2 and "striker-r3; an id of Gymnasium; or your own by module:function (see `asap train --help`)" in err
    )
    code, _, err = module_asap(["eval", "--nope"], capsys)
    assert code == 2 and err == "error: usage: No such option: --nope; see `asap eval --help`\n"
    code, _, err = module_asap(["--nope"], capsys)
    assert code == 2 and err == "error: usage: No such option: --nope; see `asap --help`\n"


def teacher():
    class Upright:
        def predict(self, obs, state=None, episode_start=None, deterministic=True):
            return int(obs[2] + 0.3 * obs[3] + 0.05 * obs[1] + 0.02 * obs[0] > 0), None

    return Upright()
