"""What each step of a batch counts, and the critic that says so.

The critic is linear in random ramps of observation and task descriptor, fitted by least squares. A closed form has no
step size to tune, costs one pass over the batch where a network takes many, and keeps its memory of former batches in
two sums that decay. Truncation is bootstrapped, termination is not.

A critic that sees the time (`learn.critic_time`) knows what running out of it is worth: nothing comes after the limit.
So a truncation at the limit is not bootstrapped then. One that comes earlier is, and so is the end of a window.

Where the policy commits to its skill, what is to come depends on the skill in force, and the critic sees it: as far as
the gradient tells skills (`skills_in_force`), so that the critic stays a baseline without bias.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from asap.base.types import Transition
from asap.config.schema import Config, LearnConfig, OfflineConfig
from asap.experience.critic import Critic, discounted_sums, lambda_advantages
from asap.experience.logged import clipped_weights, effective_sample_size, log_ratios_so_far
from asap.experience.protocol import Batch
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import Moments, shift_and_scale
from asap.policy.score import MARGINAL, score, skills_in_force

MOST_SAMPLES = 16_384
RIDGE = 1e-3


def fit(
    critic: Critic,
    features: Float[Array, "G N"],
    targets: Float[Array, "N"],
    memory: float,
    ridge: float = RIDGE,
    counts: Bool[Array, "N"] | None = None,
) -> Critic:
    """Ridge regression of the targets on the features; former batches count with weight memory^age."""
    # A few weights need no more: on a large batch the fit would take as long as the update of the policy.
    stride = -(-targets.shape[0] // MOST_SAMPLES)
    features, targets, samples = features[:, ::stride], targets[::stride], -(-targets.shape[0] // stride)
    if counts is not None:
        counts = counts[::stride]
        features, targets, samples = features * counts, targets * counts, jnp.maximum(counts.sum(), 1)
    gram = memory * critic.gram + features @ features.T / samples
    moment = memory * critic.moment + features @ targets / samples
    weights = jnp.linalg.solve(gram + ridge * jnp.eye(gram.shape[0]), moment)
    return eqx.tree_at(lambda c: (c.weights, c.gram, c.moment), critic, (weights, gram, moment))


class Terms(NamedTuple):
    """What rewards are worth later, and how long there is."""

    discount: float
    horizon: int


class FromData(NamedTuple):
    """How learning from logged data goes."""

    ess: Float[Array, ""]  # Effective sample size, as a share of the steps.
    objective: Float[Array, ""]


class Judged(NamedTuple):
    """What each step counts in the mean over those that count; 0 for the others. None: the scores are summed
    already."""

    weights: Float[Array, "N"] | None
    critic: Critic
    explained_variance: Float[Array, ""]
    from_data: FromData | None = None


class Advantages(NamedTuple):
    """Of the steps of a batch, and the critic after it."""

    advantages: Float[Array, "T L"]
    critic: Critic
    explained_variance: Float[Array, ""]


def known_besides(
    learn: LearnConfig, policy: ASAPPolicy, steps: Transition, horizon: int
) -> tuple[Float[Array, "Y N"], Float[Array, "Y N"]]:
    """What the critic sees besides the observation, before each step and after it: the task, the time if it is asked for,
    and the skill in force where the policy commits to one."""
    flat = steps.flat()
    before, after = [flat.descriptor], [flat.descriptor]
    if learn.critic_time:
        for parts, elapsed in ((before, flat.elapsed), (after, flat.elapsed + 1)):
            parts.append((2 * elapsed / horizon - 1)[None])
    if policy.termination is not None:
        for parts, skills in zip((before, after), skills_in_force(policy, steps, learn.gradient)):
            parts.append(skills.reshape(skills.shape[0], -1))
    return tuple(parts[0] if len(parts) == 1 else jnp.concatenate(parts) for parts in (before, after))


def without_time_limit(steps: Transition, horizon: int) -> Transition:
    """Nothing comes after the time limit: an episode that reaches it terminates there."""
    return steps._replace(terminated=steps.terminated | (steps.truncated & (steps.elapsed + 1 >= horizon)))


def advantages_of(
    learn: LearnConfig,
    terms: Terms,
    policy: ASAPPolicy,
    critic: Critic,
    moments: Moments | None,
    steps: Transition,
) -> Advantages:
    """The critic sees observations as the policy does, scaled; it is fitted to what came out."""
    flat = steps.flat()
    known, next_known = known_besides(learn, policy, steps, terms.horizon)
    steps = without_time_limit(steps, terms.horizon) if learn.critic_time else steps

    def features(x: Float[Array, "O N"], known: Float[Array, "Y N"]) -> Float[Array, "G N"]:
        if moments is not None:
            shift, scale = shift_and_scale(moments)
            x = (x - shift[:, None]) * scale[:, None]
        return critic.features(x, known)

    seen, next_seen = features(flat.observation, known), features(flat.next_observation, next_known)
    values, next_values = ((critic.weights @ part).reshape(steps.reward.shape) for part in (seen, next_seen))
    advantages = lambda_advantages(steps, values, next_values, terms.discount, learn.trace)
    targets = (advantages + values).ravel()
    spread = [jnp.var(part, where=flat.counts) for part in (advantages.ravel(), targets)]
    fitted = fit(critic, seen, targets, learn.critic_memory, counts=flat.counts)
    return Advantages(advantages, fitted, 1 - spread[0] / (spread[1] + 1e-8))


def weights_of(
    learn: LearnConfig,
    advantages: Float[Array, "N"],
    counts: Bool[Array, "N"] | None = None,
    decides: Bool[Array, "N"] | None = None,
) -> Float[Array, "N"]:
    """What each step counts in the mean over those that count; 0 where all actions are the same."""
    masks, scale = [mask for mask in (counts, decides) if mask is not None], learn.advantage_scale
    chosen = functools.reduce(jnp.logical_and, masks) if masks else None
    weights = standardize(advantages, chosen) if scale is None else scale * advantages
    weights = weights if chosen is None else jnp.where(chosen, weights, 0.0)
    if decides is None:
        return weights
    # The advantage of one of several equal actions is 0, and its estimate nothing but noise. Only the policy leaves
    # such steps out: a critic that did not see them would be wrong where windows end, which is mostly there.
    return weights / jnp.maximum(decides.mean(where=counts), 1e-6)


def standardize(advantages: Float[Array, "*N"], counted: Bool[Array, "*N"] | None) -> Float[Array, "*N"]:
    """Mean 0, deviation 1 over what counts; all equal (no signal) gives zeros."""
    return (advantages - advantages.mean(where=counted)) / (advantages.std(where=counted) + 1e-6)


def by_returns(learn: LearnConfig, discount: float, steps: Transition) -> Float[Array, "N"]:
    """`reinforce`: a step counts its reward to go beyond that of the other episodes. As in Algorithm 1, every step of an
    episode counts its whole return, or that minus the mean of the others'."""
    if learn.baseline == "running":
        flat = steps.flat()
        return weights_of(learn, beyond_others(steps, discount).ravel(), flat.counts, flat.decides)
    counts = jnp.ones(steps.reward.shape, bool) if steps.counts is None else steps.counts
    returns = episode_returns(steps, discount)
    count = (steps.ended & counts).sum().astype(jnp.float32)
    if learn.baseline == "mean":
        others = jnp.where(steps.ended & counts, returns, 0.0).sum() - returns
        returns = returns - others / jnp.maximum(count - 1, 1)
    # A mean over episodes, where updates take the mean over steps.
    return (jnp.where(counts, returns, 0.0) * counts.sum() / jnp.maximum(count, 1)).ravel()


