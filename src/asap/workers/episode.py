"""One episode, played step by step."""

from collections.abc import Callable

import numpy as np

from asap.base.episodes import EpisodeId, Played
from asap.envs.gymnasium.checked_env import CheckedEnv
from asap.policy.host import Player


def nobody_watches(*place: int) -> None: ...


def play_episode(
    env: CheckedEnv,
    player: Player,
    episode: EpisodeId,
    deterministic: bool,
    watch: Callable[[int], None] = nobody_watches,
) -> Played:
    """From its reset to its end; CheckedEnv sees to it that there is one. `watch` gets each step before it is played."""
    player.begin(episode.choices(), deterministic, episode.task, episode)
    watch(0)
    x = env.reset(episode)
    observations, skills, actions, rewards = [x], [], [], []
    choose, play, num_steps, ended = player.choose, env.step, 0, False  # Looked up once: this loop is the hot one.
    while not ended:
        skill, action = choose(x)
        num_steps += 1
        watch(num_steps)
        x, reward, ended = play(action)
        observations.append(x)
        skills.append(skill)
        actions.append(action)
        rewards.append(reward)
    actions = np.asarray(actions, np.int32 if isinstance(actions[0], int) else np.float32)
    # `np.stack` takes longer than all the checks.
    seen = np.concatenate(observations).reshape(num_steps + 1, -1)
    steps = seen, np.asarray(skills, np.int32), actions, np.asarray(rewards, np.float32)
    return Played(episode, *steps, env.terminated, env.success, env.take_notes())
