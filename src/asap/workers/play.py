"""Playing chunks of episodes, one environment, one episode after the other."""

from collections.abc import Callable
from functools import partial

import numpy as np

from asap.base.episodes import EpisodeId, Played
from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
from asap.policy.host import Player
from asap.workers.work import Failed, Finished, Work


def nobody_watches(*place: int) -> None: ...


def play_chunk(border: CheckedEnv, work: Work, watch: Callable[[int, int], None] = nobody_watches) -> Finished:
    """All episodes of a chunk, or those before the first failure.

    `watch` is told each step before it is played: the index of the episode within the chunk, and the step; 0 is the reset.
    """
    player, played = Player(work.plan), []
    for index, episode in enumerate(work.episodes):
        try:
            played.append(play_episode(border, player, episode, work.deterministic, partial(watch, index)))
        except EnvError as trouble:
            return Finished(work.number, tuple(played), Failed(episode, **trouble.report()))
    return Finished(work.number, tuple(played))


def play_episode(
    border: CheckedEnv,
    player: Player,
    episode: EpisodeId,
    deterministic: bool,
    watch: Callable[[int], None] = nobody_watches,
) -> Played:
    """One episode from its reset to its end; the border sees to it that there is one."""
    player.begin(episode.choices(), deterministic)
    watch(0)
    x = border.reset(episode)
    observations, skills, actions, rewards = [x], [], [], []
    ended = False
    while not ended:
        skill, action = player.choose(x)
        watch(len(skills) + 1)
        x, reward, ended = border.step(action)
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
        border.terminated,
        border.success,
        border.take_notes(),
    )
