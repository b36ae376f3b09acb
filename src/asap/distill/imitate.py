"""A policy that acts as somebody else does: the likelihood of the actions, maximised from several starts.

One plane can begin on the wrong side of everything, and a skill on the wrong action; of a dozen random starts some do
not. The likelihood is that of the policy as it is, with the skill summed out: it has a slope everywhere. What it decides is
judged elsewhere, as it will play: by the likeliest skill, and that skill's likeliest action.
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from asap.base.arrays import compiled
from asap.base.types import Transition
from asap.config.schema import LearnConfig
from asap.learn.updates import ascend, optimizer_of
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.score import MARGINAL, parameters_of, score, weighted_score_by_autodiff
from asap.policy.skills import GaussianSkills

SAMPLES = 4096  # Filled up or drawn to this, so that one program is compiled.
FIRST, ITERATIONS = 100, 600  # All starts climb for so long, and the better quarter to the end.
KEPT = 4
STEP_SIZE = 0.1
LEAST_LOG_STD = -4.0  # A teacher that is linear somewhere would make deviations vanish, and likelihoods infinite.


class Climb(NamedTuple):
    policy: ASAPPolicy
    optimizer: optax.OptState
    iteration: Int[Array, ""]
    likelihood: Float[Array, ""]  # Mean logarithm.


def imitate(
    starts: Sequence[ASAPPolicy],
    observations: Float[np.ndarray, "N O"],
    actions: Int[np.ndarray, "N"] | Float[np.ndarray, "N A"],
    learn: LearnConfig,
    generator: np.random.Generator,
) -> ASAPPolicy:
    """The likeliest of the policies that the starts lead to."""
    learn = dataclasses.replace(
        learn, optimizer="adam", step_size_theta=STEP_SIZE, step_size_beta=STEP_SIZE, schedule="robbins-monro"
    )
    batch, weights = _batch(observations, actions, generator)

    def begun(policy: ASAPPolicy) -> Climb:
        policy = jax.tree.map(jnp.asarray, policy)
        return Climb(policy, optimizer_of(learn).init(parameters_of(policy)), jnp.int32(0), jnp.float32(-jnp.inf))

    def ranked(climbs: Sequence[Climb], until: int) -> list[Climb]:
        climbed = [_climbed(learn, climb, batch, weights, until) for climb in climbs]
        return sorted(climbed, key=lambda climb: -np.nan_to_num(float(climb.likelihood), nan=-np.inf))

    first = ranked([begun(policy) for policy in starts], FIRST)
    best = ranked(first[: max(len(first) // KEPT, 1)], ITERATIONS)[0]
    return jax.tree.map(np.asarray, best.policy)


@functools.partial(compiled, static_argnums=0)
def _climbed(
    learn: LearnConfig, climb: Climb, batch: Transition, weights: Float[Array, "N"], until: Int[Array, ""]
) -> Climb:
    def step(iteration: Int[Array, ""], carry: tuple[ASAPPolicy, optax.OptState]) -> tuple[ASAPPolicy, optax.OptState]:
        policy, optimizer = carry
        gradient = weighted_score_by_autodiff(policy, batch, MARGINAL, weights)
        policy, optimizer = ascend(learn, policy, gradient, optimizer, iteration)
        return _with_some_spread(policy), optimizer

    policy, optimizer = jax.lax.fori_loop(climb.iteration, until, step, (climb.policy, climb.optimizer))
    return Climb(policy, optimizer, jnp.int32(until), weights @ score(policy, batch, MARGINAL).log_prob)


def _with_some_spread(policy: ASAPPolicy) -> ASAPPolicy:
    if not isinstance(policy.skills, GaussianSkills):
        return policy
    return eqx.tree_at(lambda p: p.skills.log_std, policy, jnp.maximum(policy.skills.log_std, LEAST_LOG_STD))


def _batch(
    observations: Float[np.ndarray, "N O"],
    actions: Int[np.ndarray, "N"] | Float[np.ndarray, "N A"],
    generator: np.random.Generator,
) -> tuple[Transition, Float[np.ndarray, "M"]]:
    count = len(observations)
    chosen = np.sort(generator.choice(count, SAMPLES, replace=False)) if count > SAMPLES else np.arange(SAMPLES) % count
    weights = np.float32(np.arange(SAMPLES) < count) / np.float32(min(count, SAMPLES))
    x, zeros, none = np.moveaxis(observations[chosen], 0, -1), np.zeros(SAMPLES, np.float32), np.zeros(SAMPLES, bool)
    return Transition(
        observation=x,
        descriptor=np.zeros((0, SAMPLES), np.float32),
        previous_skill=np.full(SAMPLES, NO_SKILL, np.int32),
        skill=np.zeros(SAMPLES, np.int32),
        action=np.moveaxis(actions[chosen], 0, -1),
        reward=zeros,
        terminated=none,
        truncated=none,
        next_observation=x,
    ), weights
