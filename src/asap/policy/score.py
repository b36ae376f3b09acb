"""The Theta and beta gradient theorems (paper, Section 4) in closed form, for the sampled and the marginal estimator.

The closed form is for Gibbs skills and fixed features; Gaussian skills and learned features take automatic
differentiation.

Score of the joint log-probability Z = log p(i | x, m) + log sigma_i(a | x) of a sampled skill i:

    d Z / d theta_i = alpha_theta (phi_{x,a} - sum_b sigma_i(b | x) phi_{x,b})          (errata E1)
    d Z / d beta_k  = alpha_beta psi (b_k(i) - sigmoid(alpha_beta psi^T beta_k))        (errata E7)

The marginal score, of log pi(a | x, m), is the mean of these under the posterior w_i = p_i sigma_i(a) / pi(a) (errata
E20). Both are one formula: the sampled estimator has all the posterior on the skill that was drawn. Every learner asks
for the same thing, a sum over samples of weight times score, and differs only in the weights.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from asap.base.arrays import contract, lift, log_total, total
from asap.base.types import Transition
from asap.policy.features import Network
from asap.policy.partition import skill_bits
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GaussianSkills

SAMPLED, MARGINAL = "sampled", "marginal"


class Parameters(NamedTuple):
    """Omega = (Theta, beta), or a gradient with respect to it; and what else there is to learn in some policies."""

    theta: Float[Array, "S A D"]
    beta: Float[Array, "K F"]
    log_std: Float[Array, "S A"] | None = None  # Gaussian skills.
    phi: Network | None = None  # Learned features under the skills,
    psi: Network | None = None  # and under the hyperplanes.


def parameters_of(policy: ASAPPolicy) -> Parameters:
    return Parameters(*(part(policy) for part in _learned(policy)))


def with_parameters(policy: ASAPPolicy, parameters: Parameters) -> ASAPPolicy:
    places = [part for part, new in zip(_learned(policy), parameters) if new is not None]
    new = tuple(new for new in parameters if new is not None)
    return eqx.tree_at(lambda p: tuple(part(p) for part in places), policy, new)


def _learned(policy: ASAPPolicy) -> tuple[Callable[[ASAPPolicy], Any], ...]:
    """Where each field of `Parameters` is found."""

    def nowhere(_: ASAPPolicy) -> None:
        return None

    return (
        lambda p: p.skills.theta,
        lambda p: p.partition.beta,
        (lambda p: p.skills.log_std) if isinstance(policy.skills, GaussianSkills) else nowhere,
        (lambda p: p.phi.basis) if isinstance(policy.phi.basis, Network) else nowhere,
        (lambda p: p.psi.basis) if isinstance(policy.psi.basis, Network) else nowhere,
    )


def has_closed_form(policy: ASAPPolicy) -> bool:
    """Whether the theorems cover all that is learned; otherwise the score is found by automatic differentiation."""
    return all(part is None for part in parameters_of(policy)[2:])


class Score(NamedTuple):
    """The score of a sample, factored: theta_i gets `skills[i]` of its own score, beta_k gets `planes[k]` psi.

    By the theorems, for what has a closed form; of other policies only the log-probability is used.
    """

    log_prob: Float[Array, "*batch"]
    skills: Float[Array, "S *batch"]
    planes: Float[Array, "K *batch"]
    psi: Float[Array, "F *batch"]


def score(policy: ASAPPolicy, step: Transition, gradient: str) -> Score:
    """Log-probability and score of a step, or of a batch of them, by the theorems."""
    x, m = step.observation, step.descriptor
    psi = policy.psi(x, m)
    log_p = policy.partition.log_probs(psi)
    evidence = log_evidence(policy, step, gradient)
    log_prob, posterior = log_total(policy.skill_log_probs(x, m, step.previous_skill) + evidence)
    # d log pi = sum_i drawn_i d log p_i; without commitment drawn is the posterior itself.
    drawn = posterior
    if policy.termination is not None:
        drawn = _drawn_with_commitment(policy, step, log_p, evidence, log_prob)
    planes = policy.partition.alpha_beta * plane_weights(policy, psi, drawn)
    return Score(log_prob, posterior, planes, psi)


def log_evidence(policy: ASAPPolicy, step: Transition, gradient: str) -> Float[Array, "S *batch"]:
    """log sigma_i(a | x) of every skill; where the sampled skill is scored, only of that one."""
    log_sigma = policy.skills.log_probs_of_action(step.action, policy.phi(step.observation, step.descriptor))
    if gradient != SAMPLED:
        return log_sigma
    is_drawn = lift(jnp.arange(policy.num_skills), 1, step.skill.ndim) == step.skill
    return jnp.where(is_drawn, log_sigma, -jnp.inf)


def plane_weights(
    policy: ASAPPolicy, psi: Float[Array, "F *batch"], drawn: Float[Array, "S *batch"]
) -> Float[Array, "K *batch"]:
    """sum_i drawn_i (b_k(i) - sigmoid(u_k)): how log p responds to each margin, for weights on the skills."""
    with_bit = skill_bits(policy.partition.num_planes).T.astype(jnp.float32)
    return contract(with_bit, drawn) - jax.nn.sigmoid(policy.partition.margins(psi)) * total(drawn)


def _drawn_with_commitment(policy, step, log_p, log_evidence, log_prob) -> Float[Array, "S *batch"]:
    """p_i d log pi / d p_i for P_j = (1 - s) p_j + s [j = previous], where s = (1 - termination) p_previous."""
    is_previous = lift(jnp.arange(policy.num_skills), 1, step.skill.ndim) == step.previous_skill
    log_stay = policy.log_stay(log_p, step.previous_skill)
    stay = jnp.exp(log_stay)
    relative = jnp.exp(log_p + log_evidence - log_prob)  # p_i evidence_i / pi
    kept = jnp.exp(
        log_stay + log_evidence - log_prob
    )  # s evidence_previous / pi, at most 1: evidence / pi alone is not.
    return (1 - stay) * relative + jnp.where(is_previous, kept - stay * relative.sum(0), 0.0)


def weighted_score(policy: ASAPPolicy, batch: Transition, scores: Score, weights: Float[Array, "N"]) -> Parameters:
    """sum_n weights_n d log_prob_n / d Omega."""
    planes = jnp.einsum("kn,fn->kf", scores.planes * weights, scores.psi)
    skills = policy.skills.alpha_theta * scores.skills * weights
    one_hot = (jnp.arange(policy.skills.theta.shape[1])[:, None] == batch.action).astype(jnp.float32)
    phi = policy.phi(batch.observation, batch.descriptor)
    sigma = jnp.exp(policy.skills.log_probs(phi))
    if policy.phi.constant:
        taken = jnp.einsum("sn,an->sa", skills, one_hot) - skills.sum(-1)[:, None] * sigma
        return Parameters(taken[..., None], planes)
    return Parameters(jnp.einsum("san,dn->sad", skills[:, None] * (one_hot - sigma), phi), planes)


def weighted_score_by_autodiff(
    policy: ASAPPolicy, batch: Transition, gradient: str, weights: Float[Array, "N"]
) -> Parameters:
    """The same for any policy."""

    def weighted(parameters: Parameters) -> Float[Array, ""]:
        changed = with_parameters(policy, parameters)
        evidence = log_evidence(changed, batch, gradient)
        joint = changed.skill_log_probs(batch.observation, batch.descriptor, batch.previous_skill) + evidence
        return weights @ log_total(joint)[0]

    return jax.grad(weighted)(parameters_of(policy))
