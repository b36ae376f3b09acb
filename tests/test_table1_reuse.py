"""Reuse of a skill is found on the states that a system visits, whatever system it is, and a forbidden skill is not used."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import fold, root, uniforms
from asap.envs import catalog
from asap.paper.table1_reuse import Without, _most_reused, reuse_of

UP, DOWN, RIGHT, LEFT = range(4)


class Bands(eqx.Module):
    """Skill 1 (to the right) in the first and the last third of the width, skill 0 (to the left) between them."""

    width: jax.Array

    def draws(self, key):
        return uniforms(key)[:1]

    def choose(self, draws, x, m, previous):
        is_outer = (x[0] < self.width) | (x[0] > 1 - self.width)
        return is_outer.astype(jnp.int32), jnp.where(is_outer, RIGHT, LEFT).astype(jnp.int32)


def test_two_regions_that_do_not_touch_are_told_apart_by_their_visits():
    rulers, visits = np.zeros((50, 50), int), np.zeros((50, 50))
    rulers[:10], rulers[40:] = 1, 1
    visits[5, 5], visits[45, 5], visits[25, 25] = 0.3, 0.2, 0.5
    assert _most_reused(visits, rulers, 2)[:2] == (1, [0.3, 0.2])
    assert _most_reused(visits, rulers, 2).is_reused
    rulers[:, 0] = 1  # Now they touch.
    assert _most_reused(visits, rulers, 2).shares in ([0.5], [0.5, 0.0])
    assert not _most_reused(visits, rulers, 2).is_reused


def test_a_skill_that_rules_two_rooms_is_found_and_its_return_without_it():
    actors = Bands(jnp.float32([0.2, 0.33]))
    first, second = reuse_of(actors, 2, catalog.find("three-rooms"), [0, 1], episodes=16)
    # Nobody gets past the first band: the outer one is never visited.
    assert (first.is_reused, first.without, second.without) == (False, None, None)


def test_a_forbidden_skill_is_drawn_again_and_at_last_replaced_by_a_random_action():
    always = Without(Bands(jnp.float32(0.5)), jnp.int32(1), 4)
    x, m = jnp.float32([0.1, 0.5, 0.9, 0.9]), jnp.zeros(3)
    drawn = [always.choose(always.draws(fold(root(0), n)), x, m, jnp.int32(1)) for n in range(40)]
    assert {int(skill) for skill, _ in drawn} == {-1}
    assert {int(action) for _, action in drawn} == {UP, DOWN, RIGHT, LEFT}
    free = Without(Bands(jnp.float32(0.5)), jnp.int32(0), 4)
    assert [int(part) for part in free.choose(free.draws(root(0)), x, m, jnp.int32(0))] == [1, RIGHT]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_paper_s_own_policy_on_three_rooms_reuses_a_skill(seed):
    """sin(3 pi x) has one sign in the first and the last room: with skills that lead through, skill 1 rules both."""
    from asap.base.arrays import stack
    from asap.compose import compose
    from asap.learn.state import drawn_policy

    config, tasks = compose(["three-rooms"], {"policy.start": "approximate"})
    policy = drawn_policy(config, tasks, seed)
    ahead = np.float32([[0, 6, 5, 0], [6, 0, 5, 0]])  # Right, and down in the middle room, up in the others.
    actors = stack([eqx.tree_at(lambda p: p.skills.theta, policy, ahead.reshape(policy.skills.theta.shape))])
    (found,) = reuse_of(actors, 2, tasks.tasks[0], [seed], episodes=64)
    assert (found.is_reused, found.skill) == (True, 1)
    assert found.without < 0
