"""A symmetric image of a policy does in the mirrored world exactly what the policy does in its own."""

import dataclasses
import functools
import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_task import Plain

from asap.base.spec import Spec
from asap.config.schema import PolicyConfig
from asap.envs import catalog
from asap.policy.build import build_policy
from asap.policy.images import (
    MOST,
    as_it_is,
    composed,
    image_of,
    image_of_moments,
    images,
    plane_images,
    single_changes,
)
from asap.policy.policy import Kept
from asap.policy.scaling import moments_of, rescaled
from asap.policy.surgery import flip, sign_patterns

NAMES = ("left", "right", "up")
BOUNDS = {"observation_low": (-1.0,) * 4, "observation_high": (1.0,) * 4, "horizon": 10, "discount": 1.0}
DISCRETE = Spec(observation_names=("a", "b", "c", "d"), action_names=NAMES, **BOUNDS)
BOX = dataclasses.replace(DISCRETE, continuous=True, action_low=(-1.0,) * 3, action_high=(1.0,) * 3)
STATES = np.random.default_rng(0).uniform(-1, 1, (4, 40)).astype(np.float32)


WAVES = ((1.0, 0.0, 0.0, 0.0), (0.0, 2.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.5))


def policy_with(spec, scaled=True, descriptor=(), **settings):
    """Far from zero everywhere, so that a mistake shows."""
    if spec.continuous and settings.get("skills") == "constant":
        settings["skills"] = "gaussian"
    task = Plain(spec=spec, descriptor=descriptor, inputs=spec.observation_names, frequencies=WAVES)
    config = PolicyConfig(**{"hyperplanes": 2, "start": "random", "alpha_theta": 1.0, "alpha_beta": 2.0, **settings})
    policy = build_policy(config, (task,), np.random.default_rng(1))
    drawn = np.random.default_rng(2).standard_normal(policy.skills.theta.shape).astype(np.float32)
    policy = eqx.tree_at(lambda p: p.skills.theta, policy, drawn)
    if spec.continuous:
        spread = np.random.default_rng(3).uniform(-1, 0, policy.skills.log_std.shape).astype(np.float32)
        policy = eqx.tree_at(lambda p: p.skills.log_std, policy, spread)
    if not scaled:
        return policy
    seen = np.random.default_rng(4).normal([[0.5], [-1], [2], [0]], [[1], [2], [0.5], [3]], (4, 100))
    return rescaled(policy, moments_of(seen.astype(np.float32)))


def tasks(policy, count) -> np.ndarray:
    size = {"none": 0, "additive": 2, "interactions": 2}[policy.psi.task]
    return np.tile(np.float32([[0.3], [-0.7]])[:size], (1, count))


def act(policy, states) -> np.ndarray:
    """Probabilities of actions; of numbers to set, probabilities of skills, and their means."""
    m = tasks(policy, states.shape[1])
    log_skills = np.asarray(policy.skill_log_probs(states, m))
    phi = policy.phi(states, m)
    if not hasattr(policy.skills, "log_std"):
        return np.exp(policy.action_log_probs(states, m))
    means = np.asarray(policy.skills.means(phi))
    means = means.reshape(*means.shape[:2], -1) * np.ones(states.shape[1])
    return np.stack([np.exp(log_skills), *np.moveaxis(means, 1, 0)])


def expected(policy, image, states, spec) -> np.ndarray:
    """What the policy does in its own world, told in the words of the mirrored one; planes that are turned and skills that are
    renumbered decide who acts, worked out state by state."""
    own = states * np.float32(image.observations)[:, None]
    m = tasks(policy, states.shape[1])
    regions = np.exp(policy.partition.region_log_probs(policy.psi(own, m)))
    turned = sum(1 << k for k, sign in enumerate(image.planes) if sign < 0)
    of_region = policy.partition.skill_of_region
    in_force = [image.skills[of_region[region ^ turned]] for region in range(len(regions))]
    chances = np.stack([sum(regions[r] for r, old in enumerate(in_force) if old == s) for s in image.skills])
    phi = policy.phi(own, m)
    if spec.continuous:
        means = np.asarray(policy.skills.means(phi))
        means = means.reshape(*means.shape[:2], -1) * np.ones(states.shape[1])
        means = means[list(image.skills)] * np.float32(image.actions)[:, None]
        return np.stack([chances, *np.moveaxis(means, 1, 0)])
    sigma = np.exp(np.asarray(policy.skills.log_probs(phi)))
    sigma = sigma.reshape(*sigma.shape[:2], -1) * np.ones(states.shape[1])
    return np.einsum("sn,san->an", chances, sigma[list(image.skills)][:, list(image.actions)])


@pytest.mark.parametrize("spec", [DISCRETE, BOX], ids=["discrete", "box"])
@pytest.mark.parametrize(
    "settings",
    [
        {"skills": "constant"},
        {"skills": "linear"},
        {"skills": "linear", "scaled": False},
        {"skills": "linear", "basis": "polynomial", "degree": 3},
        {"skills": "constant", "basis": "fourier", "bias": True},
        {"skills": "network", "basis": "network", "hidden": (5, 3)},
        {"skills": "constant", "region_skills": (0, 1, 1, 2)},
        {"skills": "linear", "task_features": "interactions", "descriptor": (0.3, -0.7)},
        {"skills": "constant", "task_features": "additive", "descriptor": (0.3, -0.7)},
    ],
    ids=["constant", "linear", "unscaled", "polynomial", "fourier", "network", "shared", "interactions", "additive"],
)
def test_an_image_does_in_the_mirrored_world_what_the_policy_does(spec, settings):
    policy = policy_with(spec, **settings)
    changes = single_changes(policy, spec)
    assert len(changes) == 2 + math.comb(policy.num_skills, 2) + 4 + 3
    singles = changes[7], changes[-1], changes[4], changes[0]  # A plane, two skills, an observation, the actions.
    every = functools.reduce(composed, [*singles, changes[1]])
    for image in (singles[2], composed(singles[0], singles[3]), every):
        made = act(image_of(policy, image), STATES)
        np.testing.assert_allclose(made, expected(policy, image, STATES, spec), rtol=2e-6, atol=1e-6)
    assert np.abs(made - act(policy, STATES)).max() > 0.01


