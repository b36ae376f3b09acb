"""The first Ctrl-C or SIGTERM asks, a second one quits at once, and the handlers go back (bad inputs 64, 65). Whatever is
under way then ends within seconds, is saved, and resumes to the same bits."""

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from own_envs import Walk

from asap import ASAP
from asap.base.episodes import EVALUATION, SEARCH, TRAINING, EpisodeId
from asap.base.errors import Interrupted, QuitNow
from asap.cli.learning import leave_if_stopped
from asap.compose import compose
from asap.config.toml import to_toml
from asap.model.training import Training, train, train_run
from asap.runs import signals
from asap.runs.directory import Run
from asap.runs.events import InMemory
from asap.runs.signals import StopRequest

TESTS = Path(__file__).parent


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_first_signal_only_asks_and_is_answered_at_once(number, code, capsys):
    with StopRequest() as stop:
        stop.check()
        assert stop.requested is None and stop.exit_code == 0
        signal.raise_signal(number)
        assert stop.requested == number and stop.exit_code == code
        assert capsys.readouterr() == ("", "note: stopping; press Ctrl-C again to quit now\n")
        with pytest.raises(Interrupted):
            stop.check()
    assert stop.requested == number and stop.exit_code == code


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_second_one_of_any_kind_is_immediate(first, second, monkeypatch):
    monkeypatch.setattr(signals, "TOGETHER", 0.0)
    with pytest.raises(QuitNow), StopRequest() as stop:
        signal.raise_signal(first)
        signal.raise_signal(second)
    assert stop.exit_code == 128 + first


def test_two_that_come_together_are_one():
    """`timeout` of the shell sends the signal to the process and to its group."""
    try:
        with StopRequest() as stop:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
    except KeyboardInterrupt:  # It would end pytest itself.
        pytest.fail("it is the same wish")
    assert stop.exit_code == 143


@pytest.mark.parametrize("number, leaves", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)])
def test_work_that_was_given_up_leaves_as_the_signal_says(number, leaves):
    with pytest.raises(leaves) as left, StopRequest() as stop:
        signal.raise_signal(number)
        stop.check()
    assert leaves is KeyboardInterrupt or left.value.code == 143


def test_the_handlers_go_back_even_after_an_error():
    def mine(number, frame):
        pass

    before = signal.signal(signal.SIGTERM, mine), signal.getsignal(signal.SIGINT)
    try:
        with pytest.raises(ZeroDivisionError), StopRequest():
            assert signal.getsignal(signal.SIGTERM) is not mine
            1 / 0
        assert signal.getsignal(signal.SIGTERM) is mine and signal.getsignal(signal.SIGINT) is before[1]
    finally:
        signal.signal(signal.SIGTERM, before[0])


def test_requests_nest():
    with StopRequest() as outer:
        with StopRequest() as inner:
            signal.raise_signal(signal.SIGTERM)
        assert inner.requested and not outer.requested
        signal.raise_signal(signal.SIGINT)
    assert outer.exit_code == 130


