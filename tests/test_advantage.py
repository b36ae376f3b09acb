"""Advantages and critic: numbers worked out by hand; truncation is bootstrapped, termination is not."""

import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import host_generator
from asap.base.types import Transition
from asap.config.schema import LearnConfig
from asap.envs.catalog import find
from asap.experience.critic import Critic, lambda_advantages, new_critic
from asap.learn.judge import fit, weights_of


def steps(reward, terminated, truncated) -> Transition:
    """Transitions of which only rewards and ends matter; axes (time, lane)."""
    reward = jnp.asarray(reward, jnp.float32)
    terminated, truncated = (jnp.asarray(ends, bool).reshape(reward.shape) for ends in (terminated, truncated))
    zero, vector = jnp.zeros(reward.shape, jnp.int32), jnp.zeros((1, *reward.shape))
    return Transition(vector, vector, zero, zero, zero, reward, terminated, truncated, vector)


def numbers(*columns) -> jnp.ndarray:
    return jnp.asarray(np.stack(columns, axis=-1), jnp.float32)


@pytest.fixture(scope="module")
def advantages(compiled):
    return compiled(lambda_advantages, static_argnums=(3, 4))


@pytest.fixture(scope="module")
def fitted(compiled):
    """A critic fitted to batches, one after the other."""
    run = compiled(fit, static_argnums=(3, 4))

    def of(critic: Critic, features, *targets, memory: float = 0.0, ridge: float = 0.0) -> Critic:
        for target in targets:
            critic = run(critic, features, jnp.asarray(target, jnp.float32), memory, ridge)
        return critic

    return of


# Three lanes of three steps with rewards 1, 2, 3, values 10, 20, 30 and next values 20, 30, 40; gamma = lambda = 1/2.
REWARD = numbers([1, 2, 3], [1, 2, 3], [1, 2, 3])
VALUES = numbers([10, 20, 30], [10, 20, 30], [10, 20, 30])
NEXT = numbers([20, 30, 40], [20, 30, 40], [20, 30, 40])
MIDDLE = np.asarray([[0, 0, 0], [1, 0, 0], [0, 0, 0]])  # The first lane ends at its second step.


def test_advantages_by_hand(advantages):
    """Lane 0 terminates in the middle, lane 1 is truncated there, lane 2 goes on beyond the window.

    Without an end, the deltas are 1 + 10 - 10 = 1, 2 + 15 - 20 = -3 and 3 + 20 - 30 = -7; with termination the middle
    one is 2 - 20 = -18. Backwards, A_t = delta_t + A_{t+1} / 4 where the episode goes on.
    """
    found = advantages(steps(REWARD, MIDDLE, np.roll(MIDDLE, 1, axis=1)), VALUES, NEXT, 0.5, 0.5)
    terminated = [1 - 18 / 4, -18, -7]
    truncated = [1 - 3 / 4, -3, -7]
    running = [1 + (-3 - 7 / 4) / 4, -3 - 7 / 4, -7]
    np.testing.assert_allclose(found, numbers(terminated, truncated, running), rtol=1e-6)


def test_trace_zero_is_the_error_of_one_step(advantages):
    found = advantages(steps(REWARD, 0 * MIDDLE, 0 * MIDDLE), VALUES, NEXT, 0.5, 0.0)
    np.testing.assert_allclose(found[:, 0], [1, -3, -7], rtol=1e-6)


def test_trace_one_is_the_return_minus_the_value(advantages):
    ends = np.asarray([[0, 0, 0], [0, 0, 0], [1, 1, 1]])
    found = advantages(steps(REWARD, ends, 0 * ends), VALUES, NEXT, 0.5, 1.0)
    # A consistent critic: the value of the next state is that of the next row, so values telescope.
    returns = np.asarray([1 + 2 / 2 + 3 / 4, 2 + 3 / 2, 3])
    np.testing.assert_allclose(found[:, 0], returns - [10, 20, 30], rtol=1e-6)


@pytest.mark.parametrize("kind, matters", [("terminated", False), ("truncated", True), ("neither", True)])
def test_only_termination_hides_the_value_of_the_state_that_followed(advantages, kind, matters):
    last = np.asarray([[0], [1]])
    batch = steps([[1.0], [1.0]], last * (kind == "terminated"), last * (kind == "truncated"))
    low, high = (
        advantages(batch, jnp.zeros((2, 1)), jnp.full((2, 1), value), 0.9, 0.95)[1, 0] for value in (0.0, 10.0)
    )
    np.testing.assert_allclose(high - low, 9.0 if matters else 0.0, rtol=1e-6)


@pytest.mark.parametrize("kind", ["terminated", "truncated"])
def test_nothing_flows_back_from_the_next_episode(advantages, kind):
    first = np.asarray([[1], [0]])
    ends = (first, 0 * first) if kind == "terminated" else (0 * first, first)
    found = [
        advantages(steps([[1.0], [reward]], *ends), jnp.zeros((2, 1)), jnp.zeros((2, 1)), 0.9, 0.9)[0, 0]
        for reward in (0.0, 1000.0)
    ]
    assert found[0] == found[1]


