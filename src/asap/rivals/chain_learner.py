"""Skill chaining, one step at a time: values of choices, policies of options, their initiation sets, and the chain's growth."""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import anyone
from asap.base.keys import Key, fold, normals
from asap.base.types import Transition
from asap.experience.counted_play import StepChoice
from asap.rivals.features import AffineBasis, FourierBasis
from asap.rivals.initiation import StepLog, contained, empty_log, products, refitted, targets, write
from asap.rivals.option_chain import ChainBases, OptionChain

START_SCALE = 0.01  # Policies of options begin at random: equal values would make every option the first action.
COMPLETION = 1.0  # What an option is paid for its target; rewards are scaled to at most 1.
NUM_STARTS = 20  # The last episodes' first states stand for where episodes start,
COVERED = 0.8  # and a set contains that region if it contains so many of them.


class InForce(NamedTuple):
    """What was chosen last, and what it has gathered since."""

    chosen: Int[Array, ""]  # Action, or option behind the actions.
    is_over: Bool[Array, ""]
    phi: Float[Array, "F"]  # Where it was chosen.
    gathered: Float[Array, ""]  # sum_k gamma^k r_k
    discount: Float[Array, ""]  # gamma^steps
    steps: Int[Array, ""]


class RewardsSeen(NamedTuple):
    """What rewards have been like: their scale, and which end of an episode is a good one."""

    largest: Float[Array, ""]  # Absolute.
    best_on_the_way: Float[Array, ""]  # Of steps that did not end an episode.

    def is_goal(self, reward: Float[Array, ""], terminated: Bool[Array, ""]) -> Bool[Array, ""]:
        """An end that pays more than any other step does; or any end, where every other step costs as much or more."""
        pays = reward > jnp.maximum(self.best_on_the_way, 0)
        ends_costs = (self.best_on_the_way < 0) & (reward >= self.best_on_the_way)
        return terminated & (pays | ends_costs)


class Growth(NamedTuple):
    """How far the chain has grown."""

    num_options: Int[Array, ""]  # That exist.
    reached: Bool[Array, "N"]  # Whose target was reached in this episode,
    successes: Int[Array, "N"]  # and in how many episodes.
    starts: Float[Array, "S D"]
    num_starts: Int[Array, ""]
    begins: Bool[Array, ""]  # An episode, with the next step.


class ChainState(NamedTuple):
    chain: OptionChain
    force: InForce
    rewards: RewardsSeen
    growth: Growth
    log: StepLog


class Seen(NamedTuple):
    """A step, as options see it."""

    inputs: Float[Array, "D"]
    next_inputs: Float[Array, "D"]
    reward: Float[Array, ""]  # Scaled.
    at_goal: Bool[Array, ""]
    lost: Bool[Array, ""]
    inside_target: Bool[Array, "N"]  # Before the step.
    hit: Bool[Array, "N"]  # It reached the target of an option from outside.
    inside: Bool[Array, "N"]  # After the step.
    available: Bool[Array, "N"]


