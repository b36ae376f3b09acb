"""Vectors in the plane whose two numbers stay apart, so that a batch is two flat arrays; and the numbers of the game."""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

Scalar = Float[Array, ""] | float


class Vector(NamedTuple):
    x: Scalar
    y: Scalar

    def __add__(self, other: "Vector") -> "Vector":
        return Vector(self.x + other.x, self.y + other.y)

    def __sub__(self, other: "Vector") -> "Vector":
        return Vector(self.x - other.x, self.y - other.y)

    def __mul__(self, factor: Scalar) -> "Vector":
        return Vector(self.x * factor, self.y * factor)

    def dot(self, other: "Vector") -> Scalar:
        return self.x * other.x + self.y * other.y

    @property
    def square(self) -> Scalar:
        return self.dot(self)

    @property
    def length(self) -> Scalar:
        return jnp.sqrt(self.square)

    @property
    def angle(self) -> Scalar:
        """arctan2(y, x) to 2e-8, in a form that the compiler vectorises: its own takes ten times as long."""
        across, along = jnp.abs(self.y), jnp.abs(self.x)
        ratio = jnp.minimum(across, along) / jnp.maximum(jnp.maximum(across, along), 1e-30)
        square, series = ratio * ratio, _ARCTAN[0]
        for coefficient in _ARCTAN[1:]:
            series = series * square + coefficient
        angle = ratio * series
        angle = jnp.where(across > along, math.pi / 2 - angle, angle)
        angle = jnp.where(self.x < 0, math.pi - angle, angle)
        return jnp.where(self.y < 0, -angle, angle)


# arctan(x) / x on [0, 1] as a polynomial in x^2: Abramowitz and Stegun, Handbook of Mathematical Functions, 4.4.49.
_ARCTAN = (0.0028662257, -0.0161657367, 0.0429096138, -0.0752896400, 0.1065626393)
_ARCTAN += (-0.1420889944, 0.1999355085, -0.3333314528, 1.0)


def towards(angle: Scalar) -> Vector:
    """The unit vector in this direction."""
    return Vector(jnp.cos(angle), jnp.sin(angle))


def wrapped(angle: Scalar) -> Scalar:
    """The same angle in [-pi, pi]."""
    return angle - (2 * math.pi) * jnp.round(angle / (2 * math.pi))


def where(condition: Array, yes: Vector, no: Vector) -> Vector:
    return Vector(jnp.where(condition, yes.x, no.x), jnp.where(condition, yes.y, no.y))


PITCH_HALF_LENGTH, PITCH_HALF_WIDTH = 52.5, 34.0
GOAL_HALF_WIDTH = 7.01
AREA_X, AREA_HALF_WIDTH = PITCH_HALF_LENGTH - 16.5, 20.16  # The penalty area, from there to the goal line.
POST_RADIUS = 0.06
POST_X, POST_Y = PITCH_HALF_LENGTH - POST_RADIUS, GOAL_HALF_WIDTH + POST_RADIUS

BALL_SIZE, PLAYER_SIZE = 0.085, 0.3
BALL_DECAY, PLAYER_DECAY = 0.94, 0.4
BALL_RAND, PLAYER_RAND = 0.05, 0.1
BALL_SPEED_MAX, PLAYER_SPEED_MAX = 3.0, 1.05
BALL_ACCEL_MAX, PLAYER_ACCEL_MAX = 2.7, 1.0

POWER_MAX = 100.0
DASH_POWER_RATE, SIDE_DASH_RATE, BACK_DASH_RATE = 0.006, 0.4, 0.6
DASH_ANGLE_STEP = math.radians(45.0)
INERTIA_MOMENT = 5.0

KICK_POWER_RATE, KICK_RAND, KICKABLE_MARGIN = 0.027, 0.1, 0.7
TOUCHING = PLAYER_SIZE + BALL_SIZE
KICKABLE = TOUCHING + KICKABLE_MARGIN

TACKLE_POWER_RATE, TACKLE_DISTANCE, TACKLE_WIDTH, TACKLE_EXPONENT, TACKLE_CYCLES = 0.027, 2.0, 1.25, 6, 10
CATCH_LENGTH, CATCH_WIDTH, CATCH_BAN = 1.2, 1.0, 5

STAMINA_MAX, STAMINA_CAPACITY, STAMINA_INC, EXTRA_STAMINA = 8000.0, 130600.0, 45.0, 50.0
RECOVERY_THRESHOLD, RECOVERY_STEP, RECOVERY_MIN = 0.3 * STAMINA_MAX, 0.002, 0.5
EFFORT_DOWN, EFFORT_DOWN_STEP, EFFORT_MIN = 0.3 * STAMINA_MAX, 0.005, 0.6
EFFORT_UP, EFFORT_UP_STEP = 0.6 * STAMINA_MAX, 0.01

COLLISION_REBOUND, COLLISION_ROUNDS, COLLISION_GAP = -0.1, 10, 1e-10
