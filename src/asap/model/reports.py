"""An evaluation in plain numbers, as `evaluate` returns it and `asap eval` prints it."""

from typing import Any

import numpy as np

from asap.base import stats
from asap.base.arrays import known_mean
from asap.base.spec import TaskSet
from asap.experience.protocol import Evaluation


def evaluation_report(tasks: TaskSet, played: Evaluation, only: str | None = None) -> dict[str, Any]:
    """Of the first policy; over all tasks by their weights, and each apart, or of one task alone."""
    if only is not None:
        return _on_task(played, tasks.names.index(only))
    each = {name: _on_task(played, m) for m, name in enumerate(tasks.names)}
    if tasks.size == 1:
        return each[tasks.names[0]]
    # All tasks have equally many episodes, so that weights of tasks are weights of steps, too.
    steps, starts = (
        np.einsum("m,ms->s", tasks.shares, counts[0]) for counts in (played.skill_steps, played.skill_starts)
    )
    means = {
        key: _weighted(tasks.shares, [one[key] for one in each.values()]) for key in ("return", "success", "length")
    }
    return {
        **means,
        "returns": played.returns[0].tolist(),
        "success_ci": None,
        "usage": (steps / max(steps.sum(), 1e-9)).tolist(),
        "durations": (steps / np.where(starts > 0, starts, 1)).tolist(),
        "per_task": each,
    }


def _on_task(played: Evaluation, m: int) -> dict[str, Any]:
    success, steps = played.success[0, m], played.skill_steps[0, m]
    known = not np.isnan(success).any()
    return {
        "return": float(played.returns[0, m].mean()),
        "returns": played.returns[0, m].tolist(),
        "success": float(success.mean()) if known else None,
        "success_ci": list(stats.wilson_interval(int(success.sum()), len(success))) if known else None,
        "length": float(played.lengths[0, m].mean()),
        "usage": (steps / max(steps.sum(), 1)).tolist(),
        "durations": (steps / np.maximum(played.skill_starts[0, m], 1)).tolist(),
    }


def _weighted(shares: np.ndarray, values: list[float | None]) -> float | None:
    return None if None in values else float(shares @ np.asarray(values, float))


def seeds_report(tasks: TaskSet, played: Evaluation) -> dict[str, dict[str, Any]]:
    """Of all policies, one per seed, task by task: what `asap eval` prints."""
    reports = {}
    for m, name in enumerate(tasks.names):
        per_seed = known_mean(played.returns[:, m])
        steps, starts = played.skill_steps[:, m].sum(0), played.skill_starts[:, m].sum(0)
        success = played.success[:, m]
        known = not np.isnan(success).any()
        reports[name] = {
            "return": {
                "iqm": stats.iqm(per_seed),
                "ci": list(stats.bootstrap_interval(per_seed)),
                "all": per_seed.tolist(),
            },
            "success": float(success.mean()) if known else None,
            "success_ci": list(stats.wilson_interval(int(success.sum()), success.size)) if known else None,
            "length": float(known_mean(played.lengths[:, m], (0, 1))),
            "skills": {
                "usage": (steps / max(steps.sum(), 1)).tolist(),
                "duration": (steps / np.maximum(starts, 1)).tolist(),
            },
        }
    return reports
