"""Who plays when data are collected, from what the user names."""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from asap.base.arrays import member
from asap.base.errors import UserError, message_of
from asap.base.spec import Task
from asap.envs.controllers import controllers_of, explored, find_controller
from asap.experience.behaviours import AskedFunction, LoggedPolicy, WhoPlays, random_play, require_fit
from asap.model.model import ASAP

FIELD = "--policy"


def behaviour_of(text: str, task: Task, epsilon: float = 0.0) -> tuple[Task, WhoPlays]:
    """Random play, a controller of the task's own, a run or a saved model, or a function; and the task as they see it.

    A trained policy of several tasks sees the numbers by which they differ, so the task gets those of the family.
    """
    found: WhoPlays
    if os.path.exists(text):
        task, found = _learned(text, task)
    elif text == "random" and task.spec.continuous:
        found = random_play(task)
    elif ":" in text and not _is_own(text, task):
        found = AskedFunction(text, _function(text))
        if task.drawn:
            what = "a function does not see what an episode draws"
            raise UserError(FIELD, what, task.name, "give numbers, without ranges")
    else:
        return task, explored(find_controller(task, text), epsilon)
    if epsilon:
        what = "is for a controller of the task's own"
        raise UserError("--epsilon", what, epsilon, f"leave it out: {text} plays as it does")
    return task, found


def _is_own(text: str, task: Task) -> bool:
    kinds = {name.partition(":")[0] for name in controllers_of(task)}
    return text.partition(":")[0] in kinds


def _learned(path: str, task: Task) -> tuple[Task, LoggedPolicy]:
    """The policy of the first seed."""
    model = ASAP.load(path)
    if task.name in model.tasks.names:
        task = model.task(task.name)
    elif model.tasks.tasks[0].descriptor:
        task = model.on_task(task.name).task(None)
    policy = member(model.policies, 0)
    require_fit(model.tasks.spec, task, path)
    return task, LoggedPolicy(os.path.basename(os.path.normpath(path)), jax.tree.map(np.asarray, policy))


def _function(text: str) -> Callable[[Any], Any]:
    """What module:function names: the user says it in this call, so it is imported."""
    module, _, name = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    cure = "give module:function, of a module that can be imported here"
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:
        what = f"cannot be imported: {type(error).__name__}: {message_of(error)}"
        raise UserError(FIELD, what, repr(text)[:80], cure) from error
    if not callable(found):
        raise UserError(FIELD, "is no function", repr(text)[:80], cure)
    return found
