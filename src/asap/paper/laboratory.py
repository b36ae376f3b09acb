"""Where experiments train: every run is kept in a folder, shared between experiments, and gone on with after a stop."""

import contextlib
import functools
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np

from asap.base import stats
from asap.base.arrays import member
from asap.base.episodes import EVALUATION
from asap.base.spec import Task, TaskSet
from asap.base.stats import SeedCurve
from asap.compose import compose, tasks_text
from asap.config.schema import Config
from asap.config.settings import NO_VALUES, Values, override
from asap.config.toml import to_item, to_toml
from asap.envs import catalog
from asap.experience.compiled import Compiled
from asap.experience.protocol import EpisodeIds, Evaluation, ignore_progress
from asap.model.result import Result
from asap.model.source import start_from, transfer_settings
from asap.model.training import train_run
from asap.policy.policy import ASAPPolicy
from asap.runs.directory import Run
from asap.runs.loggers import Phase, no_phase
from asap.runs.signals import StopRequest

AT_ONCE = 200  # Episodes of each policy in one round of `play`.


@dataclass(frozen=True)
class TrainedRun:
    """A finished run, with the numbers that experiments need. Arrays have seeds first."""

    result: Result
    policies: ASAPPolicy  # Stacked over seeds.
    path: Path
    command: str

    @property
    def config(self) -> Config:
        return self.result.config

    @property
    def tasks(self) -> tuple[Task, ...]:
        return self.result.tasks.tasks

    @property
    def near_optimal(self) -> np.ndarray:
        """(tasks,)"""
        return np.asarray([task.threshold for task in self.tasks])

    def returns(self, task: int = 0) -> np.ndarray:
        """(seeds,): mean return of the final evaluation."""
        return self.result.evaluation.returns[:, task].mean(-1)

    def iqm(self, task: int = 0) -> float:
        return stats.iqm(self.returns(task))

    def success(self) -> np.ndarray:
        return self.result.evaluation.success[:, 0].mean(-1)

    def num_near_optimal(self) -> int:
        """Seeds that are near-optimal on every task at the end."""
        return int((self.result.evaluation.returns.mean(-1) >= self.near_optimal).all(-1).sum())

    def episodes_to(self) -> list[int | None]:
        """Per seed, completed episodes at the first evaluation that is near-optimal."""
        return self.result.curve.first_near_optimal(self.near_optimal)

    def curves(self, task: int = 0) -> list[SeedCurve]:
        """Per seed, return by episodes, up to where the seed stopped."""
        curve = self.result.curve
        return [
            SeedCurve(curve.episodes[active, s], curve.returns[active, s, task])
            for s, active in enumerate((curve.active > 0).T)
        ]

    def policy(self, seed: int) -> ASAPPolicy:
        return member(self.policies, seed)

    def usage(self) -> np.ndarray:
        """(seeds, skills): share of the steps of the final evaluation, over all tasks."""
        steps = self.result.evaluation.skill_steps.sum(1)
        return steps / steps.sum(-1, keepdims=True)

    def seconds(self) -> float:
        """Wall time of training all seeds, evaluations included, compilation not."""
        return float(self.result.curve.seconds.sum())

    def typical_seed(self) -> int:
        """The seed whose final return is the median: what one picture shows for all."""
        return median_index(self.returns())


def _unwatched(config: Config, label: str) -> Any:
    return contextlib.nullcontext(SimpleNamespace(show=no_phase, phase=no_phase, count=ignore_progress))


@dataclass
class Laboratory:
    """`out` holds pictures and pages, `out/runs` the training runs. `progress(config, label)` watches each of them. `quick`
    asks for small budgets, which show that everything runs and no more."""

    out: Path
    seeds: int = 20
    seed: int = 0
    stop: StopRequest = field(default_factory=StopRequest)
    progress: Callable[[Config, str], Any] = _unwatched
    records: dict[str, TrainedRun] = field(default_factory=dict)
    quick: bool = False

    @contextlib.contextmanager
    def counting(self, label: str, budget: int, unit: str = "steps") -> Iterator[Callable[[int], None]]:
        """Who hears how many of so many steps (or episodes) are done, of what is no training run of this library."""
        with self.progress(override(Config(), {f"run.{unit}": max(budget, 1)}), label) as progress:
            yield progress.count

    @contextlib.contextmanager
    def telling(self, label: str) -> Iterator[Phase]:
        """Who hears in words what is under way, and lets a stop through."""
        with self.progress(Config(), label) as progress:

            def tell(words: str) -> None:
                if self.stop.requested:
                    raise SystemExit(self.stop.exit_code)
                progress.phase(words)

            yield tell

    def train(self, label: str, tasks: list[str], settings: Values = NO_VALUES) -> TrainedRun:
        """Trains all seeds, or goes on with an earlier run of the same label; it must have the same settings."""
        fixed = {"run.seed": self.seed, "run.seeds": self.seeds}
        command = f"asap train {' '.join(tasks)} --seed {self.seed} --seeds {self.seeds}{as_options(settings)}"
        return self._trained(label, *compose(tasks, fixed, overrides=settings), command)

    def transfer(self, label: str, source: TrainedRun, tasks: list[str], settings: Values = NO_VALUES) -> TrainedRun:
        """The same from the policies of another run, seed by seed, with the settings of `asap transfer`."""
        command = f"asap transfer {source.path} {' '.join(tasks)}{as_options(settings)}"
        composed = transfer_settings(str(source.path), tasks, {}, None, False, settings)
        return self._trained(label, *composed, command)

    def learn_from(self, label: str, data: Path, seeds: int) -> TrainedRun:
        """The same from logged games, with as many seeds as are asked for."""
        settings = {"run.seed": self.seed, "run.seeds": seeds, "offline.data": str(data)}
        command = f"asap train --offline {data} --seed {self.seed} --seeds {seeds}"
        return self._trained(label, *compose([], settings), command)

    def _trained(self, label: str, config: Config, tasks: TaskSet, command: str) -> TrainedRun:
        if label in self.records:
            return self.records[label]
        path = self.out / "runs" / label
        run = Run.create_or_continue(path, to_toml(config), tasks_text(config, tasks))
        with self.progress(config, label) as progress:
            (given, source), phase = start_from(config, tasks), progress.phase
            how = {"given": given, "phase": phase, "source": source}
            states, result = train_run(run, config, tasks, self.stop, [progress.show], **how)
        if self.stop.requested:
            raise SystemExit(self.stop.exit_code)
        self.records[label] = TrainedRun(result, jax.tree.map(np.asarray, states.outcome), path, command)
        return self.records[label]


def as_options(settings: Values) -> str:
    """For a command that a person can copy."""
    return "".join(f" --set {shlex.quote(to_item(key, value))}" for key, value in settings.items())


def play(policies: ASAPPolicy, task: Task, num_episodes: int, seed: int, first: int = 0) -> Evaluation:
    """Stacked policies on one task, as learned: the i-th with seed + i, from its episode `first` on."""
    seeds = range(seed, seed + policies.partition.beta.shape[0])
    return _playing(task.name).evaluate(policies, EpisodeIds(seeds, EVALUATION, first), num_episodes, False)


@functools.cache
def _playing(name: str) -> Compiled:
    """Kept, because its program is: several experiments play policies of one shape."""
    config, tasks = compose([name], {"run.eval_episodes": AT_ONCE})
    return Compiled(config, tasks, catalog.task_set(((name, 1.0),)))


def median_index(values: np.ndarray) -> int:
    return int(np.argsort(values)[len(values) // 2])
