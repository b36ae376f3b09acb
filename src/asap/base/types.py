"""Data that flows between the parts. Batch axes come last, so that each field is a stack of flat arrays."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

State = Any  # An environment's own pytree.
TaskParameters = Any  # A pytree: what makes one MDP m.


class Timestep(NamedTuple):
    """What one transition of an environment gives, before time limit and auto-reset."""

    state: State
    reward: Float[Array, ""]
    terminated: Bool[Array, ""]
    success: Bool[Array, ""]  # The episode ended as it should: at the goal, with a goal.
    truncated: Bool[Array, ""] | None = None  # By the environment itself; None: only our time limit does that.


class Transition(NamedTuple):
    """One step of a generalized trajectory g = (x, i, a, r, x', m), with both kinds of end kept apart."""

    observation: Float[Array, "O *batch"]
    descriptor: Float[Array, "Z *batch"]
    previous_skill: Int[Array, "*batch"]
    skill: Int[Array, "*batch"]
    action: Int[Array, "*batch"] | Float[Array, "A *batch"]
    reward: Float[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    truncated: Bool[Array, "*batch"]
    next_observation: Float[Array, "O *batch"]  # The true one: the final observation where the episode ended.
    of_task: Bool[Array, "M *batch"] | None = None  # Which task each step belongs to, where there are several.
    counts: Bool[Array, "*batch"] | None = None  # None: every step. False: padding, which has no part in any mean.
    decides: Bool[Array, "*batch"] | None = None  # Whether actions differ in what they do; None: they always may.
    elapsed: Int[Array, "*batch"] | None = None  # Steps made in the episode before this one; None: nobody asked.

    @property
    def ended(self) -> Bool[Array, "*batch"]:
        return self.terminated | self.truncated

    @property
    def num_counted(self) -> Int[Array, ""] | int:
        """Over all steps: those that count."""
        return self.reward.size if self.counts is None else jnp.maximum(self.counts.sum(), 1)

    def flat(self) -> "Transition":
        """Time and lanes in one axis, the last."""
        return jax.tree.map(lambda leaf: leaf.reshape(*leaf.shape[:-2], leaf.shape[-2] * leaf.shape[-1]), self)


class EpisodeTotals(NamedTuple):
    """Sums over completed episodes, per task, so that they can be added over lanes, updates and workers."""

    episodes: Int[Array, "*batch"]
    returns: Float[Array, "*batch"]  # Undiscounted: what learning curves show.
    successes: Int[Array, "*batch"]
    steps: Int[Array, "*batch"]