def beyond_others(steps: Transition, discount: float) -> Float[Array, "T L"]:
    """G_t minus the mean G_t of the other episodes that still run at their step t; 0 where no other does.

    An episode's own actions up to t have no part in what is subtracted, so it does not bias the gradient. Where nobody
    is left to compare with, nothing is learned: the rewards to go alone say nothing about the action.

    There is an episode in each lane from its first step, or all episodes stand in one lane.
    """
    counts = jnp.ones(steps.reward.shape, bool) if steps.counts is None else steps.counts
    to_go = discounted_sums(steps.reward, steps.ended, discount)
    most, total = _over_episodes(steps)
    count = total(counts.astype(to_go.dtype))
    # From the highest, so that equal ones, and one alone, are at exactly 0: a rounding error would be scaled to noise.
    above = jnp.where(counts, to_go - most(jnp.where(counts, to_go, -jnp.inf)), 0.0)
    others = (total(above) - above) / jnp.maximum(count - 1, 1)
    return jnp.where(counts, above - others, 0.0)


def _over_episodes(steps: Transition) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
    """The maximum and the sum over all episodes at the same step t, for each of their steps."""
    length, lanes = steps.reward.shape
    if lanes > 1:
        return (lambda values: values.max(-1, keepdims=True)), (lambda values: values.sum(-1, keepdims=True))
    index = jnp.arange(length)
    is_first = jnp.concatenate([jnp.ones(1, bool), steps.ended[:-1, 0]])
    age = index - jax.lax.cummax(jnp.where(is_first, index, 0))

    def by_age(over: Callable[..., Array]) -> Callable[[Array], Array]:
        return lambda values: over(values[:, 0], age, num_segments=length)[age][:, None]

    return by_age(jax.ops.segment_max), by_age(jax.ops.segment_sum)


