"""Fuzzing target of environments: what `reset` and `step` return or raise, and what an environment says of itself.

An input is a script in JSON. {"odd": NAME} stands for an object that JSON has no form for, {"raise": NAME} for an
exception in place of an answer.
"""

import copy
import datetime
import decimal
import fractions
import json
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from fuzz_mutations import VALUES, changed_tree
from fuzz_watch import Target, Wrong
from gymnasium import spaces

from asap.base.errors import UserError
from asap.envs.gymnasium.checked_env import CheckedEnv
from asap.envs.gymnasium.errors import EnvError, explained
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.task import describe

OBSERVATIONS = {
    "box": spaces.Box(-10, 10, (3,)),
    "box64": spaces.Box(-np.inf, np.inf, (2, 2), np.float64),
    "whole": spaces.Box(0, 255, (3,), np.uint8),
    "discrete": spaces.Discrete(5, start=-2),
    "multi": spaces.MultiDiscrete([2, 3]),
    "binary": spaces.MultiBinary(3),
}
ACTIONS = {"discrete": spaces.Discrete(3), "box": spaces.Box(-2, 2, (2,)), "whole": spaces.Box(0, 7, (1,), np.int32)}
GOOD = {"box": [1.0, 2.0, 3.0], "box64": [[0.0, 1.0], [2.0, 3.0]], "whole": [0, 1, 255], "discrete": 1}
GOOD |= {"multi": [1, 2], "binary": [0, 1, 1]}


class Rude:
    """An object of which nothing can be asked."""

    def _refuse(self, *arguments: Any) -> Any:
        raise ValueError("ask\nnothing")

    __repr__ = __str__ = __bool__ = __len__ = __float__ = __index__ = __array__ = __iter__ = __eq__ = _refuse
    __hash__ = object.__hash__


class RudeDict(dict):
    def get(self, *arguments: Any) -> Any:
        raise KeyError("a dict that gives nothing")


class RudeFloat(float):
    def __mul__(self, other: Any) -> Any:
        return "product"

    def __repr__(self) -> str:
        raise ValueError("no repr")


class RudeError(Exception):
    def __str__(self) -> str:
        raise ValueError("no message")


class Answer(NamedTuple):
    observation: Any
    reward: Any
    terminated: Any
    truncated: Any
    info: Any


ODD = {
    "rude": Rude,
    "rude dict": lambda: RudeDict(success=1),
    "rude float": lambda: RudeFloat(1),
    "ragged": lambda: [[1.0, 2.0], [3.0]],
    "array": lambda: np.ones(3, np.float32),
    "arrays": lambda: np.ones((2, 2)),
    "reversed": lambda: np.arange(6.0)[::-2],
    "big endian": lambda: np.ones(3, ">f4"),
    "half": lambda: np.ones(3, np.float16),
    "long": lambda: np.full(3, 1e4000 if np.finfo(np.longdouble).max > 1e308 else 1.0, np.longdouble),
    "nan": lambda: np.array([np.nan, 1, 1], np.float32),
    "large": lambda: np.full(3, 1e300),
    "complex": lambda: np.ones(3, complex),
    "objects": lambda: np.array([1, None, "x"], object),
    "text": lambda: np.array(["a", "b", "c"]),
    "dates": lambda: np.array(["2024-01-01"] * 3, "M8[D]"),
    "records": lambda: np.zeros(3, "f4,i4"),
    "masked": lambda: np.ma.masked_array([1.0, 2.0, 3.0], [True, False, False]),
    "matrix": lambda: np.arange(3, dtype=np.uint64) + np.uint64(2**63),
    "no numbers": lambda: np.zeros(0, np.float32),
    "scalar": lambda: np.float64(1.5),
    "zero d": lambda: np.array(1.0),
    "zero d flag": lambda: np.array(True),
    "zero d text": lambda: np.array("x"),
    "zero d nan": lambda: np.array(np.nan),
    "bool": lambda: np.bool_(True),
    "small": lambda: np.int8(1),
    "decimal": lambda: decimal.Decimal("1.5"),
    "signalling": lambda: decimal.Decimal("sNaN"),
    "fraction": lambda: fractions.Fraction(1, 3),
    "huge fraction": lambda: fractions.Fraction(10**5000, 1),
    "huge": lambda: 10**5000,
    "bytes": lambda: b"\1\2\3",
    "set": lambda: {1, 2, 3},
    "generator": lambda: (i for i in range(3)),
    "date": lambda: datetime.date(2024, 1, 1),
    "class": lambda: float,
    "deep": lambda: _deep(5000),
    "itself": lambda: _itself(),
}
RAISED = {
    "error": lambda: ValueError("two\nlines"),
    "silent": RuntimeError,
    "rude": RudeError,
    "huge": lambda: ValueError("x" * 100_000),
    "exit": lambda: SystemExit("left"),
    "stop": StopIteration,
    "pipe": lambda: BrokenPipeError(32, "gone"),
    "memory": MemoryError,
    "recursion": RecursionError,
    "group": lambda: ExceptionGroup("several", [ValueError("a"), RudeError()]),
    "surrogate": lambda: ValueError("\ud800 \x1b[0m \0"),
}
ATTRIBUTES = ("observation_names", "action_names", "metadata", "reward_threshold", "max_episode_steps", "render_mode")
ODD_VALUES = [*VALUES, *({"odd": name} for name in ODD for _ in range(2)), *({"raise": name} for name in RAISED)]


