"""Any actor, or any learner that learns step by step, on any task: many seeds side by side, every step counted.

ASAP's own learners take batches of its own policies (`asap.experience.protocol`). Other systems play here. They never touch the
environment themselves, so no step of it can go uncounted.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.keys import Key
from asap.base.stats import SeedCurve
from asap.base.types import EpisodeTotals, Transition
from asap.experience.protocol import Evaluation, ignore_progress
from asap.experience.rollout import Actor
from asap.runs.signals import StopRequest

State = Any  # Of a learner: a pytree of arrays.
CHUNKS = 60  # Looks of the host at a learner while it uses up its budget.


class StepChoice(NamedTuple):
    """What a learner does next, and its state after it has chosen."""

    state: State
    skill: Int[Array, ""]
    action: Int[Array, ""] | Float[Array, "A"]


@runtime_checkable
class StepLearner(Protocol):
    """Learns from one step at a time; pure functions of one seed. It must be hashable: a frozen dataclass of its settings."""

    def begin(self, key: Key) -> State:
        """Its state before the first step."""
        ...

    def choose(self, key: Key, state: State, x: Float[Array, "O"], m: Float[Array, "Z"]) -> StepChoice:
        """What to do at an observation, exploration included."""
        ...

    def learn(self, key: Key, state: State, step: Transition) -> State:
        """Its state after a step. The next observation is the true one, also where the episode ended."""
        ...


class Running(NamedTuple):
    """A step-by-step learner in the middle of its episodes, stacked over seeds; `state` is the learner's own."""

    state: State
    place: Any  # Where the episode is: whoever plays knows.


@runtime_checkable
class CountedPlay(Protocol):
    """Final classes: `CompiledPlay`, `HostedPlay`. All arrays have the seeds first."""

    seeds: tuple[int, ...]
    counter: "StepCounter"

    def learn(
        self,
        learner: StepLearner,
        num_steps: int | None = None,
        running: Running | None = None,
        active: Bool[np.ndarray, "seeds"] | None = None,
        start: State | None = None,
    ) -> Running:
        """Each seed makes so many steps more, by default all that are left; `running` goes on where it was. `start`, stacked
        over seeds, stands in for the states that the learner begins with.

        Steps of seeds that are not active are not counted: what they learn is not to be used.
        """
        ...

    def play(
        self,
        actors: Actor,
        num_episodes: int,
        active: Bool[np.ndarray, "seeds"] | None = None,
        alike: Sequence[int] | None = None,
    ) -> tuple[Transition, EpisodeTotals]:
        """So many whole episodes of the actor of each seed, for it to learn from: axes (seeds, ..., time, lanes).

        `counts` is False behind the end of an episode. The episodes of seeds that are not active are not counted.
        `alike` has a number for each of a seed's candidates: actors and results then have them as their second axis. Those
        with one number get the same random numbers, so that only what they do makes a difference.
        """
        ...

    def evaluate(self, actors: Actor, num_episodes: int, num_skills: int) -> Evaluation:
        """Episodes that nobody learns from, and which are not counted: fresh ones, the same for every system."""
        ...

    def close(self) -> None: ...


class StepCounter:
    """Steps of the environment that each seed has made, what its training episodes returned meanwhile, and the budget."""

    def __init__(
        self,
        num_seeds: int,
        budget: int,
        on_progress: Callable[[int], None] = ignore_progress,
        stop: StopRequest | None = None,
    ):
        """`on_progress` hears how many steps a seed has made on average; `stop` is looked at after each chunk."""
        self.budget, self.used = budget, np.zeros(num_seeds, np.int64)
        self._on_progress, self.stop = on_progress, stop or StopRequest()
        self._steps: list[np.ndarray] = []
        self._returns: list[np.ndarray] = []

    @property
    def left(self) -> Int[np.ndarray, "seeds"]:
        return np.maximum(self.budget - self.used, 0)

    def affords(self, num_episodes: int, length: float) -> Bool[np.ndarray, "seeds"]:
        """Which seeds have the steps for so many more episodes of such a mean length."""
        return self.left >= num_episodes * length

    def add(self, steps: Int[np.ndarray, "seeds"], totals: EpisodeTotals, counted: Bool[np.ndarray, "seeds"]) -> None:
        """Totals have axes (seeds, tasks)."""
        self.used += np.where(counted, steps, 0)
        episodes = np.asarray(totals.episodes).sum(-1)
        means = np.asarray(totals.returns).sum(-1) / np.maximum(episodes, 1)
        self._steps.append(self.used.copy())
        self._returns.append(np.where((episodes > 0) & counted, means, np.nan))
        self._on_progress(int(self.used.mean()))
        self.stop.check()

    def part(self, share: float) -> "StepCounter":
        """For a share of what is left; what is used of it is told by `reach`."""
        return StepCounter(len(self.used), int(share * self.left.min()), self._on_progress, self.stop)

    def reach(self, steps: Int[np.ndarray, "some"], of_seeds: slice) -> None:
        """Where the library's own training counts: all steps that these seeds have made so far."""
        self.used[of_seeds] = steps
        self._on_progress(int(self.used.mean()))

    def curves(self) -> list[SeedCurve]:
        """Per seed, the mean return of the training episodes that ended in each chunk, by steps."""
        if not self._steps:
            return [SeedCurve([], []) for _ in self.used]
        steps, returns = np.stack(self._steps, 1), np.stack(self._returns, 1)
        known = np.isfinite(returns)
        return [SeedCurve(steps[s, known[s]], returns[s, known[s]]) for s in range(len(self.used))]


def chunk_sizes(total: int) -> list[int]:
    """A number of steps in chunks of about equal size."""
    edges = np.unique(np.round(np.linspace(0, total, CHUNKS + 1)).astype(int))
    return np.diff(edges).tolist()


def actor_of(actors: Actor, index: int) -> Actor:
    """That of one seed."""
    return jax.tree.map(lambda leaf: leaf[index], actors)


def over_candidates(totals: EpisodeTotals) -> EpisodeTotals:
    """Those of a seed, from axes (seeds, candidates, tasks)."""
    return EpisodeTotals(*(np.asarray(leaf).sum(1) for leaf in totals))


def mean_length(totals: EpisodeTotals) -> Float[np.ndarray, "seeds"]:
    """Steps per episode, for each seed."""
    return np.asarray(totals.steps).sum(-1) / np.maximum(np.asarray(totals.episodes).sum(-1), 1)
