"""Vectors in the plane whose two numbers stay apart, so that a batch of them is two flat arrays (see asap.vector)."""

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
        return jnp.arctan2(self.y, self.x)


def towards(angle: Scalar) -> Vector:
    """The unit vector in this direction."""
    return Vector(jnp.cos(angle), jnp.sin(angle))


def wrapped(angle: Scalar) -> Scalar:
    """The same angle in [-pi, pi]."""
    return angle - (2 * math.pi) * jnp.round(angle / (2 * math.pi))


def where(condition: Array, yes: Vector, no: Vector) -> Vector:
    return Vector(jnp.where(condition, yes.x, no.x), jnp.where(condition, yes.y, no.y))
