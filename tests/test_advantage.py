"""Advantages and critic: numbers worked out by hand; truncation is bootstrapped, termination is not."""

import jax.numpy as jnp
import numpy as np
import pytest

from asap.envs.catalog import task_set
from asap.keys import host_generator
from asap.learn.advantage import Critic, fit, lambda_advantages, new_critic
from asap.types import Transition


def steps(reward, terminated, truncated) -> Transition:
    """Transitions of which only rewards and ends matter; axes (time, lane)."""
    reward = jnp.asarray(reward, jnp.float32)
    terminated, truncated = (jnp.asarray(ends, bool).reshape(reward.shape) for ends in (terminated, truncated))
    zero, vector = jnp.zeros(reward.shape, jnp.int32), jnp.zeros((1, *reward.shape))
    return Transition(vector, vector, zero, zero, zero, reward, terminated, truncated, vector)


def numbers(*columns) -> jnp.ndarray:
    return jnp.asarray(np.stack(columns, axis=-1), jnp.float32)


# Three lanes of three steps with rewards 1, 2, 3, values 10, 20, 30 and next values 20, 30, 40; gamma = lambda = 1/2.
REWARD = numbers([1, 2, 3], [1, 2, 3], [1, 2, 3])
VALUES = numbers([10, 20, 30], [10, 20, 30], [10, 20, 30])
NEXT = numbers([20, 30, 40], [20, 30, 40], [20, 30, 40])
MIDDLE = np.asarray([[0, 0, 0], [1, 0, 0], [0, 0, 0]])  # The first lane ends at its second step.


def test_advantages_by_hand():
    """Lane 0 terminates in the middle, lane 1 is truncated there, lane 2 goes on beyond the window.

    Without an end, the deltas are 1 + 10 - 10 = 1, 2 + 15 - 20 = -3 and 3 + 20 - 30 = -7; with termination the middle one
    is 2 - 20 = -18. Backwards, A_t = delta_t + A_{t+1} / 4 where the episode goes on.
    """
    found = lambda_advantages(steps(REWARD, MIDDLE, np.roll(MIDDLE, 1, axis=1)), VALUES, NEXT, 0.5, 0.5)
    terminated = [1 - 18 / 4, -18, -7]
    truncated = [1 - 3 / 4, -3, -7]
    running = [1 + (-3 - 7 / 4) / 4, -3 - 7 / 4, -7]
    np.testing.assert_allclose(found, numbers(terminated, truncated, running), rtol=1e-6)


def test_trace_zero_is_the_error_of_one_step():
    found = lambda_advantages(steps(REWARD, 0 * MIDDLE, 0 * MIDDLE), VALUES, NEXT, 0.5, 0.0)
    np.testing.assert_allclose(found[:, 0], [1, -3, -7], rtol=1e-6)


def test_trace_one_is_the_return_minus_the_value():
    ends = np.asarray([[0, 0, 0], [0, 0, 0], [1, 1, 1]])
    found = lambda_advantages(steps(REWARD, ends, 0 * ends), VALUES, NEXT, 0.5, 1.0)
    # A consistent critic: the value of the next state is that of the next row, so values telescope.
    returns = np.asarray([1 + 2 / 2 + 3 / 4, 2 + 3 / 2, 3])
    np.testing.assert_allclose(found[:, 0], returns - [10, 20, 30], rtol=1e-6)


@pytest.mark.parametrize("kind, matters", [("terminated", False), ("truncated", True), ("neither", True)])
def test_only_termination_hides_the_value_of_the_state_that_followed(kind, matters):
    end = jnp.ones((1, 1), bool)
    batch = steps([[1.0]], end if kind == "terminated" else ~end, end if kind == "truncated" else ~end)
    low, high = (
        lambda_advantages(batch, jnp.zeros((1, 1)), jnp.full((1, 1), value), 0.9, 0.95) for value in (0.0, 10.0)
    )
    np.testing.assert_allclose(high - low, 9.0 if matters else 0.0, rtol=1e-6)


