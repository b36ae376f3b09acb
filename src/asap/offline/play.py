"""Complete episodes of a fixed behaviour on one task, step by step as they are logged.

Episodes are played side by side, each to its own end, and each from random numbers folded from its id. A fixed set of
ids is played and all of them are kept, so short episodes are not over-represented.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import element, pick
from asap.base.keys import Key, fold, uniforms
from asap.envs.controllers import Probabilities
from asap.envs.core import CompiledTasks, Episode, advance, begin

_RESET, _NOISE, _ACTION = range(3)


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


class _Going(NamedTuple):
    episodes: Episode
    action: Int[Array, "L"]
    log_prob: Float[Array, "L"]
    observation: Float[Array, "O L"]
    played: LoggedEpisodes
    playing: Bool[Array, "L"]
    step: Int[Array, ""]


def play_logged(tasks: CompiledTasks, probabilities: Probabilities, key: Key, ids: Int[Array, "L"]) -> LoggedEpisodes:
    """The episodes of these ids, from start to end."""
    keys = jax.vmap(lambda number: fold(key, number))(ids)
    horizon, count, size = tasks.env.spec.horizon, ids.shape[0], len(tasks.env.spec.observation_names)

    def choose(
        step: Int[Array, ""], episodes: Episode
    ) -> tuple[Float[Array, "O L"], Int[Array, "L"], Float[Array, "L"]]:
        x = jax.vmap(lambda episode: tasks.env.observe(episode.state, tasks[episode.task]), in_axes=-1, out_axes=-1)(
            episodes
        )
        chances = probabilities(x)
        uniform = jax.vmap(lambda k: uniforms(fold(k, step, _ACTION))[0])(keys)
        action = jnp.minimum(pick(uniform, chances), chances.shape[0] - 1)
        return x, action, jnp.log(element(chances, action))

    def move(step: Int[Array, ""], going: _Going):
        def one(k: Key, episode: Episode, action: Int[Array, ""]):
            reset = fold(k, step, _RESET)  # An episode that begins anew in an ended lane is never looked at.
            return advance(tasks, tasks.env.noise(fold(k, step, _NOISE)), reset, reset, episode, action)

        return jax.vmap(one, in_axes=(0, -1, -1), out_axes=-1)(keys, going.episodes, going.action)

    def body(going: _Going) -> _Going:
        episodes, outcome = move(going.step + 1, going)
        ends = (outcome.terminated | outcome.truncated) & going.playing
        so_far = going.played
        played = LoggedEpisodes(
            observation=so_far.observation.at[:, going.step].set(going.observation),
            action=so_far.action.at[going.step].set(going.action),
            reward=so_far.reward.at[going.step].set(outcome.reward),
            log_prob=so_far.log_prob.at[going.step].set(going.log_prob),
            lengths=jnp.where(ends, outcome.elapsed, so_far.lengths),
            terminated=jnp.where(ends, outcome.terminated, so_far.terminated),
            success=jnp.where(ends, outcome.success, so_far.success),
            final_observation=jnp.where(ends, outcome.next_observation, so_far.final_observation),
        )
        x, action, log_prob = choose(going.step + 1, episodes)
        return _Going(episodes, action, log_prob, x, played, going.playing & ~ends, going.step + 1)

    episodes = jax.vmap(lambda k: begin(tasks, fold(k, 0, _RESET), fold(k, 0, _RESET)), out_axes=-1)(keys)
    x, action, log_prob = choose(jnp.int32(0), episodes)
    none, zeros = jnp.zeros(count, bool), jnp.zeros((horizon, count))
    nothing = LoggedEpisodes(
        jnp.zeros((size, horizon, count)),
        zeros.astype(jnp.int32),
        zeros,
        zeros,
        jnp.zeros(count, jnp.int32),
        none,
        none,
        x,
    )
    going = _Going(episodes, action, log_prob, x, nothing, ~none, jnp.int32(0))
    return jax.lax.while_loop(lambda g: g.playing.any(), body, going).played


def discounted_returns(played: LoggedEpisodes, discount: float) -> Float[np.ndarray, "L"]:
    steps = np.arange(played.reward.shape[0])[:, None]
    return (np.where(steps < played.lengths, played.reward, 0.0) * discount**steps).sum(0)
