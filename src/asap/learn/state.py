"""What the training of a seed carries from one update to the next, and what an update tells."""

import copy
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import blank_arrays, from_arrays, lift, stack, to_arrays
from asap.base.errors import RunError
from asap.base.keys import Key, host_generator
from asap.base.spec import TaskSet
from asap.base.types import EpisodeTotals
from asap.config.schema import SEARCH, Config
from asap.experience.critic import Critic, new_critic, table_critic
from asap.experience.protocol import Carry, Experience
from asap.learn.convergence import Monitor, has_converged, start_monitor
from asap.learn.judge import FromData
from asap.learn.regularize import Regularity
from asap.learn.updates import Diagnostics, optimizer_of
from asap.policy.build import build_policy
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import Moments, no_moments
from asap.policy.score import Parameters, parameters_of, with_parameters, without_kept
from asap.policy.skills import GibbsSkills
from asap.runs.checkpoints import digest

POLICY, CRITIC = 0, 1  # Ids of what is drawn on the host, one stream per purpose.
MOST_OF_TABLE = 1024  # States; the critic's fit takes their cube.
SPAN = 2.0  # Scaled observations lie mostly within this many deviations; the critic's ramps are spread over them.


class SearchState(NamedTuple):
    """Of paired random search (`learn/ars.py`); before it begins, its length is 0 and the rest means nothing."""

    updates: Int[Array, ""]  # Since it began.
    finishes: Bool[Array, ""]  # Whether it is the finish.
    unit: Parameters  # A number for each array of weights.
    before: Parameters
    mean: Parameters


def no_search(parameters: Parameters) -> SearchState:
    """Traced."""
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    return SearchState(jnp.int32(0), jnp.bool_(False), jax.tree.map(lambda _: jnp.float32(1), parameters), zeros, zeros)


class RunnerState(NamedTuple):
    """What a runner of a race has for itself, named as in `TrainState`."""

    policy: ASAPPolicy
    critic: Critic
    optimizer: optax.OptState
    carry: Carry
    monitor: Monitor
    moments: Moments | None
    average: Parameters | None
    search: SearchState | None
    alphas: "Alphas | None"
    tied: Bool[Array, ""] | None


class Race(NamedTuple):
    """A race of runners (`learn/race.py`), on the host: no program has a part in it."""

    heat: Int[np.ndarray, "*seeds"]  # The number of the one that is on.
    runner: Int[np.ndarray, "*seeds"]  # Who plays.
    since: Int[np.ndarray, "*seeds 2"]  # Episodes and steps when the heat began.
    sums: Float[np.ndarray, "*seeds heats 2"]  # Of the returns, in the first and in the last half of each heat,
    counts: Float[np.ndarray, "*seeds heats 2"]  # and of how many episodes.
    runners: RunnerState  # Axes (seeds, runners, ...). That of who plays is out of date.


