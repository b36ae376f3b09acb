"""Promise: the systems that are this library have the sizes, features and budgets that they are said to have."""

from dataclasses import replace

import equinox as eqx
import jax
import numpy as np
import pytest

from asap.base.keys import fold, root
from asap.compose import compose
from asap.experience.counted_play import StepCounter
from asap.experience.rollout import Likeliest
from asap.rivals import library
from asap.rivals.library import Library, neighbours
from asap.rivals.scripted import AtRandom, Scripted

QUICK = (("run.eval_episodes", 2), ("learn.batch_episodes", 4))


def tasks_of(*names: str):
    return compose(list(names), {})[1]


def policy_of(system: Library, *names: str):
    return system.config(tasks_of(*names), 300_000).policy


# ---- What they are --------------------------------------------------------------------------------------------------


def test_flat_policies_have_about_as_many_parameters_as_asap():
    """2R: 2 skills of 4 numbers and a plane of 3 are 11, linear logits are 4 * 3 = 12. On the equal track of 3R, 4 skills of
    4 numbers and 2 planes of 3 are 22; three units have 3 * 3 + 4 * 4 = 25, two have 18."""
    for name in ("flat-ppo", "flat-reinforce"):
        own = policy_of(Library(name), "two-rooms")
        assert (own.hyperplanes, own.skills) == (0, "linear")
        own = policy_of(Library(name, "equal"), "three-rooms")
        assert (own.hyperplanes, own.skills, own.hidden) == (0, "network", (3,))
    # CartPole: 2 skills of 2 numbers and a plane of 5 are 9, linear logits are 10.
    own = policy_of(Library("flat-ppo"), "CartPole-v1")
    assert (own.hyperplanes, own.skills) == (0, "linear")


@pytest.mark.parametrize(("name", "learner"), [("flat-ppo-64", "ppo"), ("flat-reinforce-64", "reinforce")])
def test_large_flat_policies_have_two_layers_of_64(name, learner):
    config = Library(name).config(tasks_of("two-rooms"), 300_000)
    assert (config.policy.hyperplanes, config.policy.hidden, config.learn.learner) == (0, (64, 64), learner)
    size = library.size_of(
        tasks_of("two-rooms"), {"policy.hyperplanes": 0, "policy.skills": "network", "policy.hidden": (64, 64)}
    )
    assert size == 2 * 64 + 64 + 64 * 64 + 64 + 4 * 65


def test_asap_is_as_the_task_has_it_but_for_the_equal_track_of_three_rooms():
    defaults = compose(["three-rooms"], {})[0].policy
    assert policy_of(Library(), "three-rooms") == defaults
    assert policy_of(Library("asap-k0"), "three-rooms") == replace(defaults, hyperplanes=0)
    equal = policy_of(Library("asap", "equal"), "three-rooms")
    assert (equal.hyperplanes, equal.basis, equal.skills) == (2, "linear", "constant")
    assert policy_of(Library("asap", "equal"), "two-rooms") == compose(["two-rooms"], {})[0].policy


def test_flat_policies_see_which_task_it_is():
    """With other numbers of the task, other actions are likely; ASAP without planes has nothing to see them with."""
    tasks = tasks_of("two-rooms", "flipped-two-rooms")
    for name in ("flat-ppo", "flat-ppo-64"):
        config = Library(name).config(tasks, 10_000)
        policy = library.build_policy(config.policy, tasks.tasks, np.random.default_rng(0))
        x = np.float32([0.2, 0.3, 0.9, 0.1])
        first, second = (policy.action_log_probs(x, m) for m in tasks.descriptors)
        assert np.abs(first - second).max() > 1e-4


# ---- What they use --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [1, 511, 512, 5000, 300_000])
def test_learners_by_windows_end_within_the_budget_and_make_an_update(budget):
    config = Library().config(tasks_of("two-rooms"), budget)
    size = config.learn.lanes * config.learn.window
    assert config.run.steps % size == 0 and config.run.steps <= max(budget, size) and budget - config.run.steps < size


