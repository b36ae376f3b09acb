"""What a run came to, as the JSON object of `asap train`."""

import numpy as np

from asap.base import stats
from asap.envs.gymnasium.task import HostedTask
from asap.envs.resolve import Task
from asap.evaluate import known_mean
from asap.session import Result


def _weighted(weights: np.ndarray, values: list[float | None]) -> float | None:
    return None if None in values else float(np.dot(weights, values))


def _known(values: np.ndarray) -> list[float] | None:
    """JSON knows no NaN."""
    return None if np.isnan(values).any() else values.tolist()


def _threshold(task: Task) -> float | None:
    """The return from which on a policy is good: near-optimal, or what the makers of the environment say."""
    return task.threshold


def _references(tasks: tuple[Task, ...], weights: np.ndarray) -> dict[str, float | None] | None:
    if any(isinstance(task, HostedTask) for task in tasks):
        return None
    return {
        name: _weighted(weights, [getattr(task.reference, name) for task in tasks])
        for name in ("misspecified", "approx_optimal", "dp_optimal", "near_optimal")
    }


def summary(result: Result, path: str) -> dict:
    """The JSON object of `asap train`."""
    config = result.config
    per_seed = known_mean(result.evaluation.returns)  # (seeds, tasks)
    success = known_mean(result.evaluation.success)
    weights = np.asarray(config.run.weights) / np.sum(config.run.weights)
    thresholds = [_threshold(task) for task in result.tasks]
    returns = per_seed @ weights
    low, high = stats.bootstrap_interval(returns)
    has_threshold = None not in thresholds
    reached = result.curve.first_near_optimal(np.asarray(thresholds)) if has_threshold else [None] * config.run.seeds
    steps_per_second = result.env_steps / max(result.wall_seconds - result.compile_seconds, 1e-9)
    return {
        "task": config.run.tasks[0] if len(config.run.tasks) == 1 else list(config.run.tasks),
        "learner": config.learn.learner,
        "gradient": config.learn.gradient,
        "seeds": config.run.seeds,
        "threshold": _weighted(weights, thresholds),
        "near_optimal_seeds": int((per_seed >= np.asarray(thresholds)).all(-1).sum()) if has_threshold else None,
        "episodes_to_near_optimal": {"median": stats.median_with_failures(reached), "all": reached},
        "return": {"iqm": stats.iqm(returns), "ci": [low, high], "all": returns.tolist()},
        "success": None if np.isnan(success).any() else float(success.mean(0) @ weights),
        "per_task": {
            name: {"return": per_seed[:, m].tolist(), "success": _known(success[:, m])}
            for m, name in enumerate(config.run.tasks)
        },
        "reference": _references(result.tasks, weights),
        "episodes": result.curve.episodes[-1].astype(int).tolist()
        if len(result.curve.episodes)
        else [0] * config.run.seeds,
        "env_steps": result.env_steps,
        "wall_seconds": round(result.wall_seconds, 3),
        "compile_seconds": round(result.compile_seconds, 3),
        "env_steps_per_second": round(steps_per_second),
        "finished": result.finished,
        "parameters_sha256": result.parameters_sha256,
        **({} if result.ess is None else {"offline": {"data": config.offline.data, "ess": result.ess}}),
        "run": path,
    }
