"""A model on one task of its family, also with parameters that it was never trained on."""

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from asap.base.errors import UserError
from asap.base.spec import Task, TaskSet
from asap.config.schema import Config
from asap.config.sequence import SequenceConfig
from asap.envs.resolve import another, canonical
from asap.policy.policy import ASAPPolicy
from asap.policy.surgery import Planes, with_planes
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
    config = of_one_task(model.config, task, model.policy.psi.task)
    alone = type(model).of(config, TaskSet((task,), (1.0,)), workers=model._workers)
    alone._index, alone._unsaid = model._index, model._unsaid
    policies = policies_on(model.tasks, task, model.policies, model.planes)
    alone._hold(policies, None, model.num_episodes, model.num_timesteps)
    return alone


def as_played(model: "ASAP", name: str | None) -> "ASAP":
    """The model itself; where tasks have planes of their own, as it plays the one that is named, or the last that was learned."""
    if not model.planes or model.tasks.size == 1:
        return model
    return on_task(model, model.tasks.names[len(model.planes) - 1] if name is None else name)


def with_one_policy(model: "ASAP") -> "ASAP":
    """The model itself, for what changes its policy: planes that tasks keep for themselves would be lost."""
    if model.planes and model.tasks.size > 1:
        what = "each task has planes of its own, and one policy is changed"
        cure = f"choose a task in Python: model.on_task('{model.tasks.names[0]}')"
        raise UserError("planes", what, f"{model.tasks.size} tasks", cure)
    return model


def of_one_task(config: Config, task: Task, task_features: str) -> Config:
    """Features stay what they are: what `auto` means depends on how many tasks there are."""
    run = dataclasses.replace(config.run, tasks=(task.name,), weights=(1.0,))
    own = dataclasses.replace(config.policy, task_features=task_features)
    return dataclasses.replace(config, run=run, policy=own, sequence=SequenceConfig())


def policies_on(tasks: TaskSet, task: Task, policies: ASAPPolicy, planes: Sequence[Planes]) -> ASAPPolicy:
    """The policies as they play one task: where tasks have planes of their own, under its planes, or those of the task whose
    numbers are nearest. A task that was not learned yet has those of the last one that was."""
    if not planes:
        return policies
    if task.name in tasks.names:
        index = tasks.names.index(task.name)
        return with_planes(policies, planes[index]) if index < len(planes) else policies
    distances = np.linalg.norm(tasks.descriptors[: len(planes)] - np.float32(task.descriptor), axis=-1)
    nearest = int(distances.argmin())
    print_note(f"{task.name} has no planes of its own: those of {tasks.names[nearest]} are used")
    return with_planes(policies, planes[nearest])
