"""The vector form of an environment: one call steps many episodes side by side.

For some environments Gymnasium's registry has a second entry point, a `VectorEnv` that is written for arrays. It begins
the episodes of all its lanes from one generator. Here a lane begins as the scalar form does: that one is reset with the
seed of the episode, and its state is written into the lane. So an episode stays a function of its seed and its actions.

Nothing is trusted here: `asap.workers.vector_check` plays the same episodes in both forms and compares their bits.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from jaxtyping import Bool, Float, Int

from asap.base.errors import message_of
from asap.envs.gymnasium.checked_env import time_limit
from asap.envs.gymnasium.isolation import Isolated, Surroundings, is_of_a_person
from asap.envs.gymnasium.make import HostedSource
from asap.envs.gymnasium.observations import SUCCESS_KEYS

LANES = 32  # Two cost nearly as much as these, and no batch is much larger.


class Unsuited(Exception):
    """The vector form can't be used, or not any more; in words. The scalar form plays then, and has the last word."""


class Stepped(NamedTuple):
    """What came of a step of every lane."""

    observations: Float[np.ndarray, "L O"]  # The environment's own: to be copied before the next step.
    rewards: Float[np.ndarray, "L"]
    terminated: Bool[np.ndarray, "L"]
    truncated: Bool[np.ndarray, "L"]


class VectorForm:
    """`LANES` copies of an environment. Raises `Unsuited` at whatever is not as it should be."""

    def __init__(self, hosted: HostedSource):
        self.source, self.limits = hosted
        if not self.limits.vector:
            raise Unsuited("it is turned off")
        self._isolated = Isolated()
        with self.kept_apart(), _only_unsuited("making it"):
            if not self.source.has_vector_form():
                raise Unsuited("there is none")
            self._scalar = self._call(self.source.build)
            self._env = self._call(self.source.build_vector, LANES)
            self._vector = self._env.unwrapped
            self._require_same_spaces()
            self._call(self._env.reset, seed=0)
            self._call(self._scalar.reset, seed=0)
            self._state_size = np.size(self._scalar.unwrapped.state)
            self._fresh = self._arrays_of_lanes()
        self.observation_space, self.action_space = self._scalar.observation_space, self._scalar.action_space
        kind, start = self.action_space.dtype, int(self.action_space.start)
        self._actions = (start + np.arange(self.action_space.n)).astype(kind)
        self.time_limit = time_limit(self._scalar, self.limits)

    @contextlib.contextmanager
    def kept_apart(self) -> Iterator[None]:
        """Around all calls: what the environment prints or changes is for the scalar form to tell."""
        before = Surroundings.now()
        self._isolated.hold()
        try:
            yield
        finally:
            self._isolated.release()
            changes, printed = before.restore(), self._isolated.sink.take_line()
        if changes or printed:
            raise Unsuited("it prints, or changes what is of the whole process")

    def begin(self, lane: int, seed: int) -> Float[np.ndarray, "O"]:
        """A new episode in a lane."""
        with _only_unsuited("reset"):
            x, _ = self._call(self._scalar.reset, seed=seed)
            state = np.ravel(self._scalar.unwrapped.state)
            for name, fresh in self._fresh.items():
                array = getattr(self._vector, name)
                if array.shape != fresh.shape:
                    raise Unsuited(f"its {name} changed its shape")
                _lane(array, lane)[...] = state if name == "state" else _lane(fresh, lane)
        return x

    def step(self, actions: Int[np.ndarray, "L"]) -> Stepped:
        try:
            observations, rewards, terminated, truncated, infos = self._call(self._env.step, self._actions[actions])
            is_told = infos and any(key in infos for key in SUCCESS_KEYS)
            shapes = (observations.shape[0], rewards.shape, terminated.shape, truncated.shape)
            kinds = (observations.dtype.kind, rewards.dtype.kind, terminated.dtype.kind, truncated.dtype.kind)
        except BaseException as error:
            raise _unsuited("step", error) from error
        if is_told or shapes != _SHAPES or kinds != _KINDS:
            raise Unsuited("step returned other kinds of arrays than expected")
        return Stepped(observations, rewards, terminated, truncated)

    def close(self) -> None:
        for env in (self._scalar, self._env):
            self._isolated.close(env)

    def _call(self, function: Any, *arguments: Any, **named: Any) -> Any:
        return self._isolated.call(function, *arguments, **named)

    def _require_same_spaces(self) -> None:
        of_one = self._scalar.observation_space, self._scalar.action_space
        if of_one != (self._env.single_observation_space, self._env.single_action_space):
            raise Unsuited("its spaces are others than those of the scalar form")
        is_flat = isinstance(of_one[0], spaces.Box) and len(of_one[0].shape) == 1 and of_one[0].dtype.kind == "f"
        if not is_flat or not isinstance(of_one[1], spaces.Discrete):
            raise Unsuited("only vectors of numbers are observed, and Discrete actions taken, side by side")
        if self._env.metadata.get("autoreset_mode") != AutoresetMode.NEXT_STEP:
            raise Unsuited("it does not say that a lane is reset in the step after its end")

    def _arrays_of_lanes(self) -> dict[str, np.ndarray]:
        """All that it keeps for each lane, as a reset leaves it."""
        own = {name: value for name, value in vars(self._vector).items() if isinstance(value, np.ndarray)}
        found = {name: value.copy() for name, value in own.items() if LANES in (value.shape[-1:] + value.shape[:1])}
        if "state" not in found or _lane(found["state"], 0).shape != (self._state_size,) or self._state_size == LANES:
            raise Unsuited("it has no array `state` with the state of each lane")
        return found


def _lane(array: np.ndarray, lane: int) -> np.ndarray:
    """That of one lane: lanes are the last axis, or else the first."""
    return array[..., lane] if array.shape[-1] == LANES else array[lane]


_SHAPES = (LANES, (LANES,), (LANES,), (LANES,))
_KINDS = ("f", "f", "b", "b")


@contextlib.contextmanager
def _only_unsuited(doing: str) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        raise _unsuited(doing, error) from error


def _unsuited(doing: str, error: BaseException) -> BaseException:
    if isinstance(error, Unsuited) or is_of_a_person(error):
        return error
    return Unsuited(f"{doing} raised {type(error).__name__}: {message_of(error)}"[:200])
