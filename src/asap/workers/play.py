"""The worker's side: work comes in through a connection, its episodes are played one after the other and go out."""

import platform
import socket
from collections.abc import Callable
from functools import partial

import numpy as np

import asap
from asap.base.episodes import EpisodeId, Played
from asap.base.errors import UserError
from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
from asap.envs.gymnasium.make import HostedSource
from asap.policy.host import Player
from asap.workers.messages import PREFIX, Hello, Message, Ready, Refused, decode, encode, frame_size
from asap.workers.work import MAKING, Failed, Finished, SharedProgress, Work


def nobody_watches(*place: int) -> None: ...


class Environments:
    """Those of a worker, by their task: each is made when it is first asked for, and kept."""

    def __init__(self, sources: tuple[HostedSource, ...]):
        self._sources = sources
        self._made: dict[int, CheckedEnv] = {}

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

    def close(self) -> None:
        for env in self._made.values():
            env.close()


def play_chunk(environments: Environments, work: Work, watch: Callable[[int, int], None]) -> Finished:
    """All episodes of a chunk, or those before the first failure.

    `watch` gets each step before it is played: the index of the episode within the chunk, and the step. The reset is
    step 0, and `MAKING` is before it, where the environment has to be made.
    """
    player, played = Player(work.plan), []
    for index, episode in enumerate(work.episodes):
        try:
            played.append(_play_episode(environments, player, episode, work.deterministic, partial(watch, index)))
        except EnvError as error:
            return Finished(work.number, tuple(played), Failed(episode, **error.report()))
    return Finished(work.number, tuple(played))


def _play_episode(
    environments: Environments, player: Player, episode: EpisodeId, deterministic: bool, watch: Callable[[int], None]
) -> Played:
    """One episode from its reset to its end; CheckedEnv sees to it that there is one."""
    env = environments.of_episode(episode, watch)
    player.begin(episode.choices(), deterministic, episode.task, episode)
    watch(0)
    x = env.reset(episode)
    observations, skills, actions, rewards = [x], [], [], []
    ended = False
    while not ended:
        skill, action = player.choose(x)
        watch(len(skills) + 1)
        x, reward, ended = env.step(action)
        observations.append(x)
        skills.append(skill)
        actions.append(action)
        rewards.append(reward)
    actions = np.asarray(actions, np.int32 if isinstance(actions[0], int) else np.float32)
    steps = np.stack(observations), np.asarray(skills, np.int32), actions, np.asarray(rewards, np.float32)
    return Played(episode, *steps, env.terminated, env.success, env.take_notes())


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
