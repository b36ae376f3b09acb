"""Hyperplanes taken from a policy or added to it, without learning."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.errors import UserError
from asap.policy.partition import skill_bits
from asap.policy.policy import ASAPPolicy
from asap.policy.score import parameters_of, with_parameters
from asap.policy.skills import GaussianSkills, UniformSkills


def skills_on_side(num_planes: int, k: int, side: int) -> np.ndarray:
    """The skills with b_k = side, in their order: so numbered, they are the skills of the other planes."""
    skills = np.arange(2**num_planes)
    return skills[(skills >> k) & 1 == side]


def drop_plane(policy: ASAPPolicy, k: int, keep_side: int) -> ASAPPolicy:
    """Without plane k: the skills on one side of it serve both."""
    return _without_plane(policy, k, policy.skills.theta[skills_on_side(policy.partition.num_planes, k, keep_side)])


def merge_sides(policy: ASAPPolicy, k: int, usage: Float[Array, "S"]) -> ASAPPolicy:
    """Without plane k: each pair of skills that only it told apart becomes their mixture, weighted by usage."""
    low, high = (skills_on_side(policy.partition.num_planes, k, side) for side in (0, 1))
    theta = jax.vmap(lambda i, j: mixture(policy, jnp.stack([i, j]), usage))(low, high)
    return _without_plane(policy, k, theta)


def merge_skills(policy: ASAPPolicy, skills: Int[Array, "n"], usage: Float[Array, "S"]) -> ASAPPolicy:
    """These skills become one, their mixture, which keeps all their regions."""
    theta = jnp.asarray(policy.skills.theta).at[skills].set(mixture(policy, skills, usage))
    return _with(policy, policy.partition.beta, theta)


def mixture(policy: ASAPPolicy, skills: Int[Array, "n"], usage: Float[Array, "S"]) -> Float[Array, "A 1"]:
    """theta of the skill whose action probabilities are the mean of theirs, by usage; unused skills count the same."""
    if not policy.phi.constant:
        raise UserError(
            "policy.skills", "a mixture of linear skills is not a linear skill", "linear", "merge constant ones"
        )
    weights = jnp.asarray(usage, jnp.float32)[skills]
    weights = jnp.where(weights.sum() > 0, weights, 1.0)
    log_sigma = policy.skills.log_probs(jnp.ones(1))[skills]
    mixed = jax.nn.logsumexp(log_sigma + jnp.log(weights / weights.sum())[:, None], axis=0)
    return mixed[:, None] / policy.skills.alpha_theta


def grow(policy: ASAPPolicy, plane_beta: Float[Array, "F"]) -> ASAPPolicy:
    """One more plane, the last, with the same skills on both sides: the policy is as before until they part."""
    beta = jnp.concatenate([policy.partition.beta, jnp.asarray(plane_beta)[None]])
    theta = jnp.concatenate([policy.skills.theta, policy.skills.theta])
    return _with(policy, beta, theta)


def _without_plane(policy: ASAPPolicy, k: int, theta: Float[Array, "S A D"]) -> ASAPPolicy:
    return _with(policy, policy.partition.beta[np.arange(policy.partition.num_planes) != k], theta)


def _with(policy: ASAPPolicy, beta: Float[Array, "K F"], theta: Float[Array, "S A D"]) -> ASAPPolicy:
    return eqx.tree_at(lambda p: (p.partition.beta, p.skills.theta), policy, (beta, theta))


def soften(policy: ASAPPolicy, length: float) -> ASAPPolicy:
    """Planes longer than this shortened to it: both sides mix again, and the plane can turn."""
    beta = policy.partition.beta
    norm = jnp.linalg.norm(beta, axis=-1, keepdims=True)
    return _with(policy, beta * jnp.minimum(1.0, length / norm), policy.skills.theta)


def flip(policy: ASAPPolicy, signs: Float[Array, "K"]) -> ASAPPolicy:
    """Planes with sign -1 change sides: their two half-spaces swap skills (paper, Figure 2d)."""
    parameters = parameters_of(policy)
    return with_parameters(policy, parameters._replace(beta=parameters.beta * jnp.asarray(signs)[:, None]))


def uniform(policy: ASAPPolicy) -> ASAPPolicy:
    """Every action is equally likely, in every state: random play."""
    nothing = np.zeros_like(policy.skills.theta)
    if isinstance(policy.skills, GaussianSkills):
        return eqx.tree_at(lambda p: p.skills, policy, UniformSkills(nothing))
    return eqx.tree_at(lambda p: p.skills.theta, policy, nothing)


def sign_patterns(num_planes: int) -> Float[Array, "S K"]:
    """All 2^K of them; the first flips nothing."""
    return 1.0 - 2.0 * skill_bits(num_planes)
