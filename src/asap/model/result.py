"""What a training or an evaluation came to, in plain numbers: what `evaluate`, `asap train` and `asap eval` tell."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asap.base import stats
from asap.base.arrays import known_mean
from asap.base.numbers import number
from asap.base.spec import TaskSet
from asap.config.schema import Config
from asap.experience.protocol import Evaluation
from asap.model.verdict import Verdict
from asap.runs.events import Curve


@dataclass(frozen=True)
class Result:
    """Numbers of one training. Evaluation arrays have axes (seeds, tasks, ...)."""

    config: Config
    tasks: TaskSet
    evaluation: Evaluation | None  # Of the policies at the end; None if stopped before, or done elsewhere.
    curve: Curve
    updates: list[int]  # Of each seed.
    env_steps: int
    wall_seconds: float
    compile_seconds: float
    finished: bool
    parameters_sha256: str
    ess: list[float] | None  # Of the last chunk, where logged data were learned from.
    verdict: Verdict | None  # None if stopped before.
    nothing_left: str | None = None  # Why a run that was resumed had nothing more to learn.
    races: Sequence[Mapping[str, Any]] = ()  # Of each seed, where runners have raced.
    picks: Sequence[Mapping[str, Any]] = ()  # Of each seed, where its outcome was picked by fresh episodes.

    def notes(self) -> list[str]:
        """What a user should know about the outcome, a sentence each."""
        already = [] if self.nothing_left is None else [self.nothing_left]
        config, verdict = self.config, [] if self.verdict is None else self.verdict.notes()
        if config.policy.rules and config.run.source is None and self.finished and 0 in self.updates:
            verdict = ["without an update the result is the given rules, as they are", *verdict]
        return [*already, *_races_in_words(self.races), *_picks_in_words(self.picks), *verdict]

    def summary(self, path: str) -> dict:
        """The JSON object of `asap train`. Of a run that was stopped, the numbers of the final evaluation are null."""
        config, weights = self.config, self.tasks.shares
        thresholds = [task.threshold for task in self.tasks.tasks]
        has_threshold, seeds = None not in thresholds, config.run.seeds
        is_known = has_threshold and len(self.curve.episodes) > 0  # The event log may have been lost.
        reached = self.curve.first_near_optimal(np.asarray(thresholds)) if is_known else [None] * seeds
        steps_per_second = self.env_steps / max(self.wall_seconds - self.compile_seconds, 1e-9)
        return {
            "task": config.run.tasks[0] if len(config.run.tasks) == 1 else list(config.run.tasks),
            "learner": config.learn.learner,
            "gradient": config.learn.gradient,
            "seeds": seeds,
            "threshold": _weighted(weights, thresholds),
            "episodes_to_near_optimal": {"median": stats.median_with_failures(reached), "all": reached},
            **self._evaluated(thresholds),
            "reference": self._references(),
            "episodes": self.curve.episodes[-1].astype(int).tolist() if len(self.curve.episodes) else [0] * seeds,
            "updates": min(self.updates),
            "env_steps": self.env_steps,
            "wall_seconds": round(self.wall_seconds, 3),
            "compile_seconds": round(self.compile_seconds, 3),
            "env_steps_per_second": round(steps_per_second),
            "finished": self.finished,
            "parameters_sha256": self.parameters_sha256,
            **({} if self.ess is None else {"offline": {"data": config.offline.data, "ess": self.ess}}),
            **({"race": list(self.races)} if self.races else {}),
            **({"pick": list(self.picks)} if self.picks else {}),
            "verdict": None if self.verdict is None else self.verdict.as_dict(),
            "notes": self.notes(),
            "run": path,
        }

    def _evaluated(self, thresholds: list[float | None]) -> dict:
        if self.evaluation is None:
            return dict.fromkeys(("near_optimal_seeds", "return", "success", "per_task"))
        per_seed, success = known_mean(self.evaluation.returns), known_mean(self.evaluation.success)  # (seeds, tasks)
        returns = per_seed @ self.tasks.shares
        interval = list(stats.bootstrap_interval(returns)) if len(returns) > 1 else None  # One seed tells of no other.
        is_near, run = None if None in thresholds else (per_seed >= np.asarray(thresholds)).all(-1), self.config.run
        seeds, episodes = range(run.seed, run.seed + len(returns)), self.evaluation.returns.shape[-1]
        return {
            "near_optimal_seeds": None if is_near is None else int(is_near.sum()),
            "return": _over_seeds(returns, {"ci": interval}, seeds, episodes, run.deterministic),
            "success": None if np.isnan(success).any() else float(success.mean(0) @ self.tasks.shares),
            "per_task": {
                name: {"return": per_seed[:, m].tolist(), "success": _known(success[:, m])}
                for m, name in enumerate(self.config.run.tasks)
            },
        }

    def _references(self) -> dict[str, float | None] | None:
        references = [task.reference for task in self.tasks.tasks]
        if None in references:
            return None
        names = ("misspecified", "approx_optimal", "dp_optimal", "near_optimal")
        return {name: _weighted(self.tasks.shares, [getattr(one, name) for one in references]) for name in names}


def _races_in_words(races: Sequence[Mapping[str, Any]]) -> list[str]:
    """Who has won, and what each returned in the first heat."""
    if len(races) == 1:
        (race,) = races
        each = (f"{name} {number(mean)}" for name, mean in zip(race["runners"], race["returns"]))
        return [f"the race was won by {race['runners'][race['winner']]}, {race['winner'] + 1} of {', '.join(each)}"]
    counts = Counter(race["runners"][race["winner"]] for race in races)
    return [f"races won: {', '.join(f'{n} in {c} seeds' for n, c in counts.items())}"] if counts else []


def _picks_in_words(picks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Which policy fresh episodes have chosen at the end."""
    if len(picks) == 1:
        (pick,) = picks
        others = (f"{name} {number(mean)}" for name, mean in pick["returns"].items() if name != pick["chosen"])
        chosen = f"{pick['chosen']} was picked: over {pick['episodes']:,} fresh episodes it returned"
        return [f"{chosen} {number(pick['returns'][pick['chosen']])}, {', '.join(others)}"]
    counts = Counter(pick["chosen"] for pick in picks)
    return [f"picked by fresh episodes: {', '.join(f'{n} in {c} seeds' for n, c in counts.items())}"] if counts else []


