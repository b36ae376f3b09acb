"""Tiny environments, well-behaved and otherwise, as strangers write them. Workers import them too."""

import os
import signal
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

BAD_STEP = 7  # Where trouble begins, counted from 1.
LENGTH = 12


class Walk(gymnasium.Env):
    """A random walk that actions push forward. It behaves well; `spoil` is for those that do not."""

    observation_space: spaces.Space = spaces.Box(-100, 100, (3,))
    action_space: spaces.Space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.time, self.position = 0, 0.0
        return self.observe(), {}

    def step(self, action: Any):
        self.time += 1
        self.position += self.np_random.normal() + float(action)
        ended = self.time >= LENGTH
        answer = self.observe(), self.position, ended, False, {"success": ended}
        return self.spoil(answer) if self.time == BAD_STEP else answer

    def observe(self) -> Any:
        return np.array([self.time, self.position, 1], np.float32)

    def spoil(self, answer: Any) -> Any:
        return answer


class OwnFloat(float):
    def __mul__(self, other: Any) -> Any:
        return "a product"


def spoiled(mode: str) -> Walk:
    """An environment whose answer to step 7 is odd: one of its five values, or the whole of it."""
    change = SPOILED[mode]

    class Spoiled(Walk):
        def spoil(self, answer: Any) -> Any:
            return change(answer)

    return Spoiled()


def _with(index: int, value: Any):
    return lambda answer: (*answer[:index], value, *answer[index + 1 :])


def _raise(error: BaseException):
    def change(answer: Any) -> Any:
        raise error

    return change


SPOILED = {
    "nan_obs": _with(0, np.array([1, np.nan, 1], np.float32)),
    "inf_obs": _with(0, np.array([1, 1, -np.inf], np.float32)),
    "huge_obs": _with(0, np.array([1e300, 1, 1])),
    "nan_reward": _with(1, float("nan")),
    "inf_reward": _with(1, float("inf")),
    "minus_inf_reward": _with(1, np.float32("-inf")),
    "none_reward": _with(1, None),
    "text_reward": _with(1, "1.0"),
    "array_reward": _with(1, np.array([1.0])),
    "complex_reward": _with(1, 1j),
    "reward_1e300": _with(1, 1e300),
    "reward_1e30": _with(1, 1e30),
    "reward_int": _with(1, 3),
    "float16_obs": _with(0, np.array([1, 2, 3], np.float16)),
    "reward_own": _with(1, OwnFloat(3.0)),
    "reward_float32": _with(1, np.float32(3)),
    "reward_0d": _with(1, np.array(3.0)),
    "shape_obs": _with(0, np.zeros(4, np.float32)),
    "scalar_obs": _with(0, np.float32(3)),
    "number_obs": _with(0, 3.0),
    "none_obs": _with(0, None),
    "object_obs": _with(0, np.array([1, None, 2], object)),
    "text_obs": _with(0, np.array(["1", "2", "3"])),
    "complex_obs": _with(0, np.zeros(3, complex)),
    "ragged_obs": _with(0, [1, [2, 3]]),
    "int_obs": _with(0, np.array([1, 2, 3])),
    "float64_obs": _with(0, np.array([1.0, 2.0, 3.0])),
    "list_obs": _with(0, [1.0, 2.0, 3.0]),
    "outside_obs": _with(0, np.array([1, 2, 1000], np.float32)),
    "terminated_numpy": _with(2, np.bool_(True)),
    "terminated_int": _with(2, 1),
    "terminated_0d": _with(2, np.array(True)),
    "terminated_array": _with(2, np.array([True, False])),
    "terminated_text": _with(2, "yes"),
    "terminated_none": _with(2, None),
    "truncated_2": _with(3, 2),
    "four_values": lambda answer: (answer[0], answer[1], answer[2], answer[4]),
    "no_tuple": lambda answer: answer[0],
    "raises": _raise(RuntimeError("simulator gone\nfor good")),
    "exits": _raise(SystemExit(3)),
    "no_info": _with(4, None),
    "is_success": lambda answer: (*answer[:2], True, False, {"is_success": np.bool_(False), "success": True}),
}


class OldReset(Walk):
    """Gym's reset of old: an observation and no more."""

    def reset(self, **arguments: Any):
        return super().reset(**arguments)[0]


class ResetRaises(Walk):
    """`reset` raises `times` times, then goes well."""

    def __init__(self, times: int):
        self.left = times

    def reset(self, **arguments: Any):
        self.left -= 1
        if self.left >= 0:
            raise ConnectionError("no answer")
        return super().reset(**arguments)


class NanAtReset(Walk):
    def observe(self):
        return np.array([np.nan, 0, 0], np.float32)


class OneBuffer(Walk):
    """Writes all its observations into the same array."""

    def __init__(self):
        self.buffer = np.zeros(3, np.float32)

    def observe(self):
        self.buffer[:] = super().observe()
        return self.buffer


class Changing(Walk):
    """Another space from its third episode on."""

    def __init__(self, field: str):
        self.field, self.resets = field, 0

    def reset(self, **arguments: Any):
        self.resets += 1
        if self.resets == 2:  # A space that is equal is no change.
            self.action_space = spaces.Discrete(2)
        if self.resets == 3:
            setattr(self, self.field, spaces.Discrete(3) if self.field == "action_space" else spaces.Box(-1, 1, (3,)))
        return super().reset(**arguments)


class Endless(Walk):
    def step(self, action: Any):
        return self.observe(), 1.0, False, False, {}


