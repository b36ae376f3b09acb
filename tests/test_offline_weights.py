"""Importance weights are unbiased, the effective sample size is its formula, and off-policy evaluation finds the
truth."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.keys import fold, root
from asap.data.dataset import Dataset
from asap.data.layout import Layout, Meta
from asap.data.writing import DatasetWriter
from asap.envs.core import CompiledTasks
from asap.experience.episode_logs import as_columns, discounted_returns, play_logged
from asap.experience.logged import clipped_weights, effective_sample_size, log_ratios_so_far, merits
from asap.experience.minibatches import Batches
from asap.experience.off_policy import _add, _value, _weighted_means, estimate


def test_weights_are_unbiased_by_enumeration():
    """All trajectories of three steps and two actions: the weighted mean under b is the mean under pi, step by step."""
    rng = np.random.default_rng(0)
    b, pi = (
        rng.dirichlet([2, 2], size=(3, 2)) for _ in range(2)
    )  # [t, last action] -> action; state = (t, last action)
    reward = rng.normal(size=(3, 2, 2))
    paths = list(itertools.product(range(2), repeat=3))
    probabilities, log_ratio, rewards = np.ones((2, 8)), np.zeros((3, 8)), np.zeros((3, 8))
    for n, path in enumerate(paths):
        last = 0
        for t, action in enumerate(path):
            probabilities[:, n] *= b[t, last, action], pi[t, last, action]
            log_ratio[t, n] = np.log(pi[t, last, action] / b[t, last, action])
            rewards[t, n], last = reward[t, last, action], action
    weights = np.asarray(clipped_weights(log_ratios_so_far(jnp.asarray(log_ratio), jnp.zeros((3, 8), bool)), 1e6))
    np.testing.assert_allclose(
        (probabilities[0] * weights * rewards).sum(1), (probabilities[1] * rewards).sum(1), rtol=1e-5
    )
    np.testing.assert_allclose((probabilities[0] * weights).sum(1), 1.0, rtol=1e-5)


def test_ratios_begin_anew_in_each_episode_and_are_clipped():
    log_ratio = jnp.log(jnp.asarray([[2.0], [3.0], [5.0], [7.0]]))
    ended = jnp.asarray([[False], [True], [False], [False]])
    so_far = log_ratios_so_far(log_ratio, ended)
    np.testing.assert_allclose(np.exp(so_far)[:, 0], [2, 6, 5, 35], rtol=1e-5)
    np.testing.assert_allclose(clipped_weights(so_far, 10.0)[:, 0], [2, 6, 5, 10], rtol=1e-5)
    assert np.isfinite(
        clipped_weights(log_ratios_so_far(jnp.full((500, 1), 3.0), jnp.zeros((500, 1), bool)), 10.0)
    ).all()


def test_effective_sample_size_is_its_formula():
    weights = np.random.default_rng(0).gamma(0.5, size=50).astype(np.float32)
    assert float(effective_sample_size(weights)) == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), rel=1e-5)
    assert float(effective_sample_size(np.full(7, 1e-25, np.float32))) == pytest.approx(7)
    assert (
        float(effective_sample_size(np.float32([0, 0, 5]))) == 1
        and float(effective_sample_size(np.zeros(3, np.float32))) == 0
    )


def test_merits_favour_high_returns_in_any_unit():
    totals = np.asarray([-10.0, 0.0, 10.0, 20.0])
    ours = merits(totals, 1.0)
    assert (np.diff(ours) > 0).all() and ours.mean() == pytest.approx(1) and (ours > 0).all()
    np.testing.assert_allclose(merits(1000 * totals + 7, 1.0), ours, rtol=1e-4)
    np.testing.assert_allclose(merits(totals, 0.0), 1.0)
    np.testing.assert_allclose(merits(np.full(4, 3.0), 5.0), 1.0)
    assert 20.0 < merits(np.asarray([0.0] * 999 + [1.0]), 1.0).max() < 20.5


@pytest.fixture(scope="module")
def logged(short_rooms, tmp_path_factory):
    """Uniformly random play of at most nine steps near the goal."""
    tasks = CompiledTasks.of(short_rooms.env, {"near": jax.tree.map(lambda leaf: leaf[1], short_rooms.tasks)})
    layout = Layout("near", 4, 4, np.asarray(tasks.env.descriptor(tasks[0])))
    path = tmp_path_factory.mktemp("offline") / "data.npz"
    play = jax.jit(
        lambda: play_logged(tasks, lambda x: jnp.full((4, *x.shape[1:]), 0.25), fold(root(0), 1), jnp.arange(4000))
    )
    played = jax.tree.map(np.asarray, play())
    with DatasetWriter(path) as writer:
        writer.add(as_columns(played, 0, 4000, layout.descriptor))
        writer.finish(Meta())
    return tasks, Dataset(path, layout)


def towards_the_goal(new_policy):
    """A policy that goes right more often than not, and nothing like uniform."""
    policy = new_policy(seed=3)
    theta = jnp.zeros_like(policy.skills.theta).at[:, 2].set(0.8)
    return eqx.tree_at(lambda p: p.skills.theta, policy, theta)


def test_evaluation_finds_the_truth(logged, new_policy):
    """Data of random play, a policy of another value: the interval has the true value, and excludes the behaviour's."""
    tasks, dataset = logged
    policy = towards_the_goal(new_policy)
    m = tasks.env.descriptor(tasks[0])

    def probabilities(x):
        descriptor = jnp.broadcast_to(m.reshape(2, *[1] * (x.ndim - 1)), (2, *x.shape[1:]))
        return jnp.exp(policy.action_log_probs(x, descriptor))

    play = jax.jit(lambda: play_logged(tasks, probabilities, fold(root(1), 1), jnp.arange(20_000)))
    played = jax.tree.map(np.asarray, play())
    judged = estimate(policy, dataset, 0.99)
    assert judged.available and 200 < judged.ess < 3000
    for told, interval, gamma in (
        (judged.value.discounted, judged.value.discounted_ci, 0.99),
        (judged.value.undiscounted, judged.value.undiscounted_ci, 1.0),
    ):
        truth = discounted_returns(played, gamma).mean()
        assert interval[0] < truth < interval[1] and interval[0] < told < interval[1]
    assert dataset.episodes.total.mean() < judged.value.undiscounted_ci[0]


