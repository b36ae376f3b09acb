"""Policies for foreign environments: what the player on the host does is what the learner scores, and what is learned
is scored right: Gaussian skills, networks, scaling."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.arrays import compiled
from asap.base.spec import Spec
from asap.base.types import Transition
from asap.config.schema import LearnConfig, PolicyConfig
from asap.experience.protocol import Batch
from asap.learn.regularize import _by_autodiff, _closed_form, regularity_gradient
from asap.learn.updates import UPDATES, Inputs, ascend, optimizer_of
from asap.policy.build import build_policy, plan_of
from asap.policy.features import Network
from asap.policy.host import Player
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import (
    merged,
    moments_of,
    no_moments,
    rescaled,
    rescaled_gradients,
    scaled_anew,
    shift_and_scale,
)
from asap.policy.score import (
    MARGINAL,
    SAMPLED,
    parameters_of,
    score,
    weighted_score,
    weighted_score_by_autodiff,
    with_parameters,
)

SIZE, ACTIONS, SAMPLES = 3, 2, 24


@dataclasses.dataclass(frozen=True)
class Task:
    """The least that a policy is built from."""

    spec: Spec
    name: str = "test"
    basis: str = "linear"
    frequencies: tuple = ((0.5, 0.0, 0.0), (0.0, 0.25, 0.5))
    misspecified: tuple = ()
    approximate: tuple = ()
    settings: tuple = ()
    play_settings: tuple = ()
    budget_settings: tuple = ()
    data_settings: tuple = ()
    descriptor: tuple = ()
    drawn: tuple = ()
    is_scaled: bool = True
    threshold: float | None = None
    reference: None = None
    budget: tuple = ()
    observation_shape: tuple = (3,)
    actions: str = ""
    reader = actor = record = lambda self: None

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.spec.observation_names


def task(continuous: bool) -> Task:
    names = tuple(f"x{i}" for i in range(SIZE))
    return Task(Spec(names, (-1.0,) * SIZE, (1.0,) * SIZE, ("a", "b"), 10, 0.99, continuous))


def policy_of(
    skills: str = "constant", basis: str = "linear", planes: int = 2, continuous: bool = False, **changes
) -> ASAPPolicy:
    config = PolicyConfig(
        hyperplanes=planes,
        skills=skills,
        basis=basis,
        alpha_beta=2.0,
        start="random",
        bias=True,
        hidden=(5, 4),
        **changes,
    )
    generator = np.random.default_rng(3)
    policy = build_policy(config, (task(continuous),), generator)
    lively = [generator.standard_normal(leaf.shape).astype(np.float32) for leaf in parameters_of(policy)[:2]]
    policy = with_parameters(policy, parameters_of(policy)._replace(theta=lively[0], beta=lively[1]))
    seen = moments_of((2 + 3 * generator.standard_normal((50, SIZE))).astype(np.float32).T)
    return scaled_anew(policy, seen)


def steps(policy: ASAPPolicy, continuous: bool, samples: int = SAMPLES) -> Transition:
    generator = np.random.default_rng(4)
    x = (2 + 3 * generator.standard_normal((SIZE, samples))).astype(np.float32)
    skill = generator.integers(0, policy.num_skills, samples).astype(np.int32)
    action = generator.standard_normal((ACTIONS, samples)) if continuous else generator.integers(0, ACTIONS, samples)
    zeros = np.zeros(samples, np.float32)
    return Transition(
        observation=x,
        descriptor=np.zeros((0, samples), np.float32),
        previous_skill=np.roll(skill, 1),
        skill=skill,
        action=action.astype(np.float32 if continuous else np.int32),
        reward=zeros,
        terminated=zeros > 0,
        truncated=zeros > 0,
        next_observation=x,
    )


KINDS = [
    ("constant", "linear", False, {}),
    ("linear", "polynomial", False, {}),
    ("constant", "fourier", False, {"termination": 0.2}),
    ("network", "network", False, {}),
    ("gaussian", "linear", True, {}),
    ("linear", "polynomial", True, {"termination": 0.1}),
    ("network", "fourier", True, {}),
]


@pytest.mark.parametrize("skills, basis, continuous, changes", KINDS)
def test_the_player_draws_what_the_learner_scores(skills, basis, continuous, changes):
    """Frequencies of skills, and of actions or their moments, against the probabilities of the compiled policy."""
    policy = policy_of(skills, basis, continuous=continuous, **changes)
    player, count = Player(plan_of(policy, SIZE)), 4000
    x, previous = np.float32([1.0, 4.0, -2.0]), 1
    player.begin(np.random.default_rng(0), False)
    drawn = []
    for _ in range(count):
        player.previous = previous
        drawn.append(player.choose(x))
    expected = np.exp(policy.skill_log_probs(x, jnp.zeros(0), previous))
    found = np.bincount([skill for skill, _ in drawn], minlength=policy.num_skills) / count
    np.testing.assert_allclose(found, expected, atol=0.03)
    phi = policy.phi(x, jnp.zeros(0))
    for s in np.flatnonzero(found > 0.2):
        actions = np.stack([action for skill, action in drawn if skill == s])
        if continuous:
            np.testing.assert_allclose(actions.mean(0), policy.skills.means(phi)[s], atol=0.08)
            np.testing.assert_allclose(actions.std(0), np.exp(policy.skills.log_std[s]), rtol=0.08)
        else:
            shares = np.bincount(actions, minlength=ACTIONS) / len(actions)
            np.testing.assert_allclose(shares, np.exp(policy.skills.log_probs(phi)[s]), atol=0.05)


@pytest.mark.parametrize("skills, basis, continuous, changes", KINDS)
def test_a_deterministic_player_takes_the_likeliest(skills, basis, continuous, changes):
    policy = policy_of(skills, basis, continuous=continuous, **changes)
    player = Player(plan_of(policy, SIZE))
    player.begin(np.random.default_rng(0), True)
    batch = steps(policy, continuous)
    for n in range(SAMPLES):
        x, previous = batch.observation[:, n], int(batch.previous_skill[n])
        player.previous = previous
        skill, action = player.choose(x)
        assert skill == int(np.argmax(policy.skill_log_probs(x, jnp.zeros(0), previous)))
        phi = policy.phi(x, jnp.zeros(0))
        if continuous:
            np.testing.assert_allclose(action, policy.skills.means(phi)[skill], rtol=1e-4, atol=1e-5)
        else:
            assert action == int(np.argmax(policy.skills.log_probs(phi)[skill]))


def test_an_episode_is_a_function_of_its_generator():
    policy = policy_of("linear", "linear")
    player, x = Player(plan_of(policy, SIZE)), np.float32([0.0, 1.0, 2.0])

    def episode(seed: int) -> list:
        player.begin(np.random.default_rng(seed), False)
        return [player.choose(x) for _ in range(300)]

    assert episode(1) == episode(1) != episode(2)


def test_no_skill_is_carried_into_the_next_episode():
    """A policy that hardly ever leaves its skill: a player that has played chooses as a fresh one does."""
    policy = policy_of("linear", "linear", termination=0.01)
    x = np.float32([0.0, 1.0, 2.0])
    used, others, last = Player(plan_of(policy, SIZE)), 0, None
    for seed in range(30):
        fresh = Player(plan_of(policy, SIZE))
        for player in (fresh, used):
            player.begin(np.random.default_rng(seed), False)
        expected, found = ([player.choose(x) for _ in range(5)] for player in (fresh, used))
        assert found == expected
        others += last not in (None, found[0][0])
        last = found[-1][0]
    assert others > 3, "some episodes begin with another skill than the last one ended with"


@pytest.mark.parametrize("gradient", [SAMPLED, MARGINAL])
@pytest.mark.parametrize("termination", [None, 0.2])
def test_autodiff_finds_the_closed_form(gradient, termination):
    policy = policy_of("linear", "polynomial", termination=termination)
    batch, weights = steps(policy, False), jnp.linspace(-1, 1, SAMPLES)
    closed = weighted_score(policy, batch, score(policy, batch, gradient), weights)
    for one, other in zip(
        jax.tree.leaves(closed), jax.tree.leaves(weighted_score_by_autodiff(policy, batch, gradient, weights))
    ):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_the_regularity_of_both_ways_is_the_same():
    policy = policy_of("linear", "linear")
    batch = steps(policy, False)._replace(counts=np.arange(SAMPLES) < 20)
    config = LearnConfig(entropy=0.5, softening=0.7, softening_floor=0.5)
    closed, automatic = _closed_form(config, 0.5, policy, batch), _by_autodiff(config, 0.5, policy, batch)
    for one, other in zip(jax.tree.leaves(closed), jax.tree.leaves(automatic)):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("continuous", [False, True])
def test_what_fills_up_a_batch_does_not_count(continuous):
    policy = policy_of("linear", "linear", continuous=continuous)
    whole = steps(policy, continuous)
    part = jax.tree.map(lambda leaf: leaf[..., :20], whole)
    filled = whole._replace(counts=np.arange(SAMPLES) < 20)
    config = LearnConfig(entropy=0.5, softening=0.7, softening_floor=0.5)
    for one, other in zip(*(jax.tree.leaves(regularity_gradient(config, policy, batch)) for batch in (part, filled))):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(("learner", "continuous"), [("ppo", False), ("ppo", True), ("actor-critic", False)])
def test_what_fills_up_a_batch_has_no_part_in_what_an_update_tells(learner, continuous):
    """The divergence, the share of clipped steps, the entropy and the usage are those of the steps that count."""
    policy = policy_of("linear", "linear", continuous=continuous)
    whole = jax.tree.map(lambda leaf: leaf[..., None], steps(policy, continuous))  # One lane.
    filled = whole._replace(counts=np.arange(SAMPLES)[:, None] < 12)
    part = jax.tree.map(lambda leaf: leaf[..., :12, :], whole)
    sizes = {"step_size_theta": 0.2, "step_size_beta": 0.2}
    config = LearnConfig(
        learner=learner, optimizer="adam", schedule="constant", clip=0.05, epochs=3, entropy=0.07, **sizes
    )
    weights = np.where(np.arange(SAMPLES) < 12, np.random.default_rng(7).standard_normal(SAMPLES), 0).astype(np.float32)

    def told(batch: Transition, weights: np.ndarray):
        start = optimizer_of(config).init(parameters_of(policy))
        return UPDATES[learner](Inputs(config, policy, Batch(None, 0, batch), weights, start, jnp.int32(0))).diagnostics

    one, other = compiled(told)(part, weights[:12]), compiled(told)(filled, weights)
    for mine, theirs in zip(*map(jax.tree.leaves, (one, other)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-3, atol=1e-5)
    assert one.kl > 1e-3 and (learner != "ppo" or 0 < one.clipped < 1)


def test_gaussian_log_probabilities_are_those_of_normal_distributions():
    policy = policy_of("linear", "linear", continuous=True)
    batch = steps(policy, True)
    phi = policy.phi(batch.observation, batch.descriptor)
    found = policy.skills.log_probs_of_action(jnp.asarray(batch.action), phi)
    means, deviations = np.asarray(policy.skills.means(phi)), np.exp(np.asarray(policy.skills.log_std))[..., None]
    errors = (batch.action - means) / deviations
    expected = (-0.5 * errors**2 - np.log(deviations * np.sqrt(2 * np.pi))).sum(1)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_all_that_is_learned_gets_a_gradient():
    policy = policy_of("network", "network", continuous=True)
    gradient = weighted_score_by_autodiff(policy, steps(policy, True), MARGINAL, jnp.ones(SAMPLES))
    assert isinstance(gradient.phi, Network) and isinstance(gradient.psi, Network)
    assert all(np.abs(leaf).max() > 1e-6 for leaf in jax.tree.leaves(gradient))


# ---- Scaling ------------------------------------------------------------------------------------------------------


def test_moments_are_those_of_all_observations_together():
    rows = 5 + 2 * np.random.default_rng(0).standard_normal((100, SIZE)).astype(np.float32)
    moments = no_moments(SIZE)
    for part in np.split(rows, [10, 11, 60]):
        moments = merged(moments, moments_of(part.T))
    shift, scale = shift_and_scale(moments)
    np.testing.assert_allclose(shift, rows.mean(0), rtol=1e-5)
    np.testing.assert_allclose(1 / scale, rows.std(0), rtol=1e-4)


def test_an_observation_that_never_changes_is_left_alone():
    rows = np.stack([np.full(20, 7.0), np.arange(20.0)], 1).astype(np.float32)
    shift, scale = shift_and_scale(moments_of(np.float32(rows).T))
    assert (shift[0], scale[0]) == (0, 1) and shift[1] == pytest.approx(9.5)


@pytest.mark.parametrize("continuous", [False, True])
def test_new_scales_leave_a_linear_policy_what_it_was(continuous):
    policy = policy_of("linear", "linear", continuous=continuous)
    batch = steps(policy, continuous)
    moments = moments_of((-40 + 9 * np.random.default_rng(1).standard_normal((50, SIZE))).astype(np.float32).T)
    after = rescaled(policy, moments)
    before_log, after_log = (score(p, batch, MARGINAL).log_prob for p in (policy, after))
    np.testing.assert_allclose(before_log, after_log, rtol=1e-3, atol=1e-3)
    assert not np.allclose(policy.partition.beta, after.partition.beta)


@pytest.mark.parametrize("continuous", [False, True])
def test_gradients_are_put_into_the_new_scales(continuous):
    """What was kept of the gradient of the policy before is the gradient of the same policy in its new units."""
    policy = policy_of("linear", "linear", continuous=continuous)
    batch = steps(policy, continuous)
    moments = moments_of((0.5 + 3 * np.random.default_rng(1).standard_normal((50, SIZE))).astype(np.float32).T)
    before, expected = (
        weighted_score_by_autodiff(p, batch, MARGINAL, jnp.ones(SAMPLES)) for p in (policy, rescaled(policy, moments))
    )
    found = rescaled_gradients(policy, moments, before)
    for ours, theirs in zip(*map(jax.tree.leaves, (found, expected)), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(theirs).max())
    assert not np.allclose(before.beta, expected.beta, rtol=0.1)


@pytest.mark.parametrize("still", ["beta", "theta"])
def test_networks_take_the_step_size_of_what_stands_on_them(still):
    """psi goes with the planes, phi with the skills: a step size of 0 leaves both as they are, bit for bit."""
    sizes = {"step_size_beta": 0.1, "step_size_theta": 0.1, f"step_size_{still}": 0.0}
    policy = policy_of("network", "network")
    config = LearnConfig(optimizer="sgd", schedule="constant", **sizes)
    before = parameters_of(policy)
    slopes = jax.tree.map(jnp.ones_like, before)
    after = parameters_of(ascend(config, policy, slopes, optimizer_of(config).init(before), jnp.int32(0))[0])
    for name in ("beta", "psi", "theta", "phi"):
        size = sizes["step_size_beta" if name in ("beta", "psi") else "step_size_theta"]
        for old, new in zip(jax.tree.leaves(getattr(before, name)), jax.tree.leaves(getattr(after, name)), strict=True):
            np.testing.assert_allclose(new - old, size, atol=1e-6)
            assert size or np.array_equal(new, old)


def test_gaussian_skills_are_the_same_everywhere():
    """One mean each; linear ones follow the observations."""
    for skills, constant in (("gaussian", True), ("linear", False)):
        policy = policy_of(skills, "linear", continuous=True)
        assert policy.phi.constant is constant
        means = [policy.skills.means(policy.phi(np.float32(x), jnp.zeros(0))) for x in ([0, 0, 0], [1, -2, 3])]
        assert np.array_equal(*means) is constant
