"""The update rules. All take the same batch and weights and differ in how they turn scores into a step."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from asap.base.types import Transition
from asap.config.schema import LearnConfig
from asap.experience.protocol import Batch, ScoredEpisodes
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
UNKNOWN = np.float32(np.nan)


class Inputs(NamedTuple):
    """Of an update rule."""

    config: LearnConfig
    policy: ASAPPolicy
    batch: Batch
    weights: Float[Array, "N"] | None  # None: the scores are summed already.
    optimizer: optax.OptState
    iteration: Int[Array, ""]


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


def step_scale(config: LearnConfig, iteration: Int[Array, ""]) -> Float[Array, ""]:
    """Robbins-Monro: sum eta = infinity and sum eta^2 < infinity for powers in (1/2, 1] (errata E19)."""
    if config.schedule == "constant":
        return jnp.float32(1)
    return (1 + iteration / config.schedule_scale) ** -config.schedule_power


def ascend(
    config: LearnConfig, policy: ASAPPolicy, gradient: Parameters, optimizer: optax.OptState, iteration: Int[Array, ""]
) -> tuple[ASAPPolicy, optax.OptState]:
    """One step uphill, with a step size for the skills and one for the hyperplanes; what is kept stays."""
    direction, optimizer = optimizer_of(config).update(without_kept(policy, gradient), optimizer)
    scale, stepped = step_scale(config, iteration), {}
    for name, part, slopes in zip(Parameters._fields, parameters_of(policy), direction):
        size = config.step_size_beta if name in OF_THE_PLANES else config.step_size_theta
        stepped[name] = jax.tree.map(lambda value, slope: value + scale * size * slope, part, slopes)
    return with_parameters(policy, Parameters(**stepped)), optimizer


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


def ppo(given: Inputs) -> Step:
    """Several steps on one batch; samples whose probability ratio has moved beyond the clip get no gradient."""
    config, steps, advantages = given.config, given.batch.steps, given.weights
    before, counts = score_in_order(given.policy, steps, config.gradient), steps.flat().counts

    def epoch(carry: tuple[ASAPPolicy, optax.OptState], _: None):
        policy, optimizer = carry
        scores = score_in_order(policy, steps, config.gradient)
        # Beyond e^20 the ratio is clipped anyway; unbounded, it overflows and spoils the mean with inf * 0.
        ratio = jnp.exp(jnp.clip(scores.log_prob - before.log_prob, -20.0, 20.0))
        outside = jnp.where(advantages > 0, ratio > 1 + config.clip, ratio < 1 - config.clip)
        weights = jnp.where(outside, 0.0, ratio * advantages)
        gradient, regularity = _gradient(given._replace(policy=policy, weights=weights), scores)
        after, optimizer = ascend(config, policy, gradient, optimizer, given.iteration)
        return (after, optimizer), (gradient, outside.mean(where=counts), regularity)

    (after, optimizer), history = jax.lax.scan(epoch, (given.policy, given.optimizer), None, length=config.epochs)
    gradient, clipped, regularity = jax.tree.map(lambda leaf: leaf[-1], history)
    return Step(after, optimizer, Diagnostics(gradient, _divergence(given, before, after), clipped, regularity))


def _climb(
    given: Inputs, gradient: Parameters, regularity: Regularity, before: Score | None = None, direction=None
) -> Step:
    """One step along the gradient, or in a direction of its own; `before` are the scores of the policy that played."""
    direction = gradient if direction is None else direction
    after, optimizer = ascend(given.config, given.policy, direction, given.optimizer, given.iteration)
    kl = UNKNOWN if before is None else _divergence(given, before, after)
    return Step(after, optimizer, Diagnostics(gradient, kl, jnp.float32(0), regularity))


def _gradient(given: Inputs, scores: Score) -> tuple[Parameters, Regularity]:
    """Mean of weight times score over the steps that count, plus the gradient of the regularity."""
    gradient = _mean_score(given, scores)
    extra, regularity = regularity_gradient(given.config, given.policy, given.batch.steps.flat())
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
