"""The commands on a run of a foreign environment: train, resume, eval, explain, plot."""

import json
import re

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
    assert (
        code == 0
        and "pole angular velocity" in out
        and " then push " in out
        and "with the rounded numbers above" in out
    )
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


def teacher():
    class Upright:
        def predict(self, obs, state=None, episode_start=None, deterministic=True):
            return int(obs[2] + 0.3 * obs[3] + 0.05 * obs[1] + 0.02 * obs[0] > 0), None

    return Upright()
