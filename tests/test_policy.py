"""The policy: its probabilities, what it samples, and that no temperature breaks it."""

import dataclasses
import itertools
import os
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from asap.base.arrays import pick
from asap.base.errors import UserError
from asap.base.keys import fold, host_generator, root
from asap.base.types import Transition
from asap.config.schema import Config, LearnConfig, PolicyConfig, RunConfig
from asap.envs.catalog import find
from asap.policy.build import build_policy, require_memory
from asap.policy.features import Features, Fourier, Polynomial
from asap.policy.partition import Partition, region_bits
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.score import MARGINAL, SAMPLED, score
from asap.policy.skills import GibbsSkills

X = jnp.asarray([0.4, 0.7, 0.9, 0.1])
M = jnp.asarray([-0.8, 0.7])
NUM_ACTIONS = 4


def states(count: int, seed: int = 0) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.uniform(size=(4, count)), jnp.float32), jnp.asarray(
        rng.uniform(-1, 1, (2, count)), jnp.float32
    )


# Planes, kind of skills and termination; few, because each is compiled.
SHAPES = [(1, "constant", None), (3, "linear", None), (2, "constant", 0.1), (1, "linear", 0.0), (2, "linear", 1.0)]


def shaped(new_policy, shape: tuple, **more) -> ASAPPolicy:
    planes, skills, termination = shape
    return new_policy(planes, skills, termination=termination, **more)


class Tables(NamedTuple):
    """P(skill), P(action) and P(skill, action) at one state."""

    skills: jax.Array
    actions: jax.Array
    joint: jax.Array


@pytest.fixture(scope="module")
def tables(compiled) -> Callable[..., Tables]:
    def of(policy: ASAPPolicy, previous: jax.Array, x: jax.Array, m: jax.Array) -> Tables:
        grid = jnp.meshgrid(*map(jnp.arange, policy.skills.theta.shape[:2]), indexing="ij")
        shape = grid[0].shape
        x_grid, m_grid = (jnp.broadcast_to(each[:, None, None], (len(each), *shape)) for each in (x, m))
        joint = policy.log_prob(x_grid, m_grid, *grid, jnp.full(shape, previous))
        logs = Tables(policy.skill_log_probs(x, m, previous), policy.action_log_probs(x, m, previous), joint)
        return jax.tree.map(jnp.exp, logs)

    run = compiled(of)
    return lambda policy, previous=NO_SKILL, x=X, m=M: jax.tree.map(np.asarray, run(policy, jnp.int32(previous), x, m))


# ---- Probabilities ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [*SHAPES, (5, "linear", 0.1)], ids=str)
def test_probabilities_sum_to_one(new_policy, tables, shape):
    policy = shaped(new_policy, shape)
    for previous in (NO_SKILL, 0, policy.num_skills - 1):
        found = tables(policy, previous)
        np.testing.assert_allclose([found.skills.sum(), found.actions.sum(), found.joint.sum()], 1.0, rtol=1e-5)
        assert found.joint.shape == (2 ** shape[0], NUM_ACTIONS)


def test_the_first_bit_is_the_least_significant():
    """Errata E3: i = sum_k 2^k b_k with k from 0, skills 0..2^K - 1."""
    assert region_bits(3).tolist() == [
        [0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1],
    ]  # fmt: skip


@pytest.mark.parametrize("sides", list(itertools.product([0, 1], repeat=3)))
def test_the_sides_of_the_planes_name_the_skill(sides):
    expected = sides[0] + 2 * sides[1] + 4 * sides[2]
    beta = jnp.asarray([[1.0 if side else -1.0] for side in sides])
    partition = Partition(beta, jnp.float32(50.0))
    assert int(jnp.argmax(partition.log_probs(jnp.ones(1)))) == expected
    assert int(partition.choose((jnp.float32(0.5),) * 3, jnp.ones(1))) == expected


