"""The one loop: play, judge, improve, in compiled chunks of updates over all seeds at once."""

import functools
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import compiled, over_seeds
from asap.base.keys import Key, fold, host_generator, root
from asap.base.types import EpisodeTotals
from asap.config.schema import Config, LearnConfig
from asap.envs.catalog import CompiledTask
from asap.envs.core import CompiledTasks
from asap.evaluate import Evaluation, evaluate_seeds, join_evaluations
from asap.learn.advantage import Critic, fit, lambda_advantages, new_critic
from asap.learn.averaging import averaged
from asap.learn.convergence import Monitor, has_converged, start_monitor, watch
from asap.learn.regularize import Regularity
from asap.learn.rollout import Lane, add, no_episodes, play_window, start_lanes
from asap.learn.scored_episodes import play_scored
from asap.learn.updates import UPDATES, Diagnostics, Step, ascend, optimizer_of
from asap.policy.build import build_policy
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import Moments
from asap.policy.score import Parameters, parameters_of, with_parameters
from asap.transfer import search_symmetries

# Ids folded into a seed's key, one stream per purpose.
_POLICY, _CRITIC, _LANES, _PLAY, _EVALUATE = range(5)
_SEARCH = 7  # 5 and 6 belong to asap.model.
CRITIC_RIDGE = 1e-3


class TrainState(eqx.Module):
    """All that a seed's training carries from one update to the next; saved whole, so a resumed run loses nothing."""

    policy: ASAPPolicy
    critic: Critic
    optimizer: optax.OptState
    lanes: Lane | None  # None where logged data are learned from.
    monitor: Monitor
    totals: EpisodeTotals  # Per task, since the start.
    iteration: Int[Array, ""]
    env_steps: Int[Array, ""]
    spoiled: Bool[Array, ""]  # A gradient was not finite; it was not applied, and the seed has stopped.
    moments: Moments | None = None  # Of the observations, where their scaling is learned.
    average: Parameters | None = None  # Over the updates, where the config asks for it.

    @property
    def outcome(self) -> ASAPPolicy:
        """The policy that training has come to; `policy` is the one that plays and learns."""
        return self.policy if self.average is None else with_parameters(self.policy, self.average)


class FromData(NamedTuple):
    """How learning from logged data goes, see `asap.offline.objectives`."""

    ess: Float[Array, ""]  # Effective sample size, as a share of the steps.
    objective: Float[Array, ""]


class Improved(NamedTuple):
    """What an update came to, before it is known to be finite."""

    step: Step
    critic: Critic
    lanes: Lane | None
    totals: EpisodeTotals
    env_steps: Int[Array, ""] | int
    explained_variance: Float[Array, ""]
    from_data: FromData | None = None


class Metrics(NamedTuple):
    """One update of one seed, as it is logged."""

    totals: EpisodeTotals  # Of the episodes that ended in this update.
    cumulative_episodes: Int[Array, ""]
    env_steps: Int[Array, ""]
    active: Bool[Array, ""]
    diagnostics: Diagnostics
    explained_variance: Float[Array, ""]
    movement: Float[Array, ""]
    from_data: FromData | None


def init(config: Config, named: tuple[CompiledTask, ...], tasks: CompiledTasks, seed: int) -> tuple[ASAPPolicy, Critic]:
    """The learned parts of one seed before its first update, drawn on the host: compiling that would take longer."""
    policy = build_policy(config.policy, named, host_generator(seed, _POLICY))
    spec, learn = tasks.env.spec, config.learn
    bounds = np.float32(spec.observation_low), np.float32(spec.observation_high)
    return policy, new_critic(
        *bounds, tasks.descriptor_size, host_generator(seed, _CRITIC), learn.critic_features, learn.critic_length
    )


def begin_training(config: Config, tasks: CompiledTasks, key: Key, policy: ASAPPolicy, critic: Critic) -> TrainState:
    """One seed at its first update. The search for symmetries, where asked for, is paid from the budget."""
    totals = no_episodes(tasks.size)
    if config.run.search_episodes:
        policy, _, totals = search_symmetries(policy, tasks, fold(key, _SEARCH), config.run.search_episodes)
    return TrainState(
        policy=policy,
        critic=critic,
        optimizer=optimizer_of(config.learn).init(parameters_of(policy)),
        lanes=start_lanes(tasks, fold(key, _LANES), config.learn.lanes) if config.offline.data is None else None,
        monitor=start_monitor(parameters_of(policy)),
        totals=totals,
        iteration=jnp.int32(0),
        env_steps=totals.steps.sum(),
        spoiled=jnp.bool_(False),
        average=None if config.learn.averaging is None else parameters_of(policy),
    )


def is_active(config: Config, state: TrainState) -> Bool[Array, "*seeds"]:
    """Neither out of budget, nor converged, nor spoiled; for one seed, or all of them stacked."""
    has_budget = state.totals.episodes.sum(-1) < config.run.episodes
    if config.run.steps is not None:
        has_budget = has_budget & (state.env_steps < config.run.steps)
    return has_budget & ~has_converged(state.monitor, config.learn.convergence_tolerance) & ~state.spoiled


