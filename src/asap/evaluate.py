"""Playing a fixed policy: return, success, length of every episode, and how much and how long each skill is used."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpy.typing import ArrayLike

from asap.base.keys import Key, fold
from asap.envs.core import CompiledTasks
from asap.learn.rollout import Moment, lane_keys, make_step, start_lanes, start_moment
from asap.policy.policy import ASAPPolicy


class Evaluation(NamedTuple):
    """One entry per episode, one per skill."""

    returns: Float[Array, "N"]
    success: Bool[Array, "N"]
    lengths: Int[Array, "N"]
    skill_steps: Int[Array, "S"]
    skill_starts: Int[Array, "S"]

    @property
    def usage(self) -> Float[Array, "S"]:
        """Share of all steps made under each skill."""
        return self.skill_steps / jnp.maximum(self.skill_steps.sum(-1, keepdims=True), 1)

    @property
    def durations(self) -> Float[Array, "S"]:
        """Mean number of successive steps under each skill (errata E10)."""
        return self.skill_steps / jnp.maximum(self.skill_starts, 1)


class Going(NamedTuple):
    """Lanes that play, or have played, one episode each."""

    keys: Key
    moment: Moment
    evaluation: Evaluation
    playing: Bool[Array, "N"]


def evaluate(policy: ASAPPolicy, tasks: CompiledTasks, key: Key, num_episodes: int) -> Evaluation:
    """Each lane plays one episode to its end."""
    alone = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (policy, key))
    return jax.tree.map(lambda leaf: leaf[0], evaluate_seeds(alone[0], tasks, alone[1], num_episodes))


def evaluate_seeds(policies: ASAPPolicy, tasks: CompiledTasks, keys: Key, num_episodes: int) -> Evaluation:
    """The same for stacked policies, in one loop: a loop per policy under `vmap` would select its whole carry each step."""

    def start(policy: ASAPPolicy, key: Key) -> Going:
        keys = lane_keys(fold(key, 0), num_episodes)
        lanes = start_lanes(tasks, fold(key, 1), num_episodes)
        moment = jax.vmap(lambda k, lane: start_moment(tasks, policy, k, lane), in_axes=-1, out_axes=-1)(keys, lanes)
        none, zeros = jnp.zeros(num_episodes, bool), jnp.zeros(policy.num_skills, jnp.int32)
        nothing = Evaluation(jnp.zeros(num_episodes), none, jnp.zeros(num_episodes, jnp.int32), zeros, zeros)
        return Going(keys, moment, nothing, ~none)

    def body(carry: tuple[Int[Array, ""], Going]) -> tuple[Int[Array, ""], Going]:
        step, going = carry
        return step + 1, jax.vmap(lambda policy, one: go_on(policy, tasks, step, one))(policies, going)

    carry = (jnp.int32(0), jax.vmap(start)(policies, keys))
    return jax.lax.while_loop(lambda carry: carry[1].playing.any(), body, carry)[1].evaluation


def go_on(policy: ASAPPolicy, tasks: CompiledTasks, step: Int[Array, ""], going: Going) -> Going:
    """One step of every lane; only those that still play are counted."""
    before, so_far = going.moment, going.evaluation
    used = (jnp.arange(policy.num_skills)[:, None] == before.skill) & going.playing
    begun = used & (before.skill != before.lane.previous_skill)
    make = jax.vmap(lambda k, at: make_step(tasks, policy, k, step, at), in_axes=-1, out_axes=-1)
    moment, outcome = make(going.keys, before)
    ends = (outcome.terminated | outcome.truncated) & going.playing
    evaluation = Evaluation(
        returns=jnp.where(ends, outcome.total, so_far.returns),
        success=jnp.where(ends, outcome.success, so_far.success),
        lengths=jnp.where(ends, outcome.elapsed, so_far.lengths),
        skill_steps=so_far.skill_steps + used.sum(-1),
        skill_starts=so_far.skill_starts + begun.sum(-1),
    )
    return Going(going.keys, moment, evaluation, going.playing & ~ends)


def join_evaluations(parts: list[Evaluation], num_episodes: int) -> Evaluation:
    """Several rounds with axes (seeds, tasks, episodes) as one."""

    def episodes(name: str) -> np.ndarray:
        return np.concatenate([getattr(part, name) for part in parts], -1)[..., :num_episodes]

    def counts(name: str) -> np.ndarray:
        return sum(getattr(part, name).astype(np.int64) for part in parts)

    return Evaluation(
        episodes("returns"), episodes("success"), episodes("lengths"), counts("skill_steps"), counts("skill_starts")
    )


def known_mean(values: ArrayLike, axis: int | tuple[int, ...] = -1) -> np.ndarray | np.floating:
    """The mean of what is known; NaN where nothing is, which NumPy's own would warn of."""
    values = np.asarray(values, float)
    known = ~np.isnan(values)
    count = known.sum(axis)
    return np.where(count > 0, np.where(known, values, 0.0).sum(axis) / np.maximum(count, 1), np.nan)