def test_probabilities_by_hand(tables):
    """One plane with p(1) = 3/4; skill 0 is (1/2, 1/2), skill 1 is (1/5, 4/5)."""
    policy = ASAPPolicy(
        Partition(jnp.asarray([[np.log(3.0), 0.0, 0.0]], jnp.float32), jnp.float32(1.0)),
        GibbsSkills(jnp.asarray([[[0.0], [0.0]], [[0.0], [np.log(4.0)]]], jnp.float32), jnp.float32(1.0)),
        Features.of(Polynomial(1), (0, 1)),
        Features.of(Polynomial(0), (0, 1)),
    )
    free = tables(policy)
    np.testing.assert_allclose(free.skills, [0.25, 0.75], rtol=1e-5)
    np.testing.assert_allclose(free.actions, [0.275, 0.725], rtol=1e-5)
    np.testing.assert_allclose(free.joint, [[0.125, 0.125], [0.15, 0.6]], rtol=1e-5)
    # Committed to skill 0 with termination 0.2: kept with 0.8 / 4 = 0.2, else drawn anew.
    committed = tables(dataclasses.replace(policy, termination=0.2), 0)
    np.testing.assert_allclose(committed.skills, [0.4, 0.6], rtol=1e-5)
    np.testing.assert_allclose(committed.actions, [0.32, 0.68], rtol=1e-5)
    np.testing.assert_allclose(committed.joint, [[0.2, 0.2], [0.12, 0.48]], rtol=1e-5)
    first = tables(dataclasses.replace(policy, termination=0.2), NO_SKILL)
    np.testing.assert_allclose(first.skills, [0.25, 0.75], rtol=1e-5)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_marginal_is_the_sum_of_the_joint(new_policy, tables, shape):
    policy = shaped(new_policy, shape)
    for previous in (NO_SKILL, 1):
        found = tables(policy, previous)
        np.testing.assert_allclose(found.joint.sum(0), found.actions, rtol=1e-5)
        np.testing.assert_allclose(found.joint.sum(1), found.skills, rtol=1e-5)


@pytest.mark.parametrize(
    "shape, plane", [(shape, plane) for shape in SHAPES[1:3] for plane in range(shape[0])], ids=str
)
def test_negating_a_plane_and_swapping_its_skills_changes_nothing(new_policy, tables, shape, plane):
    """Errata E26."""
    policy = shaped(new_policy, shape)
    swapped = np.arange(policy.num_skills) ^ (1 << plane)
    beta, theta = policy.partition.beta, policy.skills.theta
    other = eqx.tree_at(
        lambda p: (p.partition.beta, p.skills.theta), policy, (beta.at[plane].multiply(-1), theta[swapped])
    )
    for previous in (NO_SKILL, 2):
        here, there = tables(policy, previous), tables(other, swapped[previous] if previous >= 0 else previous)
        assert not np.allclose(here.skills, there.skills, atol=0.01)
        np.testing.assert_allclose(here.actions, there.actions, rtol=1e-4)
        np.testing.assert_allclose(here.joint, there.joint[swapped], rtol=1e-4, atol=1e-7)


def test_features_that_are_zero_leave_the_choice_even(tables):
    policy = ASAPPolicy(
        Partition(jnp.asarray([[3.0, -7.0]]), jnp.float32(1e6)),
        GibbsSkills(jnp.zeros((2, 4, 1)), jnp.float32(1.0)),
        Features.of(Fourier(jnp.asarray([[3.0, 0.0], [0.0, 1.0]]), bias=False), (0, 1)),
        Features.of(Polynomial(0), (0, 1)),
    )
    even = tables(policy, x=jnp.zeros(4))
    assert even.skills.tolist() == [0.5, 0.5]
    assert even.actions.tolist() == [0.25] * 4


def test_termination_one_is_the_policy_without_commitment(new_policy, tables):
    free, committed = (new_policy(2, "linear", termination=termination) for termination in (None, 1.0))
    for previous in (NO_SKILL, 0, 3):
        for one, other in zip(tables(free, previous), tables(committed, previous)):
            np.testing.assert_allclose(one, other, rtol=1e-5)


# ---- One sample and many ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("planes, num_actions, skills", [(2, 4, "linear"), (5, 4, "linear"), (1, 20, "constant")])
def test_a_batch_is_its_samples_one_by_one(new_policy, compiled, planes, num_actions, skills):
    """Also where vectors are too long to be unrolled: 32 skills, 20 actions."""
    policy = new_policy(planes, skills, termination=0.1)
    rng = np.random.default_rng(0)
    theta = jnp.asarray(rng.normal(size=(2**planes, num_actions, policy.skills.theta.shape[2])), jnp.float32)
    policy = eqx.tree_at(lambda p: p.skills.theta, policy, theta)
    x, m = states(5)
    skill = jnp.asarray(rng.integers(0, 2**planes, 5))
    action = jnp.asarray(rng.integers(0, num_actions, 5))
    previous = jnp.asarray([NO_SKILL, 0, 1, 2**planes - 1, int(skill[4])])

    @compiled
    def everything(x, m, skill, action, previous, draws):
        return (
            policy.skill_log_probs(x, m, previous),
            policy.action_log_probs(x, m, previous),
            policy.log_prob(x, m, skill, action, previous),
            *policy.choose(tuple(draws), x, m, previous),
        )

    batch = (x, m, skill, action, previous, jnp.asarray(rng.uniform(size=(planes + 2, 5)), jnp.float32))
    together = everything(*batch)
    for n in range(5):
        for whole, one in zip(together, everything(*(leaf[..., n] for leaf in batch))):
            np.testing.assert_allclose(whole[..., n], one, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.exp(together[1]).sum(0), 1.0, rtol=1e-5)


