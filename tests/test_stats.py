"""Promise: numbers over seeds are exact, seeded and honest about failures. Expected values are computed by hand."""

import numpy as np
import pytest

import asap.base.stats
from asap.base.arrays import known_mean
from asap.base.errors import UserError
from asap.base.stats import (
    SeedCurve,
    bootstrap_interval,
    common_grid,
    difference_interval,
    iqm,
    mean_interval,
    median_with_failures,
    nested_interval,
    resample,
    success_interval,
    wilson_interval,
)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 3.0], 2.0),
        ([9.0, 0.0, 3.0], 3.5),  # Weights 1/6, 2/3, 1/6: 0 + 2 + 1.5.
        ([100.0, 1.0, 4.0, 2.0], 3.0),  # The middle two.
        ([0.0, 1.0, 2.0, 3.0, 100.0], 2.0),  # Weights 0.3, 0.4, 0.3 on the middle three.
        ([0.0, 6.0, 12.0, 18.0, 24.0, 600.0], 15.0),  # Weights 1/6, 1/3, 1/3, 1/6: 1 + 4 + 6 + 4.
        ([-np.inf, 5.0, 7.0, np.inf], 6.0),  # A tail without weight may be infinite.
    ],
)
def test_iqm_weighs_by_overlap_with_the_middle_half(values, expected):
    assert iqm(values) == pytest.approx(expected)
    assert isinstance(iqm(values), float)


def test_iqm_works_along_an_axis():
    table = np.array([[0.0, 10.0, 3.0], [0.0, 20.0, 9.0], [0.0, 30.0, 0.0]])
    np.testing.assert_allclose(iqm(table), [0.0, 20.0, 3.5])
    np.testing.assert_allclose(iqm(table.T, axis=1), [0.0, 20.0, 3.5])


def test_bootstrap_of_two_values():
    """The mean of two draws from {0, 1} is 0, 1/2 or 1 with chances 1/4, 1/2, 1/4."""
    assert bootstrap_interval([0.0, 1.0], statistic=np.mean) == (0.0, 1.0)
    assert bootstrap_interval([0.0, 1.0], statistic=np.mean, level=0.4) == (0.5, 0.5)
    assert bootstrap_interval([5.0]) == (5.0, 5.0)


def test_bootstrap_is_seeded():
    values = np.random.default_rng(3).normal(size=15)
    assert bootstrap_interval(values, seed=1) == bootstrap_interval(values, seed=1)
    assert bootstrap_interval(values, seed=1) != bootstrap_interval(values, seed=2)


def test_bootstrap_per_point_is_the_bootstrap_of_that_point(monkeypatch):
    values = np.random.default_rng(0).normal(size=(9, 7))
    low, high = bootstrap_interval(values)
    assert low.shape == high.shape == (7,)
    assert (low[4], high[4]) == pytest.approx(bootstrap_interval(values[:, 4]))
    monkeypatch.setattr(asap.base.stats, "MAX_RESAMPLED", 2000 * 9 * 2)  # Two points at a time.
    np.testing.assert_array_equal(np.stack([low, high]), np.stack(bootstrap_interval(values)))


def test_bootstrap_interval_covers_the_truth_about_as_often_as_it_says():
    """Percentile intervals of 20 values cover a little less than they claim: 0.93 is typical for 0.95."""
    samples = np.random.default_rng(5).normal(size=(20, 400))
    for level, least, most in ((0.95, 0.88, 0.97), (0.5, 0.40, 0.58)):
        low, high = bootstrap_interval(samples, samples=500, level=level)
        assert least < ((low <= 0) & (0 <= high)).mean() < most


def test_the_interval_of_a_difference_by_hand():
    """Means of two draws from {0, 1} are 0, 1/2 and 1, less what never changes; equal constants do not differ at all."""
    assert difference_interval([0.0, 1.0], [3.0], statistic=np.mean) == (-3.0, -2.0)
    assert difference_interval([5.0], [2.0, 2.0, 2.0]) == (3.0, 3.0)
    low, high = difference_interval([0.0, 1.0], [0.0, 1.0], statistic=np.mean)  # Each from 0 to 1, by chances of 1/16.
    assert (low, high) == (-1.0, 1.0)


