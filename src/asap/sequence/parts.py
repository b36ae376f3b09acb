"""The parts of a sequence: the training of each task, as a run of its own, and what it takes over of the task before."""

import dataclasses
from typing import NamedTuple

import jax
import numpy as np

from asap.base.spec import TaskSet
from asap.compose import tasks_text
from asap.config.schema import Config
from asap.config.sequence import PER_TASK
from asap.config.toml import to_toml
from asap.learn.source import TakenOver
from asap.model.another_task import of_one_task
from asap.model.files import Saved, policies_in
from asap.model.source import source_of, start_from
from asap.model.training import holds_run
from asap.policy.policy import ASAPPolicy
from asap.policy.surgery import soften
from asap.runs.directory import Run

TASK, SCRATCH = "task", "scratch"  # What the folders of the parts are called.


class TaskTraining(NamedTuple):
    """One training of a sequence."""

    run: Run  # Of the sequence.
    index: int  # Of the task.
    config: Config
    tasks: TaskSet  # The one task, with its numbers in the family.
    is_scratch: bool = False

    @classmethod
    def of(cls, run: Run, config: Config, tasks: TaskSet, index: int, is_scratch: bool = False) -> "TaskTraining":
        task, own, kept = tasks.tasks[index], config.sequence, config.policy.keep
        if not is_scratch and own.freeze_after is not None and index >= own.freeze_after:
            kept = "skills"
        config = of_one_task(config, task, config.policy.task_features)
        source = None if is_scratch or index else config.run.source
        # A policy that is drawn needs no search for its best image.
        search = config.run.search_episodes if source is not None or (index and not is_scratch) else 0
        changed = dataclasses.replace(config.run, source=source, search_episodes=search)
        config = dataclasses.replace(config, run=changed, policy=dataclasses.replace(config.policy, keep=kept))
        return cls(run, index, config, TaskSet((task,), (1.0,)), is_scratch)

    @property
    def name(self) -> str:
        return f"{SCRATCH if self.is_scratch else TASK}-{self.index + 1:02d}"

    def opened(self) -> Run:
        """Its run directory, within that of the sequence."""
        folder, notice = self.run.path / self.name, self.run.notice
        if holds_run(folder):
            return Run.open(folder, notice)
        return Run.create(folder, to_toml(self.config), tasks_text(self.config, self.tasks), notice)

    def saved(self) -> Saved:
        """What it has learned."""
        checkpoint = self.opened().latest()
        return Saved(self.config, self.tasks, self.config.run.seed, checkpoint.arrays, whole=True)


def start_of(part: TaskTraining, before: TaskTraining | None, config: Config) -> tuple[ASAPPolicy | None, TakenOver]:
    """Where a task begins: from what the task before it has come to, or as any training does."""
    if before is None:
        return start_from(part.config, part.tasks)
    saved = before.saved()
    policies = policies_in(saved, True)
    source = source_of(saved, policies, part.config, part.tasks)._replace(notes=())
    return carried_on(policies, config.sequence.length), source


def carried_on(policies: ASAPPolicy, plane_length: float | None) -> ASAPPolicy:
    """Policies, stacked over seeds, as another task begins with them: long planes are sharp, and only short ones can turn."""
    return policies if plane_length is None else jax.tree.map(np.asarray, soften(policies, plane_length))


def has_own_planes(config: Config) -> bool:
    return config.sequence.planes == PER_TASK
