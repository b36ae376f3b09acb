"""JAX environments with other parameters, and which of them share a policy: all are lanes of one program.

Names, words and scales are those of `asap.envs.gymnasium.family`. What differs between the tasks is not in the environment that is
compiled, but in the numbers that each task carries into it. So parameters must be numbers, and the environment the same.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np

from asap.base.errors import UserError
from asap.base.spec import base_of
from asap.envs.gymnasium.family import axes_of, placed, require_alike
from asap.envs.gymnasium.parameters import FIELD, named
from asap.envs.jax_native.env import JaxEnv
from asap.envs.jax_native.interface import LIMITS, known_numbers
from asap.envs.jax_native.task import JaxTask


def joined(tasks: Sequence[JaxTask]) -> tuple[JaxTask, ...]:
    """The tasks of a run, each with its numbers; those that can't share a policy are refused."""
    tasks = named_apart(tasks)
    for task in tasks[1:]:
        require_alike(tasks[0], task)
        require_same_code(tasks[0], task)
    return tuple(in_family(task, tasks) for task in tasks)


def in_family(task: JaxTask, family: Sequence[JaxTask]) -> JaxTask:
    """The task with its numbers on the scale of a family."""
    axes = axes_of(family)
    found = placed(task, axes, family)
    values = {axis.name: axis.within(task).low for axis in axes}
    env = None if task.env is None else JaxEnv(found.spec, task.env.dynamics, axes)
    return dataclasses.replace(found, env=env, axes=axes, task=values)


def named_apart(tasks: Sequence[JaxTask]) -> tuple[JaxTask, ...]:
    """Environments of this process have one name, whatever their parameters: where these differ, they are put behind it."""
    bases = [base_of(task.name) for task in tasks]
    if len(tasks) == 1 or len({task.name for task in tasks}) == len(tasks) or any(task.env is None for task in tasks):
        return tuple(tasks)
    every = [known_numbers(task.env.dynamics.params) for task in tasks]
    if any(task.params is None for task in tasks) or len({*map(tuple, every)}) > 1:
        what = "parameters that differ in more than numbers make other environments"
        raise UserError("tasks", what, " ".join(dict.fromkeys(bases)), "train them apart")
    differing = [name for name in every[0] if len({float(own[name]) for own in every}) > 1 and name not in LIMITS]
    found = []
    for base, task, own in zip(bases, tasks, every):
        name = named(base, {each: float(np.asarray(own[each])) for each in differing})
        found.append(dataclasses.replace(task, name=name, source=task.source._replace(name=name)))
    if len({task.name for task in found}) < len(found):
        raise UserError("task", "is given twice", found[0].name[:200], "give each other parameters")
    return tuple(found)


def require_same_code(first: JaxTask, other: JaxTask) -> None:
    """One program plays all of them."""
    is_same = base_of(first.name) == base_of(other.name)
    if first.env is not None and other.env is not None:
        is_same = type(first.env.dynamics.env) is type(other.env.dynamics.env)
    if not is_same:
        what = (
            f"'{first.name}' and '{other.name}' are different code, and one program plays all JAX environments of a run"
        )
        raise UserError(FIELD, what, f"{first.name} {other.name}", "train them apart")
