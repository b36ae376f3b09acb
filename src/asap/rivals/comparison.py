"""Systems side by side on one task: all learn for as many steps, and are then evaluated on the same fresh episodes.

Each seed of a system that is finished is kept as one JSON file. A comparison that was stopped goes on with what is missing, and a
larger one uses what a smaller one has left, as long as the settings are the same.
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from asap import __version__
from asap.base import stats
from asap.base.arrays import known_mean
from asap.base.spec import TaskSet
from asap.base.stats import SeedCurve
from asap.config.schema import Config
from asap.config.settings import with_values
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepCounter
from asap.experience.protocol import Evaluation
from asap.rivals.kept import Row, kept_rows
from asap.rivals.protocol import Agents, System
from asap.runs.directory import print_note
from asap.runs.loggers import no_phase
from asap.runs.signals import StopRequest

EPISODES, HOSTED_EPISODES = 1000, 100  # Of the evaluation, per task; environments on the host are slow.


@dataclass(frozen=True)
class Contest:
    """What all systems are given alike."""

    tasks: TaskSet
    seeds: tuple[int, ...]
    steps: int
    folder: Path
    episodes: int | None = None

    @property
    def num_episodes(self) -> int:
        """Of the evaluation of each seed on each task."""
        return self.episodes or (EPISODES if self.tasks.names_say_all else HOSTED_EPISODES)

    def path(self, system: System, seed: int) -> Path:
        words = system.name, "+".join(self.tasks.names), system.representation, str(seed)
        return self.folder / f"{as_file_name('-'.join(words))}.json"

    def settings(self, system: System) -> dict[str, Any]:
        """What a file must have been made with to be used again."""
        members = zip(self.tasks.names, self.tasks.descriptors.tolist(), self.tasks.shares.tolist())
        own = {
            "system": dataclasses.asdict(system),
            "tasks": list(members),
            "environment": self.tasks.tasks[0].record(),
            "steps": self.steps,
            "episodes": self.num_episodes,
            "version": __version__,
        }
        return own


class SeedResult(NamedTuple):
    """One seed of one system, as its file has it."""

    seed: int
    final: float  # Mean return of the evaluation, tasks by their weights.
    per_task: dict[str, float]
    success: float | None  # None where the environment does not tell.
    steps: int
    seconds: float  # Its share of the time in which all of its seeds learned together.
    parameters: int
    skills: int
    curve: SeedCurve  # By steps.

    def as_dict(self) -> dict[str, Any]:
        curve = {"steps": np.asarray(self.curve.episodes).tolist(), "returns": np.asarray(self.curve.returns).tolist()}
        return {**self._asdict(), "curve": curve}

    @classmethod
    def read(cls, record: Mapping[str, Any]) -> "SeedResult":
        curve = SeedCurve(*(np.asarray(record["curve"][axis], float) for axis in ("steps", "returns")))
        return cls(**{**{name: record[name] for name in cls._fields}, "curve": curve})


def as_file_name(words: str) -> str:
    """Names of environments have colons and slashes."""
    return "".join(c if c.isalnum() or c in "-+._" else "-" for c in words)


Watch = Callable[[Config, str], Any]  # A context in which `count` hears of steps, and `phase` of what else is done.
Results = dict[str, list[SeedResult]]  # By the names of the systems.


def _unwatched(config: Config, label: str) -> Any:
    return contextlib.nullcontext(SimpleNamespace(count=lambda done: None, phase=no_phase))


def compare(
    contest: Contest,
    systems: Sequence[System],
    watch: Watch = _unwatched,
    stop: StopRequest | None = None,
    notice: Callable[[str], None] = print_note,
) -> Results:
    """Every system in its turn. Who stops it loses the system that is learning, and no other."""
    return {system.name: finished(contest, system, watch, stop or StopRequest(), notice) for system in systems}


def finished(
    contest: Contest, system: System, watch: Watch, stop: StopRequest, notice: Callable[[str], None]
) -> list[SeedResult]:
    """All seeds of a system: those that are kept, and the others learned now, all together."""

    def compute(missing: Sequence[int]) -> list[Row]:
        label = f"{system.name} on {'+'.join(contest.tasks.names)}"
        with watch(with_values(Config(), {"run.steps": contest.steps}), label) as progress:
            return [result.as_dict() for result in learned(contest, system, tuple(missing), progress, stop)]

    paths, settings = partial(contest.path, system), contest.settings(system)
    return list(map(SeedResult.read, kept_rows(paths, settings, contest.seeds, compute, notice, SeedResult.read)))


def learned(
    contest: Contest, system: System, seeds: tuple[int, ...], progress: Any, stop: StopRequest
) -> list[SeedResult]:
    began, counter = time.monotonic(), StepCounter(len(seeds), contest.steps, progress.count, stop)
    agents = system.learn(contest.tasks, seeds, counter)
    seconds = (time.monotonic() - began) / len(seeds)
    progress.phase("evaluating")
    stop.check()
    played = agents.evaluation or evaluated(contest, agents, seeds)
    returns, success = known_mean(played.returns), known_mean(played.success)  # (seeds, tasks)
    return [
        SeedResult(
            seed=seed,
            final=float(returns[s] @ contest.tasks.shares),
            per_task=dict(zip(contest.tasks.names, returns[s].tolist())),
            success=None if np.isnan(success[s]).any() else float(success[s] @ contest.tasks.shares),
            steps=int(agents.steps_used[s]),
            seconds=round(seconds, 3),
            parameters=agents.num_parameters,
            skills=agents.num_skills,
            curve=agents.curves[s],
        )
        for s, seed in enumerate(seeds)
    ]


def evaluated(contest: Contest, agents: Agents, seeds: Sequence[int]) -> Evaluation:
    """Fresh episodes, for every system the same; nobody learns from them, and they are not counted."""
    with contextlib.closing(counted_play(contest.tasks, seeds, StepCounter(len(seeds), 0))) as play:
        return play.evaluate(agents.actors, contest.num_episodes, agents.num_skills)


# ---- What came out -------------------------------------------------------------------------------------------------


class Scale(NamedTuple):
    """Returns that count as 0 and as 1."""

    at_random: float
    best: float
    best_is: str

    @classmethod
    def of(cls, tasks: TaskSet, results: Results) -> "Scale | None":
        """Random play and the script or, where there is none, the return that solves the task; None without either."""
        if "random" not in results:
            return None
        at_random = stats.iqm(returns_of(results["random"]))
        if "scripted" in results:
            return cls(at_random, stats.iqm(returns_of(results["scripted"])), "scripted")
        thresholds = [task.threshold for task in tasks.tasks]
        if None in thresholds:
            return None
        return cls(at_random, float(tasks.shares @ np.asarray(thresholds, float)), "solved")

    def scaled(self, returns: ArrayLike) -> Float[np.ndarray, "n"]:
        """Random play is 0, the best 1."""
        return (np.asarray(returns, float) - self.at_random) / (self.best - self.at_random)


def returns_of(results: Sequence[SeedResult]) -> Float[np.ndarray, "seeds"]:
    return np.asarray([result.final for result in results])


def summary(name: str, results: Sequence[SeedResult], scale: Scale | None) -> dict[str, Any]:
    """One row of the table."""
    success = [result.success for result in results]
    return {
        "system": name,
        "return": _measured(returns_of(results)),
        "scaled": None if scale is None else _measured(scale.scaled(returns_of(results))),
        "success": None if None in success else _measured(np.asarray(success)),
        "steps": [result.steps for result in results],
        "parameters": results[0].parameters,
        "skills": results[0].skills,
        "seconds": round(sum(result.seconds for result in results), 1),
    }


def _measured(values: Float[np.ndarray, "seeds"]) -> dict[str, Any]:
    interval = list(stats.bootstrap_interval(values)) if len(values) > 1 else None  # One seed tells of no other.
    return {"iqm": stats.iqm(values), "ci": interval, "all": values.tolist()}
