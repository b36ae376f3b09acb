"""Environments that misbehave, as the user of the command line sees it: one line, nothing lost, and a way to see it
again."""

import json
import os
import shlex
import signal
import threading
import time

import gymnasium
import numpy as np
import pytest
from command_line import asap
from own_envs import Walk

from asap.runs.directory import Run

TINY = ["--steps", "400", "--set", "run.candidates=0", "--set", "run.final_episodes=2", "--set", "learn.batch_steps=64"]


class Late(Walk):
    """Well for some episodes; then an observation is not a number."""

    resets = 0

    def reset(self, **arguments):
        Late.resets += 1
        return super().reset(**arguments)

    def spoil(self, answer):
        return (np.array([1, np.nan, 1], np.float32), *answer[1:]) if Late.resets > 20 else answer


class Slow(Walk):
    def step(self, action):
        time.sleep(0.005)
        return super().step(action)


class Drifting(Walk):
    """The walk gets steeper from one episode to the next, whatever the seed."""

    resets = 0

    def reset(self, **arguments):
        Drifting.resets += 1
        return super().reset(**arguments)

    def observe(self):
        return super().observe() + np.float32(Drifting.resets > 40)


@pytest.fixture
def run_asap(capsys, monkeypatch):
    return lambda *arguments: asap(arguments, capsys, monkeypatch)


@pytest.fixture
def workers_find_the_tests(monkeypatch):
    monkeypatch.syspath_prepend(os.path.dirname(__file__))


def errors(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("error: ")]


@pytest.mark.parametrize(
    "arguments, code, must_contain",
    [
        (["CartPol-v1"], 2, ["CartPol-v1", "CartPole-v1"]),  # 21
        (
            ["CartPole-v1", "--skills", "gaussian"],
            2,
            ["policy.skills: skills=gaussian needs Box actions (got Discrete(2))"],
        ),  # 18
        (
            ["Pendulum-v1", "--skills", "constant"],
            2,
            ["policy.skills: skills=constant needs Discrete actions (got Box(", "--skills gaussian"],
        ),
        (["Blackjack-v1"], 2, ["observation_space", "Tuple"]),  # 13
        (["CartPole-v1", "--workers", "many"], 2, ["--workers: must be a number or ray (got many)"]),
        (["CartPole-v1", "--workers", "100000"], 2, ["--workers: must be from 1 to"]),
        (["two-rooms", "--workers", "2"], 2, ["--workers: two-rooms is compiled and needs none (got 2)"]),
        (["CartPole-v1", "two-rooms"], 2, ["tasks: 'two-rooms' is a compiled task of ours"]),
        (
            ["CartPole-v1", "--learner", "natural", "--features", "network"],
            2,
            ["learn.learner: does not learn networks (got natural)"],
        ),
        (
            ["CartPole-v1", "--learner", "reinforce", "--skills", "network", "--set", "learn.baseline=mean"],
            2,
            ["learn.baseline: reinforce learns networks with the baseline running alone (got mean)"],
        ),
        (["CartPole-v1", "--learner", "likelihood"], 2, ["learn.learner: learns from logged data (got likelihood)"]),
        (["CartPole-v1", "--features", "poly9"], 2, ["features: unknown feature map (got poly9)"]),
        (["CartPole-v1", "--features", "network", "--set", "policy.hidden=[]"], 2, ["policy.hidden"]),
        (["CartPole-v1", "--set", "env.options=[1]"], 2, ["env.options: must be a JSON object"]),
        (["CartPole-v1", "--set", 'env.options={"gravitas": 1}'], 2, ["gravitas"]),
        (["own_envs:nothing"], 2, ["own_envs", "nothing"]),
        (["CartPole-v1", "--set", "run.source=runs/other"], 2, ["run.source: no such run (got runs/other)"]),
        (["CartPole-v1", "--step-timeout", "0"], 2, ["env.step_timeout"]),
        (["CartPole-v1", "--reward-scale", "nan"], 2, ["env.reward_scale"]),
        (["CartPole-v1", "--max-steps", "0"], 2, ["env.max_steps"]),
    ],
)
def test_what_cannot_be_is_refused_before_a_run_is_made(arguments, code, must_contain, run_asap, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found, _, stderr = run_asap("train", *arguments)
    assert found == code and len(errors(stderr)) == 1 and "Traceback" not in stderr
    assert all(text in stderr for text in must_contain), stderr
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").rglob("checkpoints/*"))


def test_a_number_that_is_none_ends_the_run_and_loses_nothing(run_asap, tmp_path, monkeypatch):
    """Bad input 1, in the middle of a run; also the line in the log, and the command that shows it again."""
    monkeypatch.chdir(tmp_path)
    Late.resets = 0
    code, _, stderr = run_asap("train", "test_bad_environments:Late", *TINY, "--out", "run")
    assert code == 1 and len(errors(stderr)) == 1
    line = errors(stderr)[0]
    assert "env.step: obs[1] is nan at episode" in line and "step 7 (seed " in line
    run = Run.open(tmp_path / "run")
    assert run.latest() is not None  # It is saved once a second; how far it has got by then is up to the machine.
    logged = [json.loads(text) for text in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    assert line.removeprefix("error: ") in [event.get("message") for event in logged]
    again = shlex.split(line.partition("reproduce it with: asap ")[2])
    code, _, stderr = run_asap(*again)
    assert code == 1 and "as recorded" in stderr and "obs[1] is nan" in stderr


def test_a_killed_worker_costs_time_and_not_the_run(run_asap, tmp_path, monkeypatch, workers_find_the_tests):  # 22
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "test_bad_environments:Slow", *TINY, "--json"]
    _, alone, _ = run_asap(*arguments, "--out", "alone")

    def kill() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            time.sleep(0.5)
            children = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _parent(int(pid)) == os.getpid()]
            if children:
                os.kill(children[-1], signal.SIGKILL)
                return

    killer = threading.Thread(target=kill)
    killer.start()
    code, out, stderr = run_asap(*arguments, "--out", "killed", "--workers", "2")
    killer.join()
    assert code == 0 and "died (signal 9)" in stderr and "restarted" in stderr
    digests = [json.loads(text.splitlines()[-1])["parameters_sha256"] for text in (alone, out)]
    assert digests[0] == digests[1]


def _parent(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def test_drift_is_remarked_and_no_error(run_asap, tmp_path, monkeypatch):  # 38
    monkeypatch.chdir(tmp_path)
    Drifting.resets = 0
    settings = ["--set", "run.candidates=0", "--set", "run.final_episodes=2", "--set", "learn.batch_steps=24"]
    code, _, stderr = run_asap(
        "train", "test_bad_environments:Drifting", "--steps", "1400", *settings, "--check-determinism"
    )
    assert code == 0 and "the environment drifts" in stderr


def test_an_environment_that_nobody_seeds_is_remarked(run_asap, tmp_path, monkeypatch):  # 31
    monkeypatch.chdir(tmp_path)
    code, _, stderr = run_asap("train", "test_bad_environments:unseeded", *TINY, "--check-determinism")
    assert code == 0 and "gave two different digests for the same seed" in stderr


def unseeded() -> gymnasium.Env:
    class Unseeded(Walk):
        def reset(self, **arguments):
            return super().reset(seed=time.monotonic_ns() % 2**31)

    return Unseeded()
