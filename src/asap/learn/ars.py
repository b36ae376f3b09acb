"""Paired random search: a policy moved along random directions by what it returns on both sides (Mania, Guy and Recht, 2018).

One update of a seed, with N directions delta_k ~ N(0, 1) in units u of the weights, and 2N episodes:

    r+-_k = return of w +- nu u delta_k, by its most probable skill and action        both on the same episode
    w += alpha u / (N s) sum_k (r+_k - r-_k) delta_k                                   s: deviation of the 2N returns

It needs no gradient, no critic and no chance in the actions: what it improves is deterministic play, which is what a person reads. The
units are the root mean square that the weights of skills and of planes had when the search began, or 1 where all were 0. alpha falls to
a fifth. The paper's best b of N directions are all of them here. Deviations of Gaussian skills have no part in it and stay.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from asap.base.arrays import stack
from asap.base.episodes import PAIRS
from asap.base.keys import host_generator
from asap.base.types import EpisodeTotals
from asap.config.schema import Config, LearnConfig
from asap.experience.protocol import EpisodeIds, Evaluation, Experience
from asap.learn.convergence import averaged
from asap.learn.search import totals_of
from asap.learn.state import SearchState, TrainState
from asap.learn.update import all_finite, as_given, scaled_by
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import merged
from asap.policy.score import Parameters, parameters_of, with_parameters, without_kept

LAST_STEP = 0.2  # Of the first one.
LATENESS = 1.0  # The n-th update counts n-fold in the mean.
_DIRECTIONS = 10  # Id of the stream that directions are drawn from.


class Rule(NamedTuple):
    """How a search goes."""

    directions: int
    perturbation: float
    step: float
    is_tied: bool = False  # All skills move together, and the planes stay.

    @classmethod
    def of(cls, learn: LearnConfig, tied: Bool[Array, ""] | np.bool_ | None = None) -> "Rule":
        return cls(learn.directions, learn.perturbation, learn.search_step, bool(tied))


# Of a runner in a race, which begins at 0: one direction at a time, so that many steps fit into a heat.
FROM_ZERO = Rule(1, 0.06, 0.036, is_tied=True)


class SearchUpdate(NamedTuple):
    """One update of one seed."""

    state: TrainState
    estimate: Parameters  # Of the direction uphill, in units.
    played: Evaluation


def search_update(
    config: Config,
    experience: Experience,
    seed: int,
    state: TrainState,
    left: tuple[int, int],
    rule: Rule,
    progress: float,
) -> SearchUpdate:
    """As many pairs as surely begin before what is left is used up; `progress` through the stage decides the step."""
    tasks, policy, unit = experience.tasks, state.policy, state.search.unit
    count = surely_begun(left, 2 * tasks.size, tasks.spec.horizon, rule.directions)
    deltas = directions(policy, seed, int(state.iteration), count, rule.is_tied)
    first = int(state.totals.episodes.sum())
    ids = EpisodeIds([seed] * (2 * count), PAIRS, list(range(first, first + count)) * 2)
    tried = tried_policies(policy, deltas, unit, rule.perturbation)
    played = experience.evaluate(stack(tried), ids, 1, deterministic=True)
    returns = np.einsum("m,pmn->pn", tasks.shares, played.returns).mean(1)
    estimate = uphill(deltas, returns, rule.directions)
    step = rule.step * (1 - (1 - LAST_STEP) * progress)
    return SearchUpdate(taken(config, experience, state, estimate, step, played), estimate, played)


def is_begun(state: TrainState, finishes: bool) -> bool:
    """Whether the last update was one of this search."""
    return int(state.search.updates) > 0 and bool(state.search.finishes) == finishes


def begun(state: TrainState, finishes: bool) -> TrainState:
    """The state at the beginning of a search: from what the learner has come to."""
    policy = state.outcome
    parameters = parameters_of(policy)
    unit = jax.tree.map(root_mean_square, parameters)
    return moved_to(state, policy, SearchState(np.int32(0), np.bool_(finishes), unit, parameters, parameters))


def root_mean_square(weights: Float[Array, "..."]) -> np.float32:
    size = np.sqrt(np.mean(np.square(weights), dtype=np.float64)) if np.size(weights) else 0.0
    return np.float32(size if size > 0 else 1.0)


def directions(policy: ASAPPolicy, seed: int, iteration: int, count: int, is_tied: bool = False) -> list[Parameters]:
    """0 for what is kept, and for the deviations of Gaussian skills."""
    parameters, deltas = parameters_of(policy), []
    generator = host_generator(seed, _DIRECTIONS, iteration)
    for _ in range(count):
        delta = jax.tree.map(lambda leaf: generator.standard_normal(np.shape(leaf), np.float32), parameters)
        delta = delta._replace(log_std=None if delta.log_std is None else np.zeros_like(delta.log_std))
        if is_tied:
            theta, still = np.broadcast_to(delta.theta[:1], delta.theta.shape), jax.tree.map(np.zeros_like, delta)
            delta = delta._replace(theta=theta, beta=still.beta, psi=still.psi)
        deltas.append(jax.tree.map(np.asarray, without_kept(policy, delta)))
    return deltas


def tried_policies(
    policy: ASAPPolicy, deltas: list[Parameters], unit: Parameters, perturbation: float
) -> list[ASAPPolicy]:
    """With w + nu u delta, one for each direction, and then with w - nu u delta."""
    weights = parameters_of(policy)

    def at(delta: Parameters, side: float) -> ASAPPolicy:
        return with_parameters(policy, stepped(weights, delta, unit, side * perturbation))

    return [at(delta, side) for side in (1.0, -1.0) for delta in deltas]


def stepped(weights: Parameters, delta: Parameters, unit: Parameters, length: float) -> Parameters:
    return jax.tree.map(lambda w, d, u: w + np.float32(length) * u * d, weights, delta, unit)


def uphill(deltas: list[Parameters], returns: Float[np.ndarray, "n"], num_directions: int) -> Parameters:
    """1 / (N s) sum_k (r+_k - r-_k) delta_k; 0 where all returns are the same. At the end of a budget fewer than N directions are tried:
    each counts as one of N, so that they move the policy less."""
    plus, minus = np.split(returns, 2)
    deviation = returns.std()
    shares = (plus - minus) / (num_directions * deviation) if deviation > 0 else np.zeros_like(plus)
    return jax.tree.map(lambda *each: np.float32(sum(s * d for s, d in zip(shares, each))), *deltas)


def taken(
    config: Config, experience: Experience, state: TrainState, estimate: Parameters, step: float, played: Evaluation
) -> TrainState:
    """The state after the step, with all that was played counted and seen. A step that is not finite is not taken."""
    search, weights = state.search, parameters_of(state.policy)
    parameters = stepped(weights, estimate, search.unit, step)
    is_finite = bool(all_finite(parameters))
    if is_finite:
        number = np.int32(search.updates)
        mean = jax.tree.map(np.asarray, averaged(search.mean, parameters, number, LATENESS))
        search = search._replace(updates=np.int32(number + 1), mean=mean)
        state = moved_to(state, with_parameters(state.policy, parameters), search)
    state = counted(state, played, np.bool_(state.spoiled | (not is_finite)))
    if state.moments is not None and played.seen is not None:
        moments = state.moments
        for seen in played.seen:
            moments = merged(moments, seen)
        state = scaled_by(state, moments)
    return jax.tree.map(np.asarray, as_given(config, experience, state))


def moved_to(state: TrainState, policy: ASAPPolicy, search: SearchState) -> TrainState:
    """With this policy as the one that has been come to."""
    state = eqx.tree_at(lambda s: (s.policy, s.search), state, (policy, search))
    return state if state.average is None else eqx.tree_at(lambda s: s.average, state, parameters_of(policy))


def counted(state: TrainState, played: Evaluation, spoiled: Bool[Array, ""] | np.bool_) -> TrainState:
    """One more update, with its episodes and steps."""
    totals = EpisodeTotals(*(np.asarray(old + new) for old, new in zip(state.totals, totals_of(played))))
    steps = np.asarray(state.env_steps + np.int64(totals_of(played).steps.sum()))
    return eqx.tree_at(
        lambda s: (s.totals, s.env_steps, s.iteration, s.spoiled),
        state,
        (totals, steps, np.int32(state.iteration + 1), spoiled),
    )


def surely_begun(left: tuple[int, int], episodes: int, horizon: int, most: int) -> int:
    """How many rounds of so many episodes surely begin before the budget is used up, however long they are: `most`, or
    half of it, and so on, so that few programs are compiled; at least one."""
    fits = min((left[0] - 1) // episodes, (left[1] - 1) // (episodes * horizon)) + 1
    while most > max(fits, 1):
        most //= 2
    return most
