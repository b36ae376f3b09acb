"""Promise: what a foreign environment does to our process stays within it, in any thread; and whatever it returns or
raises is one line, the same in this process and in workers."""

import contextlib
import io
import os
import signal
import sys
import threading
import time

import gymnasium
import numpy as np
import pytest
from own_envs import LENGTH, Walk
from test_workers import hosted, new_works

from asap import ASAP
from asap.base.episodes import EpisodeId
from asap.base.errors import QuitNow, RunError, UserError
from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.runs.signals import StopRequest
from asap.workers.dispatch import Dispatcher
from asap.workers.failures import failure
from asap.workers.hire import InProcess
from asap.workers.pool import Pool

TINY = ("run.candidates=0", "run.eval_episodes=1", "learn.batch_steps=96", "learn.critic_features=8")


def play(checked: CheckedEnv) -> None:
    checked.reset(EpisodeId(0, 0, 0))
    while not checked.step(1)[2]:
        pass


class Talks(Walk):
    """Prints in every step, and takes its time, so that others come in between."""

    def step(self, action):
        print("the simulator speaks")
        time.sleep(0.0005)
        return super().step(action)


# ---- Threads


def test_prints_of_other_threads_are_neither_taken_nor_blamed(monkeypatch):
    """Two environments in two threads, and a third thread that prints meanwhile."""
    shown, talking = io.StringIO(), CheckedEnv(EnvSource("talks", {}, Talks), EnvLimits())
    quiet = CheckedEnv(EnvSource("walk", {}, Walk), EnvLimits())
    monkeypatch.setattr(sys, "stdout", shown)
    notes = {}

    def work(checked: CheckedEnv, name: str) -> None:
        for _ in range(10):
            play(checked)
        notes[name] = checked.take_notes()

    threads = [threading.Thread(target=work, args=each) for each in ((talking, "talking"), (quiet, "quiet"))]
    for thread in threads:
        thread.start()
    count = 0
    while any(thread.is_alive() for thread in threads):
        print("mine")
        count += 1
        time.sleep(0.0002)
    assert sys.stdout is shown and shown.getvalue() == "mine\n" * count and count > 50
    assert notes["quiet"] == () and len(notes["talking"]) == 1 and "the simulator speaks" in notes["talking"][0]


def test_an_episode_that_is_given_up_gives_stdout_back():
    stdout, checked = sys.stdout, CheckedEnv(EnvSource("talks", {}, Talks), EnvLimits())
    checked.reset(EpisodeId(0, 0, 0))
    checked.step(1)
    checked.close()
    assert sys.stdout is stdout


def test_a_redirection_meanwhile_is_left_alone():
    stdout, checked, taken = sys.stdout, CheckedEnv(EnvSource("talks", {}, Talks), EnvLimits()), io.StringIO()
    checked.reset(EpisodeId(0, 0, 0))
    with contextlib.redirect_stdout(taken):
        print("mine")
        while not checked.step(1)[2]:
            pass
        assert sys.stdout is taken
    checked.close()
    with contextlib.redirect_stdout(taken):
        play(checked)
    print("shown")
    assert sys.stdout in (stdout, taken) or sys.stdout.stdout is stdout
    assert taken.getvalue().startswith("mine\n")


def test_two_trainings_in_two_threads_are_as_each_alone(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)

    def trained(seed: int) -> ASAP:
        return ASAP(Talks, seed=seed, hyperplanes=1, settings=TINY).learn(400)

    alone = [trained(seed) for seed in (0, 1)]
    found: dict[int, ASAP] = {}
    threads = [threading.Thread(target=lambda seed=seed: found.update({seed: trained(seed)})) for seed in (0, 1)]
    for thread in threads:
        thread.start()
    count = 0
    while any(thread.is_alive() for thread in threads):
        print("mine")
        count += 1
        time.sleep(0.001)
    assert sys.stdout is shown and shown.getvalue() == "mine\n" * count
    for seed, model in enumerate(alone):
        assert model.result.parameters_sha256 == found[seed].result.parameters_sha256
    assert alone[0].result.parameters_sha256 != alone[1].result.parameters_sha256


# ---- What belongs to the process


class Spoils(Walk):
    """Changes the umask and what NumPy does with errors of floating point."""

    def spoil(self, answer):
        os.umask(0o777)
        np.seterr(all="raise")
        return answer


def test_the_umask_and_the_settings_of_numpy_stay_ours():
    before, umask = np.geterr(), os.umask(0o022)
    try:
        checked = CheckedEnv(EnvSource("spoils", {}, Spoils), EnvLimits())
        checked.reset(EpisodeId(0, 0, 0))
        for _ in range(LENGTH):
            checked.step(1)
            assert np.geterr() == before and np.exp(np.float64(-1e9)) == 0  # Ours, within the episode too.
        assert os.umask(0o022) == 0o022
        assert checked.take_notes() == ("the environment changed the umask to 777; changed back",)
    finally:
        os.umask(umask)


class Careful(Walk):
    """Sets NumPy's errors once, when it is made, and relies on that."""

    def __init__(self):
        np.seterr(divide="raise")

    def spoil(self, answer):
        return np.float64(1) / 0


def test_an_environment_keeps_settings_of_its_own():
    with pytest.raises(EnvError, match="FloatingPointError"):
        play(CheckedEnv(EnvSource("careful", {}, Careful), EnvLimits()))


# ---- What it raises and returns


class Mute(Exception):
    def __str__(self):
        raise TypeError("no words")


