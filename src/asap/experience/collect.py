"""Logging what a controller does: complete episodes, step by step, in rounds that are written as they come.

A fixed set of ids is played and all of their episodes are kept, so short ones are not over-represented.
"""

import functools
import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import compiled, element
from asap.base.keys import Key, fold, root
from asap.data.layout import BEHAVIOUR, DESCRIPTOR, FINAL, SUCCESS, Meta
from asap.data.writing import DatasetWriter
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.controllers import Controller, Probabilities
from asap.envs.core import CompiledTasks, Outcome
from asap.experience.rollout import Controlled, Moment, fresh_episodes, look_lanes, play

_COLLECT = 8  # Stream of the seed's key; 0 to 7 are the learner's and the model's.
STEPS_AT_ONCE = 1 << 19  # Room for this many steps is made in a round: it bounds memory, whatever the horizon.
MOST_LANES = 1024


class LoggedEpisodes(NamedTuple):
    """L episodes; of the H steps that there is room for, the first `lengths` are theirs."""

    observation: Float[Array, "O H L"]
    action: Int[Array, "H L"]
    reward: Float[Array, "H L"]
    log_prob: Float[Array, "H L"]
    lengths: Int[Array, "L"]
    terminated: Bool[Array, "L"]
    success: Bool[Array, "L"]
    final_observation: Float[Array, "O L"]


class Log(NamedTuple):
    """Keeps every step of one episode per lane, with the probability of its action."""

    tasks: CompiledTasks
    probabilities: Probabilities

    def start(self, moment: Moment) -> tuple[LoggedEpisodes, Bool[Array, "L"]]:
        count, horizon = moment.skill.shape[-1], self.tasks.env.spec.horizon
        x, _ = look_lanes(self.tasks, moment)
        none, zeros = jnp.zeros(count, bool), jnp.zeros((horizon, count))
        room = jnp.zeros((x.shape[0], horizon, count))
        lengths = jnp.zeros(count, jnp.int32)
        return LoggedEpisodes(room, zeros.astype(jnp.int32), zeros, zeros, lengths, none, none, x), ~none

    def add(
        self,
        gathered: tuple[LoggedEpisodes, Bool[Array, "L"]],
        before: Moment,
        outcome: Outcome,
        step: Int[Array, ""],
    ) -> tuple[tuple[LoggedEpisodes, Bool[Array, "L"]], None]:
        so_far, playing = gathered
        ends = (outcome.terminated | outcome.truncated) & playing
        x, _ = look_lanes(self.tasks, before)
        log_prob = jnp.log(element(self.probabilities(x), before.action))
        logged = LoggedEpisodes(
            observation=so_far.observation.at[:, step].set(x),
            action=so_far.action.at[step].set(before.action),
            reward=so_far.reward.at[step].set(outcome.reward),
            log_prob=so_far.log_prob.at[step].set(log_prob),
            lengths=jnp.where(ends, outcome.elapsed, so_far.lengths),
            terminated=jnp.where(ends, outcome.terminated, so_far.terminated),
            success=jnp.where(ends, outcome.success, so_far.success),
            final_observation=jnp.where(ends, outcome.next_observation, so_far.final_observation),
        )
        return (logged, playing & ~ends), None

    def goes_on(self, gathered: tuple[LoggedEpisodes, Bool[Array, "L"]]) -> Bool[Array, "L"]:
        return gathered[1]


def play_logged(tasks: CompiledTasks, probabilities: Probabilities, key: Key, ids: Int[Array, "L"]) -> LoggedEpisodes:
    """The episodes of these ids, from start to end."""
    actor = Controlled(probabilities)
    keys, moment = fresh_episodes(tasks, actor, key, ids)
    return play(tasks, actor, keys, moment, Log(tasks, probabilities))[1][0]


def discounted_returns(played: LoggedEpisodes, discount: float) -> Float[np.ndarray, "L"]:
    steps = np.arange(played.reward.shape[0])[:, None]
    return (np.where(steps < played.lengths, played.reward, 0.0) * discount**steps).sum(0)


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
    """Episodes 0 to `num_episodes` - 1 of this seed, into a dataset at `path`; `report` gets round, episodes, mean
    return."""
    lanes = max(1, min(MOST_LANES, num_episodes, STEPS_AT_ONCE // task.env.spec.horizon))
    tasks, key = catalog.task_set(((task.name, 1.0),)), fold(root(seed), _COLLECT)
    play_ids = functools.partial(compiled(lambda key, ids: play_logged(tasks, controller.probabilities, key, ids)), key)
    descriptor = np.asarray(task.descriptor, np.float32)
    jax.block_until_ready(play_ids(jnp.arange(lanes)))
    began, steps, returns, successes = time.monotonic(), 0, 0.0, 0
    with DatasetWriter(path) as writer:
        for number, first in enumerate(range(0, num_episodes, lanes)):
            count = min(lanes, num_episodes - first)
            played = jax.tree.map(np.asarray, play_ids(first + jnp.arange(lanes)))
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
