"""Promise: the Goal domain moves, kicks, catches and pays by the published numbers; worked out by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import fold, root
from asap.envs import goal_domain as goal
from asap.envs.goal_domain import BALL, PLAYER, GoalDomain, GoalGame, Moving
from asap.envs.soccer.vectors import Vector

NO_ERROR = (0.5,) * goal.NUM_DICE  # Uniform numbers whose errors are 0.
NO_ERRORS = [0.0] * 4


def body(x, y, vx=0.0, vy=0.0, facing=0.0) -> Moving:
    x, y, vx, vy, facing = map(jnp.float32, (x, y, vx, vy, facing))
    return Moving(Vector(x, y), Vector(vx, vy), facing)


def game(player, keeper, ball, actions=0) -> GoalGame:
    return GoalGame(player, keeper, ball, jnp.int32(goal.IN_PLAY), jnp.int32(actions))


def numbers(vector: Vector) -> list[float]:
    return [float(vector.x), float(vector.y)]


def test_episodes_begin_with_the_ball_ahead_and_the_keeper_between_it_and_the_goal():
    for number in range(5):
        state = GoalDomain().reset(fold(root(3), number), goal.standard_goal())
        player, ball, keeper = (np.asarray(numbers(who.position)) for who in (state.player, state.ball, state.keeper))
        assert player[0] == 0 and abs(player[1]) <= 15
        to_goal = np.asarray([20.0, 0.0]) - player
        np.testing.assert_allclose(ball, player + 1.6 * to_goal / np.linalg.norm(to_goal), atol=1e-4)
        assert keeper[0] == pytest.approx(14.5)
        assert keeper[1] == pytest.approx(ball[1] * 5.5 / (20 - ball[0]), abs=1e-4)
        assert bool(goal.has_ball(state.player, state.ball))


def test_a_dash_moves_by_its_acceleration_and_then_decays():
    after = goal.move(goal.accelerated(body(0, 0), PLAYER, 100.0, 0.0, NO_ERRORS), PLAYER)
    assert numbers(after.position) == pytest.approx([0.6, 0.0])  # 100 * 0.006
    assert numbers(after.velocity) == pytest.approx([0.24, 0.0])


def test_speed_is_clipped_on_each_axis_and_errors_grow_with_it():
    fast = goal.accelerated(body(0, 0, 0.9, 0.0), PLAYER, 100.0, 0.0, NO_ERRORS)
    assert numbers(fast.velocity) == pytest.approx([1.0, 0.0])  # 0.9 + 0.6
    pushed = goal.accelerated(body(0, 0, 0.5, 0.0), PLAYER, 0.0, 0.0, [0.0, 1.0, -1.0])
    assert numbers(pushed.velocity) == pytest.approx([0.55, -0.05])  # A tenth of 0.5.
    turned = goal.accelerated(body(0, 0), PLAYER, 100.0, 1.0, [1.0, 0.0, 0.0])
    assert numbers(turned.velocity) == pytest.approx([0.6 * np.cos(1.1), 0.6 * np.sin(1.1)])


def test_kicks_are_weaker_for_a_ball_far_off_or_aside():
    target, shoot = Vector(20.0, 0.0), jnp.int32(goal.SHOOT_LEFT)
    ahead = goal.kick(body(0, 0), body(1.6, 0), target, shoot, NO_ERRORS)
    assert numbers(ahead.velocity) == pytest.approx([2.025, 0.0])  # 100 * 0.027 * (1 - 0.25)
    behind = goal.kick(body(0, 0, facing=np.pi), body(0.8, 0), target, shoot, NO_ERRORS)
    assert numbers(behind.velocity) == pytest.approx([1.6875, 0.0], abs=1e-5)  # 2.7 * (1 - 0.25 - 0.125)


def test_kick_to_lets_the_ball_come_to_rest_at_its_target():
    ball = goal.kick(body(0, 0), body(1.6, 0), Vector(6.6, 0.0), jnp.int32(goal.KICK_TO), NO_ERRORS)
    assert numbers(ball.velocity) == pytest.approx([0.3, 0.0], abs=1e-5)  # 0.3 / 0.06 = 5 m.


def test_the_keeper_runs_onto_the_line_of_a_shot_and_else_to_where_the_ball_rests():
    foot, power = goal.keeper_aim(body(14.5, 2), body(10, 0, 2.0, 0))
    assert numbers(foot) == pytest.approx([14.5, 0.0]) and float(power) == 20
    rest, power = goal.keeper_aim(body(14.5, 2), body(10, 0, 0.3, 0))
    assert numbers(rest) == pytest.approx([15.0, 0.0], abs=1e-4) and float(power) == 8
    # It crosses the line at y = 10, wide of 7.01 + 2; one at 9 is covered.
    assert float(goal.keeper_aim(body(14.5, 2), body(10, 0, 1.0, 1.0))[1]) == 8
    assert float(goal.keeper_aim(body(14.5, 2), body(10, 0, 1.0, 0.9))[1]) == 20


def test_bodies_that_overlap_are_pushed_apart_and_turn_back():
    one, other = goal.collide(body(0, 0, 0.2, 0), body(1.0, 0, -0.4, 0.1), PLAYER.size + BALL.size)
    assert numbers(one.position) + numbers(other.position) == pytest.approx([-0.15, 0, 1.15, 0])
    assert numbers(one.velocity) + numbers(other.velocity) == pytest.approx([-0.2, 0, 0.4, -0.1])


def test_the_referee_tells_goals_from_balls_that_are_out_or_caught():
    keeper = body(15, -5)
    seen = [
        goal.referee(Vector(19.0, 6.0), keeper, body(21.0, 8.0)),  # Crosses at 7.0.
        goal.referee(Vector(19.0, 6.1), keeper, body(21.0, 8.1)),  # At 7.1.
        goal.referee(Vector(5.0, 14.9), keeper, body(6.0, 15.1)),
        goal.referee(Vector(13.0, -5.0), keeper, body(13.1, -5.0)),
        goal.referee(Vector(12.0, -5.0), keeper, body(12.9, -5.0)),
    ]
    assert [int(status) for status in seen] == [goal.SCORED, goal.OUT, goal.OUT, goal.CAUGHT, goal.IN_PLAY]


def test_a_primitive_step_kicks_and_then_moves_all():
    before = game(body(10, 0), body(14.5, 3), body(11.6, 0))
    after = goal.primitive(NO_ERROR, before, Vector(20.0, 0.0), jnp.int32(goal.SHOOT_LEFT), jnp.bool_(True))
    assert numbers(after.ball.position) == pytest.approx([13.625, 0.0])  # 11.6 + 2.025
    assert numbers(after.ball.velocity) == pytest.approx([1.9035, 0.0], abs=1e-5)
    assert numbers(after.player.position) == [10.0, 0.0]
    # Towards where the ball lay, 0.048 m of a chasing dash.
    keeper = np.asarray([14.5, 3]) + 0.048 * np.asarray([-2.9, -3.0]) / np.hypot(2.9, 3.0)
    assert numbers(after.keeper.position) == pytest.approx(keeper.tolist(), abs=1e-5)


def test_actions_end_with_the_ball_and_ends_are_paid(compiled):
    step = compiled(lambda state, action: GoalDomain().transition(root(1), state, action, goal.standard_goal()))
    far = body(19, -14)  # The keeper is out of the way.
    scored = step(game(body(13, 4), far, body(14.6, 4)), jnp.float32([goal.SHOOT_LEFT, 4.0, 0.0]))
    assert (float(scored.reward), bool(scored.terminated), bool(scored.success)) == (50.0, True, True)
    wide = step(game(body(13, 4), far, body(14.6, 4)), jnp.float32([goal.SHOOT_RIGHT, 11.0, 0.0]))
    at = np.asarray(numbers(wide.state.ball.position))
    assert bool(wide.terminated) and not bool(wide.success) and at[0] > 20
    assert float(wide.reward) == pytest.approx(-np.hypot(at[0] - 20, at[1]), abs=1e-4)
    kicked = step(game(body(3, 4), far, body(4.6, 4)), jnp.float32([goal.KICK_TO, 9.0, 6.0]))
    ball = kicked.state.ball
    assert (float(kicked.reward), bool(kicked.terminated)) == (0.0, False)
    assert bool(goal.has_ball(kicked.state.player, ball)) and float(ball.velocity.length) <= goal.SLOW
    assert 5 < float(ball.position.x) < 10
    late = step(game(body(3, 4), far, body(4.6, 4), actions=99), jnp.float32([goal.KICK_TO, 9.0, 6.0]))
    left = np.hypot(20 - float(ball.position.x), float(ball.position.y))
    assert bool(late.terminated) and float(late.reward) == pytest.approx(-left, abs=1e-4)