def test_seeds_that_follow_each_other_are_trained_together():
    assert neighbours([3, 4, 5]) == [(3, 3)]
    assert neighbours([0, 2, 3, 9]) == [(0, 1), (2, 2), (9, 1)]
    assert neighbours([]) == []


def test_every_seed_learns_and_is_counted():
    heard = []
    counter = StepCounter(3, 3000, heard.append)
    agents = Library("asap-k0", settings=QUICK).learn(tasks_of("two-rooms"), (5, 6, 9), counter)
    np.testing.assert_array_equal(agents.steps_used, [2560] * 3)
    np.testing.assert_array_equal(counter.used, agents.steps_used)
    assert heard[-1] == 2560 and (agents.num_skills, agents.num_parameters) == (1, 4)
    for curve in agents.curves:
        assert np.asarray(curve.episodes).tolist() == [0, 512, 1024, 1536, 2048, 2560]
    theta = agents.actors.skills.theta
    assert theta.shape == (3, 1, 4, 1) and len(np.unique(theta[:, 0, 0])) == 3


def test_who_starts_from_what_was_learned_begins_with_it():
    """Nothing is learned in between, with step sizes of 0."""
    still = (*QUICK, ("learn.step_size_theta", 0.0), ("learn.step_size_beta", 0.0))
    tasks, system = tasks_of("two-rooms"), Library("asap-k0", settings=still)
    first = system.learn(tasks, (1, 2), StepCounter(2, 512))
    moved = jax.tree.map(lambda leaf: leaf + np.float32(0.5), first.state.skills.theta)
    start = with_theta(first.state, moved)
    second = system.learn(tasks, (1, 2), StepCounter(2, 512), start)
    np.testing.assert_array_equal(second.state.skills.theta, moved)


def with_theta(policies, theta):
    return eqx.tree_at(lambda p: p.skills.theta, policies, theta)


def test_environments_are_played_as_the_library_plays_them():
    """Vectors of numbers, and the likeliest action at the end."""
    small = (*QUICK, ("run.candidates", 0), ("learn.batch_steps", 200))
    counter = StepCounter(2, 600)
    agents = Library("flat-ppo", settings=small).learn(tasks_of("Pendulum-v1"), (0, 1), counter)
    assert isinstance(agents.actors, Likeliest) and (agents.steps_used >= 400).all()
    assert (agents.steps_used <= 1200).all() and agents.num_skills == 0


# ---- The ends of the scale ------------------------------------------------------------------------------------------


def test_random_play_takes_every_action_alike():
    for name, numbers in (("two-rooms", None), ("Pendulum-v1", 1)):
        tasks = tasks_of(name)
        actor = AtRandom().learn(tasks, (0,), StepCounter(1, 10)).actors
        keys = jax.vmap(lambda i: fold(root(3), i))(np.arange(4000))
        chosen = np.asarray(jax.vmap(lambda key: actor.choose(actor.draws(key), None, None, 0)[1])(keys))
        if numbers is None:
            np.testing.assert_allclose(np.bincount(chosen) / 4000, 0.25, atol=0.03)
        else:
            assert chosen.shape == (4000, numbers) and -1 <= chosen.min() < -0.98 and 0.98 < chosen.max() <= 1


def test_a_script_is_that_of_the_task_at_hand():
    """In the left room, low down: 2R leads up to the door, flipped 2R through it to the right."""
    tasks = tasks_of("two-rooms", "flipped-two-rooms")
    actor = Scripted().learn(tasks, (0,), StepCounter(1, 10)).actors
    places = np.float32([[0.2, 0.15, 0.9, 0.1], [0.2, 0.15, 0.9, 0.9]])
    chosen = [int(actor.choose((), x, m, 0)[1]) for x, m in zip(places, tasks.descriptors)]
    assert [tasks.spec.action_names[action] for action in chosen] == ["up", "right"]
    assert Scripted().why_not(tasks) is None and "script" in Scripted().why_not(tasks_of("CartPole-v1"))
