"""Surgery on policies: what changes, and what must not."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.errors import UserError
from asap.config.schema import PolicyConfig
from asap.envs import catalog
from asap.policy.build import build_policy
from asap.policy.surgery import drop_plane, grow, merge_sides, merge_skills, regions_on_side, soften

STATES = np.random.default_rng(0).uniform(size=(4, 50)).astype(np.float32)
TASK = np.zeros((2, 50), np.float32)


def policy_with(planes: int, **settings):
    """Skills far apart, so that a mistake shows."""
    config = PolicyConfig(hyperplanes=planes, alpha_theta=2.0, start="random", **settings)
    policy = build_policy(config, (catalog.find("two-rooms"),), np.random.default_rng(planes))
    theta = np.random.default_rng(7).standard_normal(policy.skills.theta.shape).astype(np.float32)
    return with_theta(policy, theta)


def with_theta(policy, theta):
    return eqx.tree_at(lambda p: p.skills.theta, policy, theta)


def with_beta(policy, beta):
    return eqx.tree_at(lambda p: p.partition.beta, policy, beta)


def act(policy) -> np.ndarray:
    return np.exp(policy.action_log_probs(STATES, TASK))


@pytest.mark.parametrize("planes", [1, 2, 3])
def test_growing_changes_nothing_and_dropping_the_grown_plane_restores(planes):
    policy = policy_with(planes)
    grown = grow(policy, np.float32([0.3, -1.0, 2.0]))
    assert grown.partition.num_planes == planes + 1 and grown.num_skills == 2 * policy.num_skills
    np.testing.assert_allclose(act(grown), act(policy), atol=1e-6)
    for side in (0, 1):
        restored = drop_plane(grown, planes, side)
        np.testing.assert_array_equal(restored.partition.beta, policy.partition.beta)
        np.testing.assert_array_equal(restored.skills.theta, policy.skills.theta)


def test_a_dropped_plane_leaves_the_skills_of_the_side_that_is_kept():
    policy = policy_with(3)
    np.testing.assert_array_equal(regions_on_side(3, 1, 0), [0, 1, 4, 5])
    np.testing.assert_array_equal(regions_on_side(3, 1, 1), [2, 3, 6, 7])
    kept = drop_plane(policy, 1, 1)
    np.testing.assert_array_equal(kept.skills.theta, policy.skills.theta[[2, 3, 6, 7]])
    np.testing.assert_array_equal(kept.partition.beta, policy.partition.beta[[0, 2]])


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("side", [0, 1])
def test_dropping_is_right_where_the_plane_has_only_one_side(k, side):
    """Far on one side of plane k everywhere, a policy acts as without the plane: the bits are in the right order."""
    policy = policy_with(3)
    beta = policy.partition.beta.copy()
    beta[k] = [100.0 if side else -100.0, 0.0, 0.0]
    policy = with_beta(policy, beta)
    np.testing.assert_allclose(act(drop_plane(policy, k, side)), act(policy), atol=1e-6)
    assert np.abs(act(drop_plane(policy, k, 1 - side)) - act(policy)).max() > 0.01


@pytest.mark.parametrize("k", [0, 1])
def test_merging_equal_sides_changes_nothing(k):
    policy = policy_with(2)
    theta = np.array(policy.skills.theta)
    theta[regions_on_side(2, k, 1)] = theta[regions_on_side(2, k, 0)]
    policy = with_theta(policy, theta)
    np.testing.assert_allclose(act(merge_sides(policy, k, np.float32([0.1, 0.2, 0.7, 0.0]))), act(policy), atol=1e-6)


def test_merged_skills_are_the_mean_of_their_probabilities_by_usage():
    policy, usage = policy_with(2), np.float32([0.3, 0.2, 0.1, 0.4])
    sigma = np.exp(policy.skills.log_probs(jnp.ones(1)))
    after = np.exp(merge_sides(policy, 1, usage).skills.log_probs(jnp.ones(1)))
    np.testing.assert_allclose(after[0], 0.75 * sigma[0] + 0.25 * sigma[2], atol=1e-6)
    np.testing.assert_allclose(after[1], (0.2 * sigma[1] + 0.4 * sigma[3]) / 0.6, atol=1e-6)
    merged = merge_skills(policy, [0, 3], usage)
    assert merged.partition.region_skills == (0, 1, 2, 0)
    after = np.exp(merged.skills.log_probs(jnp.ones(1)))
    np.testing.assert_allclose(after[0], (0.3 * sigma[0] + 0.4 * sigma[3]) / 0.7, atol=1e-6)
    np.testing.assert_allclose(after[[1, 2]], sigma[[1, 2]], atol=1e-6)


def test_a_skill_that_was_not_used_has_no_part_beside_one_that_was():
    policy = policy_with(1)
    sigma = np.exp(policy.skills.log_probs(jnp.ones(1)))
    merged = merge_skills(policy, [0, 1], np.float32([0.4, 0.0]))
    np.testing.assert_allclose(np.exp(merged.skills.log_probs(jnp.ones(1))), [sigma[0]], atol=1e-6)


def test_skills_that_were_never_used_count_the_same():
    policy = policy_with(1)
    sigma = np.exp(policy.skills.log_probs(jnp.ones(1)))
    merged = merge_skills(policy, [0, 1], np.zeros(2, np.float32))
    np.testing.assert_allclose(np.exp(merged.skills.log_probs(jnp.ones(1)))[0], sigma.mean(0), atol=1e-6)


def test_softened_planes_keep_their_direction_and_short_ones_stay():
    policy = policy_with(2)
    beta = np.float32([[3.0, 4.0, 0.0], [0.01, 0.0, 0.0]])
    softened = soften(with_beta(policy, beta), 0.5)
    np.testing.assert_allclose(softened.partition.beta, [[0.3, 0.4, 0.0], [0.01, 0.0, 0.0]], rtol=1e-6)


def test_without_its_last_plane_a_policy_has_one_skill():
    policy = policy_with(1)
    for side in (0, 1):
        left = drop_plane(policy, 0, side)
        assert left.num_skills == 1
        np.testing.assert_array_equal(left.skills.theta[0], policy.skills.theta[side])


def test_what_cannot_be_done_is_said():
    with pytest.raises(UserError, match="linear"):
        merge_sides(policy_with(2, skills="linear"), 0, np.ones(4, np.float32))
