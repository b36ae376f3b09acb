"""Where a policy goes: visits on a grid of the rooms, and the connected regions of its skills."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.keys import fold, root
from asap.envs.catalog import CompiledTask
from asap.envs.core import CompiledTasks
from asap.learn.rollout import play_window, start_lanes
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import regions_at

CELLS = 50
LANES, STEPS = 256, 400


def visited_components(policy: ASAPPolicy, task: CompiledTask, seed: int) -> list[list[float]]:
    """For each skill, the share of all visits in each connected component of the cells where it is the most probable."""
    visits = np.asarray(_visits(policy, CompiledTasks.of(task.env, {task.name: task.task}), root(seed)))
    centres = (np.arange(CELLS) + 0.5) / CELLS
    goal = np.broadcast_to(np.asarray(task.task.goal), (CELLS * CELLS, 2))
    places = np.stack(np.meshgrid(centres, centres, indexing="ij"), -1).reshape(-1, 2)
    states = np.concatenate([places, goal], -1)
    rulers = regions_at(policy, states, np.asarray(task.env.descriptor(task.task))).rulers.reshape(CELLS, CELLS)
    shares = visits / visits.sum()
    return [[float(shares[part].sum()) for part in components(rulers == skill)] for skill in range(policy.num_skills)]


def components(cells: np.ndarray) -> list[np.ndarray]:
    """The connected parts of a mask, as masks: neighbours share an edge."""
    left, parts = cells.copy(), []
    while left.any():
        part = np.zeros_like(left)
        part[np.unravel_index(left.argmax(), left.shape)] = True
        while True:
            grown = part.copy()
            grown[1:] |= part[:-1]
            grown[:-1] |= part[1:]
            grown[:, 1:] |= part[:, :-1]
            grown[:, :-1] |= part[:, 1:]
            grown &= left
            if (grown == part).all():
                break
            part = grown
        parts.append(part)
        left &= ~part
    return parts


@jax.jit
def _visits(policy: ASAPPolicy, tasks: CompiledTasks, key) -> Int[Array, "X Y"]:
    lanes = start_lanes(tasks, fold(key, 0), LANES)
    _, window, _ = play_window(policy, tasks, lanes, fold(key, 1), STEPS)
    cell: Float[Array, "2 ..."] = jnp.clip(jnp.floor(window.observation[:2] * CELLS), 0, CELLS - 1).astype(jnp.int32)
    return jnp.zeros((CELLS, CELLS), jnp.int32).at[cell[0].ravel(), cell[1].ravel()].add(1)