class NoTruth:
    def __bool__(self):
        raise TypeError("neither true nor false")

    def __repr__(self):
        return "NoTruth()"


class Odd(Walk):
    """Raises or returns what is odd, by its name."""

    def __init__(self, what: str):
        self.what = what

    def spoil(self, answer):
        observation, reward, _, _, _ = answer
        match self.what:
            case "interrupt":
                raise KeyboardInterrupt
            case "mute":
                raise Mute
            case "base":
                raise BaseException("below all exceptions")
            case "truth":
                return observation, reward, NoTruth(), False, {}
            case "truth in an array":
                return observation, reward, np.array(NoTruth(), object), False, {}


def odd(what: str) -> gymnasium.Env:
    return Odd(what)


LINES = {
    "interrupt": "env.step: env raised KeyboardInterrupt at episode 0 step 7",
    "mute": "env.step: env raised Mute: its message cannot be read at episode 0 step 7",
    "base": "env.step: env raised BaseException: below all exceptions at episode 0 step 7",
    "truth": "env.step: terminated must be True or False (got NoTruth NoTruth()) at episode 0 step 7",
    "truth in an array": "env.step: terminated must be True or False (got ndarray array(NoTruth(), dtype=object)) at",
}


@pytest.mark.parametrize("what", LINES)
def test_what_is_odd_is_one_line_the_same_in_process_and_in_workers(what):
    lines = []
    sources = hosted(EnvSource("test_isolation:odd", {"what": what}))
    with StopRequest():  # As in a training: a person's Ctrl-C comes through it.
        for workers in (InProcess(sources), Pool(sources, 1)):
            dispatcher = Dispatcher(workers, lambda failed: failure(failed, EnvSource("NAME")), pytest.fail)
            with contextlib.closing(dispatcher), pytest.raises(RunError) as raised:
                dispatcher.play([_of_three_observations(new_works(1)[0])])
            lines.append(str(raised.value))
    assert lines[0] == lines[1] and lines[0].startswith(LINES[what]) and "\n" not in lines[0]


def _of_three_observations(work):
    """The works of other tests are for environments of four."""
    static, arrays = work.plan
    psi = {**static["psi"], "inputs": [0, 1, 2], "observations": 3}
    fewer = {"psi.shift": np.zeros(3), "psi.scale": np.ones(3), "beta": arrays["beta"][:, :4]}
    return work._replace(plan=work.plan._replace(static={**static, "psi": psi}, arrays={**arrays, **fewer}))


@pytest.mark.parametrize("error", [QuitNow, KeyboardInterrupt])
def test_an_interrupt_by_a_person_is_not_blamed_on_the_environment(error, monkeypatch):
    # A shell starts what runs in its background with SIGINT ignored.
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.default_int_handler)

    class Interrupted(Walk):
        def spoil(self, answer):
            raise error  # As a signal handler does, in the midst of whatever is running.

    with pytest.raises(error):
        play(CheckedEnv(EnvSource("interrupted", {}, Interrupted), EnvLimits()))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Mute()])
def test_what_making_an_environment_raises_is_one_line(error):
    def make():
        raise error

    with StopRequest(), pytest.raises(UserError, match=f"raised {type(error).__name__}"):
        CheckedEnv(EnvSource("module:make", {}, make), EnvLimits())


COUNTED = [True, np.bool_(True), 1, 1.0, np.float32(1), np.array(True)]
NOT_COUNTED = [float("nan"), "no", "False", 0.5, 2, [1, [2, 3]], [True], np.array([True]), NoTruth(), np.array("x"), {}]


class Tells(Walk):
    def __init__(self, value):
        self.value = value

    def spoil(self, answer):
        return *answer[:2], True, False, {"success": self.value}


@pytest.mark.parametrize("value", COUNTED, ids=repr)
def test_success_is_what_is_as_good_as_a_bool(value):
    checked = CheckedEnv(EnvSource("tells", {}, lambda: Tells(value)), EnvLimits())
    play(checked)
    assert checked.success is True and checked.take_notes() == ()


@pytest.mark.parametrize("value", NOT_COUNTED, ids=repr)
def test_anything_else_is_no_success_and_noted_once(value):
    checked = CheckedEnv(EnvSource("tells", {}, lambda: Tells(value)), EnvLimits())
    for _ in range(2):
        play(checked)
        assert checked.success is None
    (note,) = checked.take_notes()
    assert note.startswith("info['success'] must be True or False; it is ") and "\n" not in note


class Unreadable(Walk):
    """Its observation raises when somebody wants it as an integer."""

    observation_space = gymnasium.spaces.Discrete(3)

    def observe(self):
        class Raises:
            def __index__(self):
                raise ValueError("not now")

        return Raises() if self.time else 0


def test_a_value_that_raises_when_it_is_read_is_the_environments_fault():
    with pytest.raises(EnvError, match="returned what cannot be read: ValueError: not now") as caught:
        play(CheckedEnv(EnvSource("unreadable", {}, Unreadable), EnvLimits()))
    assert (caught.value.field, caught.value.step) == ("env.step", 1) and "in __index__" in caught.value.traceback


def test_an_environment_object_is_not_remade_for_workers():
    """What was set on it, a stronger push here, would be lost."""
    env = gymnasium.make("CartPole-v1")
    env.unwrapped.force_mag = 20.0
    with pytest.raises(UserError, match="env: an environment object cannot be sent to workers .* use workers=0"):
        ASAP(env, workers=1, settings=TINY).learn(64)
