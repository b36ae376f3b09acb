"""Improving a policy with a minibatch of logged episodes. Both objectives are a sum of weight times marginal score:

    importance   weight min(rho_{0:t}, cap) A_t + anchor, with rho_{0:t} = prod_{s <= t} pi(a_s | x_s) / b(a_s | x_s)
    likelihood   weight merit(R) of the episode, which grows with its return

The first is the policy gradient with per-decision importance weights (errata E22), A_t from a critic fitted on the data.
It is divided by the number of steps, not by the sum of the weights: where the policy is so far from the behaviour that
all weights vanish, so does this gradient, and the anchor, the gradient of -KL(b || pi), leads the policy back to where
the data can tell something. The second needs no probabilities of the behaviour.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from asap.base.keys import Key
from asap.base.types import EpisodeTotals, Transition
from asap.config.schema import Config
from asap.envs.core import CompiledTasks
from asap.experience.minibatches import Minibatch
from asap.experience.weights import clipped_weights, effective_sample_size, log_ratios_so_far
from asap.learn.advantage import Critic, fit, lambda_advantages
from asap.learn.regularize import regularity_gradient
from asap.learn.train import CRITIC_RIDGE, FromData, Improved, Metrics, TrainState, standardize, take_over
from asap.learn.updates import Diagnostics, Step, ascend
from asap.policy.policy import NO_SKILL
from asap.policy.score import MARGINAL, score, weighted_score


def update_from_data(
    config: Config, tasks: CompiledTasks, key: Key, state: TrainState, minibatch: Minibatch
) -> tuple[TrainState, Metrics]:
    """One step uphill on the objective that the config names. Nothing is played, and nothing is left to chance."""
    learn, window = config.learn, as_window(minibatch)
    counted = minibatch.counted.T
    steps = counted.sum()
    batch = jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[:-2], -1), window)
    scores = score(state.policy, batch, MARGINAL)
    log_probs = scores.log_prob.reshape(counted.shape)
    if learn.learner == "importance":
        weights, critic, explained, from_data = by_importance(config, tasks, state.critic, window, minibatch, log_probs)
    else:
        weights, critic, explained = minibatch.merit.T * counted, state.critic, jnp.float32(jnp.nan)
        objective = jnp.sum(weights * log_probs) / steps
        from_data = FromData(effective_sample_size(weights.ravel()) / steps, objective)
    gradient = weighted_score(state.policy, batch, scores, weights.ravel() / steps)
    extra, regularity = regularity_gradient(learn, state.policy, batch)
    gradient = jax.tree.map(jnp.add, gradient, extra)
    policy, optimizer = ascend(learn, state.policy, gradient, state.optimizer, state.iteration)
    unknown = jnp.float32(jnp.nan)  # A divergence from the policy that played: none of ours did.
    step = Step(policy, optimizer, Diagnostics(gradient, unknown, jnp.float32(0), regularity))
    improved = Improved(step, critic, None, totals_of(minibatch), steps, explained, from_data)
    return take_over(config, state, improved)


def by_importance(
    config: Config,
    tasks: CompiledTasks,
    critic: Critic,
    window: Transition,
    minibatch: Minibatch,
    log_probs: Float[Array, "T L"],
) -> tuple[Float[Array, "T L"], Critic, Float[Array, ""], FromData]:
    """Weights of the steps, the critic fitted to the data, how much of the returns it explains."""
    learn, counted = config.learn, minibatch.counted.T
    discount = tasks.env.spec.discount if learn.discount is None else learn.discount
    log_ratio = jnp.where(counted, log_probs - minibatch.behaviour_log_prob.T, 0.0)
    rho = clipped_weights(log_ratios_so_far(log_ratio, window.ended), config.offline.cap) * counted
    shape = (window.observation.shape[0], -1)
    m = window.descriptor.reshape(window.descriptor.shape[0], -1)
    features, next_features = (
        critic.features(x.reshape(shape), m) for x in (window.observation, window.next_observation)
    )
    values, next_values = ((critic.weights @ part).reshape(counted.shape) for part in (features, next_features))
    advantages = lambda_advantages(window, values, next_values, discount, learn.trace)
    targets = (advantages + values) * counted
    # Gaps have features of 0, and so no part in the fit.
    critic = fit(critic, features * counted.ravel(), targets.ravel(), learn.critic_memory, CRITIC_RIDGE)
    is_step = counted.astype(bool)
    explained = 1 - advantages.var(where=is_step) / (targets.var(where=is_step) + 1e-8)
    ess = effective_sample_size(rho.ravel()) / counted.sum()
    gained = jnp.sum(rho * advantages) / jnp.maximum(rho.sum(), 1e-30)
    return (
        rho * standardize(advantages, is_step) + config.offline.anchor * counted,
        critic,
        explained,
        FromData(ess, gained),
    )


def as_window(minibatch: Minibatch) -> Transition:
    """The minibatch with time before lanes, as windows are played."""

    def vectors(leaf: Float[Array, "L T n"]) -> Float[Array, "n T L"]:
        return leaf.transpose(2, 1, 0)

    unknown = jnp.full(minibatch.action.T.shape, NO_SKILL, jnp.int32)
    return Transition(
        observation=vectors(minibatch.observation),
        descriptor=vectors(minibatch.descriptor),
        previous_skill=unknown,
        skill=unknown,
        action=minibatch.action.T,
        reward=minibatch.reward.T,
        terminated=minibatch.terminated.T,
        truncated=minibatch.truncated.T,
        next_observation=vectors(minibatch.next_observation),
    )


def totals_of(minibatch: Minibatch) -> EpisodeTotals:
    """What was read, as if it had been played; the data are of one task."""
    ended = minibatch.terminated | minibatch.truncated
    return EpisodeTotals(
        episodes=ended.sum()[None], returns=minibatch.reward.sum()[None], successes=minibatch.success.sum()[None],
        steps=minibatch.counted.sum()[None],
    )  # fmt: skip
