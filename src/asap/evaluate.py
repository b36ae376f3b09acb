"""Playing a fixed policy: return, success, length of every episode, and how much and how long each skill is used."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.envs.core import TaskSet
from asap.keys import Key, fold
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
    moment: Moment
    evaluation: Evaluation
    playing: Bool[Array, "N"]
    step: Int[Array, ""]


def evaluate(policy: ASAPPolicy, tasks: TaskSet, key: Key, num_episodes: int) -> Evaluation:
    """Each lane plays one episode to its end."""
    keys = lane_keys(fold(key, 0), num_episodes)
    lanes = start_lanes(tasks, fold(key, 1), num_episodes)
    moment = jax.vmap(lambda k, lane: start_moment(tasks, policy, k, lane), in_axes=-1, out_axes=-1)(keys, lanes)
    skills = jnp.arange(policy.num_skills)[:, None]

    def body(going: Going) -> Going:
        before = going.moment
        used = (skills == before.skill) & going.playing
        begun = used & (before.skill != before.lane.previous_skill)
        moment, outcome = jax.vmap(lambda k, at: make_step(tasks, policy, k, going.step, at), in_axes=-1, out_axes=-1)(
            keys, before
        )
        ends = (outcome.terminated | outcome.truncated) & going.playing
        so_far = going.evaluation
        evaluation = Evaluation(
            returns=jnp.where(ends, outcome.total, so_far.returns),
            success=jnp.where(ends, outcome.success, so_far.success),
            lengths=jnp.where(ends, outcome.elapsed, so_far.lengths),
            skill_steps=so_far.skill_steps + used.sum(-1),
            skill_starts=so_far.skill_starts + begun.sum(-1),
        )
        return Going(moment, evaluation, going.playing & ~ends, going.step + 1)

    none, zeros = jnp.zeros(num_episodes, bool), jnp.zeros(policy.num_skills, jnp.int32)
    nothing = Evaluation(jnp.zeros(num_episodes), none, jnp.zeros(num_episodes, jnp.int32), zeros, zeros)
    going = Going(moment, nothing, ~none, jnp.int32(0))
    return jax.lax.while_loop(lambda g: g.playing.any(), body, going).evaluation