class TrainState(eqx.Module):
    """All that a seed's training carries from one update to the next; saved whole, so a resumed run loses nothing."""

    policy: ASAPPolicy
    critic: Critic
    optimizer: optax.OptState
    carry: Carry  # Of the experience: running lanes, or nothing.
    monitor: Monitor
    totals: EpisodeTotals  # Per task, since the start; inside a program, since the host has counted last.
    iteration: Int[Array, ""]
    env_steps: Int[Array, ""]  # Counted as the totals are.
    spoiled: Bool[Array, ""]  # A gradient was not finite; it was not applied, and the seed has stopped.
    moments: Moments | None = None  # Of the observations, where their scaling is learned.
    average: Parameters | None = None  # Over the updates, where the config asks for it.
    search: SearchState | None = None  # Where the learner or the finish is a search.
    race: Race | None = None
    alphas: "Alphas | None" = None  # As they began, where they are sharpened.
    tied: Bool[Array, ""] | None = None  # Whether all skills are one and the planes stay; in races alone.

    @property
    def outcome(self) -> ASAPPolicy:
        """The policy that training has come to; `policy` is the one that plays and learns."""
        return self.policy if self.average is None else with_parameters(self.policy, self.average)

    @property
    def progress(self) -> tuple[Array, ...]:
        """What decides whether a seed goes on."""
        return self.totals.episodes, self.env_steps, self.monitor.movement, self.spoiled

    def counted_from(self, totals: EpisodeTotals) -> "TrainState":
        """With what was spent before the first update."""
        return _with(self, totals=totals, env_steps=np.asarray(totals.steps).sum(-1))

    def from_zero(self) -> "TrainState":
        """As a program is given it: it counts anew in each chunk, because its integers end at 2^31."""

        def zero(counted: np.ndarray) -> np.ndarray:
            return np.zeros(counted.shape, jax.dtypes.canonicalize_dtype(counted.dtype))

        totals, env_steps = jax.tree.map(zero, (self.totals, self.env_steps))
        return _with(self, totals=totals, env_steps=env_steps, race=None)

    def counted_on(self, before: "TrainState") -> "TrainState":
        """After a program that counted from 0: with what was counted before it, on the host, in 64 bits."""
        old, new = (before.totals, before.env_steps), (self.totals, self.env_steps)
        totals, env_steps = jax.tree.map(lambda old, new: old + np.asarray(new), old, new)
        return _with(self, totals=totals, env_steps=env_steps, race=before.race)

    def with_race(self, race: Race | None) -> "TrainState":
        return _with(self, race=race)


def _with(states: Any, **parts: Any) -> Any:
    """With other parts: states, or their shapes, also stacked. `eqx.tree_at` takes as long as a small update."""
    other = copy.copy(states)
    for name, value in parts.items():
        object.__setattr__(other, name, value)  # A module is frozen for all but those that make it.
    return other


class Alphas(NamedTuple):
    """Sharpness of skills and of planes; None of those that stay as they are."""

    theta: Float[Array, ""] | None  # Gaussian skills have none.
    beta: Float[Array, ""] | None

    @classmethod
    def of(cls, policy: ASAPPolicy) -> "Alphas":
        """What is kept is not sharpened."""
        has_logits, kept = isinstance(policy.skills, GibbsSkills), policy.kept
        return cls(
            jnp.asarray(policy.skills.alpha_theta) if has_logits and not kept.skills else None,
            None if kept.planes else jnp.asarray(policy.partition.alpha_beta),
        )

    def sharpened(self, policy: ASAPPolicy, factor: Float[Array, ""]) -> ASAPPolicy:
        """The policy with so many times the sharpness that it began with."""
        if self.theta is not None:
            policy = eqx.tree_at(lambda p: p.skills.alpha_theta, policy, self.theta * factor)
        if self.beta is not None:
            policy = eqx.tree_at(lambda p: p.partition.alpha_beta, policy, self.beta * factor)
        return policy


class Metrics(NamedTuple):
    """One update of one seed, as it is logged."""

    active: Bool[Array, ""]
    diagnostics: Diagnostics | None
    explained_variance: Float[Array, ""]
    movement: Float[Array, ""]
    from_data: FromData | None


def idle(state: TrainState) -> Metrics:
    """Of a seed that has stopped and was not updated."""
    unknown = np.float32(np.nan)
    nothing = Regularity(unknown, np.full(state.policy.num_skills, unknown))
    zeros = jax.tree.map(np.zeros_like, parameters_of(state.policy))
    diagnostics = Diagnostics(zeros, unknown, np.float32(0), nothing)
    return Metrics(np.zeros((), bool), diagnostics, unknown, np.asarray(state.monitor.movement), None)


class Pace(NamedTuple):
    """Shares of the budgets of episodes and of steps: spent when the program began, and what one of each is."""

    begun: Float[Array, "*seeds 2"]
    each: Float[Array, "*seeds 2"]


