"""Rooms: a point walks through doors to a goal (paper, Section 6). 2R, flipped 2R and 3R are ASCII maps.

The paper leaves sizes, noise and rewards open; the constants below are declared assumptions: the square has side 1 m,
a move is 0.05 m with Gaussian noise 0.01 m on both axes, a move through a wall or out of the square is undone, each
step costs 1, the goal pays 100 and ends the episode.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.errors import UserError
from asap.base.keys import Key, normals, uniforms
from asap.base.spec import Spec, Unit
from asap.base.types import Timestep
from asap.envs.core import Env

STEP = 0.05
NOISE = 0.01
STEP_REWARD = -1.0
GOAL_REWARD = 100.0

# Rooms are equally wide and divided by walls (#) with a door (:). S is the start area, G the goal. A line is 0.1 high.
TWO_ROOMS = """
    SSSSS:.....
    SSSSS:.....
    SSSSS:.....
    SSSSS#.....
    SSSSS#.....
    SSSSS#.....
    SSSSS#.....
    SSSSS#.....
    SSSSS#...GG
    SSSSS#...GG
"""
FLIPPED_TWO_ROOMS = "\n".join(reversed(TWO_ROOMS.splitlines()))
THREE_ROOMS = """
    SSSSS:.....#..GGG
    SSSSS:.....#..GGG
    SSSSS:.....#.....
    SSSSS#.....#.....
    SSSSS#.....#.....
    SSSSS#.....#.....
    SSSSS#.....#.....
    SSSSS#.....:.....
    SSSSS#.....:.....
    SSSSS#.....:.....