def test_a_policy_equal_to_the_behaviour_is_worth_the_mean(logged, new_policy):
    _, dataset = logged
    uniform = eqx.tree_at(lambda p: p.skills.theta, new_policy(), jnp.zeros((2, 4, 1)))
    judged = estimate(uniform, dataset, 1.0)
    assert judged.value.undiscounted == pytest.approx(dataset.episodes.total.mean(), rel=1e-4)
    assert judged.ess == pytest.approx(4000, rel=1e-3)


def two_episodes(path, rewards) -> Dataset:
    """Two steps each, of uniform play: actions 0 and 1, and actions 0 and 2."""
    last = np.array([False, True, False, True])
    with DatasetWriter(path) as writer:
        writer.add(
            {
                "observation": np.zeros((4, 4), np.float32),
                "action": np.int32([0, 1, 0, 2]),
                "reward": np.float32(rewards),
                "terminated": last,
                "truncated": ~last & last,
                "episode": np.int32([0, 0, 1, 1]),
                "behaviour_log_prob": np.full(4, np.log(0.25), np.float32),
                "final_observation": np.zeros((2, 4), np.float32),
            }
        )
        writer.finish(Meta())
    return Dataset(path, Layout("near", 4, 4, np.zeros(2, np.float32)))


@pytest.mark.parametrize("least", [0.0, 1000.0, 3000.0])
def test_weights_too_small_for_a_number_still_weigh(least, new_policy, tmp_path):
    """Action 1 is as improbable as exp(-least), and action 2 three times more so: the second rewards weigh 3 to 1, and
    the return is 1 + (3 * -4 + 1 * -8) / 4."""
    dataset = two_episodes(tmp_path / "two.npz", [1, -4, 1, -8])
    theta = np.float32([0.0, np.log(3) - least, -least, -1e4])[None, :, None].repeat(2, 0)
    policy = eqx.tree_at(lambda p: p.skills.theta, new_policy(alpha_theta=1.0), theta)
    judged = estimate(policy, dataset, 0.5)
    assert judged.value.undiscounted == pytest.approx(1 - 5, rel=1e-3)
    assert judged.value.discounted == pytest.approx(1 - 5 / 2, rel=1e-3)
    low, high = judged.value.undiscounted_ci  # Resamples have one episode or the other, or both.
    assert low == pytest.approx(-7, abs=1e-3) and high == pytest.approx(-3, abs=1e-3)
    assert judged.ess == pytest.approx((3 + 1) ** 2 / (9 + 1), rel=1e-2) and not judged.is_trusted


