"""Tasks by name: ours, environments of Gymnasium, or the user's own; and which of them can share a policy."""

import functools
import json
import math
from collections.abc import Iterable
from typing import Any

from asap.base.errors import UserError
from asap.base.spec import Task, TaskSet
from asap.config.schema import Config, EnvConfig
from asap.config.settings import Values, override
from asap.envs import catalog
from asap.envs.gymnasium.make import EnvLimits, EnvSource, require_env
from asap.envs.gymnasium.registration import is_defined_here
from asap.envs.gymnasium.task import EnvTask, HostedTask, describe, described_env, seen_from
from asap.envs.jax_native import task as jax_native
from asap.envs.jax_native.interface import JaxSource


def resolve(name: str, env: EnvConfig = EnvConfig()) -> Task:
    """A task of `asap tasks`, an id of Gymnasium, 'gymnax:NAME', or what an importable 'module:function' makes."""
    return catalog.find(name) if is_ours(name) else _described(name, env)


def is_ours(name: str) -> bool:
    """One of our names, or more likely a slip in one than anything else."""
    import gymnasium

    if name in catalog.NAMES:
        return True
    is_other = ":" in name or name in gymnasium.registry or is_defined_here(name)
    return not is_other and bool(catalog.nearest(name))


@functools.lru_cache(maxsize=16)
def _described(name: str, env: EnvConfig) -> EnvTask:
    return described(EnvSource(name, options_of(env)), limits_of(env))


def described(source: EnvSource, limits: EnvLimits) -> EnvTask:
    """Makes the environment once, to look at it: what it is decides who plays it."""

    def look(made: Any) -> EnvTask:
        found = JaxSource.of(made)
        if found is not None:
            return jax_native.describe(found, source, limits)
        return described_env(require_env(made, source.name), source, limits)

    return seen_from(source, look)


def live_task(origin: Any, settings: Values) -> EnvTask | None:
    """An environment of this process, or a function that makes one, held to what the settings say; None for a name."""
    if isinstance(origin, str):
        return None
    env = override(Config(), settings).env
    return described(EnvSource.of(origin, options_of(env)), limits_of(env))


def hosted_task(origin: Any, settings: Values) -> HostedTask:
    """As an environment of Gymnasium, whatever it is: our own tasks are registered there."""
    env = override(Config(), settings).env
    if isinstance(origin, str) and is_ours(origin):
        origin = catalog.find(origin).gymnasium_id
    return describe(EnvSource.of(origin, options_of(env)), limits_of(env))


def task_set(config: Config, tasks: tuple[Task, ...]) -> TaskSet:
    """mu over the tasks of a config; tasks that can't share a policy are refused."""
    if any(isinstance(task, EnvTask) for task in tasks) and len(tasks) > 1:
        names = " ".join(task.name for task in tasks)
        raise UserError("task", "a Gymnasium environment is trained alone", names, "name one")
    catalog.require_alike([task for task in tasks if isinstance(task, catalog.CompiledTask)])
    return TaskSet(tasks, config.run.weights)


def notes_on(tasks: Iterable[Task]) -> list[str]:
    """What the user should know about environments before they are learned."""
    return [note for task in tasks if isinstance(task, EnvTask) for note in task.notes]


def limits_of(env: EnvConfig) -> EnvLimits:
    return EnvLimits(env.max_steps, env.strict_obs, env.reward_scale, env.retries)


def options_of(env: EnvConfig) -> dict:
    if env.options is None:
        return {}
    cure = """write --set env.options='{"gravity": 9.8}'"""
    try:
        options = json.loads(env.options)
    except (ValueError, RecursionError):
        raise UserError("env.options", "is not JSON", env.options[:80], cure) from None
    if not isinstance(options, dict):
        raise UserError("env.options", "must be a JSON object", env.options[:80], cure)
    return options


def parse_tasks(texts: list[str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """NAME or NAME:WEIGHT; of an environment the name may have a colon in it, and there is no weight."""
    names, weights = [], []
    for text in texts:
        name, colon, weight = text.partition(":")
        if name not in catalog.NAMES:
            start, _, last = text.rpartition(":")  # The end of `CartPole-v1:2` is neither a module's nor an id's.
            if start and last.replace(".", "").isdecimal():
                what = "a Gymnasium environment is trained alone and has no weight"
                raise UserError("task", what, text, f"write {start}")
            name, colon = text, ""
        try:
            weights.append(float(weight) if colon else 1.0)
        except ValueError:
            raise UserError("task", "a weight must be a number", text, f"write {name}:0.5") from None
        if not 0 < weights[-1] < math.inf:
            raise UserError("task", "a weight must be finite and > 0", text, f"write {name}:0.5")
        if name in names:
            raise UserError("task", "is given twice", name, "name each task once")
        names.append(name)
    return tuple(names), tuple(weights)
