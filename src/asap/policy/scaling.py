"""Scaling of observations, learned from what was seen: to mean 0 and deviation 1, saved with the policy.

Where the features are linear in the inputs, a change of scale is made up for in the weights, and the policy stays what
it was; other features see their inputs move a little, less and less as more has been seen.
"""

import dataclasses
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

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


def moments_of(x: Float[Array, "O N"], counts: Bool[Array, "N"] | None = None) -> Moments:
    """Of one batch, of which the first step counts."""
    weights = np.ones(x.shape[-1], np.float32) if counts is None else counts.astype(np.float32)
    count = weights.sum()
    # Seen from the first step: squares of large numbers with a small spread would not hold it.
    offsets = x - x[:, :1]
    mean = offsets @ weights / count
    return Moments(count, x[:, 0] + mean, (offsets - mean[:, None]) ** 2 @ weights)


def merged(first: Moments, second: Moments) -> Moments:
    """Of both together (Chan et al., 1979)."""
    total = _numpy(first.count).maximum(first.count + second.count, np.float32(1))
    offset, share = second.mean - first.mean, second.count / total
    squares = first.squares + second.squares + offset**2 * first.count * share
    return Moments(first.count + second.count, first.mean + offset * share, squares)


def shift_and_scale(moments: Moments) -> tuple[Float[Array, "O"], Float[Array, "O"]]:
    """What observations are moved and multiplied by."""
    numpy, one = _numpy(moments.mean), np.float32(1)
    deviation = numpy.sqrt(moments.squares / numpy.maximum(moments.count, one))
    changes = deviation > LEAST_DEVIATION * numpy.maximum(abs(moments.mean), np.float32(1e-3))
    return numpy.where(changes, moments.mean, 0 * one), one / numpy.where(changes, deviation, one)


def _numpy(array: Array) -> ModuleType:
    """NumPy on the host, where a compiled operation for every new shape would take long; JAX's inside a program."""
    return jnp if isinstance(array, jax.Array) else np


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
    features: Features, weights: Float[Array, "*rest F"], shift: Float[Array, "O"], scale: Float[Array, "O"]
) -> tuple[Features, Float[Array, "*rest F"]]:
    """w0 + sum_j w_j s_j (x_j - c_j) is the same function of x with the new s and c, and w in their measure."""
    inputs = np.asarray(features.inputs)
    shift, scale = shift[inputs], scale[inputs]
    after = dataclasses.replace(features, shift=shift, scale=scale)
    if not isinstance(features.basis, Polynomial) or features.basis.degree != 1:
        return after, weights
    size = 1 + len(inputs)
    # Interactions have such a block for each number of the descriptor, too; additive numbers stay as they are.
    blocks = weights.shape[-1] // size if features.task == "interactions" else 1
    own, rest = weights[..., : blocks * size], weights[..., blocks * size :]
    own = own.reshape(*weights.shape[:-1], blocks, size)
    slopes = own[..., 1:] * features.scale
    bias = own[..., :1] + ((shift - features.shift) * slopes).sum(-1, keepdims=True)
    numpy = _numpy(bias)
    own = numpy.concatenate([bias, slopes / scale], -1).reshape(*weights.shape[:-1], blocks * size)
    return after, numpy.concatenate([own, rest], -1)
