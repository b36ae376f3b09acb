"""Who plays when data are collected, and how likely it was to do what it did.

A hand-written controller of a compiled task, a policy of ours (learned, or random play), or a function of the user's. The first two
know the probability of what they drew, which importance weights need. A function may tell it; otherwise the file has none.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from asap.base.arrays import compiled_when_called
from asap.base.errors import UserError
from asap.base.spec import Spec, Task
from asap.base.types import Transition
from asap.envs.controllers import Controller
from asap.experience.hosted import batch_size
from asap.experience.minibatches import Lanes
from asap.policy.build import uniform_policy
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.score import MARGINAL, score_in_order
from asap.policy.skills import UniformSkills
from asap.policy.surgery import uniform


class LoggedPolicy(NamedTuple):
    """A policy of ours, which draws its skills and actions."""

    name: str
    policy: ASAPPolicy

    def log_probs(
        self,
        observations: Float[np.ndarray, "N O"],
        descriptors: Float[np.ndarray, "N Z"],
        actions: np.ndarray,
        ended: Bool[np.ndarray, "N"],
    ) -> Float[np.ndarray, "N"]:
        """Of the actions of whole episodes, one after the other, with the skill summed out; densities in our units."""
        count = len(ended)
        if isinstance(self.policy.skills, UniformSkills):
            return np.full(count, -np.log(2.0) * self.policy.skills.num_draws, np.float32)
        at = Lanes([[count]], batch_size(count), 1)
        none, zeros = at.steps([np.full(count, NO_SKILL, np.int32)]), at.steps([np.zeros(count, np.float32)])
        steps = Transition(
            observation=at.steps([observations], np.float32),
            descriptor=at.steps([descriptors], np.float32),
            previous_skill=none,
            skill=none,
            action=at.steps([actions]),
            reward=zeros,
            terminated=at.steps([ended]),
            truncated=zeros > 0,
            next_observation=at.steps([observations], np.float32),
            counts=at.counts,
        )
        return np.asarray(_log_probs(self.policy, steps))[:count]


@compiled_when_called
def _log_probs(policy: ASAPPolicy, steps: Transition) -> Float[Array, "N"]:
    return score_in_order(policy, steps, MARGINAL).log_prob


class AskedFunction(NamedTuple):
    """A function of the user's: from an observation, as the environment gives it, to an action, as it takes it; or to
    the pair of an action and the logarithm of its probability or density."""

    name: str
    function: Callable[[Any], Any]


WhoPlays = Controller | LoggedPolicy | AskedFunction


def random_play(task: Task) -> LoggedPolicy:
    """Every action alike; of a Box, every number from bound to bound."""
    return LoggedPolicy("random", jax.tree.map(jnp.asarray, uniform(uniform_policy(task))))


def require_fit(made_for: Spec, task: Task, source: str) -> None:
    """A policy plays what has as many observations and actions, of the same kind."""
    sizes = [(len(spec.observation_names), spec.num_actions, spec.continuous) for spec in (made_for, task.spec)]
    if sizes[0] != sizes[1]:
        counts = [f"{size[0]} observations and {size[1]} {'controls' if size[2] else 'actions'}" for size in sizes]
        what = f"its policy is for {counts[0]}, {task.name} has {counts[1]}"
        raise UserError("--policy", what, source, "give a run on this environment")
