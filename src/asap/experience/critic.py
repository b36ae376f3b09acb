"""The critic: linear in random ramps of observation and task descriptor, and advantages by it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from asap.base.arrays import contract
from asap.base.types import Transition

# How far a skill in force moves a ramp, which goes from -1 to 1. Moved by 2, what is seen under one skill tells little
# about the others: of 16 seeds of two-rooms, 12 in place of 15 were near the optimum after 300 episodes.
SKILL_MOVES = np.float32(0.25)


class Critic(eqx.Module):
    """V(x, m) = w^T [1, clip(W [x, m] + b)]: a network whose hidden layer stays as it was drawn.

    Behind m stands the time, where the critic sees it: from -1 to 1 over an episode. Then, for a policy that commits, the
    probabilities of the skills in force: they move each ramp.
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
    num_skills: int = 0,
) -> Critic:
    """Each feature is a ramp of width `length_scale` across a random place in the space scaled to [-1, 1].

    `num_skills` are those that can be in force: each moves the ramp by a little of its own.
    """
    scale = np.concatenate([2 / (high - low), np.ones(descriptor_size, np.float32)])
    centre = np.concatenate([(high + low) / 2, np.zeros(descriptor_size, np.float32)])
    directions, places = generator.standard_normal((2, num_features, len(scale)), np.float32)
    places = np.clip(places, -1, 1) / scale + centre
    hidden = directions * scale / length_scale
    bias = -(hidden * places).sum(-1)
    if num_skills:
        moves = SKILL_MOVES * generator.standard_normal((num_features, num_skills), np.float32)
        hidden = np.concatenate([hidden, moves], axis=-1)
    return unfitted(hidden, bias)


def table_critic(num_inputs: int, num_skills: int = 0) -> Critic:
    """One feature for each input: of states that are told by their number, a value each."""
    hidden = np.eye(num_inputs, num_inputs + num_skills, dtype=np.float32)
    return unfitted(hidden, np.zeros(num_inputs, np.float32))


def unfitted(hidden: Float[np.ndarray, "F n"], bias: Float[np.ndarray, "F"]) -> Critic:
    size = len(bias) + 1
    weights, gram = np.zeros(size, np.float32), np.zeros((size, size), np.float32)
    return Critic(hidden, bias, weights, gram, weights)


def discounted_sums(values: Float[Array, "T L"], ended: Bool[Array, "T L"], discount: float) -> Float[Array, "T L"]:
    """S_t = v_t + discount (1 - ended_t) S_{t+1}; of rewards, where lanes hold whole episodes, these are rewards to go."""

    def backward(after: Float[Array, "L"], step: tuple[Array, Array]):
        now = step[0] + discount * jnp.where(step[1], 0.0, after)
        return now, now

    return jax.lax.scan(backward, jnp.zeros(values.shape[-1]), (values, ended), reverse=True)[1]


def lambda_advantages(
    batch: Transition, values: Float[Array, "T L"], next_values: Float[Array, "T L"], discount: float, decay: float
) -> Float[Array, "T L"]:
    """A_t = delta_t + gamma lambda (1 - ended_t) A_{t+1}, delta_t = r_t + gamma (1 - terminated_t) V(x'_t) - V(x_t)."""
    deltas = batch.reward + discount * jnp.where(batch.terminated, 0.0, next_values) - values
    return discounted_sums(deltas, batch.ended, discount * decay)
