"""Promise: `learn` goes on with the whole learner's state, also from a file or a run, for every kind of experience."""

import json
import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest

from asap import ASAP
from asap.base.errors import UserError
from asap.compose import compose, with_budget
from asap.config.schema import Config
from asap.config.settings import override
from asap.learn.loop import Loop
from asap.runs import checkpoints
from asap.runs.directory import Run

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
    logged = (*COMPILED, f"offline.data={json.dumps(data)}", "offline.weights=returns")
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


@pytest.fixture(scope="module")
def learned_twice() -> dict[str, ASAP]:
    return {}


@pytest.fixture
def twice(new, learned_twice, request) -> ASAP:
    """A model that has learned both amounts, without a break."""
    kind = request.node.callspec.params["new"]
    if kind not in learned_twice:
        model, amount = new()
        learned_twice[kind] = model.learn(**amount).learn(**amount)
    return learned_twice[kind]


def test_a_file_between_two_calls_changes_nothing_and_the_budget_is_in_addition(new, twice, tmp_path):
    model, amount = new()
    ((name, budget),) = amount.items()
    counted = "num_timesteps" if name == "total_timesteps" else "num_episodes"
    model.learn(**amount)
    model.save(tmp_path / "model")
    loaded = ASAP.load(tmp_path / "model")
    once = getattr(loaded, counted)
    assert loaded.num_timesteps > 0 and once == getattr(model, counted)
    loaded.learn(**amount)
    assert same(loaded, twice) and loaded.num_timesteps == twice.num_timesteps
    assert loaded.num_episodes == twice.num_episodes
    assert budget <= once < once + budget <= getattr(twice, counted)


def test_a_budget_that_is_said_is_the_only_one():
    def budget(config: Config) -> tuple[int | None, int | None]:
        return config.run.episodes, config.run.steps

    in_steps, left_open = (compose(["two-rooms"], told)[0] for told in ({"run.steps": 1000}, {}))
    assert budget(in_steps) == (None, 1000) and budget(left_open) == (2000, None)
    assert budget(with_budget(in_steps, None, None)) == (None, 1000)
    assert budget(with_budget(in_steps, 10, None)) == (10, None)
    assert budget(with_budget(left_open, None, 50)) == (None, 50)
    assert budget(with_budget(in_steps, 10, 50)) == (10, 50)


def test_reset_starts_anew_and_nothing_is_left_on_disk(new, tmp_path, monkeypatch):
    model, amount = new()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    start = np.asarray(model.policy.skills.theta)
    model.learn(**amount)
    learned = np.asarray(model.policy.skills.theta)
    model.reset()
    assert model.num_timesteps == model.num_episodes == 0
    np.testing.assert_array_equal(model.policy.skills.theta, start)
    model.learn(**amount)
    np.testing.assert_array_equal(model.policy.skills.theta, learned)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_gone_on_with(new, twice, tmp_path):
    """By the model that made it, by a new one, and by one that was loaded from it; its budget is in addition, too."""
    model, amount = new()
    model.learn(**amount, run=tmp_path / "run")
    twin, third = new()[0], ASAP.load(tmp_path / "run")
    twin.learn(**amount, run=tmp_path / "run")
    assert same(twin, twice)
    third.learn(**amount)
    assert same(third, twice)
    with pytest.raises(UserError, match="run: holds what another model has learned"):
        model.learn(**amount, run=tmp_path / "run")


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
    with pytest.raises(UserError, match="seed: was not trained .got 8.; choose from 5 to 7"):
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


# ---- Counting beyond 32 bits --------------------------------------------------------------------------------------

TOP = 2**31  # Where an integer of 32 bits ends.


def set_counters(run: Path, episodes: int, steps: int, kind: type = np.int32) -> None:
    """The newest checkpoint of a run of one seed, as if it had come so far."""
    checkpoint = Run.open(run).latest()
    counters = {"totals.episodes": np.array([[episodes]], kind), "env_steps": np.array([steps], kind)}
    checkpoints.write(run / "checkpoints", checkpoint.step, checkpoint.arrays | counters, checkpoint.meta)


