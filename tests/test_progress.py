"""Who watches a long command sees what it does: by a bar on a terminal, and elsewhere by a line on stderr every ten
seconds. A command that is soon over says nothing."""

import io
import json
import sys
import time

import gymnasium
import pytest
from command_line import asap

from asap import ASAP
from asap.compose import compose
from asap.config.schema import Config, RunConfig
from asap.config.toml import parse_settings
from asap.model.training import Training, train
from asap.runs import loggers
from asap.runs.events import InMemory
from asap.runs.loggers import ProgressBar
from asap.runs.signals import StopRequest

QUICK = ["run.final_episodes=3", "run.eval_episodes=2", "learn.critic_features=8"]


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(loggers, "EVERY_SECONDS", 0.005)


class Lines:
    """Stands for stderr, and waits for a line that begins so."""

    def __init__(self, capsys):
        self._capsys, self.seen = capsys, []

    def next(self, start: str) -> str:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            self.seen += self._capsys.readouterr().err.splitlines()
            found = [line for line in self.seen if line.startswith(start)]
            if found:
                return found[0]
            time.sleep(0.005)
        raise AssertionError(f"no line begins with {start!r}: {self.seen[-3:]}")


def test_lines_tell_what_is_under_way(hurried, capsys):
    lines, config = Lines(capsys), compose(["two-rooms"], {"run.episodes": 50_000})[0]
    with ProgressBar(config) as bar:
        assert lines.next("two-rooms: compiling") == "two-rooms: compiling, 0 s"
        bar.phase("searching for a start, 37 of 256")
        assert lines.next("two-rooms: s") == "two-rooms: searching for a start, 37 of 256, 0 s"
        bar.tell(310, 12_400, -83.24)
        assert lines.next("two-rooms: 12") == "two-rooms: 12,400 of 50,000 episodes (24 %), return -83.2, 0 s"
        bar.count(50_001)
        assert lines.next("two-rooms: 50") == "two-rooms: 50,001 of 50,000 episodes (100 %), 0 s"
    time.sleep(0.05)
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""  # It is over.


def test_a_line_comes_every_ten_seconds_and_none_before(capsys, monkeypatch):
    """By a clock that stands still between the waits of the thread."""
    waits, now = [], [100.0]

    class Clocked:
        def wait(self, seconds: float) -> bool:
            waits.append(seconds)
            now[0] += seconds
            return len(waits) > 3

    monkeypatch.setattr(loggers.time, "monotonic", lambda: now[0])
    bar = ProgressBar(Config(run=RunConfig(steps=10, tasks=("CartPole-v1",))))
    bar._over = Clocked()
    bar._tell_lines(now[0])
    assert waits == [10.0] * 4
    assert capsys.readouterr().err.splitlines() == [f"CartPole-v1: compiling, {10 * n} s" for n in (1, 2, 3)]


def test_what_is_soon_over_says_nothing(capsys):
    with ProgressBar(Config(run=RunConfig(episodes=3)), "collecting") as bar:
        bar.tell(0, 3, 1.0)
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_bar_of_a_terminal_shows_the_search(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with ProgressBar(compose(["two-rooms"], {"run.episodes": 50})[0]) as bar:
        bar.phase("searching for a start, 37 of 256")
        bar.bar.refresh()
        bar.tell(3, 20, -83.24)
    shown = terminal.getvalue()
    assert "training: searching for a start, 37 of 256" in shown
    assert "20 of 50 episodes, update 3, return -83.2" in shown


# ---- What commands tell -------------------------------------------------------------------------------------------


def phases(*settings: str) -> list[str]:
    config, tasks = compose(["CartPole-v1"], {"run.steps": 3000}, overrides=parse_settings(Config, [*QUICK, *settings]))
    found: list[str] = []
    train(Training(config, tasks, InMemory(), (), "0", None, print, None, found.append), None, StopRequest())
    return found


def test_every_phase_of_a_training_is_told():
    found = phases("run.candidates=20")
    searched = [int(words.split()[-3]) for words in found if words.startswith("searching for a start, ")]
    assert set(range(17)) <= set(searched) and searched == sorted(searched)  # One by one.
    rest = [words for words in found if not words.startswith("searching")]
    assert rest[0] == "compiling" and rest[-1] == "playing at random, to compare"
    assert rest[-2] == "evaluating, 3 of 3 episodes" and found.index("compiling") > len(searched) - 1


def test_the_search_says_which_seed_it_is_for():
    found = phases("run.candidates=16", "run.seeds=2", "run.seed=5")
    assert "searching for a start (seed 1 of 2), 16 of 16" in found
    assert "searching for a start (seed 2 of 2), 16 of 16" in found


def test_a_training_that_starts_from_one_policy_searches_for_none():
    assert phases("run.candidates=0")[0] == "compiling"


def test_a_piped_training_tells_lines_and_ends_with_one_object(hurried, tmp_path, capsys, monkeypatch):
    command = ["train", "CartPole-v1", "--steps", "8000", "--out", str(tmp_path / "run"), "--json"]
    code, out, err = asap([*command, "--set", "run.final_episodes=3"], capsys, monkeypatch)
    lines = err.splitlines()
    assert code == 0 and len(out.splitlines()) == 1 and json.loads(out)["finished"]
    assert all(line.startswith("CartPole-v1: ") and line.endswith(" s") for line in lines)
    assert any(" of 8,000 steps (" in line for line in lines)
    assert any(": searching for a start, " in line and " of 256, " in line for line in lines)


def slow_pole() -> gymnasium.Env:
    class Slow(gymnasium.Wrapper):
        def step(self, action):
            time.sleep(0.001)
            return super().step(action)

    return Slow(gymnasium.make("CartPole-v1"))


class Right:
    def predict(self, observation, deterministic=True):
        return int(observation[2] > 0), None


def test_other_long_commands_tell_lines(hurried, tmp_path, capsys, monkeypatch):
    ASAP(f"{__name__}:slow_pole").save(tmp_path / "model.asap")
    code, out, err = asap(["eval", str(tmp_path / "model.asap"), "--episodes", "20", "--json"], capsys, monkeypatch)
    assert code == 0 and json.loads(out)["episodes"] == 20
    assert any(line.startswith("evaluating: ") and " of 20 episodes (" in line for line in err.splitlines())
    distill = ["distill", f"{__name__}:Right", f"{__name__}:slow_pole", "--episodes", "2", "--json"]
    code, out, err = asap(distill, capsys, monkeypatch)
    # Two of the teacher to learn from, one in each of four rounds, and two of each of three to compare.
    assert code == 0 and json.loads(out)["num_episodes"] == 12
    assert any(line.startswith("distilling: ") and " of 12 episodes (" in line for line in err.splitlines())
    collect = ["collect", "two-rooms", "--controller", "random", "--episodes", "64", "--out", str(tmp_path / "d.npz")]
    code, _, err = asap(collect, capsys, monkeypatch)
    assert code == 0 and "collecting: compiling, 0 s" in err.splitlines()
