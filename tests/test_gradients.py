"""The gradient theorems: our closed forms are the derivatives of the log-probabilities, and have the mean they should.

`study` computes, sample by sample, our score and the one of automatic differentiation; NumPy states the policy once
more in float64 for finite differences. The batch holds every (skill, action) at a few states, so means are exact sums.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import log_expit, log_softmax, logsumexp

from asap.base.types import Transition
from asap.config.schema import LearnConfig
from asap.learn.updates import fisher
from asap.policy import partition
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.score import MARGINAL, SAMPLED, Parameters, parameters_of, score, weighted_score, with_parameters

NUM_ACTIONS = 4

SHARED = (0, 1, 1, 2, 0, 2, 2, 1)  # The skill of each of eight regions.
# Planes, kind of skills, psi, task features, termination and which regions share a skill; few, because each is compiled.
CASES = [
    (1, "constant", "linear", "none", None),
    (1, "linear", "fourier", "interactions", 0.2),
    (2, "linear", "polynomial", "additive", None),
    (2, "constant", "fourier with bias", "interactions", 0.0),
    (3, "constant", "linear", "none", 0.2),
    (3, "linear", "linear", "interactions", None),
    (3, "linear", "linear", "none", None, SHARED),
    (3, "constant", "polynomial", "additive", 0.2, SHARED),
    (5, "constant", "linear", "none", None, 8 * (0, 1, 2, 3)),
]


def previous_skills(policy: ASAPPolicy) -> list[int]:
    return [NO_SKILL, 0, policy.num_skills - 1]


def every_choice(policy: ASAPPolicy, seed: int = 3) -> Transition:
    """Three states with another previous skill each, and at each of them all skills and actions."""
    rng = np.random.default_rng(seed)
    previous = previous_skills(policy)
    grid = np.meshgrid(np.arange(len(previous)), np.arange(policy.num_skills), np.arange(NUM_ACTIONS), indexing="ij")
    state, skill, action = (index.ravel() for index in grid)
    x = rng.uniform(size=(4, len(previous)))[:, state]
    m = rng.uniform(-1, 1, size=(2, len(previous)))[:, state]
    x, m, unused = (jnp.asarray(each, jnp.float32) for each in (x, m, np.zeros(len(state))))
    indices = (jnp.asarray(each, jnp.int32) for each in (np.asarray(previous)[state], skill, action))
    return Transition(x, m, *indices, unused, unused > 0, unused > 0, x)


class Study(NamedTuple):
    """Of every sample: the score, flat, by our formula and by autodiff, with the parts that ours is made of."""

    log_prob: np.ndarray
    ours: np.ndarray  # (samples, parameters)
    weighted: np.ndarray  # Our weighted sum over the batch.
    autodiff: np.ndarray
    true_log_prob: np.ndarray
    psi: np.ndarray
    phi: np.ndarray
    one_hot: np.ndarray  # The action.
    sigma: np.ndarray  # (skills, actions, samples)
    pi: np.ndarray  # (actions, samples)
    skills: np.ndarray  # Weight of each skill's score.
    planes: np.ndarray  # Weight of psi in the score of each plane.


def flatten(parameters: Parameters) -> jax.Array:
    return jnp.concatenate([parameters.theta.ravel(), parameters.beta.ravel()])


def our_scores(policy: ASAPPolicy, batch: Transition, gradient: str) -> jax.Array:
    """One row per sample: `weighted_score` with the weight on that sample alone."""
    scores = score(policy, batch, gradient)
    weights = jnp.eye(batch.action.shape[-1])
    return jax.vmap(lambda weight: flatten(weighted_score(policy, batch, scores, weight)))(weights)


def log_probs(policy: ASAPPolicy, batch: Transition, gradient: str) -> jax.Array:
    x, m, previous = batch.observation, batch.descriptor, batch.previous_skill
    if gradient == SAMPLED:
        return policy.log_prob(x, m, batch.skill, batch.action, previous)
    return jnp.take_along_axis(policy.action_log_probs(x, m, previous), batch.action[None], axis=0)[0]


def autodiff_scores(policy: ASAPPolicy, batch: Transition, gradient: str) -> jax.Array:
    jacobian = jax.jacrev(lambda parameters: log_probs(with_parameters(policy, parameters), batch, gradient))
    rows = jacobian(parameters_of(policy))
    return jnp.concatenate([leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves(rows)], axis=1)


def study_one(policy: ASAPPolicy, batch: Transition, weights: jax.Array, gradient: str) -> Study:
    scores = score(policy, batch, gradient)
    x, m = batch.observation, batch.descriptor
    samples = batch.action.shape[-1]
    phi = policy.phi(x, m)
    phi = jnp.broadcast_to(phi.reshape(phi.shape[0], -1), (phi.shape[0], samples))
    return Study(
        log_prob=scores.log_prob,
        ours=our_scores(policy, batch, gradient),
        weighted=flatten(weighted_score(policy, batch, scores, weights)),
        autodiff=autodiff_scores(policy, batch, gradient),
        true_log_prob=log_probs(policy, batch, gradient),
        psi=policy.psi(x, m),
        phi=phi,
        one_hot=(jnp.arange(NUM_ACTIONS)[:, None] == batch.action).astype(jnp.float32),
        sigma=jnp.exp(policy.skills.log_probs(phi)),
        pi=jnp.exp(policy.action_log_probs(x, m, batch.previous_skill)),
        skills=policy.skills.alpha_theta * scores.skills,
        planes=scores.planes,
    )


@pytest.fixture(scope="module")
def study(compiled, new_policy) -> Callable[[tuple], tuple[ASAPPolicy, Transition, np.ndarray, dict[str, Study]]]:
    run = compiled(lambda *arguments: {gradient: study_one(*arguments, gradient) for gradient in (SAMPLED, MARGINAL)})

    @functools.cache
    def of(case: tuple) -> tuple[ASAPPolicy, Transition, np.ndarray, dict[str, Study]]:
        policy = new_policy(*case)
        batch = every_choice(policy)
        weights = np.random.default_rng(4).normal(size=batch.action.shape).astype(np.float32)
        return policy, batch, weights, jax.tree.map(np.asarray, run(policy, batch, weights))

    return of


def difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest error, relative to the largest number."""
    return float(np.abs(np.asarray(found, float) - expected).max() / np.abs(expected).max())


