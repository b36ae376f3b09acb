"""Pinball moves, bounces, ends and pays as the package does that its boards come from."""

import random
from importlib import resources
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.paper.pinball import Board, Pinball, RollingBall, is_installed, meets, pinball

needs_package = pytest.mark.skipif(not is_installed(), reason="pip install pynball-rl")


def square(at, size=0.2):
    """A board with one square obstacle, its lower corner at a place."""
    corners = np.float32(at) + size * np.float32([[0, 0], [1, 0], [1, 1], [0, 1]])
    edges = np.roll(corners, 1, 0) - corners
    parallel = np.tile(np.eye(2, dtype=bool), (2, 2))
    numbers = map(np.float32, ([[0.1, 0.1]], [0.9, 0.9], 0.04, 0.02))
    return Board(*numbers, corners, edges, np.zeros(4, np.int32), parallel)


transition, edges_met = jax.jit(Pinball().transition), jax.jit(meets)


def step(board, position, velocity, action):
    state = RollingBall(jnp.float32(position), jnp.float32(velocity), jnp.array(False))
    found = transition((), state, jnp.int32(action), board)
    return (
        np.asarray(found.state.position),
        np.asarray(found.state.velocity),
        float(found.reward),
        bool(found.terminated),
    )


def test_a_free_ball_rolls_on_and_slows_down():
    position, velocity, reward, ended = step(square([0.5, 0.5]), [0.2, 0.2], [0.5, 0.0], 4)
    assert (
        position == pytest.approx([0.21, 0.2])
        and velocity == pytest.approx([0.4975, 0])
        and (reward, ended) == (-1, False)
    )
    _, velocity, reward, _ = step(square([0.5, 0.5]), [0.2, 0.2], [0.9, 0.0], 0)
    assert velocity == pytest.approx([0.995, 0]) and reward == -5  # A push of 0.2, and no more than 1.


def test_a_ball_is_reflected_by_an_edge_and_turns_back_at_a_corner():
    board = square([0.5, 0.2])
    position, velocity, *_ = step(board, [0.47, 0.3], [1.0, 0.3], 4)
    # Its rim is 0.01 from the edge: after ten moves of 0.001 it touches, and comes back with the other ten.
    assert velocity == pytest.approx([-0.995, 0.2985]) and position[0] == pytest.approx(0.47, abs=0.003)
    _, velocity, *_ = step(board, [0.48, 0.18], [0.5, 0.5], 4)
    assert velocity == pytest.approx([-0.4975, -0.4975])


def test_an_edge_behind_the_ball_does_not_count():
    board = square([0.5, 0.2])
    touched = [
        np.asarray(edges_met(jnp.float32([0.485, 0.3]), jnp.float32(v), board)) for v in ([1.0, 0.0], [-1.0, 0.0])
    ]
    assert touched[0].sum() == 1 and touched[1].sum() == 0


def test_the_goal_ends_the_episode_and_pays():
    _, _, reward, ended = step(square([0.5, 0.2]), [0.83, 0.9], [1.0, 0.0], 4)
    assert ended and reward == 9999
    assert not step(square([0.5, 0.2]), [0.81, 0.9], [1.0, 0.0], 4)[3]


@needs_package
def test_steps_are_those_of_the_package():
    from pynball_rl.pynball_env import PynBall

    (task,) = pinball("easy").tasks
    before = random.getstate()
    with resources.as_file(resources.files("pynball_rl.configs") / "easy_config.toml") as path:
        theirs = PynBall(Path(path))
    random.setstate(before)
    generator, differ, bounced = np.random.default_rng(0), 0, 0
    x, steps = theirs.reset(), 2000
    assert np.float32(x[:2]) == pytest.approx(task.task.starts[0])
    for number in range(steps):
        if number % 4 == 0:
            action = int(generator.integers(5))
        state = RollingBall(jnp.float32(x[:2]), jnp.float32(x[2:]), jnp.array(False))
        ours = transition((), state, jnp.int32(action), task.task)
        after, reward, ended, _ = theirs.step(action)
        close = np.allclose(np.concatenate(ours.state[:2]), after, atol=1e-4)
        differ += not (close and float(ours.reward) == reward and bool(ours.terminated) == ended)
        bounced += bool(np.abs(np.subtract(after[2:], 0.995 * np.asarray(x[2:]))).max() > 0.25)
        x = theirs.reset() if ended else after
    # Single precision now and then sees a touch one move sooner or later.
    assert bounced > 50 and differ <= steps // 200
