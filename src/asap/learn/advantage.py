"""The critic and the advantages. Truncation is bootstrapped, termination is not.

The critic is linear in random ramps of observation and task descriptor, fitted by least squares. A closed
form has no step size to tune, costs one pass over the batch where a network takes many, and keeps its memory of former
batches in two sums that decay.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from asap.base.arrays import contract
from asap.base.types import Transition

MOST_SAMPLES = 16_384


class Critic(eqx.Module):
    """V(x, m) = w^T [1, clip(W [x, m] + b)]: a network whose hidden layer stays as it was drawn.

    A ramp clipped to [-1, 1] serves as well as a tanh or a cosine and costs a tenth.
    """

    hidden: Float[Array, "F n"]
    bias: Float[Array, "F"]
    weights: Float[Array, "G"]
    gram: Float[Array, "G G"]
    moment: Float[Array, "G"]

    def features(self, x: Float[Array, "O N"], m: Float[Array, "Z N"]) -> Float[Array, "G N"]:
        ramps = jnp.clip(contract(self.hidden, jnp.concatenate([x, m])) + self.bias[:, None], -1, 1)
        return jnp.concatenate([jnp.ones_like(ramps[:1]), ramps])


def new_critic(
    low: Float[np.ndarray, "O"],
    high: Float[np.ndarray, "O"],
    descriptor_size: int,
    generator: np.random.Generator,
    num_features: int,
    length_scale: float,
) -> Critic:
    """Each feature is a ramp of width `length_scale` across a random place in the space scaled to [-1, 1]."""
    scale = np.concatenate([2 / (high - low), np.ones(descriptor_size, np.float32)])
    centre = np.concatenate([(high + low) / 2, np.zeros(descriptor_size, np.float32)])
    directions, places = generator.standard_normal((2, num_features, len(scale)), np.float32)
    places = np.clip(places, -1, 1) / scale + centre
    hidden = directions * scale / length_scale
    size = num_features + 1
    bias = -(hidden * places).sum(-1)
    weights, gram = np.zeros(size, np.float32), np.zeros((size, size), np.float32)
    return Critic(hidden, bias, weights, gram, weights)


def fit(
    critic: Critic, features: Float[Array, "G N"], targets: Float[Array, "N"], memory: float, ridge: float
) -> Critic:
    """Ridge regression of the targets on the features; former batches count with weight memory^age."""
    # A few weights need no more: on a large batch the fit would take as long as the update of the policy.
    stride = -(-targets.shape[0] // MOST_SAMPLES)
    features, targets = features[:, ::stride], targets[::stride]
    gram = memory * critic.gram + features @ features.T / targets.shape[0]
    moment = memory * critic.moment + features @ targets / targets.shape[0]
    weights = jnp.linalg.solve(gram + ridge * jnp.eye(gram.shape[0]), moment)
    return eqx.tree_at(lambda c: (c.weights, c.gram, c.moment), critic, (weights, gram, moment))


def lambda_advantages(
    batch: Transition,
    values: Float[Array, "T L"],
    next_values: Float[Array, "T L"],
    discount: float,
    decay: float,
) -> Float[Array, "T L"]:
    """A_t = delta_t + gamma lambda (1 - ended_t) A_{t+1}, delta_t = r_t + gamma (1 - terminated_t) V(x'_t) - V(x_t)."""
    deltas = batch.reward + discount * jnp.where(batch.terminated, 0.0, next_values) - values

    def body(advantage: Float[Array, "L"], step: tuple[Float[Array, "L"], Array]):
        delta, ended = step
        advantage = delta + discount * decay * jnp.where(ended, 0.0, advantage)
        return advantage, advantage

    last = jnp.zeros(values.shape[-1])
    return jax.lax.scan(body, last, (deltas, batch.ended), reverse=True)[1]
