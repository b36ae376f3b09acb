"""Learning from logged data reaches what it promises, stops and goes on to the same bits, and is a run like any
other."""

import json
import subprocess
import sys

import numpy as np
import pytest

from asap import ASAP
from asap.base.spec import TaskSet
from asap.cli.learning import create_run
from asap.cli.reading import estimate_model
from asap.compose import compose, read_run
from asap.config.schema import Config
from asap.config.toml import parse_settings
from asap.envs import catalog
from asap.envs.controllers import explored, find_controller
from asap.experience.collect import collect
from asap.learn.state import parameter_digest
from asap.model.training import train_run
from asap.runs.directory import Run
from asap.runs.signals import StopRequest

SETTINGS = ["run.eval_episodes=50", "run.final_episodes=200", "run.chunk=10", "run.seeds=2"]
BY_RETURNS = ["learn.learner=likelihood", "offline.weights=returns"]  # Said, so that nothing has to be tried first.


Composed = tuple[Config, TaskSet]


def settings(data, *more: str) -> Composed:
    return compose([], {"offline.data": str(data)}, overrides=parse_settings(Config, [*SETTINGS, *more]))


def train(composed: Composed, path, stop: StopRequest | None = None, callbacks=()) -> dict:
    run = create_run(*composed, str(path), "")
    return train_run(run, *composed, stop or StopRequest(), callbacks)[1].summary(str(path))


def data(folder, controller: str, epsilon: float, episodes: int, seed: int = 0):
    task, path = catalog.find("two-rooms"), folder / f"{controller}-{epsilon}.npz"
    collect(task, explored(find_controller(task, controller), epsilon), epsilon, episodes, seed, path)
    return path


@pytest.fixture(scope="module")
def exploring(tmp_path_factory):
    """Through the doors with seven random actions of ten: it always succeeds, and covers the rooms."""
    return data(tmp_path_factory.mktemp("data ü"), "doors", 0.7, 2000, seed=1)


@pytest.fixture(scope="module")
def learned(exploring, tmp_path_factory):
    return train(settings(exploring, *BY_RETURNS, "run.episodes=14000"), tmp_path_factory.mktemp("runs ü") / "run")


def test_likelihood_comes_near_the_behaviour(learned):
    """The behaviour succeeds always, the start in 7 % of the episodes."""
    assert learned["learner"] == "likelihood" and learned["task"] == "two-rooms"
    success = learned["per_task"]["two-rooms"]["success"]
    assert np.mean(success) > 0.8 and min(success) > 0.7, learned["per_task"]
    assert min(learned["episodes"]) >= 14000 and learned["finished"]


def test_a_deterministic_controller_is_read_off(tmp_path):
    """What K = 2 planes can say of the doors: far beyond the start, from data without probabilities of other
    actions."""
    report = train(
        settings(data(tmp_path, "doors", 0.0, 1000), "policy.hyperplanes=2", "run.episodes=20000"), tmp_path / "run"
    )
    assert report["learner"] == "likelihood"
    assert np.mean(report["per_task"]["two-rooms"]["success"]) > 0.3, report["per_task"]
    events = [event for event in Run.open(tmp_path / "run").events() if "objective" in event]
    assert events[0]["objective"][0] < -1.0 and np.mean(events[-1]["objective"]) > -0.6


def test_importance_weights_improve_on_random_play(tmp_path):
    """From a random walk's data alone, where 7 % of the episodes succeed; a wrong sign falls to nothing."""
    composed = settings(data(tmp_path, "random", 0.0, 1000), "learn.learner=importance", "run.episodes=6000")
    report = train(composed, tmp_path / "run")
    assert np.mean(report["per_task"]["two-rooms"]["success"]) > 0.15, report["per_task"]
    assert all(0.01 < share < 1 for share in report["offline"]["ess"])


def test_stopped_and_resumed_gives_the_same_bits(learned, exploring, tmp_path):
    path = tmp_path / "run"
    composed = settings(exploring, *BY_RETURNS, "run.episodes=14000")
    for update in (20, 50):
        stop = StopRequest()

        def look(report):
            stop.requested = 15 if report.update >= update else None

        assert not train(composed, path, stop, [look])["finished"]
        composed = read_run(Run.open(path))[:2]
    resumed = train(composed, path)
    assert resumed["finished"] and resumed["parameters_sha256"] == learned["parameters_sha256"]
    assert resumed["return"] == learned["return"]


def test_it_is_a_run_like_any_other(learned):
    explained = subprocess.run(
        [sys.executable, "-m", "asap", "explain", learned["run"]], capture_output=True, text=True, timeout=120
    )
    assert explained.returncode == 0 and "skill 1" in explained.stdout, explained.stderr


def test_a_saved_model_is_used_without_its_data(learned, tmp_path, monkeypatch):
    ASAP.load(learned["run"]).save(tmp_path / "model.asap")
    monkeypatch.setattr("asap.experience.logged.Dataset", lambda *_: pytest.fail("the data were opened"))
    loaded = ASAP.load(tmp_path / "model.asap")
    assert parameter_digest(loaded.policies) == learned["parameters_sha256"]
    assert loaded.evaluate(episodes=5)["success"] > 0


def test_data_are_held_against_playing(learned, capsys):
    estimate_model(ASAP.load(learned["run"]), learned["run"], learned["offline"]["data"], 500, 0, as_json=True)
    for row in json.loads(capsys.readouterr().out)["seeds"]:
        assert 1 < row["ess"] < 2000 and abs(row["estimate"]["discounted"] - row["played"]["discounted"]) < 25


@pytest.mark.parametrize(("fewest", "trusted"), [(1, True), (10**6, False)])
def test_an_estimate_from_too_few_episodes_says_that_its_interval_is_too_narrow(
    learned, capsys, monkeypatch, fewest, trusted
):
    monkeypatch.setattr("asap.experience.off_policy.FEWEST", fewest)
    data = learned["offline"]["data"]
    for as_json in (True, False):
        estimate_model(ASAP.load(learned["run"]), learned["run"], data, 5, 0, as_json)
    report, *words = capsys.readouterr().out.splitlines()
    for row, line in zip(json.loads(report)["seeds"], words, strict=True):
        assert row["trusted"] is trusted and ("far too narrow" in line) is not trusted
        assert row["note"] is None if trusted else "far too narrow" in row["note"]


def test_other_data_under_the_same_name_are_refused(exploring, tmp_path):
    copy = tmp_path / "data.npz"
    copy.write_bytes(exploring.read_bytes())
    composed = settings(copy, *BY_RETURNS, "run.episodes=100")
    collect(catalog.find("two-rooms"), find_controller(catalog.find("two-rooms"), "random"), 0.0, 20, 0, copy)
    with pytest.raises(Exception, match="the file has changed since the run began"):
        train(composed, tmp_path / "run")


def test_hopeless_weights_stop_the_run(exploring, tmp_path, monkeypatch):
    """49: the line names the effective sample size, and what to do."""
    monkeypatch.setattr("asap.learn.loop.WEIGHTLESS", 0.9)
    monkeypatch.setattr("asap.learn.loop.MOST_WEIGHTLESS", 2)
    with pytest.raises(
        Exception,
        match="offline: effective sample size below 90% of the steps in 2 successive chunks .got .*; raise offline.anchor",
    ):
        train(settings(exploring, "learn.learner=importance"), tmp_path / "run")