def test_outside_the_main_thread_nothing_is_installed():
    before, seen = signal.getsignal(signal.SIGINT), []

    def work():
        with StopRequest() as stop:
            seen.append((stop.requested, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


LOOP = """
import sys, time
from asap.runs.signals import StopRequest
with StopRequest() as stop:
    print("ready", flush=True)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        time.sleep(0.01)
        if stop.requested and sys.argv[1] == "obedient":
            print("saved", flush=True)
            sys.exit(stop.exit_code)
        if stop.requested:
            print("asked", flush=True)
            time.sleep(20)
"""


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_process_that_is_asked_saves_and_reports_the_signal(number, code):
    with subprocess.Popen([sys.executable, "-c", LOOP, "obedient"], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        assert child.communicate(timeout=10)[0] == "saved\n"
    assert child.returncode == code


def test_a_busy_process_quits_at_the_second_interrupt():
    """Of a program of the user's own; it may catch what is raised."""
    command = [sys.executable, "-c", LOOP, "busy"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "asked\n"
        time.sleep(1.2 * signals.TOGETHER)
        child.send_signal(signal.SIGINT)
        assert child.communicate(timeout=5)[1].endswith("QuitNow\n")
    assert child.returncode == 1


# ---- A command that hangs


HANGS = """
import hashlib, sys, time
from asap.runs.signals import StopRequest
with StopRequest(*map(float, sys.argv[2:])):
    print("ready", flush=True)
    if sys.argv[1] == "sleep":
        time.sleep(60)
    else:  # One call in C, within which Python runs no signal handlers.
        hashlib.pbkdf2_hmac("sha256", b"", b"", 10**9)
"""


@pytest.mark.parametrize("where", ["sleep", "C"])
def test_a_command_that_hangs_ends_when_its_patience_does(where):
    with subprocess.Popen(
        [sys.executable, "-c", HANGS, where, "0.5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        assert child.stderr.readline() == "note: stopping; press Ctrl-C again to quit now\n"
        assert child.communicate(timeout=10)[1] == ("note: quit at once; the last checkpoint is intact\n")
    assert child.returncode == 143


def test_a_program_of_the_users_own_is_answered_during_a_call_in_c():
    with subprocess.Popen(
        [sys.executable, "-c", HANGS, "C"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "ready\n"
        end = threading.Timer(10, child.kill)
        end.start()
        child.send_signal(signal.SIGINT)
        assert child.stderr.readline() == "note: stopping; press Ctrl-C again to quit now\n"
        assert child.poll() is None  # It is the user's to end.
        end.cancel()
        child.kill()


def test_two_interrupts_during_one_call_in_c_quit_after_it(monkeypatch):
    """Python runs one handler for both."""
    monkeypatch.setattr(signals, "TOGETHER", 0.0)
    for seconds in (0.1, 0.2):
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(QuitNow), StopRequest():
        hashlib.pbkdf2_hmac("sha256", b"", b"", 3_000_000)


@pytest.mark.parametrize("second", [signal.SIGINT, signal.SIGTERM])
def test_a_command_that_hangs_ends_at_once_when_it_is_asked_again(second):
    with subprocess.Popen(
        [sys.executable, "-c", HANGS, "C", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        assert child.stderr.readline() == "note: stopping; press Ctrl-C again to quit now\n"
        time.sleep(1.2 * signals.TOGETHER)
        child.send_signal(second)
        assert child.communicate(timeout=5)[1] == ""
    assert child.returncode == 128 + second


@pytest.mark.parametrize("patience", [0.1, None])
def test_a_patience_that_was_not_needed_leaves_nothing_behind(patience):
    before, threads = signal.set_wakeup_fd(-1), threading.active_count()
    signal.set_wakeup_fd(before)
    with StopRequest(patience):
        assert threading.active_count() == threads + 1
    deadline = time.monotonic() + 5
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == threads
    assert signal.set_wakeup_fd(before) == before


# ---- A training, in each of its phases


SMALL = {
    "run.steps": 700,
    "run.candidates": 16,
    "run.search_share": 0.3,
    "run.eval_episodes": 2,
    "run.final_episodes": 6,
    "learn.batch_steps": 96,
    "learn.critic_features": 8,
    "policy.hyperplanes": 1,
    "env.max_steps": 12,
}
SIGNALLED = {  # The first two episodes of evaluation are looked at before the first update.
    "search": EpisodeId(0, SEARCH, 3),
    "training": EpisodeId(0, TRAINING, 40),
    "evaluation": EpisodeId(0, EVALUATION, 4),
}


def composed(tmp_path, phase: str, number: int = signal.SIGTERM, hangs: bool = False):
    options = {
        "driver": os.getpid(),
        "number": int(number),
        "seed": SIGNALLED[phase].reset_seed,
        "once": str(tmp_path / "once"),
        "hangs": hangs,
    }
    return compose(["worker_envs:signals"], {**SMALL, "env.options": json.dumps(options)})


def trained(config, tasks, path: Path, workers: int):
    run = Run.create_or_continue(path, to_toml(config))
    with StopRequest() as stop:
        return train_run(run, config, tasks, stop, workers=str(workers))[1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A training that nobody has stopped."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "once").touch()
    return trained(*composed(folder, "search"), folder / "run", 0)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("phase", SIGNALLED)
def test_a_training_stops_in_every_phase_and_resumes_to_the_same_bits(phase, workers, whole, tmp_path):
    config, tasks = composed(tmp_path, phase)
    began = time.monotonic()
    if phase == "search":  # Nothing to save yet: it begins again.
        with pytest.raises(SystemExit) as left:
            trained(config, tasks, tmp_path / "run", workers)
        assert left.value.code == 143
    else:
        stopped = trained(config, tasks, tmp_path / "run", workers)
        assert stopped.evaluation is None and stopped.summary("")["return"] is None
        assert stopped.finished == (phase == "evaluation")
        assert (Run.open(tmp_path / "run").latest().step > 0) == (len(stopped.curve.episodes) > 1)
    assert (tmp_path / "once").exists() and time.monotonic() - began < 60
    resumed = trained(config, tasks, tmp_path / "run", workers)
    assert resumed.finished and resumed.parameters_sha256 == whole.parameters_sha256
    assert np.array_equal(resumed.evaluation.returns, whole.evaluation.returns)
    assert np.array_equal(resumed.curve.returns, whole.curve.returns)
    assert np.array_equal(resumed.curve.episodes, whole.curve.episodes)


def test_a_worker_that_hangs_does_not_hold_up_the_stop(whole, tmp_path):
    config, tasks = composed(tmp_path, "training", hangs=True)
    began = time.monotonic()
    stopped = trained(config, tasks, tmp_path / "run", 1)
    assert not stopped.finished and (tmp_path / "once").exists() and time.monotonic() - began < 20
    assert trained(config, tasks, tmp_path / "run", 0).parameters_sha256 == whole.parameters_sha256


def test_a_model_that_is_stopped_in_the_search_is_as_it_was(tmp_path):
    config, tasks = composed(tmp_path, "search", signal.SIGINT)
    model = ASAP.of(config, tasks)
    before = model.policy.partition.beta.copy()
    with pytest.raises(KeyboardInterrupt):
        model.learn(700)
    assert np.array_equal(model.policy.partition.beta, before) and model.result is None
    model.learn(700)
    assert model.num_timesteps >= 700


def test_no_step_is_made_after_a_signal_in_the_search(tmp_path):
    class Slow(Walk):
        """Made in this process. Its second episode asks to stop, at its fifth step."""

        episodes, after = 0, None

        def reset(self, **options):
            Slow.episodes += 1
            return super().reset(**options)

        def step(self, action):
            if Slow.after is not None:
                Slow.after += 1
            elif Slow.episodes == 2 and self.time == 5:
                Slow.after = 0
                signal.raise_signal(signal.SIGINT)
            time.sleep(0.05)
            return super().step(action)

    model, phases = ASAP(Slow, settings=["env.max_steps=12"]), []
    training = Training(model.config, model.tasks, InMemory(), (), "0", tmp_path, pytest.fail, None, phases.append)
    with pytest.raises(KeyboardInterrupt), StopRequest() as stop:
        train(training, None, stop)
    assert Slow.after == 0 and phases[-1].startswith("searching for a start, ")


def test_the_hint_can_be_pasted_into_a_shell(tmp_path, capsys):
    run, stop = Run.create(tmp_path / "it's a run", ""), StopRequest()
    stop.requested = signal.SIGINT
    with pytest.raises(SystemExit) as left:
        leave_if_stopped(run, stop)
    hint = capsys.readouterr().err.strip().partition("; resume with: ")[2]
    assert left.value.code == 130 and shlex.split(hint) == ["asap", "train", "--resume", str(run.path)]


PATIENT = "import asap.runs.signals, asap.cli; asap.runs.signals.PATIENCE = 1.0; asap.cli.main()"


def test_a_command_whose_environment_hangs_ends_and_can_be_resumed(tmp_path):
    """In its own process, where nobody else can end it."""
    run, once = tmp_path / "run", tmp_path / "once"
    config = composed(tmp_path, "training", number=0, hangs=True)[0]
    (tmp_path / "settings.toml").write_text(to_toml(config), encoding="utf-8")
    said = [*config.run.tasks, "--env-options", config.env.options, "--config", "settings.toml", "--out", str(run)]
    told = {"env": {**os.environ, "PYTHONPATH": str(TESTS)}, "cwd": tmp_path, "text": True}
    command = [sys.executable, "-c", PATIENT, "train", *said]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, **told) as child:
        while child.poll() is None and not once.exists():
            time.sleep(0.02)
        sent = time.monotonic()
        child.send_signal(signal.SIGTERM)
        error = child.communicate(timeout=20)[1]
    assert (child.returncode, time.monotonic() - sent < 5) == (143, True), error
    assert error.splitlines() == [
        "note: stopping; press Ctrl-C again to quit now",
        "note: quit at once; the last checkpoint is intact",
    ]
    again = [sys.executable, "-m", "asap", "train", "--resume", str(run), "--json"]
    done = subprocess.run(again, capture_output=True, timeout=60, **told)
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[-1])["finished"]


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_that_was_stopped_ends_as_if_by_the_signal(tmp_path, capsys, number, code):
    """A script that goes on only after success must not go on with half of a training."""
    run, stop = Run(tmp_path, pytest.fail), StopRequest()
    leave_if_stopped(run, stop)
    stop.requested = int(number)
    with pytest.raises(SystemExit) as ended:
        leave_if_stopped(run, stop)
    assert ended.value.code == code and "asap train --resume" in capsys.readouterr().err
