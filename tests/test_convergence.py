"""The test of convergence: still parameters pass, a drift does not, noise does when the window is wide enough."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.learn.convergence import Monitor, averaged, has_converged, start_monitor, watch
from asap.policy.score import Parameters

TOLERANCE = 0.01


def parameters(values: np.ndarray) -> Parameters:
    """Twelve numbers as the parameters of two skills and a plane; leading axes are kept."""
    values = jnp.asarray(values, jnp.float32)
    lead = values.shape[:-1]
    return Parameters(values[..., :8].reshape(*lead, 2, 4, 1), values[..., 8:].reshape(*lead, 1, 4))


@pytest.fixture(scope="module")
def follow(compiled):
    """The monitor after each of a series of parameters."""

    def run(series: Parameters, window: int) -> Monitor:
        def step(monitor: Monitor, point: Parameters) -> tuple[Monitor, Monitor]:
            monitor = watch(monitor, point, window)
            return monitor, monitor

        return jax.lax.scan(step, start_monitor(jax.tree.map(lambda leaf: leaf[0], series)), series)[1]

    run = compiled(run, static_argnames="window")
    return lambda values, window: run(parameters(values), window=window)


def converged(monitors: Monitor, tolerance: float = TOLERANCE) -> np.ndarray:
    return np.asarray(jax.vmap(lambda monitor: has_converged(monitor.movement, tolerance))(monitors))


START = np.random.default_rng(0).normal(size=12)
SERIES = 200


@pytest.mark.parametrize("window", [1, 5, 20])
def test_still_parameters_converge_after_two_windows(follow, window):
    found = converged(follow(np.tile(START, (SERIES, 1)), window))
    assert not found[: 2 * window - 1].any()
    assert found[2 * window - 1 :].all()


@pytest.mark.parametrize("window", [5, 20])
def test_a_drift_does_not_converge(follow, window):
    """In every step 1 % of the first norm, which grows to three times: an average moves by 1.6 % of it or more."""
    drift = 0.01 * np.arange(SERIES)[:, None] * START
    found = follow(START + drift, window)
    assert not converged(found).any()
    assert np.asarray(found.movement)[-1] > 0.016


def test_noise_passes_for_a_wide_window_only(follow):
    """Each of 12 numbers wavers by 1 % of the norm: averages over n differ by sqrt(24 / n) % of it."""
    noise = np.random.default_rng(1).normal(scale=0.01, size=(SERIES, 12)) * np.linalg.norm(START)
    narrow, wide = (follow(START + noise, window) for window in (5, 100))
    assert not converged(narrow).any()
    assert converged(wide).tolist() == [False] * (SERIES - 1) + [True]
    np.testing.assert_allclose(wide.movement[-1], 0.01 * np.sqrt(24 / 100), rtol=0.5)


def test_the_movement_by_hand(follow):
    """Windows of two with averages 1 and 1.5 of the same vector: the distance is a third of the norm."""
    scale = np.asarray([0.5, 1.5, 1.0, 2.0, 1.0, 2.0])
    movement = np.asarray(follow(scale[:, None] * START, 2).movement)
    np.testing.assert_allclose(movement, [np.inf, np.inf, np.inf, 1 / 3, 1 / 3, 0.0], rtol=1e-5, atol=1e-6)


def test_converged_parameters_that_start_to_move_again_are_noticed(follow):
    values = np.tile(START, (SERIES, 1))
    values[100:] *= np.linspace(1, 2, SERIES - 100)[:, None]
    found = converged(follow(values, 10))
    assert found[19:109].all() and not found[109:].any()


def test_tolerance_zero_never_stops(follow):
    assert not converged(follow(np.tile(START, (SERIES, 1)), 5), 0.0).any()


def test_the_norm_of_a_mean_gradient_has_no_bias_by_noise():
    """Noise of norm 10 around a gradient of norm 0 and of norm 2; a plain norm of the mean would give about 1."""
    from asap.learn.loop import norm_without_noise

    noise = np.random.default_rng(0).normal(size=(400, 50, 100))
    active = np.ones((400, 50), bool)
    nothing = np.mean(norm_without_noise(noise, active) ** 2)
    assert nothing < 0.1 and np.mean(np.linalg.norm(noise.mean(0), axis=-1) ** 2) > 0.2
    something = norm_without_noise(noise + 0.2, active)
    np.testing.assert_allclose(np.mean(something**2), 4.0, rtol=0.1)


def test_updates_after_the_end_do_not_count():
    from asap.learn.loop import norm_without_noise

    gradients = np.concatenate([np.full((2, 1, 1), 3.0), np.full((2, 1, 1), 100.0)])
    assert norm_without_noise(gradients, np.array([[True], [True], [False], [False]])).tolist() == [3.0]
    assert norm_without_noise(gradients, np.array([[True], [False], [False], [False]])).tolist() == [3.0]


@pytest.mark.parametrize(
    ("lateness", "expected"),
    [
        (0.0, [1.0, 1.5, 3.0]),  # The plain mean of 1, 2 and 6.
        (1.0, [1.0, 1 + 2 / 3, 1 + 2 / 3 + (6 - 1 - 2 / 3) / 2]),  # Update n, from 1, weighs 2 / (n + 1).
    ],
)
def test_the_average_is_of_the_updates_and_not_of_the_start(lateness, expected):
    average, found = parameters(np.full(12, 1000.0)), []
    for iteration, value in enumerate((1.0, 2.0, 6.0)):
        average = averaged(average, parameters(np.full(12, value)), jnp.int32(iteration), lateness)
        found.append(float(average.beta[0, 0]))
    np.testing.assert_allclose(found, expected, rtol=1e-6)
