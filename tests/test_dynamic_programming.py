"""The optimum of a rooms task: what can be computed by hand, what walls do, and that the true environment agrees."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.errors import UserError
from asap.base.keys import fold, root
from asap.envs.catalog import find
from asap.envs.optimum import Optimum, optimal_return, optimal_values
from asap.envs.rooms import Rooms, RoomsTask

UP, DOWN, RIGHT, LEFT = range(4)


@functools.cache
def solve(name: str) -> Optimum:
    return optimal_values(find(name).task, cells=50)


def make_task(goal, start, walls=(), door=(0.0, 1.0)) -> RoomsTask:
    """A goal square of half-width 0.1, and one point to start from."""
    doors = np.full(len(walls), door[0], np.float32), np.full(len(walls), door[1], np.float32)
    point = np.float32(start)
    return RoomsTask(np.float32(walls), *doors, np.float32(goal), np.float32(0.1), point, point)


def simulate(task: RoomsTask, policy: np.ndarray, episodes: int) -> np.ndarray:
    """Returns of the grid's policy in the true, continuous environment."""
    env, policy, (columns, rows) = Rooms(), jnp.asarray(policy), policy.shape

    def play(key):
        def step(carry, t):
            state, ended, total = carry
            action = policy[(state.x * columns).astype(int), (state.y * rows).astype(int)]
            after = env.step(fold(key, t), state, action, task)
            return (after.state, ended | after.terminated, total + jnp.where(ended, 0.0, after.reward)), None

        begun = env.reset(fold(key, 0), task), jnp.bool_(False), jnp.float32(0)
        return jax.lax.scan(step, begun, jnp.arange(1, 200))[0][2]

    keys = jax.vmap(lambda episode: fold(root(0), episode))(jnp.arange(episodes))
    return np.asarray(jax.jit(jax.vmap(play))(keys))


def test_one_step_away_half_of_the_time():
    # The goal begins exactly one move away: the first step enters it with probability 1/2, else the second does.
    task = make_task(goal=(0.8, 0.5), start=(0.65, 0.51))
    assert optimal_return(task, cells=50) == pytest.approx(0.5 * 99 + 0.5 * 98, abs=0.01)


def test_one_step_away_almost_always():
    # 0.03 to go: noise beyond two standard deviations, one time in 44, makes a second step necessary.
    task = make_task(goal=(0.8, 0.5), start=(0.67, 0.51))
    assert optimal_return(task, cells=50) == pytest.approx(0.9772 * 99 + 0.0228 * 98, abs=0.002)


def test_a_wall_is_a_detour_and_no_value_leaks_through_it():
    values, policy = solve("two-rooms")
    left_of_wall, right_of_wall = values[24, 5], values[25, 5]
    # Up 0.6 to the door and down again: 24 steps more than from the other side.
    assert right_of_wall - left_of_wall == pytest.approx(24, abs=3)
    assert policy[24, 5] == UP and policy[25, 20] in (DOWN, RIGHT) and policy[2, 47] == RIGHT


def test_an_open_wall_costs_nothing():
    without = make_task(goal=(0.9, 0.1), start=(0.25, 0.5))
    with_door = make_task(goal=(0.9, 0.1), start=(0.25, 0.5), walls=(0.5,))
    assert optimal_return(with_door, cells=50) == pytest.approx(optimal_return(without, cells=50), abs=1e-6)


def test_the_mirror_image_has_the_mirrored_optimum():
    values, policy = solve("two-rooms")
    flipped_values, flipped_policy = solve("flipped-two-rooms")
    np.testing.assert_allclose(flipped_values, values[:, ::-1], atol=1e-6)
    # Ties between equally good actions may break differently.
    assert np.mean(flipped_policy == np.array([DOWN, UP, RIGHT, LEFT])[policy[:, ::-1]]) > 0.9


@pytest.mark.parametrize("name", ["two-rooms", "flipped-two-rooms", "three-rooms"])
def test_the_true_environment_agrees(name):
    task = find(name).task
    promised = optimal_return(task, cells=50)
    returns = simulate(task, solve(name).policy, episodes=4000)
    # The standard error is 0.09, the error of the grid below 0.1.
    assert returns.mean() == pytest.approx(promised, abs=0.4)
    assert returns.min() > 30  # The goal is reached from every start.


def test_a_goal_behind_a_closed_wall_is_an_error():
    task = make_task(goal=(0.9, 0.1), start=(0.25, 0.5), walls=(0.5,), door=(2.0, 2.0))
    with pytest.raises(UserError, match="open a way to the goal"):
        optimal_values(task, cells=10)
