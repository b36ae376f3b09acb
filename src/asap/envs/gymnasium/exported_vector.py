"""Many environments of a named task in one jitted call, as a Gymnasium vector environment."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from jaxtyping import Array, Float, Int

from asap.base.keys import Key, fold
from asap.base.types import State
from asap.envs.catalog import find
from asap.envs.core import CompiledTasks, Episode, advance, begin
from asap.envs.gymnasium import exported
from asap.envs.render import view_of


class RunningBatch(NamedTuple):
    """Episodes under way, one per environment. The batch is the last axis, as everywhere in the library."""

    key: Key  # Of the `reset`; draws are folded with the environment's index, then with the step and their purpose.
    elapsed: Int[Array, ""]
    episodes: Episode


class StepReport(NamedTuple):
    """What a step tells the host, with the batch as the first axis, as Gymnasium wants it."""

    observation: Float[Array, "N O"]  # Of the new episode where one ended.
    final_observation: Float[Array, "N O"]
    outcome: Float[Array, "5 N"]  # Reward, terminated, truncated, success, status.


@functools.cache
def _compile(name: str, num_envs: int, max_episode_steps: int) -> tuple[Callable, Callable]:
    """`reset` and `step` of a batch, shared by all batches of that task, size and time limit."""
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

    def step(batch: RunningBatch, actions: Int[Array, "N"]) -> tuple[RunningBatch, StepReport]:
        elapsed = batch.elapsed + 1

        def one(lane: Int[Array, ""], episode: Episode, action: Int[Array, ""]):
            noise, reset, task = (fold(fold(batch.key, lane), elapsed, purpose) for purpose in range(3))
            return advance(tasks, env.noise(noise), reset, task, episode, action, max_episode_steps)

        episodes, outcome = jax.vmap(one, in_axes=-1, out_axes=-1)(lanes, batch.episodes, actions)
        status = jnp.broadcast_to(view.status(outcome.next_state), lanes.shape)
        summary = jnp.stack([outcome.reward, outcome.terminated, outcome.truncated, outcome.success, status])
        report = StepReport(observe(episodes), outcome.next_observation.T, summary)
        return RunningBatch(batch.key, elapsed, episodes), report

    return jax.jit(begin_all), jax.jit(step)


class TaskVectorEnv(VectorEnv):
    """`num_envs` environments of a named task, stepped together.

    Autoreset is SAME_STEP: the step that ends an episode returns the first observation of the next one, and the infos
    keep the true last observation as "final_obs" and the last info as "final_info", as `SyncVectorEnv` does it.
    The time limit is kept here, because Gymnasium wraps no TimeLimit around a vector entry point.
    """

    metadata = {**exported.TaskEnv.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self, name: str, num_envs: int = 1, max_episode_steps: int | None = None, render_mode: str | None = None
    ):
        exported.check_render_mode(render_mode)
        self.named = find(name)
        self._view = view_of(self.named)
        spec = self.named.env.spec
        max_episode_steps = spec.horizon if max_episode_steps is None else max_episode_steps
        if max_episode_steps < 1 or num_envs < 1:
            got = f"max_episode_steps={max_episode_steps}, num_envs={num_envs}"
            raise ValueError(f"max_episode_steps and num_envs: must be at least 1 (got {got})")
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = exported.observation_space(spec)
        self.single_action_space = spaces.Discrete(spec.num_actions)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._begin, self._step = _compile(name, num_envs, max_episode_steps)
        self._batch: RunningBatch | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begins new episodes everywhere. One seed is enough: the environments differ by their index."""
        super().reset(seed=seed)
        self._batch, observation = self._begin(
            exported.draw_key(self.np_random), exported.start_from(self.named, options)
        )
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
            final_info = self._info_of(ended, success > 0, status.astype(int))
            infos |= {
                "final_obs": final_obs,
                "_final_obs": ended,
                "final_info": final_info,
                "_final_info": ended.copy(),
            }
        return observation, reward, terminated, truncated, infos

    def render(self) -> tuple[np.ndarray, ...] | None:
        if self.render_mode is None:
            return exported.warn_no_render_mode()
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
            raise exported.bad_action(int(actions[wrong][0]), self.named.env.spec)
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
