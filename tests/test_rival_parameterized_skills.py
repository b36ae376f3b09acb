"""Parameterized skills: charts part policies that differ in kind, searches follow the rewards, darts fly as points do, and a new task
is met with what others taught.

Numbers are worked out by hand.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import root
from asap.base.spec import TaskSet
from asap.envs import catalog
from asap.experience.counted_play import StepCounter
from asap.paper.check_parameterized_skills import found_surfaces, surface_claims
from asap.rivals import dart_arm
from asap.rivals.charts import charts_of, fit_skill, fit_surface, left_out_errors, rbf
from asap.rivals.dart_arm import Dart, Joints, landing, released
from asap.rivals.families import family
from asap.rivals.features import AffineBasis, Inputs01
from asap.rivals.parameterized_skills import ParameterizedSkills, Samples
from asap.rivals.power import Search, improved, power

# ---- Charts -------------------------------------------------------------------------------------------------------


def test_policies_far_apart_are_on_two_charts_and_stragglers_join_the_nearest():
    """The third neighbour is 0.2 or 0.3 away where policies are many: what is more than 1.5 away is on another chart."""
    theta = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 10.0, 10.1, 10.2, 10.3, 10.4, 7.0, 7.1])[:, None]
    np.testing.assert_array_equal(charts_of(theta), [0] * 5 + [1] * 7)


def test_sparse_samples_of_one_line_are_one_chart():
    theta = np.array([0.0, 0.1, 0.2, 0.5, 0.9, 1.0, 1.1, 1.2, 1.9, 2.0])[:, None]
    assert charts_of(theta).max() == 0


def test_units_of_a_parameter_do_not_matter():
    along = np.linspace(0, 1, 20)
    theta = np.stack([np.tile(along, 2), np.concatenate([along, along + 5])], 1)
    expected = [0] * 20 + [1] * 20
    np.testing.assert_array_equal(charts_of(theta), expected)
    np.testing.assert_array_equal(charts_of(theta * [100, 0.01]), expected)


def test_the_error_without_a_task_is_that_of_a_regression_without_it():
    generator = np.random.default_rng(0)
    tau, theta = generator.uniform(size=(6, 1)), generator.uniform(size=(6, 2))
    theta -= theta.mean(0)
    kernel, ridge = rbf(tau, tau, 0.5), 0.01
    errors = left_out_errors(np.linalg.inv(kernel + ridge * np.eye(6)), theta)
    weights = np.linalg.solve(kernel[1:, 1:] + ridge * np.eye(5), theta[1:])
    np.testing.assert_allclose(errors[0], theta[0] - kernel[0, 1:] @ weights)
    surface = fit_surface(tau, theta, ridges=(1e-9,))
    np.testing.assert_allclose(surface(tau), theta, atol=1e-3)  # Nearly without a ridge it goes through all.


def test_the_classifier_parts_tasks_between_the_nearest_two():
    tau = np.array([0.0, 0.1, 0.2, 0.3, 0.7, 0.8, 0.9, 1.0])[:, None]
    theta = np.where(tau > 0.5, 5 + tau, -tau)
    skill = fit_skill(tau, theta)
    np.testing.assert_array_equal(skill.charts(np.array([[0.1], [0.35], [0.65], [0.9]])), [0, 0, 1, 1])
    np.testing.assert_allclose(skill(tau), theta, atol=0.05)
    assert fit_skill(tau, theta, gap=np.inf).num_charts == 1


def test_charts_hold_their_tolerances_at_a_jump():
    claims = surface_claims([found_surfaces(seed) for seed in range(100, 104)])
    assert [claim.claim for claim in claims if not claim.passed] == []


# ---- PoWER --------------------------------------------------------------------------------------------------------


def test_an_update_of_power_by_hand():
    """From 0, rollouts at 1, 2 and 4 with rewards 1, 3 and 0.5, of which two are kept: (1 * 1 + 3 * 2) / 4 = 1.75, and
    sigma^2 = (1 * 1 + 3 * 4) / 4 = 3.25, which is more than at first."""
    search = Search(jnp.zeros(1), jnp.ones(1), jnp.zeros((2, 1)), jnp.zeros(2))
    after = improved(search, jnp.array([[1.0], [2.0], [4.0]]), jnp.array([1.0, 3.0, 0.5]), 2.0)
    np.testing.assert_allclose(after.theta, [1.75])
    np.testing.assert_allclose(after.sigma, [np.sqrt(3.25)], rtol=1e-6)
    np.testing.assert_allclose(after.rewards, [3.0, 1.0])
    # Next, one at 3 with reward 5: 2 and 3 are kept, and count by their distance from 1.75: 1.75 + (5 * 1.25 + 3 * 0.25) / 8.
    again = improved(after, jnp.array([[3.0]]), jnp.array([5.0]), 2.0)
    np.testing.assert_allclose(again.theta, [2.625])


def test_negative_rewards_weigh_nothing():
    search = Search(jnp.zeros(1), jnp.ones(1), jnp.zeros((2, 1)), jnp.zeros(2))
    after = improved(search, jnp.array([[1.0], [2.0]]), jnp.array([-1.0, -3.0]), 1.0)
    np.testing.assert_allclose([after.theta, after.sigma], [[0.0], [1.0]])


def test_power_finds_where_the_reward_is_highest(compiled):
    best = jnp.array([1.0, -0.5, 0.3])
    found = compiled(
        lambda key: power(key, lambda theta: jnp.exp(-((theta - best) ** 2).sum()), jnp.zeros(3), 0.5, 40, 20, 10)
    )
    np.testing.assert_allclose(found(root(1)), best, atol=0.05)


# ---- Darts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dart", "place"),
    [
        (Dart(1.0, 1.0, 7.5, 0.0), (4.0, 1.0 - 9.81 * 0.16 / 2)),  # The wall is 3 m away: 0.4 s of falling.
        (Dart(1.0, 1.0, -4.0, 2.0), (0.0, 1.0 + 0.5 - 9.81 * 0.0625 / 2)),
        (Dart(1.0, 1.0, 0.0, 0.0), (1.0, 0.0)),
        (Dart(2.0, 1.0, 1.0, 10.0), (2.0 + (10 - np.sqrt(100 - 4 * 9.81)) / 9.81, 3.0)),
        (Dart(2.0, 1.0, 1.0, 6.2), (2.0 + (6.2 + np.sqrt(6.2**2 + 2 * 9.81)) / 9.81, 0.0)),  # 1.96 m up, and down again.
    ],
)  # fmt: skip
def test_a_dart_flies_as_a_point_under_gravity(dart, place):
    np.testing.assert_allclose(landing(Dart(*map(jnp.float32, dart))), place, rtol=1e-5, atol=1e-5)


def test_the_hand_moves_as_its_links_turn():
    """Links along x, straight up, and along -x: each turns with all joints before it."""
    dart = released(Joints(jnp.array([0.0, np.pi / 2, np.pi / 2]), jnp.array([1.0, 2.0, 3.0])))
    a, b, c = dart_arm.LENGTHS
    x, y = dart_arm.SHOULDER
    np.testing.assert_allclose(dart, [x + a - c, y + b, -b * 3, a * 1 - c * 6], atol=1e-6)


def test_a_constant_acceleration_turns_the_shoulder_evenly():
    """tanh is 1 for large weights, and all waves sum to 1: after T the speed is a T and the angle a T^2 / 2, and half a step."""
    theta = jnp.zeros((3, dart_arm.NUM_BASES)).at[0].set(100.0).ravel()
    a, t, dt = dart_arm.LARGEST, dart_arm.DURATION, dart_arm.DURATION / dart_arm.NUM_STEPS
    turned = jnp.asarray(dart_arm.POSTURE).at[0].add(a * t * (t + dt) / 2)
    expected = released(Joints(turned, jnp.array([a * t, 0.0, 0.0])))
    np.testing.assert_allclose(dart_arm.swing(theta), expected, rtol=1e-4, atol=1e-4)


def test_targets_are_on_the_walls_and_the_ceiling():
    expected = [[4.0, 0.5], [4.0, 3.0], [2.0, 3.0], [0.0, 3.0], [0.0, 0.5]]
    np.testing.assert_allclose(dart_arm.target(np.array([0, 2.5, 4.5, 6.5, 9]) / 9), expected, atol=1e-12)


# ---- The system ---------------------------------------------------------------------------------------------------


def test_a_task_begins_with_the_nearest_one_that_is_solved():
    """Returns from -400 to 80: solved is what returns more than -160, and hopeless what returns less than -352."""
    samples = Samples(
        tau=np.array([[0.0], [0.5], [1.0]]),
        theta=np.array([[[1.0], [2.0], [3.0]]]),
        returns=np.array([[-100.0, -200.0, 50.0]]),
        worst=np.array([-400.0]),
        best=np.array([80.0]),
        basis=AffineBasis(Inputs01((0,), (0.0,), (1.0,), 0)),
    )
    assert samples.are_hopeless(np.array([-360.0])) and not samples.are_hopeless(np.array([-340.0]))
    np.testing.assert_array_equal(samples.solved, [[True, False, True]])
    assert samples.nearest(np.array([0.45])) == 1.0
    assert samples.nearest(np.array([0.6])) == 3.0
    assert samples.skill(0) is None  # Two tasks make no chart,
    assert samples.zero_shot(np.array([0.6])) == 3.0  # but are better than nothing.
    assert samples._replace(worst=np.array([10.0])).nearest(np.array([0.0])) == 3.0


def two_rooms() -> TaskSet:
    return TaskSet((catalog.find("two-rooms"),), (1.0,))


def test_every_step_of_the_family_counts_and_a_new_task_costs_none():
    tasks, system = two_rooms(), ParameterizedSkills(num_tasks=2, share=0.5, num_episodes=2, order=1)
    counter = StepCounter(1, 6000)
    first = system.learn(tasks, (100,), counter)
    assert 5200 < first.steps_used[0] <= 6000
    assert first.num_skills == 0 and first.state.tau.shape == (3, 2)
    np.testing.assert_allclose(first.state.theta.reshape(3, 4, -1).sum(1), 0, atol=1e-4)
    other = family(tasks.tasks[0], 6)[-1]
    again = TaskSet((other, dataclasses.replace(tasks.tasks[0], name="the first")), (1.0, 1.0))
    later = system.learn(again, (100,), StepCounter(1, 100), first.state)
    assert later.steps_used[0] == 0
    expected = first.state.zero_shot(np.asarray(other.descriptor, float))
    np.testing.assert_allclose(np.ravel(later.actors.theta[0, 0]), expected[0], rtol=1e-5)


@pytest.mark.parametrize("learns", [True, False])
def test_skills_that_are_not_learned_stay_as_they_begin(learns):
    system = ParameterizedSkills(learns_skills=learns, num_tasks=1, num_episodes=20, order=1)
    found = system.learn(two_rooms(), (100,), StepCounter(1, 33_000))
    assert found.steps_used[0] > 24_000
    assert found.state.theta.any() == learns


def test_it_says_what_it_cannot_learn():
    from asap.envs.resolve import resolve

    assert "family" in ParameterizedSkills().why_not(TaskSet((resolve("CartPole-v1"),), (1.0,)))
