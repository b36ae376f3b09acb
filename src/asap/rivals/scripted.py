"""The two ends of the scale: every action alike, and a rule written by hand. Neither learns or uses any step."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.keys import Key, many_uniforms
from asap.base.spec import TaskSet
from asap.base.stats import SeedCurve
from asap.envs.controllers import Probabilities, script_of
from asap.experience.counted_play import StepCounter
from asap.experience.rollout import Actor, Choice, Uniforms
from asap.policy.policy import NO_SKILL
from asap.rivals.protocol import Agents


class Uniform(eqx.Module):
    """Every action alike; numbers of a Box are drawn from -1 to 1, which are their bounds."""

    num_actions: int = eqx.field(static=True)
    continuous: bool = eqx.field(static=True)

    def draws(self, key: Key) -> Uniforms:
        return many_uniforms(key, self.num_actions if self.continuous else 1)

    def choose(self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]) -> Choice:
        if self.continuous:
            return jnp.int32(NO_SKILL), 2 * jnp.stack(draws) - 1
        return jnp.int32(NO_SKILL), jnp.minimum((draws[0] * self.num_actions).astype(jnp.int32), self.num_actions - 1)


class ByScript(eqx.Module):
    """The script of the task that m names."""

    scripts: tuple[Probabilities, ...] = eqx.field(static=True)
    descriptors: tuple[tuple[float, ...], ...] = eqx.field(static=True)

    def draws(self, key: Key) -> tuple[()]:
        return ()

    def choose(self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]) -> Choice:
        """Scripts leave nothing to chance."""
        actions = [jnp.argmax(script(x)).astype(jnp.int32) for script in self.scripts]
        if len(actions) == 1:
            return jnp.int32(NO_SKILL), actions[0]
        task = jnp.argmin(jnp.abs(np.float32(self.descriptors) - m).sum(-1))
        return jnp.int32(NO_SKILL), jnp.stack(actions)[task]


@dataclass(frozen=True)
class AtRandom:
    name: str = "random"
    representation: str = "native"
    learns_skills: bool = False

    def why_not(self, tasks: TaskSet) -> str | None:
        return None

    def learn(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Any = None) -> Agents:
        return _without_learning(Uniform(tasks.spec.num_actions, tasks.spec.continuous), len(seeds))


@dataclass(frozen=True)
class Scripted:
    """Rooms: through the middle of each door, then to the goal. Striker: shoot within 12 m, else dribble."""

    name: str = "scripted"
    representation: str = "native"
    learns_skills: bool = False

    def why_not(self, tasks: TaskSet) -> str | None:
        missing = [task.name for task in tasks.tasks if script_of(task) is None]
        return f"nobody has written a script for {missing[0]}" if missing else None

    def learn(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Any = None) -> Agents:
        scripts = tuple(script.probabilities for script in map(script_of, tasks.tasks) if script is not None)
        return _without_learning(ByScript(scripts, tuple(task.descriptor for task in tasks.tasks)), len(seeds))


def _without_learning(actor: Actor, num_seeds: int) -> Agents:
    """It has no leaves, so it is stacked as it is."""
    return Agents(actor, 0, 0, np.zeros(num_seeds, np.int64), [SeedCurve([], [])] * num_seeds)