class Rude(Walk):
    """Prints, installs handlers, goes elsewhere: at reset or in a step."""

    def __init__(self, when: str):
        self.when = when
        if when == "make":
            self.misbehave()

    def reset(self, **arguments: Any):
        if self.when == "reset":
            self.misbehave()
        return super().reset(**arguments)

    def spoil(self, answer: Any):
        if self.when == "step":
            self.misbehave()
        return answer

    def misbehave(self) -> None:
        print("hello from the simulator\n" * 1000)
        signal.signal(signal.SIGTERM, lambda *_: None)
        os.chdir("/")


class CannotClose(Walk):
    def close(self) -> None:
        raise OSError("already gone")


class Spaces(Walk):
    """Any spaces; observations and rewards tell what was done."""

    def __init__(
        self, observation_space: spaces.Space = Walk.observation_space, action_space: spaces.Space = Walk.action_space
    ):
        self.observation_space, self.action_space = observation_space, action_space
        self.observation_space.seed(0)

    def reset(self, **arguments: Any):
        gymnasium.Env.reset(self, **arguments)
        return self.observation_space.sample(), {}

    def step(self, action: Any):
        assert self.action_space.contains(action), action
        self.last_action = action
        return self.observation_space.sample(), 1.0, False, False, {}


class Unseeded(Walk):
    """Draws from a generator that nobody seeded."""

    def step(self, action: Any):
        self.np_random = np.random.default_rng()
        return super().step(action)


class Flickering(Walk):
    """Only its observations are not deterministic."""

    def step(self, action: Any):
        _, _, *rest = super().step(action)
        return np.random.default_rng().random(3, np.float32), 1.0, *rest


class Picky(Walk):
    """Fails after one reset seed, and after no other."""

    def __init__(self, seed: int):
        self.bad_seed = seed

    def reset(self, *, seed: int, **arguments: Any):
        self.is_bad = seed == self.bad_seed
        return super().reset(seed=seed, **arguments)

    def spoil(self, answer: Any):
        return "nothing" if self.is_bad else answer


class Leaking(Walk):
    """Every episode begins with more than the last."""

    def __init__(self):
        self.episodes = 0

    def reset(self, **arguments: Any):
        observation, info = super().reset(**arguments)
        self.position = float(self.episodes)
        self.episodes += 1
        return self.observe(), info


class Named(Walk):
    observation_names = ("time", "place", "one")
    metadata = {"action_names": ["back", "forth"]}


class Tanks(gymnasium.Env):
    """Two levels to be kept at 5 by a pump and a valve: observations of several parts, actions of several choices."""

    observation_space = spaces.Dict(
        [
            ("tank", spaces.Box(0, 10, (2,))),
            ("hour", spaces.Box(0, 1, ())),
            ("arm", spaces.Dict(joint=spaces.Box(-1, 1, (1,)), grip=spaces.MultiBinary(2))),
            ("mode", spaces.Discrete(3, start=1)),
        ]
    )
    action_space = spaces.MultiDiscrete([3, 2], start=[-1, 0])
    action_names = (("drain", "hold", "fill"), ("closed", "open"))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None):
        super().reset(seed=seed)
        self.time, self.levels = 0, self.np_random.uniform(0, 10, 2).astype(np.float32)
        return self.observe(), {}

    def step(self, action: Any):
        assert self.action_space.contains(action) and action.dtype == np.int64, action
        self.time += 1
        self.levels = np.clip(self.levels + [action[0], 2 * action[1] - 1], 0, 10).astype(np.float32)
        return self.observe(), -float(np.abs(self.levels - 5).sum()), False, self.time == LENGTH, {}

    def observe(self) -> Any:
        arm = {"joint": np.zeros(1, np.float32), "grip": np.ones(2, np.int8)}
        return {"tank": self.levels, "hour": np.float32(self.time / 24), "arm": arm, "mode": 1 + self.time % 3}


class Sides(Walk):
    """One point a step for the right side: go where x is positive, which is 3 times in 4. Nothing depends on y."""

    observation_space = spaces.Box(np.float32([-1, -1]), np.float32([3, 1]))
    observation_names, action_names = ("x", "y"), ("stay", "go")

    def step(self, action: Any):
        self.time += 1
        reward = self.worth(action)
        return self.observe(), reward, False, self.time == LENGTH, {}

    def observe(self) -> Any:
        self.place = self.np_random.uniform([-1, -1], [3, 1]).astype(np.float32)
        return self.place

    def worth(self, action: Any) -> float:
        return float(action == (self.place[0] > 0))


class Follows(Sides):
    """The force that is x/2 costs nothing, any other its distance."""

    action_space = spaces.Box(-2, 2, (1,))
    action_names = ("force",)

    def worth(self, action: Any) -> float:
        return -float(abs(action[0] - self.place[0] / 2))


class Misnamed(Walk):
    observation_names = ("time", "time", "one")
    action_names = ("back", "stay", "forth")


class OddlyTold(Walk):
    """What it says of itself, apart from its spaces, can be anything."""

    def __init__(self, **told: Any):
        self.spec = gymnasium.envs.registration.EnvSpec("Odd-v0", "own_envs:Walk")
        for name, value in told.items():
            setattr(self.spec if hasattr(self.spec, name) else self, name, value)


class NotAnEnv: ...


def fails_to_start() -> Walk:
    raise OSError("port 6000\nis taken")


def walk(**_: Any) -> Walk:
    return Walk()


def normalized() -> gymnasium.Env:
    return gymnasium.wrappers.NormalizeObservation(Walk())


gymnasium.register("Walk-v0", entry_point="own_envs:Walk", max_episode_steps=10)