EACH = pytest.mark.parametrize("case", CASES, ids=str)
BOTH = pytest.mark.parametrize("gradient", [SAMPLED, MARGINAL])

# ---- The derivative -----------------------------------------------------------------------------------------------


@EACH
@BOTH
def test_every_score_is_that_of_autodiff(study, case, gradient):
    found = study(case)[-1][gradient]
    assert difference(found.ours, found.autodiff) < 1e-5


@EACH
@BOTH
def test_the_log_probability_is_the_policy_s(study, case, gradient):
    found = study(case)[-1][gradient]
    np.testing.assert_allclose(found.log_prob, found.true_log_prob, rtol=1e-5, atol=1e-5)


@EACH
@BOTH
def test_weights_weigh_the_scores(study, case, gradient):
    _, _, weights, found = study(case)
    assert difference(found[gradient].weighted, weights.astype(float) @ found[gradient].autodiff) < 1e-5


def plain_log_prob(policy, psi, phi, batch, gradient, theta, beta) -> np.ndarray:
    """log P of every sample, stated again in NumPy and float64, as the paper and errata E10 put it."""
    margins = float(policy.partition.alpha_beta) * beta @ psi
    bits = (np.arange(2 ** len(beta))[:, None] >> np.arange(len(beta))) & 1
    log_p = bits @ log_expit(margins) + (1 - bits) @ log_expit(-margins)
    if policy.partition.region_skills is not None:
        has = np.arange(policy.num_skills)[:, None] == policy.partition.region_skills
        log_p = np.log(has @ np.exp(log_p))
    log_sigma = log_softmax(float(policy.skills.alpha_theta) * np.einsum("sad,dn->san", theta, phi), axis=1)
    samples = np.arange(psi.shape[1])
    if policy.termination is not None:
        p, previous = np.exp(log_p), np.asarray(batch.previous_skill)
        stay = np.where(previous == NO_SKILL, 0.0, (1 - policy.termination) * p[previous, samples])
        kept = stay * (np.arange(policy.num_skills)[:, None] == previous)
        log_p = np.log((1 - stay) * p + kept)
    log_joint = log_p + log_sigma[:, np.asarray(batch.action), samples]
    return log_joint[np.asarray(batch.skill), samples] if gradient == SAMPLED else logsumexp(log_joint, axis=0)


