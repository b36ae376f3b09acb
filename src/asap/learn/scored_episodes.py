"""Complete episodes for `reinforce`: scores are summed while playing, nothing is stored per step.

A lane that has finished begins the next episode at once while fewer than the wanted number have been started; every
episode that was started is played to its end and counted, so short ones are not over-represented.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key, fold
from asap.base.types import EpisodeTotals, Transition
from asap.envs.core import CompiledTasks, Outcome
from asap.learn.rollout import (
    Moment,
    add,
    count_ended,
    lane_keys,
    look,
    make_step,
    no_episodes,
    start_lanes,
    start_moment,
)
from asap.policy.policy import ASAPPolicy
from asap.policy.score import Parameters, score


class ScoredEpisodes(NamedTuple):
    """Over complete episodes g: sum of R(g) score(g), sum of score(g), sum of R(g), and what was played."""

    weighted: Parameters
    plain: Parameters
    returns: Float[Array, ""]  # Discounted: R of the gradient theorem.
    totals: EpisodeTotals


class Running(NamedTuple):
    """What each lane has gathered in its present episode; lanes are the last axis."""

    moment: Moment
    theta: Float[Array, "S A D L"]
    beta: Float[Array, "K F L"]
    discounted: Float[Array, "L"]
    weight: Float[Array, "L"]  # gamma^t
    finished: Bool[Array, "L"]  # The last step ended an episode that counts: its sums are ready.
    playing: Bool[Array, "L"]


class Progress(NamedTuple):
    running: Running
    episodes: ScoredEpisodes
    started: Int[Array, ""]
    step: Int[Array, ""]


def play_scored(
    policy: ASAPPolicy,
    tasks: CompiledTasks,
    key: Key,
    num_lanes: int,
    num_episodes: int,
    gradient: str,
    discount: float,
) -> ScoredEpisodes:
    """At least `num_episodes` complete episodes under one policy."""
    num_lanes = min(num_lanes, num_episodes)
    keys = lane_keys(fold(key, 0), num_lanes)
    lanes = start_lanes(tasks, fold(key, 1), num_lanes)
    moment = jax.vmap(lambda k, lane: start_moment(tasks, policy, k, lane), in_axes=-1, out_axes=-1)(keys, lanes)

    def body(progress: Progress) -> Progress:
        # Sums are closed one step late, from the loop's carry: closing them in the step that ends an episode would make
        # the compiler compute that step anew for each of their elements.
        episodes, running = collect_finished(progress.episodes, progress.running)
        running = add_score(policy, tasks, running, gradient)
        moment, outcome = jax.vmap(
            lambda k, at: make_step(tasks, policy, k, progress.step, at), in_axes=-1, out_axes=-1
        )(keys, running.moment)
        may_start = progress.started < num_episodes
        totals = add(episodes.totals, count_ended(outcome, tasks.size, running.playing))
        running = move_on(running, moment, outcome, may_start, discount)
        started = progress.started + jnp.where(may_start, running.finished.sum(), 0)
        return Progress(running, episodes._replace(totals=totals), started, progress.step + 1)

    zeros = Parameters(jnp.zeros_like(policy.skills.theta), jnp.zeros_like(policy.partition.beta))
    nothing = ScoredEpisodes(zeros, zeros, jnp.float32(0), no_episodes(tasks.size))
    flat, off = jnp.zeros(num_lanes), jnp.zeros(num_lanes, bool)
    lane_zeros = jax.tree.map(lambda leaf: jnp.zeros((*leaf.shape, num_lanes)), zeros)
    running = Running(moment, lane_zeros.theta, lane_zeros.beta, flat, flat + 1, off, ~off)
    progress = Progress(running, nothing, jnp.int32(num_lanes), jnp.int32(0))
    progress = jax.lax.while_loop(lambda p: p.running.playing.any(), body, progress)
    episodes, _ = collect_finished(progress.episodes, progress.running)
    return subtract_means(policy, episodes)


def collect_finished(episodes: ScoredEpisodes, running: Running) -> tuple[ScoredEpisodes, Running]:
    """Add the finished episodes' sums and clear them."""
    done = running.finished.astype(jnp.float32)
    returns = done * running.discounted

    def close(weighted: Array, plain: Array, sums: Array) -> tuple[Array, Array]:
        both = sums @ jnp.stack([returns, done], axis=-1)
        return weighted + both[..., 0], plain + both[..., 1]

    theta, theta_plain = close(episodes.weighted.theta, episodes.plain.theta, running.theta)
    beta, beta_plain = close(episodes.weighted.beta, episodes.plain.beta, running.beta)
    collected = episodes._replace(
        weighted=Parameters(theta, beta),
        plain=Parameters(theta_plain, beta_plain),
        returns=episodes.returns + returns.sum(),
    )
    keep = 1 - done
    return collected, running._replace(
        theta=running.theta * keep,
        beta=running.beta * keep,
        discounted=running.discounted * keep,
        weight=jnp.where(running.finished, 1.0, running.weight),
    )


def add_score(policy: ASAPPolicy, tasks: CompiledTasks, running: Running, gradient: str) -> Running:
    """Add the score of the step about to be made. Constant skills count visits; their mean is subtracted at the end."""
    moment = running.moment
    x, m = jax.vmap(lambda lane: look(tasks, lane.episode), in_axes=-1, out_axes=-1)(moment.lane)
    unused = jnp.zeros_like(running.discounted)
    step = Transition(x, m, moment.lane.previous_skill, moment.skill, moment.action, unused, unused > 0, unused > 0, x)
    scores = score(policy, step, gradient)
    skills = policy.skills.alpha_theta * scores.skills
    one_hot = (jnp.arange(policy.skills.theta.shape[1])[:, None] == moment.action).astype(jnp.float32)
    if policy.phi.constant:
        theta = skills[:, None, None] * one_hot[None, :, None]
    else:
        phi = policy.phi(x, m)
        sigma = jnp.exp(policy.skills.log_probs(phi))
        theta = (skills[:, None] * (one_hot - sigma))[:, :, None] * phi
    beta = scores.planes[:, None] * scores.psi
    return running._replace(theta=running.theta + theta, beta=running.beta + beta)


def subtract_means(policy: ASAPPolicy, episodes: ScoredEpisodes) -> ScoredEpisodes:
    """Turn visits of constant skills into scores: phi_a - sum_b sigma_i(b) phi_b, summed."""
    if not policy.phi.constant:
        return episodes
    sigma = jnp.exp(policy.skills.log_probs(jnp.ones(1)))[..., None]

    def centred(sums: Parameters) -> Parameters:
        return sums._replace(theta=sums.theta - sums.theta.sum(1, keepdims=True) * sigma)

    return episodes._replace(weighted=centred(episodes.weighted), plain=centred(episodes.plain))


def move_on(running: Running, moment: Moment, outcome: Outcome, may_start: Bool[Array, ""], discount: float) -> Running:
    ended = outcome.terminated | outcome.truncated
    return running._replace(
        moment=moment,
        discounted=running.discounted + running.weight * outcome.reward,
        weight=running.weight * discount,
        finished=ended & running.playing,
        playing=running.playing & (~ended | may_start),
    )
