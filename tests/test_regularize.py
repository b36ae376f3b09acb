"""Entropy and softening: golden values, gradients that agree with autodiff, and a plane that lost a side is drawn
back."""

import dataclasses
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.types import Transition
from asap.config.schema import LearnConfig
from asap.learn.regularize import mix, regularity_gradient, softening_slope
from asap.policy.policy import ASAPPolicy
from asap.policy.score import Parameters, parameters_of, with_parameters

SAMPLES = 64
FLOOR = 0.1
ENTROPY_ONLY, SOFTENING_ONLY = (1.0, 0.0), (0.0, 1.0)  # Weights.


def batch(seed: int = 0) -> Transition:
    rng = np.random.default_rng(seed)
    x = jnp.asarray(rng.uniform(size=(4, SAMPLES)), jnp.float32)
    m = jnp.asarray(rng.uniform(-1, 1, (2, SAMPLES)), jnp.float32)
    zero, flat = jnp.zeros(SAMPLES, jnp.int32), jnp.zeros(SAMPLES)
    return Transition(x, m, zero, zero, zero, flat, flat > 0, flat > 0, x)


@pytest.fixture(scope="module")
def regularity(compiled):
    @functools.cache
    def weighed(entropy: float, softening: float):
        config = dataclasses.replace(LearnConfig(), entropy=entropy, softening=softening, softening_floor=FLOOR)
        return compiled(lambda policy: regularity_gradient(config, policy, batch()))

    return lambda weights, policy: weighed(*map(float, weights))(policy)


# ---- Softening ----------------------------------------------------------------------------------------------------


def test_no_penalty_while_both_sides_have_the_floor():
    margins = jnp.asarray([[3.0] * 3 + [-3.0], [-1.0, -2.0, -3.0, 4.0]])
    assert (softening_slope(margins, FLOOR) == 0).all()


@pytest.mark.parametrize("margin", [-50.0, -5.0, 5.0, 50.0])
def test_a_plane_that_lost_a_side_is_drawn_inward_however_far_it_is(margin):
    """At 50 the other side has a probability of 1e-22, and no gradient of its own; the penalty's is as large as
    ever."""
    found = np.asarray(softening_slope(jnp.full((2, 4), margin), FLOOR))
    assert (np.sign(found) == np.sign(margin)).all()  # Downhill is towards 0.
    np.testing.assert_allclose(np.abs(found), 1.0, rtol=0.1)


def test_half_of_the_floor_counts_half():
    """The smaller side has 0.05, the floor is 0.1: half of the slope tanh(u / 2)."""
    margin = np.log(0.95 / 0.05)
    margins = jnp.asarray([[margin] * 4, [9.0, 9.0, -9.0, -9.0]])
    found = np.asarray(softening_slope(margins, FLOOR))
    np.testing.assert_allclose(found[0], 0.5 * np.tanh(margin / 2), rtol=1e-4)
    assert (found[1] == 0).all()


def test_tasks_are_judged_apart():
    """The plane parts the first task and has lost a side in the second: only there it is drawn back."""
    margins = jnp.asarray([[9.0, -9.0, 9.0, 9.0]])
    of_task = jnp.asarray([[True, True, False, False], [False, False, True, True]])
    found = np.asarray(softening_slope(margins, FLOOR, of_task))[0]
    assert (found[:2] == 0).all() and (found[2:] > 0.9).all()
    assert (np.asarray(softening_slope(margins, FLOOR)) == 0).all()


def test_planes_are_judged_apart():
    margins = jnp.asarray([[50.0] * 4, [9.0, 9.0, -9.0, -9.0]])
    found = np.asarray(softening_slope(margins, FLOOR))
    assert (found[0] > 0).all() and (found[1] == 0).all()


def with_first_plane(policy: ASAPPolicy, plane: list[float]) -> ASAPPolicy:
    return eqx.tree_at(lambda p: p.partition.beta, policy, policy.partition.beta.at[0].set(jnp.asarray(plane)))


@pytest.mark.parametrize("bias", [-50.0, 50.0])
def test_the_gradient_brings_a_saturated_plane_back(new_policy, regularity, bias):
    policy = with_first_plane(new_policy(2, alpha_beta=1.0), [bias, 0.0, 0.0])
    gradient, found = regularity(SOFTENING_ONLY, policy)
    np.testing.assert_allclose(gradient.beta[0, 0], -np.sign(bias), rtol=1e-5)
    assert (gradient.theta == 0).all()
    np.testing.assert_allclose(found.usage.sum(), 1.0, rtol=1e-5)


def test_the_gradient_leaves_a_plane_with_two_sides_alone(new_policy, regularity):
    policy = with_first_plane(new_policy(2, alpha_beta=20.0), [-0.5, 1.0, 0.0])
    gradient, found = regularity(SOFTENING_ONLY, policy)
    assert FLOOR < found.usage[1] + found.usage[3] < 1 - FLOOR
    assert (gradient.beta[0] == 0).all()


# ---- Entropy ------------------------------------------------------------------------------------------------------


