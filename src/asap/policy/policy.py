"""The ASAP policy (paper, Section 4): pi(a | x, m) = sum_i p(i | x, m) sigma_i(a | x)."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from asap.base.arrays import element, lift
from asap.base.keys import Key, many_uniforms
from asap.policy.features import Features
from asap.policy.partition import Partition
from asap.policy.skills import GaussianSkills, GibbsSkills, UniformSkills

LEAST_TERMINATION = 1e-6  # A skill that can never be left has other skills with log-probability -infinity.
NO_SKILL = -1  # The previous skill of an episode's first step.

Observation = Float[Array, "O *batch"]
Descriptor = Float[Array, "Z *batch"]
Index = Int[Array, "*batch"] | int
Action = Int[Array, "*batch"] | Float[Array, "A *batch"]


class Kept(NamedTuple):
    """Planes and skills that no learner moves, by their numbers."""

    planes: tuple[int, ...] = ()
    skills: tuple[int, ...] = ()


NOTHING = Kept()


class ASAPPolicy(eqx.Module):
    """Partition and skills with their feature maps: one pytree, so nothing can be lost on save.

    By default the skill is drawn anew at every step (the paper). With `termination`, the policy commits: the skill in
    force is kept with probability (1 - termination) p(i | x, m), that is until the state leaves its region or the
    termination fires, and is drawn anew otherwise (errata E10).
    """

    partition: Partition
    skills: GibbsSkills | GaussianSkills | UniformSkills
    psi: Features
    phi: Features
    termination: float | None = eqx.field(static=True, default=None)
    kept: Kept = eqx.field(static=True, default=NOTHING)  # What learning leaves as it is.

    @property
    def num_skills(self) -> int:
        return self.partition.num_skills

    def draws(self, key: Key) -> tuple[Float[Array, "*batch"], ...]:
        """The random numbers of one choice: one per plane, those for the action, one to stay."""
        count = self.partition.num_planes + self.skills.num_draws
        return many_uniforms(key, count if self.termination is None else count + 1)

    def choose(
        self, draws: tuple[Float[Array, "*batch"], ...], x: Observation, m: Descriptor, previous: Index
    ) -> tuple[Int[Array, "*batch"], Action]:
        """Skill and action, as a pure function of the random numbers."""
        planes, sure = self.partition.num_planes, self.partition.num_planes + self.skills.num_draws
        psi = self.psi(x, m)
        skill = self.partition.choose(draws[:planes], psi)
        if self.termination is not None:
            kept = draws[sure] < jnp.exp(self.log_stay(self.partition.log_probs(psi), previous))
            skill = jnp.where(kept, previous, skill)
        return skill, self.skills.draw(draws[planes:sure], skill, self.phi(x, m))

    def likeliest(self, x: Observation, m: Descriptor, previous: Index) -> tuple[Int[Array, "*batch"], Array]:
        """The most probable skill, and then its most probable action: what deterministic play is.

        Where regions share skills, it is the skill of the most probable region, as rules followed by hand have it.
        """
        return (skill := self._likeliest_skill(x, m, previous)), self.skills.likeliest_action(skill, self.phi(x, m))

    def _likeliest_skill(self, x: Observation, m: Descriptor, previous: Index) -> Int[Array, "*batch"]:
        if self.partition.region_skills is None:
            return jnp.argmax(self.skill_log_probs(x, m, previous), axis=0).astype(jnp.int32)
        region = jnp.argmax(self.partition.region_log_probs(self.psi(x, m)), axis=0)
        skill = jnp.asarray(self.partition.region_skills, jnp.int32)[region]
        if self.termination is None:
            return skill
        log_probs, previous = self.skill_log_probs(x, m, previous), jnp.asarray(previous, jnp.int32)
        keeps = (previous != NO_SKILL) & (element(log_probs, previous) >= element(log_probs, skill))
        return jnp.where(keeps, previous, skill)

    def sample(
        self, key: Key, x: Observation, m: Descriptor, previous: Index = NO_SKILL
    ) -> tuple[Int[Array, "*batch"], Action]:
        return self.choose(self.draws(key), x, m, jnp.asarray(previous, jnp.int32))

    @property
    def keeping(self) -> float:
        """The chance to keep a skill in force where it is sure to be drawn: the termination does not fire."""
        return 1 - max(self.termination, LEAST_TERMINATION)

    def log_stay(self, log_p: Float[Array, "S *batch"], previous: Index) -> Float[Array, "*batch"]:
        """log of the probability that the skill in force is kept without a new draw."""
        kept = math.log1p(-max(self.termination, LEAST_TERMINATION)) if self.termination < 1 else -math.inf
        kept = kept + element(log_p, jnp.asarray(previous))
        return jnp.where(previous == NO_SKILL, -jnp.inf, kept)

    def skill_log_probs(self, x: Observation, m: Descriptor, previous: Index = NO_SKILL) -> Float[Array, "S *batch"]:
        """log P(i | x, m, previous skill); without commitment this is log p(i | x, m)."""
        log_p = self.partition.log_probs(self.psi(x, m))
        if self.termination is None:
            return log_p
        log_stay = self.log_stay(log_p, previous)
        anew = jnp.log1p(-jnp.exp(log_stay)) + log_p
        is_previous = lift(jnp.arange(self.num_skills), 1, log_p.ndim - 1) == previous
        return jnp.where(is_previous, jnp.logaddexp(anew, log_stay), anew)

    def action_log_probs(self, x: Observation, m: Descriptor, previous: Index = NO_SKILL) -> Float[Array, "A *batch"]:
        """log pi(a | x, m), the skill summed out."""
        log_skill = self.skill_log_probs(x, m, previous)
        log_sigma = lift(self.skills.log_probs(self.phi(x, m)), 2, log_skill.ndim - 1)
        return jax.nn.logsumexp(log_skill[:, None] + log_sigma, axis=0)

    def log_prob(
        self,
        x: Observation,
        m: Descriptor,
        skill: Index,
        action: Index | Float[Array, "A *batch"],
        previous: Index = NO_SKILL,
    ) -> Float[Array, "*batch"]:
        """Z of the paper: log of the joint probability of the skill and the action."""
        log_skill = self.skill_log_probs(x, m, previous)
        log_action = self.skills.log_probs_of_action(jnp.asarray(action), self.phi(x, m))
        return element(log_skill + log_action, jnp.asarray(skill))
