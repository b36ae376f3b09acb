"""Our named tasks as Gymnasium environments: one jitted call per step, around the task's own `env.step`."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from jaxtyping import Array, Float, Int

from asap.base.keys import Key, fold
from asap.base.spec import Spec
from asap.base.types import State
from asap.envs.catalog import CompiledTask, find
from asap.envs.render import view_of


class RunningEpisode(NamedTuple):
    """An episode under way. It stays in JAX's arrays, so that a step converts one array and no more."""

    key: Key  # Of the episode: its start is folded with 0, its t-th step with t.
    elapsed: Int[Array, ""]
    state: State


OUTCOME = 4  # Numbers after the observation in the report of a step: reward, terminated, success, status.


@functools.cache
def _compile(name: str) -> tuple[Callable, Callable]:
    """`reset` and `step` of a task, shared by all its environments."""
    named = find(name)
    env, task, view = named.env, named.task, view_of(named)

    def begin(key: Key, start: State | None) -> tuple[RunningEpisode, Float[Array, "O"]]:
        state = env.reset(fold(key, 0), task) if start is None else start
        return RunningEpisode(key, jnp.int32(0), state), env.observe(state, task)

    def step(running: RunningEpisode, action: Int[Array, ""]) -> tuple[RunningEpisode, Float[Array, "R"]]:
        elapsed = running.elapsed + 1
        after = env.step(fold(running.key, elapsed), running.state, action, task)
        # The outcome travels in the observation's array: each array that crosses to the host costs microseconds.
        outcome = jnp.stack([after.reward, after.terminated, after.success, view.status(after.state)])
        return RunningEpisode(running.key, elapsed, after.state), jnp.append(env.observe(after.state, task), outcome)

    return jax.jit(begin), jax.jit(step)


class TaskEnv(gymnasium.Env):
    """A named task for Gymnasium; the time limit is the registration's, so `truncated` is never set here.

    An episode is a function of one number drawn from `np_random` by `reset`. The option "start" of `reset`, for rooms,
    places the agent: `env.reset(options={"start": (0.2, 0.5)})`. Infos have "success", and in soccer "status".
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}

    def __init__(self, name: str, render_mode: str | None = None):
        check_render_mode(render_mode)
        self.named = find(name)
        self._view, self.render_mode = view_of(self.named), render_mode
        self.observation_space = observation_space(self.named.env.spec)
        self.action_space = spaces.Discrete(self.named.env.spec.num_actions)
        self._begin, self._step = _compile(name)
        self._actions = [jnp.int32(action) for action in range(self.named.env.spec.num_actions)]
        self._running, self._ended = None, True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._running, observation = self._begin(draw_key(self.np_random), start_from(self.named, options))
        self._ended = False
        return np.array(observation), self._info(False, 0)

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if self._ended:
            raise ResetNeeded("the episode has ended or was never started; call reset() before step()")
        self._running, report = self._step(self._running, self._action(action))
        report = np.array(report)
        reward, terminated, success, status = report[-OUTCOME:].tolist()
        self._ended = terminated > 0
        return report[:-OUTCOME], reward, self._ended, False, self._info(success > 0, int(status))

    def render(self) -> np.ndarray | None:
        if self.render_mode is None:
            return warn_no_render_mode()
        if self._running is None:
            raise ResetNeeded("there is nothing to draw yet; call reset() before render()")
        return self._view.draw(self.named.task, self._running.state)

    def _info(self, success: bool, status: int) -> dict[str, Any]:
        names = self._view.status_names
        return {"success": success, "status": names[status]} if names else {"success": success}

    def _action(self, action: Any) -> Int[Array, ""]:
        """The action as an array that JAX has seen before, which saves its conversion."""
        # `contains` also knows arrays of one integer, but takes 8 microseconds: a fifth of a step.
        is_known = isinstance(action, (int, np.integer)) and 0 <= action < len(self._actions)
        if is_known or self.action_space.contains(action):
            return self._actions[int(action)]
        raise bad_action(action, self.named.env.spec)


def observation_space(spec: Spec) -> spaces.Box:
    return spaces.Box(np.float32(spec.observation_low), np.float32(spec.observation_high), dtype=np.float32)


def draw_key(generator: np.random.Generator) -> Key:
    """The root of an episode, or of a batch of them: one 63-bit number."""
    seed = int(generator.integers(2**63))
    return Key(np.uint32(seed >> 32), np.uint32(seed & 0xFFFFFFFF))


def bad_action(action: Any, spec: Spec) -> ValueError:
    names = ", ".join(f"{number} {name}" for number, name in enumerate(spec.action_names))
    return ValueError(f"action: not one of the task's actions (got {action!r}); choose from {names}")


def check_render_mode(render_mode: str | None) -> None:
    if render_mode not in (None, *TaskEnv.metadata["render_modes"]):
        raise ValueError(f"render_mode: unknown (got {render_mode!r}); choose 'rgb_array' or None")


def warn_no_render_mode() -> None:
    gymnasium.logger.warn('render() draws nothing without a mode; make the env with render_mode="rgb_array"')


def start_from(named: CompiledTask, options: dict[str, Any] | None) -> State | None:
    """The state that the options of `reset` ask for; None is the task's own draw."""
    start = view_of(named).start
    known = set() if start is None else {"start"}
    unknown = set(options or {}) - known
    if unknown:
        raise ValueError(f"options: unknown option (got {unknown}); '{named.name}' takes {known or 'none'}")
    return start(options["start"]) if options and start is not None else None