@pytest.mark.parametrize("kind", ["terminated", "truncated"])
def test_nothing_flows_back_from_the_next_episode(kind):
    first = np.asarray([[1], [0]])
    ends = (first, 0 * first) if kind == "terminated" else (0 * first, first)
    found = [
        lambda_advantages(steps([[1.0], [reward]], *ends), jnp.zeros((2, 1)), jnp.zeros((2, 1)), 0.9, 0.9)[0, 0]
        for reward in (0.0, 1000.0)
    ]
    assert found[0] == found[1]


# ---- The critic ---------------------------------------------------------------------------------------------------


def blank(size: int) -> Critic:
    zeros = jnp.zeros(size)
    return Critic(jnp.zeros((size - 1, 2)), jnp.zeros(size - 1), zeros, jnp.zeros((size, size)), zeros)


@pytest.fixture(scope="module")
def critic() -> Critic:
    return new_critic(task_set((("two-rooms", 1.0),)), host_generator(0), 32, 0.5)


def states(count: int, seed: int = 0) -> tuple[jnp.ndarray, jnp.ndarray]:
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.uniform(size=(4, count)), jnp.float32), jnp.asarray(rng.uniform(-1, 1, (2, count)), jnp.float32)


def test_the_critic_recovers_what_its_features_can_say(critic):
    weights = np.random.default_rng(1).normal(size=33)
    features = critic.features(*states(2000))
    fitted = fit(critic, features, jnp.asarray(weights @ np.asarray(features), jnp.float32), 0.0, 1e-6)
    elsewhere = critic.features(*states(500, seed=2))
    expected = weights @ np.asarray(elsewhere)
    error = np.asarray(fitted.weights @ elsewhere) - expected
    assert np.sqrt(np.square(error).mean()) < 0.01 * expected.std()


def test_the_critic_follows_a_value_that_falls_with_distance(critic):
    """What it meets in the rooms: one goal, one descriptor. Not in its span, but within its reach."""

    def draw(count: int, seed: int) -> tuple[jnp.ndarray, np.ndarray]:
        x, m = states(count, seed)
        x, m = x.at[2:].set(jnp.asarray([[0.9], [0.1]])), jnp.broadcast_to(jnp.asarray([[-0.8], [0.7]]), m.shape)
        return critic.features(x, m), -20 * np.hypot(np.asarray(x)[0] - 0.9, np.asarray(x)[1] - 0.1)

    features, values = draw(2000, 0)
    fitted = fit(critic, features, jnp.asarray(values, jnp.float32), 0.0, 1e-3)
    features, values = draw(500, 1)
    error = np.asarray(fitted.weights @ features) - values
    assert 1 - error.var() / values.var() > 0.95


def test_features_are_a_bias_and_ramps_that_depend_on_state_and_task(critic):
    x, m = states(200)
    features = critic.features(x, m)
    assert features.shape == (33, 200)
    np.testing.assert_array_equal(features[0], 1.0)
    assert -1 == features.min() and features.max() == 1
    for other in (critic.features(x[::-1], m), critic.features(x, -m)):
        assert np.abs(other - features).max() > 0.1


def test_former_batches_count_less():
    """One constant feature: the fit is the mean, with weight memory for the batch before, memory^2 before that."""
    features = jnp.ones((1, 4))
    critic = blank(1)
    for target in (8.0, 2.0, 1.0):
        critic = fit(critic, features, jnp.full(4, target), 0.5, 0.0)
    np.testing.assert_allclose(critic.weights, [(8 / 4 + 2 / 2 + 1) / (1 / 4 + 1 / 2 + 1)], rtol=1e-6)


def test_ridge_draws_to_zero():
    """With one feature of mean square 1 and ridge 1, half of the mean."""
    fitted = fit(blank(1), jnp.ones((1, 3)), jnp.asarray([3.0, 6.0, 9.0]), 0.0, 1.0)
    np.testing.assert_allclose(fitted.weights, [3.0], rtol=1e-6)