class Budget(NamedTuple):
    """How far a seed may go; numbers of the run and not of the program, so that more needs no new program."""

    episodes: Int[Array, "*seeds"]
    steps: Int[Array, "*seeds"]
    pace: Pace | None = None  # None: nothing follows the budget.

    @classmethod
    def of(cls, config: Config) -> "Budget":
        """In all."""
        run, none = config.run, np.iinfo(np.int64).max
        return cls(*(np.int64(none if most is None else most) for most in (run.episodes, run.steps)))

    def left(self, totals: EpisodeTotals, env_steps: Int[Array, "*seeds"]) -> "Budget":
        """What is not spent yet, as a program takes it: no chunk gets to where its integers end."""
        spent = np.asarray(totals.episodes).sum(-1), np.asarray(env_steps)
        left = (np.clip(most - done, 0, np.iinfo(np.int32).max).astype(np.int32) for most, done in zip(self, spent))
        most = np.float64([self.episodes, self.steps])
        begun = np.float32(np.stack(spent, -1) / most)
        return Budget(*left, Pace(begun, np.broadcast_to(np.float32(1 / most), begun.shape)))

    def done(self, totals: EpisodeTotals, env_steps: Int[Array, ""]) -> Float[Array, ""]:
        """The share of the budget that one seed has spent, from 0 to 1; counts are since the program began."""
        if self.pace is None:
            return jnp.float32(0)
        since = jnp.stack([totals.episodes.sum(), env_steps])
        return jnp.clip((self.pace.begun + self.pace.each * since).max(), 0, 1)


class Start(NamedTuple):
    """Where a seed begins: the policy, and what was seen and spent on the way to it."""

    policy: ASAPPolicy
    critic: Critic
    totals: EpisodeTotals
    moments: Moments | None


def drawn_policy(config: Config, tasks: TaskSet, seed: int) -> ASAPPolicy:
    """The policy of one seed before anything was learned, drawn on the host: compiling that would take longer."""
    return build_policy(config.policy, tasks.tasks, host_generator(seed, POLICY))


def drawn_critic(config: Config, tasks: TaskSet, seed: int) -> Critic:
    """Ramps over the bounds of the observations, or over those that are scaled."""
    spec, learn, policy = tasks.spec, config.learn, config.policy
    low, high = np.float32(spec.observation_low), np.float32(spec.observation_high)
    if tasks.is_scaled:
        low, high = (np.full(len(low), bound, np.float32) for bound in (-SPAN, SPAN))
    num_skills = 0 if policy.termination is None else policy.num_skills
    sizes = learn.critic_features, learn.critic_length, num_skills
    known = tasks.descriptors.shape[1] + learn.critic_time
    if learn.critic_table and spec.numbered and len(low) <= MOST_OF_TABLE:
        return table_critic(len(low) + known, num_skills)
    return new_critic(low, high, known, host_generator(seed, CRITIC), *sizes)


def with_given_rules(
    config: Config, tasks: TaskSet, policies: ASAPPolicy, iteration: Int[Array, "seeds"]
) -> ASAPPolicy:
    """Policies, stacked over seeds; of those that made no update, the given rules as they are: what learning would have
    started from is less sure."""
    is_first = np.asarray(iteration) == 0
    if not config.policy.rules or config.run.source is not None or not is_first.any():
        return policies
    exact = stack([drawn_policy(config, tasks, config.run.seed + s) for s in range(len(is_first))])
    return jax.tree.map(lambda rules, own: np.where(lift(is_first, 1, np.ndim(own) - 1), rules, own), exact, policies)


def no_totals(tasks: TaskSet) -> EpisodeTotals:
    zero = np.zeros(tasks.size, np.int64)
    return EpisodeTotals(zero, np.zeros(tasks.size), zero, zero)


