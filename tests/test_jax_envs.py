"""Promise: a JAX environment of others (`reset_env`, `step_env`) is a task like ours: compiled with the learner, cut by our
time limit, with true final observations; and it is kept, resumed, read and asked like any other."""

import json

import jax
import jax.numpy as jnp
import jax_envs
import numpy as np
import pytest
from command_line import asap
from jax_envs import Broken, Clock, Line, LineParams, OnlyStep, Pull, PullParams, Shapeless, Signs

from asap import ASAP, UserError
from asap.base.errors import RunError
from asap.base.keys import fold, root
from asap.base.spec import TaskSet
from asap.compose import config_for
from asap.envs import catalog
from asap.envs.core import advance, begin
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.resolve import described, resolve
from asap.experience import rollout
from asap.experience.compiled import Compiled
from asap.learn.state import Budget, drawn_start, first_state, parameter_digest
from asap.learn.update import update
from asap.policy.build import uniform_policy
from asap.policy.policy import NO_SKILL
from asap.policy.surgery import uniform

SMALL = ["run.candidates=0", "run.eval_episodes=4", "run.final_episodes=4", "learn.lanes=8", "learn.window=16"]


def task_of(origin, **limits):
    return described(EnvSource.of(origin), EnvLimits(**limits))


def alone(task):
    return catalog.compiled(TaskSet((task,), (1.0,)))


def played(task, action, num_steps):
    """One lane in which every action is the same: rewards, both kinds of end, next observations."""
    tasks = alone(task)
    always = rollout.Controlled(lambda x: jnp.zeros((task.spec.num_actions, *x.shape[1:])).at[action].set(1.0))
    keys, moment = rollout.fresh_episodes(tasks, always, root(0), jnp.arange(1))
    steps = rollout.play(tasks, always, keys, moment, rollout.Window(tasks), num_steps)[2]
    return jax.tree.map(lambda leaf: np.asarray(leaf)[..., 0], steps)


# ---- Transitions, worked out by hand ----


def test_an_episode_ends_at_the_goal_with_its_true_last_observation():
    steps = played(task_of(Line()), 1, 4)
    assert steps.reward.tolist() == [1, 2, 3, 1]
    assert steps.terminated.tolist() == [False, False, True, False] and not steps.truncated.any()
    assert steps.next_observation.tolist() == [[1, 2], [2, 4], [3, 6], [1, 2]]
    assert steps.observation.tolist() == [[0, 0], [1, 2], [2, 4], [0, 0]]


def test_their_limit_becomes_ours_and_cuts_instead_of_ending():
    task = task_of(Line())
    steps = played(task, 0, 6)
    assert task.spec.horizon == 5
    assert steps.truncated.tolist() == [False] * 4 + [True, False] and not steps.terminated.any()
    assert steps.next_observation[4].tolist() == [-5, -10] and steps.reward.tolist() == [-1, -2, -3, -4, -5, -1]


@pytest.mark.parametrize("limit", [3, 7])
def test_the_limit_that_the_user_says_takes_its_place(limit):
    steps = played(task_of(Line(), max_steps=limit, reward_scale=10.0), 0, 8)
    assert np.flatnonzero(steps.truncated)[0] == limit - 1 and not steps.terminated.any()
    assert steps.reward[:3].tolist() == [-10, -20, -30]


def test_parameters_take_effect():
    steps = played(task_of((Line(), LineParams(goal=4.0, stride=2.0))), 1, 2)
    assert steps.reward.tolist() == [2, 4] and steps.terminated.tolist() == [False, True]


def test_six_values_tell_truncation_and_success_by_themselves():
    tasks = alone(task := task_of((Pull(), PullParams(strength=3.0))))
    assert (task.spec.horizon, task.spec.action_low, task.spec.action_high) == (1000, (-2.0,), (2.0,))
    env = tasks.env
    state = env.reset(root(0), {})
    assert -1 <= float(state.observation[0]) <= 1
    state = state._replace(inner=jnp.asarray([0.5]))
    near = env.step(root(1), state, jnp.asarray([-0.1]), {})  # In our units: -0.2 in theirs.
    assert float(near.reward) == pytest.approx(-0.1, abs=1e-6) and bool(near.success)
    far = env.step(root(1), state, jnp.asarray([7.0]), {})  # Clipped to 1, which is 2.
    assert float(far.state.observation[0]) == pytest.approx(6.5)
    assert (bool(far.terminated), bool(far.truncated), bool(far.success)) == (False, True, False)
    episode = begin(tasks, root(2), root(3))._replace(state=state)
    fresh, outcome = advance(tasks, root(1), root(2), root(3), episode, jnp.asarray([7.0]))
    assert (bool(outcome.terminated), bool(outcome.truncated), int(fresh.elapsed)) == (False, True, 0)
    assert float(outcome.next_observation[0]) == pytest.approx(6.5)