@EACH
@BOTH
def test_scores_are_those_of_finite_differences(study, case, gradient):
    policy, batch, weights, found = study(case)
    psi, phi = found[gradient].psi.astype(float), found[gradient].phi.astype(float)
    theta, beta = (np.asarray(leaf, float) for leaf in parameters_of(policy)[:2])
    flat, step = np.concatenate([theta.ravel(), beta.ravel()]), 1e-5

    def weighted(flat: np.ndarray) -> float:
        parts = flat[: theta.size].reshape(theta.shape), flat[theta.size :].reshape(beta.shape)
        return weights @ plain_log_prob(policy, psi, phi, batch, gradient, *parts)

    moves = step * np.eye(len(flat))
    expected = np.asarray([weighted(flat + move) - weighted(flat - move) for move in moves]) / (2 * step)
    assert difference(found[gradient].weighted, expected) < 1e-5
    stated = plain_log_prob(policy, psi, phi, batch, gradient, theta, beta)
    np.testing.assert_allclose(found[gradient].log_prob, stated, rtol=1e-5, atol=1e-5)


# ---- Its mean -----------------------------------------------------------------------------------------------------


def by_state(policy: ASAPPolicy, values: np.ndarray) -> np.ndarray:
    """Axes (state, skill, action, ...)."""
    return values.reshape(len(previous_skills(policy)), policy.num_skills, NUM_ACTIONS, *values.shape[1:]).astype(float)


@EACH
@BOTH
def test_the_mean_score_is_zero(study, case, gradient):
    policy, _, _, found = study(case)
    joint = by_state(policy, np.exp(found[SAMPLED].log_prob))
    np.testing.assert_allclose(joint.sum((1, 2)), 1.0, rtol=1e-5)
    scores = by_state(policy, found[gradient].ours)
    mean = np.einsum("xsa,xsap->xp", joint, scores)
    assert np.abs(mean).max() < 1e-5 * np.abs(scores).max()


@EACH
def test_the_marginal_score_is_the_mean_of_the_sampled_one(study, case):
    """Errata E20: given state and action, over the posterior of the skill."""
    policy, _, _, found = study(case)
    joint = by_state(policy, np.exp(found[SAMPLED].log_prob))
    posterior = joint / joint.sum(1, keepdims=True)
    mean = np.einsum("xsa,xsap->xap", posterior, by_state(policy, found[SAMPLED].ours))
    assert difference(by_state(policy, found[MARGINAL].ours)[:, 0], mean) < 1e-5


@EACH
def test_the_marginal_score_has_no_larger_variance(study, case):
    policy, _, _, found = study(case)
    joint = by_state(policy, np.exp(found[SAMPLED].log_prob))
    sampled, marginal = (
        np.einsum("xsa,xsap->xp", joint, by_state(policy, found[gradient].ours) ** 2)
        for gradient in (SAMPLED, MARGINAL)
    )
    assert (marginal <= sampled + 1e-6 * sampled.max()).all()
    assert marginal.sum() < 0.9 * sampled.sum()


# ---- Would the check notice? --------------------------------------------------------------------------------------

CASE = (2, "linear", "polynomial", "additive", None)
ScoreFunction = Callable[[Study], np.ndarray]


@pytest.fixture
def mismatch(study) -> Callable[[ScoreFunction], list[float]]:
    """How far a score function is from autodiff, for both gradients: the check that ours passes above."""

    def of(score_function: ScoreFunction) -> list[float]:
        return [difference(score_function(found), found.autodiff) for found in study(CASE)[-1].values()]

    return of


