"""Complete episodes for Algorithm 1 as printed: scores are summed while playing, nothing is stored per step.

A lane that has finished begins the next episode at once while fewer than the wanted number have been started; every
episode that was started is played to its end and counted, so short ones are not over-represented.

The marginal score of a policy that commits depends on all steps so far, which are not stored. By Fisher's identity it
is the mean of the sampled score over the skills, given the actions. A lane carries that mean in parts, one for each
skill that may be in force now: S times the numbers of the score, where the derivative of the filter by automatic
differentiation would repeat the step for each parameter.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import log_total
from asap.base.keys import Key
from asap.base.types import EpisodeTotals, Transition
from asap.envs.core import CompiledTasks, Outcome
from asap.experience.protocol import ScoredEpisodes
from asap.experience.rollout import Moment, add, count_ended, fresh_episodes, look_lanes, no_episodes, play
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.score import Parameters, filter_step, is_filtered, score


class RunningScores(NamedTuple):
    """What each lane has gathered in its present episode; lanes are the last axis.

    Filtered scores have a first axis over the skills in force: the sum over it is the score.
    """

    sums: Parameters  # Each leaf with axes (*I, ..., L).
    discounted: Float[Array, "L"]
    weight: Float[Array, "L"]  # gamma^t
    finished: Bool[Array, "L"]  # The last step ended an episode that counts: its sums are ready.
    playing: Bool[Array, "L"]
    belief: Float[Array, "I L"] | None = None  # The probability of each skill in force, where scores are filtered.


class GatheredScores(NamedTuple):
    running: RunningScores
    sums: ScoredEpisodes
    totals: EpisodeTotals
    started: Int[Array, ""]


class EpisodeScores(NamedTuple):
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
        parts = (self.policy.num_skills,) if is_filtered(self.policy, self.gradient) else ()
        lane_zeros = jax.tree.map(lambda leaf: jnp.zeros((*parts, *leaf.shape, num_lanes)), zeros)
        belief = jnp.zeros((*parts, num_lanes)) if parts else None
        running = RunningScores(lane_zeros, flat, flat + 1, off, ~off, belief)
        sums = ScoredEpisodes(zeros, zeros, jnp.float32(0))
        return GatheredScores(running, sums, no_episodes(self.tasks.size), jnp.int32(num_lanes))

    def add(
        self, gathered: GatheredScores, before: Moment, outcome: Outcome, step: Int[Array, ""]
    ) -> tuple[GatheredScores, None]:
        # Sums are closed one step late, from the loop's carry: closing them in the step that ends an episode would make
        # the compiler compute that step anew for each of their elements.
        sums, running = collect_finished(gathered.sums, gathered.running)
        if is_filtered(self.policy, self.gradient):
            running = add_filtered_score(self.policy, self.tasks, before, running)
        else:
            running = add_score(self.policy, self.tasks, before, running, self.gradient)
        may_start = gathered.started < self.num_episodes
        totals = add(gathered.totals, count_ended(outcome, self.tasks.size, running.playing))
        ended = outcome.terminated | outcome.truncated
        running = running._replace(
            discounted=running.discounted + running.weight * outcome.reward,
            weight=running.weight * self.discount,
            finished=ended & running.playing,
            playing=running.playing & (~ended | may_start),
        )
        started = gathered.started + jnp.where(may_start, running.finished.sum(), 0)
        return GatheredScores(running, sums, totals, started), None

    def goes_on(self, gathered: GatheredScores) -> Bool[Array, "L"]:
        return gathered.running.playing


def play_scored(scores: EpisodeScores, key: Key, num_lanes: int) -> tuple[ScoredEpisodes, EpisodeTotals]:
    """At least so many complete episodes as are asked for, under one policy."""
    policy, tasks = scores.policy, scores.tasks
    keys, moment = fresh_episodes(tasks, policy, key, jnp.arange(min(num_lanes, scores.num_episodes)))
    _, gathered, _ = play(tasks, policy, keys, moment, scores)
    sums, _ = collect_finished(gathered.sums, gathered.running)
    return subtract_means(policy, sums), gathered.totals


def collect_finished(episodes: ScoredEpisodes, running: RunningScores) -> tuple[ScoredEpisodes, RunningScores]:
    """Add the finished episodes' sums and clear them."""
    done = running.finished.astype(jnp.float32)
    returns = done * running.discounted

    def closed(sums: Array) -> Array:
        sums = sums if running.belief is None else sums.sum(0)
        return sums @ jnp.stack([returns, done], axis=-1)

    both = jax.tree.map(closed, running.sums)
    weighted = jax.tree.map(lambda before, now: before + now[..., 0], episodes.weighted, both)
    plain = jax.tree.map(lambda before, now: before + now[..., 1], episodes.plain, both)
    keep = 1 - done
    return ScoredEpisodes(weighted, plain, episodes.returns + returns.sum()), running._replace(
        sums=jax.tree.map(lambda leaf: leaf * keep, running.sums),
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
    theta = _score_of_skills(policy, moment.action, policy.phi(x, m), scores.skills)
    beta = scores.planes[:, None] * scores.psi
    return running._replace(sums=add(running.sums, Parameters(theta, beta)))


def _score_of_skills(
    policy: ASAPPolicy, action: Int[Array, "L"], phi: Float[Array, "D ..."], shares: Float[Array, "S L"]
) -> Float[Array, "S A D L"]:
    skills = policy.skills.alpha_theta * shares
    one_hot = (jnp.arange(policy.skills.theta.shape[1])[:, None] == action).astype(jnp.float32)
    if policy.phi.constant:
        return skills[:, None, None] * one_hot[None, :, None]
    sigma = jnp.exp(policy.skills.log_probs(phi))
    return (skills[:, None] * (one_hot - sigma))[:, :, None] * phi


def add_filtered_score(
    policy: ASAPPolicy, tasks: CompiledTasks, moment: Moment, running: RunningScores
) -> RunningScores:
    """The same with the skills of the whole episode summed out. With H_i the part of skill i, before(i) its probability,
    r_i = p_i sigma_i(a) / p(a) and k the chance to keep,

        H_i <- r_i (sum_j (1 - k p_j) H_j + k H_i) + after(i) d log (p_i sigma_i) - r_i k sum_j p_j before(j) d log p_j.
    """
    x, m = look_lanes(tasks, moment)
    psi, phi, keeping = policy.psi(x, m), policy.phi(x, m), policy.keeping
    log_p = policy.partition.log_probs(psi)
    p, is_first = jnp.exp(log_p), moment.lane.previous_skill == NO_SKILL
    _, share = log_total(log_p + policy.skills.log_probs_of_action(moment.action, phi))
    before = jnp.where(is_first, 0.0, running.belief)
    norm, after = filter_step(policy, p, share, before)
    share = share / norm

    def handed_on(parts: Float[Array, "I *own L"]) -> Float[Array, "I *own L"]:
        lifted = (share.shape[0], *(1,) * (parts.ndim - 2), share.shape[1])
        left = ((1 - keeping * p).reshape(lifted) * parts).sum(0)
        return jnp.where(is_first, 0.0, share).reshape(lifted) * (left + keeping * parts)

    own = jnp.eye(policy.num_skills)
    drawn = own[..., None] * after - share[:, None] * (keeping * p * before)
    planes = jax.vmap(lambda part: policy.partition.plane_weights(psi, part))(drawn)
    theta = own[:, :, None, None, None] * _score_of_skills(policy, moment.action, phi, after)
    beta = policy.partition.alpha_beta * planes[:, :, None] * psi
    sums = add(jax.tree.map(handed_on, running.sums), Parameters(theta, beta))
    return running._replace(sums=sums, belief=after)


def subtract_means(policy: ASAPPolicy, episodes: ScoredEpisodes) -> ScoredEpisodes:
    """Turn visits of constant skills into scores: phi_a - sum_b sigma_i(b) phi_b, summed."""
    if not policy.phi.constant:
        return episodes
    sigma = jnp.exp(policy.skills.log_probs(jnp.ones(1)))[..., None]

    def centred(sums: Parameters) -> Parameters:
        return sums._replace(theta=sums.theta - sums.theta.sum(1, keepdims=True) * sigma)

    return episodes._replace(weighted=centred(episodes.weighted), plain=centred(episodes.plain))