# ---- Temperatures -------------------------------------------------------------------------------------------------

EXPONENTS = np.arange(-6, 7, 2)


@pytest.mark.parametrize("termination", [None, 0.0, 0.1])
def test_no_temperature_gives_numbers_that_are_not_finite(new_policy, compiled, termination):
    """From 1e-6 to 1e6, for probable and for improbable choices: log-probabilities, scores and gradients by
    autodiff."""
    start = new_policy(2, "linear", termination=termination)
    count = 200
    rng = np.random.default_rng(1)
    x, m = states(count)
    x = x.at[:, :5].set(0.0)
    skill, action = (jnp.asarray(rng.integers(0, 4, count)) for _ in range(2))
    previous = jnp.asarray(rng.integers(-1, 4, count))
    unused = jnp.zeros(count)
    batch = Transition(x, m, previous, skill, action, unused, unused > 0, unused > 0, x)

    @compiled
    def numbers(alpha_beta, alpha_theta):
        policy = eqx.tree_at(lambda p: (p.partition.alpha_beta, p.skills.alpha_theta), start, (alpha_beta, alpha_theta))

        def total(policy):
            log_prob = policy.log_prob(x, m, skill, action, previous)
            log_pi = policy.action_log_probs(x, m, previous)
            return log_prob.sum() + log_pi.sum(), (log_prob, log_pi)

        gradient, values = jax.grad(total, has_aux=True)(policy)
        return {
            "log-probabilities": values,
            "gradient": gradient,
            "sampled score": score(policy, batch, SAMPLED),
            "marginal score": score(policy, batch, MARGINAL),
        }

    spoiled = set()
    for beta, theta in itertools.product(EXPONENTS, EXPONENTS):
        for name, tree in numbers(jnp.float32(10.0**beta), jnp.float32(10.0**theta)).items():
            if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(tree)):
                spoiled.add((name, f"alpha_beta 1e{beta}", f"alpha_theta 1e{theta}"))
    assert sorted(spoiled) == []


# ---- Samples ------------------------------------------------------------------------------------------------------

SAMPLES = 2**14


def frequencies(compiled, policy: ASAPPolicy, previous: int) -> np.ndarray:
    """How often each (skill, action) comes, from one key per sample."""
    sample = compiled(lambda policy, ids: jax.vmap(lambda i: policy.sample(fold(root(11), i), X, M, previous))(ids))
    skill, action = sample(policy, jnp.arange(SAMPLES))
    counts = np.zeros((policy.num_skills, NUM_ACTIONS))
    np.add.at(counts, (np.asarray(skill), np.asarray(action)), 1)
    return counts


