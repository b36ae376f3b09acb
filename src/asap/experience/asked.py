"""Episodes of a user's function, which is asked for every action. It sees what the environment gives, and says what that takes."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces

from asap.base.episodes import COLLECTION, EpisodeId, Played
from asap.base.errors import UserError, message_of
from asap.base.spec import ControlUnits, TaskSet
from asap.data.layout import BEHAVIOUR, layout_of
from asap.envs.gymnasium.checked_env import CheckedEnv
from asap.envs.gymnasium.errors import EnvError, explained, show
from asap.envs.gymnasium.make import EnvSource
from asap.envs.gymnasium.spaces import Action, number_of
from asap.envs.gymnasium.task import HostedTask
from asap.experience.behaviours import AskedFunction
from asap.experience.episode_logs import Columns, of_played
from asap.policy.policy import NO_SKILL

ROUND = 16  # Episodes: a function may be slow, and rounds are what the progress bar sees.


class Overheard(gymnasium.Wrapper):
    """Keeps the last observation as the environment gave it, which is what others than our policies want."""

    last: Any = None

    def reset(self, **options: Any) -> Any:
        answer = super().reset(**options)
        self.last = answer[0]
        return answer

    def step(self, action: Any) -> Any:
        answer = super().step(action)
        self.last = answer[0]
        return answer


class Answer(NamedTuple):
    """What a function said."""

    action: Action  # In our units.
    log_prob: float | None  # As it was told.


def asked_rounds(
    tasks: TaskSet, hosted: HostedTask, behaviour: AskedFunction, num_episodes: int, seed: int
) -> Iterator[Columns]:
    """Episodes 0 to `num_episodes` - 1 of this seed; `hosted` is the task as an environment."""
    made: list[Overheard] = []

    def build() -> Overheard:
        made.append(Overheard(hosted.source.build()))
        return made[-1]

    with contextlib.closing(CheckedEnv(EnvSource(hosted.source.base, {}, build), hosted.limits)) as env:
        for first in range(0, num_episodes, ROUND):
            ids = [EpisodeId(seed, COLLECTION, n) for n in range(first, min(first + ROUND, num_episodes))]
            played, log_probs = zip(*(_episode(env, made[-1], hosted, behaviour, one) for one in ids))
            columns = of_played(played, tasks, first)
            columns |= {"action": layout_of(tasks.tasks[0]).logged(columns["action"])}
            known = np.concatenate(log_probs)
            yield columns if np.isnan(known).any() else columns | {BEHAVIOUR: known.astype(np.float32)}


def _episode(
    env: CheckedEnv, seen: Overheard, task: HostedTask, behaviour: AskedFunction, episode: EpisodeId
) -> tuple[Played, np.ndarray]:
    """With the logarithms of the probabilities; NaN where none was told."""
    answers, rewards, ended = [], [], False
    try:
        observations = [env.reset(episode)]
        while not ended:
            answers.append(answered(behaviour, seen.last, task))
            x, reward, ended = env.step(answers[-1].action)
            observations.append(x)
            rewards.append(reward)
    except EnvError as error:
        cure = f"see what it does at random: asap check {task.name}"
        raise explained(error, f"episode {episode.number}", episode.reset_seed, cure) from error
    actions = np.asarray([one.action for one in answers], np.float32 if task.spec.continuous else np.int32)
    skills = np.full(len(rewards), NO_SKILL, np.int32)
    steps = np.stack(observations), skills, actions, np.asarray(rewards, np.float32)
    log_probs = np.asarray([math.nan if one.log_prob is None else one.log_prob for one in answers])
    return Played(episode, *steps, env.terminated, env.success, env.take_notes()), log_probs


def answered(behaviour: AskedFunction, observation: Any, task: HostedTask) -> Answer:
    """What the function says to an observation, checked."""
    space, log_prob = task.action_space, None
    try:
        action = behaviour.function(observation)
    except Exception as error:
        what = f"{behaviour.name} raised {type(error).__name__}: {message_of(error)}"
        raise UserError("--policy", what, cure="give a function of one observation") from error
    if isinstance(action, tuple) and len(action) == 2 and not isinstance(space, spaces.Tuple):
        action, told = action
        log_prob = float(told) if isinstance(told, int | float | np.number | np.ndarray) else math.nan
        if not math.isfinite(log_prob):
            what = f"{behaviour.name} gives a log-probability that is no finite number"
            raise UserError("--policy", what, show(told), "give (action, log_prob), or the action alone")
    try:
        if not isinstance(space, spaces.Box):
            return Answer(number_of(space, action), log_prob)
        given, units = np.asarray(action), ControlUnits.of(space)
        if given.size != np.prod(space.shape) or given.dtype.kind not in "biuf" or not np.isfinite(given).all():
            raise ValueError
        return Answer(units.ours(given.astype(float).ravel()), log_prob)
    except ValueError:
        what = f"{behaviour.name} gives an action that is not in {space}"
        raise UserError("--policy", what, show(action), "return what env.step takes") from None
