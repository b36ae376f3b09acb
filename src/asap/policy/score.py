"""The Theta and beta gradient theorems (paper, Section 4) in closed form, for the sampled and the marginal estimator.

The closed form is for Gibbs skills and fixed features; Gaussian skills and learned features take automatic
differentiation.

Score of the joint log-probability Z = log p(i | x, m) + log sigma_i(a | x) of a sampled skill i:

    d Z / d theta_i = alpha_theta (phi_{x,a} - sum_b sigma_i(b | x) phi_{x,b})          (errata E1)
    d Z / d beta_k  = alpha_beta psi (b_k(i) - sigmoid(alpha_beta psi^T beta_k))        (errata E7)

b_k(i) is the side of plane k on which skill i lives; for a skill of several regions it is the mean over them, each by its
probability.

The marginal score, of log pi(a | x, m), is the mean of these under the posterior w_i = p_i sigma_i(a) / pi(a) (errata
E20). Both are one formula: the sampled estimator has all the posterior on the skill that was drawn. Every learner asks
for the same thing, a sum over samples of weight times score, and differs only in the weights.

A policy that commits hands its skill on to the next step. Summing out the skill of a step alone would lose what the
skill means for later rewards, so the marginal score is that of log p(a_t | all that the episode showed before), with
the skills summed out by a filter (`filtered`). The sampled score needs no filter: it tells every skill.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import lift, log_total, total
from asap.base.types import Transition
from asap.policy.features import Network
from asap.policy.policy import NOTHING, ASAPPolicy
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


def without_kept(policy: ASAPPolicy, parameters: Parameters, instead: Parameters | None = None) -> Parameters:
    """With zeros, or with other numbers, in the place of those that belong to planes and skills that are kept."""
    if policy.kept == NOTHING:
        return parameters

    def masked(own: Array, other: Array | None, kept: tuple[int, ...]) -> Array:
        mask = np.zeros(own.shape[0], bool)
        mask[list(kept)] = True
        return jnp.where(lift(mask, 1, own.ndim - 1), 0.0 if other is None else other, own)

    others = Parameters(None, None) if instead is None else instead
    log_std = parameters.log_std
    return parameters._replace(
        theta=masked(parameters.theta, others.theta, policy.kept.skills),
        beta=masked(parameters.beta, others.beta, policy.kept.planes),
        log_std=None if log_std is None else masked(log_std, others.log_std, policy.kept.skills),
    )


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

    By the theorems, for what has a closed form; of other policies only the log-probability is used. A score that was
    filtered has no factors: it reaches back to the first step of the episode.
    """

    log_prob: Float[Array, "*batch"]
    skills: Float[Array, "S *batch"] | None = None
    planes: Float[Array, "K *batch"] | None = None
    psi: Float[Array, "F *batch"] | None = None


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
    planes = policy.partition.alpha_beta * policy.partition.plane_weights(psi, drawn)
    return Score(log_prob, posterior, planes, psi)


def log_evidence(policy: ASAPPolicy, step: Transition, gradient: str) -> Float[Array, "S *batch"]:
    """log sigma_i(a | x) of every skill; where the sampled skill is scored, only of that one."""
    log_sigma = policy.skills.log_probs_of_action(step.action, policy.phi(step.observation, step.descriptor))
    if gradient != SAMPLED:
        return log_sigma
    is_drawn = lift(jnp.arange(policy.num_skills), 1, step.skill.ndim) == step.skill
    return jnp.where(is_drawn, log_sigma, -jnp.inf)


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


def is_filtered(policy: ASAPPolicy, gradient: str) -> bool:
    """Whether scores need the order of the steps: the skill is summed out, and handed on from step to step."""
    return policy.termination is not None and gradient != SAMPLED


def score_in_order(policy: ASAPPolicy, steps: Transition, gradient: str) -> Score:
    """The score of every step of a batch with axes (..., time, lanes), in one row."""
    if is_filtered(policy, gradient):
        return Score(filtered(policy, steps).log_prob.ravel())
    return score(policy, steps.flat(), gradient)


class Filtered(NamedTuple):
    """What the steps so far tell of the skill of a policy that commits."""

    log_prob: Float[Array, "T L"]  # Of each action, given all that the episode showed before it.
    before: Float[Array, "S T L"]  # The probability that each skill is in force; 0 where none is.
    after: Float[Array, "S T L"]  # The same after the step.


