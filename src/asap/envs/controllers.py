"""Hand-written behaviours: who plays when data are collected. A controller sees what a policy sees, the observation."""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from asap.base.errors import UserError
from asap.base.spec import Task
from asap.envs.catalog import CompiledTask
from asap.envs.rooms import Rooms, RoomsTask
from asap.envs.soccer.half_field import Striker, in_metres
from asap.envs.soccer.striker import DRIBBLE, GOAL, MOVE, SHOOT
from asap.envs.soccer.vectors import Scalar, Vector

Probabilities = Callable[[Float[Array, "O *batch"]], Float[Array, "A *batch"]]


class Controller(NamedTuple):
    """Action probabilities as a pure function of the observation."""

    name: str
    probabilities: Probabilities
    deterministic: bool  # Then importance weights exist for no other policy.


_OWN = {  # Controllers of a family of tasks, as they stand in error messages.
    Rooms: ("doors",),
    Striker: ("dist:12 (any distance in m)", "always-dribble", "always-shoot"),
}


_GOOD = {Rooms: "doors", Striker: "dist:12"}  # What a person would write.


def script_of(task: Task) -> Controller | None:
    """The hand-written behaviour that others are held against; None where nobody has written one."""
    name = _GOOD.get(type(task.env)) if isinstance(task, CompiledTask) else None
    return None if name is None else find_controller(task, name)


def controllers_of(task: Task) -> tuple[str, ...]:
    return ("random", *(_OWN.get(type(task.env), ()) if isinstance(task, CompiledTask) else ()))


def find_controller(task: Task, text: str) -> Controller:
    """The controller that a text such as "random" or "dist:12" names for this task."""
    if text == "random" and not task.spec.continuous:
        return Controller("random", _uniform(task.spec.num_actions), deterministic=False)
    if isinstance(task, CompiledTask):
        if isinstance(task.env, Rooms) and text == "doors":
            return Controller("doors", through_the_doors(task.task), deterministic=True)
        if isinstance(task.env, Striker) and (distance := shooting_distance(text)) is not None:
            return Controller(text, shoot_within(distance), deterministic=True)
    cure = f"choose from {', '.join(controllers_of(task))}, a run or a saved model, or module:function"
    raise UserError("--policy", f"unknown for {task.name}", repr(text), cure)


def explored(controller: Controller, epsilon: float) -> Controller:
    """With probability epsilon a uniformly random action instead, so that no action has probability 0."""
    if not 0 <= epsilon <= 1:
        raise UserError("--epsilon", "must be a probability from 0 to 1", epsilon, "use for example 0.1")
    if epsilon == 0:
        return controller

    def probabilities(x: Float[Array, "O *batch"]) -> Float[Array, "A *batch"]:
        own = controller.probabilities(x)
        return (1 - epsilon) * own + epsilon / own.shape[0]

    return Controller(controller.name, probabilities, deterministic=False)


def _uniform(num_actions: int) -> Probabilities:
    def probabilities(x: Float[Array, "O *batch"]) -> Float[Array, "A *batch"]:
        return jnp.full((num_actions, *x.shape[1:]), 1 / num_actions)

    return probabilities


UP, DOWN, RIGHT, LEFT = range(4)
MARGIN = 0.05  # One step: so close to the edge of a door, the noise may send the agent into the wall.


def through_the_doors(task: RoomsTask) -> Probabilities:
    """To the height of the next door on the right, through it, and at last to the goal: height first, then across."""

    def probabilities(x: Float[Array, "O *batch"]) -> Float[Array, "A *batch"]:
        at_x, at_y, goal_x, goal_y = x
        height, slack, across = goal_y, task.goal_half_width - MARGIN / 2, goal_x
        for w in reversed(range(task.walls.shape[0])):  # From the last wall to the first: the nearest one decides.
            before = at_x < task.walls[w]
            height = jnp.where(before, (task.door_low[w] + task.door_high[w]) / 2, height)
            slack = jnp.where(before, (task.door_high[w] - task.door_low[w]) / 2 - MARGIN, slack)
            across = jnp.where(before, 1.0, across)
        sideways = jnp.where(at_x < across, RIGHT, LEFT)
        upright = jnp.where(at_y < height, UP, DOWN)
        action = jnp.where(jnp.abs(at_y - height) > slack, upright, sideways)
        return jnp.stack([action == a for a in (UP, DOWN, RIGHT, LEFT)]).astype(jnp.float32)

    return probabilities


def shooting_distance(text: str) -> float | None:
    """The distance from the goal within which the striker of this name shoots; None if there is no such striker."""
    always = {"always-dribble": 0.0, "always-shoot": math.inf}
    kind, _, number = text.partition(":")
    try:
        distance = float(number) if kind == "dist" else math.nan
    except ValueError:
        return None
    return always.get(text, distance if distance > 0 else None)


def shoot_within(distance: Scalar) -> Probabilities:
    """Shoots where the ball is so near to the goal, and dribbles elsewhere."""

    def probabilities(x: Float[Array, "O *batch"]) -> Float[Array, "A *batch"]:
        ball = in_metres(Vector(x[2], x[3]))
        shoots = (ball - GOAL).length < distance
        by_action = {MOVE: jnp.zeros_like(shoots), DRIBBLE: ~shoots, SHOOT: shoots}
        return jnp.stack([by_action[action] for action in sorted(by_action)]).astype(jnp.float32)

    return probabilities
