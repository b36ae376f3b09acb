"""A corridor whose initiation sets are known: from the goal on its right, each option of skill chaining reaches tmax steps back."""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from asap.base.keys import Key, normals, uniforms
from asap.base.spec import Spec, TaskSet
from asap.base.types import Timestep
from asap.envs import catalog
from asap.envs.core import Env

STEP, NOISE = 0.05, 0.005
GOAL, STARTS = 0.95, 0.05  # The goal is right of the one, and episodes start left of the other.


class CorridorTask(NamedTuple):
    goal: Float[Array, ""]


class Corridor(Env):
    """x in [0, 1]; left and right move by 0.05; a step costs 1 and the goal pays 100."""

    spec = Spec(
        observation_names=("x",),
        observation_low=(0.0,),
        observation_high=(1.0,),
        action_names=("left", "right"),
        horizon=400,
        discount=0.99,
    )

    def reset(self, key: Key, task: CorridorTask) -> Float[Array, ""]:
        return STARTS * uniforms(key)[0]

    def noise(self, key: Key) -> Float[Array, ""]:
        return NOISE * normals(key)[0]

    def transition(
        self, noise: Float[Array, ""], state: Float[Array, ""], action: Int[Array, ""], task: CorridorTask
    ) -> Timestep:
        x = jnp.clip(state + noise + jnp.where(action == 1, STEP, -STEP), 0.0, 1.0)
        at_goal = x >= task.goal
        return Timestep(x, jnp.where(at_goal, 99.0, -1.0), at_goal, at_goal)

    def observe(self, state: Float[Array, ""], task: CorridorTask) -> Float[Array, "1"]:
        return state[None]

    def descriptor(self, task: CorridorTask) -> Float[Array, "1"]:
        return task.goal[None]


def corridor() -> TaskSet:
    made = {"name": "corridor", "env": Corridor(), "task": CorridorTask(jnp.float32(GOAL)), "inputs": ("x",)}
    return TaskSet((dataclasses.replace(catalog.find("two-rooms"), **made),), (1.0,))


def lower_ends(tmax: int, count: int) -> list[float]:
    """Where the initiation sets begin, from that of the first option on."""
    return [max(GOAL - STEP * tmax * (n + 1), 0.0) for n in range(count)]
