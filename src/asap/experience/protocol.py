"""Where transitions come from: what every kind of experience offers to the learner.

Playing inside a compiled program and playing on the host can't be one call, so there are two: `feed` runs on the host,
`collect` is traced into the program of the update.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key
from asap.base.spec import TaskSet
from asap.base.types import EpisodeTotals, Transition
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import Moments
from asap.policy.score import Parameters

Carry = Any  # What an experience keeps from one update to the next: running lanes, or nothing.
Fed = Any  # What the host hands to the compiled update.
OnProgress = Callable[[int], None]  # Hears how many there are so far.


def ignore_progress(count: int) -> None:
    """Hears nothing."""


class Behaviour(NamedTuple):
    """Who logged the steps."""

    log_prob: Float[Array, "T L"]  # Of the logged action.
    merit: Float[Array, "T L"]  # Of the step, see `asap.experience.logged.merits`.


class ScoredEpisodes(NamedTuple):
    """Over complete episodes g: sum of R(g) score(g), sum of score(g), sum of R(g)."""

    weighted: Parameters
    plain: Parameters
    returns: Float[Array, ""]  # Discounted: R of the gradient theorem.


class Batch(NamedTuple):
    """What one update of one seed learns from."""

    totals: EpisodeTotals  # Per task, of the episodes that ended here.
    env_steps: Int[Array, ""] | int  # All that were played or read for it.
    steps: Transition | None = None  # Axes (..., time, lanes); hosted: one lane of whole episodes in the order of ids.
    behaviour: Behaviour | None = None  # Of logged data.
    sums: ScoredEpisodes | None = None  # Scores summed while playing, in place of steps: Algorithm 1 as printed.


class Evaluation(NamedTuple):
    """Episodes of fixed policies: axes (policies, tasks, episodes), or (policies, tasks, skills).

    Where policies played different numbers of episodes, what is missing is NaN.
    """

    returns: Float[np.ndarray, "P M N"]  # Undiscounted.
    discounted: Float[np.ndarray, "P M N"]
    success: Float[np.ndarray, "P M N"]  # NaN where nobody tells.
    lengths: Float[np.ndarray, "P M N"]
    skill_steps: Int[np.ndarray, "P M S"]
    skill_starts: Int[np.ndarray, "P M S"]
    seen: Sequence[Moments] | None = None  # Of the observations of each policy, where their scaling is learned.
    observations: Float[np.ndarray, "n O"] | None = None  # Some that were visited, all policies together.

    def on_task(self, index: int) -> "Evaluation":
        """Of one task."""
        return Evaluation(*(values[:, index : index + 1] for values in self[:6]), *self[6:])

    @property
    def usage(self) -> Float[np.ndarray, "P M S"]:
        """Share of all steps made under each skill."""
        return self.skill_steps / np.maximum(self.skill_steps.sum(-1, keepdims=True), 1)

    @property
    def durations(self) -> Float[np.ndarray, "P M S"]:
        """Mean number of successive steps under each skill (errata E10)."""
        return self.skill_steps / np.maximum(self.skill_starts, 1)


class EpisodeIds(NamedTuple):
    """Which episodes are played: `first`, `first` + 1, ... of a stream, for each policy with the seed of its own."""

    seeds: Sequence[int]
    stream: int  # As in `asap.base.episodes`.
    first: Sequence[int] | int = 0


class Counters(NamedTuple):
    """How far each seed is."""

    iterations: Int[np.ndarray, "seeds"]
    episodes: Int[np.ndarray, "seeds"]  # Completed, search included.
    left: tuple[Int[np.ndarray, "seeds"], Int[np.ndarray, "seeds"]] | None = None  # Of the budget: episodes, steps.


@runtime_checkable
class CurvePlayer(Protocol):
    """What evaluates policies: all that is needed of whoever plays beside logged data."""

    plays: bool  # Whether policies can be evaluated: not where there is nothing but logged data.
    least_episodes: int  # Per evaluation: fewer would be no less work.

    def evaluate(
        self,
        policies: ASAPPolicy,
        ids: EpisodeIds,
        num_episodes: int,
        deterministic: bool,
        on_progress: OnProgress = ignore_progress,
    ) -> Evaluation:
        """On the host: so many episodes of each task for each of the stacked policies; `on_progress` hears how many have been
        played, of all together."""
        ...

    def look(self, policies: ASAPPolicy, update: int) -> Evaluation:
        """On the host: what the learning curve shows of the policies, one per seed."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Experience(CurvePlayer, Protocol):
    """Final classes: `Compiled`, `Hosted`, `Logged`."""

    tasks: TaskSet
    together: bool  # All seeds in one program, by `vmap`; otherwise seed by seed, each with a batch size of its own.
    most_updates: int  # Per feed; hosted 1, because the next batch needs the new policy.

    def begin(self, key: Key) -> Carry:
        """Traced: what is there before the first update of a seed."""
        ...

    def feed(self, policies: ASAPPolicy, counters: Counters, active: Bool[np.ndarray, "seeds"]) -> Fed | list[Fed]:
        """On the host: arrays with axes (updates, seeds, ...); not `together`: one per seed, None for who has
        stopped."""
        ...

    def collect(self, key: Key, policy: ASAPPolicy, carry: Carry, fed: Fed) -> tuple[Carry, Batch]:
        """Traced: plays, or hands on what was fed."""
        ...

    def random_states(self) -> tuple[Float[np.ndarray, "O N"], Float[np.ndarray, "Z N"]] | None:
        """Observations and descriptors of random play, or of logged data; None where playing for this alone would cost too much."""
        ...

    def known_moments(self) -> Moments | None:
        """Of the observations, as they are scaled from the first update on; None where they are learned as they come."""
        ...
