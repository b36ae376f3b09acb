"""Promise: the best checkpoint of a run is that of its best evaluation, also after the run was resumed."""

import json
import shutil
import types

import equinox as eqx
import numpy as np
import pytest
from command_line import asap

from asap.base.arrays import to_arrays
from asap.base.errors import RunError
from asap.compose import compose
from asap.config.schema import Config, LearnConfig
from asap.config.toml import parse_settings, to_toml
from asap.envs import catalog
from asap.experience.compiled import Compiled
from asap.experience.protocol import Evaluation
from asap.learn.judge import FromData
from asap.learn.loop import MOST_WEIGHTLESS, Loop, weighted_mean
from asap.learn.state import Metrics, parameter_digest, restored
from asap.model.files import are_equal
from asap.model.training import blank_start
from asap.policy.policy import ASAPPolicy
from asap.runs.directory import Run
from asap.runs.signals import StopRequest

TINY = ["learn.lanes=2", "learn.window=4", "learn.critic_features=4", "run.chunk=1"]


class Scripted(Compiled):
    """Its evaluations come to these returns, one per chunk; of the last of four episodes nothing is known."""

    returns: list  # Of the tasks, or of the only one.

    def look(self, policies: ASAPPolicy, update: int) -> Evaluation:
        told = np.atleast_1d(self.returns[update - 1])[None, :, None]
        returns, skills = np.broadcast_to(told, (1, told.shape[1], 4)).astype(float), np.zeros((1, 1, 2), int)
        returns[..., -1] = np.nan
        return Evaluation(returns, returns, returns, returns, skills, skills)


@pytest.mark.parametrize(("returns", "best"), [([90.0, 99.0], 0), ([90.0, 101.0, 100.5], 2)])
def test_only_a_better_evaluation_replaces_the_best(tmp_path, monkeypatch, returns, best):
    """The run was stopped with a best score of 100 before its first update."""
    monkeypatch.setattr("asap.learn.loop.SAVE_EVERY_SECONDS", -1.0)
    run = Run.create(tmp_path / "run", "", notice=pytest.fail)
    config, tasks = compose(["two-rooms"], {}, overrides=parse_settings(Config, TINY))
    scripted = Scripted(config, tasks, catalog.task_set((("two-rooms", 1.0),)))
    scripted.returns = returns
    with run.locked():
        run.save_best(0, {"beta": np.zeros(3, np.float32)}, {"score": 100.0})
        loop = Loop(config, scripted, run, [lambda report: report.update < len(returns)])
        loop.run(loop.start(blank_start(config, tasks)), StopRequest())
    assert run.latest().step == len(returns) and run.best().step == best


def test_the_best_checkpoint_is_evaluated_where_that_is_asked_for(tmp_path, capsys, monkeypatch):
    config, tasks = compose(["two-rooms"], {}, overrides=parse_settings(Config, TINY))
    run = Run.create(tmp_path / "run", to_toml(config), notice=pytest.fail)
    loop = Loop(config, Compiled(config, tasks, catalog.task_set((("two-rooms", 1.0),))), run)
    best = loop.start(blank_start(config, tasks))
    last = eqx.tree_at(lambda states: states.policy.skills.theta, best, best.policy.skills.theta + 1)
    with run.locked():
        run.save_best(1, to_arrays(best), {"score": 1.0})
        run.save(2, to_arrays(last), {"score": 0.0})
    for options, states in (["--best"], best), ([], last):
        command = ["eval", str(run.path), "--episodes", "2", "--json", *options]
        code, out, err = asap(command, capsys, monkeypatch)
        assert code == 0, err
        assert json.loads(out)["parameters_sha256"] == parameter_digest(states.policy)


def test_only_successive_chunks_without_weight_end_a_run():
    """Every second chunk has a say again: the count begins anew."""
    loop = Loop.__new__(Loop)
    loop.config, loop._num_weightless = Config(learn=LearnConfig(learner="importance")), 0

    def chunk(ess: float) -> None:
        told = FromData(ess=np.full((2, 1), ess, np.float32), objective=np.zeros((2, 1), np.float32))
        loop._refuse_weightless(Metrics(*[None] * 4, from_data=told))

    for _ in range(2 * MOST_WEIGHTLESS):
        chunk(0.001)
        chunk(0.5)
    for _ in range(MOST_WEIGHTLESS - 1):
        chunk(0.001)
    with pytest.raises(RunError, match="effective sample size"):
        chunk(0.001)