def rows(found: Study, theta: np.ndarray, sign_theta: float = 1.0, sign_beta: float = 1.0) -> np.ndarray:
    """Scores of the samples from what each action of each skill counts: (skills, actions, samples)."""
    of_theta = np.einsum("sn,san,dn->nsad", found.skills, theta, found.phi)
    of_beta = np.einsum("kn,fn->nkf", found.planes, found.psi)
    samples = len(of_beta)
    return np.concatenate(
        [sign_theta * of_theta.reshape(samples, -1), sign_beta * of_beta.reshape(samples, -1)], axis=1
    )


def as_built(found: Study) -> np.ndarray:
    return rows(found, found.one_hot - found.sigma)


def theta_flipped(found: Study) -> np.ndarray:
    return rows(found, found.one_hot - found.sigma, sign_theta=-1)


def beta_flipped(found: Study) -> np.ndarray:
    return rows(found, found.one_hot - found.sigma, sign_beta=-1)


def without_the_mean(found: Study) -> np.ndarray:
    """phi_a, without sum_b sigma_i(b) phi_b."""
    return rows(found, np.broadcast_to(found.one_hot, found.sigma.shape))


def as_printed(found: Study) -> np.ndarray:
    """Errata E1: alpha phi_a - alpha phi_a pi(a)."""
    return rows(found, np.broadcast_to(found.one_hot * (1 - found.pi), found.sigma.shape))


def with_pi_for_sigma(found: Study) -> np.ndarray:
    """Errata E1: the mean under pi, where that under sigma_i belongs."""
    return rows(found, np.broadcast_to(found.one_hot - found.pi, found.sigma.shape))


def of_another_skill(found: Study) -> np.ndarray:
    return rows(found._replace(skills=found.skills[::-1]), found.one_hot - found.sigma)


def planes_exchanged(found: Study) -> np.ndarray:
    return rows(found._replace(planes=found.planes[::-1]), found.one_hot - found.sigma)


def test_the_check_passes_ours(mismatch):
    assert max(mismatch(lambda found: found.ours)) < 1e-5
    assert max(mismatch(as_built)) < 1e-5


@pytest.mark.parametrize(
    "broken",
    [theta_flipped, beta_flipped, without_the_mean, as_printed, with_pi_for_sigma, of_another_skill, planes_exchanged],
    ids=lambda broken: broken.__name__,
)
def test_the_check_detects(mismatch, broken):
    assert min(mismatch(broken)) > 0.01


@pytest.mark.parametrize("swap", [lambda bits: bits[:, ::-1], lambda bits: 1 - bits], ids=["order", "sides"])
def test_the_check_detects_swapped_bits(study, mismatch, compiled, monkeypatch, swap):
    true_bits = partition.region_bits
    monkeypatch.setattr(partition, "region_bits", lambda num_planes: swap(true_bits(num_planes)))
    policy, batch = study(CASE)[:2]
    swapped = np.asarray(compiled(lambda policy, batch: our_scores(policy, batch, MARGINAL))(policy, batch))
    assert min(mismatch(lambda found: swapped)) > 0.01


def test_the_printed_simplification_has_a_mean_that_is_not_zero(study):
    """Errata E1: which is why any baseline would bias it."""
    policy, _, _, found = study(CASE)
    joint = by_state(policy, np.exp(found[SAMPLED].log_prob))
    printed = by_state(policy, as_printed(found[SAMPLED]))
    mean = np.einsum("xsa,xsap->xp", joint, printed)
    assert np.abs(mean).max() > 0.05 * np.abs(printed).max()


# ---- The Fisher matrix --------------------------------------------------------------------------------------------


@BOTH
def test_the_fisher_matrix_is_the_mean_square_of_the_score(study, compiled, gradient):
    """Its diagonal blocks and its coupling of skills and planes, by enumeration."""
    policy, batch, _, found = study(CASE)
    config = LearnConfig(gradient=gradient)
    matrix = compiled(lambda policy, batch: fisher(config, policy, batch))(policy, batch)
    joint, scores = by_state(policy, np.exp(found[SAMPLED].log_prob)), by_state(policy, found[gradient].autodiff)
    expected = np.einsum("xsa,xsap,xsaq->pq", joint, scores, scores) / len(joint)
    assert difference(matrix, expected) < 1e-5
