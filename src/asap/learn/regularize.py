"""What keeps learning alive besides the return: entropy of the actions, and softening of planes that have lost a side.

Before the first successes the gradient of a hyperplane is noise, and noise drives it off the visited states: one side
is never entered again, its skill gets no more data, and with p(1 - p) close to 0 neither does the plane. A bonus on
the usage of skills does not help: its gradient lives at the states next to the boundary, so it pins the plane in some
corner. Softening acts on all states instead. Its penalty on plane k,

    mean over x of KL(uniform over both sides || p_k(. | x)) + const = mean of softplus(u_k) + softplus(-u_k),

has a gradient that does not vanish where the plane is saturated, and draws the plane towards "either side, anywhere",
from which the advantages can part it anew. It acts only while the smaller side has less than the floor of the usage.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from asap.config import LearnConfig
from asap.learn.gradients import Parameters, parameters_of, with_parameters
from asap.policy.policy import ASAPPolicy
from asap.types import Transition
from asap.vector import lift


class Regularity(NamedTuple):
    """Over a batch of states: mean entropy of pi(. | x) in nats, and the mean probability of each skill."""

    entropy: Float[Array, ""]
    usage: Float[Array, "S"]


def regularity_gradient(config: LearnConfig, policy: ASAPPolicy, batch: Transition) -> tuple[Parameters, Regularity]:
    """Gradient of the entropy bonus minus the softening penalty."""

    def value(parameters: Parameters) -> tuple[Float[Array, ""], Regularity]:
        changed = with_parameters(policy, parameters)
        x, m = batch.observation, batch.descriptor
        psi = changed.psi(x, m)
        margins = changed.partition.margins(psi)
        skills = jnp.exp(changed.partition.log_probs(psi))
        sigma = lift(jnp.exp(changed.skills.log_probs(changed.phi(x, m))), 2, 1)
        # In probabilities, not logs: half the cost, and p log p needs no care beyond a floor under the logarithm.
        pi = (skills[:, None] * sigma).sum(0)
        entropy = -(pi * jnp.log(jnp.maximum(pi, TINY))).sum(0).mean()
        regularity = Regularity(entropy, skills.mean(-1))
        return config.entropy * entropy - config.softening * softening(margins, config.softening_floor), regularity

    return jax.grad(value, has_aux=True)(parameters_of(policy))


TINY = 1e-30


def softening(margins: Float[Array, "K N"], floor: float) -> Float[Array, ""]:
    """The penalty, over planes; each counts from 0 (its smaller side has the floor or more) to 1 (none at all)."""
    side = jax.nn.sigmoid(margins).mean(-1)
    lost = jax.nn.relu(1 - jnp.minimum(side, 1 - side) / floor)
    distance = (jnp.abs(margins) + 2 * jnp.log1p(jnp.exp(-jnp.abs(margins)))).mean(-1)
    return (jax.lax.stop_gradient(lost) * distance).sum()
