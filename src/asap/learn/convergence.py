"""When have the parameters converged? (Algorithm 1, line 7)

Single updates are noisy, so averages over successive windows of updates are compared: the noise of the average falls
with the window, a trend does not. For the same reason a training may return an average of its policies: averages of
stochastic approximation converge faster than its last iterate (Polyak and Juditsky, 1992); weights that grow with the
number of the update forget the beginning, and need not know how long the training will last.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from asap.policy.score import Parameters


class Monitor(NamedTuple):
    """Sum over the running window and average of the one before."""

    total: Parameters
    previous: Parameters
    updates: Int[Array, ""]
    movement: Float[Array, ""]  # Relative distance between the last two averages.


def start_monitor(parameters: Parameters) -> Monitor:
    zeros = jax.tree.map(jnp.zeros_like, parameters)
    return Monitor(zeros, zeros, jnp.int32(0), jnp.float32(jnp.inf))


def norm(parameters: Parameters) -> Float[Array, ""]:
    return jnp.sqrt(sum(jnp.square(leaf).sum() for leaf in jax.tree.leaves(parameters)))


def watch(monitor: Monitor, parameters: Parameters, window: int) -> Monitor:
    """Take one more update into account; at the end of a window compare its average with the one before."""
    updates = monitor.updates + 1
    total = jax.tree.map(jnp.add, monitor.total, parameters)
    average = jax.tree.map(lambda leaf: leaf / window, total)
    distance = norm(jax.tree.map(jnp.subtract, average, monitor.previous)) / (norm(average) + 1e-12)
    closes = updates % window == 0
    movement = jnp.where(updates >= 2 * window, distance, jnp.inf)
    return Monitor(
        jax.tree.map(lambda leaf: jnp.where(closes, 0.0, leaf), total),
        jax.tree.map(lambda new, old: jnp.where(closes, new, old), average, monitor.previous),
        updates,
        jnp.where(closes, movement, monitor.movement),
    )


def has_converged(movement: Float[Array, "*seeds"], tolerance: float) -> Bool[Array, "*seeds"]:
    return movement < tolerance


def averaged(average: Parameters, parameters: Parameters, iteration: Int[Array, ""], lateness: float) -> Parameters:
    """The mean with update number `iteration` (from 0) taken in; update n weighs about n^lateness."""
    weight = (lateness + 1) / (iteration + 1 + lateness)
    return jax.tree.map(lambda old, new: old + jnp.float32(weight) * (new - old), average, parameters)
