"""Vectors in the plane whose two numbers stay apart, so that a batch of them is two flat arrays (see asap.base.arrays)."""

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
        angle = ratio * _series(ratio * ratio)
        angle = jnp.where(across > along, math.pi / 2 - angle, angle)
        angle = jnp.where(self.x < 0, math.pi - angle, angle)
        return jnp.where(self.y < 0, -angle, angle)


# arctan(x) / x on [0, 1] as a polynomial in x^2: Abramowitz and Stegun, Handbook of Mathematical Functions, 4.4.49.
_ARCTAN = (
    0.0028662257,
    -0.0161657367,
    0.0429096138,
    -0.0752896400,
    0.1065626393,
    -0.1420889944,
    0.1999355085,
    -0.3333314528,
    1.0,
)


def _series(square: Scalar) -> Scalar:
    total = _ARCTAN[0]
    for coefficient in _ARCTAN[1:]:
        total = total * square + coefficient
    return total


def towards(angle: Scalar) -> Vector:
    """The unit vector in this direction."""
    return Vector(jnp.cos(angle), jnp.sin(angle))


def wrapped(angle: Scalar) -> Scalar:
    """The same angle in [-pi, pi]."""
    return angle - (2 * math.pi) * jnp.round(angle / (2 * math.pi))


def where(condition: Array, yes: Vector, no: Vector) -> Vector:
    return Vector(jnp.where(condition, yes.x, no.x), jnp.where(condition, yes.y, no.y))
