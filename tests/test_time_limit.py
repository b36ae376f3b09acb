"""Promise: a critic that sees the time knows that nothing comes after the time limit, wherever the episodes come from.

The limit is four steps, the discount 1/2, the trace 1, and the critic V(x, t) = 1 + 2 x + 2 t, where t goes from -1 to 1
over the limit: -1, -1/2, 0, 1/2. Advantages are worked out by hand.
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from update_paths import Episode, Start, logged_update, packed_update, side_by_side, window_update

from asap.base.arrays import compiled
from asap.base.keys import fold, root
from asap.base.types import Transition
from asap.compose import compose
from asap.config.schema import LearnConfig
from asap.envs import catalog
from asap.experience.rollout import play_window, start_lanes
from asap.learn.judge import without_time_limit
from asap.learn.state import drawn_critic, drawn_policy

# Values are -1, 1, 3 and 3; the limit cuts it off, so rewards are all there is: 2 + 1/2 - 1/4 + 3/8 and so on.
CUT_BY_LIMIT = Episode((0.0, 0.5, 1.0, 0.5, -1.0), (0, 1, 1, 0), (0, 1, 1, 0), (2.0, 1.0, -1.0, 3.0), terminated=False)
# The value is 0, and -2 after the step, which is not the last that the limit allows: 2 - 2/2.
CUT_EARLY = Episode((0.5, -1.0), (0,), (0,), (2.0,), terminated=False)
# Values are 1 and -1: 0 + 4/2 and 4.
OVER = Episode((1.0, -0.5, 0.5), (1, 1), (1, 0), (0.0, 4.0), terminated=True)
# The value is -1, and the target 2.
SHORT = Episode((0.0, 1.0), (0,), (1,), (2.0,), terminated=True)
EPISODES = (CUT_BY_LIMIT, CUT_EARLY, OVER, SHORT)
ADVANTAGES = [2.625 + 1, 1.25 - 1, 0.5 - 3, 3 - 3, 1 - 0, 2 - 1, 4 + 1, 2 + 1]
START = Start(
    beta=[[0.2, -0.4]],
    theta=[[0.3, -0.2], [-0.5, 0.4]],
    alpha_beta=2.0,
    alpha_theta=1.5,
    ramps=[[1.0, 0.0], [0.0, 1.0]],
    critic=[1.0, 2.0, 2.0],
    gram=np.eye(3),
    moment=[1.0, 2.0, 2.0],
)
LEARN = {"discount": 0.5, "trace": 1.0, "critic_memory": 0.5, "critic_time": True}


@pytest.mark.parametrize("path", [window_update, packed_update, logged_update])
def test_advantages_are_those_by_hand(path):
    behaved = tuple(e._replace(behaviour=(-0.7,) * e.length) for e in EPISODES)
    np.testing.assert_allclose(path(START, behaved, **LEARN).advantages, ADVANTAGES, atol=1e-6)


def test_the_critic_is_fitted_to_the_targets_and_the_time():
    """Half of what was known before, and the means over the eight steps."""
    x = np.array([0.0, 0.5, 1.0, 0.5, 0.5, 1.0, -0.5, 0.0])
    t = np.array([-1.0, -0.5, 0.0, 0.5, -1.0, -1.0, -0.5, -1.0])
    seen, targets = np.stack([np.ones(8), x, t]), np.array([2.625, 1.25, 0.5, 3.0, 1.0, 2.0, 4.0, 2.0])
    gram, moment = 0.5 * np.eye(3) + seen @ seen.T / 8, 0.5 * np.array([1.0, 2.0, 2.0]) + seen @ targets / 8
    expected = np.linalg.solve(gram + 1e-3 * np.eye(3), moment)
    np.testing.assert_allclose(packed_update(START, EPISODES, **LEARN).critic, expected, rtol=1e-5)


def test_only_a_truncation_at_the_limit_terminates():
    steps: Transition = side_by_side((CUT_BY_LIMIT, CUT_EARLY))[0]
    ends = np.asarray(without_time_limit(steps, 4).terminated & steps.counts)
    assert np.argwhere(ends).tolist() == [[3, 0]]
    assert not np.asarray(without_time_limit(steps, 5).terminated).any()


def test_compiled_lanes_know_how_old_their_episodes_are():
    """Also in the window that follows: one that ends within an episode does not end it."""
    config, tasks = compose(["two-rooms"], {"learn.critic_time": True})
    policy, lanes_of = drawn_policy(config, tasks, 0), catalog.compiled(tasks)
    play = compiled(play_window, static_argnames=("num_steps", "timed"))
    lanes = start_lanes(lanes_of, fold(root(0), 0), jnp.arange(4))
    seen = []
    for number in range(9):  # Episodes have 400 steps at most.
        lanes, steps, _ = play(policy, lanes_of, lanes, fold(root(1), number), num_steps=64, timed=True)
        seen.append(jax.tree.map(np.asarray, (steps.elapsed, steps.ended, steps.truncated)))
    elapsed, ended, truncated = (np.concatenate(parts) for parts in zip(*seen))
    assert (elapsed[0] == 0).all() and ended.any()
    np.testing.assert_array_equal(elapsed[1:], np.where(ended[:-1], 0, elapsed[:-1] + 1))
    assert truncated.any() and (elapsed[truncated] == tasks.spec.horizon - 1).all()


def test_the_critic_has_one_input_more():
    config, tasks = compose(["two-rooms"], {})
    timed = dataclasses.replace(config, learn=dataclasses.replace(config.learn, critic_time=True))
    plain, more = (drawn_critic(one, tasks, 0).hidden for one in (config, timed))
    assert more.shape == (plain.shape[0], plain.shape[1] + 1) and (more[:, -1] != 0).all()


def test_the_discount_follows_the_time_limit():
    learn = LearnConfig(horizon_discount=True)
    assert learn.discount_on(0.9, 500) == pytest.approx(0.998)
    assert dataclasses.replace(learn, discount=0.5).discount_on(0.9, 500) == 0.5
    assert LearnConfig().discount_on(0.9, 500) == 0.9