def test_every_kind_of_change_is_there_once():
    """2 planes, 6 pairs of skills, 4 signs, and 3 pairs of actions or 3 signs."""
    for spec in (DISCRETE, BOX):
        assert len(single_changes(policy_with(spec, skills="linear"), spec)) == 2 + 6 + 4 + 3
    found = single_changes(policy_with(DISCRETE, skills="constant"), DISCRETE)
    words = [image.in_words(DISCRETE) for image in found]
    assert words[7] == "plane 1 turned" and words[9] == "skill 0 and skill 1 swapped"
    assert words[3] == "the sign of a turned" and words[2] == "right and up swapped"
    assert single_changes(policy_with(BOX, skills="linear"), BOX)[2].in_words(BOX) == "the sign of up turned"
    assert as_it_is(policy_with(BOX), BOX).in_words(BOX) == "as it is"


def test_all_images_are_different_and_complete():
    """One plane with two skills: turning it is swapping them. 2 patterns x 2 signs x 3! orders of actions."""
    policy = policy_with(DISCRETE, hyperplanes=1, skills="constant")
    one = {"observation_low": (0.0, 0.0, 0.0, -1.0)}
    found = images(policy, dataclasses.replace(DISCRETE, **one), np.random.default_rng(0))
    assert len(found) == len(set(found)) == 2 * 2 * 6 and found[0] == as_it_is(policy, DISCRETE)
    made = [image_of(policy, image) for image in found]
    leaves = {b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(each)) for each in made}
    assert len(leaves) == len(found)
    box = policy_with(BOX, hyperplanes=1, skills="linear")
    assert len(images(box, dataclasses.replace(BOX, **one), np.random.default_rng(0))) == 2 * 2 * 8


def test_of_too_many_images_those_of_few_changes_are_all_there():
    """24 orders of four skills, 16 signs, 6 orders of actions: 2304. The rest is a sample, drawn from ids."""
    policy = policy_with(DISCRETE, skills="constant")
    first, again, other = (images(policy, DISCRETE, np.random.default_rng(seed), 40) for seed in (0, 0, 1))
    assert first == again != other and len(set(first)) == len(first) == 40 < MOST
    assert set(single_changes(policy, DISCRETE)) <= set(first) and first[:16] == other[:16]


def test_what_is_kept_is_in_no_image():
    policy = policy_with(DISCRETE, skills="linear")
    frozen = dataclasses.replace(policy, kept=Kept((), (0, 1, 2, 3)))
    assert [image.in_words(DISCRETE) for image in single_changes(frozen, DISCRETE)] == [
        "plane 1 turned",
        "plane 2 turned",
    ]
    frozen = dataclasses.replace(policy, kept=Kept((0, 1), ()))
    for image in single_changes(frozen, DISCRETE):
        np.testing.assert_array_equal(image_of(frozen, image).partition.beta, policy.partition.beta)


def test_states_by_their_number_and_what_is_never_negative_have_no_sign():
    numbered = dataclasses.replace(DISCRETE, numbered=True)
    positive = dataclasses.replace(DISCRETE, observation_low=(0.0, 0.0, 0.0, -1.0))
    for spec, signs in ((numbered, set()), (positive, {"the sign of d turned"})):
        words = [image.in_words(spec) for image in single_changes(policy_with(spec, skills="linear"), spec)]
        assert {text for text in words if "sign" in text} == signs


def test_a_wave_over_two_observations_is_not_mirrored():
    policy = policy_with(DISCRETE, basis="fourier", frequencies=((1.0, 1.0, 0, 0), (0, 0, 1.0, 0)), skills="constant")
    words = [image.in_words(DISCRETE) for image in single_changes(policy, DISCRETE)]
    assert {text for text in words if "sign" in text} == {"the sign of c turned", "the sign of d turned"}


def test_moments_are_mirrored_by_hand():
    moments = moments_of(np.float32([[1, 3], [2, 2], [0, 4], [5, 7]]))
    image = as_it_is(policy_with(DISCRETE), DISCRETE)._replace(observations=(-1, 1, -1, 1))
    mirrored = image_of_moments(moments, image)
    np.testing.assert_array_equal(mirrored.mean, [-2, 2, -2, 6])
    np.testing.assert_array_equal(mirrored.squares, [2, 0, 8, 2])
    assert mirrored.count == 2


@pytest.mark.parametrize("planes", [0, 1, 3])
def test_images_of_planes_are_the_sign_patterns(planes):
    policy = policy_with(DISCRETE, hyperplanes=planes, skills="constant")
    for image, signs in itertools.zip_longest(plane_images(policy, DISCRETE), np.asarray(sign_patterns(planes))):
        turned = flip(policy, jnp.asarray(signs)).partition.beta
        np.testing.assert_array_equal(image_of(policy, image).partition.beta, turned)


def test_our_tasks_have_no_signs_where_places_are_positive():
    task = catalog.find("two-rooms")
    policy = build_policy(PolicyConfig(), (task,), np.random.default_rng(0))
    assert len(images(policy, task.spec, np.random.default_rng(0))) == 2 * 24
