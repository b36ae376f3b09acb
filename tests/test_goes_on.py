"""Promise: `learn` goes on with the whole learner's state, also from a file or a run, for every kind of experience."""

import json
import tempfile

import jax
import numpy as np
import pytest

from asap import ASAP
from asap.base.errors import UserError
from asap.compose import compose, with_budget
from asap.config.schema import Config
from asap.learn.loop import Loop

SMALL = ("learn.critic_features=8", "run.eval_episodes=2", "run.final_episodes=4")
HOSTED = (*SMALL, "run.candidates=16", "learn.batch_steps=128")
COMPILED = (*SMALL, "learn.lanes=4", "learn.window=16", "run.chunk=2")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    from asap.envs import catalog
    from asap.envs.controllers import explored, find_controller
    from asap.experience.collect import collect

    path = str(tmp_path_factory.mktemp("data") / "doors.npz")
    task = catalog.find("two-rooms")
    collect(task, explored(find_controller(task, "doors"), 0.7), 0.7, 40, 0, path)
    return path


@pytest.fixture(params=["hosted", "compiled", "logged"])
def new(request, data):
    """A model that has not learned, and how much it is to learn first and then."""
    logged = (*COMPILED, f"offline.data={json.dumps(data)}")
    made = {
        "hosted": lambda: (ASAP("CartPole-v1", hyperplanes=1, settings=HOSTED), {"total_timesteps": 1500}),
        "compiled": lambda: (ASAP("two-rooms", settings=COMPILED), {"episodes": 20}),
        "logged": lambda: (ASAP("two-rooms", settings=logged), {"episodes": 20}),
    }
    return made[request.param]


def same(first: ASAP, second: ASAP) -> bool:
    """All that the learner carries, to the bit."""
    names = first._state.keys()
    return names == second._state.keys() and all(np.array_equal(first._state[n], second._state[n]) for n in names)


def test_a_file_between_two_calls_changes_nothing(new, tmp_path):
    model, amount = new()
    model.learn(**amount)
    model.save(tmp_path / "model")
    loaded = ASAP.load(tmp_path / "model")
    first = model.num_timesteps
    model.learn(**amount)
    assert model.num_timesteps > first > 0
    loaded.learn(**amount)
    assert same(loaded, model) and loaded.num_timesteps == model.num_timesteps
    assert loaded.num_episodes == model.num_episodes


def test_the_budget_is_in_addition(new):
    model, amount = new()
    ((name, budget),) = amount.items()
    counted = "num_timesteps" if name == "total_timesteps" else "num_episodes"
    model.learn(**amount)
    once = getattr(model, counted)
    model.learn(**amount)
    assert budget <= once < once + budget <= getattr(model, counted)


def test_a_budget_that_is_said_is_the_only_one():
    def budget(config: Config) -> tuple[int, int | None]:
        return config.run.episodes, config.run.steps

    none = 2**31 - 1
    in_steps, left_open = (compose(["two-rooms"], told)[0] for told in ({"run.steps": 1000}, {}))
    assert budget(in_steps) == (none, 1000) and budget(left_open) == (2000, None)
    assert budget(with_budget(in_steps, None, None)) == (none, 1000)
    assert budget(with_budget(in_steps, 10, None)) == (10, None)
    assert budget(with_budget(left_open, None, 50)) == (none, 50)
    assert budget(with_budget(in_steps, 10, 50)) == (10, 50)


def test_reset_starts_anew(new):
    model, amount = new()
    start = np.asarray(model.policy.skills.theta)
    model.learn(**amount)
    learned = np.asarray(model.policy.skills.theta)
    model.reset()
    assert model.num_timesteps == model.num_episodes == 0
    np.testing.assert_array_equal(model.policy.skills.theta, start)
    model.learn(**amount)
    np.testing.assert_array_equal(model.policy.skills.theta, learned)


def test_a_run_is_gone_on_with(new, tmp_path):
    """By the model that made it, by a new one, and by one that was loaded from it; its budget is in addition, too."""
    model, amount = new()
    model.learn(**amount, run=tmp_path / "run")
    twin, third = new()[0], ASAP.load(tmp_path / "run")
    expected = new()[0].learn(**amount).learn(**amount)
    twin.learn(**amount, run=tmp_path / "run")
    assert same(twin, expected)
    third.learn(**amount)
    assert same(third, expected)
    with pytest.raises(UserError, match="run: holds what another model has learned"):
        model.learn(**amount, run=tmp_path / "run")


def test_learning_leaves_nothing_on_disk(new, tmp_path, monkeypatch):
    model, amount = new()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    model.learn(**amount)
    assert list(tmp_path.iterdir()) == []


def test_going_on_compiles_the_updates_once(monkeypatch):
    """The first chunk waits for the program that compiles, also where there is no start to record meanwhile."""
    advance, programs = Loop._advance_together, []

    def noted(loop, states, fed):
        programs.append(type(loop._advance))
        return advance(loop, states, fed)

    model = ASAP("two-rooms", settings=COMPILED).learn(episodes=10)
    monkeypatch.setattr(Loop, "_advance_together", noted)
    model.learn(episodes=10)
    assert set(programs) == {jax.stages.Compiled}


def test_seeds_of_a_run_are_chosen_from(tmp_path):
    model = ASAP("two-rooms", seed=5, settings=(*COMPILED, "run.seeds=3")).learn(episodes=10, run=tmp_path / "run")
    assert model.seeds == (5, 6, 7) and model.seed == 5
    for seed in model.seeds:
        loaded = ASAP.load(tmp_path / "run", seed=seed)
        assert loaded.seed == seed
        np.testing.assert_array_equal(loaded.policy.skills.theta, model.policies.skills.theta[seed - 5])
    assert ASAP.load(tmp_path / "run", best=True).seeds == model.seeds
    with pytest.raises(UserError, match="seed: was not trained in this run .got 8.; choose from 5 to 7"):
        ASAP.load(tmp_path / "run", seed=8)


def test_a_model_that_was_saved_before_it_learned_starts_as_if_it_had_not_been(tmp_path):
    """The search for a start is made by whoever learns first."""
    model = ASAP("CartPole-v1", hyperplanes=1, settings=HOSTED)
    model.save(tmp_path / "new")
    loaded = ASAP.load(tmp_path / "new").learn(1500)
    assert same(loaded, model.learn(1500))


def test_a_policy_that_was_put_in_is_learned_from():
    """Editing a policy keeps it as the start of the next learning, with a learner that is new."""
    model = ASAP("two-rooms", settings=COMPILED).learn(episodes=10)
    edited = ASAP("two-rooms", seed=9, settings=COMPILED).policy
    model.policy = edited
    np.testing.assert_array_equal(model.policy.skills.theta, edited.skills.theta)
    frozen = ASAP("two-rooms", settings=(*COMPILED, "learn.step_size_theta=0.0", "learn.step_size_beta=0.0"))
    frozen.policy = edited
    frozen.learn(episodes=10)
    np.testing.assert_array_equal(frozen.policy.skills.theta, edited.skills.theta)