def _deep(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def _itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def _seeds(folder: Path) -> list[dict[str, Any]]:
    found = []
    for kind, good in GOOD.items():
        answers = [[good, 1.0, False, False, {}], [good, -0.5, True, False, {"success": True, "is_success": None}]]
        rules = {"max_steps": 4, "strict_obs": kind == "box", "reward_scale": 1.0}
        found += [
            {"observation": kind, "action": action, "reset": [good, {}], "steps": answers, "rules": rules, "told": {}}
            for action in ACTIONS
        ]
    return found


def _changed(rng: Random, script: dict[str, Any]) -> dict[str, Any]:
    """The names of spaces and the limits stay: those are not the environment's."""
    if rng.random() < 0.1:
        return script | {"told": script["told"] | {rng.choice(ATTRIBUTES): rng.choice(ODD_VALUES)}}
    part = rng.choice(["reset", "steps", "steps", "steps"])
    return script | {part: changed_tree(rng, script[part], ODD_VALUES)}


def _made(value: Any) -> Any:
    """The value that a part of a script stands for."""
    match value:
        case {"odd": str() as name} if name in ODD:
            return ODD[name]()
        case {"raise": str() as name} if name in RAISED:
            raise RAISED[name]()
        case dict():
            return {key: _made(part) for key, part in value.items()}
        case list():
            return [_made(part) for part in value]
    return value


class ScriptedEnv(gymnasium.Env):
    """Answers by a script, over and over."""

    def __init__(self, script: dict[str, Any]):
        self.script, self.place = script, 0
        self.observation_space, self.action_space = OBSERVATIONS[script["observation"]], ACTIONS[script["action"]]
        for name, value in script["told"].items():
            if name in ("reward_threshold", "max_episode_steps"):
                self.spec = copy.deepcopy(gymnasium.spec("CartPole-v1"))
                setattr(self.spec, name, _made(value))
            else:
                setattr(self, name, _made(value))

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.place = 0
        answer = _made(self.script["reset"])
        return tuple(answer) if isinstance(answer, list) else answer

    def step(self, action: Any) -> Any:
        if action not in self.action_space:
            raise AssertionError(f"{action!r} is not in {self.action_space}")
        steps = self.script["steps"]
        self.place += 1
        answer = _made(steps[(self.place - 1) % len(steps)] if isinstance(steps, list) and steps else steps)
        if isinstance(answer, list):
            return Answer(*answer) if len(answer) == 5 and self.place == 2 else tuple(answer)
        return answer


def _play(data: bytes, folder: Path) -> None:
    script = json.loads(data)
    source = EnvSource.of(lambda: ScriptedEnv(script))
    task = describe(source, EnvLimits(**script["rules"]))
    if task.threshold is not None and not np.isfinite(task.threshold) or type(task.spec.horizon) is not int:
        raise Wrong(f"threshold {task.threshold!r}, horizon {task.spec.horizon!r}")
    env, generator = CheckedEnv(source, EnvLimits(**script["rules"])), np.random.default_rng(0)
    trouble: EnvError | None = None
    size = env.start(0).shape if _starts(env) else None
    try:
        _require_vector(env.start(0), size)
        ended, steps = False, 0
        while not ended:
            x, reward, ended = env.step(env.sample(generator))
            steps += 1
            _require_vector(x, size)
            if type(ended) is not bool or not np.isfinite(np.float32(reward)):
                raise Wrong(f"reward {reward!r} or ended {ended!r}")
        if steps > 4:
            raise Wrong(f"an episode of {steps} steps, more than there may be")
        if type(env.terminated) is not bool or env.success not in (None, True, False):
            raise Wrong(f"terminated {env.terminated!r}, success {env.success!r}")
    except EnvError as error:
        trouble = error
    if any(len(note.splitlines()) != 1 for note in env.take_notes()):
        raise Wrong("a note is not one line")
    env.close()
    if trouble is not None:
        json.dumps(trouble.report())
        raise explained(trouble, "episode 0", 0, "look")


def _starts(env: CheckedEnv) -> bool:
    try:
        env.start(0)
    except EnvError:
        return False
    return True


def _require_vector(x: Any, size: Any) -> None:
    if type(x) is not np.ndarray or x.dtype != np.float32 or x.shape != size or not np.isfinite(x).all():
        raise Wrong(f"an observation that is no vector of finite float32: {x!r:.200}")


TARGETS = (
    Target("environment", _seeds, _changed, lambda script: json.dumps(script).encode(), _play, (UserError,), raw=0.0),
)
