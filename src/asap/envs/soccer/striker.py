"""The striker's three actions: Move to the ball, Dribble towards the goal, Shoot. Each call is one cycle.

Dribble and Shoot are composites: without the ball they move to it. The rules are those of HFO's high-level actions,
with one clean rule of our own: where no course for a shot exists, the ball is kicked straight at the goal's centre.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.envs.soccer import vectors as c
from asap.envs.soccer.physics import Ball, Body, Command, Touch
from asap.envs.soccer.prediction import Runner, choose, dash_travel, fastest, kick, meet, roll_cycles, run_to, turn_to
from asap.envs.soccer.vectors import Scalar, Vector, towards, wrapped

MOVE, DRIBBLE, SHOOT = range(3)
GOAL = Vector(c.PITCH_HALF_LENGTH, 0.0)
HAS_BALL = c.KICKABLE - 0.055  # What an agent takes for kickable (recorded: kickable up to 1.030 m, not from 1.030 m).
MEETING_RADIUS = 0.8

DIRECTIONS = 16
DASHES = (4, 3, 2)
TRAP_AHEAD = 0.525
KICK_CLEARANCE = c.TOUCHING + 0.1
PITCH_MARGIN = 1.0
STRAIGHT_ON = 16.0  # Up to this x, dribbling goes forward: within 100 degrees of the x axis.
TURN_FIRST = math.radians(90.0)  # A course further round than this is begun by turning on the ball.
SHOT_RANGE, SHOT_GAP, SHOT_BONUS = 17.0, math.radians(20.0), 1e6
BLOCK_HALF_WIDTH = 0.5425

TARGETS = 25
GOALKEEPER_REACH = 1.3
STRICT_RANGE = 30.0


class Opponent(NamedTuple):
    """An opponent as the striker sees it."""

    position: Vector
    runner: Runner
    is_goalkeeper: bool

    @property
    def reach(self) -> float:
        return GOALKEEPER_REACH if self.is_goalkeeper else c.KICKABLE


def act(action: Int[Array, ""], me: Body, ball: Ball, opponents: tuple[Opponent, ...]) -> Command:
    """The command that an action comes to in this cycle."""
    shot, is_open = shoot(me, ball, opponents)
    dribbled = dribble(me, ball, opponents, choose(is_open, shot, hold(me, ball)))
    with_ball = choose(action == SHOOT, shot, dribbled)
    return choose(has_ball(me, ball) & (action != MOVE), with_ball, move(me, ball))


def has_ball(me: Body, ball: Ball) -> Bool[Array, ""]:
    return (ball.position - me.position).square <= HAS_BALL**2


def move(me: Body, ball: Ball) -> Command:
    """Run to where the ball can be met."""
    return run_to(me, meet(Runner.of(me), ball, MEETING_RADIUS).point, c.POWER_MAX)


def hold(me: Body, ball: Ball) -> Command:
    """No course is left: turn to the goal."""
    return turn_to(me, wrapped((GOAL - ball.position).angle - me.body))


# ---- Dribble --------------------------------------------------------------------------------------------------------


class Course(NamedTuple):
    """A kick ahead that is caught up with after some turns and dashes."""

    trap: Vector  # Where the ball lies when they are done, just ahead of the striker.
    velocity: Vector  # What the kick gives the ball.
    cycles: Scalar


_TURNS = 2 * math.pi / DIRECTIONS * np.arange(-DIRECTIONS // 2, DIRECTIONS // 2, dtype=np.float32)


def dribble(me: Body, ball: Ball, opponents: tuple[Opponent, ...], otherwise: Command) -> Command:
    """The best of 16 directions, each with four, three or two dashes after the kick.

    Only the scores go through the search, and the best course is planned once more: each further result of the loop
    would make the compiler compute the whole course again.
    """
    touch = Touch.of(me, ball)
    heading, speed = towards(me.body), me.velocity.length

    def direction(_: None, turned: Float[Array, "3"]) -> tuple[None, tuple[Scalar, ...]]:
        ahead = _rotated(heading, turned[1], turned[2])
        forward = (ball.position.x >= STRAIGHT_ON) | (ahead.x >= math.cos(math.radians(100.0)))
        courses = [_course(me, ball, ahead, turned[0], speed, dashes) for dashes in DASHES]
        return None, tuple(_worth(course, me, ball, touch, opponents, forward) for course in courses)

    directions = jnp.asarray(np.stack([_TURNS, np.cos(_TURNS), np.sin(_TURNS)], -1))
    _, worths = jax.lax.scan(direction, None, directions)
    worths = jnp.concatenate(worths)
    which = worths.argmax(0)
    turn = float(_TURNS[0]) + 2 * math.pi / DIRECTIONS * (which % DIRECTIONS)
    dashes = DASHES[0] - which // DIRECTIONS
    best = _course(me, ball, towards(me.body + turn), turn, speed, dashes)
    return choose(worths.max(0) > -jnp.inf, _begun(best, turn, me, ball, touch), otherwise)


def dribble_to(angle: Scalar, me: Body, ball: Ball, opponents: tuple[Opponent, ...]) -> Command:
    """The same in one given direction: only the number of dashes is chosen."""
    touch, speed, turn = Touch.of(me, ball), me.velocity.length, wrapped(angle - me.body)
    courses = [_course(me, ball, towards(angle), turn, speed, dashes) for dashes in DASHES]
    worths = [_worth(course, me, ball, touch, opponents, jnp.bool_(True)) for course in courses]
    command, best = hold(me, ball), -jnp.inf
    for course, worth in zip(courses, worths):
        command = choose(worth > best, _begun(course, turn, me, ball, touch), command)
        best = jnp.maximum(best, worth)
    return command


def _begun(course: Course, turn: Scalar, me: Body, ball: Ball, touch: Touch) -> Command:
    """The first command of a course."""
    stays = ((ball.position + ball.velocity) - (me.position + me.velocity)).square <= HAS_BALL**2
    turns_first = (jnp.abs(turn) > TURN_FIRST) & stays
    return choose(turns_first, turn_to(me, turn), kick(me, ball, course.velocity, touch))


def _rotated(vector: Vector, cosine: Scalar, sine: Scalar) -> Vector:
    return Vector(vector.x * cosine - vector.y * sine, vector.y * cosine + vector.x * sine)


def _course(me: Body, ball: Ball, ahead: Vector, turn: Scalar, speed: Scalar, dashes: Scalar) -> Course:
    """Kick, turn and dash so that the ball lies just ahead when they are done."""
    first_turn = math.pi / (1 + c.INERTIA_MOMENT * c.PLAYER_DECAY * speed)
    num_turns = jnp.where(jnp.abs(turn) < 1e-3, 0.0, jnp.where(jnp.abs(turn) <= first_turn, 1.0, 2.0))
    of_turns = jnp.where(num_turns == 0, 1.0, jnp.where(num_turns == 1, c.BALL_DECAY, c.BALL_DECAY**2))
    decay = of_turns * c.BALL_DECAY ** (1 + dashes)
    rolled_out = 1 / (1 - c.PLAYER_DECAY)
    trap = me.position + me.velocity * rolled_out + ahead * (dash_travel(dashes) + TRAP_AHEAD)
    return Course(trap, (trap - ball.position) * ((1 - c.BALL_DECAY) / (1 - decay)), 1 + num_turns + dashes)


def _worth(
    course: Course, me: Body, ball: Ball, touch: Touch, opponents: tuple[Opponent, ...], forward: Bool[Array, ""]
) -> Scalar:
    """How good it is to have the ball where the course ends; -inf where the course is impossible."""
    trap, velocity, cycles = course
    possible = forward & ((velocity - ball.velocity).square <= (c.POWER_MAX * touch.kick_rate) ** 2)
    possible &= ((ball.position + velocity) - (me.position + me.velocity)).square > KICK_CLEARANCE**2
    possible &= (trap.x < c.PITCH_HALF_LENGTH - PITCH_MARGIN) & (jnp.abs(trap.y) < c.PITCH_HALF_WIDTH - PITCH_MARGIN)
    for opponent in opponents:
        theirs = opponent.runner.cycles_to(trap, opponent.reach) + jnp.where(trap.x < 30.0, 1.0, 0.0)
        possible &= theirs > cycles
    distance = (GOAL - trap).length
    value = trap.x + jnp.maximum(0.0, 40.0 - distance)
    value = value + jnp.where((distance <= SHOT_RANGE) & has_gap(trap, opponents), SHOT_BONUS, 0.0)
    return jnp.where(possible, value, -jnp.inf)


def has_gap(place: Vector, opponents: tuple[Opponent, ...]) -> Bool[Array, ""]:
    """Whether an angle of 20 degrees between the posts is free of opponents, seen from a place.

    Directions are compared by cross products of unit vectors: the gap may begin at the first post or where an opponent
    ends, and must end before the second post and before any opponent that it does not leave behind.
    """
    low, high = (_unit(Vector(GOAL.x, side * c.GOAL_HALF_WIDTH) - place) for side in (-1, 1))
    blocks = []
    for opponent in opponents:
        offset = opponent.position - place
        scale = jax.lax.rsqrt(offset.square + BLOCK_HALF_WIDTH**2)
        middle, cosine, sine = _unit(offset), offset.length * scale, BLOCK_HALF_WIDTH * scale
        blocks.append((_rotated(middle, cosine, -sine), _rotated(middle, cosine, sine)))
    wide, found = math.sin(SHOT_GAP), jnp.zeros_like(place.x, bool)
    for begin in (low, *(end for _, end in blocks)):
        free = (_cross(low, begin) >= 0) & (_cross(begin, high) >= wide)
        for block_begin, block_end in blocks:
            free &= (_cross(begin, block_end) <= 1e-4) | (_cross(begin, block_begin) >= wide)
        found |= free
    return found


def _unit(vector: Vector) -> Vector:
    return vector * jax.lax.rsqrt(jnp.maximum(vector.square, 1e-6))


def _cross(a: Vector, b: Vector) -> Scalar:
    """Sine of the angle from one unit vector to another."""
    return a.x * b.y - a.y * b.x


# ---- Shoot ----------------------------------------------------------------------------------------------------------


def shoot(me: Body, ball: Ball, opponents: tuple[Opponent, ...]) -> tuple[Command, Bool[Array, ""]]:
    """The best of 25 targets, and whether it is an open one within the range of a strict shot."""
    touch = Touch.of(me, ball)
    distance = (GOAL - ball.position).length
    half_width = c.GOAL_HALF_WIDTH - jnp.minimum(1.5, 0.6 + 0.042 * distance)

    def target(_: None, place: Scalar) -> tuple[None, Scalar]:
        return None, _chance(ball, touch, opponents, place * half_width, distance)

    places = np.linspace(-1, 1, TARGETS, dtype=np.float32)
    _, chances = jax.lax.scan(target, None, jnp.asarray(places))
    is_open, which = chances.max(0) > 0, chances.argmax(0)
    place = float(places[0]) + float(places[1] - places[0]) * which
    command = shoot_at(jnp.where(is_open, place * half_width, 0.0), me, ball, touch)
    return command, is_open & (distance <= STRICT_RANGE)


def shoot_at(y: Scalar, me: Body, ball: Ball, touch: Touch) -> Command:
    """As hard as one kick can, to this place on the goal line."""
    direction = _unit(Vector(GOAL.x, y) - ball.position)
    return kick(me, ball, direction * fastest(ball, direction, touch), touch)


def _chance(ball: Ball, touch: Touch, opponents: tuple[Opponent, ...], aim_y: Scalar, distance: Scalar) -> Scalar:
    """A full kick at a target, scored by who could reach it; 0 where someone surely does."""
    path = Vector(GOAL.x, aim_y) - ball.position
    far = path.length
    direction = path * (1 / jnp.maximum(far, 1e-3))
    speed = fastest(ball, direction, touch)
    score, weight = 51.0, 1.0
    possible = speed >= jnp.maximum((1 - c.BALL_DECAY) * (far + 5), 1.5)
    for opponent in opponents:
        offset = opponent.position - ball.position
        along = jnp.clip(offset.dot(direction), 0.0, far)
        nearest = ball.position + direction * along
        theirs = opponent.runner.cycles_to(nearest, opponent.reach, both_ways=opponent.is_goalkeeper)
        spare = theirs - roll_cycles(along, speed)
        possible &= spare > 0
        score = score + jnp.where(spare > 1, 100.0, 0.0) + jnp.clip(spare, 0.0, 5.0)  # Among equals, the safest.
        if opponent.is_goalkeeper:
            cosine = offset.dot(direction) * jax.lax.rsqrt(jnp.maximum(offset.square, 1e-6))
            # Of small angles; large ones have weight 1 anyhow.
            degrees_squared = 2 * math.degrees(1) ** 2 * (1 - cosine)
            weight = 1 - jnp.exp(-degrees_squared / jnp.where(spare > 1, 2.0, 200.0))
    wide = jnp.maximum(0.0, jnp.abs(aim_y) - 4.0)
    weight = weight * jnp.where(distance > 8, jnp.exp(-(wide**2) / (2 * 5.51**2)), 1.0)
    return jnp.where(possible, score * weight, 0.0)