def filtered(policy: ASAPPolicy, steps: Transition) -> Filtered:
    """p(a) = sum_i b(i) sigma_i(a) and after(i) = b(i) sigma_i(a) / p(a), with b(i) = sum_j before(j) P(i | x, j).

    Where steps begin within an episode, the skill in force was recorded, and is known. Where they end within one, the
    next batch will know the skill i of the last step, so that step is scored as (i, a): else nothing would answer for i.
    """
    log_p = policy.partition.log_probs(policy.psi(steps.observation, steps.descriptor))
    is_first, is_cut = _borders(steps)
    is_other = one_hot(policy, steps.skill) == 0
    log_joint = log_p + jnp.where(is_cut & is_other, -jnp.inf, log_evidence(policy, steps, MARGINAL))
    largest = jax.lax.stop_gradient(log_joint.max(0))
    shares = jnp.exp(log_joint - largest)

    def step(belief: Float[Array, "S L"], now: tuple[Array, ...]):
        p, share, recorded, is_first = now
        before = jnp.where(is_first, recorded, belief)
        norm, after = filter_step(policy, p, share, before)
        return after, (norm, before, after)

    over_time = (jnp.moveaxis(part, 1, 0) for part in (jnp.exp(log_p), shares, one_hot(policy, steps.previous_skill)))
    norm, before, after = jax.lax.scan(step, jnp.zeros_like(shares[:, 0]), (*over_time, is_first))[1]
    return Filtered(largest + jnp.log(norm), jnp.moveaxis(before, 0, 1), jnp.moveaxis(after, 0, 1))


def filter_step(
    policy: ASAPPolicy, p: Float[Array, "S L"], share: Float[Array, "S L"], before: Float[Array, "S L"]
) -> tuple[Float[Array, "L"], Float[Array, "S L"]]:
    """p(a) and the probability of each skill after a, from p_i, p_i sigma_i(a) and the probability before.

    P(i | x, j) = (1 - k p_j) p_i + k p_j [i = j] gives b(i) = p_i (1 + k (before(i) - sum_j before(j) p_j)), k the chance
    to keep; and b = p where no skill is in force.
    """
    joint = share * (1 + policy.keeping * (before - total(before * p)))
    norm = total(joint)
    return norm, joint / norm


def _borders(steps: Transition) -> tuple[Bool[Array, "T L"], Bool[Array, "T L"]]:
    """Steps before which nothing was seen of the episode here, and steps after which the episode goes on elsewhere."""
    counts = jnp.ones(steps.ended.shape, bool) if steps.counts is None else steps.counts
    edge = jnp.ones_like(counts[:1])
    is_first = jnp.concatenate([edge, (steps.ended | ~counts)[:-1]])
    return is_first, ~steps.ended & jnp.concatenate([~counts[1:], edge])


def one_hot(policy: ASAPPolicy, skill: Int[Array, "*batch"]) -> Float[Array, "S *batch"]:
    """1 for the skill, 0 for the others; all 0 where there is none."""
    return (lift(jnp.arange(policy.num_skills), 1, skill.ndim) == skill).astype(policy.partition.beta.dtype)


def skills_in_force(
    policy: ASAPPolicy, steps: Transition, gradient: str
) -> tuple[Float[Array, "S T L"], Float[Array, "S T L"]]:
    """The probability of each skill before and after every step, given what is scored: the actions, or the skills too.

    A baseline may know no more than that: what else it knew would tell something about the action that it judges.
    """
    if is_filtered(policy, gradient):
        return filtered(policy, steps)[1:]
    return one_hot(policy, steps.previous_skill), one_hot(policy, steps.skill)


def weighted_filtered_score(policy: ASAPPolicy, steps: Transition, weights: Float[Array, "N"]) -> Parameters:
    """sum_n weights_n d log_prob_n / d Omega, through the filter."""

    def weighted(parameters: Parameters) -> Float[Array, ""]:
        return weights @ filtered(with_parameters(policy, parameters), steps).log_prob.ravel()

    return jax.grad(weighted)(parameters_of(policy))


def filtered_scores(policy: ASAPPolicy, steps: Transition) -> Float[Array, "P N"]:
    """The score of every step, flat; forward, because the parameters are fewer than the steps."""
    flat, unflatten = jax.flatten_util.ravel_pytree(parameters_of(policy))

    def log_probs(flat: Float[Array, "P"]) -> Float[Array, "N"]:
        return filtered(with_parameters(policy, unflatten(flat)), steps).log_prob.ravel()

    return jax.jacfwd(log_probs)(flat).T
