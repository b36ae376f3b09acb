"""Small JAX environments as others write them: methods `reset_env` and `step_env`, spaces by their names, parameters of
several kinds. Their transitions can be worked out by hand."""

import dataclasses
from types import SimpleNamespace
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp


class Box(NamedTuple):
    """As a space of gymnax: nothing but numbers."""

    low: Any
    high: Any
    shape: tuple[int, ...]
    dtype: Any = jnp.float32


class Discrete(NamedTuple):
    n: int


@dataclasses.dataclass(frozen=True)
class LineParams:
    max_steps_in_episode: int = 5
    goal: float = 3.0
    stride: float = 1.0


class At(NamedTuple):
    x: Any
    time: Any


class Line:
    """From 0, one step to the left or right; a step pays where it leads, and at the goal the episode ends. `done` includes
    the time limit, as in earlier releases of gymnax; the state has plain numbers at the start."""

    observation_names = ("place", "double")

    @property
    def default_params(self) -> LineParams:
        return LineParams()

    def observation_space(self, params: LineParams) -> Box:
        return Box(-100.0, 100.0, (2,))

    def action_space(self, params: LineParams) -> Discrete:
        return Discrete(2)

    def reset_env(self, key: jax.Array, params: LineParams) -> tuple[jax.Array, At]:
        return jnp.zeros(2), At(0.0, 0)

    def step_env(self, key: jax.Array, state: At, action: jax.Array, params: LineParams):
        state = At(state.x + params.stride * (2 * action - 1), state.time + 1)
        done = (state.x >= params.goal) | (state.time >= params.max_steps_in_episode)
        return jnp.stack([state.x, 2 * state.x]), state, state.x, done, {"discount": 1.0 - done}


class PullParams(eqx.Module):
    strength: float = 2.0
    far: float = 5.0


class Pull:
    """A number is pulled by the action, from -2 to 2, and paid for being near 0. It ends where it is far, and says so by
    itself: six values."""

    default_params = PullParams()
    observation_space = SimpleNamespace(low=-9.0, high=9.0, shape=(1,), dtype=jnp.float32)
    action_space = SimpleNamespace(low=-2.0, high=2.0, shape=(1,), dtype=jnp.float32)

    def reset_env(self, key: jax.Array, params: PullParams) -> tuple[jax.Array, jax.Array]:
        x = jax.random.uniform(key, (1,), minval=-1.0, maxval=1.0)
        return x, x

    def step_env(self, key: jax.Array, state: jax.Array, action: jax.Array, params: PullParams):
        state = state + params.strength * action
        far = jnp.abs(state[0]) > params.far
        return state, state, -jnp.abs(state), False, far, {"is_success": jnp.abs(state[0]) < 0.5}


class Signs:
    """The right action is the sign of what is shown, from a list or as a number; eight steps."""

    def __init__(self, vectors: bool = False):
        self.vectors = vectors

    default_params = {"max_steps": 8}
    observation_space = Box(-1.0, 1.0, (1,))

    @property
    def action_space(self) -> Any:
        return Box(-1.0, 1.0, (1,)) if self.vectors else Discrete(2)

    def reset_env(self, key: jax.Array, params: dict[str, Any]) -> tuple[jax.Array, Any]:
        shown = jax.random.uniform(key, (1,), minval=-1.0, maxval=1.0)
        return shown, (shown, 0)

    def step_env(self, key: jax.Array, state: Any, action: jax.Array, params: dict[str, Any]):
        side = action[0] if self.vectors else 2 * action - 1
        reward = side * jnp.sign(state[0][0])
        shown, after = self.reset_env(key, params)
        time = state[1] + 1
        return shown, (after[0], time), reward, time >= params["max_steps"], {}


class Clock(Line):
    """It shows the share of its time that is over."""

    def step_env(self, key: jax.Array, state: At, action: jax.Array, params: LineParams):
        _, state, reward, done, info = super().step_env(key, state, action, params)
        return jnp.stack([state.x, state.time / params.max_steps_in_episode]), state, reward, done, info


class OnlyStep:
    """It resets by itself, and its `step` is all there is."""

    default_params = LineParams()

    def reset(self, key: jax.Array, params: LineParams) -> None: ...

    def step(self, key: jax.Array, state: At, action: jax.Array, params: LineParams) -> None: ...


class Shapeless(Line):
    """Its state has another shape after a step."""

    def step_env(self, key: jax.Array, state: At, action: jax.Array, params: LineParams):
        observed, state, reward, done, info = super().step_env(key, state, action, params)
        return observed, state._replace(x=observed), reward, done, info


def line(goal: float = 3.0) -> tuple[Line, LineParams]:
    """For `module:function`."""
    return Line(), LineParams(goal=goal)


def far_line() -> Line:
    return Line()


class Broken(Line):
    """What it observes is no number from its third step on."""

    def step_env(self, key: jax.Array, state: At, action: jax.Array, params: LineParams):
        observed, state, *rest = super().step_env(key, state, action, params)
        return jnp.where(state.time == 3, jnp.nan, observed), state, *rest
