"""Q-PAMDP(1) of Masson, Ranchod and Konidaris, "Reinforcement Learning with Parameterized Actions", AAAI 2016.

An implementation of ours, not the authors' code. Actions are (a, x): Q_omega chooses a, Gaussians with means theta_a psi(s) draw x.

    omega <- Sarsa(lambda) with theta as it is
    repeat: theta <- theta + beta w / |w|,  w the natural gradient of R rollouts (eNAC)
            omega <- Sarsa(lambda) for the new theta, exploring anew

The variance sigma^2 of x is a setting, and x is drawn with its square root as the standard deviation. Published code draws with the
variance itself in place of the deviation in some branches.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from asap.base.spec import TaskSet
from asap.envs.goal_domain import GoalDomain
from asap.experience.compiled_play import CompiledPlay
from asap.experience.counted_play import CountedPlay, Running, StepCounter
from asap.rivals.enac import Rollouts, improved
from asap.rivals.features import AffineBasis, Inputs01, fourier, inputs_of
from asap.rivals.parameterized_actions import Parameterized, has_parameterized, parameterized
from asap.rivals.parameterized_sarsa import Basis, ParameterizedSarsa, SarsaState, num_parameters
from asap.rivals.protocol import Agents

COOLEST = 0.1  # Share of the temperature that is left when the learning of values ends.


@dataclass(frozen=True)
class QPAMDP:
    """It plays our rooms and strikers with actions of its own, and so evaluates itself."""

    name: str = "q-pamdp"
    representation: str = "native"
    learns_skills: bool = True  # False: Sarsa alone; theta stays as it began.
    order: int = 3  # Of the Fourier features of Q; with `representation="equal"` they are [1, x, y].
    mean_order: int = 2  # Of those of the means, in which no inputs are coupled; "equal": they are constant.
    trace: float = 0.5  # lambda
    step_size: float = 0.05  # alpha, of Sarsa
    temperature: float = 0.01  # Of the choice, as a share of the largest reward.
    variance: float = 1.0
    rollouts: int = 15  # R
    step: float = 1.0  # beta
    first_steps: int = 20_000  # Of Sarsa, before the first rollouts,
    further_steps: int = 2_000  # and after each batch of them.
    hand_set: bool = False  # theta begins with numbers that a person would choose; otherwise with 0.
    evaluation_episodes: int = 200

    def why_not(self, tasks: TaskSet) -> str | None:
        if not all(map(has_parameterized, tasks.tasks)):
            return "only the rooms and the strikers have parameterised actions"
        return None

    def learn(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Any = None) -> Agents:
        own = parameterized(tasks)
        play = CompiledPlay(own, seeds, counter)
        inputs = inputs_of(tasks, play)
        learner = self.learner(own.env, *self._bases(inputs))
        states = self.improve(play, learner, AffineBasis(inputs), own.env, start)
        actors, num_skills = learner.policy(states), len(own.env.takes)
        evaluation = play.evaluate(actors, self.evaluation_episodes, num_skills)
        num, curves = num_parameters(learner), counter.curves()
        return Agents(actors, num_skills, num, counter.used.copy(), curves, states, evaluation)

    def _bases(self, inputs: Inputs01) -> tuple[Basis, Basis]:
        """Of the values, and of the means."""
        if self.representation == "equal":
            return AffineBasis(inputs), Constant()
        return fourier(inputs, self.order), fourier(inputs, self.mean_order, most_coupled=1)

    def learner(self, env: Parameterized | GoalDomain, values: Basis, means: Basis) -> ParameterizedSarsa:
        settings = self.trace, self.step_size, math.sqrt(self.variance)
        return ParameterizedSarsa(values, means, env.takes, env.spec.discount, *settings)

    def improve(
        self,
        play: CompiledPlay,
        learner: ParameterizedSarsa,
        starts: Basis,
        env: Parameterized | GoalDomain,
        begun: SarsaState | None = None,
    ) -> SarsaState:
        """Until the budget is used up: what is learned by then. `starts`: phi(s0)."""
        running = play.learn(learner, 0)
        if begun is not None:
            running = _with(running, omega=begun.omega, theta=begun.theta, largest_reward=begun.largest_reward)
        elif self.hand_set:
            running = _with(running, theta=np.broadcast_to(_numbers(env, learner), running.state.theta.shape))
        longest, everyone = env.spec.horizon * self.rollouts, np.ones(len(play.seeds), bool)
        if self.learns_skills:
            first = min(self.first_steps if begun is None else self.further_steps, int(play.counter.left.min()))
            running = self._valued(play, learner, running, first, everyone)
            while (active := play.counter.left >= longest + self.further_steps).any():
                running = self._stepped(play, learner, starts, running, active)
                running = self._valued(play, learner, running, self.further_steps, active)
        while (active := play.counter.left > 0).any():
            left = int(play.counter.left[active].min())
            running = self._valued(play, learner, running, left, active)
        return running.state

    def _valued(
        self,
        play: CompiledPlay,
        learner: ParameterizedSarsa,
        running: Running,
        num_steps: int,
        active: Bool[np.ndarray, "seeds"],
    ) -> Running:
        """After Sarsa that explores anew."""
        if num_steps == 0:
            return running
        ones = np.ones(len(play.seeds), np.float32)
        afresh = {"step_size": self.step_size, "temperature": self.temperature, "cooling": COOLEST ** (1 / num_steps)}
        begun = _with(running, **{name: np.float32(value) * ones for name, value in afresh.items()})
        return _kept(active, play.learn(learner, num_steps, begun, active), running)

    def _stepped(
        self,
        play: CountedPlay,
        learner: ParameterizedSarsa,
        starts: Basis,
        running: Running,
        active: Bool[np.ndarray, "seeds"],
    ) -> Running:
        """After one step of policy search, for seeds that are active."""
        policies = learner.policy(running.state)
        steps, _ = play.play(policies, self.rollouts, active)
        rollouts = Rollouts.of(policies, steps, starts, learner.takes)
        theta = improved(np.asarray(running.state.theta), rollouts, self.step)
        return _kept(active, _with(running, theta=theta), running)


@dataclass(frozen=True)
class Constant:
    """Means that do not depend on the state."""

    size: int = 1

    def __call__(self, x: Float[Array, "O"], m: Float[Array, "Z"]) -> Float[Array, "1"]:
        return jnp.ones(1)


def _numbers(env: Parameterized | GoalDomain, learner: ParameterizedSarsa) -> Float[np.ndarray, "C P B"]:
    """The hand-set numbers, the same in every state: the first feature of the means is 1."""
    theta = np.zeros((len(env.takes), max(env.takes), learner.means.size), np.float32)
    for choice, numbers in enumerate(env.hand_set):
        theta[choice, : len(numbers), 0] = numbers
    return theta


def _with(running: Running, **parts: Any) -> Running:
    return running._replace(state=running.state._replace(**parts))


def _kept(active: Bool[np.ndarray, "seeds"], after: Running, before: Running) -> Running:
    """Seeds that are not active stay as they were."""

    def chosen(new: Any, old: Any) -> Any:
        return np.where(active.reshape(-1, *[1] * (np.ndim(new) - 1)), new, old)

    return jax.tree.map(chosen, after, before)
