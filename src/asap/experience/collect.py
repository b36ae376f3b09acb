"""Logging what a controller does: rounds of complete episodes, written as they come."""

import functools
import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from asap.base.arrays import compiled
from asap.base.keys import fold, root
from asap.data.layout import BEHAVIOUR, DESCRIPTOR, FINAL, SUCCESS, Meta, layout_of
from asap.data.writing import DatasetWriter
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.controllers import Controller
from asap.offline.play import LoggedEpisodes, play_logged

_COLLECT = 8  # Stream of the seed's key; 0 to 7 are the learner's and the model's.
STEPS_AT_ONCE = 1 << 19  # Room for this many steps is made in a round: it bounds memory, whatever the horizon.
MOST_LANES = 1024


class Collected(NamedTuple):
    """What was logged."""

    meta: Meta
    steps: int
    seconds: float  # Of playing and writing, without compilation.


def collect(
    task: CompiledTask,
    controller: Controller,
    epsilon: float,
    num_episodes: int,
    seed: int,
    path: str | Path,
    report: Callable[[int, int, float], None] = lambda *_: None,
) -> Collected:
    """Episodes 0 to `num_episodes` - 1 of this seed, into a dataset at `path`; `report` gets round, episodes, mean return."""
    lanes = max(1, min(MOST_LANES, num_episodes, STEPS_AT_ONCE // task.env.spec.horizon))
    tasks, key = catalog.task_set(((task.name, 1.0),)), fold(root(seed), _COLLECT)
    play = functools.partial(compiled(lambda key, ids: play_logged(tasks, controller.probabilities, key, ids)), key)
    descriptor = layout_of(task).descriptor
    jax.block_until_ready(play(jnp.arange(lanes)))
    began, steps, returns, successes = time.monotonic(), 0, 0.0, 0
    with DatasetWriter(path) as writer:
        for number, first in enumerate(range(0, num_episodes, lanes)):
            count = min(lanes, num_episodes - first)
            played = jax.tree.map(np.asarray, play(first + jnp.arange(lanes)))
            columns = as_columns(played, first, count, descriptor)
            writer.add(columns)
            steps += len(columns["reward"])
            returns += float(columns["reward"].sum(dtype=np.float64))
            successes += int(columns[SUCCESS].sum())
            report(number, first + count, returns / (first + count))
        meta = _describe(
            task, controller, epsilon, num_episodes, seed, returns / num_episodes, successes / num_episodes
        )
        writer.finish(meta)
    return Collected(meta, steps, time.monotonic() - began)


def as_columns(played: LoggedEpisodes, first: int, count: int, descriptor: np.ndarray) -> dict[str, np.ndarray]:
    """The first `count` episodes as rows, one episode after the other."""
    lengths = played.lengths[:count]
    longest = int(lengths.max())
    is_step = np.arange(longest) < lengths[:, None]

    def rows(grid: np.ndarray) -> np.ndarray:
        return grid[..., :longest, :count].T[is_step]  # Lanes first, and the numbers of a vector last.

    last = np.cumsum(lengths) - 1
    terminated, truncated = np.zeros((2, is_step.sum()), bool)
    terminated[last], truncated[last] = played.terminated[:count], ~played.terminated[:count]
    return {
        "observation": rows(played.observation),
        "action": rows(played.action),
        "reward": rows(played.reward),
        "terminated": terminated,
        "truncated": truncated,
        "episode": np.repeat(np.arange(first, first + count, dtype=np.int32), lengths),
        BEHAVIOUR: rows(played.log_prob),
        FINAL: played.final_observation[:, :count].T,
        DESCRIPTOR: np.tile(descriptor, (count, 1)),
        SUCCESS: played.success[:count],
    }


def _describe(
    task: CompiledTask,
    controller: Controller,
    epsilon: float,
    num_episodes: int,
    seed: int,
    mean_return: float,
    success: float,
) -> Meta:
    return Meta(
        task=task.name,
        observation_names=task.env.spec.observation_names,
        action_names=task.env.spec.action_names,
        controller=controller.name,
        epsilon=epsilon,
        seed=seed,
        episodes=num_episodes,
        behaviour_return=mean_return,
        behaviour_success=success,
        versions={name: importlib.metadata.version(name) for name in ("asap-rl", "jax", "numpy")},
    )
