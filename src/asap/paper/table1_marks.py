"""The five columns of the paper's Table 1 as predicates of numbers (thresholds fixed before the first full run).

A mark is given only where the 95 % interval clears the threshold. Returns are scaled: random play is 0, the scripted optimum 1.

    C1  skills are learned:   frozen as they began, they cost at least 30 % of the scaled return on 2R
    C2  skills are composed:  success on 3R at least 0.9, where the best single skill has at most 0.2 (on 2R it has half)
    C3  several tasks:        one policy has at least 0.9 on 2R and on flipped 2R, and from 2R flipped 2R takes at most
                              half the steps that it takes from scratch
    C4  skills are reused:    on 3R one skill is the likeliest in two regions that do not touch, with 10 % of the visits
                              each, and without it the return falls by at least 0.1; in more than half of the seeds
    C5  models are corrected: from a start with success of at most 0.2 on flipped 2R to at least 0.9 of the optimum
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from asap.base.stats import bootstrap_interval, iqm, wilson_interval

COLUMNS = {
    "C1": "automated skill learning with policy gradient",
    "C2": "automatic skill composition",
    "C3": "continuous state multitask learning",
    "C4": "learning reusable skills",
    "C5": "correcting model misspecification",
}
LOSS, LEAST_LEARNED = 0.3, 0.5  # C1: share lost; below this scaled return nothing was learned that could be lost.
SUCCESS, SINGLE = 0.9, 0.2  # C2.
SERVED, SOONER = 0.9, 0.5  # C3.
VISITS, COST, MAJORITY = 0.1, 0.1, 0.5  # C4.
WRONG, CORRECTED = 0.2, 0.9  # C5.
SAMPLES = 2000


class Mark(NamedTuple):
    """One cell: whether it passed (None: it can't be asked), and the number behind it."""

    passed: bool | None
    number: str
    value: float | None = None
    ci: tuple[float, float] | None = None


def learned_skills(full: ArrayLike, frozen: ArrayLike | None) -> Mark:
    """C1, from the scaled returns of seeds with learned skills and with frozen ones."""
    if frozen is None:
        return Mark(False, "it has no skills")
    whole = float(iqm(full))
    if whole < LEAST_LEARNED:
        return Mark(False, f"it reaches {whole:.2f}: there is nothing to lose", whole)
    value, interval = 1 - float(iqm(frozen)) / whole, _ratio_interval(frozen, full, iqm)
    lost = 1 - interval[1], 1 - interval[0]
    return Mark(lost[0] >= LOSS, f"frozen skills cost {value:.0%} ({lost[0]:.0%} to {lost[1]:.0%})", value, lost)


def composed_skills(success: ArrayLike, best_single: float) -> Mark:
    """C2, from the success of seeds and that of the best policy without any composition."""
    if best_single > SINGLE:
        return Mark(None, f"a single skill succeeds in {best_single:.0%}")
    value, interval = float(iqm(success)), bootstrap_interval(success)
    words = f"success {value:.2f} ({interval[0]:.2f} to {interval[1]:.2f}); a single skill {best_single:.2f}"
    return Mark(interval[0] >= SUCCESS, words, value, interval)


def served_tasks(joint: ArrayLike, after: Sequence[float | None], scratch: Sequence[float | None]) -> Mark:
    """C3, from scaled returns of one policy (seeds, tasks), and steps to 0.9 on flipped 2R; None is a seed that fails."""
    worse = np.asarray(joint, float).min(-1)
    value, interval = float(iqm(worse)), bootstrap_interval(worse)
    jointly = f"both tasks {value:.2f} ({interval[0]:.2f} to {interval[1]:.2f})"
    if np.median(_or_infinite(scratch)) == np.inf:
        return Mark(False, f"{jointly}; from scratch most seeds fail", value, interval)
    ratio = _ratio_interval(_or_infinite(after), _or_infinite(scratch), np.median)
    middle = np.median(_or_infinite(after)) / np.median(_or_infinite(scratch))
    passed = interval[0] >= SERVED and ratio[1] <= SOONER
    return Mark(
        passed, f"{jointly}; steps after 2R / from scratch {_ratio(middle)} (up to {_ratio(ratio[1])})", value, interval
    )


def reused_skills(is_reused: Sequence[bool] | None, cost: ArrayLike | None) -> Mark:
    """C4, from whether a skill of a seed rules two regions apart, and what forbidding it costs (0 where none does)."""
    if is_reused is None or cost is None:
        return Mark(False, "it has no skills")
    counts = np.asarray(is_reused) & (np.asarray(cost) >= COST)
    low, high = wilson_interval(float(counts.sum()), len(counts))
    return Mark(low > MAJORITY, f"{counts.sum()} of {len(counts)} seeds", float(counts.mean()), (low, high))


def corrected_model(success_at_start: ArrayLike, final: ArrayLike, optimum: float) -> Mark:
    """C5, from the success of the wrong model, and scaled returns after learning; `optimum` is that of the richest policy."""
    start = float(np.mean(np.asarray(success_at_start)))
    if start > WRONG:
        return Mark(None, f"the start is not wrong: success {start:.2f}")
    shares = np.asarray(final, float) / optimum
    value, interval = float(iqm(shares)), bootstrap_interval(shares)
    words = f"from success {start:.2f} to {value:.2f} ({interval[0]:.2f} to {interval[1]:.2f}) of the optimum"
    return Mark(interval[0] >= CORRECTED, words, value, interval)


def _ratio(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "never"


def _or_infinite(steps: Sequence[float | None]) -> np.ndarray:
    return np.asarray([np.inf if value is None else value for value in steps], float)


def _ratio_interval(first: ArrayLike, second: ArrayLike, statistic) -> tuple[float, float]:
    """95 % percentile bootstrap of statistic(first) / statistic(second), each with seeds of its own."""
    generator, drawn = np.random.default_rng(0), []
    for values in (np.asarray(first, float), np.asarray(second, float)):
        picks = generator.integers(len(values), size=(SAMPLES, len(values)))
        drawn.append(statistic(values[picks], axis=1))
    finite = np.isfinite(drawn[0]) & np.isfinite(drawn[1])
    ratios = np.where(finite, drawn[0] / np.where(finite, drawn[1], 1.0), np.inf)
    # No interpolation: between a number and infinity there is none.
    low, high = np.quantile(ratios, [0.025, 0.975], method="nearest")
    return float(low), float(high)
