"""What keeps learning alive besides the return: entropy of the actions, and use of every skill."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from asap.config import LearnConfig
from asap.learn.gradients import Parameters, parameters_of, with_parameters
from asap.policy.policy import ASAPPolicy
from asap.types import Transition


class Regularity(NamedTuple):
    """Mean entropy of pi(. | x) in nats, and the mean probability of each skill, over a batch of states."""

    entropy: Float[Array, ""]
    usage: Float[Array, "S"]


def measure(policy: ASAPPolicy, batch: Transition) -> Regularity:
    def at(x: Float[Array, "O"], m: Float[Array, "Z"]) -> tuple[Float[Array, ""], Float[Array, "S"]]:
        log_p = policy.partition.log_probs(policy.psi(x, m))
        log_sigma = policy.skills.log_probs(policy.phi(x, m))
        log_pi = jax.nn.logsumexp(log_p[:, None] + log_sigma, axis=0)
        return -(jnp.exp(log_pi) * log_pi).sum(), jnp.exp(log_p)

    entropy, usage = jax.vmap(at, in_axes=-1, out_axes=-1)(batch.observation, batch.descriptor)
    return Regularity(entropy.mean(), usage.mean(-1))


def regularity_gradient(
    config: LearnConfig, policy: ASAPPolicy, batch: Transition
) -> tuple[Parameters, Regularity]:
    """Gradient of entropy bonus minus the penalty on skills used less than the floor."""

    def value(parameters: Parameters) -> tuple[Float[Array, ""], Regularity]:
        regularity = measure(with_parameters(policy, parameters), batch)
        floor = config.usage_floor * 2 / policy.num_skills
        missing = jax.nn.relu(jnp.log(floor + 1e-8) - jnp.log(regularity.usage + 1e-8)).sum()
        return config.entropy * regularity.entropy - config.usage_weight * missing, regularity

    return jax.grad(value, has_aux=True)(parameters_of(policy))
