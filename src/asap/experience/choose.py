"""The one place that asks which kind of task it is: from tasks to the experience that plays or reads them."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from asap.base.errors import UserError
from asap.base.spec import Task, TaskSet
from asap.config.defaults import complete
from asap.config.schema import Config
from asap.envs import catalog
from asap.envs.gymnasium.determinism import watch_for_drift
from asap.envs.gymnasium.task import EnvTask, HostedTask, look_at
from asap.envs.jax_native.task import playable
from asap.envs.resolve import hosted_task
from asap.experience.asked import asked_rounds
from asap.experience.behaviours import AskedFunction, LoggedPolicy, WhoPlays, random_play
from asap.experience.compiled import Compiled
from asap.experience.compiled_play import CompiledPlay
from asap.experience.counted_play import CountedPlay, StepCounter
from asap.experience.episode_logs import Columns, compiled_rounds, hosted_rounds
from asap.experience.hosted import Hosted
from asap.experience.hosted_play import HostedPlay
from asap.experience.logged import Logged, Unplayed, open_data
from asap.experience.protocol import Experience
from asap.runs.signals import StopRequest
from asap.workers.hire import IN_PROCESS, hire


def choose(
    config: Config,
    tasks: TaskSet,
    workers: str,
    folder: Path,
    notice: Callable[[str], None],
    learns: bool = True,
    stop: StopRequest | None = None,
    record: Callable[[dict[str, Any]], None] | None = None,
) -> Experience:
    """`workers` play hosted environments, and `folder` takes what they print; `notice` shows the user a line, `record`
    takes events of the run. `stop` is looked at while they play, which then raises `Interrupted`.

    Where nothing is learned, logged data are not read: policies are played.
    """
    first, env, stop = tasks.tasks[0], config.env, stop or StopRequest()
    is_logged = config.offline.data is not None and learns
    if is_logged and isinstance(first, EnvTask) and first.source.named_by:
        return Logged(config, tasks, open_data(config, first), Unplayed(tasks))
    if isinstance(first, HostedTask):
        for task in tasks.tasks:
            look_at(task, notice)
        sources, limits = tuple(task.hosted_source for task in tasks.tasks), (env.step_timeout, env.retries)
        dispatcher = hire(workers, sources, folder, notice, *limits, env.on_no_workers, stop.check)
        watch = watch_for_drift(first, notice) if env.check_determinism and learns else None
        player = Hosted(config, tasks, dispatcher, notice, watch, record)
    elif workers != IN_PROCESS:
        raise UserError("--workers", f"{first.name} is compiled and needs none", workers, "leave it out")
    else:
        made = dataclasses.replace(tasks, tasks=tuple(playable(task, notice) for task in tasks.tasks))
        player = Compiled(config, tasks, catalog.compiled(made), stop)
    if not is_logged:
        return player
    return Logged(config, tasks, open_data(config, first), player)


def counted_play(tasks: TaskSet, seeds: Sequence[int], counter: StepCounter) -> CountedPlay:
    """For actors and learners that are not ASAP's own, on any task."""
    first = tasks.tasks[0]
    if isinstance(first, HostedTask):
        if tasks.size > 1 or tasks.has_ranges:
            what = "systems are compared on one environment"
            raise UserError("task", what, " ".join(tasks.names)[:200], "name one, without ranges")
        return HostedPlay(tasks, [task.hosted_source for task in tasks.tasks], seeds, counter)
    return CompiledPlay(catalog.compiled(tasks), seeds, counter)


@contextlib.contextmanager
def logged_rounds(
    task: Task, behaviour: WhoPlays, num_episodes: int, seed: int, folder: Path, notice: Callable[[str], None]
) -> Iterator[Iterator[Columns]]:
    """Episodes of a behaviour, for a dataset; `folder` takes what is left of one that fails."""
    tasks = TaskSet((task,), (1.0,))
    if isinstance(behaviour, AskedFunction):
        yield asked_rounds(tasks, host_form(task), behaviour, num_episodes, seed)
    elif not isinstance(task, HostedTask):
        yield compiled_rounds(task, behaviour, num_episodes, seed)
    else:
        player = choose(complete(Config()), tasks, IN_PROCESS, folder, notice, learns=False)
        with contextlib.closing(player):  # Nobody has written a controller for an environment but random play.
            learned = behaviour if isinstance(behaviour, LoggedPolicy) else random_play(task)
            yield hosted_rounds(player, learned, num_episodes, seed)


def host_form(task: Task) -> HostedTask:
    """The task as an environment that is stepped on the host, whatever it is."""
    return task if isinstance(task, HostedTask) else hosted_task(task.name, {})
