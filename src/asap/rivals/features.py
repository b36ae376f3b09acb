"""Features of the systems that learn values: over the inputs that a task names, each scaled to [0, 1] by its range.

Fourier:  phi_i(x) = cos(pi c_i . x),  c_i of whole numbers up to an order, of which few are not 0 (Konidaris et al., 2011)
"""

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asap.base.arrays import stack
from asap.base.spec import TaskSet
from asap.experience.counted_play import CountedPlay
from asap.policy.build import uniform_policy

RANDOM_EPISODES = 10  # Of each seed, to learn the range of observations without bounds.
LARGEST_BOUND = 1e6
MARGIN = 0.25  # Of the width seen, added to both sides: learning leads further than random play.


@dataclass(frozen=True)
class Inputs01:
    """Which numbers of an observation are used, and the ranges that become [0, 1]; m comes behind, from [-1, 1]."""

    chosen: tuple[int, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    num_descriptors: int  # 0 where there is one task.

    @property
    def size(self) -> int:
        return len(self.chosen) + self.num_descriptors

    def __call__(self, x: Float[Array, "O"], m: Float[Array, "Z"]) -> Float[Array, "D"]:
        low, high = np.float32(self.low), np.float32(self.high)
        inputs = (x[np.asarray(self.chosen)] - low) / (high - low)
        return jnp.clip(jnp.concatenate([inputs, (m + 1) / 2]) if self.num_descriptors else inputs, 0.0, 1.0)


@dataclass(frozen=True)
class FourierBasis:
    """Numbered observations stay as they are: one feature per state."""

    inputs: Inputs01
    coefficients: tuple[tuple[int, ...], ...]  # Empty for numbered observations.

    @property
    def size(self) -> int:
        return len(self.coefficients) or self.inputs.size

    @property
    def step_scales(self) -> Float[np.ndarray, "F"]:
        """1 / |c_i|: fast waves learn in small steps, else they diverge."""
        norms = np.linalg.norm(np.asarray(self.coefficients, float).reshape(self.size, -1), axis=1)
        return np.float32(1 / np.maximum(norms, 1.0))

    def __call__(self, x: Float[Array, "O"], m: Float[Array, "Z"]) -> Float[Array, "F"]:
        inputs = self.inputs(x, m)
        return jnp.cos(np.pi * (np.float32(self.coefficients) @ inputs)) if self.coefficients else inputs


@dataclass(frozen=True)
class AffineBasis:
    """[1, inputs], each from -1 to 1: what the planes of ASAP see in the rooms.

    From 0 to 1, a value that falls everywhere would fall least where the inputs are 0, and lead there.
    """

    inputs: Inputs01

    @property
    def size(self) -> int:
        return 1 + self.inputs.size

    @property
    def step_scales(self) -> Float[np.ndarray, "F"]:
        return np.ones(self.size, np.float32)

    def __call__(self, x: Float[Array, "O"], m: Float[Array, "Z"]) -> Float[Array, "F"]:
        return jnp.concatenate([jnp.ones(1), 2 * self.inputs(x, m) - 1])


class RawInputs(NamedTuple):
    """For systems that need no ranges: the numbers of an observation that are used, as they are, and m behind them."""

    chosen: tuple[int, ...]
    has_descriptor: bool

    @classmethod
    def of(cls, tasks: TaskSet, representation: str) -> "RawInputs":
        """All of an observation; on the equal track, what the planes of ASAP see."""
        every = tasks.spec.observation_names
        names = tasks.tasks[0].inputs if representation == "equal" else every
        return cls(tuple(map(every.index, names)), tasks.size > 1)

    def __call__(self, x: Float[Array, "O *batch"], m: Float[Array, "Z *batch"]) -> Float[Array, "D *batch"]:
        inputs = jnp.stack([x[index] for index in self.chosen])
        return jnp.concatenate([inputs, m]) if self.has_descriptor else inputs


def fourier(inputs: Inputs01, order: int, most_coupled: int = 2, numbered: bool = False) -> FourierBasis:
    """All waves up to an order in which at most so many inputs take part."""
    if numbered:
        return FourierBasis(inputs, ())
    waves = [(0,) * inputs.size]
    for count in range(1, min(most_coupled, inputs.size) + 1):
        for places in itertools.combinations(range(inputs.size), count):
            for wave in itertools.product(range(1, order + 1), repeat=count):
                at = dict(zip(places, wave))
                waves.append(tuple(at.get(d, 0) for d in range(inputs.size)))
    return FourierBasis(inputs, tuple(waves))


def inputs_of(tasks: TaskSet, play: CountedPlay) -> Inputs01:
    """The inputs that the tasks name. Where there are no bounds, random episodes are played, and counted."""
    spec, names = tasks.spec, tasks.tasks[0].inputs
    chosen = tuple(spec.observation_names.index(name) for name in names)
    low, high = (np.asarray(bound, float)[list(chosen)] for bound in (spec.observation_low, spec.observation_high))
    bounded = np.isfinite(low) & np.isfinite(high) & (np.maximum(abs(low), abs(high)) < LARGEST_BOUND)
    if not bounded.all():
        at_random = stack([uniform_policy(tasks.tasks[0])] * len(play.seeds))
        steps, _ = play.play(at_random, RANDOM_EPISODES)
        seen = np.moveaxis(np.asarray(steps.observation), 1, -1)[np.asarray(steps.counts)][:, list(chosen)]
        width = np.maximum(seen.max(0) - seen.min(0), 1e-6)
        low = np.where(bounded, low, seen.min(0) - MARGIN * width)
        high = np.where(bounded, high, seen.max(0) + MARGIN * width)
    high = np.where(high > low, high, low + 1)
    num_descriptors = tasks.descriptors.shape[1] if tasks.size > 1 else 0
    return Inputs01(chosen, tuple(low.tolist()), tuple(high.tolist()), num_descriptors)
