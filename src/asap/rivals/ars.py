"""Augmented random search: linear policies, moved along random directions by what these return (Mania, Guy and Recht, 2018).

An implementation of ours and not the authors' code. One update, with N directions of which the best b count:

    z = (x - mean) / deviation                  of all observations so far
    r+-_k = return of M +- nu delta_k           delta_k ~ N(0, 1); both signs get the same random numbers
    M += alpha / (b s) sum_k (r+_k - r-_k) delta_k      over the b largest max(r+_k, r-_k); s: deviation of their 2b returns

The policy is M [1, z]: the action with the largest score, or numbers within their bounds. The 1 is ours: without it a policy
could not prefer an action everywhere, and the equal track has it.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import contract
from asap.base.keys import Key, fold, normals, root
from asap.base.spec import ControlUnits, TaskSet
from asap.base.types import Transition
from asap.experience.choose import counted_play
from asap.experience.compiled_play import program
from asap.experience.counted_play import StepCounter
from asap.policy.policy import NO_SKILL
from asap.rivals.features import RawInputs
from asap.rivals.protocol import Agents

STREAM = 20  # Of a seed's key: directions.
LEAST_DEVIATION = 1e-6  # Below it, an input is a constant, and stays 0.
LEAST_UPDATES = 10  # A small budget is spent on fewer directions.

Weights = Float[Array, "A F"]


class SeenInputs(NamedTuple):
    """Of all observations so far: how many, their mean, and the sum of squares around it."""

    count: Float[Array, ""]
    mean: Float[Array, "D"]
    squares: Float[Array, "D"]

    @property
    def deviation(self) -> Float[Array, "D"]:
        deviation = jnp.sqrt(self.squares / jnp.maximum(self.count, 1.0))
        return jnp.where(deviation > LEAST_DEVIATION, deviation, 1.0)

    def joined(self, z: Float[Array, "D n"], counts: Bool[Array, "n"]) -> "SeenInputs":
        """With those of `z` that count (Chan, Golub and LeVeque, 1979)."""
        added = counts.sum().astype(jnp.float32)
        mean = (z * counts).sum(1) / jnp.maximum(added, 1.0)
        squares = (counts * (z - mean[:, None]) ** 2).sum(1)
        total, apart = self.count + added, mean - self.mean
        share = added / jnp.maximum(total, 1.0)
        return SeenInputs(total, self.mean + apart * share, self.squares + squares + apart**2 * self.count * share)


class LinearEnds(NamedTuple):
    """What goes in, and the bounds of a Box action in the policy's units: -1 and 1, where there are two."""

    inputs: RawInputs
    bounds: tuple[tuple[float, ...], tuple[float, ...]] | None

    @classmethod
    def of(cls, tasks: TaskSet, representation: str) -> "LinearEnds":
        spec, bounds = tasks.spec, None
        if spec.continuous:
            units = ControlUnits.of_bounds(spec.action_low, spec.action_high)
            low, high = (units.ours(bound).tolist() for bound in (units.low, units.high))
            bounds = tuple(low), tuple(high)
        return cls(RawInputs.of(tasks, representation), bounds)


class LinearActor(eqx.Module):
    """M [1, z], without chance."""

    weights: Weights
    mean: Float[Array, "D"]
    deviation: Float[Array, "D"]
    ends: LinearEnds = eqx.field(static=True)

    def draws(self, key: Key) -> tuple[()]:
        return ()

    def choose(
        self, draws: tuple[()], x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]
    ) -> tuple[Int[Array, ""], Array]:
        z = (self.ends.inputs(x, m) - self.mean) / self.deviation
        scores = self.weights[:, 0] + contract(self.weights[:, 1:], z)
        none = jnp.int32(NO_SKILL)
        if self.ends.bounds is None:
            return none, jnp.argmax(scores).astype(jnp.int32)
        low, high = map(np.float32, self.ends.bounds)
        return none, jnp.clip(scores, low, high)


class Searched(NamedTuple):
    """What one seed has come to."""

    weights: Weights
    seen: SeenInputs
    updates: Int[Array, ""]


