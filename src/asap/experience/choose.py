"""The one place that asks which kind of task it is: from tasks to the experience that plays or reads them."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from asap.base.errors import UserError
from asap.base.spec import Task, TaskSet
from asap.config.schema import Config, complete
from asap.envs import catalog
from asap.envs.controllers import Controller
from asap.envs.gymnasium.determinism import watch_for_drift
from asap.envs.gymnasium.task import HostedTask, look_at
from asap.experience.compiled import Compiled
from asap.experience.episode_logs import Columns, compiled_rounds, hosted_rounds
from asap.experience.hosted import Hosted
from asap.experience.logged import Logged, open_data
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
) -> Experience:
    """`workers` play hosted environments, and `folder` takes what they print; `notice` shows the user a line. `stop`
    is looked at while they play, which then raises `Interrupted`.

    Where nothing is learned, logged data are not read: policies are played.
    """
    player = _player(config, tasks, workers, folder, notice, learns, stop or StopRequest())
    if config.offline.data is None or not learns:
        return player
    return Logged(config, tasks, open_data(config, tasks.tasks[0]), player)


@contextlib.contextmanager
def logged_rounds(
    task: Task, controller: Controller, num_episodes: int, seed: int, folder: Path, notice: Callable[[str], None]
) -> Iterator[Iterator[Columns]]:
    """Episodes of a controller, for a dataset; `folder` takes what is left of one that fails."""
    if not isinstance(task, HostedTask):
        yield compiled_rounds(task, controller, num_episodes, seed)
        return
    tasks = TaskSet((task,), (1.0,))
    player = _player(complete(Config()), tasks, IN_PROCESS, folder, notice, False, StopRequest())
    try:
        yield hosted_rounds(player, num_episodes, seed)
    finally:
        player.close()


def _player(
    config: Config,
    tasks: TaskSet,
    workers: str,
    folder: Path,
    notice: Callable[[str], None],
    learns: bool,
    stop: StopRequest,
) -> Experience:
    first = tasks.tasks[0]
    if isinstance(first, HostedTask):
        env = config.env
        limits = env.step_timeout, env.retries, env.on_no_workers
        for task in tasks.tasks:
            look_at(task, notice)
        sources = tuple(task.hosted_source for task in tasks.tasks)
        dispatcher = hire(workers, sources, folder, notice, *limits, stop.check)
        watch = watch_for_drift(first, notice) if env.check_determinism and learns else None
        return Hosted(config, tasks, dispatcher, notice, watch)
    if workers != IN_PROCESS:
        raise UserError("--workers", f"{first.name} is compiled and needs none", workers, "leave it out")
    named = tuple(zip(tasks.names, tasks.weights, strict=True))
    return Compiled(config, tasks, catalog.task_set(named), stop)
