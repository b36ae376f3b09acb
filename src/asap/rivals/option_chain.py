"""A chain of options over primitive actions: what skill chaining learns, and how it acts.

Option n: its target T_n (the goal, or the initiation set of option n - 1), its initiation set I_n, its policy argmax_a Q_n(x, a).
It may begin in I_n outside of T_n, and ends in T_n, outside of I_n or after tmax steps.
"""

from dataclasses import dataclass

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import pick
from asap.base.keys import Key, many_uniforms
from asap.experience.rollout import Uniforms
from asap.policy.policy import NO_SKILL
from asap.rivals.features import AffineBasis, FourierBasis
from asap.rivals.initiation import contained, num_products, products, targets


@dataclass(frozen=True)
class ChainBases:
    """What is fixed: features, chances and limits."""

    choice: FourierBasis | AffineBasis  # Of the values that choose among actions and options.
    option: FourierBasis  # Of the values inside an option.
    degree: int  # Of the products in initiation sets.
    epsilon: float
    tmax: int

    @property
    def num_products(self) -> int:
        return num_products(self.choice.inputs.size, self.degree)


class OptionChain(eqx.Module):
    """An actor. Where chance ends an option, it does so once in tmax steps: an actor does not count them."""

    values: Float[Array, "C F"]  # Of every action, then of every option.
    policies: Float[Array, "N A G"]  # Q_n.
    sets: Float[Array, "N P"]  # w_n of I_n.
    usable: Bool[Array, "N"]  # Whether it exists and its gestation is over.
    bases: ChainBases = eqx.field(static=True)

    def draws(self, key: Key) -> Uniforms:
        return many_uniforms(key, 5)

    def choose(
        self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        inside, available = self.sets_at(x, m)
        goes_on = (previous >= 0) & available[previous] & (draws[4] >= 1 / self.bases.tmax)
        chosen = jnp.where(goes_on, previous + self.num_actions, self.select(draws, x, m, available))
        return self.act(draws, x, m, chosen)

    @property
    def num_actions(self) -> int:
        return self.policies.shape[1]

    def sets_at(self, x: Float[Array, "O"], m: Float[Array, "Z"]) -> tuple[Bool[Array, "N"], Bool[Array, "N"]]:
        """Which initiation sets contain a state, and which options may begin there."""
        inside = contained(self.sets, products(self.bases.choice.inputs(x, m), self.bases.degree))
        return inside, self.usable & inside & ~targets(jnp.zeros((), bool), inside)

    def select(
        self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], available: Bool[Array, "N"]
    ) -> Int[Array, ""]:
        """An action, or an option behind them: the best (one of them, where several are), or with chance epsilon any."""
        is_open = self.choices(available)
        values = jnp.where(is_open, self.values @ self.bases.choice(x, m), -jnp.inf)
        candidates = jnp.where(draws[0] < self.bases.epsilon, is_open, values == values.max())
        return jnp.minimum(pick(draws[1], candidates / candidates.sum()), len(is_open) - 1)

    def choices(self, available: Bool[Array, "N"]) -> Bool[Array, "C"]:
        return jnp.concatenate([jnp.ones(self.num_actions, bool), available])

    def act(
        self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], chosen: Int[Array, ""]
    ) -> tuple[Int[Array, ""], Int[Array, ""]]:
        """Skill and action of a choice; an action that was chosen itself belongs to no skill."""
        option = chosen - self.num_actions
        best = (self.policies[jnp.maximum(option, 0)] @ self.bases.option(x, m)).argmax()
        any_one = jnp.int32(draws[3] * self.num_actions)
        inner = jnp.where(draws[2] < self.bases.epsilon, any_one, best)
        is_option = option >= 0
        return jnp.where(is_option, option, NO_SKILL), jnp.where(is_option, inner, chosen).astype(jnp.int32)

    def expected(self, phi: Float[Array, "F"], available: Bool[Array, "N"]) -> Float[Array, ""]:
        """V(x): the mean over what `select` may choose."""
        is_open, values = self.choices(available), self.values @ phi
        best, mean = jnp.where(is_open, values, -jnp.inf).max(), jnp.where(is_open, values, 0).sum() / is_open.sum()
        return (1 - self.bases.epsilon) * best + self.bases.epsilon * mean
