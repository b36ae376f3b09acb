"""A model on one task of its family, also with parameters that it was never trained on."""

import dataclasses
from typing import TYPE_CHECKING

from asap.base.errors import UserError
from asap.base.spec import Task, TaskSet
from asap.config.schema import Config
from asap.envs.resolve import another, canonical
from asap.policy.policy import ASAPPolicy
from asap.runs.directory import print_note

if TYPE_CHECKING:
    from asap.model.model import ASAP


def task_of(tasks: TaskSet, name: str | None) -> Task:
    """The task of that name; none given means the first."""
    wanted = None if name is None else canonical(name)
    for task in tasks.tasks:
        if wanted in (None, task.name):
            return task
    cure = f"choose from {', '.join(tasks.names)}"
    raise UserError("task", "the model was not made for it", repr(name), cure)


def on_task(model: "ASAP", name: str) -> "ASAP":
    """The same policies, which are told the numbers of this task on the scale of the family."""
    name = canonical(name)
    if name in model.tasks.names:
        task = task_of(model.tasks, name)
    else:
        task, notes = another(model.tasks, name)
        for note in notes:
            print_note(note)
    alone = type(model).of(
        of_one_task(model.config, task, model.policy), TaskSet((task,), (1.0,)), workers=model._workers
    )
    alone._index, alone._unsaid = model._index, model._unsaid
    alone._hold(model.policies, None, model.num_episodes, model.num_timesteps)
    return alone


def of_one_task(config: Config, task: Task, policy: ASAPPolicy) -> Config:
    """Features stay what they are: what `auto` means depends on how many tasks there are."""
    run = dataclasses.replace(config.run, tasks=(task.name,), weights=(1.0,))
    own = dataclasses.replace(config.policy, task_features=policy.psi.task)
    return dataclasses.replace(config, run=run, policy=own)