def test_a_difference_may_be_certain_where_intervals_overlap():
    first = np.linspace(0.0, 1.0, 10)
    second = first + 0.4
    assert bootstrap_interval(first)[1] > bootstrap_interval(second)[0]
    assert difference_interval(second, first)[0] > 0


def test_members_of_a_group_are_not_independent():
    """Two groups of four equal members: a mean is 0, 1/2 or 1, each end by a chance of 1/4. Eight independent values
    would nearly never be all alike."""
    values = np.array([[0.0] * 4, [1.0] * 4])
    assert nested_interval(values, statistic=np.mean) == (0.0, 1.0)
    low, high = bootstrap_interval(values.ravel(), statistic=np.mean)
    assert 0.0 < low < high < 1.0
    assert nested_interval([[0.0, 1.0]], statistic=np.mean) == (0.0, 1.0)  # One group: its members are drawn again.


@pytest.mark.parametrize(
    ("episodes", "expected"),
    [
        ([300, 100, 200], 200.0),
        ([100, 200, None], 200.0),
        ([100, 300, 200, None], 250.0),
        ([100, None], None),
        ([None, None, 5], None),
        ([None], None),
    ],
)
def test_failures_take_infinitely_long(episodes, expected):
    assert median_with_failures(episodes) == expected


def test_curves_on_one_grid_keep_their_last_value():
    long = SeedCurve([0, 10, 30], [1.0, 2.0, 3.0])
    short = SeedCurve([5, 20], [10.0, 20.0])
    grid = common_grid([long, short])
    np.testing.assert_array_equal(grid, [5, 10, 20, 30])  # From the first count at which both have a value.
    np.testing.assert_array_equal(resample([long, short], grid), [[1, 2, 2, 3], [10, 10, 20, 20]])


def test_grid_is_thinned_to_real_counts_with_both_ends():
    grid = common_grid([SeedCurve(np.arange(0, 1000, 3), np.zeros(334))], points=50)
    assert len(grid) == 50 and (grid[0], grid[-1]) == (0, 999)
    assert (grid % 3 == 0).all() and (np.diff(grid) > 0).all()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: iqm([]),
        lambda: bootstrap_interval([]),
        lambda: median_with_failures([]),
        lambda: common_grid([]),
        lambda: resample([SeedCurve([5], [1.0])], [0, 5]),
    ],
)
def test_nothing_to_summarise_is_an_error_with_a_cure(wrong):
    with pytest.raises(UserError, match=";"):
        wrong()


@pytest.mark.parametrize(("successes", "interval"), [(5, (0.2366, 0.7634)), (0, (0.0, 0.2775)), (10, (0.7225, 1.0))])
def test_wilson_by_the_table(successes, interval):
    """Ten trials, 95 %."""
    assert wilson_interval(successes, 10) == pytest.approx(interval, abs=1e-4)


def test_what_is_not_known_has_no_part_in_a_mean():
    nan = np.nan
    np.testing.assert_array_equal(known_mean([[1.0, nan, 3.0], [nan, nan, 5.0], [nan, nan, nan]]), [2.0, 5.0, nan])
    assert known_mean([[1.0, nan], [4.0, 7.0]], (0, 1)) == 4.0


def test_the_interval_of_a_mean_by_hand():
    """0, 2, 4: deviation 2, standard error 2 / sqrt(3)."""
    low, high = mean_interval([0, 2, 4])
    assert (low + high) / 2 == pytest.approx(2) and high - low == pytest.approx(2 * 1.96 * 2 / 3**0.5)
    assert mean_interval([5]) is None and mean_interval([5, 5]) == (5, 5)


def test_success_of_one_seed_is_wilsons():
    assert success_interval([1, 1, 0, 1]) == wilson_interval(3, 4)
    assert success_interval([[1, 0], [0, 1]]) == wilson_interval(2, 4), "seeds that do not differ are pooled"
    assert success_interval(np.ones((3, 100))) == wilson_interval(300, 300)


def test_success_of_seeds_that_differ_is_not_better_known_by_more_episodes():
    """One seed always succeeds, one never: p = 1/2, s^2 / 2 = 1/4, so all episodes count as one."""
    for episodes in (10, 1000):
        seeds = np.stack([np.ones(episodes), np.zeros(episodes)])
        assert success_interval(seeds) == pytest.approx(wilson_interval(0.5, 1))
