"""Complete episodes for `reinforce`: scores are summed while playing, nothing is stored per step.

A lane that has finished begins the next episode at once while fewer than the wanted number have been started; every
episode that was started is played to its end and counted, so short ones are not over-represented.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key
from asap.base.types import EpisodeTotals, Transition
from asap.envs.core import CompiledTasks, Outcome
from asap.experience.protocol import ScoredEpisodes
from asap.experience.rollout import Moment, add, count_ended, fresh_episodes, look_lanes, no_episodes, play
from asap.policy.policy import ASAPPolicy
from asap.policy.score import Parameters, score


class RunningScores(NamedTuple):
    """What each lane has gathered in its present episode; lanes are the last axis."""

    theta: Float[Array, "S A D L"]
    beta: Float[Array, "K F L"]
    discounted: Float[Array, "L"]
    weight: Float[Array, "L"]  # gamma^t
    finished: Bool[Array, "L"]  # The last step ended an episode that counts: its sums are ready.
    playing: Bool[Array, "L"]


class GatheredScores(NamedTuple):
    running: RunningScores
    sums: ScoredEpisodes
    totals: EpisodeTotals
    started: Int[Array, ""]


class Scores(NamedTuple):
    """Sums the scores of at least `num_episodes` complete episodes."""

    policy: ASAPPolicy
    tasks: CompiledTasks
    num_episodes: int
    gradient: str
    discount: float

    def start(self, moment: Moment) -> GatheredScores:
        num_lanes = moment.skill.shape[-1]
        zeros = Parameters(jnp.zeros_like(self.policy.skills.theta), jnp.zeros_like(self.policy.partition.beta))
        flat, off = jnp.zeros(num_lanes), jnp.zeros(num_lanes, bool)
        lane_zeros = jax.tree.map(lambda leaf: jnp.zeros((*leaf.shape, num_lanes)), zeros)
        running = RunningScores(lane_zeros.theta, lane_zeros.beta, flat, flat + 1, off, ~off)
        sums = ScoredEpisodes(zeros, zeros, jnp.float32(0))
        return GatheredScores(running, sums, no_episodes(self.tasks.size), jnp.int32(num_lanes))

    def add(
        self, gathered: GatheredScores, before: Moment, outcome: Outcome, step: Int[Array, ""]
    ) -> tuple[GatheredScores, None]:
        # Sums are closed one step late, from the loop's carry: closing them in the step that ends an episode would make
        # the compiler compute that step anew for each of their elements.
        sums, running = collect_finished(gathered.sums, gathered.running)
        running = add_score(self.policy, self.tasks, before, running, self.gradient)
        may_start = gathered.started < self.num_episodes
        totals = add(gathered.totals, count_ended(outcome, self.tasks.size, running.playing))
        running = move_on(running, outcome, may_start, self.discount)
        started = gathered.started + jnp.where(may_start, running.finished.sum(), 0)
        return GatheredScores(running, sums, totals, started), None

    def goes_on(self, gathered: GatheredScores) -> Bool[Array, "L"]:
        return gathered.running.playing


def play_scored(
    policy: ASAPPolicy,
    tasks: CompiledTasks,
    key: Key,
    num_lanes: int,
    num_episodes: int,
    gradient: str,
    discount: float,
) -> tuple[ScoredEpisodes, EpisodeTotals]:
    """At least `num_episodes` complete episodes under one policy."""
    keys, moment = fresh_episodes(tasks, policy, key, jnp.arange(min(num_lanes, num_episodes)))
    scores = Scores(policy, tasks, num_episodes, gradient, discount)
    _, gathered, _ = play(tasks, policy, keys, moment, scores)
    sums, _ = collect_finished(gathered.sums, gathered.running)
    return subtract_means(policy, sums), gathered.totals


def collect_finished(episodes: ScoredEpisodes, running: RunningScores) -> tuple[ScoredEpisodes, RunningScores]:
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


def add_score(
    policy: ASAPPolicy, tasks: CompiledTasks, moment: Moment, running: RunningScores, gradient: str
) -> RunningScores:
    """Add the score of the step about to be made. Constant skills count visits; their mean is subtracted at the end."""
    x, m = look_lanes(tasks, moment)
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


def move_on(running: RunningScores, outcome: Outcome, may_start: Bool[Array, ""], discount: float) -> RunningScores:
    ended = outcome.terminated | outcome.truncated
    return running._replace(
        discounted=running.discounted + running.weight * outcome.reward,
        weight=running.weight * discount,
        finished=ended & running.playing,
        playing=running.playing & (~ended | may_start),
    )
