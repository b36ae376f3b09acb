"""A JAX environment as one of Gymnasium: for what plays on the host, such as `asap check` and distillation."""

from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

from asap.base.arrays import compiled
from asap.base.keys import fold, root
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.jax_native.interface import JaxSource
from asap.envs.jax_native.task import describe


class HostedJaxEnv(gymnasium.Env):
    """One environment whose steps are programs; Gymnasium's own time limit is not needed: it has one."""

    metadata: dict[str, Any] = {"render_modes": []}

    def __init__(self, found: JaxSource, name: str):
        task = describe(found, EnvSource(name), EnvLimits())
        assert task.env is not None
        dynamics = self._dynamics = task.env.dynamics
        self.observation_space, self.action_space = dynamics.observation_space, dynamics.action_space
        self.observation_names, self.action_names = task.spec.observation_names, task.spec.action_names
        self._max_episode_steps = task.spec.horizon
        self._reset = compiled(lambda key: dynamics.reset(key, {}))
        self._step = compiled(lambda key, inner, action: dynamics.step(key, inner, action, {}))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._key, self._elapsed = root(int(self.np_random.integers(2**62))), 0
        observation, self._inner = self._reset(fold(self._key, 0))
        return self._read(observation), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._elapsed += 1
        kind = jax.dtypes.canonicalize_dtype(self.action_space.dtype)
        played = self._step(fold(self._key, self._elapsed), self._inner, jnp.asarray(action, kind))
        observation, self._inner, reward, *ends, info = played
        terminated, *truncated = (bool(np.asarray(end).reshape(())) for end in ends)
        is_over = self._elapsed >= self._max_episode_steps
        told = {key: np.asarray(value) for key, value in info.items()} if isinstance(info, dict) else {}
        reward, terminated = float(np.asarray(reward).reshape(())), terminated and not self._is_cut()
        return self._read(observation), reward, terminated, is_over or any(truncated), told

    def _is_cut(self) -> bool:
        """Its own limit, which could not be lifted, is reached."""
        return self._dynamics.limit is not None and self._elapsed >= self._dynamics.limit

    def _read(self, observation: Any) -> Any:
        space = self.observation_space
        if isinstance(space, gymnasium.spaces.Discrete):
            return int(observation)
        return np.asarray(observation, space.dtype).reshape(space.shape)