# Every kind of experience, and both counters; the rest of the table is the same code again.
COUNTED = [
    pytest.param(new, counted, marks=() if counted == often else pytest.mark.slow)
    for new, often in (("hosted", "num_timesteps"), ("compiled", "num_episodes"), ("logged", "num_timesteps"))
    for counted in ("num_timesteps", "num_episodes")
]


@pytest.mark.parametrize(("new", "counted"), COUNTED, indirect=["new"])
def test_counters_pass_the_end_of_32_bits(new, counted, tmp_path):
    """From a checkpoint of an earlier release, 20 below it: curve, events, checkpoint and file say how far it came, and
    it stops at its budget."""
    model, amount = new()
    model.learn(**amount, run=tmp_path / "run")
    set_counters(tmp_path / "run", TOP - 20, TOP - 20)
    model = ASAP.load(tmp_path / "run")
    assert (model.num_episodes, model.num_timesteps) == (TOP - 20, TOP - 20)
    reports = []
    budget = {"num_timesteps": {"total_timesteps": 300}, "num_episodes": {"episodes": 30}}[counted]

    def look(report) -> bool:
        reports.append((int(report.episodes[0]), int(report.env_steps[0])))
        return len(reports) < 200

    model.learn(**budget, run=tmp_path / "run", callback=look)
    came = model.num_episodes, model.num_timesteps
    most = TOP - 20 + min(budget.values())
    index = 0 if counted == "num_episodes" else 1
    assert reports == sorted(reports) and came[index] >= most > TOP and model.result.finished
    assert all(report[index] < most for report in reports[:-1])  # It stopped as soon as it could.
    assert reports[-1] == came
    events = [event for event in Run.open(tmp_path / "run").events() if event["kind"] == "update"]
    assert [(event["episodes"][0], event["env_steps"][0]) for event in events[-len(reports) :]] == reports
    assert model.result.curve.episodes[-1].tolist() == [came[0]] and model.result.env_steps == came[1]
    arrays = Run.open(tmp_path / "run").latest().arrays
    assert (arrays["totals.episodes"].tolist(), arrays["env_steps"].tolist()) == ([[came[0]]], [came[1]])
    model.save(tmp_path / "model")
    loaded = ASAP.load(tmp_path / "model")
    assert (loaded.num_episodes, loaded.num_timesteps) == came
    again = ASAP.load(tmp_path / "run").learn(**budget)
    assert same(loaded.learn(**budget), again) and again.num_timesteps > came[1]


@pytest.mark.parametrize(("new", "counted"), COUNTED, indirect=["new"])
def test_a_budget_may_be_larger_than_32_bits(new, counted):
    name = {"num_timesteps": "run.steps", "num_episodes": "run.episodes"}[counted]
    model, _ = new()
    config = override(model.config, {"run.steps": None, "run.episodes": None, name: 3_000_000_000})
    model = ASAP.of(config, model.tasks)
    model.learn(callback=lambda report: report.update < 4)
    assert not model.result.finished and model.num_timesteps > 0
    assert getattr(model.config.run, name[4:]) == 3_000_000_000


def test_how_far_it_has_come_has_no_part_in_what_is_learned(tmp_path):
    """A compiled task: the same bits from counters near 0 and from counters that pass 2^31."""
    for run in ("near", "far"):
        ASAP("two-rooms", settings=COMPILED).learn(episodes=10, run=tmp_path / run)
    set_counters(tmp_path / "far", TOP - 3, TOP - 3, np.int64)
    near, far = (ASAP.load(tmp_path / run).learn(episodes=10) for run in ("near", "far"))
    counted = [name for name in near._state if name.startswith("totals.") or name == "env_steps"]
    assert all(np.array_equal(near._state[name], far._state[name]) for name in near._state.keys() - set(counted))
    assert far.num_episodes > TOP and near.num_episodes < 100