def test_a_limit_that_is_observed_stays_and_is_said():
    task = task_of(Clock())
    assert "time limit of 5 steps is part of what it observes" in task.notes[0]
    steps = played(task, 0, 6)
    assert steps.next_observation[:5, 1].tolist() == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0])
    assert steps.truncated.tolist() == [False] * 4 + [True, False] and not steps.terminated.any()


# ---- Learning ----


def test_numbers_to_set_are_learned():
    """The best return is 8, that of the start about 0."""
    settings = ["run.candidates=16", *SMALL[1:]]
    model = ASAP(Signs(vectors=True), hyperplanes=1, settings=settings, seed=1).learn(6_000)
    assert model.evaluate(episodes=16)["return"] > 6
    assert float(model.policy.psi.scale[0]) == pytest.approx(3**0.5, rel=0.1)  # Uniform from -1 to 1.


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize(
    "learner", ["learner=natural", "learner=actor-critic", "learner=reinforce", "baseline=mean", "baseline=none"]
)
def test_every_learner_has_a_program(learner, vectors):
    """Traced, not compiled: shapes and kinds of numbers fit."""
    task = task_of(Signs(vectors))
    settings = {"learn.learner": "reinforce", f"learn.{learner.split('=')[0]}": learner.split("=")[1]}
    tasks = TaskSet((task,), (1.0,))
    config = config_for(tasks, {**settings, "learn.lanes": 4, "learn.window": 8})
    player, start = Compiled(config, tasks, alone(task)), drawn_start(config, tasks, 0)

    def two_updates(key, start):
        state = first_state(config, player, key, start)
        return state, update(config, player, Budget(jnp.int32(9), jnp.int32(999)), key, state, ())[0]

    before, after = jax.eval_shape(two_updates, root(0), start)
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert [leaf.shape for leaf in jax.tree.leaves(before)] == [leaf.shape for leaf in jax.tree.leaves(after)]


SEARCHING = ["run.candidates=16", *SMALL[1:], "run.chunk=2"]


@pytest.fixture(scope="module")
def trained():
    """Two seeds, from the best of 16 policies each."""
    return ASAP("jax_envs:line", hyperplanes=1, settings=[*SEARCHING, "run.seeds=2"]).learn(6000)


def test_a_run_resumes_bit_for_bit_and_a_model_is_kept(trained, tmp_path):
    part = ASAP("jax_envs:line", hyperplanes=1, settings=[*SEARCHING, "run.seeds=2"])
    part.learn(6000, callback=lambda report: report.update < 4)
    part.save(tmp_path / "part.asap")
    again = ASAP.load(tmp_path / "part.asap")
    assert again.task(None).spec == trained.task(None).spec and again.num_timesteps < 1500
    again.learn(6000 - again.num_timesteps)
    assert parameter_digest(again.policies) == parameter_digest(trained.policies)
    x = np.array([[0.5, 1.0], [-1.0, -2.0]])
    assert again.predict(x, deterministic=True)[0].tolist() == trained.predict(x, deterministic=True)[0].tolist()
    assert again.evaluate(episodes=4) == trained.evaluate(episodes=4)


def test_each_seed_is_the_same_with_and_without_the_other(trained):
    """The search for its start is one program, whatever the number of policies; updates are the same numbers."""
    alone = ASAP("jax_envs:line", hyperplanes=1, settings=SEARCHING).learn(6000)
    assert alone.num_timesteps == trained.num_timesteps
    assert np.allclose(alone.policies.partition.beta[0], trained.policies.partition.beta[0], atol=1e-5)
    assert not np.allclose(trained.policies.partition.beta[0], trained.policies.partition.beta[1])


def test_the_best_way_is_learned(trained):
    """1 + 2 + 1 + 2 + 1: to the goal it would be 1 + 2 + 3."""
    assert trained.evaluate(episodes=4)["return"] == 7


def test_words_use_its_names_and_what_was_visited(trained):
    told = trained.explanation().text
    assert "place" in told and "Mean return of 4 episodes" in told and "used in" in told
    played = trained.play(trained.policies, 4, [0, 1])
    assert len(played.observations) == played.lengths.sum() == sum(float(one.count) for one in played.seen)
    assert np.array_equal(played.observations[:, 1], 2 * played.observations[:, 0])


