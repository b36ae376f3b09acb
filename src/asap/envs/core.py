"""The contract of a task family, the distribution over its tasks, and the one place with time limit and auto-reset."""

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key, uniforms
from asap.base.spec import Spec
from asap.base.types import State, TaskParameters, Timestep


class Env(eqx.Module):
    """A family of tasks as pure functions for one environment; batches are `vmap`.

    A step is split in two, the random numbers (`noise`) and what they lead to (`transition`), because a rollout carries
    the random numbers of the next step through its loop: drawn inside the step they would be computed again for every
    quantity that depends on them.
    """

    spec: eqx.AbstractVar[Spec]
    rewards: ClassVar[tuple[tuple[str, float], ...]] = ()  # What pays, and how much, for people to read.

    @property
    def tells_success(self) -> bool:
        """Whether an end can be told for a success."""
        return True

    @abc.abstractmethod
    def reset(self, key: Key, task: TaskParameters) -> State: ...

    @abc.abstractmethod
    def noise(self, key: Key) -> Any: ...

    @abc.abstractmethod
    def transition(
        self, noise: Any, state: State, action: Int[Array, ""] | Float[Array, "A"], task: TaskParameters
    ) -> Timestep: ...

    @abc.abstractmethod
    def observe(self, state: State, task: TaskParameters) -> Float[Array, "O"]: ...

    @abc.abstractmethod
    def descriptor(self, task: TaskParameters) -> Float[Array, "Z"]: ...

    def decides(self, state: State) -> Bool[Array, ""] | None:
        """Whether actions differ in what they do in this state; None for a family where they always may.

        Where they don't, the advantage of an action is 0 and its estimate nothing but noise: learning leaves it out.
        """
        return None

    def step(
        self, key: Key, state: State, action: Int[Array, ""] | Float[Array, "A"], task: TaskParameters
    ) -> Timestep:
        return self.transition(self.noise(key), state, action, task)


class CompiledTasks(eqx.Module):
    """mu(m): several tasks of one family with their weights. One task is the set with one member."""

    env: Env
    tasks: TaskParameters  # Every leaf has a leading axis: the tasks, stacked.
    weights: Float[Array, "M"]
    names: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, env: Env, named: dict[str, Any], weights: tuple[float, ...] | None = None) -> "CompiledTasks":
        """With equal weights, if none are given."""
        shares = np.asarray(weights or np.ones(len(named)), float)
        stacked = jax.tree.map(lambda *leaves: jnp.stack([jnp.asarray(leaf) for leaf in leaves]), *named.values())
        return cls(env, stacked, jnp.asarray(shares / shares.sum(), jnp.float32), tuple(named))

    @property
    def size(self) -> int:
        return len(self.names)

    def __getitem__(self, index: Int[Array, ""] | int) -> TaskParameters:
        # A single task is sliced statically: a gather in the rollout would cost a fifth of its speed.
        return jax.tree.map(lambda leaf: leaf[0 if self.size == 1 else index], self.tasks)

    def draw(self, uniform: Float[Array, ""]) -> Int[Array, ""]:
        """The task of an episode: m ~ mu."""
        if self.size == 1:
            return jnp.int32(0)
        return (uniform >= jnp.cumsum(self.weights)[:-1]).sum().astype(jnp.int32)

    def only(self, name: str) -> "CompiledTasks":
        """The set that has just this task."""
        index = self.names.index(name)
        task = jax.tree.map(lambda leaf: leaf[index : index + 1], self.tasks)
        return CompiledTasks(self.env, task, jnp.ones(1), (name,))


class Episode(NamedTuple):
    """A running episode: the state, which task it plays, and what it has gathered."""

    state: State
    task: Int[Array, ""]
    elapsed: Int[Array, ""]
    total: Float[Array, ""]  # Undiscounted return so far.


class Outcome(NamedTuple):
    """Of one step of `advance`; final state and observation are the true ones, not those of the reset."""

    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    truncated: Bool[Array, ""]
    success: Bool[Array, ""]
    next_state: State
    next_observation: Float[Array, "O"]
    total: Float[Array, ""]
    elapsed: Int[Array, ""]
    task: Int[Array, ""]


def begin(tasks: CompiledTasks, reset_key: Key, task_key: Key) -> Episode:
    index = tasks.draw(uniforms(task_key)[0])
    return Episode(tasks.env.reset(reset_key, tasks[index]), index, jnp.int32(0), jnp.float32(0))


def advance(
    tasks: CompiledTasks,
    noise: Any,
    reset_key: Key,
    task_key: Key,
    episode: Episode,
    action: Int[Array, ""] | Float[Array, "A"],
    horizon: int | None = None,
) -> tuple[Episode, Outcome]:
    """One step with time limit and auto-reset: an ended episode is replaced by a new one in the same step. `horizon`:
    another limit than the spec's."""
    task = tasks[episode.task]
    step = tasks.env.transition(noise, episode.state, action, task)
    elapsed, total = episode.elapsed + 1, episode.total + step.reward
    truncated = elapsed >= (tasks.env.spec.horizon if horizon is None else horizon)
    truncated = (truncated if step.truncated is None else truncated | step.truncated) & ~step.terminated
    ends = step.terminated, truncated, step.success
    observation = tasks.env.observe(step.state, task)
    outcome = Outcome(step.reward, *ends, step.state, observation, total, elapsed, episode.task)
    going_on = Episode(step.state, episode.task, elapsed, total)
    fresh = begin(tasks, reset_key, task_key)
    ended = step.terminated | truncated
    return jax.tree.map(lambda new, old: jnp.where(ended, new, old), fresh, going_on), outcome
