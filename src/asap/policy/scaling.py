"""Scaling of observations, learned from what was seen: to mean 0 and deviation 1, saved with the policy.

Where the features are linear in the inputs, a change of scale is made up for in the weights, and the policy stays what
it was; other features see their inputs move a little, less and less as more has been seen.
"""

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from asap.policy.features import Features, Polynomial
from asap.policy.policy import ASAPPolicy
from asap.policy.score import Parameters, parameters_of

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
    learned = rescaled_parameters(policy, moments, parameters_of(policy))
    shift, scale = shift_and_scale(moments)
    psi, phi = (_onto(features, shift, scale) for features in (policy.psi, policy.phi))
    return dataclasses.replace(
        policy,
        psi=psi,
        phi=phi,
        partition=dataclasses.replace(policy.partition, beta=learned.beta),
        skills=dataclasses.replace(policy.skills, theta=learned.theta),
    )


def rescaled_parameters(policy: ASAPPolicy, moments: Moments, parameters: Parameters) -> Parameters:
    """Parameters of the policy, or sums of them, put onto observations that are scaled by these moments."""
    return _changed(policy, moments, parameters, _weights)


def rescaled_gradients(policy: ASAPPolicy, moments: Moments, gradients: Parameters) -> Parameters:
    """Gradients with respect to the parameters of the policy, with respect to the rescaled ones."""
    return _changed(policy, moments, gradients, _gradients)


def rescaled_squares(policy: ASAPPolicy, moments: Moments, squares: Parameters) -> Parameters:
    """Means of squared gradients, likewise, as if their parts were uncorrelated: nobody keeps their products."""
    return _changed(policy, moments, squares, _squares)


def scaled_anew(policy: ASAPPolicy, moments: Moments) -> ASAPPolicy:
    """The same numbers on observations scaled by these moments: another policy, for one that was just drawn."""
    shift, scale = shift_and_scale(moments)
    return dataclasses.replace(policy, psi=_onto(policy.psi, shift, scale), phi=_onto(policy.phi, shift, scale))


Change = Callable[..., tuple[Array, Array]]


def _changed(policy: ASAPPolicy, moments: Moments, parameters: Parameters, change: Change) -> Parameters:
    shift, scale = shift_and_scale(moments)
    return parameters._replace(
        beta=_in_blocks(policy.psi, parameters.beta, shift, scale, change),
        theta=_in_blocks(policy.phi, parameters.theta, shift, scale, change),
    )


def _weights(bias: Array, slopes: Array, shift: Array, scale: Array, features: Features) -> tuple[Array, Array]:
    """w0 + sum_j w_j s_j (x_j - c_j) is the same function of x with the new s and c, and w in their measure."""
    slopes = slopes * features.scale
    return bias + ((shift - features.shift) * slopes).sum(-1, keepdims=True), slopes / scale


def _gradients(bias: Array, slopes: Array, shift: Array, scale: Array, features: Features) -> tuple[Array, Array]:
    """The transposed inverse of what is done to the weights: a new slope also moves what the old bias was."""
    return bias, slopes * (scale / features.scale) - bias * ((shift - features.shift) * scale)


def _squares(bias: Array, slopes: Array, shift: Array, scale: Array, features: Features) -> tuple[Array, Array]:
    return bias, slopes * (scale / features.scale) ** 2 + bias * ((shift - features.shift) * scale) ** 2


def _onto(features: Features, shift: Float[Array, "O"], scale: Float[Array, "O"]) -> Features:
    if features.is_fixed:
        return features
    inputs = np.asarray(features.inputs)
    return dataclasses.replace(features, shift=shift[inputs], scale=scale[inputs])


def _in_blocks(
    features: Features,
    weights: Float[Array, "*rest F"],
    shift: Float[Array, "O"],
    scale: Float[Array, "O"],
    change: Change,
) -> Float[Array, "*rest F"]:
    """Where the features are linear in the inputs, so that a change of scale can be made up for; else as they are."""
    if features.is_fixed or not isinstance(features.basis, Polynomial) or features.basis.degree != 1:
        return weights
    inputs = np.asarray(features.inputs)
    size = 1 + len(inputs)
    # Interactions have such a block for each number of the descriptor, too; additive numbers stay as they are.
    blocks = weights.shape[-1] // size if features.task == "interactions" else 1
    own, rest = weights[..., : blocks * size], weights[..., blocks * size :]
    own = own.reshape(*weights.shape[:-1], blocks, size)
    bias, slopes = change(own[..., :1], own[..., 1:], shift[inputs], scale[inputs], features)
    numpy = _numpy(bias)
    own = numpy.concatenate([bias, slopes], -1).reshape(*weights.shape[:-1], blocks * size)
    return numpy.concatenate([own, rest], -1)
