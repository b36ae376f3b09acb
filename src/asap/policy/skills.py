"""Intra-skill policies: a Gibbs distribution over actions for every skill (paper, Eq. 3), or a Gaussian over
vectors."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike

from asap.base.arrays import UNROLL, contract, element, lift, pick, row
from asap.base.keys import normal

Uniforms = tuple[Float[Array, "*batch"], ...]  # The random numbers of one choice.


class GibbsSkills(eqx.Module):
    """sigma_i(a | x) proportional to exp(alpha_theta theta_{i,a}^T phi(x)).

    With phi = [1] a skill is one distribution over actions whatever the state (the paper's rooms); otherwise its logits
    are linear in phi. This is phi_{x,a} of the paper written as one-hot(a) (x) phi(x).
    """

    theta: Float[Array, "S A D"]
    alpha_theta: Float[Array, ""]

    def log_probs(self, phi: Float[Array, "D ..."]) -> Float[Array, "S A ..."]:
        """log sigma_i(a | x) of every skill."""
        return jax.nn.log_softmax(self.alpha_theta * contract(self.theta, phi), axis=1)

    def log_probs_of_action(self, action: Int[Array, "*batch"], phi: Float[Array, "D ..."]) -> Float[Array, "S *batch"]:
        """log sigma_i(a | x) of every skill for the action that was taken."""
        log_sigma = lift(self.log_probs(phi), 2, action.ndim).swapaxes(0, 1)
        if log_sigma.shape[0] <= UNROLL:
            return element(log_sigma, action)
        return (log_sigma * (lift(jnp.arange(log_sigma.shape[0]), 1, 1 + action.ndim) == action)).sum(0)

    def log_probs_of_skill(self, skill: Int[Array, "*batch"], phi: Float[Array, "D ..."]) -> Float[Array, "A *batch"]:
        """log sigma_i(a | x) of one skill. Constant skills are normalised once, outside a loop over steps."""
        if phi.ndim == 1 and phi.shape[0] == 1:
            return row(self.log_probs(phi), skill)
        return jax.nn.log_softmax(self.alpha_theta * _of_skill(self.theta, skill, phi), axis=0)

    @property
    def num_draws(self) -> int:
        """Random numbers of a choice."""
        return 1

    def draw(self, draws: Uniforms, skill: Int[Array, "*batch"], phi: Float[Array, "D ..."]) -> Int[Array, "*batch"]:
        return pick(draws[0], jnp.exp(self.log_probs_of_skill(skill, phi)))

    def at(self, skills: ArrayLike) -> "GibbsSkills":
        """These skills, in this order."""
        return GibbsSkills(self.theta[skills], self.alpha_theta)

    def likeliest_action(self, skill: Int[Array, "*batch"], phi: Float[Array, "D ..."]) -> Int[Array, "*batch"]:
        return jnp.argmax(self.log_probs_of_skill(skill, phi), axis=0).astype(jnp.int32)


def _of_skill(
    theta: Float[Array, "S A D"], skill: Int[Array, "*batch"], phi: Float[Array, "D ..."]
) -> Float[Array, "A ..."]:
    """theta_i phi(x) of one skill."""
    own = row(theta, skill)
    if phi.shape[0] > UNROLL:
        return (own * lift(phi, 1, own.ndim - 2)).sum(1)
    return sum(own[:, d] * phi[d] for d in range(phi.shape[0]))


class UniformSkills(eqx.Module):
    """sigma_i(a | x): every number of the action is drawn from -1 to 1, whatever the state. To be played: nothing is
    learned from it."""

    theta: Float[Array, "S A D"]  # Zeros, for their shape.

    @property
    def num_draws(self) -> int:
        return self.theta.shape[1]

    def draw(
        self, draws: Uniforms, skill: Int[Array, "*batch"], phi: Float[Array, "D ..."]
    ) -> Float[Array, "A *batch"]:
        return 2 * jnp.stack(draws) - 1


class GaussianSkills(eqx.Module):
    """sigma_i(a | x) = Normal(theta_i phi(x), exp(log_std_i)^2), each dimension of the action for itself.

    Actions are in units of their range: -1 and 1 are the bounds. What is drawn beyond them is clipped on its way to the
    environment, and scored as drawn.
    """

    theta: Float[Array, "S A D"]
    log_std: Float[Array, "S A"]

    def means(self, phi: Float[Array, "D ..."]) -> Float[Array, "S A ..."]:
        return contract(self.theta, phi)

    def log_probs_of_action(
        self, action: Float[Array, "A *batch"], phi: Float[Array, "D ..."]
    ) -> Float[Array, "S *batch"]:
        batch_axes = action.ndim - 1
        log_std = lift(self.log_std, 2, batch_axes)
        errors = (action - lift(self.means(phi), 2, batch_axes)) * jnp.exp(-log_std)
        return -(0.5 * jnp.square(errors) + log_std + 0.5 * math.log(2 * math.pi)).sum(1)

    @property
    def num_draws(self) -> int:
        return self.theta.shape[1]

    def draw(
        self, draws: Uniforms, skill: Int[Array, "*batch"], phi: Float[Array, "D ..."]
    ) -> Float[Array, "A *batch"]:
        noise = jnp.stack([normal(uniform) for uniform in draws])
        deviations = jnp.exp(row(self.log_std, skill))
        return self.likeliest_action(skill, phi) + deviations * noise

    def at(self, skills: ArrayLike) -> "GaussianSkills":
        """These skills, in this order."""
        return GaussianSkills(self.theta[skills], self.log_std[skills])

    def likeliest_action(self, skill: Int[Array, "*batch"], phi: Float[Array, "D ..."]) -> Float[Array, "A ..."]:
        return _of_skill(self.theta, skill, phi)

    def entropies(self) -> Float[Array, "S"]:
        """In nats."""
        return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)
