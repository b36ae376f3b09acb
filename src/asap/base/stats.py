"""Numbers over seeds: interquartile mean, bootstrap intervals, time to a threshold, curves on one grid. NumPy only."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from asap.base.errors import UserError

SAMPLES = 2000  # Of a bootstrap.
MAX_RESAMPLED = 4_000_000  # Numbers held at once while resampling: 32 MB.


class SeedCurve(NamedTuple):
    """The learning curve of one seed: mean return of each evaluation, by completed episodes."""

    episodes: ArrayLike
    returns: ArrayLike


def iqm(values: ArrayLike, axis: int = 0) -> float | np.ndarray:
    """Interquartile mean: the mean of the middle half.

    The i-th of n sorted values stands for the quantiles from i/n to (i+1)/n and counts by its overlap with
    [1/4, 3/4], so the result is exact for every n, not only for multiples of four.
    """
    ordered = np.sort(_some_numbers(values, axis), axis=axis)
    count = ordered.shape[axis]
    edges = np.clip(np.arange(count + 1) / count, 0.25, 0.75)
    # Values without weight are left out rather than multiplied by 0: they may be infinite.
    inside = np.arange(count // 4, math.ceil(3 * count / 4))
    mean = np.average(np.take(ordered, inside, axis=axis), axis=axis, weights=np.diff(edges)[inside])
    return float(mean) if mean.ndim == 0 else mean


def bootstrap_interval(
    values: ArrayLike,
    seed: int = 0,
    samples: int = SAMPLES,
    level: float = 0.95,
    statistic: Callable[..., np.ndarray] = iqm,
) -> tuple[float, float] | tuple[np.ndarray, np.ndarray]:
    """Percentile bootstrap over the first axis (seeds); with (seeds, points), one interval per point.

    Whole seeds are drawn again, the same ones for every point. `statistic(values, axis)` may be any NumPy reduction.
    """
    values = _some_numbers(values, 0)
    columns = values.reshape(len(values), -1)
    picks = np.random.default_rng(seed).integers(len(values), size=(samples, len(values)))
    width = max(1, MAX_RESAMPLED // picks.size)
    tails = [(1 - level) / 2, (1 + level) / 2]
    limits = [
        np.quantile(statistic(columns[:, start : start + width][picks], axis=1), tails, axis=0)
        for start in range(0, columns.shape[1], width)
    ]
    low, high = np.concatenate(limits, axis=1)
    if values.ndim == 1:
        return float(low[0]), float(high[0])
    return low.reshape(values.shape[1:]), high.reshape(values.shape[1:])


def difference_interval(
    first: ArrayLike, second: ArrayLike, statistic: Callable[..., np.ndarray] = iqm
) -> tuple[float, float]:
    """95 % percentile bootstrap of statistic(first) - statistic(second), each with seeds of its own.

    Two intervals may overlap where the difference is beyond doubt, and the difference is what a comparison is about.
    """
    generator, drawn = np.random.default_rng(0), []
    for values in (_some_numbers(first, 0), _some_numbers(second, 0)):
        picks = generator.integers(len(values), size=(SAMPLES, len(values)))
        drawn.append(statistic(values[picks], axis=1))
    return _limits(drawn[0] - drawn[1])


# Of Student's t with 1 to 6 degrees of freedom, 97.5 %; with more, the expansion below is right to a hundredth.
_STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447)


def mean_difference_interval(first: ArrayLike, second: ArrayLike) -> tuple[float, float]:
    """95 % interval of mean(first) - mean(second), each with a spread of its own (Welch, 1947).

    A single number is taken to spread as the other sample does. Of two single numbers nothing is known.
    """
    samples = [_some_numbers(values, 0) for values in (first, second)]
    known = [float(values.var(ddof=1)) for values in samples if len(values) > 1]
    if not known:
        return -math.inf, math.inf
    variances = known if len(known) == 2 else known * 2
    errors = [variance / len(values) for values, variance in zip(samples, variances)]
    difference, total = float(samples[0].mean() - samples[1].mean()), sum(errors)
    if not total > 0:
        return difference, difference
    freedom = max(len(values) - 1 for values in samples)
    if len(known) == 2:  # Satterthwaite's.
        freedom = total**2 / sum(error**2 / (len(values) - 1) for error, values in zip(errors, samples))
    reach = _student(freedom) * math.sqrt(total)
    return difference - reach, difference + reach


def _student(freedom: float) -> float:
    if freedom < len(_STUDENT) + 1:
        return _STUDENT[max(int(freedom), 1) - 1]
    return 1.960 + 2.372 / freedom + 2.823 / freedom**2


def nested_interval(values: ArrayLike, statistic: Callable[..., np.ndarray] = iqm) -> tuple[float, float]:
    """95 % percentile bootstrap of (groups, members): groups are drawn again, and then members of each.

    Members of a group have something in common, such as a data set, and are not independent.
    """
    values = _some_numbers(values, 0)
    (groups, members), generator = values.shape, np.random.default_rng(0)
    chosen = generator.integers(groups, size=(SAMPLES, groups, 1))
    picks = generator.integers(members, size=(SAMPLES, groups, members))
    return _limits(statistic(values[chosen, picks].reshape(SAMPLES, -1), axis=1))


def _limits(resampled: np.ndarray) -> tuple[float, float]:
    low, high = np.quantile(resampled, [0.025, 0.975])
    return float(low), float(high)


def median_with_failures(episodes: Sequence[int | None]) -> float | None:
    """Median over seeds where a failure (None) took infinitely long; None if the median itself is infinite."""
    median = float(np.median(_some_numbers([math.inf if e is None else e for e in episodes], 0)))
    return median if math.isfinite(median) else None


def common_grid(curves: Sequence[SeedCurve], points: int = 200) -> np.ndarray:
    """Episode counts at which all curves can be compared: counts of real evaluations, at most `points` of them.

    The grid starts where every curve has had an evaluation and goes on to the end of the longest.
    """
    if not curves:
        raise UserError("curves", "there is no curve", cure="give the curve of at least one seed")
    grid = np.unique(np.concatenate([np.asarray(curve.episodes) for curve in curves]))
    grid = grid[grid >= max(np.min(curve.episodes) for curve in curves)]
    if len(grid) <= points:
        return grid
    return grid[np.round(np.linspace(0, len(grid) - 1, points)).astype(int)]


def resample(curves: Sequence[SeedCurve], grid: ArrayLike) -> np.ndarray:
    """Array (seeds, points): the last evaluation at or before each count. A curve that ended keeps its last value."""
    grid, rows = np.asarray(grid), []
    for curve in curves:
        index = np.searchsorted(np.asarray(curve.episodes), grid, side="right") - 1
        if (index < 0).any():
            raise UserError("grid", "begins before the first evaluation of a curve", grid[0], "use common_grid(curves)")
        rows.append(np.asarray(curve.returns, float)[index])
    return np.stack(rows)


def _some_numbers(values: ArrayLike, axis: int) -> np.ndarray:
    values = np.asarray(values, float)
    if values.ndim == 0 or values.shape[axis] == 0:
        raise UserError("values", "there is nothing to average", values.tolist(), "give at least one number")
    return values


def mean_interval(values: ArrayLike) -> tuple[float, float] | None:
    """The mean of independent values, and 1.96 standard errors to either side (95 %); None for a single value."""
    values = _some_numbers(values, 0)
    if len(values) == 1:
        return None
    mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
    return mean - 1.96 * error, mean + 1.96 * error


def success_interval(success: ArrayLike) -> tuple[float, float]:
    """Wilson's interval of the share of ones in (seeds, episodes).

    Episodes of one policy are alike, and where seeds differ, more episodes of them tell little: they count as the
    number of independent ones whose mean would vary as the mean over seeds does, p (1 - p) / (s^2 / seeds).
    """
    success = np.atleast_2d(_some_numbers(success, 0))
    seeds, count, rate = len(success), float(success.size), float(success.mean())
    spread = float(success.mean(1).var(ddof=1)) / seeds if seeds > 1 else 0.0
    count = min(count, rate * (1 - rate) / spread) if spread > 0 else count
    return wilson_interval(rate * count, count)


def wilson_interval(successes: float, trials: float, deviations: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a proportion (95 %): unlike the normal one it stays inside [0, 1], also at 0 and at 1."""
    rate, spread = successes / trials, deviations**2 / trials
    centre = (rate + spread / 2) / (1 + spread)
    half = math.sqrt(spread * (rate * (1 - rate) + spread / 4)) / (1 + spread)
    return max(0.0, centre - half), min(1.0, centre + half)
