"""Four rooms (Sutton, Precup and Singh, 1999): 104 cells, four moves, a goal that pays 1 and ends the episode.

Two kinds of slip go by the name of this task, and they are different MDPs. In both, chance 1/3 leads to one of the free
cells next to some cell, each with the same chance:

- "after-move", as in the public code of Option-Critic: the slip is one more step from the cell that a move has reached.
  Bumping into a wall suppresses it.
- "instead-of-move", as in the text of its paper: the slip replaces the move, also one into a wall.

An episode starts in any cell but the goal, and is cut after 1000 steps.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.keys import Key, uniforms
from asap.base.spec import Reference, Spec, Unit
from asap.base.types import Timestep
from asap.envs.catalog import CompiledTask
from asap.envs.core import Env

MAP = """
    #############
    #.....#.....#
    #.....#.....#
    #...........#
    #.....#.....#
    #.....#.....#
    ##.####.....#
    #.....###.###
    #.....#.....#
    #.....#.....#
    #...........#
    #.....#.....#
    #############
"""
ROWS = tuple(line.strip() for line in MAP.strip().splitlines())
CELLS = tuple((r, c) for r, row in enumerate(ROWS) for c, letter in enumerate(row) if letter == ".")
MOVES = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
FIRST_GOAL = CELLS.index((7, 9))  # The door between the rooms on the right.
LOWER_RIGHT = tuple(i for i, (r, c) in enumerate(CELLS) if r > 7 and c > 6)
SLIP = 1 / 3
AFTER_MOVE, INSTEAD_OF_MOVE = SLIPS = "after-move", "instead-of-move"
AT_RANDOM = Reference(0.995, 1.0, None)  # Nearly every walk at random finds the goal: what counts is how soon.


def _moved(cell: tuple[int, int]) -> list[int]:
    """The cell that each move leads to; a wall leads back."""
    places = [(cell[0] + down, cell[1] + right) for down, right in MOVES.values()]
    return [CELLS.index(place if place in CELLS else cell) for place in places]


NEIGHBOURS = np.array([_moved(cell) for cell in CELLS], np.int32)
NUM_FREE = (NEIGHBOURS != np.arange(len(CELLS))[:, None]).sum(1).astype(np.int32)
# Free ones first: the rest is never drawn.
FREE = np.array([sorted(row, key=lambda to: to == i) for i, row in enumerate(NEIGHBOURS.tolist())], np.int32)


class FourRoomsTask(NamedTuple):
    goal: Int[Array, ""]  # The number of its cell.


class FourRooms(Env):
    """The family of all goals, under one kind of slip. The state is the number of a cell."""

    slip: str = eqx.field(static=True, default=AFTER_MOVE)
    spec = Spec(
        observation_names=tuple(f"row {r} column {c}" for r, c in CELLS),
        observation_low=(0.0,) * len(CELLS),
        observation_high=(1.0,) * len(CELLS),
        action_names=tuple(MOVES),
        horizon=1000,
        discount=0.99,
        numbered=True,
        descriptor_names=("goal row", "goal column"),
        descriptor_units=(Unit("", 5.0, 6.0),) * 2,
    )
    rewards = (("goal", 1.0),)

    def reset(self, key: Key, task: FourRoomsTask) -> Int[Array, ""]:
        index = (uniforms(key)[0] * (len(CELLS) - 1)).astype(jnp.int32)
        return index + (index >= task.goal)

    def noise(self, key: Key) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Whether it slips, and where to."""
        return uniforms(key)

    def transition(
        self,
        noise: tuple[Float[Array, ""], Float[Array, ""]],
        state: Int[Array, ""],
        action: Int[Array, ""],
        task: FourRoomsTask,
    ) -> Timestep:
        moved = jnp.asarray(NEIGHBOURS)[state, action]
        slips, origin = noise[0] < SLIP, state
        if self.slip == AFTER_MOVE:
            slips, origin = slips & (moved != state), moved
        which = (noise[1] * jnp.asarray(NUM_FREE)[origin]).astype(jnp.int32)
        cell = jnp.where(slips, jnp.asarray(FREE)[origin, which], moved)
        at_goal = cell == task.goal
        return Timestep(cell, at_goal.astype(jnp.float32), at_goal, at_goal)

    def observe(self, state: Int[Array, ""], task: FourRoomsTask) -> Float[Array, "104"]:
        return (jnp.arange(len(CELLS)) == state).astype(jnp.float32)

    def descriptor(self, task: FourRoomsTask) -> Float[Array, "2"]:
        """Row and column of the goal, scaled to [-1, 1]."""
        return (jnp.asarray(CELLS, jnp.float32)[task.goal] - 6) / 5


def four_rooms(slip: str = AFTER_MOVE, goal: int = FIRST_GOAL) -> CompiledTask:
    """As a task to learn, with skills and planes that see the cell."""
    r, c = CELLS[goal]
    name, summary = f"four-rooms {slip} goal {r},{c}", f"four rooms, the goal in row {r}, column {c}"
    settings = {"policy.start": "random", "policy.skills": "linear"}
    features = "linear", FourRooms.spec.observation_names, (), (), ()
    return CompiledTask(name, summary, FourRooms(slip), FourRoomsTask(np.int32(goal)), *features, AT_RANDOM, settings)
