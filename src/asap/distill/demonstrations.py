"""Episodes in which a teacher says what it would do, whoever plays."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from jaxtyping import Float, Int

from asap.base.episodes import EpisodeId
from asap.base.errors import UserError
from asap.base.spec import ControlUnits
from asap.envs.gymnasium.checked_env import CheckedEnv
from asap.envs.gymnasium.errors import EnvError, explained
from asap.envs.gymnasium.make import EnvSource
from asap.envs.gymnasium.spaces import Action, number_of
from asap.envs.gymnasium.task import HostedTask
from asap.experience.asked import Overheard
from asap.experience.protocol import OnProgress, ignore_progress
from asap.policy.build import plan_of
from asap.policy.host import Player
from asap.policy.policy import ASAPPolicy

Choose = Callable[[Float[np.ndarray, "O"]], Action]


class Demonstration(NamedTuple):
    """One episode."""

    observations: Float[np.ndarray, "T O"]  # As policies see them, without the last.
    actions: Int[np.ndarray, "T"] | Float[np.ndarray, "T A"] | None  # The teacher's, in our units, if it was asked.
    total: float


class Teacher:
    """Any object with `predict(obs, deterministic=True) -> (action, state)`, as the environment has them."""

    def __init__(self, model: Any, task: HostedTask):
        if not callable(getattr(model, "predict", None)):
            cure = "pass an object with predict(obs, deterministic=True) -> (action, state)"
            raise UserError("teacher", "has no predict", type(model).__name__, cure)
        self._model, self._task = model, task

    def action(self, observation: Any) -> Action:
        """In the policy's units."""
        space, cure = self._task.action_space, f"see that it was made for {self._task.name}"
        try:
            action = self._model.predict(observation, deterministic=True)[0]
        except Exception as error:
            raise UserError("teacher", f"predict raised {type(error).__name__}: {error}", cure=cure) from error
        try:
            if not isinstance(space, spaces.Box):
                return number_of(space, action)
            given, units = np.asarray(action), ControlUnits.of(space)
            if given.size != np.prod(space.shape) or given.dtype.kind not in "biuf" or not np.isfinite(given).all():
                raise ValueError
            return units.ours(np.clip(given.astype(float).ravel(), units.low, units.high))
        except ValueError:
            raise UserError("teacher", f"gives an action that is not in {space}", action, cure) from None


class TaughtEnv:
    """The environment with a teacher beside it; counts the steps that are played."""

    def __init__(self, task: HostedTask, model: Any, on_progress: OnProgress = ignore_progress):
        self.task, self._teacher, self._on_progress = task, Teacher(model, task), on_progress
        self._checked = CheckedEnv(EnvSource(task.source.base, {}, self._made), task.limits)
        self.num_steps = self.num_episodes = 0

    def _made(self) -> Overheard:
        self._env = Overheard(self.task.source.build())
        return self._env

    def taught(self, episodes: Sequence[EpisodeId]) -> list[Demonstration]:
        """The teacher plays."""
        return [self._demonstration(episode, None, True) for episode in episodes]

    def watched(self, policy: ASAPPolicy, episodes: Sequence[EpisodeId], asks: bool = True) -> list[Demonstration]:
        """The policy plays, deterministic, and the teacher may be asked what it would do."""
        player = Player(plan_of(policy, len(self.task.inputs)))
        demonstrations = []
        for episode in episodes:
            player.begin(episode.choices(), deterministic=True)
            demonstrations.append(self._demonstration(episode, lambda x: player.choose(x)[1], asks))
        return demonstrations

    def random(self, episodes: Sequence[EpisodeId]) -> list[Demonstration]:
        """Nobody knows what to do."""
        demonstrations = []
        for episode in episodes:
            generator = episode.choices()
            demonstrations.append(self._demonstration(episode, lambda _: self._checked.sample(generator), False))
        return demonstrations

    def close(self) -> None:
        self._checked.close()

    def _demonstration(self, episode: EpisodeId, choose: Choose | None, asks: bool) -> Demonstration:
        """Played by `choose`, or else by the teacher, who is asked then."""
        observations, actions, ended, total = [], [], False, 0.0
        try:
            x = self._checked.reset(episode)
            while not ended:
                advised = self._teacher.action(self._env.last) if asks else None
                observations.append(x)
                actions.append(advised)
                x, reward, ended = self._checked.step(advised if choose is None else choose(x))
                total += reward
        except EnvError as error:
            cure = f"see what it does at random: asap check {self.task.name}"
            if self.task.source.is_local:
                cure = f"the episode begins with env.reset(seed={episode.reset_seed})"
            raise explained(error, f"episode {episode.number}", episode.reset_seed, cure) from error
        self.num_steps += len(observations)
        self.num_episodes += 1
        self._on_progress(self.num_episodes)
        kind = np.float32 if self.task.spec.continuous else np.int32
        return Demonstration(np.stack(observations), np.asarray(actions, kind) if asks else None, total)
