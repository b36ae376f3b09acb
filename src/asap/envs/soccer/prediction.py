"""What a player expects: where the ball will be, when someone gets there, how a kick must be given.

Closed forms of the noise-free physics, as functions of a real number of cycles.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from asap.envs.soccer import vectors as c
from asap.envs.soccer.physics import DASH, KICK, NONE, TURN, Ball, Body, Command, Touch
from asap.envs.soccer.vectors import Scalar, Vector, towards, wrapped

TURN_MARGIN = math.radians(12.0)  # A runner whose heading is off by less does not turn.
ROUNDS = 8  # Of the search for the meeting point.


def ball_after(ball: Ball, cycles: Scalar) -> Vector:
    return ball.position + ball.velocity * ((1 - jnp.exp(math.log(c.BALL_DECAY) * cycles)) / (1 - c.BALL_DECAY))


def roll_cycles(distance: Scalar, speed: Scalar) -> Scalar:
    """Cycles until a ball kicked with this speed has rolled that far; many where it stops before."""
    left = 1 - distance * (1 - c.BALL_DECAY) / jnp.maximum(speed, 1e-3)
    return jnp.log(jnp.maximum(left, 1e-2)) / math.log(c.BALL_DECAY)


def dash_travel(cycles: Scalar) -> Scalar:
    """Metres that full dashes make from rest: 0.6, 1.44, 2.38, ..."""
    top, decay = c.POWER_MAX * c.DASH_POWER_RATE / (1 - c.PLAYER_DECAY), c.PLAYER_DECAY
    return top * (cycles - decay * (1 - jnp.exp(math.log(decay) * cycles)) / (1 - decay))


def dash_cycles(distance: Scalar) -> Scalar:
    """The inverse of `dash_travel`, to a tenth of a cycle: the start costs two thirds of a cycle in the end."""
    distance = jnp.maximum(distance, 0.0)
    lag = c.PLAYER_DECAY / (1 - c.PLAYER_DECAY)
    return distance + lag * distance / (distance + 0.25)


class Runner(NamedTuple):
    """What decides how soon a player gets somewhere: where it is next, where it looks, how fast it turns."""

    next_position: Vector
    heading: Vector
    speed: Scalar

    @classmethod
    def of(cls, player: Body) -> "Runner":
        return cls(player.position + player.velocity, towards(player.body), player.velocity.length)

    def cycles_to(self, target: Vector, radius: float, both_ways: bool = False) -> Scalar:
        """Turns and dashes until within `radius` of the target; `both_ways` for a player that also runs backwards."""
        offset = target - self.next_position
        distance = offset.length
        cosine = offset.dot(self.heading) / jnp.maximum(distance, 1e-6)
        cosine = jnp.abs(cosine) if both_ways else cosine
        # One turn makes 180 degrees at rest and 60 at full speed.
        turns = jnp.where((cosine < 0.3) & (self.speed > 0.2), 2.0, 1.0)
        turns = jnp.where(cosine > math.cos(TURN_MARGIN), 0.0, turns)
        return jnp.where(distance <= radius, 0.0, turns) + dash_cycles(distance - radius)


class Meeting(NamedTuple):
    cycles: Scalar
    point: Vector


def meet(runner: Runner, ball: Ball, radius: float, both_ways: bool = False) -> Meeting:
    """When and where a player can have a rolling ball, by going to where the ball is by then."""

    def later(_: int, cycles: Scalar) -> Scalar:
        return runner.cycles_to(ball_after(ball, cycles), radius, both_ways)

    cycles = jax.lax.fori_loop(0, ROUNDS, later, jnp.zeros_like(ball.position.x))
    return Meeting(cycles, ball_after(ball, cycles))


def turn_to(player: Body, error: Scalar) -> Command:
    """The turn that makes up for the inertia of a running body."""
    moment = jnp.clip(error * (1 + c.INERTIA_MOMENT * player.velocity.length), -math.pi, math.pi)
    return Command(jnp.int32(TURN), jnp.float32(0), moment)


def choose(condition: Bool[Array, ""], yes: Command, no: Command) -> Command:
    return Command(*(jnp.where(condition, a, b) for a, b in zip(yes, no)))


def run_to(player: Body, target: Vector, power: Scalar, both_ways: bool = False) -> Command:
    """Turn until the target is ahead, then dash; `both_ways` players also run backwards where that saves the turn."""
    error = wrapped((target - player.position).angle - player.body)
    dash = Command(jnp.int32(DASH), jnp.float32(power), jnp.float32(0))
    if both_ways:
        behind = wrapped(error + math.pi)
        is_back = jnp.abs(behind) < jnp.abs(error)
        dash = dash._replace(power=jnp.where(is_back, -power, power))
        error = jnp.where(is_back, behind, error)
    return choose(jnp.abs(error) > TURN_MARGIN, turn_to(player, error), dash)


def fastest(ball: Ball, direction: Vector, touch: Touch) -> Scalar:
    """The largest speed that one kick gives the ball in a direction (0 where none does)."""
    accel = jnp.minimum(c.POWER_MAX * touch.kick_rate, c.BALL_ACCEL_MAX)
    along = ball.velocity.dot(direction)
    room = along**2 - ball.velocity.square + accel**2
    return jnp.where(room < 0, 0.0, jnp.clip(along + jnp.sqrt(jnp.maximum(room, 0.0)), 0.0, c.BALL_SPEED_MAX))


def kick(player: Body, ball: Ball, velocity: Vector, touch: Touch) -> Command:
    """The command that gives the ball this velocity, or as much of the change as full power makes."""
    change = velocity - ball.velocity
    power = jnp.minimum(change.length / touch.kick_rate, c.POWER_MAX)
    return Command(jnp.int32(KICK), power, wrapped(change.angle - player.body))


def idle() -> Command:
    return Command(jnp.int32(NONE), jnp.float32(0), jnp.float32(0))
