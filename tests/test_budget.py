"""The search for a start and the updates together keep to the budget. Most of a small one is left to learn from, and a
training without a single update says so."""

import json
import sys

import gymnasium
import numpy as np
import pytest
from command_line import asap

from asap import ASAP
from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings, to_toml
from asap.model.training import Training, train, train_run
from asap.runs.directory import Run
from asap.runs.events import InMemory
from asap.runs.signals import StopRequest

LENGTH = 100
QUICK = ["run.eval_episodes=1", "run.final_episodes=2", "learn.critic_features=8"]


class Long(gymnasium.Env):
    """Episodes have 100 steps, whatever is done."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.see(), {}

    def step(self, action):
        self.time += 1
        return self.see(), float(self.np_random.normal()), False, self.time == LENGTH, {}

    def see(self):
        return self.np_random.uniform(-1, 1, 2).astype(np.float32)


class Numbered(Long):
    """Nothing is scaled: each of five states is seen or not."""

    observation_space = gymnasium.spaces.Discrete(5)

    def see(self):
        return int(self.np_random.integers(5))


def learned(env, *settings: str):
    model = ASAP(env, settings=[*QUICK, f"env.max_steps={LENGTH}", *settings])
    states, result = train(
        Training(model.config, model.tasks, InMemory(), (), "0", None, print), None, StopRequest(), False
    )
    return states, result


@pytest.mark.parametrize("env", [Long, Numbered])
@pytest.mark.parametrize("seeds", [1, 2])
@pytest.mark.parametrize("steps", [1, 150, 250, 600, 1000, 2000])
def test_steps_are_those_of_the_budget_and_at_most_one_episode(env, seeds, steps):
    states, result = learned(env, f"run.steps={steps}", f"run.seeds={seeds}")
    spent = np.asarray(states.env_steps)
    assert spent.shape == (seeds,) and (spent >= steps).all() and (spent < steps + LENGTH).all()
    searched = LENGTH * result.curve.episodes[0]  # What was played before the first update.
    assert (searched <= 0.4 * steps).all() and min(result.updates) > 0
    assert searched.any() == (steps >= 250)  # Where two fifths are at least an episode.


@pytest.mark.parametrize("budget", ["run.steps=600", "run.steps=3000", "run.episodes=5", "run.episodes=60"])
def test_short_episodes_and_budgets_of_episodes(budget):
    config, tasks = compose(["CartPole-v1"], {}, overrides=parse_settings(Config, [*QUICK, budget]))
    states, result = train(
        Training(config, tasks, InMemory(), (), "0", None, print), None, StopRequest(), evaluates=False
    )
    run, (episodes,), (steps,) = config.run, states.totals.episodes.sum(-1), states.env_steps
    if run.steps is None:
        assert episodes == run.episodes
        assert result.curve.episodes[0, 0] <= 0.4 * run.episodes
    else:
        assert run.steps <= steps < run.steps + tasks.spec.horizon
    assert result.updates[0] > 0


def test_a_small_budget_chooses_among_few_and_a_smaller_one_among_none():
    """A tenth of the steps shows the range of the observations: by 2 of 2,000, who are then compared in as many."""
    found = [learned(Long, f"run.steps={steps}")[1].curve.episodes[0, 0] for steps in (150, 900, 1000, 2000, 6000)]
    assert found == [0, 1, 1, 4, 12]


def test_patterns_of_signs_keep_to_the_budget(tmp_path):
    """Of 8 patterns with 2 episodes each, 5 fit into 10 episodes."""
    settings = ["policy.hyperplanes=3", "run.search_episodes=2", "run.episodes=10", "run.final_episodes=2"]
    config, tasks = compose(["two-rooms"], {}, overrides=parse_settings(Config, settings))
    run = Run.create(tmp_path / "run", to_toml(config))
    result = train_run(run, config, tasks, StopRequest())[1]
    assert result.curve.episodes[0].tolist() == [10] and result.updates == [0] and result.finished
    assert result.notes()[0] == ("no update was made: the start used up the budget; give a larger one")


def test_a_training_without_an_update_says_so(tmp_path, capsys, monkeypatch):
    """Three policies show the range, and three are compared: all of the 600 steps that the search may spend."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "long_episodes", sys.modules[__name__])
    options = ["--steps", "600", "--max-steps", str(LENGTH), "--set", "run.search_share=1.0"]
    options += [part for setting in QUICK for part in ("--set", setting)]
    train_it = ["train", "long_episodes:Long", *options, "--out"]
    code, out, _ = asap([*train_it, str(tmp_path / "a"), "--json"], capsys, monkeypatch)
    report = json.loads(out)
    assert (code, report["updates"], report["env_steps"], report["finished"]) == (0, 0, 600, True)
    code, out, _ = asap([*train_it, str(tmp_path / "b")], capsys, monkeypatch)
    note = "note: no update was made: the start used up the budget; give a larger one"
    assert code == 0 and note in out.splitlines()
    code, out, _ = asap(["explain", str(tmp_path / "b")], capsys, monkeypatch)
    assert code == 0 and note in out.splitlines()
    code, out, err = asap(["plot", str(tmp_path / "b")], capsys, monkeypatch)
    assert code == 0 and "learning.png" in out, err
