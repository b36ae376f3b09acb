"""What earlier releases have saved is still of use: models predict the same, runs are read, and resumed or refused."""

import json
import math
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from command_line import asap as asap_here

from asap import ASAP
from asap.base.errors import RunError
from asap.runs import checkpoints

RELEASES = sorted(path.parent for path in (Path(__file__).parent / "data" / "releases").glob("*/expected.json"))
EXPECTED = {release: json.loads((release / "expected.json").read_text()) for release in RELEASES}
MODELS = [release / name for release in RELEASES for name in EXPECTED[release]["models"]]
RUNS = [release / name for release in RELEASES for name in EXPECTED[release]["runs"]]
LARGER = {"two-rooms": ["--episodes", "30"], "cartpole": ["--steps", "8000"]}
SMALLER = {"two-rooms": ["--episodes", "4"], "cartpole": ["--steps", "600"]}


def label(path: Path) -> str:
    return f"{path.parent.name} {path.name}"


@pytest.fixture
def asap(capsys, monkeypatch):
    """Exit code, stdout and stderr of `asap ARGUMENTS`, in this process; a busy machine adds no lines of progress."""
    monkeypatch.setattr("asap.runs.loggers.EVERY_SECONDS", 600.0)
    return lambda *arguments: asap_here([*map(str, arguments)], capsys, monkeypatch)


@pytest.fixture(params=RUNS, ids=label)
def recorded(request) -> Path:
    return request.param


@pytest.fixture
def run(recorded, tmp_path) -> Path:
    """A copy, so that nothing can spoil the data."""
    return shutil.copytree(recorded, tmp_path / "a copy" / recorded.name)


def digest_of(recorded: Path) -> str:
    return EXPECTED[recorded.parent]["runs"][recorded.name]["parameters_sha256"]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_there_is_data():
    assert len(MODELS) >= 2 and len(RUNS) >= 2


@pytest.mark.parametrize("path", MODELS, ids=label)
def test_a_saved_model_predicts_the_same(path):
    expected = EXPECTED[path.parent]["models"][path.name]
    observations = np.float32(expected["observations"])
    model = ASAP.load(path)
    actions, skills = model.predict(observations, deterministic=True)
    assert actions.tolist() == expected["actions"] and skills.tolist() == expected["skills"]
    assert len(set(expected["actions"])) > 1 and len(set(expected["skills"])) > 1
    action, skill = model.predict(observations[0], deterministic=True)
    assert (action, skill) == (expected["actions"][0], expected["skills"][0])


@pytest.mark.parametrize("path", MODELS, ids=label)
def test_a_saved_model_explains_and_evaluates(path):
    model = ASAP.load(path)
    assert "skill 0" in model.explain() and "skill 1" in model.explain()
    found = model.evaluate(episodes=5)
    assert math.isfinite(found["return"]) and sum(found["usage"]) == pytest.approx(1, abs=1e-3)


def test_a_run_is_explained_evaluated_and_drawn(asap, run, tmp_path):
    before = contents(run)
    code, out, err = asap("explain", run)
    assert (code, err) == (0, "") and "skill 0" in out and "skill 1" in out
    for more in ([], ["--best"]):
        code, out, err = asap("eval", run, "--episodes", 5, "--json", *more)
        assert code == 0 and all(map(math.isfinite, json.loads(out)["return"]["all"]))
        assert err.startswith("note: the best checkpoint was saved after ") if more else err == ""
    code, out, err = asap("plot", run, "--out", tmp_path / "pictures")
    assert (code, err) == (0, "") and len(list((tmp_path / "pictures").glob("*.png"))) >= 3
    assert contents(run) == before


def test_a_finished_run_is_resumed_with_its_parameters_or_refused(asap, recorded, run):
    report = resumed_or_refused(asap, run)
    assert report is None or report["parameters_sha256"] == digest_of(recorded)


def test_a_larger_budget_goes_on_or_is_refused(asap, recorded, run):
    report = resumed_or_refused(asap, run, *LARGER[recorded.name])
    assert report is None or (report["finished"] and report["parameters_sha256"] != digest_of(recorded))


def resumed_or_refused(asap, run: Path, *budget: str) -> dict | None:
    """What it reports; None for a refusal in one line, after which the checkpoints are as they were."""
    before = contents(run / "checkpoints")
    code, out, err = asap("train", "--resume", run, *budget, "--json")
    if code == 0:
        return json.loads(out.splitlines()[-1])
    assert err.startswith("error: ") and err.count("\n") == 1 and out == ""
    assert contents(run / "checkpoints") == before
    return None


def test_the_settings_of_a_run_are_read(asap, recorded, tmp_path):
    """As a file for --config: what is still a setting has the value that it had."""
    out = tmp_path / "new"
    code, _, err = asap("train", "--config", recorded / "config.toml", *SMALLER[recorded.name], "--out", out, "--json")
    assert code == 0, err
    old, new = (tomllib.loads((path / "config.toml").read_text()) for path in (recorded, out))
    for section in ("policy", "learn", "env"):
        kept = old[section].keys() & new[section].keys()
        assert {name: new[section][name] for name in kept} == {name: old[section][name] for name in kept}
    assert new["run"]["tasks"] == old["run"]["tasks"] and new["run"]["seeds"] == old["run"]["seeds"]


# ---- Policies that commit -----------------------------------------------------------------------------------------


def test_a_committed_model_with_a_critic_that_saw_no_skills_is_of_use_but_learns_no_further(tmp_path):
    """Its inputs were the observation and the task; those of the two skills are missing."""
    path = tmp_path / "committed.asap"
    ASAP("two-rooms", settings=("policy.termination=0.1", "learn.lanes=2", "learn.window=8")).learn(16).save(path)
    sealed = checkpoints.unsealed(path)
    hidden = sealed.arrays["critic.hidden"]
    path.write_bytes(checkpoints.seal(sealed.step, {**sealed.arrays, "critic.hidden": hidden[..., :-2]}, sealed.meta))
    model = ASAP.load(path)
    assert "skill 1" in model.explain() and math.isfinite(model.evaluate(episodes=2)["return"])
    with pytest.raises(RunError, match="critic did not see the skill in force .*asap transfer") as refused:
        model.learn(32)
    assert "\n" not in str(refused.value)
