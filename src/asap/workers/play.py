"""Playing chunks of episodes, one after the other, each in the environment of its task."""

from collections.abc import Callable
from functools import partial

import numpy as np

from asap.base.episodes import EpisodeId, Played
from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
from asap.envs.gymnasium.make import HostedSource
from asap.policy.host import Player
from asap.workers.work import MAKING, Failed, Finished, Work


def nobody_watches(*place: int) -> None: ...


class Environments:
    """Those of a worker, by their task: each is made when it is first asked for, and kept."""

    def __init__(self, sources: tuple[HostedSource, ...]):
        self._sources = sources
        self._made: dict[int, CheckedEnv] = {}

    def of_task(self, task: int, watch: Callable[[int], None] = nobody_watches) -> CheckedEnv:
        if task not in self._made:
            watch(MAKING)
            self._made[task] = CheckedEnv(*self._sources[task])
        return self._made[task]

    def close(self) -> None:
        for env in self._made.values():
            env.close()


def play_chunk(environments: Environments, work: Work, watch: Callable[[int, int], None] = nobody_watches) -> Finished:
    """All episodes of a chunk, or those before the first failure.

    `watch` is told each step before it is played: the index of the episode within the chunk, and the step. The reset is
    step 0, and `MAKING` is before it, where the environment has to be made.
    """
    player, played = Player(work.plan), []
    for index, episode in enumerate(work.episodes):
        try:
            played.append(play_episode(environments, player, episode, work.deterministic, partial(watch, index)))
        except EnvError as trouble:
            return Finished(work.number, tuple(played), Failed(episode, **trouble.report()))
    return Finished(work.number, tuple(played))


def play_episode(
    environments: Environments,
    player: Player,
    episode: EpisodeId,
    deterministic: bool,
    watch: Callable[[int], None] = nobody_watches,
) -> Played:
    """One episode from its reset to its end; CheckedEnv sees to it that there is one."""
    env = environments.of_task(episode.task, watch)
    player.begin(episode.choices(), deterministic, episode.task)
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
    is_discrete = isinstance(actions[0], int)
    return Played(
        episode,
        np.stack(observations),
        np.asarray(skills, np.int32),
        np.asarray(actions, np.int32 if is_discrete else np.float32),
        np.asarray(rewards, np.float32),
        env.terminated,
        env.success,
        env.take_notes(),
    )
