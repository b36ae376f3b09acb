"""The goalkeeper and the defenders, by the rules of the built-in team of HFO. They defend the goal at x = 52.5."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Bool

from asap.envs.soccer import vectors as c
from asap.envs.soccer.physics import CATCH, KICK, TACKLE, Ball, Body, Command, Touch, is_kickable, tackle_failure
from asap.envs.soccer.prediction import Meeting, Runner, ball_after, choose, idle, kick, meet, run_to, turn_to
from asap.envs.soccer.vectors import Scalar, Vector, where, wrapped

# Goalkeeper.
LINE_X, DANGER_X, BEHIND_GOAL = 49.8, 51.5, 7.0
CATCH_TRY, CATCH_RADIUS = 1.25, 1.0

# Defenders.
TACKLE_CHANCE = 0.8
CARRY_SPEED = 0.9
CAUTION = 0.2  # Cycles that a defender allows for its own error (chosen so that the scoring rates match the real ones).
PATIENCE = 3.0  # Cycles by which a defender may be later than the striker and still go for the ball.


def is_in_area(place: Vector, margin: float = 0.0) -> Bool[Array, ""]:
    """Whether a place is in the penalty area, and not within `margin` of its edge."""
    return (place.x > c.AREA_X + margin) & (jnp.abs(place.y) < c.AREA_HALF_WIDTH - margin)


def goalkeeper(me: Body, ball: Ball, striker: Meeting, striker_has_ball: Bool[Array, ""], speed: Scalar) -> Command:
    """Catch, clear, chase, or stand where the angle is covered. `speed` scales the power of its dashes."""
    ours = meet(Runner.of(me), ball, CATCH_RADIUS, both_ways=True)
    chased = run_to(me, _chase_point(me, ball, ours), speed * c.POWER_MAX, both_ways=True)
    chases = _is_chasing(ball, ours, striker, striker_has_ball)
    command = choose(chases, chased, _positioned(me, ball, striker, speed))
    offset = ball.position - me.position
    catches = (me.catch_ban == 0) & (offset.square < CATCH_TRY**2) & is_in_area(ball.position, margin=1.0)
    catch = Command(jnp.int32(CATCH), jnp.float32(0), wrapped(offset.angle - me.body))
    command = choose(is_kickable(me, ball), _cleared(me, ball), command)
    return choose(catches, catch, command)


def _cleared(me: Body, ball: Ball) -> Command:
    """Kick the ball away from the goal, along its own side of the pitch."""
    away = jnp.arctan2(jnp.where(ball.position.y < 0, -1.0, 1.0), -1.0)
    return Command(jnp.int32(KICK), jnp.float32(c.POWER_MAX), wrapped(away - me.body))


def _is_shot(ball: Ball) -> Bool[Array, ""]:
    """Near the goal, fast, and on a line that hits it, give or take 2 m."""
    to_line = c.PITCH_HALF_LENGTH - ball.position.x
    crossing = ball.position.y + ball.velocity.y * to_line / jnp.maximum(ball.velocity.x, 1e-3)
    is_fast = (to_line < 12.5) & (ball.velocity.square > 0.25) & (ball.velocity.x > 0)
    return is_fast & (jnp.abs(crossing) < c.GOAL_HALF_WIDTH + 2)


def _is_chasing(ball: Ball, ours: Meeting, striker: Meeting, striker_has_ball: Bool[Array, ""]) -> Bool[Array, ""]:
    soon = ball.position + ball.velocity
    close = (soon.x > c.PITCH_HALF_LENGTH - 8.0) & (jnp.abs(soon.y) < c.GOAL_HALF_WIDTH + 3)
    left_alone = (striker.cycles + 3 < ours.cycles) & (striker.cycles < 7)
    first = (is_in_area(ours.point) | _is_shot(ball)) & (ours.cycles < striker.cycles) & ~striker_has_ball
    return (close & ~left_alone) | first


def _chase_point(me: Body, ball: Ball, ours: Meeting) -> Vector:
    """Where the ball can be met in the pitch, or else where its line crosses the goalkeeper's own."""
    slide_y = ball.position.y + ball.velocity.y * (me.position.x - ball.position.x) / jnp.maximum(ball.velocity.x, 1e-3)
    slide = Vector(me.position.x, jnp.clip(slide_y, -c.GOAL_HALF_WIDTH - 1, c.GOAL_HALF_WIDTH + 1))
    too_late = (ours.point.x > c.PITCH_HALF_LENGTH - 0.5) & (ball.velocity.x > 0.3)
    return where(too_late, slide, ours.point)


