"""The mean of the policies after all updates, as the result of a training whose last policy is one of many it wavers between.

Averages of stochastic approximation converge faster than its last iterate (Polyak and Juditsky, 1992); weights that grow
with the number of the update forget the beginning, and need not know how long the training will last.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from asap.policy.score import Parameters


def averaged(average: Parameters, parameters: Parameters, iteration: Int[Array, ""], lateness: float) -> Parameters:
    """The mean with update number `iteration` (from 0) taken in; update n weighs about n^lateness."""
    weight = (lateness + 1) / (iteration + 1 + lateness)
    return jax.tree.map(lambda old, new: old + jnp.float32(weight) * (new - old), average, parameters)
