"""The striker's three actions: Move to the ball, Dribble towards the goal, Shoot. Each call is one cycle.

Dribble and Shoot are composites: without the ball they move to it. The rules are those of HFO's high-level actions, with
one clean rule of our own: where no course for a shot exists, the ball is kicked straight at the goal's centre.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from asap.envs.soccer import constants as c
from asap.envs.soccer.physics import Ball, Command, Player, Touch
from asap.envs.soccer.prediction import Runner, choose, cycles_to_roll, fastest, kick, meet, run_to, turn_to
from asap.envs.soccer.vectors import Scalar, Vector, towards, where, wrapped

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
SHOT_RANGE, SHOT_GAP = 17.0, math.radians(20.0)

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


def act(action: Int[Array, ""], me: Player, ball: Ball, opponents: tuple[Opponent, ...]) -> Command:
    """The command that an action comes to in this cycle."""
    shot, is_open = shoot(me, ball, opponents)
    dribbled = dribble(me, ball, opponents, choose(is_open, shot, hold(me, ball)))
    with_ball = choose(action == SHOOT, shot, dribbled)
    return choose(has_ball(me, ball) & (action != MOVE), with_ball, move(me, ball))


def has_ball(me: Player, ball: Ball) -> Bool[Array, ""]:
    return (ball.position - me.position).square <= HAS_BALL**2


def move(me: Player, ball: Ball) -> Command:
    """Run to where the ball can be met."""
    return run_to(me, meet(Runner.of(me), ball, MEETING_RADIUS).point, c.POWER_MAX)


def hold(me: Player, ball: Ball) -> Command:
    """No course is left: turn to the goal."""
    return turn_to(me, wrapped((GOAL - ball.position).angle - me.body))


# ---- Dribble --------------------------------------------------------------------------------------------------------


class Course(NamedTuple):
    """A kick ahead that is caught up with: its value, the velocity it gives the ball, and the turn that follows."""

    value: Scalar
    velocity: Vector
    turn: Scalar


def dribble(me: Player, ball: Ball, opponents: tuple[Opponent, ...], otherwise: Command) -> Command:
    """The best of 16 directions, each with four, three or two dashes after the kick."""
    touch = Touch.of(me, ball)
    turns = 2 * math.pi / DIRECTIONS * np.arange(-DIRECTIONS // 2, DIRECTIONS // 2, dtype=np.float32)
    table = jnp.asarray(np.stack([turns, np.cos(turns), np.sin(turns)]))
    heading, speed = towards(me.body), me.velocity.length

    def direction(k: Int[Array, ""], best: Course) -> Course:
        turn, cosine, sine = table[0, k], table[1, k], table[2, k]
        ahead = Vector(heading.x * cosine - heading.y * sine, heading.y * cosine + heading.x * sine)
        first_turn = math.pi / (1 + c.INERTIA_MOMENT * c.PLAYER_DECAY * speed)
        num_turns = jnp.where(jnp.abs(turn) < 1e-3, 0.0, jnp.where(jnp.abs(turn) <= first_turn, 1.0, 2.0))
        forward = (ball.position.x >= STRAIGHT_ON) | (ahead.x >= math.cos(math.radians(100.0)))
        for dashes in DASHES:
            course, possible = _course(me, ball, touch, opponents, ahead, turn, num_turns, dashes)
            better = forward & possible & (course.value > best.value)
            best = jax.tree.map(lambda new, old: jnp.where(better, new, old), course, best)
        return best

    nothing = jnp.zeros_like(ball.position.x)
    none = Course(nothing - jnp.inf, Vector(nothing, nothing), nothing)
    best = jax.lax.fori_loop(0, DIRECTIONS, direction, none)
    kicked = kick(me, ball, best.velocity, touch)
    stays = ((ball.position + ball.velocity) - (me.position + me.velocity)).square <= HAS_BALL**2
    turned = turn_to(me, best.turn)
    found = choose((jnp.abs(best.turn) > TURN_FIRST) & stays, turned, kicked)
    return choose(best.value > -jnp.inf, found, otherwise)


def _course(
    me: Player,
    ball: Ball,
    touch: Touch,
    opponents: tuple[Opponent, ...],
    ahead: Vector,
    turn: Scalar,
    num_turns: Scalar,
    dashes: int,
) -> tuple[Course, Bool[Array, ""]]:
    """Kick, turn and dash so that the ball lies just ahead when they are done."""
    cycles = 1 + num_turns + dashes
    drift = (1 - c.PLAYER_DECAY**5) / (1 - c.PLAYER_DECAY)
    decay, top = c.PLAYER_DECAY, c.POWER_MAX * c.DASH_POWER_RATE / (1 - c.PLAYER_DECAY)
    travel = top * (dashes - decay * (1 - decay**dashes) / (1 - decay))
    trap = me.position + me.velocity * drift + ahead * (travel + TRAP_AHEAD)
    rolled = (1 - jnp.exp(math.log(c.BALL_DECAY) * cycles)) / (1 - c.BALL_DECAY)
    velocity = (trap - ball.position) * (1 / rolled)
    change = velocity - ball.velocity
    possible = change.square <= (c.POWER_MAX * touch.kick_rate) ** 2
    possible &= ((ball.position + velocity) - (me.position + me.velocity)).square > KICK_CLEARANCE**2
    possible &= (trap.x < c.PITCH_HALF_LENGTH - PITCH_MARGIN) & (jnp.abs(trap.y) < c.PITCH_HALF_WIDTH - PITCH_MARGIN)
    for opponent in opponents:
        theirs = opponent.runner.cycles_to(trap, opponent.reach) + jnp.where(trap.x < 30.0, 1.0, 0.0)
        possible &= theirs > cycles
    distance = (GOAL - trap).length
    value = trap.x + jnp.maximum(0.0, 40.0 - distance)
    value = value + jnp.where((distance <= SHOT_RANGE) & (open_angle(trap, opponents) >= SHOT_GAP), 1e6, 0.0)
    return Course(value, velocity, turn), possible


def open_angle(place: Vector, opponents: tuple[Opponent, ...]) -> Scalar:
    """The widest angle between the posts that no opponent blocks, seen from a place."""
    depth = jnp.maximum(c.PITCH_HALF_LENGTH - place.x, 0.1)
    low, high = (jnp.arctan2(side * c.GOAL_HALF_WIDTH - place.y, depth) for side in (-1, 1))
    blocks = []
    for opponent in opponents:
        offset = opponent.position - place
        middle, half = offset.angle, jnp.arctan(0.5425 / jnp.maximum(offset.length, 0.1))
        blocks.append((middle - half, middle + half))
    widest = jnp.zeros_like(low)
    for left in (low, *(jnp.clip(end, low, high) for _, end in blocks)):
        right = high
        for begin, end in blocks:
            right = jnp.where(end > left + 1e-4, jnp.minimum(right, jnp.maximum(begin, left)), right)
        widest = jnp.maximum(widest, right - left)
    return widest


# ---- Shoot ----------------------------------------------------------------------------------------------------------


class Shot(NamedTuple):
    score: Scalar
    velocity: Vector


def shoot(me: Player, ball: Ball, opponents: tuple[Opponent, ...]) -> tuple[Command, Bool[Array, ""]]:
    """The best of 25 targets, and whether it is an open one within the range of a strict shot."""
    touch = Touch.of(me, ball)
    distance = (GOAL - ball.position).length
    inset = jnp.minimum(1.5, 0.6 + 0.042 * distance)
    places = jnp.asarray(np.linspace(-1, 1, TARGETS, dtype=np.float32))

    def target(j: Int[Array, ""], best: Shot) -> Shot:
        aim = Vector(c.PITCH_HALF_LENGTH, places[j] * (c.GOAL_HALF_WIDTH - inset))
        shot = _shot(ball, touch, opponents, aim, distance)
        better = shot.score > best.score
        return jax.tree.map(lambda new, old: jnp.where(better, new, old), shot, best)

    nothing = jnp.zeros_like(distance)
    best = jax.lax.fori_loop(0, TARGETS, target, Shot(nothing, Vector(nothing, nothing)))
    centre = (GOAL - ball.position) * (1 / jnp.maximum(distance, 1e-3))
    straight = centre * fastest(ball, centre, touch)
    command = kick(me, ball, where(best.score > 0, best.velocity, straight), touch)
    return command, (best.score > 0) & (distance <= STRICT_RANGE)


def _shot(ball: Ball, touch: Touch, opponents: tuple[Opponent, ...], aim: Vector, distance: Scalar) -> Shot:
    """A full kick at a target: scored by who could reach it; 0 where someone surely does."""
    path = aim - ball.position
    far = path.length
    direction = path * (1 / jnp.maximum(far, 1e-3))
    speed = fastest(ball, direction, touch)
    score, weight = jnp.float32(51.0), jnp.float32(1.0)
    possible = speed >= jnp.maximum((1 - c.BALL_DECAY) * (far + 5), 1.5)
    for opponent in opponents:
        offset = opponent.position - ball.position
        along = jnp.clip(offset.dot(direction), 0.0, far)
        spare = opponent.runner.cycles_to(ball.position + direction * along, opponent.reach, both_ways=opponent.is_goalkeeper)
        spare = spare - cycles_to_roll(along, speed)
        possible &= spare > 0
        score = score + jnp.where(spare > 1, 100.0, 0.0)
        if opponent.is_goalkeeper:
            cosine = offset.dot(direction) / jnp.maximum(offset.length, 1e-3)
            off_degrees = jnp.degrees(jnp.arccos(jnp.clip(cosine, -1.0, 1.0)))
            spread = jnp.where(spare > 1, 1.0, 10.0)
            weight = weight * (1 - jnp.exp(-(off_degrees**2) / (2 * spread**2)))
    wide = jnp.maximum(0.0, jnp.abs(aim.y) - 4.0)
    weight = weight * jnp.where(distance > 8, jnp.exp(-(wide**2) / (2 * 5.51**2)), 1.0)
    return Shot(jnp.where(possible, score * weight, 0.0), direction * speed)
