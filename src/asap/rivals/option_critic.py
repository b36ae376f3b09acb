"""Option-Critic (Bacon, Harb and Precup, 2017): an implementation of ours, not the authors' code.

N options o, each with a softmax policy pi_o(a | x) and a sigmoid termination beta_o(x), are called by a policy over options
that is epsilon-greedy (or softmax) in Q(x, o); an option in force stays until it terminates. After a step to x':

    U(x', o) = (1 - beta_o(x')) Q(x', o) + beta_o(x') V(x'),  V = max_o' Q(x', o')
    y        = r + gamma (1 - terminated) U(x', o)
    Q(x, o)     += alpha (y - Q(x, o))                                          intra-option Q-learning
    theta_o     += alpha_theta grad log pi_o(a | x) (y - Q(x, o))               with Q as the baseline
    vartheta_o  -= alpha_vartheta grad beta_o(x') (Q(x', o) - V(x') + xi)       at x', not x; not at the end

y stands for Q_U(x, o, a), of which it is a sample: learned values of actions lag behind Q wherever they are taken less often.
pi_o is a softmax of theta / T. The factor 1 / T of its gradient is left out: it counts as part of alpha_theta. With T = 0.001
it would be a thousand. With one option this is a primitive actor-critic.
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
from asap.base.keys import Key, fold, many_uniforms, normals
from asap.base.spec import TaskSet
from asap.base.types import Transition
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepChoice, StepCounter
from asap.policy.build import START_SCALE
from asap.policy.policy import NO_SKILL
from asap.rivals.features import FourierBasis
from asap.rivals.protocol import Agents, has_discrete_actions
from asap.rivals.values import Exploration, ValueBasis, unit_steps, value_basis

Draws = tuple[Float[Array, ""], ...]


class Options(NamedTuple):
    """What is learned."""

    values: Float[Array, "N F"]
    theta: Float[Array, "N A G"]
    vartheta: Float[Array, "N F"]


@dataclass(frozen=True)
class OptionModel:
    """How options choose: features of values and terminations (psi) and of the options' policies (phi), and settings."""

    psi: ValueBasis
    phi: ValueBasis
    temperature: float
    exploration: Exploration
    terminates_always: bool

    def termination(self, options: Options, psi: Float[Array, "F"]) -> Float[Array, "N"]:
        chances = jax.nn.sigmoid(options.vartheta @ psi)
        return jnp.ones_like(chances) if self.terminates_always else chances

    def action_chances(self, theta: Float[Array, "A G"], phi: Float[Array, "G"]) -> Float[Array, "A"]:
        return jax.nn.softmax(theta @ phi / self.temperature)

    def choose(
        self, options: Options, draws: Draws, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        psi = self.psi(x, m)
        leaves = (previous == NO_SKILL) | (draws[0] < self.termination(options, psi)[previous])
        anew = pick(draws[1], self.exploration.chances(options.values @ psi))
        option = jnp.where(leaves, anew, previous).astype(jnp.int32)
        return option, pick(draws[2], self.action_chances(options.theta[option], self.phi(x, m)))


class OptionActor(eqx.Module):
    """Call and return: `previous` is the option in force."""

    options: Options
    model: OptionModel = eqx.field(static=True)

    def draws(self, key: Key) -> Draws:
        """To terminate, for the option, for the action."""
        return many_uniforms(key, 3)

    def choose(
        self, draws: Draws, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        return self.model.choose(self.options, draws, x, m, previous)


class OptionState(NamedTuple):
    options: Options
    option: Int[Array, ""]  # In force.


@dataclass(frozen=True)
class OptionLearner:
    """The updates above, one step at a time."""

    model: OptionModel
    num_options: int
    num_actions: int
    discount: float
    reward_scale: float
    value_steps: tuple[float, ...]  # Of each feature of psi.
    theta_steps: tuple[float, ...]  # Of phi; zeros keep the options' policies as they began.
    termination_steps: tuple[float, ...]
    margin: float

    def begin(self, key: Key) -> OptionState:
        """Policies start near uniform, and each a little different: equal ones would never part."""
        (n, a), psi, phi = (self.num_options, self.num_actions), self.model.psi.size, self.model.phi.size
        noise = normals(fold(key, jnp.arange(n * a * phi)))[0].reshape(n, a, phi)
        theta = START_SCALE * self.model.temperature * noise
        return self.begin_with(Options(jnp.zeros((n, psi)), theta, jnp.zeros((n, psi))))

    def begin_with(self, options: Options) -> OptionState:
        return OptionState(options, jnp.int32(NO_SKILL))

    def choose(self, key: Key, state: OptionState, x: Float[Array, "O"], m: Float[Array, "Z"]) -> StepChoice:
        option, action = self.model.choose(state.options, many_uniforms(key, 3), x, m, state.option)
        return StepChoice(state._replace(option=option), option, action)

    def learn(self, key: Key, state: OptionState, step: Transition) -> OptionState:
        option, action, m = step.skill, step.action, step.descriptor
        psi, next_psi = self.model.psi(step.observation, m), self.model.psi(step.next_observation, m)
        phi = self.model.phi(step.observation, m)
        is_option = jnp.arange(self.num_options) == option
        is_action = jnp.arange(self.num_actions) == action
        values, theta, vartheta = state.options
        terminations = self.model.termination(state.options, next_psi)

        beta, worth = terminations[option], values @ next_psi
        going_on = (1 - beta) * worth[option] + beta * worth.max()
        target = self.reward_scale * step.reward + self.discount * jnp.where(step.terminated, 0.0, going_on)
        advantage = target - values[option] @ psi
        values = values + is_option[:, None] * np.float32(self.value_steps) * advantage * psi
        slope = (is_action - self.model.action_chances(theta[option], phi))[:, None] * phi
        theta = theta + is_option[:, None, None] * np.float32(self.theta_steps) * advantage * slope

        # Termination, at x'.
        worth = values @ next_psi
        regret = jnp.where(step.terminated, 0.0, worth[option] - worth.max() + self.margin)
        slope = beta * (1 - beta) * next_psi
        vartheta = vartheta - is_option[:, None] * np.float32(self.termination_steps) * regret * slope
        option = jnp.where(step.ended, NO_SKILL, option).astype(jnp.int32)
        return OptionState(Options(values, theta, vartheta), option)


@dataclass(frozen=True)
class OptionCritic:
    """Settings. The equal track has policies that do not see the state, and values and terminations over [1, x, y]."""

    name: str = "option-critic"
    representation: str = "native"
    learns_skills: bool = True  # False: the options' policies stay as they began.
    num_options: int = 4
    terminates_always: bool = False  # The control without extension in time: beta = 1.
    step_size: float = 0.2  # Of the values.
    step_size_theta: float = 0.1
    step_size_termination: float = 0.25
    temperature: float = 0.3  # Of the options' policies.
    epsilon: float = 0.05
    option_temperature: float | None = 0.02  # Of a softmax policy over options; None: epsilon-greedy.
    margin: float = 0.0  # xi: what staying is worth.
    reward_scale: float = 0.01  # Temperatures are for returns of about 1.
    order: int = 3  # Of the Fourier features.

    def why_not(self, tasks: TaskSet) -> str | None:
        return has_discrete_actions(tasks)

    def learn(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Any = None) -> Agents:
        with contextlib.closing(counted_play(tasks, seeds, counter)) as play:
            basis = value_basis(tasks, play, self.representation, self.order) if start is None else start.model.psi
            learner = self.learner(basis, tasks)
            state = None if start is None else jax.vmap(learner.begin_with)(start.options)
            options = play.learn(learner, start=state).state.options
        actors, size = OptionActor(options, learner.model), sum(leaf[0].size for leaf in options)
        return Agents(actors, self.num_options, size, counter.used.copy(), counter.curves(), actors)

    def learner(self, psi: ValueBasis, tasks: TaskSet) -> OptionLearner:
        spec, phi = tasks.spec, psi
        if self.representation == "equal":
            phi = FourierBasis(psi.inputs, ((0,) * psi.inputs.size,))  # 1, whatever the state.
        of_psi, of_phi = (unit_steps(basis, spec.numbered) for basis in (psi, phi))
        exploration = Exploration(self.epsilon, self.option_temperature)
        return OptionLearner(
            OptionModel(psi, phi, self.temperature, exploration, self.terminates_always),
            self.num_options,
            spec.num_actions,
            spec.discount,
            self.reward_scale,
            tuple((self.step_size * of_psi).tolist()),
            tuple((self.step_size_theta * self.learns_skills * of_phi).tolist()),
            tuple((self.step_size_termination * of_psi).tolist()),
            self.margin,
        )
