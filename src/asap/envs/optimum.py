"""The optimum of a rooms task, by value iteration on a grid: what no policy can beat.

    V(c) = max_a sum_n p_a(n) [ r + V(c') if the move does not end at the goal ],   (c', r) = Rooms.transition from c

A cell c stands for its centre. The landing points of a noisy move are the centres of the cells around its aim, each
with the exact Gaussian mass of its cell. Walls lie between cells, so a value never leaks through one, and whether a
move is blocked is decided by `Rooms.transition` itself. Rounding a landing point to its cell keeps the mean of a move
and adds h^2 / 12 to its variance, 8 % for 100 cells: against the true environment the returns differ by less than 0.1.

Returns are undiscounted, and the horizon is left out: from the worst cell of 3R the optimum takes 51 of the 400 steps.
"""

import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from asap.base.errors import UserError
from asap.envs.rooms import NOISE, STEP, Position, Rooms, RoomsTask

TAIL = 4  # Noise beyond this many standard deviations (one number in 16,000) is left out.
TOLERANCE = 1e-6
MAX_SWEEPS = 1_000
# Up, down, right, left. Known here only to place the noises so that moves end at centres; `transition` does the moving.
_MOVES = ((0.0, STEP), (0.0, -STEP), (STEP, 0.0), (-STEP, 0.0))


class Optimum(NamedTuple):
    """V and the best action of every cell, indexed [column from the left, row from the bottom]."""

    values: Float[np.ndarray, "X Y"]
    policy: Int[np.ndarray, "X Y"]


class Moves(NamedTuple):
    """The grid as a finite task: where each action leads from each cell, and how likely."""

    landings: Int[np.ndarray, "A C N"]  # Cell numbers; C, one past the last cell, is the end of the episode.
    weights: Float[np.ndarray, "A N"]
    rewards: Float[np.ndarray, "A C"]


def optimal_return(task: RoomsTask, cells: int = 100) -> float:
    """Mean undiscounted return of the optimal policy over the start box."""
    values = optimal_values(task, cells).values
    fractions = (np.arange(200) + 0.5) / 200
    box = zip(task.start_low, task.start_high, values.shape)
    cells_of_axes = (_cell_of(low + fractions * (high - low), count) for low, high, count in box)
    return float(values[np.ix_(*cells_of_axes)].mean())


def optimal_values(task: RoomsTask, cells: int = 100) -> Optimum:
    """Value iteration to convergence, on `cells` by `cells` cells; below 50 they are too coarse for the noise."""
    rooms = len(task.walls) + 1
    # The columns are a multiple of the rooms, so that a wall between equal rooms is also a border between cells.
    shape = rooms * math.ceil(cells / rooms), cells
    moves = _moves(task, shape)
    values = np.zeros(math.prod(shape))
    for _ in range(MAX_SWEEPS):
        at_landing = np.append(values, 0.0)
        # Action by action: one gather for all four leaves the cache and takes up to twice as long.
        gains = [at_landing[landings] @ weights for landings, weights in zip(moves.landings, moves.weights)]
        action_values = moves.rewards + np.stack(gains)
        values, before = action_values.max(0), values
        if np.abs(values - before).max() < TOLERANCE:
            return Optimum(values.reshape(shape), action_values.argmax(0).reshape(shape))
    raise UserError("task", f"value iteration did not settle in {MAX_SWEEPS} sweeps", cure="open a way to the goal")


def _moves(task: RoomsTask, shape: tuple[int, int]) -> Moves:
    """Plays every action from every cell with every noise."""
    columns, rows = (grid.ravel() for grid in np.indices(shape))
    start = Position((columns + 0.5) / shape[0], (rows + 0.5) / shape[1])
    play = jax.vmap(Rooms().transition, (0, None, None, None))  # Over noises, ...
    play = jax.jit(jax.vmap(play, (None, 0, None, None)))  # ... and over cells.
    landings, weights, rewards = [], [], []
    for action, (move_x, move_y) in enumerate(_MOVES):
        noise_x, weight_x = _noises(move_x, shape[0])
        noise_y, weight_y = _noises(move_y, shape[1])
        noise = Position(np.repeat(noise_x, len(noise_y)), np.tile(noise_y, len(noise_x)))
        weight = np.outer(weight_x, weight_y).ravel()
        after = jax.tree.map(np.asarray, play(noise, start, action, task))
        cell = _cell_of(after.state.x, shape[0]) * shape[1] + _cell_of(after.state.y, shape[1])
        landings.append(np.where(after.terminated, len(columns), cell))
        weights.append(weight)
        rewards.append(after.reward @ weight)
    return Moves(np.stack(landings), np.stack(weights), np.stack(rewards))


def _noises(move: float, count: int) -> tuple[Float[np.ndarray, "N"], Float[np.ndarray, "N"]]:
    """The noises that turn a move from a centre into one to another centre, and the Gaussian mass of the cell there."""
    reach = math.ceil(TAIL * NOISE * count)
    noise = (round(move * count) + np.arange(-reach, reach + 1)) / count - move
    edges = np.append(noise - 0.5 / count, noise[-1] + 0.5 / count)
    mass = np.diff([0.5 * (1 + math.erf(edge / NOISE / math.sqrt(2))) for edge in edges])
    return noise, mass / mass.sum()


def _cell_of(coordinate: Float[np.ndarray, "..."], count: int) -> Int[np.ndarray, "..."]:
    return np.clip((coordinate * count).astype(int), 0, count - 1)
