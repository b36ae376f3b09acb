"""Playing episodes in lanes: fixed windows with auto-reset, or complete episodes with accumulated scores.

What the next step needs that is costly, its random numbers and the chosen (skill, action), is computed at the end of a
step and carried through the loop. The CPU compiler computes a value anew inside each of its consumers; a loop carry is
the one place where it stores it.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key, fold
from asap.base.types import EpisodeTotals, Transition
from asap.envs.core import CompiledTasks, Episode, Outcome, advance, begin
from asap.policy.policy import NO_SKILL, ASAPPolicy


class Lane(NamedTuple):
    """A place where one episode after the other is played."""

    episode: Episode
    previous_skill: Int[Array, ""]


class Draws(NamedTuple):
    """All random numbers of one step of one lane."""

    noise: Any
    reset: Key
    task: Key
    choice: tuple[Float[Array, ""], ...]


class Moment(NamedTuple):
    """A lane about to make its step: the choice is made, the dice are cast."""

    lane: Lane
    skill: Int[Array, ""]
    action: Int[Array, ""]
    draws: Draws


def cast(tasks: CompiledTasks, policy: ASAPPolicy, lane_key: Key, step: Int[Array, ""] | int) -> Draws:
    reset = fold(lane_key, step, 1)
    task = reset if tasks.size == 1 else fold(lane_key, step, 2)  # Not drawn where it decides nothing.
    return Draws(tasks.env.noise(fold(lane_key, step, 0)), reset, task, cast_choice(policy, lane_key, step))


def cast_choice(policy: ASAPPolicy, lane_key: Key, step: Int[Array, ""] | int) -> tuple[Float[Array, ""], ...]:
    return policy.draws(fold(lane_key, step, 3))


def look(tasks: CompiledTasks, episode: Episode) -> tuple[Float[Array, "O"], Float[Array, "Z"]]:
    """Observation and task descriptor of an episode."""
    task = tasks[episode.task]
    return tasks.env.observe(episode.state, task), tasks.env.descriptor(task)


def start_lanes(tasks: CompiledTasks, key: Key, num_lanes: int) -> Lane:
    """Lanes with fresh episodes."""

    def start(lane: Int[Array, ""]) -> Lane:
        return Lane(begin(tasks, fold(key, lane, 0), fold(key, lane, 1)), jnp.int32(NO_SKILL))

    return jax.vmap(start, out_axes=-1)(jnp.arange(num_lanes))


def start_moment(tasks: CompiledTasks, policy: ASAPPolicy, lane_key: Key, lane: Lane) -> Moment:
    """The first choice of a window is made by the policy of that window, with the id of the step before its first."""
    x, m = look(tasks, lane.episode)
    skill, action = policy.choose(cast_choice(policy, lane_key, -1), x, m, lane.previous_skill)
    return Moment(lane, skill, action, cast(tasks, policy, lane_key, 0))


def make_step(
    tasks: CompiledTasks, policy: ASAPPolicy, lane_key: Key, step: Int[Array, ""], moment: Moment
) -> tuple[Moment, Outcome]:
    """One step of one lane, up to and including the next choice."""
    draws = moment.draws
    episode, outcome = advance(tasks, draws.noise, draws.reset, draws.task, moment.lane.episode, moment.action)
    previous = jnp.where(outcome.terminated | outcome.truncated, NO_SKILL, moment.skill)
    x, m = look(tasks, episode)
    skill, action = policy.choose(draws.choice, x, m, previous)
    return Moment(Lane(episode, previous), skill, action, cast(tasks, policy, lane_key, step + 1)), outcome


def lane_keys(key: Key, num_lanes: int) -> Key:
    return jax.vmap(lambda lane: fold(key, lane))(jnp.arange(num_lanes))


def count_ended(outcome: Outcome, num_tasks: int, counted: Bool[Array, "L"] | bool = True) -> EpisodeTotals:
    """Totals of the episodes that ended in this step, per task, over lanes."""
    ended = (outcome.terminated | outcome.truncated) & counted
    of_task = ended & (jnp.arange(num_tasks)[:, None] == outcome.task)
    return EpisodeTotals(
        episodes=of_task.sum(-1),
        returns=jnp.where(of_task, outcome.total, 0.0).sum(-1),
        successes=(of_task & outcome.success).sum(-1),
        steps=jnp.where(of_task, outcome.elapsed, 0).sum(-1),
    )


def add(a: Any, b: Any) -> Any:
    return jax.tree.map(jnp.add, a, b)


def play_window(
    policy: ASAPPolicy, tasks: CompiledTasks, lanes: Lane, key: Key, num_steps: int
) -> tuple[Lane, Transition, EpisodeTotals]:
    """`num_steps` steps of every lane with auto-reset; transitions have axes (..., time, lane)."""
    keys = lane_keys(key, lanes.previous_skill.shape[-1])
    moment = jax.vmap(lambda k, lane: start_moment(tasks, policy, k, lane), in_axes=-1, out_axes=-1)(keys, lanes)

    def one_lane(lane_key: Key, step: Int[Array, ""], moment: Moment) -> tuple[Moment, Outcome, Transition]:
        x, m = look(tasks, moment.lane.episode)
        after, outcome = make_step(tasks, policy, lane_key, step, moment)
        transition = Transition(
            observation=x,
            descriptor=m,
            previous_skill=moment.lane.previous_skill,
            skill=moment.skill,
            action=moment.action,
            reward=outcome.reward,
            terminated=outcome.terminated,
            truncated=outcome.truncated,
            next_observation=outcome.next_observation,
            of_task=None if tasks.size == 1 else jnp.arange(tasks.size) == moment.lane.episode.task,
            # A policy that commits decides also by the skill it enters.
            decides=tasks.env.decides(moment.lane.episode.state) if policy.termination is None else None,
        )
        return after, outcome, transition

    def body(carry: tuple[Moment, EpisodeTotals], step: Int[Array, ""]):
        moment, totals = carry
        moment, outcome, transition = jax.vmap(one_lane, in_axes=(-1, None, -1), out_axes=-1)(keys, step, moment)
        return (moment, add(totals, count_ended(outcome, tasks.size))), transition

    carry = (moment, no_episodes(tasks.size))
    (moment, totals), transitions = jax.lax.scan(body, carry, jnp.arange(num_steps))
    return moment.lane, jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -2), transitions), totals


def no_episodes(num_tasks: int) -> EpisodeTotals:
    zero = jnp.zeros(num_tasks, jnp.int32)
    return EpisodeTotals(zero, jnp.zeros(num_tasks), zero, zero)
