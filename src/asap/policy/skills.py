"""Intra-skill policies (paper, Eq. 3): a Gibbs distribution over actions for every skill."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from asap.vector import contract, row


class GibbsSkills(eqx.Module):
    """sigma_i(a | x) proportional to exp(alpha_theta theta_{i,a}^T phi(x)).

    With phi = [1] a skill is one distribution over actions whatever the state (the paper's rooms); otherwise its logits
    are linear in phi. This is phi_{x,a} of the paper written as one-hot(a) (x) phi(x).
    """

    theta: Float[Array, "S A D"]
    alpha_theta: Float[Array, ""]

    def log_probs(self, phi: Float[Array, "D"]) -> Float[Array, "S A"]:
        """log sigma_i(a | x) of every skill."""
        return jax.nn.log_softmax(self.alpha_theta * contract(self.theta, phi), axis=-1)

    def log_probs_of(self, skill: Int[Array, ""], phi: Float[Array, "D"], constant: bool) -> Float[Array, "A"]:
        """log sigma_i(a | x) of one skill. Constant skills are normalised once, outside the loop over steps."""
        if constant:
            return row(self.log_probs(phi), skill)
        return jax.nn.log_softmax(self.alpha_theta * contract(row(self.theta, skill), phi))
