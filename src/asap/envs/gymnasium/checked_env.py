"""A user's environment, with everything that comes from it checked here, once."""

import functools
import itertools
from typing import Any

import numpy as np
from gymnasium import spaces
from jaxtyping import Float

from asap.base.episodes import EpisodeId
from asap.base.errors import UserError
from asap.envs.gymnasium.errors import EnvError, raised, show, unreadable
from asap.envs.gymnasium.isolation import Isolated, Surroundings, is_of_a_person
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.observations import LARGEST, entry, flag, number, reading, success, wrong_answer
from asap.envs.gymnasium.spaces import Action, bounds, check_spaces, control, recorded, sample

__all__ = ["DEFAULT_LIMIT", "CheckedEnv", "EnvError", "time_limit"]

DEFAULT_LIMIT = 1000
LARGE = 1e30  # Rewards beyond this are worth a note.
_OF_TIME_LIMIT = "_max_episode_steps"  # Where Gymnasium's TimeLimit has it; it shows in a spec only if there is one.


def time_limit(env: Any, limits: EnvLimits) -> int:
    """After how many steps an episode is truncated."""
    own = env.spec.max_episode_steps if env.spec is not None else None
    if own is None and env.has_wrapper_attr(_OF_TIME_LIMIT):
        own = env.get_wrapper_attr(_OF_TIME_LIMIT)
    if own is not None and (isinstance(own, bool) or not isinstance(own, int | np.integer) or own < 1):
        cure = "give its spec a number, or none"
        raise UserError("env", "max_episode_steps must be an integer from 1", show(own), cure)
    return min((int(limit) for limit in (limits.max_steps, own) if limit is not None), default=DEFAULT_LIMIT)


def cut_note(limit: int) -> str:
    return f"an episode that did not end by itself was cut after {limit} steps (max_steps)"


class Notes:
    """About an environment, each kind of them once. Not part of `CheckedEnv`: a cycle of references through what
    `reading` keeps would leave an abandoned episode's stdout in place until the next garbage collection."""

    def __init__(self) -> None:
        self._kinds, self._new = set(), []

    def add(self, kind: str, note: str) -> None:
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._new.append(note)

    def take(self) -> tuple[str, ...]:
        """What was noted since they were last taken."""
        notes, self._new = tuple(self._new), []
        return notes


