"""What a training came to, in numbers, and the JSON object that `asap train` prints of it."""

from dataclasses import dataclass

import numpy as np

from asap.base import stats
from asap.base.arrays import known_mean
from asap.base.spec import TaskSet
from asap.config.schema import Config
from asap.experience.protocol import Evaluation
from asap.runs.events import Curve


@dataclass(frozen=True)
class Result:
    """Numbers of one training. Evaluation arrays have axes (seeds, tasks, ...)."""

    config: Config
    tasks: TaskSet
    evaluation: Evaluation | None  # Of the policies at the end, unless that is done elsewhere.
    curve: Curve
    env_steps: int
    wall_seconds: float
    compile_seconds: float
    finished: bool
    parameters_sha256: str
    ess: list[float] | None  # Of the last chunk, where logged data were learned from.

    def summary(self, path: str) -> dict:
        """The JSON object of `asap train`."""
        config, weights = self.config, self.tasks.shares
        per_seed, success = known_mean(self.evaluation.returns), known_mean(self.evaluation.success)  # (seeds, tasks)
        thresholds = [task.threshold for task in self.tasks.tasks]
        returns = per_seed @ weights
        low, high = stats.bootstrap_interval(returns)
        has_threshold, seeds = None not in thresholds, config.run.seeds
        reached = self.curve.first_near_optimal(np.asarray(thresholds)) if has_threshold else [None] * seeds
        steps_per_second = self.env_steps / max(self.wall_seconds - self.compile_seconds, 1e-9)
        return {
            "task": config.run.tasks[0] if len(config.run.tasks) == 1 else list(config.run.tasks),
            "learner": config.learn.learner,
            "gradient": config.learn.gradient,
            "seeds": seeds,
            "threshold": _weighted(weights, thresholds),
            "near_optimal_seeds": int((per_seed >= np.asarray(thresholds)).all(-1).sum()) if has_threshold else None,
            "episodes_to_near_optimal": {"median": stats.median_with_failures(reached), "all": reached},
            "return": {"iqm": stats.iqm(returns), "ci": [low, high], "all": returns.tolist()},
            "success": None if np.isnan(success).any() else float(success.mean(0) @ weights),
            "per_task": {
                name: {"return": per_seed[:, m].tolist(), "success": _known(success[:, m])}
                for m, name in enumerate(config.run.tasks)
            },
            "reference": self._references(),
            "episodes": self.curve.episodes[-1].astype(int).tolist() if len(self.curve.episodes) else [0] * seeds,
            "env_steps": self.env_steps,
            "wall_seconds": round(self.wall_seconds, 3),
            "compile_seconds": round(self.compile_seconds, 3),
            "env_steps_per_second": round(steps_per_second),
            "finished": self.finished,
            "parameters_sha256": self.parameters_sha256,
            **({} if self.ess is None else {"offline": {"data": config.offline.data, "ess": self.ess}}),
            "run": path,
        }

    def _references(self) -> dict[str, float | None] | None:
        references = [task.reference for task in self.tasks.tasks]
        if None in references:
            return None
        names = ("misspecified", "approx_optimal", "dp_optimal", "near_optimal")
        return {name: _weighted(self.tasks.shares, [getattr(one, name) for one in references]) for name in names}


def _weighted(weights: np.ndarray, values: list[float | None]) -> float | None:
    return None if None in values else float(np.dot(weights, values))


def _known(values: np.ndarray) -> list[float] | None:
    """JSON knows no NaN."""
    return None if np.isnan(values).any() else values.tolist()
