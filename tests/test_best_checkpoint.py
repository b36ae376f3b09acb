"""Promise: the best checkpoint of a run is that of its best evaluation, also after the run was resumed."""

import json

import equinox as eqx
import numpy as np
import pytest
from command_line import asap

from asap.base.arrays import to_arrays
from asap.base.errors import RunError
from asap.compose import compose
from asap.config.schema import Config, LearnConfig
from asap.config.toml import to_toml
from asap.envs import catalog
from asap.experience.compiled import Compiled
from asap.experience.protocol import Evaluation
from asap.learn.judge import FromData
from asap.learn.loop import MOST_WEIGHTLESS, Loop
from asap.learn.state import Metrics, parameter_digest
from asap.model.training import blank_start
from asap.policy.policy import ASAPPolicy
from asap.runs.directory import Run
from asap.runs.signals import StopRequest

TINY = ["learn.lanes=2", "learn.window=4", "learn.critic_features=4", "run.chunk=1"]


class Scripted(Compiled):
    """Its evaluations come to these returns, one per chunk; of the last of four episodes nothing is known."""

    returns: list[float]

    def look(self, policies: ASAPPolicy, update: int) -> Evaluation:
        returns, skills = np.full((1, 1, 4), self.returns[update - 1]), np.zeros((1, 1, 2), int)
        returns[..., -1] = np.nan
        return Evaluation(returns, returns, returns, returns, skills, skills)


@pytest.mark.parametrize(("returns", "best"), [([90.0, 99.0], 0), ([90.0, 101.0, 100.5], 2)])
def test_only_a_better_evaluation_replaces_the_best(tmp_path, monkeypatch, returns, best):
    """The run was stopped with a best score of 100 before its first update."""
    monkeypatch.setattr("asap.learn.loop.SAVE_EVERY_SECONDS", -1.0)
    run = Run.create(tmp_path / "run", "", notice=pytest.fail)
    config, tasks = compose(["two-rooms"], {}, overrides=TINY)
    scripted = Scripted(config, tasks, catalog.task_set((("two-rooms", 1.0),)))
    scripted.returns = returns
    with run.locked():
        run.save(0, {"beta": np.zeros(3, np.float32)}, {"score": 100.0}, best=True)
        loop = Loop(config, scripted, run, [lambda report: report.update < len(returns)])
        loop.run(loop.start(blank_start(config, tasks)), StopRequest())
    assert run.latest().step == len(returns) and run.best().step == best


def test_the_best_checkpoint_is_evaluated_where_that_is_asked_for(tmp_path, capsys, monkeypatch):
    config, tasks = compose(["two-rooms"], {}, overrides=TINY)
    run = Run.create(tmp_path / "run", to_toml(config), notice=pytest.fail)
    loop = Loop(config, Compiled(config, tasks, catalog.task_set((("two-rooms", 1.0),))), run)
    best = loop.start(blank_start(config, tasks))
    last = eqx.tree_at(lambda states: states.policy.skills.theta, best, best.policy.skills.theta + 1)
    with run.locked():
        run.save(1, to_arrays(best), {"score": 1.0}, best=True)
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
        loop._refuse_weightless(Metrics(*[None] * 6, from_data=told))

    for _ in range(2 * MOST_WEIGHTLESS):
        chunk(0.001)
        chunk(0.5)
    for _ in range(MOST_WEIGHTLESS - 1):
        chunk(0.001)
    with pytest.raises(RunError, match="effective sample size"):
        chunk(0.001)
