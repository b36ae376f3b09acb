"""The one update: play or read, judge, improve. The same program for every kind of experience."""

import dataclasses
import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from asap.base.keys import Key, fold
from asap.config.schema import Config
from asap.experience.protocol import Batch, Carry, Experience, Fed
from asap.learn.convergence import averaged, watch
from asap.learn.judge import Judged, Terms, judge
from asap.learn.state import Budget, Metrics, SearchState, TrainState, is_active
from asap.learn.updates import UPDATES, Inputs, Step
from asap.policy import scaling
from asap.policy.policy import NOTHING
from asap.policy.rules.given import given_by
from asap.policy.scaling import Moments, merged, moments_of
from asap.policy.score import Parameters, parameters_of, with_parameters, without_kept

PLAY, ORDER = 3, 10  # Ids of streams of a seed's key: updates play with one, and take steps in the other's order.


def update(
    config: Config, experience: Experience, budget: Budget, key: Key, state: TrainState, fed: Fed
) -> tuple[TrainState, Metrics]:
    """One seed, traced. A seed that is no longer active stays as it is."""
    learn, spec = config.learn, experience.tasks.spec
    terms = Terms(learn.discount_on(spec.discount, spec.horizon), spec.horizon)
    carry, batch = experience.collect(fold(key, PLAY, state.iteration), state.policy, state.carry, fed)
    judged = judge(config, terms, state.policy, state.critic, state.moments, batch)
    done, order = budget.done(state.totals, state.env_steps), fold(key, ORDER, state.iteration)
    inputs = Inputs(
        learn, state.policy, batch, judged.weights, state.optimizer, state.iteration, done, order, state.tied
    )
    step = UPDATES[learn.learner](inputs)
    after, metrics = take_over(config, budget, state, step, judged, carry, batch)
    return as_given(config, experience, after), metrics


def as_given(config: Config, experience: Experience, state: TrainState) -> TrainState:
    """Rules that are kept are read from their text again: rescaling them in every update would wear them off."""
    if not config.policy.rules or state.policy.kept == NOTHING:
        return state
    given = given_by(config, experience.tasks.tasks).policy()
    if (
        given.psi.is_fixed
    ):  # On a scaling that stays, which is the policy's own, numbers that are kept stay of themselves.
        return state
    exact = parameters_of(given)
    exact = exact._replace(beta=exact.beta * (given.partition.alpha_beta / state.policy.partition.alpha_beta))
    if state.moments is not None:
        exact = scaling.rescaled_parameters(given, state.moments, exact)

    def restored(parameters: Parameters) -> Parameters:
        return without_kept(given, parameters, exact)

    policy = with_parameters(state.policy, restored(parameters_of(state.policy)))
    average = None if state.average is None else restored(state.average)
    return dataclasses.replace(state, policy=policy, average=average)


def take_over(
    config: Config, budget: Budget, state: TrainState, step: Step, judged: Judged, carry: Carry, batch: Batch
) -> tuple[TrainState, Metrics]:
    """The state after an update, or as it was where the seed is not active or the update not finite."""
    parameters, lateness = parameters_of(step.policy), config.learn.averaging
    average = None if lateness is None else averaged(state.average, parameters, state.iteration, lateness)
    finite = all_finite(step.policy) & all_finite(step.optimizer) & all_finite(judged.critic)
    after = dataclasses.replace(
        state,
        policy=step.policy,
        critic=judged.critic,
        optimizer=step.optimizer,
        carry=carry,
        monitor=watch(state.monitor, parameters, config.learn.convergence_window),
        totals=jax.tree.map(jnp.add, state.totals, batch.totals),
        iteration=state.iteration + 1,
        env_steps=state.env_steps + batch.env_steps,
        average=average,
    )
    if state.moments is not None and batch.behaviour is None:  # Those of a log are known from the start.
        after = scaled_by(after, merged(state.moments, seen_in(batch)))
    if state.alphas is not None:
        after = sharpened(config, after, budget.done(after.totals, after.env_steps))
    active = is_active(config, budget, state.progress)
    kept = eqx.tree_at(lambda s: s.spoiled, state, state.spoiled | (active & ~finite))
    after = jax.tree.map(lambda new, old: jnp.where(active & finite, new, old), after, kept)
    fit, movement = judged.explained_variance, after.monitor.movement
    return after, Metrics(active, step.diagnostics, fit, movement, judged.from_data)


def sharpened(config: Config, state: TrainState, done: Float[Array, ""]) -> TrainState:
    """With the sharpness that belongs to this share of the budget. It is the policy's own from now on: the policy is
    played, judged and saved with it, so play of the likeliest action comes close to what was learned."""
    factor = 1 + (config.learn.sharpening - 1) * jnp.clip(2 * done - 1, 0, 1)
    return dataclasses.replace(state, policy=state.alphas.sharpened(state.policy, factor))


def seen_in(batch: Batch) -> Moments:
    steps = batch.steps.flat()
    return moments_of(steps.observation, steps.counts)


def scaled_by(state: TrainState, moments: Moments) -> TrainState:
    """The observations of an update count in the scaling of the next; the policy and its average stay what they were,
    and all that is kept of parameters and gradients is put into the new units with them."""
    old, monitor, optimizer = state.policy, state.monitor, state.optimizer

    def parameters(before: Parameters) -> Parameters:
        return scaling.rescaled_parameters(old, moments, before)

    monitor = monitor._replace(total=parameters(monitor.total), previous=parameters(monitor.previous))
    if isinstance(optimizer, optax.ScaleByAdamState):
        gradients = scaling.rescaled_gradients(old, moments, optimizer.mu)
        optimizer = optimizer._replace(mu=gradients, nu=scaling.rescaled_squares(old, moments, optimizer.nu))
    return dataclasses.replace(
        state,
        policy=scaling.rescaled(old, moments),
        moments=moments,
        monitor=monitor,
        optimizer=optimizer,
        average=None if state.average is None else parameters(state.average),
        search=None if state.search is None else _rescaled(state.search, parameters),
    )


def _rescaled(search: SearchState, parameters: Callable[[Parameters], Parameters]) -> SearchState:
    return search._replace(before=parameters(search.before), mean=parameters(search.mean))


def all_finite(tree) -> Bool[Array, ""]:
    leaves = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return functools.reduce(jnp.logical_and, [jnp.isfinite(leaf).all() for leaf in leaves], jnp.bool_(True))
