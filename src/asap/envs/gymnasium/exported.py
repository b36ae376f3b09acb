"""Our named tasks as Gymnasium environments, one or many at once: one jitted call per step."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Float, Int

from asap.base.keys import Key, fold
from asap.base.spec import Spec
from asap.base.types import State
from asap.envs.catalog import CompiledTask, find
from asap.envs.core import CompiledTasks, Episode, advance, begin
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

    def begin_one(key: Key, start: State | None) -> tuple[RunningEpisode, Float[Array, "O"]]:
        state = env.reset(fold(key, 0), task) if start is None else start
        return RunningEpisode(key, jnp.int32(0), state), env.observe(state, task)

    def step(running: RunningEpisode, action: Int[Array, ""]) -> tuple[RunningEpisode, Float[Array, "R"]]:
        elapsed = running.elapsed + 1
        after = env.step(fold(running.key, elapsed), running.state, action, task)
        # The outcome travels in the observation's array: each array that crosses to the host costs microseconds.
        outcome = jnp.stack([after.reward, after.terminated, after.success, view.status(after.state)])
        return RunningEpisode(running.key, elapsed, after.state), jnp.append(env.observe(after.state, task), outcome)

    return jax.jit(begin_one), jax.jit(step)


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


class RunningBatch(NamedTuple):
    """Episodes under way, one per environment. The batch is the last axis, as everywhere in the library."""

    key: Key  # Of the `reset`; draws are folded with the environment's index, then with the step and their purpose.
    elapsed: Int[Array, ""]
    episodes: Episode


@functools.cache
def _compile_vector(name: str, num_envs: int, max_episode_steps: int) -> tuple[Callable, Callable]:
    """`reset` and `step` of a batch, shared by all batches of that task, size and time limit.

    A step reports observations (of the new episode where one ended), final observations, and (5, N) reward, terminated,
    truncated, success and status. The batch is the first axis of observations, as Gymnasium wants it.
    """
    named = find(name)
    env, tasks = named.env, CompiledTasks.of(named.env, {name: named.task})
    lanes, view = jnp.arange(num_envs), view_of(named)

    def observe(episodes: Episode) -> Float[Array, "N O"]:
        return jax.vmap(lambda state: env.observe(state, named.task), -1)(episodes.state)

    def begin_all(key: Key, start: State | None) -> tuple[RunningBatch, Float[Array, "N O"]]:
        def one(lane: Int[Array, ""]) -> Episode:
            episode = begin(tasks, fold(fold(key, lane), 0, 1), fold(fold(key, lane), 0, 2))
            return episode if start is None else episode._replace(state=start)

        batch = RunningBatch(key, jnp.int32(0), jax.vmap(one, out_axes=-1)(lanes))
        return batch, observe(batch.episodes)

    def step(batch: RunningBatch, actions: Int[Array, "N"]) -> tuple[RunningBatch, tuple[Array, ...]]:
        elapsed = batch.elapsed + 1

        def one(lane: Int[Array, ""], episode: Episode, action: Int[Array, ""]):
            noise, reset, task = (fold(fold(batch.key, lane), elapsed, purpose) for purpose in range(3))
            return advance(tasks, env.noise(noise), reset, task, episode, action, max_episode_steps)

        episodes, outcome = jax.vmap(one, in_axes=-1, out_axes=-1)(lanes, batch.episodes, actions)
        status = jnp.broadcast_to(view.status(outcome.next_state), lanes.shape)
        summary = jnp.stack([outcome.reward, outcome.terminated, outcome.truncated, outcome.success, status])
        return RunningBatch(batch.key, elapsed, episodes), (observe(episodes), outcome.next_observation.T, summary)

    return jax.jit(begin_all), jax.jit(step)


class TaskVectorEnv(VectorEnv):
    """`num_envs` environments of a named task, stepped together.

    Autoreset is SAME_STEP: the step that ends an episode returns the first observation of the next one, and the infos
    keep the true last observation as "final_obs" and the last info as "final_info", as `SyncVectorEnv` does it.
    The time limit is kept here, because Gymnasium wraps no TimeLimit around a vector entry point.
    """

    metadata = {**TaskEnv.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self, name: str, num_envs: int = 1, max_episode_steps: int | None = None, render_mode: str | None = None
    ):
        check_render_mode(render_mode)
        self.named = find(name)
        self._view, spec = view_of(self.named), self.named.env.spec
        max_episode_steps = spec.horizon if max_episode_steps is None else max_episode_steps
        if max_episode_steps < 1 or num_envs < 1:
            got = f"max_episode_steps={max_episode_steps}, num_envs={num_envs}"
            raise ValueError(f"max_episode_steps and num_envs: must be at least 1 (got {got})")
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = observation_space(spec)
        self.single_action_space = spaces.Discrete(spec.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._begin, self._step = _compile_vector(name, num_envs, max_episode_steps)
        self._batch: RunningBatch | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins new episodes everywhere. One seed is enough: the environments differ by their index."""
        super().reset(seed=seed)
        self._batch, observation = self._begin(draw_key(self.np_random), start_from(self.named, options))
        return np.array(observation), self._infos()

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if self._batch is None:
            raise ResetNeeded("no episode was started; call reset() before step()")
        self._batch, report = self._step(self._batch, self._check(actions))
        observation, final, (reward, terminated, truncated, success, status) = (np.array(part) for part in report)
        terminated, truncated, infos = terminated > 0, truncated > 0, self._infos()
        ended = terminated | truncated
        if ended.any():
            final_obs = np.full(self.num_envs, None, object)
            for index in np.flatnonzero(ended):
                final_obs[index] = final[index]
            infos |= {"final_obs": final_obs, "_final_obs": ended, "_final_info": ended.copy()}
            infos["final_info"] = self._info_of(ended, success > 0, status.astype(int))
        return observation, reward, terminated, truncated, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        if self.render_mode is None:
            return warn_no_render_mode()
        if self._batch is None:
            raise ResetNeeded("there is nothing to draw yet; call reset() before render()")
        states = jax.tree.map(np.asarray, self._batch.episodes.state)
        one_by_one = (jax.tree.map(lambda leaf: leaf[..., i], states) for i in range(self.num_envs))
        return tuple(self._view.draw(self.named.task, state) for state in one_by_one)

    def _check(self, actions: np.ndarray) -> np.ndarray:
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,):
            raise ValueError(f"actions: one per environment, {self.num_envs} in all (got shape {actions.shape})")
        if actions.dtype.kind not in "iu":
            raise ValueError(f"actions: must be integers (got {actions.dtype})")
        wrong = (actions < 0) | (actions >= self.single_action_space.n)
        if wrong.any():
            raise bad_action(int(actions[wrong][0]), self.named.env.spec)
        return actions.astype(np.int32)

    def _infos(self) -> dict[str, Any]:
        """Every environment is inside an episode, so none has succeeded; what has ended speaks in "final_info"."""
        none, every = np.zeros(self.num_envs, bool), np.ones(self.num_envs, bool)
        return self._info_of(every, none, none.astype(int))

    def _info_of(self, whom: np.ndarray, success: np.ndarray, status: np.ndarray) -> dict[str, Any]:
        """The infos of some environments, each with Gymnasium's mask ("_" before the key) of those it is about."""
        infos = {"success": success & whom, "_success": whom.copy()}
        if self._view.status_names:
            names = np.array(self._view.status_names, object)[status]
            infos |= {"status": np.where(whom, names, None), "_status": whom.copy()}
        return infos