def agree(counts: np.ndarray, probabilities: np.ndarray) -> bool:
    """Chi-square, with cells that expect fewer than five put together."""
    expected = probabilities.ravel() * counts.sum()
    rare = expected < 5
    observed = np.append(counts.ravel()[~rare], counts.ravel()[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    keep = expected > 0
    assert observed[~keep].sum() == 0
    expected = expected[keep] * (observed.sum() / expected[keep].sum())
    return stats.chisquare(observed[keep], expected).pvalue > 1e-4


@pytest.mark.parametrize("shape, previous", list(zip(SHAPES, [NO_SKILL, NO_SKILL, 1, 0, 3])), ids=str)
def test_samples_have_the_probabilities(new_policy, compiled, tables, shape, previous):
    policy = shaped(new_policy, shape, alpha_beta=1.0, alpha_theta=1.0)
    counts = frequencies(compiled, policy, previous)
    expected = tables(policy, previous).joint
    assert agree(counts, expected)
    # The same test tells it from a policy that is a little, or structurally, different.
    bent = eqx.tree_at(lambda p: p.partition.beta, policy, policy.partition.beta + 0.1)
    assert not agree(counts, tables(bent, previous).joint)
    if shape[2] not in (None, 1.0):
        assert not agree(counts, tables(policy).joint)


@pytest.mark.parametrize("termination", [None, 0.0, 0.5, 1.0])
def test_commitment_makes_skills_last(compiled, termination):
    """At a state with p = 1/2 for both skills, a skill lasts 1 / (1 - P(same)) steps; drawn anew each time, two."""
    policy = ASAPPolicy(
        Partition(jnp.zeros((1, 3)), jnp.float32(1.0)),
        GibbsSkills(jnp.zeros((2, 4, 1)), jnp.float32(1.0)),
        Features.of(Polynomial(1), (0, 1)),
        Features.of(Polynomial(0), (0, 1)),
        termination,
    )

    def step(previous, t):
        skill, _ = policy.sample(fold(root(2), t), X, M, previous)
        return skill, skill

    skills = np.asarray(compiled(lambda ts: jax.lax.scan(step, jnp.int32(NO_SKILL), ts)[1])(jnp.arange(SAMPLES)))
    duration = SAMPLES / (1 + (skills[1:] != skills[:-1]).sum())
    stay = 0.0 if termination is None else (1 - termination) / 2
    np.testing.assert_allclose(duration, 1 / (1 - (stay + (1 - stay) / 2)), rtol=0.05)
    assert duration > 2.5 or termination in (None, 1.0)


# ---- The start ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["two-rooms", "three-rooms"])
def test_a_new_policy_is_misspecified_as_the_task_says_with_skills_near_uniform(name):
    task = find(name)
    policy = build_policy(PolicyConfig(hyperplanes=2), (task,), host_generator(0))
    np.testing.assert_allclose(policy.partition.beta[0], task.misspecified)
    assert policy.partition.beta.shape == (2, len(task.misspecified))
    assert np.abs(policy.partition.beta[1]).max() > 0.01
    np.testing.assert_allclose(np.exp(policy.skills.log_probs(jnp.ones(1))), 0.25, atol=0.02)
    assert len(np.unique(np.asarray(policy.skills.theta))) == policy.skills.theta.size


def test_the_plane_of_several_tasks_does_not_depend_on_the_task_at_the_start():
    tasks = (find("two-rooms"), find("flipped-two-rooms"))
    policy = build_policy(PolicyConfig(), tasks, host_generator(0))
    np.testing.assert_allclose(policy.partition.beta[0], [-0.5, 0.0, 1.0] + [0.0] * 6)


@pytest.mark.parametrize("skills", ["constant", "linear"])
@pytest.mark.parametrize("num_actions", [5, 20])
def test_the_probability_of_an_action_is_its_row(num_actions, skills):
    """Of many actions the one that was taken is looked up in another way than of a few."""
    rng = np.random.default_rng(0)
    phi = jnp.ones(1) if skills == "constant" else jnp.asarray(rng.normal(size=(3, 40)), jnp.float32)
    theta = jnp.asarray(rng.normal(size=(4, num_actions, phi.shape[0])), jnp.float32)
    gibbs = GibbsSkills(theta, jnp.float32(1.5))
    action = np.arange(40) % num_actions
    table = np.broadcast_to(np.asarray(gibbs.log_probs(phi)).reshape(4, num_actions, -1), (4, num_actions, 40))
    found = gibbs.log_probs_of_action(jnp.asarray(action, jnp.int32), phi)
    np.testing.assert_allclose(found, table[:, action, np.arange(40)], rtol=1e-6)


def test_every_seed_needs_its_memory(monkeypatch):
    """A machine of 1 MB has room for the skills of one seed, not for those of a thousand."""
    monkeypatch.setattr(os, "sysconf", lambda name: 1024)
    learn = LearnConfig(learner="ppo", lanes=1, window=1)
    task = (find("two-rooms"),)
    require_memory(Config(RunConfig(seeds=1), PolicyConfig(hyperplanes=4), learn), task)
    with pytest.raises(UserError, match="policy.hyperplanes"):
        require_memory(Config(RunConfig(seeds=1000), PolicyConfig(hyperplanes=4), learn), task)


@pytest.mark.parametrize("count", [1, 4, 16, 17, 40])
def test_a_number_picks_where_the_cumulative_distribution_passes_it(count):
    """Shares of 1, 2, 3, ... in order, of few and of many; the middle of each share picks it."""
    shares = np.arange(1, count + 1) / (count * (count + 1) / 2)
    middles = np.cumsum(shares) - shares / 2
    picked = pick(jnp.float32(middles), jnp.broadcast_to(jnp.float32(shares)[:, None], (count, count)))
    np.testing.assert_array_equal(picked, np.arange(count))
