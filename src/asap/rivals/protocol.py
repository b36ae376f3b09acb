"""What every system of the comparison offers, so that one harness can run them all.

A system learns for all seeds at once and only through `CountedPlay`, which own the environment and count its steps. What it returns is an
agent: an actor for each seed, stacked. Systems that follow a paper name it in their file; none is its authors' own code.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.keys import fold, root
from asap.base.spec import Task, TaskSet
from asap.base.stats import SeedCurve
from asap.experience.counted_play import StepCounter, actor_of
from asap.experience.protocol import Evaluation
from asap.experience.rollout import Actor
from asap.policy.policy import NO_SKILL


class Agents(NamedTuple):
    """What a system has learned, for every seed: actors are stacked over seeds, like `steps_used` and `curves`."""

    actors: Actor
    num_skills: int  # 0 where it has none: its actors then choose the skill NO_SKILL.
    num_parameters: int  # Of one seed's policy, without what only learning needs.
    steps_used: Int[np.ndarray, "seeds"]
    curves: Sequence[SeedCurve]  # Return of the training episodes, by steps.
    state: Any = None  # What it has learned, stacked over seeds, for the same system to begin with on another task.
    evaluation: Evaluation | None = None  # Its own, with the same starts, where its actions are not those of the task.

    def of_seed(self, index: int) -> "Agent":
        return Agent(actor_of(self.actors, index), self.num_skills, int(self.steps_used[index]))


class Agent(NamedTuple):
    """That of one seed, for one observation at a time."""

    actor: Actor
    num_skills: int
    steps_used: int

    def act(self, obs: ArrayLike, task: Task, seed: int = 0, previous: int = NO_SKILL) -> tuple[Array, int | None]:
        """Action and skill. `previous` is the skill in force, for systems that go on with it."""
        x, m = jnp.asarray(obs, jnp.float32), jnp.asarray(task.descriptor, jnp.float32)
        skill, action = self.actor.choose(self.actor.draws(fold(root(seed), 0)), x, m, jnp.int32(previous))
        return action, int(skill) if self.num_skills else None

    def skill_at(self, obs: ArrayLike, task: Task, seed: int = 0) -> int | None:
        """The skill that it begins with here; None where it has none."""
        return self.act(obs, task, seed)[1]


@runtime_checkable
class System(Protocol):
    """One row of the comparison; a frozen dataclass of its settings, whose defaults are those that it was tuned to."""

    name: str
    representation: (
        str  # "native": the features its authors use; "equal": those of ASAP in the paper's rooms, [1, x, y].
    )
    learns_skills: bool  # False: skills stay as they began, and only what chooses among them is learned.

    def why_not(self, tasks: TaskSet) -> str | None:
        """Why it can't learn these tasks, in words for the user; None where it can."""
        ...

    def learn(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Any = None) -> Agents:
        """Every seed uses the counter's budget up, as far as whole episodes allow, and no more. `start` is the state of
        agents that it has returned before."""
        ...


def require_able(system: System, tasks: TaskSet) -> None:
    reason = system.why_not(tasks)
    if reason is not None:
        raise UserError(
            "--rivals", f"{system.name} can't learn {', '.join(tasks.names)}: {reason}", cure="leave it out"
        )


def has_discrete_actions(tasks: TaskSet) -> str | None:
    """A reason for `why_not`."""
    return "it needs Discrete actions" if tasks.spec.continuous else None