@dataclass(frozen=True)
class ARS:
    """Its settings carry the paper's symbols behind them; the defaults are those it was tuned to on the rooms."""

    representation: str = "native"  # All observations; "equal": the inputs that ASAP's planes have.
    directions: int = 8  # N
    top: int = 4  # b
    noise: float = 0.5  # nu
    step: float = 0.5  # alpha
    episodes: int = 1  # For each return.
    name: str = "ars"
    learns_skills: bool = False  # It has none.

    def why_not(self, tasks: TaskSet) -> str | None:
        return None

    def learn(
        self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Searched | None = None
    ) -> Agents:
        ends, horizon = LinearEnds.of(tasks, self.representation), tasks.spec.horizon
        affordable = int(counter.left.min()) // (LEAST_UPDATES * 2 * self.episodes * horizon)
        used = replace(self, directions=min(self.directions, max(affordable, 1)))
        num_inputs = len(ends.inputs.chosen) + (tasks.descriptors.shape[1] if ends.inputs.has_descriptor else 0)
        state = blank(len(seeds), tasks.spec.num_actions, num_inputs) if start is None else start
        keys = jax.tree.map(lambda *words: np.stack(words), *(fold(root(seed), STREAM) for seed in seeds))
        alike = tuple(range(used.directions)) * 2
        with contextlib.closing(counted_play(tasks, seeds, counter)) as play:
            while (active := counter.affords(len(alike) * self.episodes, horizon)).any():
                deltas, actors = program(_tried, "ars", "ends")(keys, state, ars=used, ends=ends)
                steps, totals = play.play(actors, self.episodes, active, alike)
                returns = np.asarray(totals.returns).sum(-1) / self.episodes
                moved = program(_moved, "ars", "ends")
                state = moved(state, deltas, steps, returns, active, ars=used, ends=ends)
        actors = program(_found, "ends")(state, ends=ends)
        size = int(state.weights[0].size)
        return Agents(actors, 0, size, counter.used.copy(), counter.curves(), state)

    def moved(self, weights: Weights, deltas: Float[Array, "N A F"], returns: Float[Array, "2N"]) -> Weights:
        """M after an update; returns of all plus signs come first. Where all are the same, it stays."""
        plus, minus = returns[: len(deltas)], returns[len(deltas) :]
        top = min(self.top, len(deltas))
        _, best = jax.lax.top_k(jnp.maximum(plus, minus), top)
        deviation = jnp.concatenate([plus[best], minus[best]]).std()
        scale = jnp.where(deviation > 0, self.step / (top * jnp.maximum(deviation, 1e-6)), 0.0)
        return weights + scale * jnp.tensordot(plus[best] - minus[best], deltas[best], 1)


def blank(num_seeds: int, num_actions: int, num_inputs: int) -> Searched:
    """M = 0, for every seed."""
    zeros = np.zeros((num_seeds, num_inputs), np.float32)
    weights = np.zeros((num_seeds, num_actions, 1 + num_inputs), np.float32)
    return Searched(weights, SeenInputs(np.zeros(num_seeds, np.float32), zeros, zeros), np.zeros(num_seeds, np.int32))


def actor_of_weights(weights: Weights, seen: SeenInputs, ends: LinearEnds) -> LinearActor:
    return LinearActor(weights, seen.mean, seen.deviation, ends)


def _found(state: Searched, ends: LinearEnds) -> LinearActor:
    return jax.vmap(lambda state: actor_of_weights(state.weights, state.seen, ends))(state)


def _tried(keys: Key, state: Searched, ars: ARS, ends: LinearEnds) -> tuple[Float[Array, "seeds N A F"], LinearActor]:
    """Directions, and the actors with the weights M + nu delta, then M - nu delta."""

    def of_seed(key: Key, state: Searched) -> tuple[Float[Array, "N A F"], LinearActor]:
        shape = (ars.directions, *state.weights.shape)
        pairs = jnp.arange((np.prod(shape) + 1) // 2)
        drawn = jnp.concatenate(normals(fold(fold(key, state.updates), pairs)))
        deltas = drawn[: np.prod(shape)].reshape(shape)
        weights = state.weights + ars.noise * jnp.concatenate([deltas, -deltas])
        return deltas, jax.vmap(lambda one: actor_of_weights(one, state.seen, ends))(weights)

    return jax.vmap(of_seed)(keys, state)


def _moved(
    state: Searched,
    deltas: Float[Array, "seeds N A F"],
    steps: Transition,
    returns: Float[Array, "seeds 2N"],
    active: Bool[Array, "seeds"],
    ars: ARS,
    ends: LinearEnds,
) -> Searched:
    """A seed that is not active stays as it is."""

    def of_seed(state: Searched, deltas: Array, steps: Transition, returns: Array, active: Array) -> Searched:
        x, m = (jnp.moveaxis(leaf, 1, 0) for leaf in (steps.observation, steps.descriptor))
        z = ends.inputs(x, m)
        seen = state.seen.joined(z.reshape(z.shape[0], -1), steps.counts.ravel())
        after = Searched(ars.moved(state.weights, deltas, returns), seen, state.updates + 1)
        return jax.tree.map(lambda new, old: jnp.where(active, new, old), after, state)

    return jax.vmap(of_seed)(state, deltas, steps, returns, active)
