"""Continual World's three measures of tasks that were learned one after another (Wolczyk et al., 2021).

Returns are scaled task by task: random play is 0, the solved threshold 1. Arrays have axes (tasks, seeds).

    final performance = mean over tasks of p(T)                       p(t): scaled return after t tasks
    forgetting        = mean over tasks i of p_i(i) - p_i(T)
    forward transfer  = mean over tasks of (AUC - AUC_scratch) / (1 - AUC_scratch)

AUC is the area under the scaled training curve, clipped to [0, 1], as a share of the budget. That from scratch is the mean over
seeds: in the denominator, the noise of single seeds would count for most.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike


def scaled(returns: ArrayLike, random: ArrayLike, solved: ArrayLike) -> np.ndarray:
    """NaN where the threshold is no better than random play: there is nothing to measure by."""
    way = np.asarray(solved, float) - np.asarray(random, float)
    return (np.asarray(returns, float) - random) / np.where(way > 0, way, np.nan)


def area_under_curve(spent: ArrayLike, performance: ArrayLike, budget: float) -> float:
    """Of a curve that was looked at after so much was spent; linear between looks, and as it was last until the budget is over."""
    spent, performance = np.asarray(spent, float), np.clip(np.asarray(performance, float), 0.0, 1.0)
    known = np.isfinite(performance)
    if not known.any():
        return float("nan")
    spent, performance = spent[known], performance[known]
    places = np.concatenate([[0.0], spent[(spent > 0) & (spent < budget)], [budget]])
    heights = np.interp(places, spent, performance)
    return float(np.sum(np.diff(places) * (heights[1:] + heights[:-1]) / 2) / budget)


def final_performance(at_end: Float[np.ndarray, "T S"]) -> Float[np.ndarray, "S"]:
    return mean_over_tasks(at_end)


def forgetting(after_own: Float[np.ndarray, "T S"], at_end: Float[np.ndarray, "T S"]) -> Float[np.ndarray, "S"]:
    """What is lost between the end of a task's own training and the end of the sequence; negative where it was gained."""
    return mean_over_tasks(after_own - at_end)


def forward_transfer(auc: Float[np.ndarray, "T S"], scratch: Float[np.ndarray, "T R"]) -> Float[np.ndarray, "S"]:
    """How much sooner a task is learned than from scratch: 1 is at once. A task that is solved from the first step on has no say."""
    reference = scratch.mean(1, keepdims=True)
    left = 1 - reference
    return mean_over_tasks((auc - reference) / np.where(left > 0, left, np.nan))


def mean_over_tasks(values: Float[np.ndarray, "T S"]) -> Float[np.ndarray, "S"]:
    """Of those that are known; NaN where none is."""
    known = np.isfinite(values)
    total = np.where(known, values, 0.0).sum(0)
    return np.where(known.any(0), total / np.maximum(known.sum(0), 1), np.nan)