class CheckedEnv:
    """One environment, played episode by episode.

    Raises `EnvError` for what the environment does wrong; it can be reset after that. What the environment does that is
    odd but not wrong is noted, each kind of thing once.
    """

    def __init__(self, source: EnvSource, limits: EnvLimits):
        self._limits, self._isolated, notes = limits, Isolated(), Notes()
        self._note, self.take_notes, self._call = notes.add, notes.take, self._isolated.call
        before = Surroundings.now()
        try:
            self._env = self._isolated.run(source.build)
        finally:
            self._tidy(before)
        self._spaces = self._env.observation_space, self._env.action_space
        check_spaces(*self._spaces)
        self._read = reading(self._spaces[0], functools.partial(self._note, "dtype"))
        self._act = control(self._spaces[1])
        self._low, self._high = bounds(self._spaces[0])
        self._limit, self._scale = time_limit(self._env, limits), float(limits.reward_scale)
        is_one_hot = isinstance(self._spaces[0], (spaces.Discrete, spaces.MultiDiscrete))
        self._watches_bounds = not is_one_hot and bool(np.isfinite([self._low, self._high]).any())
        self.terminated, self.success = False, None

    def reset(self, episode: EpisodeId) -> Float[np.ndarray, "O"]:
        return self.start(episode.reset_seed)

    def start(self, seed: int) -> Float[np.ndarray, "O"]:
        """`reset` with the seed that the environment is given."""
        self._elapsed, self._actions, self._sum_of_large = 0, [], 0.0
        self.terminated, self.success = False, None
        self._before = Surroundings.now()
        try:
            x = self._read(self._begin(seed))
            for name, space in zip(("observation_space", "action_space"), self._spaces):
                now = getattr(self._env, name)
                if now is not space and now != space:
                    raise EnvError(f"changed from {space} to {now}", field=name)
        except Exception as error:
            self._tidy(self._before)
            raise unreadable(error).at("env.reset", 0, []) from error.__cause__
        self._tidy(self._before)
        self._isolated.hold()
        self._seen = [x]
        if self._limits.strict_obs:
            self._check_bounds("env.reset")
        return x

    def step(self, action: Action) -> tuple[Float[np.ndarray, "O"], float, bool]:
        theirs = self._act(action)
        self._actions.append(action)
        self._elapsed += 1
        try:
            answer = self._call(self._env.step, theirs)
        except BaseException as error:
            if is_of_a_person(error):
                raise
            raise self._placed(raised(error)) from error
        try:
            x, reward, terminated, truncated, info = self._unpacked(answer)
        except Exception as error:
            raise self._placed(unreadable(error)) from None
        if self._watches_bounds:
            self._seen.append(x)
            if self._limits.strict_obs:
                self._check_bounds("env.step")
        ended = terminated or truncated or self._elapsed >= self._limit
        if ended:
            self._finish(terminated, truncated, info)
        return x, reward, ended

    def sample(self, generator: np.random.Generator) -> Action:
        """An action at random."""
        return sample(self._spaces[1], generator)

    def recorded(self, action: Any) -> Action:
        """An action that comes from a file; ValueError if it is none."""
        return recorded(self._spaces[1], action)

    def close(self) -> None:
        self._isolated.close(self._env)

    def _begin(self, seed: int) -> Any:
        for attempt in itertools.count():
            try:
                answer = self._isolated.run(self._env.reset, seed=seed)
            except BaseException as error:
                if is_of_a_person(error):
                    raise
                trouble = raised(error)
                if attempt >= self._limits.env_retries:
                    raise trouble from error
                continue
            if attempt:
                self._note("reset", f"{trouble.what} in reset; the next attempt succeeded")
            if not (isinstance(answer, tuple) and len(answer) == 2):
                raise EnvError("reset must return (obs, info)", show(answer))
            return answer[0]

    def _unpacked(self, answer: Any) -> tuple[Float[np.ndarray, "O"], float, bool, bool, Any]:
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise wrong_answer(answer)
        observation, reward, terminated, truncated, info = answer
        x = self._read(observation)
        # NumPy's own would warn where the product overflows.
        reward = float(reward) if type(reward) in (float, np.float64) else number(reward)
        if not -LARGE < reward * self._scale < LARGE:
            self._check_large(reward)
        terminated = terminated if type(terminated) is bool else flag("terminated", terminated)
        truncated = truncated if type(truncated) is bool else flag("truncated", truncated)
        return x, reward * self._scale, terminated, truncated, info

    def _check_large(self, reward: float) -> None:
        value, cure = number(reward), "make reward_scale smaller"
        scaled = value * self._scale
        self._sum_of_large += scaled
        if abs(scaled) > LARGEST or abs(self._sum_of_large) > LARGEST:
            raise EnvError(f"reward is {value:g}, and the return more than float32 can hold: {cure}")
        self._note("reward", f"reward is {value:g}: so large a number is not learned from well; {cure}")

    def _finish(self, terminated: bool, truncated: bool, info: Any) -> None:
        self.terminated, self.success = terminated, success(info, functools.partial(self._note, "success"))
        if not (terminated or truncated):
            self._note("max_steps", cut_note(self._limit))
        if self._watches_bounds and self._seen:
            # All observations at once: looked at one by one they would cost more than the rest of the checks.
            outside = self._outside(np.concatenate(self._seen).reshape(len(self._seen), -1))
            if outside:
                self._watches_bounds = False
                self._note("bounds", outside)
        self._tidy(self._before)

    def _outside(self, seen: Float[np.ndarray, "T O"]) -> str:
        """The first number outside of its bounds, in words."""
        outside = (seen < self._low) | (seen > self._high)
        if not outside.any():
            return ""
        t, i = np.unravel_index(outside.argmax(), outside.shape)
        says = f"{self._low[i]:g} to {self._high[i]:g}"
        return f"{entry(self._spaces[0], int(i))} is {seen[t, i]:g}, outside of observation_space, which says {says}"

    def _check_bounds(self, field: str) -> None:
        outside = self._outside(self._seen.pop()[None])
        if outside:
            self._tidy(self._before)
            raise EnvError(outside).at(field, self._elapsed, self._actions)

    def _placed(self, trouble: EnvError) -> EnvError:
        self._tidy(self._before)
        return trouble.at("env.step", self._elapsed, self._actions)

    def _tidy(self, before: Surroundings) -> None:
        self._isolated.release()
        for change in before.restore():
            self._note(change, change)
        printed = self._isolated.sink.take_line()
        if printed:
            self._note("printed", f"the environment prints, for instance '{printed[:80]}'; its output is hidden")
