"""Hand-written behaviours: who plays when data are collected. A controller sees what a policy sees, the observation."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from asap.base.errors import UserError
from asap.base.spec import Task
from asap.envs.catalog import CompiledTask
from asap.envs.core import Env
from asap.envs.rooms import Rooms, RoomsTask
from asap.envs.soccer.controllers import shoot_within, shooting_distance
from asap.envs.soccer.half_field import Striker

Probabilities = Callable[[Float[Array, "O *batch"]], Float[Array, "A *batch"]]


class Controller(NamedTuple):
    """Action probabilities as a pure function of the observation."""

    name: str
    probabilities: Probabilities
    deterministic: bool  # Then importance weights exist for no other policy.


class Family(NamedTuple):
    """The controllers of one type of env: `parse` gives None for a text that is none of them."""

    parse: Callable[[CompiledTask, str], Controller | None]
    choices: tuple[str, ...]  # As they stand in error messages.


_FAMILIES: dict[type[Env], Family] = {}


def register_controllers(env: type[Env], family: Family) -> None:
    """Makes a family's own controllers known to `find_controller`."""
    _FAMILIES[env] = family


_NO_FAMILY = Family(lambda *_: None, ())


def _family(task: Task) -> Family:
    return _FAMILIES.get(type(task.env), _NO_FAMILY) if isinstance(task, CompiledTask) else _NO_FAMILY


def controllers_of(task: Task) -> tuple[str, ...]:
    return ("random", *_family(task).choices)


def find_controller(task: Task, text: str) -> Controller:
    """The controller that a text such as "random" or "dist:12" names for this task."""
    if task.spec.continuous:
        cure = "choose a task with Discrete actions"
        raise UserError("task", "logged data have one action of several per step", task.actions, cure)
    if text == "random":
        return uniformly_random(task)
    found = _family(task).parse(task, text)
    if found is None:
        raise UserError(
            "--controller",
            f"unknown for {task.name}",
            repr(text),
            f"choose from {', '.join(controllers_of(task))}",
        )
    return found


def uniformly_random(task: Task) -> Controller:
    num_actions = task.spec.num_actions

    def probabilities(x: Float[Array, "O *batch"]) -> Float[Array, "A *batch"]:
        return jnp.full((num_actions, *x.shape[1:]), 1 / num_actions)

    return Controller("random", probabilities, deterministic=False)


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


def _parse_rooms(task: CompiledTask, text: str) -> Controller | None:
    return Controller("doors", through_the_doors(task.task), deterministic=True) if text == "doors" else None


def _parse_striker(task: CompiledTask, text: str) -> Controller | None:
    distance = shooting_distance(text)
    return None if distance is None else Controller(text, shoot_within(distance), deterministic=True)


register_controllers(Rooms, Family(_parse_rooms, ("doors",)))
register_controllers(Striker, Family(_parse_striker, ("dist:12 (any distance in m)", "always-dribble", "always-shoot")))
