"""What a policy does with an observation: NumPy on the host, where a compiled function costs more to call than to
compute."""

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.keys import host_generator
from asap.base.spec import TaskSet
from asap.policy.build import plan_of
from asap.policy.host import Player
from asap.policy.policy import NO_SKILL, ASAPPolicy

_PREDICT, _OTHER_ROWS = 6, 12  # Streams of the seed's draws on the host.
_COUNTING = threading.Lock()  # Of all predictors, because a model can be copied.


class Predictor:
    """One policy, for the program of a user."""

    def __init__(self, tasks: TaskSet, policy: ASAPPolicy, seed: int):
        self._tasks, self._policy, first = tasks, policy, tasks.tasks[0]
        self._read, self._act, self._shape = first.reader(), first.actor(), first.observation_shape
        self._size, self._is_alone = len(tasks.spec.observation_names), tasks.size == 1 and not first.drawn
        self._player = Player(plan_of(policy, self._size, tasks.descriptors))
        self._generator, self._seed, self._calls = host_generator(seed, _PREDICT), seed, 0

    def __getstate__(self) -> tuple:
        """For copies and other processes: what the functions of an environment's spaces are made of, not they."""
        return self._tasks, self._policy, self._seed, self._generator, self._calls

    def __setstate__(self, state: tuple) -> None:
        tasks, policy, seed, generator, calls = state
        self.__init__(tasks, policy, seed)
        self._generator, self._calls = generator, calls  # Draws go on where they were.

    def predict(
        self,
        obs: ArrayLike | Mapping[str, Any],
        state: ArrayLike | None,
        episode_start: ArrayLike | None,
        deterministic: bool,
        task: str | None,
    ) -> tuple[Any, Any]:
        index = 0 if task is None and self._is_alone else self._task(task)
        if state is None and getattr(obs, "shape", None) == self._shape:  # The usual call, without detours.
            skill, action = self._player.act(self._read(obs), NO_SKILL, deterministic, self._generator, index)
            return self._act(action), np.int64(skill)
        return self._predict_rows(obs, state, episode_start, bool(deterministic), index)

    def _predict_rows(self, obs: Any, state, episode_start, deterministic: bool, task: int) -> tuple[Any, Any]:
        is_vector_of_parts = isinstance(self._shape, Mapping) and not isinstance(obs, Mapping)
        stacked = _rows(obs, (self._size,) if is_vector_of_parts else self._shape)
        is_batch = stacked is not None
        count = len(stacked) if is_batch else 1
        # Of no observations at all, the actions still have a shape.
        rows = [self._read(row) for row in (stacked if is_batch else [obs])] or [np.zeros(self._size, np.float32)]
        previous = checked_state(state, episode_start, (count,) if is_batch else (), self._policy.num_skills)
        before = np.append(np.atleast_1d(previous), NO_SKILL)
        # The first of many draws as it would alone, and what comes after the call does not depend on the others.
        with _COUNTING:
            self._calls += not deterministic
            call = self._calls
        generators = [self._generator, *[host_generator(self._seed, _OTHER_ROWS, call)] * (len(rows) - 1)]
        chosen = [
            self._player.act(row, int(skill), deterministic, generator, task)
            for row, skill, generator in zip(rows, before, generators)
        ]
        actions, skills = [self._act(action) for _, action in chosen], [np.int64(skill) for skill, _ in chosen]
        return (np.stack(actions)[:count], np.asarray(skills)[:count]) if is_batch else (actions[0], skills[0])

    def _task(self, name: str | None) -> int:
        """It need not be named where the policy does not look at it."""
        names = self._tasks.names
        if name in names and not self._tasks.tasks[names.index(name)].drawn:
            return names.index(name)
        if name in (None, *names) and {self._policy.psi.task, self._policy.phi.task} == {"none"}:
            return 0 if name is None else names.index(name)
        if self._tasks.has_ranges and name in (None, *names):
            drawn = dict.fromkeys(one.name for task in self._tasks.tasks for one in task.drawn if one.spread)
            cure = f"say them: model.on_task('NAME?{'&'.join(f'{one}=NUMBER' for one in drawn)}').predict(...)"
            raise UserError("task", "which one is played? Episodes draw numbers of it", repr(name), cure)
        what = "which one is played?" if name is None else "the model was not made for it"
        raise UserError("task", what, repr(name), f"choose from {', '.join(names)}")


def _rows(obs: Any, shape: Any) -> list[Any] | None:
    """The observations in a stack of several; None for a single one, or for what the reader refuses."""
    if isinstance(obs, Mapping) != isinstance(shape, Mapping):
        return None
    if isinstance(obs, Mapping):
        parts = {key: _rows(part, shape[key]) if key in shape else None for key, part in obs.items()}
        if None in parts.values() or len(set(map(len, parts.values()))) != 1:
            return None
        return [dict(zip(parts, row)) for row in zip(*parts.values())]
    try:
        found = np.shape(obs)
    except ValueError:  # Rows of different lengths.
        return None
    return list(obs) if len(found) == len(shape) + 1 and found[1:] == shape else None


def checked_state(
    state: ArrayLike | None, episode_start: ArrayLike | None, shape: tuple[int, ...], num_skills: int
) -> Int[np.ndarray, "*n"]:
    """The previous skills, NO_SKILL where an episode starts."""
    if state is None:
        return np.full(shape, NO_SKILL, np.int32)
    skills = np.asarray(state)
    if skills.dtype.kind not in "iu" or skills.shape != shape:
        what, got = f"must hold integers of shape {shape}", f"{skills.dtype}{list(skills.shape)}"
        raise UserError("state", what, got, "give back what predict returned, or None")
    if (skills < NO_SKILL).any() or (skills >= num_skills).any():
        what = f"must be skills below {num_skills}, or -1 for none"
        raise UserError("state", what, skills.tolist(), "give what predict returned")
    skills = skills.astype(np.int32)
    if episode_start is None:
        return skills
    starts = np.asarray(episode_start, bool)
    if starts.size != skills.size:  # stable-baselines3 gives (1,) with a single observation, too.
        raise UserError("episode_start", f"must have shape {shape}", starts.shape, "give one flag per observation")
    return np.where(starts.reshape(shape), np.int32(NO_SKILL), skills)