def episode_returns(steps: Transition, discount: float) -> Float[Array, "T L"]:
    """The discounted return of the whole episode, at each of its steps; lanes hold whole episodes."""

    def forward(carry: tuple[Float[Array, "L"], Bool[Array, "L"]], step: tuple[Array, Array]):
        whole = jnp.where(carry[1], step[0], carry[0])
        return (whole, step[1]), whole

    zero, to_go = jnp.zeros(steps.reward.shape[-1]), discounted_sums(steps.reward, steps.ended, discount)
    return jax.lax.scan(forward, (zero, zero == 0), (to_go, steps.ended))[1]


def by_importance(
    config: OfflineConfig, policy: ASAPPolicy, advantages: Float[Array, "T L"], batch: Batch
) -> tuple[Float[Array, "N"], FromData]:
    """Logged steps: min(rho_{0:t}, cap) A_t + anchor, with rho_{0:t} = prod_{s <= t} pi(a_s | x_s) / b(a_s | x_s).

    The policy gradient with per-decision importance weights (errata E22). It is divided by the number of steps, not by
    the sum of the weights: where the policy is so far from the behaviour that all weights vanish, so does this
    gradient, and the anchor, the gradient of -KL(b || pi), leads the policy back to where the data can tell something.
    """
    steps, counts = batch.steps, batch.steps.counts
    log_probs = score(policy, steps.flat(), MARGINAL).log_prob.reshape(counts.shape)
    log_ratio = jnp.where(counts, log_probs - batch.behaviour.log_prob, 0.0)
    rho = clipped_weights(log_ratios_so_far(log_ratio, steps.ended), config.cap) * counts
    ess = effective_sample_size(rho.ravel()) / counts.sum()
    gained = jnp.sum(rho * advantages) / jnp.maximum(rho.sum(), 1e-30)
    weights = rho * standardize(advantages, counts) + config.anchor * counts
    return weights.ravel(), FromData(ess, gained)


def by_likelihood(policy: ASAPPolicy, batch: Batch) -> tuple[Float[Array, "N"], FromData]:
    """Logged steps count the merit of their episode, which grows with its return: no probabilities are needed."""
    counts = batch.steps.counts
    weights = (batch.behaviour.merit * counts).ravel()
    log_probs = score(policy, batch.steps.flat(), MARGINAL).log_prob
    objective = jnp.sum(weights * log_probs) / counts.sum()
    return weights, FromData(effective_sample_size(weights) / counts.sum(), objective)


def judge(
    config: Config, terms: Terms, policy: ASAPPolicy, critic: Critic, moments: Moments | None, batch: Batch
) -> Judged:
    """What each step counts, and the critic's fit where it has a part in that."""
    learn, steps, unknown = config.learn, batch.steps, jnp.float32(jnp.nan)
    if learn.learner == "reinforce":
        return Judged(None if steps is None else by_returns(learn, terms.discount, steps), critic, unknown)
    if learn.learner == "likelihood":
        weights, from_data = by_likelihood(policy, batch)
        return Judged(weights, critic, unknown, from_data)
    found = advantages_of(learn, terms, policy, critic, moments, steps)
    if learn.learner == "importance":
        weights, from_data = by_importance(config.offline, policy, found.advantages, batch)
        return Judged(weights, found.critic, found.explained_variance, from_data)
    flat = steps.flat()
    weights = weights_of(learn, found.advantages.ravel(), flat.counts, flat.decides)
    return Judged(weights, found.critic, found.explained_variance)