def resumed(config, tasks, run, experience, callbacks=()):
    """To the end of the script, from the newest checkpoint or the start."""
    loop = Loop(config, experience, run, [*callbacks, lambda report: report.update < len(experience.returns)])
    starts = blank_start(config, tasks)
    with run.locked():
        saved = run.latest()
        loop.run(loop.start(starts) if saved is None else restored(loop.template(starts), saved.arrays), StopRequest())


@pytest.mark.parametrize("seconds", [0.3, 10.0])
def test_neither_the_clock_nor_kills_choose_the_best(tmp_path, monkeypatch, seconds):
    """A look takes so long; checkpoints are saved once a second. What lies on the disk at each look is what a kill
    leaves."""
    now = [0.0]
    monkeypatch.setattr("asap.learn.loop.time", types.SimpleNamespace(monotonic=lambda: now[0]))
    config, tasks = compose(["two-rooms"], {}, overrides=parse_settings(Config, TINY))
    scripted = Scripted(config, tasks, catalog.task_set((("two-rooms", 1.0),)))
    scripted.returns = [60.0, 70.5, 63.5, 70.0, 62.0]
    run = Run.create(tmp_path / "run", "", notice=pytest.fail)

    def pass_time(report):
        now[0] += seconds

    def kill(report):
        shutil.copytree(run.path, tmp_path / f"killed-{report.update}")

    resumed(config, tasks, run, scripted, [pass_time, kill])
    whole = run.best()
    assert (whole.step, whole.meta["score"]) == (2, 70.5)
    for update in (1, 3):
        killed = Run.open(tmp_path / f"killed-{update}", notice=pytest.fail)
        resumed(config, tasks, killed, scripted, [pass_time])
        assert killed.best().meta == whole.meta and are_equal(killed.best().arrays, whole.arrays)


def test_the_start_can_be_the_best(tmp_path):
    config, tasks = compose(["two-rooms"], {}, overrides=parse_settings(Config, TINY))
    scripted = Scripted(config, tasks, catalog.task_set((("two-rooms", 1.0),)))
    scripted.returns = [60.0, 61.0, 80.0]  # The last one, by the index -1, is that of the start.
    run = Run.create(tmp_path / "run", "", notice=pytest.fail)
    loop = Loop(config, scripted, run, [lambda report: report.update < 2])
    with run.locked():
        states = loop.start(blank_start(config, tasks))
        loop.record_start(states)
        loop.run(states, StopRequest())
    assert (run.best().step, run.best_score()) == (0, 80.0)


def test_an_error_does_not_cost_the_best_before_it(tmp_path, monkeypatch):
    config, tasks = compose(["two-rooms"], {}, overrides=parse_settings(Config, TINY))
    scripted = Scripted(config, tasks, catalog.task_set((("two-rooms", 1.0),)))
    scripted.returns = [60.0, 70.0, 90.0]

    def spoiled(loop, states):
        if int(states.iteration.max()) == 3:
            raise RunError("gradient", "became nan")

    monkeypatch.setattr(Loop, "_refuse_spoiled", spoiled)
    run = Run.create(tmp_path / "run", "", notice=pytest.fail)
    with pytest.raises(RunError, match="became nan"):
        resumed(config, tasks, run, scripted)
    assert (run.best().step, run.best_score()) == (2, 70.0)


def test_tasks_count_by_their_weights():
    """0.9 x 10 + 0.1 x 90 = 18 is less than 0.9 x 20 + 0.1 x 30 = 21, though its plain mean is twice as large."""
    shares = np.array([0.9, 0.1])
    assert weighted_mean(np.array([[10.0, 90.0]]), shares) == pytest.approx(18.0)
    assert weighted_mean(np.array([[20.0, 30.0]]), shares) == pytest.approx(21.0)
    # Of the second seed one task is unknown: (9 + 9 + 18) / 1.9.
    assert weighted_mean(np.array([[10.0, 90.0], [20.0, np.nan]]), shares) == pytest.approx(36 / 1.9)
    assert weighted_mean(np.full((2, 2), np.nan), shares) == -np.inf


def test_a_joint_run_keeps_the_best_by_the_weights(tmp_path):
    config, tasks = compose(["two-rooms:9", "flipped-two-rooms:1"], {}, overrides=parse_settings(Config, TINY))
    scripted = Scripted(config, tasks, catalog.task_set((("two-rooms", 9.0), ("flipped-two-rooms", 1.0))))
    scripted.returns = [[10.0, 90.0], [20.0, 30.0]]
    run = Run.create(tmp_path / "run", "", notice=pytest.fail)
    resumed(config, tasks, run, scripted)
    assert run.best().step == 2 and run.best_score() == pytest.approx(21.0)
