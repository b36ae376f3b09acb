"""The update rules. All take the same batch and advantages and differ in how they turn scores into a step."""

from typing import NamedTuple

import jax
import jax.flatten_util
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int

from asap.base.types import Transition
from asap.config.schema import LearnConfig
from asap.learn.regularize import Regularity, regularity_gradient
from asap.policy.policy import ASAPPolicy
from asap.policy.score import (
    MARGINAL,
    Parameters,
    Score,
    has_closed_form,
    parameters_of,
    score,
    weighted_score,
    weighted_score_by_autodiff,
    with_parameters,
)


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


OF_THE_PLANES = ("beta", "psi")


def step_scale(config: LearnConfig, iteration: Int[Array, ""]) -> Float[Array, ""]:
    """Robbins-Monro: sum eta = infinity and sum eta^2 < infinity for powers in (1/2, 1] (errata E19)."""
    if config.schedule == "constant":
        return jnp.float32(1)
    return (1 + iteration / config.schedule_scale) ** -config.schedule_power


def ascend(
    config: LearnConfig, policy: ASAPPolicy, gradient: Parameters, optimizer: optax.OptState, iteration: Int[Array, ""]
) -> tuple[ASAPPolicy, optax.OptState]:
    """One step uphill, with a step size for the skills and one for the hyperplanes."""
    direction, optimizer = optimizer_of(config).update(gradient, optimizer)
    scale = step_scale(config, iteration)
    sizes = Parameters(
        *(config.step_size_beta if field in OF_THE_PLANES else config.step_size_theta for field in Parameters._fields)
    )
    stepped = [
        jax.tree.map(lambda value, slope: value + scale * size * slope, part, slopes)
        for part, slopes, size in zip(parameters_of(policy), direction, sizes)
    ]
    return with_parameters(policy, Parameters(*stepped)), optimizer


def actor_critic(
    config: LearnConfig,
    policy: ASAPPolicy,
    batch: Transition,
    advantages: Float[Array, "N"],
    optimizer: optax.OptState,
    iteration: Int[Array, ""],
) -> Step:
    """AC-PG, what the paper ran: one step along the mean of advantage times score."""
    before = score(policy, batch, config.gradient)
    gradient, regularity = _gradient(config, policy, batch, before, advantages)
    after, optimizer = ascend(config, policy, gradient, optimizer, iteration)
    return Step(after, optimizer, _diagnose(config, gradient, before, after, batch, jnp.float32(0), regularity))


def natural(
    config: LearnConfig,
    policy: ASAPPolicy,
    batch: Transition,
    advantages: Float[Array, "N"],
    optimizer: optax.OptState,
    iteration: Int[Array, ""],
) -> Step:
    """As actor_critic, with the gradient multiplied by the inverse of the exact Fisher matrix: it is small."""
    before = score(policy, batch, config.gradient)
    gradient, regularity = _gradient(config, policy, batch, before, advantages)
    flat, unflatten = jax.flatten_util.ravel_pytree(gradient)
    matrix = fisher(config, policy, batch) + config.damping * jnp.eye(flat.shape[0])
    direction = jnp.linalg.solve(matrix, flat)
    # A gradient step in a flat direction of the policy can be huge in parameters: bound the predicted divergence.
    divergence = 0.5 * direction @ matrix @ direction
    direction = direction * jnp.minimum(1.0, jnp.sqrt(MAX_DIVERGENCE / (divergence + 1e-12)))
    after, optimizer = ascend(config, policy, unflatten(direction), optimizer, iteration)
    return Step(after, optimizer, _diagnose(config, gradient, before, after, batch, jnp.float32(0), regularity))


MAX_DIVERGENCE = 0.5  # Of a natural step of size 1, in nats.


def fisher(config: LearnConfig, policy: ASAPPolicy, batch: Transition) -> Float[Array, "P P"]:
    """Mean over states of the covariance of the score, summed exactly over actions (and skills, when sampled)."""
    num_actions = policy.skills.theta.shape[1]
    num_skills = 1 if config.gradient == MARGINAL else policy.num_skills
    samples = batch.action.shape[-1]

    def add_outcome(matrix: Float[Array, "P P"], outcome: Int[Array, ""]) -> tuple[Float[Array, "P P"], None]:
        def constant(value: Int[Array, ""]) -> Int[Array, "N"]:
            return jnp.full(samples, value, jnp.int32)

        chosen = batch._replace(action=constant(outcome % num_actions), skill=constant(outcome // num_actions))
        scores = score(policy, chosen, config.gradient)
        vectors = jax.vmap(
            lambda step, one: jax.flatten_util.ravel_pytree(
                weighted_score(policy, _as_batch(step), _as_batch(one), jnp.ones(1))
            )[0],
            in_axes=-1,
            out_axes=-1,
        )(chosen, scores)
        return matrix + (vectors * jnp.exp(scores.log_prob)) @ vectors.T / samples, None

    size = policy.skills.theta.size + policy.partition.beta.size
    return jax.lax.scan(add_outcome, jnp.zeros((size, size)), jnp.arange(num_skills * num_actions))[0]


def _as_batch(sample):
    return jax.tree.map(lambda leaf: leaf[..., None], sample)


def ppo(
    config: LearnConfig,
    policy: ASAPPolicy,
    batch: Transition,
    advantages: Float[Array, "N"],
    optimizer: optax.OptState,
    iteration: Int[Array, ""],
) -> Step:
    """Several steps on one batch; samples whose probability ratio has moved beyond the clip get no gradient."""
    before = score(policy, batch, config.gradient)

    def epoch(carry: tuple[ASAPPolicy, optax.OptState], _: None):
        policy, optimizer = carry
        scores = score(policy, batch, config.gradient)
        # Beyond e^20 the ratio is clipped anyway; unbounded, it overflows and spoils the mean with inf * 0.
        ratio = jnp.exp(jnp.clip(scores.log_prob - before.log_prob, -20.0, 20.0))
        outside = jnp.where(advantages > 0, ratio > 1 + config.clip, ratio < 1 - config.clip)
        weights = jnp.where(outside, 0.0, ratio * advantages)
        gradient, regularity = _gradient(config, policy, batch, scores, weights)
        after, optimizer = ascend(config, policy, gradient, optimizer, iteration)
        return (after, optimizer), (gradient, outside.mean(), regularity)

    (after, optimizer), history = jax.lax.scan(epoch, (policy, optimizer), None, length=config.epochs)
    gradient, clipped, regularity = jax.tree.map(lambda leaf: leaf[-1], history)
    return Step(after, optimizer, _diagnose(config, gradient, before, after, batch, clipped, regularity))


def _gradient(
    config: LearnConfig, policy: ASAPPolicy, batch: Transition, scores: Score, weights: Float[Array, "N"]
) -> tuple[Parameters, Regularity]:
    """Mean of weight times score, plus the gradient of the regularity."""
    weights = weights / weights.shape[-1]
    if has_closed_form(policy):
        gradient = weighted_score(policy, batch, scores, weights)
    else:
        gradient = weighted_score_by_autodiff(policy, batch, config.gradient, weights)
    extra, regularity = regularity_gradient(config, policy, batch)
    return jax.tree.map(jnp.add, gradient, extra), regularity


def _diagnose(config, gradient, before, after, batch, clipped, regularity) -> Diagnostics:
    change = score(after, batch, config.gradient).log_prob - before.log_prob
    kl = (jnp.expm1(change) - change).mean()
    return Diagnostics(gradient, kl, clipped, regularity)


UPDATES = {"actor-critic": actor_critic, "natural": natural, "ppo": ppo}
