"""Sarsa(lambda) over the discrete part of parameterised actions (a, x), while Gaussians draw the numbers x.

Q(s, a) = omega_a . phi(s),   a ~ exp(Q / T),   x ~ N(theta_a psi(s), sigma^2)
e <- gamma lambda e + phi(s, a),   omega <- omega + alpha (r + gamma Q(s', a') - Q(s, a)) e

Each wave learns with alpha / |c_i|. alpha shrinks where a step would overshoot: 1 / |e . (gamma phi' - phi)| is the most that is
stable (Dabney and Barto, 2012).
"""

from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from asap.base.arrays import pick
from asap.base.keys import Key, fold, normals, uniforms
from asap.base.types import Transition
from asap.experience.counted_play import StepChoice
from asap.experience.rollout import Choice, Uniforms
from asap.rivals.features import AffineBasis, FourierBasis
from asap.rivals.parameterized_actions import Act

Basis = FourierBasis | AffineBasis  # Or any frozen dataclass that can do the same.
NONE = -1


class ParameterizedPolicy(eqx.Module):
    """Draws the choice from its values, then its numbers."""

    omega: Float[Array, "C F"]
    theta: Float[Array, "C P B"]
    temperature: Float[Array, ""]
    values: Basis = eqx.field(static=True)
    means: Basis = eqx.field(static=True)
    deviation: float = eqx.field(static=True)  # The square root of the variance.

    def draws(self, key: Key) -> Uniforms:
        numbers = [normals(fold(key, 1, i))[0] for i in range(self.theta.shape[1])]
        return uniforms(fold(key, 0))[0], *numbers

    def choose(self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]) -> Choice:
        which = self.which(draws[0], self.values(x, m))
        return which, self.act(which, draws, x, m)

    def which(self, uniform: Float[Array, ""], phi: Float[Array, "F"]) -> Int[Array, ""]:
        return pick(uniform, jax.nn.softmax(self.omega @ phi / self.temperature))

    def act(self, which: Int[Array, ""], draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"]) -> Array:
        numbers = self.theta[which] @ self.means(x, m) + self.deviation * jnp.stack(draws[1:])
        return Act(which, numbers).vector


class SarsaState(NamedTuple):
    """Of one seed."""

    omega: Float[Array, "C F"]
    theta: Float[Array, "C P B"]  # Fixed as long as values are learned.
    traces: Float[Array, "C F"]
    next_choice: Int[Array, ""]  # Drawn already where the episode goes on.
    step_size: Float[Array, ""]
    temperature: Float[Array, ""]
    cooling: Float[Array, ""]  # Factor on the temperature of each step.
    largest_reward: Float[Array, ""]  # In size, so far: what temperatures are shares of.


@dataclass(frozen=True)
class ParameterizedSarsa:
    """A learner of steps."""

    values: Basis
    means: Basis
    takes: tuple[int, ...]  # Numbers of each choice.
    discount: float
    trace: float  # lambda
    step_size: float
    deviation: float

    def begin(self, key: Key) -> SarsaState:
        omega = jnp.zeros((len(self.takes), self.values.size))
        theta = jnp.zeros((len(self.takes), max(self.takes), self.means.size))
        one = jnp.float32(1)
        return SarsaState(omega, theta, omega, jnp.int32(NONE), self.step_size * one, one, one, 1e-6 * one)

    def policy(self, state: SarsaState) -> ParameterizedPolicy:
        temperature = state.temperature * state.largest_reward
        return ParameterizedPolicy(
            state.omega, state.theta, temperature, self.values, self.means, deviation=self.deviation
        )

    def choose(self, key: Key, state: SarsaState, x: Float[Array, "O"], m: Float[Array, "Z"]) -> StepChoice:
        policy = self.policy(state)
        draws = policy.draws(key)
        which = jnp.where(state.next_choice == NONE, policy.which(draws[0], self.values(x, m)), state.next_choice)
        return StepChoice(state, which, policy.act(which, draws, x, m))

    def learn(self, key: Key, state: SarsaState, step: Transition) -> SarsaState:
        state = state._replace(largest_reward=jnp.maximum(state.largest_reward, jnp.abs(step.reward)))
        phi = self.values(step.observation, step.descriptor)
        next_phi = self.values(step.next_observation, step.descriptor)
        which = jnp.where(step.terminated, 0, self.policy(state).which(uniforms(key)[0], next_phi))
        gamma = jnp.where(step.terminated, 0.0, self.discount)
        chosen, then = (jax.nn.one_hot(choice, len(self.takes))[:, None] for choice in (step.skill, which))
        difference = gamma * then * next_phi - chosen * phi
        error = step.reward + (state.omega * difference).sum()
        traces = self.discount * self.trace * state.traces + chosen * phi
        scaled = traces * getattr(self.values, "step_scales", 1.0)
        overshoot = jnp.abs((scaled * difference).sum())
        step_size = jnp.minimum(state.step_size, 1 / jnp.maximum(overshoot, 1e-6))
        return state._replace(
            omega=state.omega + step_size * error * scaled,
            traces=jnp.where(step.ended, 0.0, traces),
            next_choice=jnp.where(step.ended, NONE, which),
            step_size=step_size,
            temperature=state.temperature * state.cooling,
        )


def num_parameters(learner: ParameterizedSarsa) -> int:
    """Of the policy of one seed."""
    return len(learner.takes) * learner.values.size + sum(learner.takes) * learner.means.size
