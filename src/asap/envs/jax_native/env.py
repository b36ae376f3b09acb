"""A JAX environment as one of our families: pure functions that are compiled together with the learner.

Time limit and auto-reset are ours (`envs/core.py`), so that the end of an episode is known for what it is, and the last
observation is the true one.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key
from asap.base.spec import ControlUnits, Spec
from asap.base.types import TaskParameters, Timestep
from asap.envs.core import Env
from asap.envs.gymnasium.family import Axis
from asap.envs.jax_native.interface import with_fields

SUCCESS = ("is_success", "success")  # Of `info`.


class JaxState(NamedTuple):
    """The environment's own state, with what it gave to observe."""

    inner: Any
    observation: Float[Array, "O"]
    elapsed: Int[Array, ""]


@dataclass(frozen=True, eq=False)  # Equal if it is the same: parameters may hold arrays.
class Dynamics:
    """The environment of others, and how its numbers are read."""

    env: Any
    params: Any
    observation_space: Space
    action_space: Space
    kinds: tuple[np.dtype, ...] = ()  # Of the leaves of its state, which `reset_env` may give as plain numbers.
    limit: int | None = None  # A limit of its own that could not be lifted: there `done` means truncated.
    reward_scale: float = 1.0
    tells_success: bool = False

    def reset(self, key: Key, values: dict[str, Array]) -> tuple[Any, Any]:
        """What is observed, and the state."""
        return self.env.reset_env(_words(key), with_fields(self.params, values))

    def step(self, key: Key, inner: Any, action: Array, values: dict[str, Array]) -> tuple:
        return self.env.step_env(_words(key), inner, action, with_fields(self.params, values))


class JaxEnv(Env):
    """Its tasks are numbers, by name, that take the place of those in the environment's parameters."""

    spec: Spec = eqx.field(static=True)
    dynamics: Dynamics = eqx.field(static=True)
    axes: tuple[Axis, ...] = eqx.field(static=True, default=())  # Of a family.

    @property
    def tells_success(self) -> bool:
        return self.dynamics.tells_success

    def reset(self, key: Key, task: TaskParameters) -> JaxState:
        observation, inner = self.dynamics.reset(key, task)
        return JaxState(self._of_kinds(inner), self._vector(observation), jnp.int32(0))

    def noise(self, key: Key) -> Key:
        return key  # The environment draws its numbers itself.

    def transition(self, noise: Key, state: JaxState, action: Array, task: TaskParameters) -> Timestep:
        dynamics = self.dynamics
        observed, inner, reward, *ends, info = dynamics.step(noise, state.inner, self._control(action), task)
        after = JaxState(self._of_kinds(inner), self._vector(observed), state.elapsed + 1)
        terminated, *truncated = map(_flag, ends)
        if dynamics.limit is not None:
            terminated &= after.elapsed < dynamics.limit
        success = _flag(next(info[key] for key in SUCCESS if key in info)) if dynamics.tells_success else terminated
        reward = dynamics.reward_scale * jnp.asarray(reward, jnp.float32).reshape(())
        return Timestep(after, reward, terminated, success, *truncated)

    def observe(self, state: JaxState, task: TaskParameters) -> Float[Array, "O"]:
        return state.observation

    def descriptor(self, task: TaskParameters) -> Float[Array, "Z"]:
        """Numbers by which the tasks of a family differ, each from -1 to 1."""
        scaled = [jnp.asarray(axis.scaled(task[axis.name]), jnp.float32) for axis in self.axes]
        return jnp.stack(scaled) if scaled else jnp.zeros(0)

    def _vector(self, observation: Any) -> Float[Array, "O"]:
        space = self.dynamics.observation_space
        if isinstance(space, spaces.Discrete):
            return (jnp.arange(int(space.start), int(space.start + space.n)) == observation).astype(jnp.float32)
        return jnp.asarray(observation, jnp.float32).reshape(math.prod(space.shape))

    def _control(self, action: Int[Array, ""] | Float[Array, "A"]) -> Array:
        """From our units, as `envs/gymnasium/spaces.control`."""
        space = self.dynamics.action_space
        kind = jax.dtypes.canonicalize_dtype(space.dtype)
        if isinstance(space, spaces.Discrete):
            return (action + int(space.start)).astype(kind)
        low, high, scale, shift = (np.asarray(part, np.float32) for part in ControlUnits.of(space))
        clipped = jnp.clip(action * scale + shift, low, high)
        whole = jnp.rint(clipped) if np.issubdtype(space.dtype, np.integer) else clipped
        return whole.astype(kind).reshape(space.shape)

    def _of_kinds(self, inner: Any) -> Any:
        leaves, structure = jax.tree.flatten(inner)
        return jax.tree.unflatten(
            structure, [jnp.asarray(leaf, kind) for leaf, kind in zip(leaves, self.dynamics.kinds)]
        )


def _words(key: Key) -> Array:
    """As jax.random has keys."""
    return jnp.stack([jnp.asarray(key.hi, jnp.uint32), jnp.asarray(key.lo, jnp.uint32)])


def _flag(value: Any) -> Bool[Array, ""]:
    return jnp.asarray(value).astype(bool).reshape(())