def test_bins_of_weights_are_one_sum():
    """Weights exp(1), exp(-1) and exp(-2) around the edge of a bin, drawn 1, 2 and 0 times; then none at all."""
    sums = {}
    logs, rewards = np.array([[1.0], [-1.0], [-2.0]]), np.array([[10.0], [20.0], [40.0]])
    _add(sums, np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]]), logs, rewards)
    found = _weighted_means(sums)[:, 0]
    assert len(sums) == 2
    expected = (10 * np.exp(1) + 2 * 20 * np.exp(-1)) / (np.exp(1) + 2 * np.exp(-1))
    np.testing.assert_allclose(found, [expected, 40.0, np.nan], rtol=1e-12)


def test_a_deterministic_behaviour_has_no_estimate(logged, new_policy, tmp_path):
    _, dataset = logged
    columns = {name: column.read(0, column.num_rows) for name, column in dataset.columns.items() if name != "meta"}
    with DatasetWriter(tmp_path / "sure.npz") as writer:
        writer.add({**columns, "behaviour_log_prob": np.zeros_like(columns["reward"])})
        writer.finish(Meta())
    judged = estimate(new_policy(), Dataset(tmp_path / "sure.npz", dataset.layout), 0.99)
    assert not judged.available and judged.ess == 0 and np.isnan(judged.value.discounted)


def test_every_pass_reads_every_episode_once(logged):
    _, dataset = logged
    batches = Batches(dataset, lanes=16, window=64)
    for seed in (0, 1):
        read, iteration = [], 0
        while sum(read) < 2 * dataset.num_episodes:
            minibatch = batches.minibatch(seed, iteration)
            ended = minibatch.steps.ended
            assert not (ended & ~minibatch.steps.counts).any()
            read.append(int(ended.sum()))
            iteration += 1
            if sum(read) == dataset.num_episodes:
                seen = iteration
        assert 2 * seen >= iteration >= 2 * seen - 2  # A pass ends with its last minibatch.
    first = batches.minibatch(0, 3)
    again = Batches(dataset, 16, 64, batches.merits).minibatch(0, 3)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not np.array_equal(first.steps.observation, batches.minibatch(1, 3).steps.observation)
    assert not np.array_equal(first.steps.observation, batches.minibatch(0, 4).steps.observation)


def numbers_of(dataset: Dataset) -> np.ndarray:
    """For each row, the number of its episode."""
    return np.repeat(np.arange(dataset.num_episodes, dtype=np.float32), dataset.episodes.length)


def test_every_pass_has_an_order_of_its_own(logged):
    _, dataset = logged
    batches = Batches(dataset, lanes=16, window=64, merits=numbers_of(dataset))
    left, iteration = dataset.num_episodes, 0
    while left:
        minibatch = batches.minibatch(0, iteration)
        left, iteration = left - int(minibatch.steps.ended.sum()), iteration + 1
    # The merit of an episode is its number here.
    assert not np.array_equal(batches.minibatch(0, 0).behaviour.merit, batches.minibatch(0, iteration).behaviour.merit)


def test_episodes_lie_whole_in_their_lanes(logged):
    _, dataset = logged
    batches = Batches(dataset, lanes=4, window=20, merits=numbers_of(dataset))
    minibatch = batches.fill([np.asarray([7, 3]), np.asarray([11])])
    one, two = dataset.read(7), dataset.read(3)
    n, end = len(one.action), len(one.action) + len(two.action)
    steps = minibatch.steps
    np.testing.assert_array_equal(steps.observation[:, n:end, 0].T, two.observation)
    np.testing.assert_array_equal(steps.next_observation[:, n : end - 1, 0].T, two.observation[1:])
    np.testing.assert_array_equal(steps.next_observation[:, n - 1, 0], one.final_observation)
    np.testing.assert_array_equal(steps.counts.sum(0), [end, len(dataset.read(11).action), 0, 0])
    np.testing.assert_array_equal(np.unique(minibatch.behaviour.merit[:end, 0]), [3, 7])


def test_the_interval_of_an_estimate_has_19_of_20_resamples():
    """Row 0 is the estimate; of the resamples 0 to 1000, a fortieth lies below 25 and a fortieth above 975."""
    resamples = np.concatenate([[500.0], np.arange(1001.0)])
    found = _value(resamples, 2 * resamples)
    assert found.discounted == 500 and found.discounted_ci == pytest.approx((25, 975))
    assert found.undiscounted == 1000 and found.undiscounted_ci == pytest.approx((50, 1950))
