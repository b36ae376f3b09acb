"""Passes over a batch: the steps in a random order, dealt out to minibatches.

Only steps that count are dealt, so padding has no minibatch and changes none. As few minibatches as hold them all get
nearly equally many: a last one of a few steps would move the policy as far as the others, by noise. How many steps count
is known while the program runs. So there is room for the most minibatches, and those that are left over are empty.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key, fold
from asap.base.types import Transition


class Part(NamedTuple):
    """Steps that one step of the optimizer is made from."""

    steps: Transition
    weights: Float[Array, "n"]
    log_prob: Float[Array, "n"]  # Under the policy that played.


class Deal(NamedTuple):
    """One pass: which steps are in which minibatch."""

    order: Int[Array, "N"]  # The steps that count come first, in a random order.
    count: Int[Array, ""] | int  # How many of them there are.
    size: int  # Of a minibatch, at most.

    @property
    def most(self) -> int:
        """Minibatches, if all steps count."""
        return -(-self.order.shape[0] // self.size)

    @property
    def parts(self) -> Int[Array, ""] | int:
        """Minibatches that have any."""
        return jnp.maximum(-(-self.count // self.size), 1)

    def places(self, number: Int[Array, ""]) -> tuple[Int[Array, "n"], Bool[Array, "n"]]:
        """Of a minibatch: which steps it has, and which of these places are filled."""
        each, rest = self.count // self.parts, self.count % self.parts  # The first `rest` minibatches have one more.
        first = number * each + jnp.minimum(number, rest)
        width = jnp.where(number < self.parts, each + (number < rest), 0)
        places = jnp.arange(self.size)
        return self.order[jnp.minimum(first + places, self.order.shape[0] - 1)], places < width


def deal(key: Key, counts: Bool[Array, "N"] | None, num_steps: int, size: int) -> Deal:
    """A pass over `num_steps` steps in an order that depends on the key alone."""
    draws = fold(key, jnp.arange(num_steps)).hi >> jnp.uint32(1)
    if counts is None:
        return Deal(jnp.argsort(draws), num_steps, size)
    order = jnp.argsort(jnp.where(counts, draws, jnp.uint32(1 << 31)))
    return Deal(order, counts.sum(), size)


def part_of(whole: Part, deal: Deal, number: Int[Array, ""]) -> Part:
    """The minibatch of that number; `whole` has one axis of steps. What fills it up does not count."""
    index, filled = deal.places(number)
    one = jax.tree.map(lambda leaf: leaf[..., index], whole)
    steps = jax.tree.map(lambda leaf: leaf[..., None], one.steps._replace(counts=filled))
    return one._replace(steps=steps, weights=jnp.where(filled, one.weights, 0.0))
