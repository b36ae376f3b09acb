"""Families of tasks, drawn around a given one: for systems that learn many tasks to be good at one of them.

Rooms: each door at a height from .1 to .9, and the goal above or below. Striker: speed of the goalkeeper, and half
of the start box. The given task comes first, then its mirror image where it has one. What is drawn depends on
nothing but the size of the family.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

from asap.base.keys import host_generator
from asap.base.spec import Task
from asap.base.types import TaskParameters
from asap.envs.rooms import RoomsTask
from asap.envs.soccer.half_field import StrikerTask

DOOR_HEIGHTS, KEEPER_SPEEDS = (0.1, 0.9), (0.5, 1.0)


def why_no_family(task: Task) -> str | None:
    return None if task.spec.place in _DRAWN else "it needs a family of tasks, and of this one there is none"


def family(task: Task, size: int, seed: int = 0) -> tuple[Task, ...]:
    """Members have the name of the given task: they differ in numbers alone, and run in one compiled program."""
    draw = _DRAWN[task.spec.place]
    members = [draw(task.task, number, host_generator(seed, number)) for number in range(1, size)]
    return (task, *(dataclasses.replace(task, task=member) for member in members))


def _rooms(given: RoomsTask, number: int, generator: np.random.Generator) -> RoomsTask:
    """Goals are on both sides in turns; the first is the mirror image of the given task."""
    goal = np.float32([given.goal[0], 1 - given.goal[1]]) if number % 2 else given.goal
    if number == 1:
        return given._replace(goal=goal, door_low=1 - given.door_high, door_high=1 - given.door_low)
    return with_doors(given, generator.uniform(*DOOR_HEIGHTS, given.walls.shape))._replace(goal=goal)


def with_doors(given: RoomsTask, heights: np.ndarray) -> RoomsTask:
    """The same rooms with the middles of their doors at these heights."""
    half = (given.door_high - given.door_low) / 2
    return given._replace(door_low=np.float32(heights - half), door_high=np.float32(heights + half))


def _striker(given: StrikerTask, number: int, generator: np.random.Generator) -> StrikerTask:
    width = (given.ball_high - given.ball_low) / 2
    low = given.ball_low + generator.uniform(0, 1, 2) * width
    speed = np.float32(generator.uniform(*KEEPER_SPEEDS))
    return given._replace(goalkeeper_speed=speed, ball_low=np.float32(low), ball_high=np.float32(low + width))


_DRAWN: dict[str, Callable[..., TaskParameters]] = {"rooms": _rooms, "pitch": _striker}
