"""Initiation sets: the states from which an option reaches its target in time, by logistic regression on recent steps.

y_t = 1 if the target of the option is reached within tmax steps of x_t, else 0       (states inside the target do not count)
I_n = {x: w_n . p(x) > 0},  w_n = argmax sum_t c_t log P(y_t | w_n . p(x_t)) - ridge |w_n|^2 / 2,  p(x): products of up to two inputs

The weights c_t give label 1 at least half of the total: at first the few steps before a success stand against thousands, and the
set would be empty. Label 0 gets no such help: few failures where nearly all succeed are chance. The fit is a fixed number of Newton sweeps from 0, so that it is compiled into the step.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

RIDGE = 1e-3
MOST_CROSSED = 12  # With more inputs than these, products of two different ones are left out.


class StepLog(NamedTuple):
    """The last steps; the oldest are overwritten."""

    before: Float[Array, "B D"]  # Inputs at the observation and at what it led to.
    after: Float[Array, "B D"]
    at_goal: Bool[Array, "B"]
    lost: Bool[Array, "B"]  # The episode ended for good, and not at the goal.
    ended: Bool[Array, "B"]
    written: Int[Array, ""]  # So far.


def empty_log(size: int, num_inputs: int) -> StepLog:
    no, rows = jnp.zeros(size, bool), jnp.zeros((size, num_inputs))
    return StepLog(rows, rows, no, no, no, jnp.int32(0))


def write(
    log: StepLog,
    before: Float[Array, "D"],
    after: Float[Array, "D"],
    at_goal: Bool[Array, ""],
    lost: Bool[Array, ""],
    ended: Bool[Array, ""],
) -> StepLog:
    row = log.written % log.ended.shape[0]
    *kept, written = log
    rows = [old.at[row].set(new) for old, new in zip(kept, (before, after, at_goal, lost, ended))]
    return StepLog(*rows, written + 1)


def products(inputs: Float[Array, "D"], degree: int) -> Float[Array, "P"]:
    """p(x): 1, inputs scaled from [0, 1] to [-1, 1], and with degree 2 their products."""
    z = 2 * inputs - 1
    if degree == 1:
        return jnp.concatenate([jnp.ones(1), z])
    crossed = np.triu_indices(len(z)) if len(z) <= MOST_CROSSED else (np.arange(len(z)),) * 2
    return jnp.concatenate([jnp.ones(1), z, z[crossed[0]] * z[crossed[1]]])


def num_products(num_inputs: int, degree: int) -> int:
    return jax.eval_shape(lambda: products(jnp.zeros(num_inputs), degree)).shape[0]


def contained(weights: Float[Array, "N P"], p: Float[Array, "*rows P"]) -> Bool[Array, "*rows N"]:
    """Which initiation sets contain a state."""
    return p @ weights.T > 0


def targets(goal: Bool[Array, "*rows"], inside: Bool[Array, "*rows N"]) -> Bool[Array, "*rows N"]:
    """In which options' targets a state is: the goal for the first one, for each other the set of the one before it."""
    return jnp.concatenate([goal[..., None], inside[..., :-1]], -1)


def labelled(
    hit: Bool[Array, "B N"], ended: Bool[Array, "B"], tmax: int
) -> tuple[Bool[Array, "B N"], Bool[Array, "B N"]]:
    """Of steps in their order: whether the target was reached within tmax steps of each, and whether that is known yet."""
    never = jnp.int32(2 * len(ended) + tmax)

    def earlier(
        later: tuple[Array, Array], step: tuple[Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        hits, ends = step
        until = jnp.where(hits, 1, jnp.where(ends, never, later[0] + 1))
        seen = jnp.where(ends, never, later[1] + 1)
        return (until, seen), (until, seen)

    newest = jnp.full(hit.shape[1], never), jnp.int32(0)
    _, (until, seen) = jax.lax.scan(earlier, newest, (hit, ended), reverse=True)
    positive = until <= tmax
    return positive, positive | (seen >= tmax)[:, None]


def fit(
    p: Float[Array, "B P"], positive: Bool[Array, "B N"], counted: Bool[Array, "B N"], sweeps: int
) -> Float[Array, "N P"]:
    """w_n: logistic regression in which label 1 has at least half of the weight."""
    y = positive.T.astype(jnp.float32)
    yes, no = (positive & counted).T, (~positive & counted).T
    num_yes, num_no = (group.sum(-1, keepdims=True) for group in (yes, no))
    of_yes = jnp.maximum(num_yes / jnp.maximum(num_yes + num_no, 1), 0.5)
    share = of_yes * yes / jnp.maximum(num_yes, 1) + (1 - of_yes) * no / jnp.maximum(num_no, 1)
    size = p.shape[1]
    squares = (p[:, :, None] * p[:, None]).reshape(-1, size * size)  # One product of matrices for all options.

    def sweep(_, w: Float[Array, "N P"]) -> Float[Array, "N P"]:
        chance = jax.nn.sigmoid(w @ p.T)
        slope = (share * (y - chance)) @ p - RIDGE * w
        bend = ((share * chance * (1 - chance)) @ squares).reshape(-1, size, size) + RIDGE * jnp.eye(size)
        return w + jnp.linalg.solve(bend, slope[..., None])[..., 0]

    return jax.lax.fori_loop(0, sweeps, sweep, jnp.zeros((y.shape[0], size)))


def refitted(weights: Float[Array, "N P"], log: StepLog, degree: int, tmax: int, sweeps: int) -> Float[Array, "N P"]:
    """All sets anew; one whose target was not reached in these steps stays as it is.

    Targets are other options' sets, and are taken as they are now: labels from older sets would pull the chain back.
    """
    size = log.ended.shape[0]
    before, after, at_goal, lost, ended = (jnp.roll(rows, -(log.written % size), 0) for rows in log[:-1])
    p, p_after = (jax.vmap(lambda row: products(row, degree))(rows) for rows in (before, after))
    inside_target = targets(jnp.zeros(size, bool), contained(weights, p))
    hit = targets(at_goal, contained(weights, p_after) & ~lost[:, None]) & ~inside_target
    positive, known = labelled(hit, ended, tmax)
    is_written = jnp.arange(size) >= size - log.written
    counted = known & ~inside_target & is_written[:, None]
    fitted = fit(p, positive, counted, sweeps)
    return jnp.where((positive & counted).any(0)[:, None], fitted, weights)
