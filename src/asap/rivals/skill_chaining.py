"""Skill chaining: options that lead to the goal, then options that lead to those, back to where episodes start.

After Konidaris and Barto, Skill Discovery in Continuous Reinforcement Learning Domains using Skill Chaining (2009). An
implementation of ours from the paper's description, not the authors' code. In short:

    agent     epsilon-greedy SMDP-Sarsa (in expected form) over primitive actions and the options that may begin at x
    option n  Q-learning from all steps, off-policy, with a payment where its target T_n is reached; T_0 = goal, T_n = I_n-1
    I_n       logistic regression: was T_n reached within tmax steps of x? (`asap.rivals.initiation`)
    growth    for `gestation` episodes that reach T_n option n is learned and not used; then, if I_n does not contain the
              region where episodes start, option n + 1 begins with the target I_n

The chain is one path of at most `num_options`; the paper's may branch. Waves have the rate alpha / |c_i|. Rewards are divided by the
largest that was seen. An end of an episode is the goal if it pays more than any other step, or where every step costs as much
(`RewardsSeen.is_goal`). A task without such an end, like CartPole, has no options: there it is Sarsa.

With the equal representation an option's policy does not depend on the state, and choices and initiation sets are of [1, x, y].
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import jax

from asap.base.spec import TaskSet
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepCounter
from asap.rivals.chain_learner import ChainLearner, ChainState
from asap.rivals.features import AffineBasis, FourierBasis, Inputs01, fourier, inputs_of
from asap.rivals.option_chain import ChainBases
from asap.rivals.protocol import Agents, has_discrete_actions

MOST_COUPLED_INPUTS = 12  # With more inputs, each wave runs along one of them.


@dataclass(frozen=True)
class SkillChaining:
    """Rates are of the share of an error that one step corrects at most."""

    representation: str = "native"
    learns_skills: bool = True
    num_options: int = 5
    tmax: int = 20  # Steps in which an option is to reach its target.
    gestation: int = 50  # Episodes that reach the target.
    epsilon: float = 0.05
    discount: float | None = None  # None: the task's own.
    choice_rate: float = 0.1
    option_rate: float = 0.1
    order: int = 5  # Of the Fourier features, of choices
    option_order: int = 3  # and inside options.
    log_size: int = 1000  # Steps from which initiation sets are fitted,
    refit_every: int = 1000  # and after how many new ones.
    sweeps: int = 6
    name: str = "skill-chaining"

    def why_not(self, tasks: TaskSet) -> str | None:
        return has_discrete_actions(tasks)

    def learn(
        self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: ChainState | None = None
    ) -> Agents:
        with contextlib.closing(counted_play(tasks, seeds, counter)) as play:
            inputs = inputs_of(tasks, play) if start is None else start.chain.bases.choice.inputs
            learner = self.learner(tasks, inputs)
            state = play.learn(learner, start=start).state
        state = jax.vmap(learner.at_rest)(state)
        chain = state.chain
        num_parameters = sum(weights[0].size for weights in (chain.values, chain.policies, chain.sets))
        return Agents(chain, self.num_options, num_parameters, counter.used.copy(), counter.curves(), state)

    def learner(self, tasks: TaskSet, inputs: Inputs01) -> ChainLearner:
        is_equal, is_numbered = self.representation == "equal", tasks.spec.numbered
        coupled = 2 if inputs.size <= MOST_COUPLED_INPUTS else 1
        waves = fourier(inputs, self.order, coupled, is_numbered)
        inner = fourier(inputs, self.option_order, coupled, is_numbered)
        constant = FourierBasis(inputs, ((0,) * inputs.size,))
        choice, option = (AffineBasis(inputs), constant) if is_equal else (waves, inner)
        degree = 1 if is_equal or is_numbered else 2
        return ChainLearner(
            ChainBases(choice, option, degree, self.epsilon, self.tmax),
            tasks.spec.num_actions,
            self.num_options,
            tasks.spec.discount if self.discount is None else self.discount,
            self.choice_rate,
            self.option_rate,
            self.gestation,
            self.log_size,
            self.refit_every,
            self.sweeps,
            self.learns_skills,
        )