def goalkeeper_place(ball: Ball, striker: Meeting) -> Vector:
    """On the line from the ball to a point behind the goal; at the near post when the ball is far aside."""
    base = ball_after(ball, jnp.minimum(striker.cycles, 5.0))
    side = jnp.where(base.y < 0, -1.0, 1.0)
    beside = jnp.abs(base.y)
    to_line = c.PITCH_HALF_LENGTH - base.x
    acute = (beside > c.GOAL_HALF_WIDTH + 3) & (beside - c.GOAL_HALF_WIDTH > math.tan(math.radians(40.0)) * to_line)
    by_the_line = (to_line < 8) & (beside > c.GOAL_HALF_WIDTH + 2)
    back = c.PITCH_HALF_LENGTH + BEHIND_GOAL
    covered = base.y * (back - LINE_X) / jnp.maximum(back - base.x, 1.0)
    place = Vector(jnp.float32(LINE_X), jnp.clip(covered, -c.GOAL_HALF_WIDTH + 0.5, c.GOAL_HALF_WIDTH - 0.5))
    place = where(by_the_line, Vector(jnp.float32(LINE_X), side * (c.GOAL_HALF_WIDTH - 0.1)), place)
    return where(acute, Vector(jnp.float32(DANGER_X), side * c.GOAL_HALF_WIDTH), place)


def _positioned(me: Body, ball: Ball, striker: Meeting, speed: Scalar) -> Command:
    """Go to the place, unless it is near enough; then look along the goal line, so that the next way is straight."""
    place = goalkeeper_place(ball, striker)
    dx, dy = jnp.abs(place.x - me.position.x), jnp.abs(place.y - me.position.y)
    slack = jnp.maximum(0.5, 0.08 * (ball.position - me.position).length)
    near = c.PITCH_HALF_LENGTH - ball.position.x < 22.5
    power = jnp.where(dx > 3, 100.0, jnp.where(near, 80.0, 45.0))
    go = run_to(me, place, speed * power, both_ways=True)
    off = jnp.where(me.body < 0, -math.pi / 2, math.pi / 2) - me.body
    stay = choose(jnp.abs(off) > math.radians(5), turn_to(me, off), idle())
    return choose((dx > 0.5) | (dy > slack), go, stay)


# ---- Defenders ------------------------------------------------------------------------------------------------------


def defender(me: Body, ball: Ball, striker: Meeting, striker_has_ball: Bool[Array, ""], side: float) -> Command:
    """Tackle, carry the ball away, go for it, or stand between it and the goal. `side` is -1 or 1: the centre back."""
    ours = meet(Runner.of(me), ball, c.KICKABLE - 0.3)
    mine = ours.cycles + CAUTION
    intercepts = (mine <= 3) | (mine < striker.cycles + PATIENCE)
    home = defender_home(ball, side)
    at_home = (home - me.position).square < jnp.maximum(1.0, 0.1 * (ball.position - me.position).length) ** 2
    stand = choose(at_home, idle(), run_to(me, home, 76.0))
    command = choose(intercepts, run_to(me, ours.point, c.POWER_MAX), stand)
    command = choose(is_kickable(me, ball), kick(me, ball, Vector(-CARRY_SPEED, 0.0), Touch.of(me, ball)), command)
    tackles = (1 - tackle_failure(me, ball) >= TACKLE_CHANCE) & striker_has_ball
    return choose(tackles, Command(jnp.int32(TACKLE), jnp.float32(0), jnp.float32(0)), command)


def defender_home(ball: Ball, side: float) -> Vector:
    """Goal-side of the ball: 9 m far out, beside it near the goal, shifted to the ball's side (fitted to recordings)."""
    far, near = 10.4 + 0.8 * ball.position.x, 21.7 + 0.5 * ball.position.x
    return Vector(jnp.minimum(far, near), 0.38 * ball.position.y + 2.9 * side)