"""


class RoomsTask(NamedTuple):
    """One map: vertical walls with a door each, the goal square, and the box where episodes start."""

    walls: Float[Array, "W"]
    door_low: Float[Array, "W"]
    door_high: Float[Array, "W"]
    goal: Float[Array, "2"]
    goal_half_width: Float[Array, ""]
    start_low: Float[Array, "2"]
    start_high: Float[Array, "2"]


def read_map(drawing: str) -> RoomsTask:
    """The task that a drawing shows."""
    rows = [line.strip() for line in drawing.strip().splitlines()]
    columns, height = ["".join(column) for column in zip(*rows)], len(rows)
    floor = [column for column in columns if "#" not in column]
    dividers = [column for column in columns if "#" in column]

    def edges(column: str, letter: str) -> tuple[float, float]:
        """Lower and upper edge of the run of `letter`; the first line of a drawing is the top."""
        return (height - 1 - column.rindex(letter)) / height, (height - column.index(letter)) / height

    def box(letter: str) -> tuple[np.ndarray, np.ndarray]:
        places, width = [c for c, column in enumerate(floor) if letter in column], 1 / len(floor)
        bottom, top = edges(floor[places[0]], letter)
        return np.float32([places[0] * width, bottom]), np.float32([(places[-1] + 1) * width, top])

    goal_low, goal_high = box("G")
    walls = np.float32([(w + 1) / (len(dividers) + 1) for w in range(len(dividers))])
    door_low, door_high = np.array([edges(column, ":") for column in dividers], np.float32).T
    goal, goal_half_width = (goal_low + goal_high) / 2, (goal_high - goal_low)[1] / 2
    return RoomsTask(walls, door_low, door_high, goal, goal_half_width, *box("S"))


PARAMETERS = ("goal", "door", "second_door")  # Heights of their middles, in the order of the descriptor.


def changed_rooms(task: RoomsTask, heights: Mapping[str, float]) -> RoomsTask:
    """With the middle of the goal or of a door at another height; sizes stay."""
    known = {"goal": float(task.goal[1]), **dict(zip(PARAMETERS[1:], ((task.door_low + task.door_high) / 2).tolist()))}
    halves = {"goal": task.goal_half_width, **dict(zip(PARAMETERS[1:], (task.door_high - task.door_low) / 2))}
    goal, middle = np.float32(task.goal), np.float32((task.door_low + task.door_high) / 2)
    for name, height in heights.items():
        if name not in known:
            shown = ", ".join(f"{each}={value:g}" for each, value in known.items())
            raise UserError("task", "rooms have no parameter of that name", name, f"choose from {shown}")
        half = float(halves[name])
        if not half - 1e-6 <= height <= 1 - half + 1e-6:
            raise UserError("task", f"the {name} would leave the room", f"{height:g}", f"from {half:g} to {1 - half:g}")
        if name == "goal":
            goal = np.float32([goal[0], height])
        else:
            middle[PARAMETERS.index(name) - 1] = height
    half_doors = (task.door_high - task.door_low) / 2
    return task._replace(goal=goal, door_low=middle - half_doors, door_high=middle + half_doors)


class Position(NamedTuple):
    x: Float[Array, ""]
    y: Float[Array, ""]


class Rooms(Env):
    """The family of all room maps."""

    spec = Spec(
        observation_names=("x", "y", "goal x", "goal y"),
        observation_low=(0.0, 0.0, 0.0, 0.0),
        observation_high=(1.0, 1.0, 1.0, 1.0),
        action_names=("up", "down", "right", "left"),
        horizon=400,
        discount=0.99,
        place="rooms",
        units=(Unit("m"),) * 4,
        descriptor_names=("goal height", "door height", "second door height"),
        descriptor_units=(Unit("m", 0.5, 0.5),) * 3,
    )
    rewards = (("every step", STEP_REWARD), ("goal", GOAL_REWARD))

    def reset(self, key: Key, task: RoomsTask) -> Position:
        u, v = uniforms(key)
        low, high = task.start_low, task.start_high
        return Position(low[0] + u * (high[0] - low[0]), low[1] + v * (high[1] - low[1]))

    def noise(self, key: Key) -> Position:
        u, v = normals(key)
        return Position(NOISE * u, NOISE * v)

    def transition(self, noise: Position, state: Position, action: Int[Array, ""], task: RoomsTask) -> Timestep:
        up, down, right, left = (action == a for a in range(4))
        across = jnp.where(right, STEP, jnp.where(left, -STEP, 0.0))
        upward = jnp.where(up, STEP, jnp.where(down, -STEP, 0.0))
        return moved(noise, state, across, upward, task)

    def observe(self, state: Position, task: RoomsTask) -> Float[Array, "4"]:
        return jnp.stack([state.x, state.y, task.goal[0], task.goal[1]])

    def descriptor(self, task: RoomsTask) -> Float[Array, "Z"]:
        """Heights of the goal and of the doors, scaled to [-1, 1]: what a change of map changes."""
        doors = (task.door_low + task.door_high) / 2
        return 2 * jnp.concatenate([task.goal[1:], doors]) - 1


def moved(
    noise: Position, state: Position, across: Float[Array, ""], upward: Float[Array, ""], task: RoomsTask
) -> Timestep:
    """A move by so much on both axes, which walls undo."""
    x = state.x + noise.x + across
    y = state.y + noise.y + upward
    blocked = (x < 0) | (x > 1) | (y < 0) | (y > 1)
    for w in range(task.walls.shape[0]):
        wall = task.walls[w]
        crosses = (state.x >= wall) != (x >= wall)
        crossing_y = state.y + (y - state.y) * (wall - state.x) / (x - state.x)
        blocked |= crosses & ~((crossing_y >= task.door_low[w]) & (crossing_y <= task.door_high[w]))
    x, y = jnp.where(blocked, state.x, x), jnp.where(blocked, state.y, y)
    half = task.goal_half_width
    at_goal = (jnp.abs(x - task.goal[0]) <= half) & (jnp.abs(y - task.goal[1]) <= half)
    return Timestep(Position(x, y), jnp.where(at_goal, STEP_REWARD + GOAL_REWARD, STEP_REWARD), at_goal, at_goal)
