"""The worker's side: work comes in through a connection, its episodes are played and go out."""

import platform
import socket
from collections.abc import Callable
from functools import partial

import numpy as np

import asap
from asap.base.episodes import EpisodeId
from asap.base.errors import UserError
from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
from asap.envs.gymnasium.make import HostedSource
from asap.envs.gymnasium.vector_form import Unsuited, VectorForm
from asap.policy.host import Player
from asap.policy.lanes import suits
from asap.workers.episode import nobody_watches, play_episode
from asap.workers.lanes import play_side_by_side
from asap.workers.messages import PREFIX, Hello, Message, Ready, Refused, decode, encode, frame_size
from asap.workers.vector_check import FEWEST, checked_form
from asap.workers.work import MAKING, Failed, Finished, SharedProgress, Work


class Environments:
    """Those of a worker, by their task: each is made when it is first asked for, and kept."""

    def __init__(self, sources: tuple[HostedSource, ...]):
        self._sources = sources
        self._made: dict[int, CheckedEnv] = {}
        self._forms: dict[int, VectorForm | None] = {}

    def of_episode(self, episode: EpisodeId, watch: Callable[[int], None] = nobody_watches) -> CheckedEnv:
        """That of its task; where episodes draw parameters, one with the episode's own, made anew."""
        source = self._sources[episode.task]
        if not source.source.named.has_ranges:
            return self.of_task(episode.task, watch)
        watch(MAKING)
        if (before := self._made.pop(episode.task, None)) is not None:
            before.close()
        self._made[episode.task] = CheckedEnv(source.source.of_episode(episode), source.limits)
        return self._made[episode.task]

    def of_task(self, task: int, watch: Callable[[int], None] = nobody_watches) -> CheckedEnv:
        if task not in self._made:
            watch(MAKING)
            self._made[task] = CheckedEnv(*self._sources[task])
        return self._made[task]

    def vector_form(self, task: int, watch: Callable[[int], None] = nobody_watches) -> VectorForm | None:
        """Where it is to be trusted, which is found out when it is first asked for."""
        if task not in self._forms:
            watch(MAKING)
            try:
                self._forms[task] = checked_form(self._sources[task])
            except Unsuited:
                self._forms[task] = None
        return self._forms[task]

    def do_without_form(self, task: int) -> None:
        """From now on."""
        form = self._forms[task]
        if form is not None:
            form.close()
        self._forms[task] = None

    def close(self) -> None:
        for env in (*self._made.values(), *filter(None, self._forms.values())):
            env.close()


def play_chunk(environments: Environments, work: Work, watch: Callable[[int, int], None]) -> Finished:
    """All episodes of a chunk, or those before the first failure.

    `watch` gets each step before it is played: the index of the episode within the chunk, and the step. The reset is
    step 0, and `MAKING` is before it, where the environment has to be made.
    """
    player, played = Player(work.plan), []
    together = _play_together(environments, player, work, watch)
    if together is not None:
        return together
    for index, episode in enumerate(work.episodes):
        watch_step = partial(watch, index)
        try:
            env = environments.of_episode(episode, watch_step)
            played.append(play_episode(env, player, episode, work.deterministic, watch_step))
        except EnvError as error:
            return Finished(work.number, tuple(played), Failed(episode, **error.report()))
    return Finished(work.number, tuple(played))


def _play_together(
    environments: Environments, player: Player, work: Work, watch: Callable[[int, int], None]
) -> Finished | None:
    """The chunk side by side; None where its episodes are to be played one by one."""
    tasks = {episode.task for episode in work.episodes}
    task = min(tasks)
    if len(work.episodes) < FEWEST or len(tasks) > 1 or not suits(player.policy_of(task), player):
        return None
    form = environments.vector_form(task, partial(watch, 0))
    if form is None:
        return None
    try:
        return play_side_by_side(form, player, work, watch)
    except Unsuited:  # Played one by one, the chunk says what is odd.
        environments.do_without_form(task)
        return None


def serve(connection: socket.socket, progress: SharedProgress) -> None:
    """Plays what comes, until a goodbye. Errors of our own end the worker, with their traceback in its output."""
    hello = _receive(connection)
    assert isinstance(hello, Hello), hello
    environments = Environments(hello.sources)
    try:
        environments.of_task(0)  # A broken one is found at the start.
        connection.sendall(encode(Ready(versions())))
        while isinstance(work := _receive(connection), Work):
            progress.begin(work.number)
            connection.sendall(encode(play_chunk(environments, work, progress.note)))
    except UserError as error:
        connection.sendall(encode(Refused(str(error), error.exit_code)))
    environments.close()


def versions() -> dict[str, str]:
    """Of all that the bits of an episode depend on and that we know of."""
    import gymnasium

    packages = {module.__name__: module.__version__ for module in (asap, np, gymnasium)}
    return {"python": platform.python_version(), **packages}


def _receive(connection: socket.socket) -> Message:
    """The next message, waited for."""
    prefix = _read(connection, PREFIX.size)
    return decode(prefix + _read(connection, frame_size(prefix) - PREFIX.size))


def _read(connection: socket.socket, size: int) -> bytearray:
    buffer, begin = bytearray(size), 0
    while begin < size:
        count = connection.recv_into(memoryview(buffer)[begin:])
        if count == 0:
            raise EOFError("the driver hung up")
        begin += count
    return buffer