def update(config: Config, tasks: CompiledTasks, key: Key, state: TrainState) -> tuple[TrainState, Metrics]:
    """Play, judge, improve. A seed that is no longer active stays as it is."""
    improve = improve_by_episodes if config.learn.learner == "reinforce" else improve_by_windows
    return take_over(config, state, improve(config, tasks, fold(key, _PLAY, state.iteration), state))


def take_over(config: Config, state: TrainState, improved: Improved) -> tuple[TrainState, Metrics]:
    """The state after an update, or as it was where the seed is not active or the update not finite."""
    step, parameters, lateness = improved.step, parameters_of(improved.step.policy), config.learn.averaging
    finite = all_finite(step.policy) & all_finite(step.optimizer) & all_finite(improved.critic)
    after = TrainState(
        policy=step.policy,
        critic=improved.critic,
        optimizer=step.optimizer,
        lanes=improved.lanes,
        monitor=watch(state.monitor, parameters, config.learn.convergence_window),
        totals=add(state.totals, improved.totals),
        iteration=state.iteration + 1,
        env_steps=state.env_steps + improved.env_steps,
        spoiled=state.spoiled,
        moments=state.moments,
        average=None if lateness is None else averaged(state.average, parameters, state.iteration, lateness),
    )
    active = is_active(config, state)
    kept = eqx.tree_at(lambda s: s.spoiled, state, state.spoiled | (active & ~finite))
    after = jax.tree.map(lambda new, old: jnp.where(active & finite, new, old), after, kept)
    return after, Metrics(
        totals=improved.totals,
        cumulative_episodes=after.totals.episodes.sum(),
        env_steps=after.env_steps,
        active=active,
        diagnostics=step.diagnostics,
        explained_variance=improved.explained_variance,
        movement=after.monitor.movement,
        from_data=improved.from_data,
    )


def all_finite(tree) -> Bool[Array, ""]:
    leaves = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return functools.reduce(jnp.logical_and, [jnp.isfinite(leaf).all() for leaf in leaves], jnp.bool_(True))


def improve_by_windows(config: Config, tasks: CompiledTasks, key: Key, state: TrainState) -> Improved:
    """The actor-critic family: a window of every lane, advantages from the critic, then the update rule."""
    learn = config.learn
    discount = tasks.env.spec.discount if learn.discount is None else learn.discount
    lanes, window, totals = play_window(state.policy, tasks, state.lanes, key, learn.window)
    batch = jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[:-2], -1), window)
    features = state.critic.features(batch.observation, batch.descriptor)
    next_features = state.critic.features(batch.next_observation, batch.descriptor)
    shape = (learn.window, learn.lanes)
    values = (state.critic.weights @ features).reshape(shape)
    next_values = (state.critic.weights @ next_features).reshape(shape)
    advantages = lambda_advantages(window, values, next_values, discount, learn.trace)
    targets = (advantages + values).ravel()
    explained = 1 - jnp.var(advantages) / (jnp.var(targets) + 1e-8)
    critic = fit(state.critic, features, targets, learn.critic_memory, CRITIC_RIDGE)
    weights = weights_of(learn, advantages.ravel(), batch.decides)
    step = UPDATES[learn.learner](learn, state.policy, batch, weights, state.optimizer, state.iteration)
    return Improved(step, critic, lanes, totals, learn.lanes * learn.window, explained)


def weights_of(
    learn: LearnConfig, advantages: Float[Array, "N"], decides: Bool[Array, "N"] | None
) -> Float[Array, "N"]:
    """What each step counts in the mean over all: its advantage, standardised or scaled; 0 where all actions are the same."""
    scaled = learn.advantage_scale is not None
    weights = learn.advantage_scale * advantages if scaled else standardize(advantages, decides)
    return weights if decides is None else jnp.where(decides, weights, 0.0) / jnp.maximum(decides.mean(), 1e-6)


def standardize(advantages: Float[Array, "*N"], counted: Bool[Array, "*N"] | None) -> Float[Array, "*N"]:
    """Mean 0, deviation 1 over what counts; all equal (no signal) gives zeros."""
    return (advantages - advantages.mean(where=counted)) / (advantages.std(where=counted) + 1e-6)


def improve_by_episodes(config: Config, tasks: CompiledTasks, key: Key, state: TrainState) -> Improved:
    """REINFORCE (Algorithm 1): complete episodes, whole return times whole score."""
    learn = config.learn
    discount = tasks.env.spec.discount if learn.discount is None else learn.discount
    played = play_scored(state.policy, tasks, key, learn.lanes, learn.batch_episodes, learn.gradient, discount)
    count = played.totals.episodes.sum().astype(jnp.float32)
    gradient = jax.tree.map(lambda leaf: leaf / count, played.weighted)
    if learn.baseline == "mean":
        # The mean return of the other episodes, so that the estimate stays unbiased: a factor n / (n - 1).
        mean = played.returns / count
        gradient = jax.tree.map(
            lambda weighted, plain: (weighted - mean * plain / count) * count / (count - 1), gradient, played.plain
        )
    policy, optimizer = ascend(learn, state.policy, gradient, state.optimizer, state.iteration)
    nothing = Regularity(jnp.float32(jnp.nan), jnp.full(state.policy.num_skills, jnp.nan))
    diagnostics = Diagnostics(gradient, jnp.float32(jnp.nan), jnp.float32(0), nothing)
    step, totals = Step(policy, optimizer, diagnostics), played.totals
    return Improved(step, state.critic, state.lanes, totals, totals.steps.sum(), jnp.float32(jnp.nan))


