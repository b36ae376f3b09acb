"""Tasks that a run or a saved model names: what is recorded about them, and whether the user made the file.

A file of the user's own may name anything. In a stranger's, our tasks and ids of Gymnasium's own are made, with harmless
options. Any other environment is known by its record alone, for words and pictures, until the user names it in the call.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from asap.base import trust
from asap.base.errors import UserError
from asap.base.spec import Task, TaskSet
from asap.config.schema import Config, EnvConfig
from asap.config.settings import shown
from asap.envs import catalog
from asap.envs.gymnasium.make import EnvSource, place_of
from asap.envs.gymnasium.restored import restore
from asap.envs.gymnasium.task import EnvTask, require_fit
from asap.envs.jax_native.task import of_record
from asap.envs.resolve import described, family, is_ours, limits_of, options_of, resolve

Notice = Callable[[str], None]
Record = dict[str, Any]


class SaidEnv(NamedTuple):
    """The environment that the user names in this call, whatever a file says."""

    env: Any = None  # As in ASAP(env); None where none is named.
    options: dict[str, Any] | None = None

    @classmethod
    def of(cls, env: str | None, options: str | None) -> "SaidEnv":
        """From the command line."""
        if options is not None and env is None:
            raise UserError("--env-options", "need --env, the environment they belong to", options, "give --env too")
        return cls(env, None if options is None else options_of(EnvConfig(options=options)))


def names_in(config: Config, records: Sequence[Record | None]) -> dict[str, Any]:
    """All that decides what is imported, called or opened."""
    in_records = [[record.get("name"), record.get("options")] for record in records if record is not None]
    every = {str(name) for name in (*config.run.tasks, *(name for name, _ in in_records))}
    return {
        "tasks": list(config.run.tasks),
        "options": config.env.options,
        "records": in_records,
        "data": config.offline.data,
        "source": config.run.source,
        "places": [[name, place_of(name)] for name in sorted(every) if ":" in name],
    }


def task_records(config: Config, tasks: TaskSet) -> dict[str, Any]:
    """What a run or a saved model keeps of its tasks, under the user's tag; none where the names are a stranger's."""
    records = [task.record() for task in tasks.tasks]
    is_stranger = any(isinstance(task, EnvTask) and task.source.named_by for task in tasks.tasks)
    return {"tasks": records, "tag": None if is_stranger else trust.tag(names_in(config, records))}


def tasks_in_file(
    path: str | os.PathLike, config: Config, saved: dict[str, Any], said: SaidEnv, notice: Notice
) -> tuple[Config, tuple[Task, ...], bool]:
    """The settings of a file with its tasks, and whether the user made it. `saved` is what `task_records` gave."""
    records, is_own = _records_in(saved, config), is_own_file(saved, config)
    if said.env is not None:
        tasks = _replaced(said, config, records, notice)
        of_tasks = {"tasks": tuple(task.name for task in tasks)}
        of_tasks |= {"weights": ()} if len(tasks) < len(config.run.tasks) else {}
        config = dataclasses.replace(config, run=dataclasses.replace(config.run, **of_tasks))
        return _with_options(config, said.options), tasks, is_own
    pairs = zip(config.run.tasks, records or (None,) * len(config.run.tasks), strict=True)
    if is_own:
        found = tuple(resolve(name, config.env) if r is None else _restored(r) for name, r in pairs)
        return config, family(found), is_own
    tasks = family(tuple(_of_stranger(os.fspath(path), name, record, config.env, notice) for name, record in pairs))
    if config.env.options is None:
        return config, tasks, is_own
    used = tasks[0].source.options if isinstance(tasks[0], EnvTask) and not tasks[0].source.named_by else None
    return _with_options(config, used), tasks, is_own


def _with_options(config: Config, options: dict[str, Any] | None) -> Config:
    text = json.dumps(options) if options else None
    return dataclasses.replace(config, env=dataclasses.replace(config.env, options=text))


def is_own_file(saved: dict[str, Any], config: Config) -> bool:
    tag = saved.get("tag")
    return tag is not None and trust.is_own(names_in(config, _records_in(saved, config)), tag)


def _records_in(saved: dict[str, Any], config: Config) -> tuple[Record | None, ...]:
    """One per task, None for ours; nothing at all in files of earlier releases."""
    records, count = saved.get("tasks"), len(config.run.tasks)
    if records is None:
        return ()
    if not isinstance(records, list) or len(records) != count or not all(isinstance(r, dict | None) for r in records):
        raise UserError("tasks", f"must be {count} records", shown(records), "restore the file that holds them")
    return tuple(records)


def _restored(record: Record) -> EnvTask:
    """The task of a record: nothing is imported or made."""
    task = restore(record)
    return of_record(task, record.get("params")) if record.get("compiled") is True else task


def recorded_alone(path: str, name: str, record: Record, env: EnvConfig) -> Task:
    """A task that only a file tells of, and that nobody is to make: enough to learn from what was logged of it."""
    if record.get("name") != name:
        raise UserError(
            "offline.data", "its task and its record have other names", shown(record.get("name")), "name the task"
        )
    return _of_stranger(path, name, record, env, lambda text: None)


def _of_stranger(path: str, name: str, record: Record | None, env: EnvConfig, notice: Notice) -> Task:
    """Without making any environment that the user has not named, or recorded."""
    if record is None and is_ours(name):
        return resolve(name, env)
    recorded = None if record is None else _restored(record)
    named = EnvSource(name, options_of(env)) if recorded is None else recorded.source
    source = named.by_stranger(path)
    unused = {key: value for key, value in named.options.items() if key not in source.options}
    if unused and not source.named_by:
        notice(f"env.options: not used, because {path} may be a stranger's: {shown(unused)}")
    return described(source, limits_of(env)) if recorded is None else dataclasses.replace(recorded, source=source)


def _replaced(said: SaidEnv, config: Config, records: tuple[Record | None, ...], notice: Notice) -> tuple[Task, ...]:
    """The environment that the user names in this call, in place of the recorded one, whose options are shown.

    Of a family, each with the parameters of the one whose place it takes.
    """
    every = tuple(_restored(record) for record in records if record is not None)
    recorded = every[0] if every else None
    if recorded is None and config.run.tasks and config.run.tasks[0] in catalog.NAMES:
        raise UserError("env", "the model was made for built-in tasks", repr(said.env)[:80], "leave it out")
    unused = options_of(config.env) if recorded is None else recorded.source.options
    if unused and said.options is None:
        notice(f"env.options: not used, because env is given: {shown(unused)}; give them too if they are wanted")
    limits = limits_of(config.env) if recorded is None else recorded.limits
    source, given = EnvSource.of(said.env, said.options), []
    for task in every or (None,):
        parameters = () if task is None else task.source.named.parameters
        own = source._replace(name=source.named.with_parameters(parameters).text)
        given.append(described(own, limits))
        if task is not None:
            require_fit(given[-1], task, notice)
    return family(tuple(given))
