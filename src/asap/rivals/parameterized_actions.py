"""Our rooms and strikers with parameterised actions (a, x): a discrete choice and the numbers that it takes.

An action is a vector: which of the choices, then its numbers. A number from -1 to 1 spans what the choice can do, and what lies outside
is clipped. The task itself, its walls, opponents, rewards and ends, is that of the environment inside.
"""

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key
from asap.base.spec import Spec, Task, TaskSet
from asap.base.types import Timestep
from asap.envs.core import CompiledTasks, Env
from asap.envs.rooms import STEP, Position, Rooms, RoomsTask, moved
from asap.envs.soccer import striker
from asap.envs.soccer.half_field import Dice, Match, Striker, StrikerTask
from asap.envs.soccer.physics import Ball, Body, Command, Touch
from asap.envs.soccer.prediction import choose
from asap.envs.soccer.vectors import GOAL_HALF_WIDTH

MOST_ASIDE = math.pi / 2  # Of DribbleTo, from the direction of the goal.


class Act(NamedTuple):
    """A parameterised action in its parts."""

    which: Int[Array, "*batch"]
    numbers: Float[Array, "P *batch"]  # As many as the choice with most of them has; others ignore the last.

    @classmethod
    def read(cls, action: Float[Array, "A *batch"]) -> "Act":
        return cls(jnp.round(action[0]).astype(jnp.int32), action[1:])

    @property
    def vector(self) -> Float[Array, "A *batch"]:
        return jnp.concatenate([self.which[None].astype(self.numbers.dtype), self.numbers])


class Parameterized(Env):
    """An environment whose actions are replaced; `takes` tells how many numbers each choice has."""

    inside: eqx.AbstractVar[Env]
    takes: eqx.AbstractVar[tuple[int, ...]]
    hand_set: eqx.AbstractVar[tuple[tuple[float, ...], ...]]  # Numbers that a person would begin with, per choice.

    def reset(self, key: Key, task: Any) -> Any:
        return self.inside.reset(key, task)

    def noise(self, key: Key) -> Any:
        return self.inside.noise(key)

    def observe(self, state: Any, task: Any) -> Float[Array, "O"]:
        return self.inside.observe(state, task)

    def descriptor(self, task: Any) -> Float[Array, "Z"]:
        return self.inside.descriptor(task)

    def decides(self, state: Any) -> Bool[Array, ""] | None:
        return self.inside.decides(state)


class ParameterizedRooms(Parameterized):
    """MoveX(dx) and MoveY(dy), at most as far as a move of the task."""

    spec: Spec = eqx.field(static=True)
    inside: Rooms
    takes = (1, 1)
    hand_set = ((1.0,), (1.0,))  # To the right, and up.

    def __init__(self, inside: Rooms):
        self.inside = inside
        self.spec = dataclasses.replace(inside.spec, action_names=("MoveX", "MoveY"))

    def transition(self, noise: Position, state: Position, action: Float[Array, "A"], task: RoomsTask) -> Timestep:
        which, (number,) = Act.read(action)
        size = STEP * jnp.clip(number, -1.0, 1.0)
        return moved(noise, state, jnp.where(which == 0, size, 0.0), jnp.where(which == 1, size, 0.0), task)


class ParameterizedStriker(Parameterized):
    """Move, DribbleTo(angle) and Shoot(y). The numbers replace the targets that the task's own actions look for: 0 is
    straight to the goal, and its centre. Without the ball all three move to it, as in the task."""

    spec: Spec = eqx.field(static=True)
    inside: Striker
    takes = (0, 1, 1)
    hand_set = ((), (0.0,), (0.7,))  # A shot beside the goalkeeper.

    def __init__(self, inside: Striker):
        self.inside = inside
        self.spec = dataclasses.replace(inside.spec, action_names=("Move", "DribbleTo", "Shoot"))

    def transition(self, noise: Dice, state: Match, action: Float[Array, "A"], task: StrikerTask) -> Timestep:
        which, (number,) = Act.read(action)
        number = jnp.clip(number, -1.0, 1.0)

        def commanded(me: Body, ball: Ball, opponents: tuple[striker.Opponent, ...]) -> Command:
            angle = (striker.GOAL - ball.position).angle + MOST_ASIDE * number
            shot = striker.shoot_at(GOAL_HALF_WIDTH * number, me, ball, Touch.of(me, ball))
            with_ball = choose(which == striker.SHOOT, shot, striker.dribble_to(angle, me, ball, opponents))
            acts = striker.has_ball(me, ball) & (which != striker.MOVE)
            return choose(acts, with_ball, striker.move(me, ball))

        return self.inside.cycle(noise, state, which, commanded, task)


_WRAPPERS = {Rooms: ParameterizedRooms, Striker: ParameterizedStriker}


def has_parameterized(task: Task) -> bool:
    return type(getattr(task, "env", None)) in _WRAPPERS


def parameterized(tasks: TaskSet) -> CompiledTasks:
    """The tasks with parameterised actions."""
    env = tasks.tasks[0].env
    return CompiledTasks.of(_WRAPPERS[type(env)](env), {task.name: task.task for task in tasks.tasks}, tasks.weights)
