"""Sarsa(lambda) and Q-learning with linear values: an implementation of ours of what Rummery and Niranjan (1994) and Watkins
(1989) describe, with the Fourier features of Konidaris, Osentoski and Thomas (2011). Numbered observations are tabular.

    delta = r + gamma (1 - terminated) Q(x', a') - Q(x, a)      Q-learning: max_a' in place of the a' that comes next
    e    <- gamma lambda e + phi(x) at a                        0 when an episode begins; Q-learning has lambda = 0
    w_i  <- w_i + alpha_i delta e_i

alpha_i is the step size divided by |c_i|, and by the largest |phi(x)|^2: above 2 it would diverge, whatever the features.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.arrays import pick
from asap.base.keys import Key, uniforms
from asap.base.spec import TaskSet
from asap.base.types import Transition
from asap.experience.choose import counted_play
from asap.experience.counted_play import CountedPlay, StepChoice, StepCounter
from asap.policy.policy import NO_SKILL
from asap.rivals.features import AffineBasis, FourierBasis, fourier, inputs_of
from asap.rivals.protocol import Agents, has_discrete_actions

ValueBasis = FourierBasis | AffineBasis
NOT_CHOSEN = -1


class Exploration(NamedTuple):
    """How choices follow from values: epsilon-greedy, or with a temperature Boltzmann's.

    What is learned acts so, too: a policy without chance is stuck at a wall for a whole episode, and learns no way out.
    """

    epsilon: float
    temperature: float | None = None

    def chances(self, values: Float[Array, "A"]) -> Float[Array, "A"]:
        """Equal values have equal chances: in a task that pays at its end alone, all are equal at first."""
        if self.temperature is not None:
            return jax.nn.softmax(values / self.temperature)
        best = (values == values.max()).astype(values.dtype)
        return self.epsilon / values.shape[0] + (1 - self.epsilon) * best / best.sum()


class ValueActor(eqx.Module):
    """Chooses by the values of actions; has no skills."""

    weights: Float[Array, "A F"]
    basis: ValueBasis = eqx.field(static=True)
    exploration: Exploration = eqx.field(static=True)

    def draws(self, key: Key) -> tuple[Float[Array, ""], ...]:
        return uniforms(key)[:1]

    def choose(
        self, draws: tuple[Float[Array, ""], ...], x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        return jnp.int32(NO_SKILL), pick(draws[0], self.exploration.chances((self.weights * self.basis(x, m)).sum(-1)))


class ValueState(NamedTuple):
    weights: Float[Array, "A F"]
    trace: Float[Array, "A F"]
    next_action: Int[Array, ""]  # Sarsa: the a' that was chosen with what was known before the step was learned.


@dataclass(frozen=True)
class ValueLearner:
    """Both algorithms, one step at a time."""

    basis: ValueBasis
    step_sizes: tuple[float, ...]  # Of each feature.
    num_actions: int
    discount: float
    exploration: Exploration
    trace: float
    on_policy: bool

    def begin(self, key: Key) -> ValueState:
        return self.begin_with(jnp.zeros((self.num_actions, self.basis.size)))

    def begin_with(self, weights: Float[Array, "A F"]) -> ValueState:
        return ValueState(weights, jnp.zeros_like(weights), jnp.int32(NOT_CHOSEN))

    def choose(self, key: Key, state: ValueState, x: Float[Array, "O"], m: Float[Array, "Z"]) -> StepChoice:
        action = jnp.where(state.next_action == NOT_CHOSEN, self._drawn(key, state, x, m), state.next_action)
        return StepChoice(state, jnp.int32(NO_SKILL), action)

    def _drawn(self, key: Key, state: ValueState, x: Float[Array, "O"], m: Float[Array, "Z"]) -> Int[Array, ""]:
        return pick(uniforms(key)[0], self.exploration.chances((state.weights * self.basis(x, m)).sum(-1)))

    def learn(self, key: Key, state: ValueState, step: Transition) -> ValueState:
        phi = self.basis(step.observation, step.descriptor)
        values = (state.weights * self.basis(step.next_observation, step.descriptor)).sum(-1)
        following = self._drawn(key, state, step.next_observation, step.descriptor)
        worth = values[following] if self.on_policy else values.max()
        target = step.reward + self.discount * jnp.where(step.terminated, 0.0, worth)
        taken = (jnp.arange(self.num_actions) == step.action)[:, None] * phi
        trace = self.discount * self.trace * state.trace + taken if self.trace else taken
        delta = target - (state.weights * taken).sum()
        weights = state.weights + np.float32(self.step_sizes) * delta * trace
        if not self.on_policy:
            following = jnp.int32(NOT_CHOSEN)
        return ValueState(
            weights, jnp.where(step.ended, 0.0, trace), jnp.where(step.ended, NOT_CHOSEN, following).astype(jnp.int32)
        )


@dataclass(frozen=True)
class Sarsa:
    """Sarsa(lambda)."""

    name: str = "sarsa"
    representation: str = "native"
    learns_skills: bool = True
    step_size: float = 0.1
    trace: float = 0.9
    epsilon: float = 0.05
    temperature: float | None = None  # Boltzmann's choice in place of epsilon-greedy.
    order: int = 5  # Of the Fourier features.

    def why_not(self, tasks: TaskSet) -> str | None:
        return has_discrete_actions(tasks)

    def learner(self, basis: ValueBasis, tasks: TaskSet) -> ValueLearner:
        return value_learner(self, basis, tasks, self.trace, on_policy=True)

    def learn(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Any = None) -> Agents:
        return learned_values(self, tasks, seeds, counter, start)


@dataclass(frozen=True)
class QLearning:
    """Q-learning."""

    name: str = "q-learning"
    representation: str = "native"
    learns_skills: bool = True
    step_size: float = 0.5
    epsilon: float = 0.05
    temperature: float | None = None
    order: int = 5

    def why_not(self, tasks: TaskSet) -> str | None:
        return has_discrete_actions(tasks)

    def learner(self, basis: ValueBasis, tasks: TaskSet) -> ValueLearner:
        return value_learner(self, basis, tasks, trace=0.0, on_policy=False)

    def learn(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Any = None) -> Agents:
        return learned_values(self, tasks, seeds, counter, start)


def value_learner(
    system: Sarsa | QLearning, basis: ValueBasis, tasks: TaskSet, trace: float, on_policy: bool
) -> ValueLearner:
    spec, exploration = tasks.spec, Exploration(system.epsilon, system.temperature)
    sizes = tuple((system.step_size * unit_steps(basis, spec.numbered)).tolist())
    return ValueLearner(basis, sizes, spec.num_actions, spec.discount, exploration, trace, on_policy)


def learned_values(
    system: Sarsa | QLearning, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: ValueActor | None
) -> Agents:
    with contextlib.closing(counted_play(tasks, seeds, counter)) as play:
        basis = value_basis(tasks, play, system.representation, system.order) if start is None else start.basis
        learner = system.learner(basis, tasks)
        state = None if start is None else jax.vmap(learner.begin_with)(start.weights)
        weights = play.learn(learner, start=state).state.weights
    actors = ValueActor(weights, basis, learner.exploration)
    return Agents(actors, 0, weights[0].size, counter.used.copy(), counter.curves(), actors)


def value_basis(tasks: TaskSet, play: CountedPlay, representation: str, order: int) -> ValueBasis:
    """Fourier, or [1, x, y] of the inputs where all systems see the same."""
    inputs = inputs_of(tasks, play)
    return AffineBasis(inputs) if representation == "equal" else fourier(inputs, order, numbered=tasks.spec.numbered)


def unit_steps(basis: ValueBasis, numbered: bool) -> Float[np.ndarray, "F"]:
    """Step sizes of the features with which one step at x leads to the target, or not beyond it."""
    largest = 1 + basis.inputs.num_descriptors if numbered else basis.size  # Of |phi(x)|^2.
    return basis.step_scales / np.float32(largest)
