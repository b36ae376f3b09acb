"""The Theta and beta gradient theorems (paper, Section 4) in closed form, for the sampled and the marginal estimator.

Score of the joint log-probability Z = log p(i | x, m) + log sigma_i(a | x) of a sampled skill i:

    d Z / d theta_i = alpha_theta (phi_{x,a} - sum_b sigma_i(b | x) phi_{x,b})          (errata E1)
    d Z / d beta_k  = alpha_beta psi (b_k(i) - sigmoid(alpha_beta psi^T beta_k))        (errata E7)

The marginal score, of log pi(a | x, m), is the mean of these under the posterior w_i = p_i sigma_i(a) / pi(a) (errata
E20). Both are one formula: the sampled estimator has all the posterior on the skill that was drawn. Every learner asks
for the same thing, a sum over samples of weight times score, and differs only in the weights.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from asap.policy.partition import skill_bits
from asap.policy.policy import ASAPPolicy
from asap.types import Transition
from asap.vector import contract, lift, log_total, total

SAMPLED, MARGINAL = "sampled", "marginal"


class Parameters(NamedTuple):
    """Omega = (Theta, beta), or a gradient with respect to it."""

    theta: Float[Array, "S A D"]
    beta: Float[Array, "K F"]


def parameters_of(policy: ASAPPolicy) -> Parameters:
    return Parameters(policy.skills.theta, policy.partition.beta)


def with_parameters(policy: ASAPPolicy, parameters: Parameters) -> ASAPPolicy:
    return eqx.tree_at(lambda p: (p.skills.theta, p.partition.beta), policy, tuple(parameters))


class Score(NamedTuple):
    """The score of a sample, factored: theta_i gets `skills[i]` of its own score, beta_k gets `planes[k]` psi."""

    log_prob: Float[Array, "*batch"]
    skills: Float[Array, "S *batch"]
    planes: Float[Array, "K *batch"]
    psi: Float[Array, "F *batch"]


def score(policy: ASAPPolicy, step: Transition, gradient: str) -> Score:
    """Log-probability and score of a step, or of a batch of them, by the theorems."""
    x, m = step.observation, step.descriptor
    psi = policy.psi(x, m)
    log_p = policy.partition.log_probs(psi)
    log_evidence = policy.skills.log_probs_of_action(step.action, policy.phi(x, m))
    if gradient == SAMPLED:
        is_drawn = lift(jnp.arange(policy.num_skills), 1, step.skill.ndim) == step.skill
        log_evidence = jnp.where(is_drawn, log_evidence, -jnp.inf)
    log_joint = policy.skill_log_probs(x, m, step.previous_skill) + log_evidence
    log_prob, posterior = log_total(log_joint)
    # d log pi = sum_i drawn_i d log p_i; without commitment drawn is the posterior itself.
    drawn = posterior
    if policy.termination is not None:
        drawn = _drawn_with_commitment(policy, step, log_p, log_evidence, log_prob)
    planes = policy.partition.alpha_beta * plane_weights(policy, psi, drawn)
    return Score(log_prob, policy.skills.alpha_theta * posterior, planes, psi)


def plane_weights(policy: ASAPPolicy, psi: Float[Array, "F *batch"], drawn: Float[Array, "S *batch"]) -> Float[Array, "K *batch"]:
    """sum_i drawn_i (b_k(i) - sigmoid(u_k)): how log p responds to each margin, for weights on the skills."""
    with_bit = skill_bits(policy.partition.num_planes).T.astype(jnp.float32)
    return contract(with_bit, drawn) - jax.nn.sigmoid(policy.partition.margins(psi)) * total(drawn)


def _drawn_with_commitment(policy, step, log_p, log_evidence, log_prob) -> Float[Array, "S *batch"]:
    """p_i d log pi / d p_i for P_j = (1 - s) p_j + s [j = previous], where s = (1 - termination) p_previous."""
    is_previous = lift(jnp.arange(policy.num_skills), 1, step.skill.ndim) == step.previous_skill
    log_stay = policy.log_stay(log_p, step.previous_skill)
    stay = jnp.exp(log_stay)
    relative = jnp.exp(log_p + log_evidence - log_prob)  # p_i evidence_i / pi
    kept = jnp.exp(log_stay + log_evidence - log_prob)  # s evidence_previous / pi, at most 1: evidence / pi alone is not.
    return (1 - stay) * relative + jnp.where(is_previous, kept - stay * relative.sum(0), 0.0)


def weighted_score(policy: ASAPPolicy, batch: Transition, scores: Score, weights: Float[Array, "N"]) -> Parameters:
    """sum_n weights_n d log_prob_n / d Omega."""
    planes = jnp.einsum("kn,fn->kf", scores.planes * weights, scores.psi)
    skills = scores.skills * weights
    one_hot = (jnp.arange(policy.skills.theta.shape[1])[:, None] == batch.action).astype(jnp.float32)
    phi = policy.phi(batch.observation, batch.descriptor)
    sigma = jnp.exp(policy.skills.log_probs(phi))
    if policy.phi.constant:
        taken = jnp.einsum("sn,an->sa", skills, one_hot) - skills.sum(-1)[:, None] * sigma
        return Parameters(taken[..., None], planes)
    return Parameters(jnp.einsum("san,dn->sad", skills[:, None] * (one_hot - sigma), phi), planes)