# ---- The critic ---------------------------------------------------------------------------------------------------


def blank(size: int) -> Critic:
    zeros = jnp.zeros(size)
    return Critic(jnp.zeros((size - 1, 2)), jnp.zeros(size - 1), zeros, jnp.zeros((size, size)), zeros)


@pytest.fixture(scope="module")
def critic() -> Critic:
    rooms = find("two-rooms")
    low, high = np.float32(rooms.spec.observation_low), np.float32(rooms.spec.observation_high)
    return new_critic(low, high, len(rooms.descriptor), host_generator(0), 32, 0.5)


@pytest.fixture(scope="module")
def features(compiled, critic):
    run = compiled(lambda critic, x, m: critic.features(x, m))
    return lambda x, m: np.asarray(run(critic, jnp.asarray(x, jnp.float32), jnp.asarray(m, jnp.float32)))


def states(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(4, 1000)), rng.uniform(-1, 1, (2, 1000))


def test_the_critic_recovers_what_its_features_can_say(critic, features, fitted):
    weights = np.random.default_rng(1).normal(size=33)
    known, elsewhere = features(*states(0)), features(*states(1))
    found = fitted(critic, known, weights @ known, ridge=1e-6)
    error = np.asarray(found.weights) @ elsewhere - weights @ elsewhere
    assert np.sqrt(np.square(error).mean()) < 0.01 * (weights @ elsewhere).std()


def test_the_critic_follows_a_value_that_falls_with_distance(critic, features, fitted):
    """What it meets in the rooms: one goal, one descriptor. Not in its span, but within its reach."""

    def draw(seed: int) -> tuple[np.ndarray, np.ndarray]:
        x, m = states(seed)
        x[2:], m[:] = [[0.9], [0.1]], [[-0.8], [0.7]]
        return features(x, m), -20 * np.hypot(x[0] - 0.9, x[1] - 0.1)

    known, values = draw(0)
    found = fitted(critic, known, values, ridge=1e-3)
    elsewhere, expected = draw(1)
    error = np.asarray(found.weights) @ elsewhere - expected
    assert 1 - error.var() / expected.var() > 0.95


def test_features_are_a_bias_and_ramps_that_depend_on_state_and_task(features):
    x, m = states()
    found = features(x, m)
    assert found.shape == (33, 1000)
    np.testing.assert_array_equal(found[0], 1.0)
    assert -1 == found.min() and found.max() == 1
    for other in (features(x[::-1], m), features(x, -m)):
        assert np.abs(other - found).max() > 0.1


def test_former_batches_count_less(fitted):
    """One constant feature: the fit is the mean, with weight memory for the batch before, memory^2 before that."""
    targets = [np.full(4, target) for target in (8.0, 2.0, 1.0)]
    found = fitted(blank(1), jnp.ones((1, 4)), *targets, memory=0.5)
    np.testing.assert_allclose(found.weights, [(8 / 4 + 2 / 2 + 1) / (1 / 4 + 1 / 2 + 1)], rtol=1e-6)


def test_ridge_draws_to_zero(fitted):
    """With one feature of mean square 1 and ridge 1, half of the mean."""
    found = fitted(blank(1), jnp.ones((1, 4)), [3.0, 6.0, 9.0, 6.0], ridge=1.0)
    np.testing.assert_allclose(found.weights, [3.0], rtol=1e-6)


def test_steps_that_decide_nothing_do_not_count():
    """Gradients are means over all steps: what is left counts as if the others were not there."""
    decides = jnp.asarray([True, False, True, True, False, True])
    few = jnp.asarray([3.0, 1.0, -2.0, 5.0])
    many = jnp.asarray([3.0, 99.0, 1.0, -2.0, -77.0, 5.0])
    for config in (LearnConfig(), LearnConfig(advantage_scale=0.5)):
        weights = weights_of(config, many, decides=decides)
        assert (np.asarray(weights)[~np.asarray(decides)] == 0).all()
        assert np.allclose(weights[decides] / len(many), weights_of(config, few) / len(few), atol=1e-6)
    assert not np.asarray(weights_of(LearnConfig(), many, decides=jnp.zeros(6, bool))).any()


def test_a_large_batch_is_thinned_samples_with_their_targets(fitted):
    """40,000 samples of V = 3 - 2 f are more than the fit takes: those that are left keep their own targets."""
    feature = np.random.default_rng(0).uniform(-1, 1, 40_000)
    features = jnp.asarray(np.stack([np.ones_like(feature), feature]), jnp.float32)
    found = fitted(blank(2), features, 3 - 2 * feature)
    np.testing.assert_allclose(found.weights, [3, -2], rtol=1e-4)


def test_ramps_lie_within_the_range_of_the_observations():
    """Bounds far from 0: every feature changes somewhere between them."""
    far = new_critic(np.float32([10.0]), np.float32([12.0]), 0, host_generator(0), 16, 0.5)
    found = np.asarray(far.features(jnp.linspace(10, 12, 201)[None], jnp.zeros((0, 201))))[1:]
    assert (np.ptp(found, axis=1) > 0.1).all()