def test_given_parameters_are_kept_with_a_model(tmp_path):
    model = ASAP(Line(), params=LineParams(goal=2.0), settings=SMALL)
    model.save(tmp_path / "model.asap")
    record = ASAP.load(tmp_path / "model.asap").task(None).record()
    assert (record["name"], record["params"]) == ("jax_envs:Line", {"goal": 2.0})
    assert ASAP.load(tmp_path / "model.asap").evaluate(episodes=4) == model.evaluate(episodes=4)
    other = ASAP.load(tmp_path / "model.asap", env=(Line(), LineParams(goal=50.0))).evaluate(episodes=4)
    assert other["length"] == 5.0  # Nobody gets there within the limit.


def test_a_strangers_model_is_neither_made_nor_imported(tmp_path, monkeypatch):
    ASAP("jax_envs:line", settings=SMALL).save(tmp_path / "model.asap")
    monkeypatch.setenv("ASAP_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.setattr(jax_envs, "line", None)  # Whoever calls it fails.
    model = ASAP.load(tmp_path / "model.asap")
    assert "place" in model.explain() and model.predict([0.0, 0.0]) is not None
    with pytest.raises(UserError, match="nothing shows that you made that file"):
        model.evaluate(episodes=2)


def test_the_command_line_trains_checks_and_reads(tmp_path, capsys, monkeypatch):
    run = str(tmp_path / "run")
    settings = [part for item in SMALL for part in ("--set", item)]
    code, out, _ = asap(
        ["train", "jax_envs:far_line", "--steps", "1500", "--out", run, "--json", *settings], capsys, monkeypatch
    )
    assert code == 0 and json.loads(out.splitlines()[-1])["env_steps"] >= 1500
    assert asap(["eval", run, "--episodes", "4"], capsys, monkeypatch)[0] == 0
    code, out, _ = asap(["check", "jax_envs:far_line", "--episodes", "2"], capsys, monkeypatch)
    assert code == 0 and "place" in out and "at most 5 steps" in out


# ---- What is refused, in one line ----


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (OnlyStep(), "has only a `step` that resets by itself"),
        ((OnlyStep(), LineParams()), "has only a `step` that resets by itself"),
        (Shapeless(), "states of different shape"),
        ((Line(), None, 1), "must be a name or a list of names"),
    ],
)
def test_what_cannot_be_played_is_refused(origin, words):
    with pytest.raises(UserError, match=words):
        ASAP(origin)


def test_a_missing_gymnax_is_named_with_the_cure(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gymnax", None)
    with pytest.raises(UserError, match="needs the module 'gymnax', which is not installed; pip install gymnax"):
        resolve("gymnax:CartPole-v1")


def test_a_name_of_gymnax_is_made_with_its_options(monkeypatch):
    """By a package of that name, whatever is in it: options that are called like parameters take their place."""
    fake = type(
        "gymnax", (), {"registered_envs": ["Line-v0"], "make": staticmethod(lambda name: (Line(), LineParams()))}
    )
    monkeypatch.setitem(__import__("sys").modules, "gymnax", fake)
    task = ASAP("gymnax:Line-v0", settings={"env.options": '{"goal": 2.0}'}).task(None)
    assert (task.name, task.params) == ("gymnax:Line-v0", {"goal": 2.0})
    assert played(task, 1, 2).terminated.tolist() == [False, True]
    with pytest.raises(UserError, match="did you mean 'Line-v0'"):
        ASAP("gymnax:Line-v1")
    for options in ('{"goal": "high"}', '{"goal": NaN}'):
        with pytest.raises(UserError, match="goal must be a finite number"):
            ASAP("gymnax:Line-v0", settings={"env.options": options})


def test_numbers_that_are_none_stop_the_run():
    with pytest.raises(RunError, match="became nan or infinite at iteration 1 of seed 0"):
        ASAP(Broken(), settings=SMALL).learn(1500)


def test_parameters_are_for_jax_environments_alone():
    with pytest.raises(UserError, match="params: are for a JAX environment"):
        ASAP("two-rooms", params=LineParams())


def test_workers_are_not_needed():
    with pytest.raises(UserError, match="is compiled and needs none"):
        ASAP(Line(), workers=2, settings=SMALL).evaluate(episodes=1)


def test_numbers_are_drawn_with_the_spread_of_the_policy_or_from_the_whole_range():
    policy, x, m = uniform_policy(task_of(Signs(vectors=True))), jnp.zeros((1, 4000)), jnp.zeros((0, 4000))
    keys = jax.vmap(lambda i: fold(root(3), i))(jnp.arange(4000))
    for given, deviation in ((policy, np.exp(-0.5)), (uniform(policy), 3**-0.5)):  # The start of Gaussian skills.
        _, action = given.sample(keys, x, m, jnp.full(4000, NO_SKILL))
        assert action.shape == (1, 4000)
        assert np.mean(action) == pytest.approx(0, abs=0.03) and np.std(action) == pytest.approx(deviation, rel=0.03)
    assert np.abs(action).max() <= 1
