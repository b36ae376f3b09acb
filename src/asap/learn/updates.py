"""The update rules. All take the same batch and weights and differ in how they turn scores into a step."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key, fold
from asap.base.types import Transition
from asap.config.schema import LearnConfig
from asap.experience.protocol import Batch, ScoredEpisodes
from asap.learn.passes import Part, deal, part_of
from asap.learn.regularize import Regularity, regularity_gradient
from asap.policy.policy import ASAPPolicy
from asap.policy.score import (
    MARGINAL,
    Parameters,
    Score,
    filtered_scores,
    has_closed_form,
    is_filtered,
    parameters_of,
    score,
    score_in_order,
    weighted_filtered_score,
    weighted_score,
    weighted_score_by_autodiff,
    with_parameters,
    without_kept,
)

MAX_DIVERGENCE = 0.5  # Of a natural step of size 1, in nats.
OF_THE_PLANES = ("beta", "psi")
LAST_SCALE = 0.1  # Of a linear schedule.
UNKNOWN = np.float32(np.nan)


class Inputs(NamedTuple):
    """Of an update rule."""

    config: LearnConfig
    policy: ASAPPolicy
    batch: Batch
    weights: Float[Array, "N"] | None  # None: the scores are summed already.
    optimizer: optax.OptState
    iteration: Int[Array, ""]
    done: Float[Array, ""] | float = 0.0  # Share of the budget.
    key: Key = Key(np.uint32(0), np.uint32(0))  # Of the orders in which steps are taken.
    tied: Bool[Array, ""] | None = None  # Whether all skills are one.


class Diagnostics(NamedTuple):
    """What an update tells about itself."""

    gradient: Parameters  # The last one, before the optimizer.
    kl: Float[Array, ""]  # From the policy that played to the one that came out.
    clipped: Float[Array, ""]
    regularity: Regularity


class Step(NamedTuple):
    policy: ASAPPolicy
    optimizer: optax.OptState
    diagnostics: Diagnostics


def optimizer_of(config: LearnConfig) -> optax.GradientTransformation:
    return optax.scale_by_adam() if config.optimizer == "adam" else optax.identity()


def step_scale(
    config: LearnConfig, iteration: Int[Array, ""], done: Float[Array, ""] | float = 0.0
) -> Float[Array, ""]:
    """Robbins-Monro: sum eta = infinity and sum eta^2 < infinity for powers in (1/2, 1] (errata E19). Linear: from 1
    before the first step of the budget to a tenth at its end."""
    if config.schedule == "constant":
        return jnp.float32(1)
    if config.schedule == "linear":
        return jnp.float32(1 - (1 - LAST_SCALE) * done)
    return (1 + iteration / config.schedule_scale) ** -config.schedule_power


def ascend(
    config: LearnConfig,
    policy: ASAPPolicy,
    gradient: Parameters,
    optimizer: optax.OptState,
    iteration: Int[Array, ""],
    done: Float[Array, ""] | float = 0.0,
    tied: Bool[Array, ""] | None = None,
) -> tuple[ASAPPolicy, optax.OptState]:
    """One step uphill, with a step size for the skills and one for the hyperplanes; what is kept stays."""
    gradient = without_kept(policy, gradient)
    if tied is not None:
        gradient = jax.tree.map(functools.partial(jnp.where, tied), as_one_skill(gradient), gradient)
    if config.deviations == "fixed" and gradient.log_std is not None:
        gradient = gradient._replace(log_std=jnp.zeros_like(gradient.log_std))
    direction, optimizer = optimizer_of(config).update(gradient, optimizer)
    scale, stepped = step_scale(config, iteration, done), {}
    for name, part, slopes in zip(Parameters._fields, parameters_of(policy), direction):
        size = config.step_size_beta if name in OF_THE_PLANES else config.step_size_theta
        stepped[name] = jax.tree.map(lambda value, slope: value + scale * size * slope, part, slopes)
    return with_parameters(policy, Parameters(**stepped)), optimizer


def as_one_skill(gradient: Parameters) -> Parameters:
    """Of a policy whose skills are all the same and move together; its planes change nothing."""

    def shared(slopes: Float[Array, "S ..."]) -> Float[Array, "S ..."]:
        return jnp.broadcast_to(slopes.sum(0, keepdims=True), slopes.shape)

    zeros = jax.tree.map(jnp.zeros_like, gradient)
    log_std = None if gradient.log_std is None else shared(gradient.log_std)
    return gradient._replace(theta=shared(gradient.theta), log_std=log_std, beta=zeros.beta, psi=zeros.psi)


def actor_critic(given: Inputs) -> Step:
    """AC-PG, what the paper ran: one step along the mean of weight times score."""
    before = score_in_order(given.policy, given.batch.steps, given.config.gradient)
    gradient, regularity = _gradient(given, before)
    return _climb(given, gradient, regularity, before)


def natural(given: Inputs) -> Step:
    """As actor_critic, with the gradient multiplied by the inverse of the Fisher matrix: it is small."""
    config, policy, steps = given.config, given.policy, given.batch.steps
    before = score_in_order(policy, steps, config.gradient)
    gradient, regularity = _gradient(given, before)
    flat, unflatten = jax.flatten_util.ravel_pytree(gradient)
    by_theorem = has_closed_form(policy) and not is_filtered(policy, config.gradient)
    matrix = fisher(config, policy, steps.flat()) if by_theorem else fisher_of_samples(config, policy, steps)
    matrix = matrix + config.damping * jnp.eye(flat.shape[0])
    direction = jnp.linalg.solve(matrix, flat)
    # A gradient step in a flat direction of the policy can be huge in parameters: bound the predicted divergence.
    divergence = 0.5 * direction @ matrix @ direction
    direction = direction * jnp.minimum(1.0, jnp.sqrt(MAX_DIVERGENCE / (divergence + 1e-12)))
    return _climb(given, gradient, regularity, before, unflatten(direction))


def reinforce(given: Inputs) -> Step:
    """One step after complete episodes. Algorithm 1 is whole return times whole score, with nothing added."""
    config, policy, batch = given.config, given.policy, given.batch
    if batch.sums is None:
        scores = score_in_order(policy, batch.steps, config.gradient)
        if config.baseline == "running":
            return _climb(given, *_gradient(given, scores))
        gradient = _mean_score(given, scores)
    else:
        gradient = _mean_over_episodes(config, batch.sums, batch.totals.episodes.sum().astype(jnp.float32))
    return _climb(given, gradient, Regularity(UNKNOWN, jnp.full(policy.num_skills, jnp.nan)))


def _mean_over_episodes(config: LearnConfig, sums: ScoredEpisodes, count: Float[Array, ""]) -> Parameters:
    gradient = jax.tree.map(lambda leaf: leaf / count, sums.weighted)
    if config.baseline == "none":
        return gradient
    # The mean return of the other episodes, so that the estimate stays unbiased: a factor n / (n - 1).
    mean = sums.returns / count
    return jax.tree.map(
        lambda weighted, plain: (weighted - mean * plain / count) * count / (count - 1), gradient, sums.plain
    )


def from_data(given: Inputs) -> Step:
    """One step uphill on the weighted likelihood of logged actions. None of our policies played them."""
    return _climb(given, *_gradient(given, score_in_order(given.policy, given.batch.steps, MARGINAL)))


class Passing(NamedTuple):
    """Where the passes of ppo have come to."""

    policy: ASAPPolicy
    optimizer: optax.OptState
    is_over: Bool[Array, ""] | None = None  # Too far from the policy that played to go on; None: never.


class Diagnosed(NamedTuple):
    """Of one step of the optimizer, as in Diagnostics."""

    gradient: Parameters
    clipped: Float[Array, ""]
    regularity: Regularity


def ppo(given: Inputs) -> Step:
    """Several passes over one batch; samples whose probability ratio has moved beyond the clip get no gradient."""
    config, steps = given.config, given.batch.steps
    before = score_in_order(given.policy, steps, config.gradient)
    whole = Part(steps, given.weights, before.log_prob)
    # The scores of a policy that commits need its steps in their order.
    in_parts = config.minibatch is not None and not is_filtered(given.policy, config.gradient)

    def epoch(at: Passing, number: Int[Array, ""] | None) -> tuple[Passing, Diagnosed]:
        return _pass(given, whole, at, number) if in_parts else _clipped_step(given, whole, at)

    start = Passing(given.policy, given.optimizer, None if config.kl_stop is None else jnp.bool_(False))
    at, history = jax.lax.scan(epoch, start, jnp.arange(config.epochs) if in_parts else None, length=config.epochs)
    told = jax.tree.map(lambda leaf: leaf[0 if in_parts else -1], history)  # Later passes may be left out.
    kl = _divergence(given, before, at.policy)
    return Step(at.policy, at.optimizer, Diagnostics(told.gradient, kl, told.clipped, told.regularity))


def _pass(given: Inputs, whole: Part, at: Passing, epoch: Int[Array, ""]) -> tuple[Passing, Diagnosed]:
    """Minibatch by minibatch, in an order of its own; tells of the first."""
    flat = whole._replace(steps=whole.steps.flat())
    dealt = deal(fold(given.key, epoch), flat.steps.counts, flat.weights.shape[0], given.config.minibatch)

    def step(at: Passing, number: Int[Array, ""]) -> tuple[Passing, Diagnosed]:
        def taken(at: Passing) -> tuple[Passing, Diagnosed]:
            return _clipped_step(given, part_of(flat, dealt, number), at)

        def left(at: Passing) -> tuple[Passing, Diagnosed]:
            return at, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(taken, at)[1])

        is_taken = number < dealt.parts
        return jax.lax.cond(is_taken if at.is_over is None else is_taken & ~at.is_over, taken, left, at)

    at, history = jax.lax.scan(step, at, jnp.arange(dealt.most))
    return at, jax.tree.map(lambda leaf: leaf[0], history)


def _clipped_step(given: Inputs, part: Part, at: Passing) -> tuple[Passing, Diagnosed]:
    """One step of the optimizer, unless the policy is too far from the one that played."""
    config, advantages, counts = given.config, part.weights, part.steps.flat().counts
    scores = score_in_order(at.policy, part.steps, config.gradient)
    change = scores.log_prob - part.log_prob
    # Beyond e^20 the ratio is clipped anyway; unbounded, it overflows and spoils the mean with inf * 0.
    ratio = jnp.exp(jnp.clip(change, -20.0, 20.0))
    outside = jnp.where(advantages > 0, ratio > 1 + config.clip, ratio < 1 - config.clip)
    weights = jnp.where(outside, 0.0, ratio * advantages)
    own = given._replace(policy=at.policy, batch=given.batch._replace(steps=part.steps), weights=weights)
    gradient, regularity = _gradient(own, scores)
    after = Passing(
        *ascend(config, at.policy, gradient, at.optimizer, given.iteration, given.done, given.tied), at.is_over
    )
    told = Diagnosed(gradient, outside.mean(where=counts), regularity)
    if at.is_over is None:
        return after, told
    limit = config.kl_stop * (step_scale(config, given.iteration, given.done) if config.schedule == "linear" else 1.0)
    is_over = at.is_over | ((jnp.expm1(change) - change).mean(where=counts) > limit)
    after = after._replace(is_over=is_over)
    return jax.tree.map(lambda old, new: jnp.where(is_over, old, new), at._replace(is_over=is_over), after), told


def _climb(
    given: Inputs, gradient: Parameters, regularity: Regularity, before: Score | None = None, direction=None
) -> Step:
    """One step along the gradient, or in a direction of its own; `before` are the scores of the policy that played."""
    direction = gradient if direction is None else direction
    after, optimizer = ascend(
        given.config, given.policy, direction, given.optimizer, given.iteration, given.done, given.tied
    )
    kl = UNKNOWN if before is None else _divergence(given, before, after)
    return Step(after, optimizer, Diagnostics(gradient, kl, jnp.float32(0), regularity))


def _gradient(given: Inputs, scores: Score) -> tuple[Parameters, Regularity]:
    """Mean of weight times score over the steps that count, plus the gradient of the regularity."""
    gradient = _mean_score(given, scores)
    extra, regularity = regularity_gradient(given.config, given.policy, given.batch.steps.flat(), given.done)
    return jax.tree.map(jnp.add, gradient, extra), regularity


def _mean_score(given: Inputs, scores: Score) -> Parameters:
    policy, steps, gradient = given.policy, given.batch.steps, given.config.gradient
    weights = given.weights / steps.num_counted
    if is_filtered(policy, gradient):
        return weighted_filtered_score(policy, steps, weights)
    if has_closed_form(policy):
        return weighted_score(policy, steps.flat(), scores, weights)
    return weighted_score_by_autodiff(policy, steps.flat(), gradient, weights)


def _divergence(given: Inputs, before: Score, after: ASAPPolicy) -> Float[Array, ""]:
    steps = given.batch.steps
    change = score_in_order(after, steps, given.config.gradient).log_prob - before.log_prob
    return (jnp.expm1(change) - change).mean(where=steps.flat().counts)


def fisher(config: LearnConfig, policy: ASAPPolicy, steps: Transition) -> Float[Array, "P P"]:
    """Mean over states of the covariance of the score, summed exactly over actions (and skills, when sampled)."""
    num_actions = policy.skills.theta.shape[1]
    num_skills = 1 if config.gradient == MARGINAL else policy.num_skills

    def vector(step: Transition, one: Score) -> Float[Array, "P"]:
        gradient = weighted_score(policy, _as_batch(step), _as_batch(one), jnp.ones(1))
        return jax.flatten_util.ravel_pytree(gradient)[0]

    def add_outcome(matrix: Float[Array, "P P"], outcome: Int[Array, ""]) -> tuple[Float[Array, "P P"], None]:
        def constant(value: Int[Array, ""]) -> Int[Array, "N"]:
            return jnp.full(steps.action.shape[-1], value, jnp.int32)

        chosen = steps._replace(action=constant(outcome % num_actions), skill=constant(outcome // num_actions))
        scores = score(policy, chosen, config.gradient)
        vectors = jax.vmap(vector, in_axes=-1, out_axes=-1)(chosen, scores)
        chances = jnp.exp(scores.log_prob)
        chances = chances if steps.counts is None else jnp.where(steps.counts, chances, 0.0)
        return matrix + (vectors * chances) @ vectors.T / steps.num_counted, None

    size = policy.skills.theta.size + policy.partition.beta.size
    return jax.lax.scan(add_outcome, jnp.zeros((size, size)), jnp.arange(num_skills * num_actions))[0]


def fisher_of_samples(config: LearnConfig, policy: ASAPPolicy, steps: Transition) -> Float[Array, "P P"]:
    """The same from the actions that were drawn: where they can't be summed over, or later scores depend on them."""
    flat = steps.flat()

    def vector(step: Transition) -> Float[Array, "P"]:
        gradient = weighted_score_by_autodiff(policy, _as_batch(step), config.gradient, jnp.ones(1))
        return jax.flatten_util.ravel_pytree(gradient)[0]

    if is_filtered(policy, config.gradient):
        vectors = filtered_scores(policy, steps)
    else:
        vectors = jax.vmap(vector, in_axes=-1, out_axes=-1)(flat)
    kept = vectors if flat.counts is None else vectors * flat.counts
    return kept @ vectors.T / steps.num_counted


def _as_batch(sample):
    return jax.tree.map(lambda leaf: leaf[..., None], sample)


UPDATES: dict[str, Callable[[Inputs], Step]] = {
    "reinforce": reinforce,
    "actor-critic": actor_critic,
    "natural": natural,
    "ppo": ppo,
    "importance": from_data,
    "likelihood": from_data,
}
