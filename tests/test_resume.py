"""The same command gives the same bits, also when it was killed and resumed, at any moment."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import asap

from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings, to_toml
from asap.model.files import are_equal
from asap.model.training import train_run
from asap.runs.directory import Run
from asap.runs.events import Curve
from asap.runs.signals import StopRequest

# Small enough to train in seconds, with a chunk per update so that there are many moments to be killed at.
SETTINGS = ["learn.lanes=8", "learn.window=32", "run.chunk=2", "run.eval_episodes=4", "run.final_episodes=8"]
TRAIN = [
    "train",
    "two-rooms",
    "--seeds",
    "2",
    "--episodes",
    "120",
    *(part for item in SETTINGS for part in ("--set", item)),
    "--json",
]


def command(arguments: list[str]) -> list[str]:
    # A saved checkpoint after every chunk, where a user's run has one per second.
    script = "import asap.learn.loop, asap.cli; asap.learn.loop.SAVE_EVERY_SECONDS = 0.0; asap.cli.main()"
    return [sys.executable, "-c", script, *arguments]


def run_to_end(arguments: list[str]) -> dict:
    done = subprocess.run(command(arguments), capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture
def run_here(capsys, monkeypatch):
    """The same in this process."""

    def run(arguments: list[str]) -> dict:
        code, out, err = asap(arguments, capsys, monkeypatch)
        assert code == 0, err
        return json.loads(out.splitlines()[-1])

    return run


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> dict:
    return run_to_end([*TRAIN, "--out", str(tmp_path_factory.mktemp("whole run ü") / "run")])


def test_same_command_twice_gives_the_same_bits(uninterrupted, tmp_path):
    again = run_to_end([*TRAIN, "--out", str(tmp_path / "-again")])
    assert again["parameters_sha256"] == uninterrupted["parameters_sha256"]
    assert again["return"] == uninterrupted["return"]
    assert again["episodes_to_near_optimal"] == uninterrupted["episodes_to_near_optimal"]


def test_another_seed_gives_other_bits(uninterrupted, run_here, tmp_path):
    other = run_here([*TRAIN, "--out", str(tmp_path / "run"), "--seed", "5"])
    assert other["parameters_sha256"] != uninterrupted["parameters_sha256"]


def num_updates(run: Path) -> int:
    events = run / "events.jsonl"
    return events.read_text().count('"kind": "update"') if events.exists() else 0


def wait_for_updates(run: Path, more: int, process: subprocess.Popen) -> None:
    """Until the event log has so many more of them, or the process has ended."""
    wanted = num_updates(run) + more
    while process.poll() is None and num_updates(run) < wanted:
        time.sleep(0.01)


# SIGTERM stops as SIGINT does, and test_stopping.py sends it in every phase.
SENT = [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGINT]


@pytest.mark.parametrize("sent", SENT)
def test_killed_and_resumed_gives_the_same_bits(sent, uninterrupted, tmp_path):
    run = tmp_path / "run ü space"
    chance = random.Random(int(sent))
    arguments = [*TRAIN, "--out", str(run)]
    for more in (3, 5):
        with subprocess.Popen(command(arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            wait_for_updates(run, more, process)
            time.sleep(chance.random() * 0.05)
            process.send_signal(sent)
            code = process.wait(timeout=60)
        assert code in {signal.SIGKILL: (-9,), signal.SIGTERM: (143, 0), signal.SIGINT: (130, 0)}[sent]
        arguments = ["train", "--resume", str(run), "--json"]
    resumed = run_to_end(arguments)
    assert resumed["parameters_sha256"] == uninterrupted["parameters_sha256"]
    assert resumed["return"] == uninterrupted["return"]
    assert resumed["episodes_to_near_optimal"] == uninterrupted["episodes_to_near_optimal"]


def test_a_finished_run_says_the_same_again(uninterrupted, run_here):
    again = run_here(["train", "--resume", uninterrupted["run"], "--json"])
    assert again["parameters_sha256"] == uninterrupted["parameters_sha256"]
    assert again["finished"]


def test_a_larger_budget_is_written_down(uninterrupted, run_here, tmp_path):
    import shutil

    run = tmp_path / "copy"
    shutil.copytree(uninterrupted["run"], run)
    longer = run_here(["train", "--resume", str(run), "--episodes", "150", "--json"])
    assert min(longer["episodes"]) >= 150 and "episodes = 150" in (run / "config.toml").read_text()
    again = run_here(["train", "--resume", str(run), "--json"])
    assert again["parameters_sha256"] == longer["parameters_sha256"]


SHORT = "learn.batch_steps=32 run.candidates=0 run.eval_episodes=2 run.final_episodes=2 learn.critic_features=4".split()


def test_the_curve_of_seeds_that_stop_apart_is_the_same_after_a_resume(tmp_path):
    """One seed is out of budget and the other is not when the run is stopped."""
    config, tasks = compose(
        ["CartPole-v1"], {"run.seeds": 2, "run.steps": 330}, overrides=parse_settings(Config, SHORT)
    )
    whole, stopped = (Run.create(tmp_path / name, to_toml(config)) for name in ("whole", "stopped"))
    train_run(whole, config, tasks, StopRequest(), evaluates=False)
    reports = []

    def stop_at_the_first_that_is_done(report):
        reports.append(report)
        return all(report.event["active"])

    train_run(stopped, config, tasks, StopRequest(), [stop_at_the_first_that_is_done], evaluates=False)
    assert sorted(reports[-1].event["active"]) == [False, True]
    train_run(stopped, config, tasks, StopRequest(), [reports.append], evaluates=False)
    assert np.isfinite(reports[-1].returns).all() and np.isfinite(reports[-1].lengths).all()
    curves = [Curve.read(run) for run in (whole, stopped)]
    assert len(curves[0].episodes) > len(reports[:-1]) > 1
    for name in ("episodes", "returns", "success", "usage", "active"):
        np.testing.assert_array_equal(*(getattr(curve, name) for curve in curves))
    assert whole.best().meta == stopped.best().meta and are_equal(whole.best().arrays, stopped.best().arrays)