def even_policy(new_policy, distributions: list[list[float]]) -> ASAPPolicy:
    """All four skills with probability 1/4 everywhere; two have one of these action distributions, two the other."""
    policy = new_policy(2, alpha_theta=1.0)
    theta = jnp.asarray(np.log(np.tile(distributions, (2, 1)))[..., None], jnp.float32)
    return with_parameters(policy, Parameters(theta, jnp.zeros_like(policy.partition.beta)))


def test_entropy_by_hand(new_policy, regularity):
    """(1/2, 1/6, 1/6, 1/6) and (1/4, ...) mix to (3/8, 5/24, 5/24, 5/24)."""
    policy = even_policy(new_policy, [[1 / 2, 1 / 6, 1 / 6, 1 / 6], [1 / 4] * 4])
    _, found = regularity(ENTROPY_ONLY, policy)
    np.testing.assert_allclose(found.entropy, -(3 / 8 * np.log(3 / 8) + 3 * 5 / 24 * np.log(5 / 24)), rtol=1e-6)
    np.testing.assert_allclose(found.usage, [0.25] * 4, rtol=1e-6)


def test_entropy_is_largest_and_flat_where_actions_are_even(new_policy, regularity):
    policy = even_policy(new_policy, [[0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
    gradient, found = regularity(ENTROPY_ONLY, policy)
    np.testing.assert_allclose(found.entropy, np.log(4), rtol=1e-6)
    assert max(np.abs(gradient.theta).max(), np.abs(gradient.beta).max()) < 1e-6


def test_the_gradient_of_entropy_leads_to_more_of_it(new_policy, regularity):
    policy = new_policy(2, alpha_beta=2.0)
    gradient, before = regularity(ENTROPY_ONLY, policy)
    changed = jax.tree.map(lambda parameter, slope: parameter + 0.05 * slope, parameters_of(policy), gradient)
    _, after = regularity(ENTROPY_ONLY, with_parameters(policy, changed))
    assert after.entropy > before.entropy + 1e-3


@pytest.mark.parametrize(
    "planes, skills, psi, alpha_beta",
    [(1, "constant", "linear", 3.0), (2, "linear", "polynomial", 3.0), (3, "constant", "fourier with bias", 1.0)],
)
def test_the_closed_form_is_the_derivative(new_policy, compiled, planes, skills, psi, alpha_beta):
    """Of entropy minus penalty, stated again with the policy's own log-probabilities, by autodiff."""
    policy = new_policy(planes, skills, psi, "interactions", alpha_beta=alpha_beta)
    if planes == 1:  # One side nearly lost, so that the penalty acts.
        policy = eqx.tree_at(lambda p: p.partition.beta, policy, policy.partition.beta.at[0, 0].set(2.5))
    config = dataclasses.replace(LearnConfig(), entropy=0.7, softening=0.4, softening_floor=0.5)
    steps = batch()

    def value(parameters: Parameters) -> jax.Array:
        changed = with_parameters(policy, parameters)
        log_pi = changed.action_log_probs(steps.observation, steps.descriptor)
        margins = changed.partition.margins(changed.psi(steps.observation, steps.descriptor))
        side = jax.nn.sigmoid(changed.partition.margins(policy.psi(steps.observation, steps.descriptor))).mean(-1)
        lost = jax.lax.stop_gradient(jax.nn.relu(1 - jnp.minimum(side, 1 - side) / config.softening_floor))
        penalty = (lost * (jax.nn.softplus(margins) + jax.nn.softplus(-margins)).mean(-1)).sum()
        return config.entropy * -(jnp.exp(log_pi) * log_pi).sum(0).mean() - config.softening * penalty

    both = compiled(
        lambda policy: (regularity_gradient(config, policy, steps)[0], jax.grad(value)(parameters_of(policy)))
    )
    found, expected = both(policy)
    for one, other in zip(found[:2], expected[:2]):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5 * np.abs(other).max())
    assert np.abs(expected.beta).max() > 1e-3


@pytest.mark.parametrize("num_skills", [4, 32])
def test_skills_are_mixed_by_their_weights(num_skills):
    """Many skills are added up in another way than a few."""
    rng = np.random.default_rng(0)
    weights, rows = rng.random((num_skills, 6)).astype(np.float32), rng.random((num_skills, 3, 6)).astype(np.float32)
    expected = np.einsum("sn,san->an", weights, rows)
    np.testing.assert_allclose(mix(jnp.asarray(weights), jnp.asarray(rows)), expected, rtol=1e-5)
    everywhere = np.einsum("sn,sa->an", weights, rows[..., 0])
    np.testing.assert_allclose(mix(jnp.asarray(weights), jnp.asarray(rows[..., 0])), everywhere, rtol=1e-5)


def test_of_many_states_a_part_stands_for_all(new_policy, monkeypatch):
    """Of 64 states with room for 20, every fourth."""
    config, policy = LearnConfig(entropy=1.0, softening=1.0, softening_floor=0.5), new_policy(planes=2)
    part = jax.tree.map(lambda leaf: leaf[..., ::4], batch())
    expected = regularity_gradient(config, policy, part)
    monkeypatch.setattr("asap.learn.regularize.MOST_STATES", 20)
    found = regularity_gradient(config, policy, batch())
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(one, other)
