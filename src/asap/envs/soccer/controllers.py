"""Hand-written strikers: shoot within some distance of the goal and dribble elsewhere."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from asap.envs.soccer.half_field import in_metres
from asap.envs.soccer.striker import DRIBBLE, GOAL, MOVE, SHOOT
from asap.envs.soccer.vectors import Vector

DISTANCES = {"always-dribble": 0.0, "always-shoot": math.inf}  # `dist:D` names the others.


def shooting_distance(text: str) -> float | None:
    """The distance from which the striker of this name shoots; None if there is no such striker."""
    if text in DISTANCES:
        return DISTANCES[text]
    kind, _, number = text.partition(":")
    try:
        distance = float(number) if kind == "dist" else math.nan
    except ValueError:
        return None
    return distance if distance > 0 else None


def shoot_within(distance: float):
    """Action probabilities by the place of the ball, as a policy sees it."""

    def probabilities(x: Float[Array, "O *batch"]) -> Float[Array, "A *batch"]:
        ball = in_metres(Vector(x[2], x[3]))
        shoots = (ball - GOAL).length < distance
        by_action = {MOVE: jnp.zeros_like(shoots), DRIBBLE: ~shoots, SHOOT: shoots}
        return jnp.stack([by_action[action] for action in sorted(by_action)]).astype(jnp.float32)

    return probabilities
