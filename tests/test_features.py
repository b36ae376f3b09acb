"""The feature maps: their numbers, worked out by hand, and the names under which they are read."""

import jax.numpy as jnp
import numpy as np
import pytest

from asap.config.schema import PolicyConfig
from asap.envs.catalog import find
from asap.policy.build import build_psi
from asap.policy.features import Features, Fourier, Polynomial

NAMES = ("x", "y", "goal x", "goal y")
X = jnp.asarray([0.5, 2.0, 7.0, 3.0])
M = jnp.asarray([3.0, -1.0])

FOURIER = jnp.asarray([[1.0, 0.0], [0.5, -0.25]])  # At (0.5, 2): sin(pi / 2) and sin(-pi / 4).

CASES = {
    "bias": (Features.of(Polynomial(0), (0, 1)), [1.0], ("1",)),
    "degree 1": (Features.of(Polynomial(1), (0, 1)), [1.0, 0.5, 2.0], ("1", "x", "y")),
    "degree 2": (
        Features.of(Polynomial(2), (0, 1)),
        [1.0, 0.5, 2.0, 0.25, 1.0, 4.0],
        ("1", "x", "y", "x x", "x y", "y y"),
    ),
    "degree 3": (
        Features.of(Polynomial(3), (0, 1)),
        [1.0, 0.5, 2.0, 0.25, 1.0, 4.0, 0.125, 0.5, 2.0, 8.0],
        ("1", "x", "y", "x x", "x y", "y y", "x x x", "x x y", "x y y", "y y y"),
    ),
    "other inputs": (Features.of(Polynomial(1), (3, 0)), [1.0, 3.0, 0.5], ("1", "goal y", "x")),
    "scaled": (
        Features(Polynomial(1), jnp.asarray([1.0, 1.0]), jnp.asarray([2.0, 10.0]), (0, 1)),
        [1.0, -1.0, 10.0],
        ("1", "x", "y"),
    ),
    "fourier": (
        Features.of(Fourier(FOURIER, bias=False), (0, 1)),
        [1.0, -np.sqrt(0.5)],
        ("sin(pi (1 x))", "sin(pi (0.5 x + -0.25 y))"),
    ),
    "fourier with bias": (
        Features.of(Fourier(FOURIER, bias=True), (0, 1)),
        [1.0, 1.0, -np.sqrt(0.5)],
        ("1", "sin(pi (1 x))", "sin(pi (0.5 x + -0.25 y))"),
    ),
    "additive": (
        Features.of(Polynomial(1), (0, 1), "additive"),
        [1.0, 0.5, 2.0, 3.0, -1.0],
        ("1", "x", "y", "m1", "m2"),
    ),
    "interactions": (
        Features.of(Polynomial(1), (0, 1), "interactions"),
        [1.0, 0.5, 2.0, 3.0, 1.5, 6.0, -1.0, -0.5, -2.0],
        ("1", "x", "y", "m1", "x m1", "y m1", "m2", "x m2", "y m2"),
    ),
    "interactions without a bias": (
        Features.of(Fourier(FOURIER[:1], bias=False), (0, 1), "interactions"),
        [1.0, 3.0, -1.0],
        ("sin(pi (1 x))", "sin(pi (1 x)) m1", "sin(pi (1 x)) m2"),
    ),
}
EACH = pytest.mark.parametrize("features, numbers, names", CASES.values(), ids=CASES)


@EACH
def test_numbers(features, numbers, names):
    np.testing.assert_allclose(features(X, M), numbers, atol=1e-6)


@EACH
def test_names(features, numbers, names):
    assert features.names(NAMES, 2) == names


@EACH
def test_size_is_the_number_of_features(features, numbers, names):
    assert features.size(2) == len(numbers)


@EACH
def test_a_batch_is_its_samples_one_by_one(features, numbers, names):
    batch = features(jnp.stack([X, 2 * X, X - 1], axis=-1), jnp.stack([M, -M, M + 1], axis=-1))
    alone = [features(X, M), features(2 * X, -M), features(X - 1, M + 1)]
    np.testing.assert_allclose(jnp.broadcast_to(batch.reshape(len(numbers), -1), (len(numbers), 3)).T, alone, atol=1e-6)


@pytest.mark.parametrize("degree", range(5))
def test_only_degree_zero_is_constant(degree):
    assert Features.of(Polynomial(degree), (0, 1)).constant == (degree == 0)


def test_the_feature_of_three_rooms_vanishes_at_both_walls():
    """Errata E12: the zeros are at 1/3 and 2/3 whatever beta."""
    psi = build_psi(PolicyConfig(), (find("three-rooms"),))
    waves = [float(psi(jnp.asarray([x, 0.3, 0.9, 0.9]), M)[0]) for x in (1 / 6, 1 / 3, 1 / 2, 2 / 3, 5 / 6)]
    np.testing.assert_allclose(waves, [1.0, 0.0, -1.0, 0.0, 1.0], atol=1e-6)
    assert psi.size(3) == 1


def test_the_features_of_two_rooms_are_linear():
    psi = build_psi(PolicyConfig(), (find("two-rooms"),))
    assert psi.names(NAMES, 2) == ("1", "x", "y")


def test_several_tasks_get_interactions():
    psi = build_psi(PolicyConfig(), (find("two-rooms"), find("flipped-two-rooms")))
    assert psi.names(NAMES, 2) == ("1", "x", "y", "m1", "x m1", "y m1", "m2", "x m2", "y m2")


@pytest.mark.parametrize("kind, size", [("linear", 3), ("polynomial", 6), ("fourier", 3)])
def test_every_basis_of_the_config_can_be_built_and_used(kind, size):
    config = PolicyConfig(basis=kind, frequencies=((3.0, 0.0), (1.0, 1.0)), task_features="none")
    psi = build_psi(config, (find("three-rooms"),))
    assert psi.size(3) == size
    assert psi(X, M).shape == (size,)
