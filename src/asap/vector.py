"""Three small operations in the form that the CPU compiler fuses into a loop over lanes.

A dot product, a gather or a cumulative sum inside a rollout is a call of its own that walks memory once more; written
out over a few elements they melt into the loop around them. Long vectors take the ordinary operation.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

UNROLL = 16


def contract(weights: Float[Array, "... F"], vector: Float[Array, "F"]) -> Float[Array, "..."]:
    """weights @ vector."""
    if vector.shape[0] > UNROLL:
        return weights @ vector
    return sum(weights[..., f] * vector[f] for f in range(vector.shape[0]))


def row(table: Float[Array, "S *rest"], index: Int[Array, ""]) -> Float[Array, "*rest"]:
    """table[index]."""
    if table.shape[0] > UNROLL:
        return table[index]
    chosen = table[0]
    for s in range(1, table.shape[0]):
        chosen = jnp.where(index == s, table[s], chosen)
    return chosen


def pick(uniform: Float[Array, ""], probabilities: Float[Array, "A"]) -> Int[Array, ""]:
    """The index at which the cumulative distribution passes `uniform`."""
    if probabilities.shape[0] > UNROLL:
        return (uniform >= jnp.cumsum(probabilities)[:-1]).sum().astype(jnp.int32)
    index, cumulative = jnp.int32(0), 0.0
    for a in range(probabilities.shape[0] - 1):
        cumulative = cumulative + probabilities[a]
        index = index + (uniform >= cumulative).astype(jnp.int32)
    return index
