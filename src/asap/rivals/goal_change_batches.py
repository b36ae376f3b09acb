"""ASAP in the goal-change experiment. It learns from batches of a few lanes; episodes count in the order in which they end.

An update that brings the last episode of a phase brings a few more, which are not recorded. At the change the lanes begin new
episodes, and all else stays: policy, critic and the optimizer's moments.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from asap.base.arrays import stack
from asap.base.keys import Key, fold, host_generator
from asap.base.spec import TaskSet
from asap.base.types import EpisodeTotals
from asap.config.defaults import complete
from asap.config.schema import Config
from asap.config.settings import Values, override
from asap.envs.core import CompiledTasks
from asap.envs.four_rooms import CELLS, FIRST_GOAL, FourRooms, FourRoomsTask, four_rooms
from asap.experience.compiled import Compiled
from asap.experience.compiled_play import program
from asap.experience.protocol import Batch, OnProgress, ignore_progress
from asap.experience.rollout import Lane
from asap.learn.state import Budget, TrainState, drawn_start, first_state
from asap.learn.update import update
from asap.policy.policy import ASAPPolicy, Kept
from asap.rivals.goal_change import EPISODES, run_keys, second_goals

UPDATES_AT_ONCE = 50  # Between two looks of the host.
OTHER_GOALS = 21  # A stream of a seed on the host.
SETTINGS: Values = {
    "policy.hyperplanes": 1,
    "policy.skills": "linear",
    "policy.start": "random",
    "learn.learner": "ppo",
    "learn.schedule": "constant",
    "learn.lanes": 2,
    "learn.window": 32,
    "learn.entropy": 0.01,
    "learn.critic_features": 128,
    "learn.convergence_tolerance": 0.0,
}


class RecordedLanes(NamedTuple):
    """What a run carries from one update to the next."""

    lanes: Lane
    count: Int[Array, ""]  # Episodes that have ended, in this phase.
    lengths: Int[Array, "E"]


class RecordedLengths(Compiled):
    """Plays one run, and writes down the steps of each episode."""

    def __init__(self, config: Config, tasks: TaskSet, compiled_tasks: CompiledTasks, num_episodes: int):
        super().__init__(config, tasks, compiled_tasks)
        self._size = num_episodes

    def begin(self, key: Key) -> RecordedLanes:
        return RecordedLanes(super().begin(key), jnp.int32(0), jnp.zeros(self._size, jnp.int32))

    def collect(
        self, key: Key, policy: ASAPPolicy, carry: RecordedLanes, fed: tuple[()]
    ) -> tuple[RecordedLanes, Batch]:
        lanes, batch = super().collect(key, policy, carry.lanes, fed)
        ended = batch.steps.ended
        steps = steps_at(carry.lanes.episode.elapsed, ended).ravel()
        ended = ended.ravel()
        index = jnp.where(ended, carry.count + jnp.cumsum(ended) - 1, self._size)
        lengths = carry.lengths.at[index].set(steps, mode="drop")
        return RecordedLanes(lanes, carry.count + ended.sum(), lengths), batch


def steps_at(elapsed: Int[Array, "L"], ended: Bool[Array, "T L"]) -> Int[Array, "T L"]:
    """After each step, how many its episode has had; `elapsed` before the first."""
    time = jnp.arange(1, ended.shape[0] + 1)[:, None]
    begins = jnp.concatenate([-elapsed[None], jnp.where(ended[:-1], time[:-1], -jnp.max(elapsed))])
    return time - jax.lax.cummax(begins, axis=0)


@dataclasses.dataclass(frozen=True)
class Arm:
    """How ASAP meets the change."""

    keeps_skills: bool = False  # After the change, only planes are learned on.
    num_goals: int = 1  # Before the change, each seen in the descriptor; the first is among them.
    settings: tuple[tuple[str, Any], ...] = ()  # Where they differ from SETTINGS.

    @property
    def config(self) -> Config:
        features = "interactions" if self.num_goals > 1 else "none"  # Also after the change, with one goal.
        return complete(override(Config(), {**SETTINGS, "policy.task_features": features, **dict(self.settings)}))


def asap_goal_change(
    arm: Arm,
    slip: str,
    seeds: Sequence[int],
    num_episodes: int = EPISODES,
    heard: OnProgress = ignore_progress,
) -> Int[np.ndarray, "runs E"]:
    """Steps of every episode, as of `goal_change`."""
    config, keys, second = arm.config, run_keys(seeds), second_goals(seeds)
    first = np.stack([first_goals(arm, seed, int(goal)) for seed, goal in zip(seeds, second)])
    tasks = TaskSet((four_rooms(slip),) * arm.num_goals, (1.0,) * arm.num_goals)
    starts = stack([drawn_start(config, tasks, seed) for seed in seeds])
    phase = Phase(config, slip, num_episodes)
    states = program(_first_states, "phase")(keys, first, starts, phase=phase)
    before, states = _learned(phase, keys, first, states, heard)
    if arm.keeps_skills:
        policy = states.policy
        kept = Kept(policy.kept.planes, tuple(range(policy.num_skills)))
        states = eqx.tree_at(lambda all_runs: all_runs.policy, states, dataclasses.replace(policy, kept=kept))
    states = program(_changed, "phase")(keys, second[:, None], states, phase=phase)
    after, _ = _learned(phase, keys, second[:, None], states, lambda count: heard(num_episodes + count))
    return np.concatenate([before, after], 1)


def first_goals(arm: Arm, seed: int, second: int) -> Int[np.ndarray, "M"]:
    """The first goal, and others than the second."""
    others = [cell for cell in range(len(CELLS)) if cell not in (FIRST_GOAL, second)]
    drawn = host_generator(seed, OTHER_GOALS).choice(others, arm.num_goals - 1, replace=False)
    return np.array([FIRST_GOAL, *drawn], np.int32)


@dataclasses.dataclass(frozen=True)
class Phase:
    """What the programs are compiled for."""

    config: Config
    slip: str
    num_episodes: int

    def player(self, goals: Int[Array, "M"]) -> RecordedLengths:
        count, env = goals.shape[0], FourRooms(self.slip)
        named = CompiledTasks(env, FourRoomsTask(goals), jnp.full(count, 1 / count), tuple(map(str, range(count))))
        tasks = TaskSet((four_rooms(self.slip),) * count, (1.0,) * count)
        return RecordedLengths(self.config, tasks, named, self.num_episodes)


def _first_states(keys: Key, goals: Int[Array, "runs M"], starts: Any, phase: Phase) -> TrainState:
    def of_run(key: Key, goals: Int[Array, "M"], start: Any) -> TrainState:
        return first_state(phase.config, phase.player(goals), key, start)

    return jax.vmap(of_run)(keys, goals, starts)


def _changed(keys: Key, goals: Int[Array, "runs M"], states: TrainState, phase: Phase) -> TrainState:
    """Before the first update on other goals."""

    def of_run(key: Key, goals: Int[Array, "M"], state: TrainState) -> TrainState:
        none = jnp.zeros(goals.shape[0], jnp.int32)
        totals = EpisodeTotals(none, jnp.zeros(goals.shape[0]), none, none)
        carry = phase.player(goals).begin(fold(key, state.iteration))
        return dataclasses.replace(state, carry=carry, totals=totals)

    return jax.vmap(of_run)(keys, goals, states)


def _learned(
    phase: Phase, keys: Key, goals: Int[np.ndarray, "runs M"], states: TrainState, heard: OnProgress
) -> tuple[Int[np.ndarray, "runs E"], TrainState]:
    while (slowest := int(np.asarray(states.carry.count).min())) < phase.num_episodes:
        heard(slowest)
        states = program(_go_on, "phase")(keys, goals, states, phase=phase)
    return np.asarray(states.carry.lengths), states


def _go_on(keys: Key, goals: Int[Array, "runs M"], states: TrainState, phase: Phase) -> TrainState:
    budget = Budget(np.int32(phase.num_episodes), np.int32(np.iinfo(np.int32).max))

    def of_run(key: Key, goals: Int[Array, "M"], state: TrainState) -> TrainState:
        return update(phase.config, phase.player(goals), budget, key, state, ())[0]

    def goes_on(carry: tuple[Int[Array, ""], TrainState]) -> Array:
        return (carry[0] < UPDATES_AT_ONCE) & (carry[1].carry.count < phase.num_episodes).any()

    def body(carry: tuple[Int[Array, ""], TrainState]) -> tuple[Int[Array, ""], TrainState]:
        return carry[0] + 1, jax.vmap(of_run)(keys, goals, carry[1])

    return jax.lax.while_loop(goes_on, body, (jnp.int32(0), states))[1]