def drawn_start(config: Config, tasks: TaskSet, seed: int, policy: ASAPPolicy | None = None) -> Start:
    """One seed before anything was played: from a policy that is given, or else drawn."""
    if policy is None:
        policy = drawn_policy(config, tasks, seed)
        # Where weights are 0, a small change decides what is done: a search sees a difference at once.
        policy = with_zero_skills(policy) if config.learn.learner == SEARCH and not config.policy.rules else policy
    moments = no_moments(len(tasks.spec.observation_names)) if tasks.is_scaled else None
    return Start(policy, drawn_critic(config, tasks, seed), no_totals(tasks), moments)


def with_zero_skills(policy: ASAPPolicy) -> ASAPPolicy:
    """But for those that are kept."""
    weights = parameters_of(policy)
    nothing = without_kept(policy, weights._replace(theta=np.zeros_like(weights.theta)), weights)
    return with_parameters(policy, jax.tree.map(np.asarray, nothing))


def first_state(config: Config, experience: Experience, key: Key, start: Start) -> TrainState:
    """One seed before its first update; traced."""
    parameters = parameters_of(start.policy)
    return TrainState(
        policy=start.policy,
        critic=start.critic,
        optimizer=optimizer_of(config.learn).init(parameters),
        carry=experience.begin(key),
        monitor=start_monitor(parameters),
        totals=start.totals,
        iteration=jnp.int32(0),
        env_steps=start.totals.steps.sum(),
        spoiled=jnp.bool_(False),
        moments=start.moments,
        average=None if config.learn.averaging is None else parameters,
        search=no_search(parameters) if config.searches else None,
        alphas=Alphas.of(start.policy) if config.learn.sharpening != 1 else None,
        tied=jnp.bool_(False) if config.run.race else None,
    )


def is_active(config: Config, budget: Budget, progress: Sequence[Array]) -> Bool[Array, "*seeds"]:
    """Neither out of budget, nor converged, nor spoiled; for one seed, or all of them stacked."""
    episodes, env_steps, movement, spoiled = progress
    has_budget = (episodes.sum(-1) < budget.episodes) & (env_steps < budget.steps)
    return has_budget & ~has_converged(movement, config.learn.convergence_tolerance) & ~spoiled


def restored(template: TrainState, arrays: dict[str, np.ndarray]) -> TrainState:
    """States as they were saved; release 0.1 called what an experience carries its lanes, and counted in 32 bits."""
    renamed = {("carry" + name[5:] if name.startswith("lanes.") else name): array for name, array in arrays.items()}
    wide = {"int32": np.int64, "float32": np.float64}
    for name in renamed:
        if name.startswith("totals.") or name == "env_steps":
            renamed[name] = renamed[name].astype(wide.get(renamed[name].dtype.name, renamed[name].dtype))
    policy, hidden, size = template.policy, renamed.get("critic.hidden"), template.critic.hidden.shape[-1]
    is_blind = policy.termination is not None and hidden is not None and hidden.shape[-1] == size - policy.num_skills
    if is_blind:  # Earlier critics of policies that commit had fewer inputs.
        what = "is of an earlier release, whose critic did not see the skill in force"
        cure = "train again, or start from its policy by `asap transfer`"
        raise RunError("checkpoint", what, f"{hidden.shape[-1]} inputs in place of {size}", cure)
    # A run that was begun without a search may go on with one.
    blank = blank_arrays(template.search, "search.")
    return from_arrays(template, blank | renamed)


def parameter_digest(policy: ASAPPolicy) -> str:
    """SHA-256 of what was learned: Theta and beta of all seeds, and what else there is."""
    return digest(to_arrays(parameters_of(policy)))


class _Outcome(eqx.Module):
    policy: ASAPPolicy
    average: Parameters | None


def restored_outcome(blank: ASAPPolicy, arrays: dict[str, np.ndarray], config: Config) -> ASAPPolicy:
    """The policies that saved states have come to, without all that learning needs besides."""
    average = None if config.learn.averaging is None else parameters_of(blank)
    found = from_arrays(_Outcome(blank, average), arrays)
    return found.policy if average is None else with_parameters(found.policy, found.average)