@dataclass(frozen=True)
class ChainLearner:
    """Settings are those of `SkillChaining`; rates are of the share of the error that one step corrects at most."""

    bases: ChainBases
    num_actions: int
    num_options: int
    gamma: float
    choice_rate: float
    option_rate: float
    gestation: int
    log_size: int
    refit_every: int
    sweeps: int
    learns_skills: bool
    optimism: float = (
        COMPLETION  # What a new option is worth everywhere at first: by default it is tried as soon as it may be.
    )

    def begin(self, key: Key) -> ChainState:
        bases, num_inputs = self.bases, self.bases.choice.inputs.size
        size = self.num_options * self.num_actions * bases.option.size
        drawn, _ = normals(jax.vmap(lambda i: fold(key, i))(jnp.arange(size)))
        policies = START_SCALE * drawn.reshape(self.num_options, self.num_actions, bases.option.size)
        values = jnp.zeros((self.num_actions + self.num_options, bases.choice.size))
        none = jnp.zeros(self.num_options, bool)
        chain = OptionChain(values, policies, jnp.zeros((self.num_options, bases.num_products)), none, bases)
        starts = jnp.zeros((NUM_STARTS, num_inputs))
        growth = Growth(
            jnp.int32(1), none, jnp.zeros(self.num_options, jnp.int32), starts, jnp.int32(0), jnp.array(True)
        )
        rewards = RewardsSeen(jnp.float32(0), jnp.float32(-np.inf))
        return ChainState(chain, self._nothing(), rewards, growth, empty_log(self.log_size, num_inputs))

    def _nothing(self) -> InForce:
        phi = jnp.zeros(self.bases.choice.size)
        return InForce(jnp.int32(0), jnp.array(True), phi, jnp.float32(0), jnp.float32(1), jnp.int32(0))

    def at_rest(self, state: ChainState) -> ChainState:
        """To begin with on another task: nothing is in force, and initiation sets are fitted once more."""
        ended = state.log.ended.at[(state.log.written - 1) % self.log_size].set(True)
        none, zero = jnp.zeros_like(state.growth.reached), jnp.zeros_like(state.growth.successes)
        growth = state.growth._replace(begins=jnp.array(True), reached=none, successes=zero)
        return state._replace(force=self._nothing(), growth=growth, log=state.log._replace(ended=ended))

    def choose(self, key: Key, state: ChainState, x: Float[Array, "O"], m: Float[Array, "Z"]) -> StepChoice:
        chain, force, draws = state.chain, state.force, state.chain.draws(key)
        _, available = chain.sets_at(x, m)
        chosen = jnp.where(force.is_over, chain.select(draws, x, m, available), force.chosen)
        anew = self._nothing()._replace(chosen=chosen, is_over=jnp.array(False), phi=self.bases.choice(x, m))
        force = jax.tree.map(lambda new, old: jnp.where(force.is_over, new, old), anew, force)
        return StepChoice(state._replace(force=force), *chain.act(draws, x, m, chosen))

    def learn(self, key: Key, state: ChainState, step: Transition) -> ChainState:
        rewards, state = self._rescaled(state, step)
        seen = self._see(state, step)
        policies = self._policies(state, step, seen)
        force, values = self._values(state, step, seen)
        chain = dataclasses.replace(state.chain, policies=policies, values=values)
        log = write(state.log, seen.inputs, seen.next_inputs, seen.at_goal, seen.lost, step.ended)
        growth = self._counted(state.growth, step, seen)
        return self._grown(ChainState(chain, force, rewards, growth, log))

    def _rescaled(self, state: ChainState, step: Transition) -> tuple[RewardsSeen, ChainState]:
        """A reward larger than any before changes the scale, and the values with it."""
        before = state.rewards
        largest = jnp.maximum(before.largest, abs(step.reward))
        ratio = jnp.where(before.largest > 0, before.largest / jnp.maximum(largest, 1e-30), 1.0)
        best = jnp.where(step.ended, before.best_on_the_way, jnp.maximum(before.best_on_the_way, step.reward))
        values = jax.lax.cond(anyone(ratio != 1), lambda: state.chain.values * ratio, lambda: state.chain.values)
        chain = dataclasses.replace(state.chain, values=values)
        force = state.force._replace(gathered=state.force.gathered * ratio)
        rewards = RewardsSeen(largest, best)
        return rewards, state._replace(chain=chain, force=force, rewards=rewards)

    def _see(self, state: ChainState, step: Transition) -> Seen:
        chain, m = state.chain, step.descriptor
        before, _ = chain.sets_at(step.observation, m)
        inside, available = chain.sets_at(step.next_observation, m)
        at_goal = state.rewards.is_goal(step.reward, step.terminated)
        lost = step.terminated & ~at_goal
        inside_target = targets(jnp.zeros((), bool), before)
        inputs, next_inputs = (self.bases.choice.inputs(x, m) for x in (step.observation, step.next_observation))
        return Seen(
            inputs,
            next_inputs,
            step.reward / jnp.maximum(state.rewards.largest, 1e-30),
            at_goal,
            lost,
            inside_target,
            targets(at_goal, inside & ~lost) & ~inside_target,
            inside,
            available,
        )

    def _policies(self, state: ChainState, step: Transition, seen: Seen) -> Float[Array, "N A G"]:
        """Q_n(x, a) += alpha (r + [hit] bonus + [not hit] gamma max Q_n(x', .) - Q_n(x, a)) for every option at once."""
        policies, basis = state.chain.policies, self.bases.option
        if not self.learns_skills:
            return policies
        g, next_g = basis(step.observation, step.descriptor), basis(step.next_observation, step.descriptor)
        goes_on = ~seen.hit & ~step.terminated
        later = jnp.where(goes_on, self.gamma * (policies @ next_g).max(-1), 0.0)
        error = seen.reward + COMPLETION * seen.hit + later - policies[:, step.action] @ g
        error = jnp.where(self._exists(state.growth) & ~seen.inside_target, error, 0.0)
        return policies.at[:, step.action].add(self.option_rate * error[:, None] * _direction(basis, g))

    def _values(self, state: ChainState, step: Transition, seen: Seen) -> tuple[InForce, Float[Array, "C F"]]:
        """SMDP-Sarsa, when what was chosen is over: Q(x, o) += alpha (sum_k gamma^k r_k + gamma^steps V(x') - Q(x, o))."""
        chain, force = state.chain, state.force
        gathered = force.gathered + force.discount * seen.reward
        discount, steps = force.discount * self.gamma, force.steps + 1
        option = jnp.maximum(force.chosen - self.num_actions, 0)
        ends = seen.hit[option] | ~seen.inside[option] | (steps >= self.bases.tmax)
        is_over = (force.chosen < self.num_actions) | ends | step.ended
        next_phi = self.bases.choice(step.next_observation, step.descriptor)
        later = jnp.where(step.terminated, 0.0, chain.expected(next_phi, seen.available))
        error = jnp.where(is_over, gathered + discount * later - chain.values[force.chosen] @ force.phi, 0.0)
        change = self.choice_rate * error * _direction(self.bases.choice, force.phi)
        force = InForce(force.chosen, is_over, force.phi, gathered, discount, steps)
        return force, chain.values.at[force.chosen].add(change)

    def _exists(self, growth: Growth) -> Bool[Array, "N"]:
        return jnp.arange(self.num_options) < growth.num_options

    def _counted(self, growth: Growth, step: Transition, seen: Seen) -> Growth:
        starts = growth.starts.at[growth.num_starts % NUM_STARTS].set(seen.inputs)
        reached = growth.reached | (seen.hit & self._exists(growth))
        return Growth(
            growth.num_options,
            reached & ~step.ended,
            growth.successes + (reached & step.ended),
            jnp.where(growth.begins, starts, growth.starts),
            growth.num_starts + growth.begins,
            step.ended,
        )

    def _grown(self, state: ChainState) -> ChainState:
        """Now and then sets in gestation are fitted anew; then options become usable, and the chain may get one more."""
        chain, growth, bases = state.chain, state.growth, self.bases
        is_grown_up = growth.successes >= self.gestation

        def refit() -> tuple[Float[Array, "N P"], Bool[Array, "N"], Bool[Array, ""]]:
            fitted = refitted(chain.sets, state.log, bases.degree, bases.tmax, self.sweeps)
            # A set that moved for ever would move the target of the next option, whose policy would never be done.
            sets = jnp.where((is_grown_up & chain.usable)[:, None], chain.sets, fitted)
            usable = chain.usable | (is_grown_up & (sets != 0).any(-1))
            newest = growth.num_options - 1
            return sets, usable, usable[newest] & ~_covers(sets[newest], growth, bases.degree)

        # The same answer for all seeds, which are in step: else each step would fit, and most would throw it away.
        is_due = anyone(state.log.written % self.refit_every == 0)
        sets, usable, grows = jax.lax.cond(is_due, refit, lambda: (chain.sets, chain.usable, jnp.array(False)))
        is_new = jnp.concatenate([jnp.zeros(self.num_actions, bool), usable & ~chain.usable])
        raised = jnp.where(is_new[:, None], self.optimism * _one(bases), chain.values)
        values = jax.lax.cond(is_due, lambda: raised, lambda: chain.values)
        num_options = jnp.minimum(growth.num_options + grows, self.num_options)
        chain = dataclasses.replace(chain, sets=sets, usable=usable, values=values)
        return state._replace(chain=chain, growth=growth._replace(num_options=num_options))


def _covers(weights: Float[Array, "P"], growth: Growth, degree: int) -> Bool[Array, ""]:
    """Whether a set contains the region where episodes start."""
    inside = contained(weights[None], jax.vmap(lambda row: products(row, degree))(growth.starts))[:, 0]
    is_known = jnp.arange(NUM_STARTS) < growth.num_starts
    return (inside & is_known).sum() >= COVERED * is_known.sum()


def _direction(basis: FourierBasis | AffineBasis, phi: Float[Array, "F"]) -> Float[Array, "F"]:
    """phi_i / |c_i|, scaled such that with rate 1 a step corrects its whole error where all features are 1."""
    return phi * basis.step_scales / basis.step_scales.sum()


def _one(bases: ChainBases) -> Float[np.ndarray, "F"]:
    """The weights with which every state is worth 1; where states are numbered there is no constant feature."""
    is_numbered = bases.choice.size == bases.choice.inputs.size
    return np.ones(bases.choice.size, np.float32) if is_numbered else np.eye(1, bases.choice.size, dtype=np.float32)[0]