def _over_seeds(
    returns: np.ndarray, interval: dict[str, Any], seeds: Sequence[int], episodes: int, deterministic: bool
) -> dict[str, Any]:
    known = {"iqm": stats.iqm(returns), **interval, "all": returns.tolist(), "seeds": list(seeds)}
    return {**known, "episodes": episodes, "deterministic": deterministic}


def _weighted(weights: np.ndarray, values: list[float | None]) -> float | None:
    return None if None in values else float(np.dot(weights, values))


def _known(values: np.ndarray) -> list[float] | None:
    """JSON knows no NaN."""
    return None if np.isnan(values).any() else values.tolist()


def evaluation_report(tasks: TaskSet, played: Evaluation, only: str | None = None) -> dict[str, Any]:
    """Of the first policy; over all tasks by their weights, and each apart, or of one task alone."""
    if only is not None:
        return _on_task(played, tasks.names.index(only))
    each = {name: _on_task(played, m) for m, name in enumerate(tasks.names)}
    if tasks.size == 1:
        return each[tasks.names[0]]
    # All tasks have equally many episodes, so that weights of tasks are weights of steps, too.
    counts, keys = (played.skill_steps, played.skill_starts), ("return", "success", "length")
    steps, starts = (np.einsum("m,ms->s", tasks.shares, count[0]) for count in counts)
    return {
        **{key: _weighted(tasks.shares, [one[key] for one in each.values()]) for key in keys},
        "returns": played.returns[0].tolist(),
        "success_ci": None,
        "usage": (steps / max(steps.sum(), 1e-9)).tolist(),
        "durations": (steps / np.where(starts > 0, starts, 1)).tolist(),
        "per_task": each,
    }


def _on_task(played: Evaluation, m: int) -> dict[str, Any]:
    success = played.success[0, m]
    known = not np.isnan(success).any()
    return {
        "return": float(played.returns[0, m].mean()),
        "returns": played.returns[0, m].tolist(),
        "success": float(success.mean()) if known else None,
        "success_ci": list(stats.wilson_interval(int(success.sum()), len(success))) if known else None,
        "length": float(played.lengths[0, m].mean()),
        "usage": played.usage[0, m].tolist(),
        "durations": played.durations[0, m].tolist(),
    }


def seeds_report(
    tasks: TaskSet, played: Evaluation, seeds: Sequence[int], deterministic: bool
) -> dict[str, dict[str, Any]]:
    """Of all policies, one per seed, task by task: what `asap eval` prints.

    The return's interval is over seeds; of one seed, over its episodes, which tells how well that policy is known. The
    use of skills is told seed by seed: each seed numbers its skills in its own way.
    """
    reports = {}
    for m, name in enumerate(tasks.names):
        returns, success = played.returns[:, m], played.success[:, m]
        usage, durations = played.usage[:, m], played.durations[:, m]
        known, over = not np.isnan(success).any(), (seeds, returns.shape[-1], deterministic)
        reports[name] = {
            "return": _over_seeds(known_mean(returns), _interval(returns), *over),
            "success": float(success.mean()) if known else None,
            "success_ci": list(stats.success_interval(success)) if known else None,
            "length": float(known_mean(played.lengths[:, m], (0, 1))),
            "skills": [
                {"seed": seed, "usage": usage[index].tolist(), "duration": durations[index].tolist()}
                for index, seed in enumerate(seeds)
            ],
        }
    return reports


def _interval(returns: np.ndarray) -> dict[str, Any]:
    """Of returns (seeds, episodes), and what it is over."""
    if len(returns) > 1:
        return {"ci": list(stats.bootstrap_interval(known_mean(returns))), "ci_over": "seeds"}
    interval = stats.mean_interval(returns[0])
    return {"ci": None if interval is None else list(interval), "ci_over": "episodes"}