class Trainer:
    """Training of all seeds of a config by compiled programs: `compile` and `start` once, then chunk by chunk.

    `feed` gives what the updates of a chunk need besides the state, from the iteration of every seed: nothing where they
    play themselves. Leaves have axes (chunk, seeds, ...).
    """

    def __init__(
        self,
        config: Config,
        named: tuple[CompiledTask, ...],
        tasks: CompiledTasks,
        update: Callable[..., tuple[TrainState, Metrics]] = update,
        feed: Callable[[Int[np.ndarray, "seeds"]], tuple] = lambda _: (),
    ):
        self.config, self.named, self.tasks, self.update, self.feed = config, named, tasks, update, feed
        seeds = [root(config.run.seed + index) for index in range(config.run.seeds)]
        self.keys = jax.tree.map(lambda *words: np.stack(words), *seeds)
        self._start, self._advance, self._evaluate = map(compiled, (self._started, self._advanced, self._evaluated))
        self.compile_seconds = 0.0

    def template(self) -> TrainState:
        """Shapes of the states, before anything is compiled."""
        return jax.eval_shape(self._start, self.keys, *self.learned_parts())

    def compile(self, meanwhile: Callable[[], None]) -> None:
        """Compiles both programs while the caller does something else.

        Tracing holds the interpreter and compiling does not: while the larger program compiles, the smaller is traced.
        """
        began, template = time.monotonic(), self.template()
        with ThreadPoolExecutor(2) as pool:
            fed = self.feed(np.zeros(self.config.run.seeds, int))  # For its shapes.
            advance = pool.submit(self._advance.trace(self.keys, template, *fed).lower().compile)
            evaluate = pool.submit(self._evaluate.trace(self.keys, template.policy, np.int32(0)).lower().compile)
            meanwhile()
            self._advance, self._evaluate = advance.result(), evaluate.result()
        self.compile_seconds = time.monotonic() - began

    def learned_parts(self) -> tuple[ASAPPolicy, Critic]:
        """Policies and critics of all seeds at their start, stacked."""
        first, count = self.config.run.seed, self.config.run.seeds
        each = [init(self.config, self.named, self.tasks, seed) for seed in range(first, first + count)]
        return jax.tree.map(lambda *leaves: np.stack(leaves), *each)

    def start(self, changed: Callable[[ASAPPolicy], ASAPPolicy] = lambda policies: policies) -> TrainState:
        """All seeds before their first update, from the policies as they were built, or as they are `changed` to."""
        policies, critics = self.learned_parts()
        return jax.block_until_ready(self._start(self.keys, changed(policies), critics))

    def advance(self, states: TrainState) -> tuple[TrainState, Metrics]:
        """`chunk` updates of every seed; metrics have axes (chunk, seeds, ...)."""
        return self._advance(self.keys, states, *self.feed(np.asarray(states.iteration)))

    def look(self, states: TrainState) -> Evaluation:
        """What the learning curve shows of the states: `eval_episodes` on every task; axes (seeds, tasks, ...)."""
        return self._evaluate(self.keys, states.policy, np.int32(np.max(states.iteration)))

    def evaluate(self, policies: ASAPPolicy, num_episodes: int) -> Evaluation:
        """As many episodes as asked for, in rounds of the function that is compiled already."""
        rounds = -(-num_episodes // self.config.run.eval_episodes)
        # They count down from the largest number, so that they never meet those of training.
        parts = [self._evaluate(self.keys, policies, np.int32(2**31 - 1 - r)) for r in range(rounds)]
        return join_evaluations([jax.tree.map(np.asarray, part) for part in parts], num_episodes)

    def close(self) -> None:
        """Nothing is held."""

    def _started(self, keys: Key, policies: ASAPPolicy, critics: Critic) -> TrainState:
        return over_seeds(lambda *seed: begin_training(self.config, self.tasks, *seed))(keys, policies, critics)

    def _advanced(self, keys: Key, states: TrainState, *fed: Any) -> tuple[TrainState, Metrics]:
        step = over_seeds(lambda key, state, *fed: self.update(self.config, self.tasks, key, state, *fed))
        return jax.lax.scan(lambda states, fed: step(keys, states, *fed), states, fed, length=self.config.run.chunk)

    def _evaluated(self, keys: Key, policies: ASAPPolicy, round_: Int[Array, ""]) -> Evaluation:
        keys = jax.vmap(lambda key: fold(key, _EVALUATE, round_))(keys)
        each = [
            evaluate_seeds(
                policies, self.tasks.only(name), jax.vmap(lambda key: fold(key, m))(keys), self.config.run.eval_episodes
            )
            for m, name in enumerate(self.tasks.names)
        ]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, 1), *each)
