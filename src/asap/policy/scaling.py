"""Scaling of observations, learned from what was seen: to mean 0 and deviation 1, saved with the policy.

Where the features are linear in the inputs, a change of scale is made up for in the weights, and the policy stays what it
was; other features see their inputs move a little, less and less as more has been seen.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asap.policy.features import Features, Polynomial
from asap.policy.policy import ASAPPolicy

LEAST_DEVIATION = 1e-4  # Relative to the size of the mean: an observation that never changes is left alone.


class Moments(NamedTuple):
    """Of all observations so far."""

    count: Float[Array, "*seeds"]
    mean: Float[Array, "*seeds O"]
    squares: Float[Array, "*seeds O"]  # Sum of squared distances from the mean.


def no_moments(size: int) -> Moments:
    return Moments(np.float32(0), np.zeros(size, np.float32), np.zeros(size, np.float32))


def with_observations(moments: Moments, observations: Float[np.ndarray, "N O"]) -> Moments:
    """In double precision, which single would not hold over a long run of steps."""
    count, (mean, squares) = len(observations), (np.asarray(part, float) for part in moments[1:])
    new_mean = observations.mean(0, dtype=float)
    new_squares = np.square(observations - new_mean).sum(0, dtype=float)
    total = float(moments.count) + count
    offset = new_mean - mean
    mean = mean + offset * count / total
    squares = squares + new_squares + offset**2 * float(moments.count) * count / total
    return Moments(np.float32(total), np.float32(mean), np.float32(squares))


def shift_and_scale(moments: Moments) -> tuple[Float[np.ndarray, "O"], Float[np.ndarray, "O"]]:
    mean = np.asarray(moments.mean, float)
    deviation = np.sqrt(np.asarray(moments.squares, float) / max(float(moments.count), 1.0))
    changes = deviation > LEAST_DEVIATION * np.maximum(np.abs(mean), 1e-3)
    return np.float32(np.where(changes, mean, 0.0)), np.float32(1 / np.where(changes, deviation, 1.0))


def rescaled(policy: ASAPPolicy, moments: Moments) -> ASAPPolicy:
    """The policy with its observations scaled by these moments."""
    shift, scale = shift_and_scale(moments)
    psi, beta = _rescaled(policy.psi, policy.partition.beta, shift, scale)
    phi, theta = _rescaled(policy.phi, policy.skills.theta, shift, scale)
    return dataclasses.replace(
        policy,
        psi=psi,
        phi=phi,
        partition=dataclasses.replace(policy.partition, beta=beta),
        skills=dataclasses.replace(policy.skills, theta=theta),
    )


def scaled_anew(policy: ASAPPolicy, moments: Moments) -> ASAPPolicy:
    """The same numbers on observations scaled by these moments: another policy, for one that was just drawn."""
    shift, scale = shift_and_scale(moments)

    def anew(features: Features) -> Features:
        inputs = np.asarray(features.inputs)
        return dataclasses.replace(features, shift=shift[inputs], scale=scale[inputs])

    return dataclasses.replace(policy, psi=anew(policy.psi), phi=anew(policy.phi))


def _rescaled(
    features: Features, weights: Float[Array, "*rest F"], shift: Float[np.ndarray, "O"], scale: Float[np.ndarray, "O"]
) -> tuple[Features, Float[Array, "*rest F"]]:
    """w0 + sum_j w_j s_j (x_j - c_j) is the same function of x with the new s and c, and w in their measure."""
    inputs = np.asarray(features.inputs)
    shift, scale = shift[inputs], scale[inputs]
    after = dataclasses.replace(features, shift=jnp.asarray(shift), scale=jnp.asarray(scale))
    if not isinstance(features.basis, Polynomial) or features.basis.degree != 1:
        return after, weights
    weights = np.asarray(weights, float)
    slopes = weights[..., 1:] * np.asarray(features.scale, float)
    bias = weights[..., 0] + slopes @ (shift - np.asarray(features.shift, float))
    return after, jnp.asarray(np.concatenate([bias[..., None], slopes / scale], -1), jnp.float32)
