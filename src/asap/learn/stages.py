"""The stages of a training: its learner, a finish by paired random search, and a pick among what both came to.

Which stage a seed is in is a function of what it has spent and of its budget. So a run that was killed goes on where it was, and a run
that is given a larger budget goes back to its learner, if that has a share left. Shares that are set aside cannot be spent before.
"""

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from asap.config.schema import SEARCH, Config
from asap.learn.convergence import has_converged
from asap.learn.state import Budget, TrainState

ROUNDING = 1e-9  # Shares of the budget are no exact numbers.


class Stage(IntEnum):
    """In the order in which they come."""

    MAIN, FINISH, PICK, OVER = range(4)


class Stages(NamedTuple):
    """Where the stages of a config end, as budgets: MAIN, FINISH and PICK."""

    config: Config
    ends: tuple[Budget, Budget, Budget]

    @classmethod
    def of(cls, config: Config) -> "Stages":
        run, whole = config.run, Budget.of(config)
        ends = (upto(whole, 1 - run.finish - run.pick), upto(whole, 1 - run.pick), whole)
        return cls(config, ends)

    @property
    def are_several(self) -> bool:
        return self.config.run.finish + self.config.run.pick > 0

    def now(self, states: TrainState) -> Int[np.ndarray, "*seeds"]:
        """The stage of each seed. Asked on the host, where a few numbers cost less in NumPy than in JAX one by one."""
        return self.at([*map(np.asarray, states.progress)])

    def at(self, progress: Sequence[np.ndarray]) -> Int[np.ndarray, "*seeds"]:
        """By what a seed has spent. Who has converged goes on to the finish; without one, it is over."""
        episodes, steps, movement, spoiled = progress
        spent = [(episodes.sum(-1) >= end.episodes) | (steps >= end.steps) for end in self.ends]
        converged = has_converged(movement, self.config.learn.convergence_tolerance)
        stage = np.where(spent[0] | converged, Stage.FINISH, Stage.MAIN)
        stage = np.where((stage == Stage.FINISH) & (spent[1] | (not self.config.run.finish)), Stage.PICK, stage)
        ends_early = converged & (not self.config.run.finish)
        is_over = (stage == Stage.PICK) & (spent[2] | ends_early | (not self.config.run.pick))
        return np.where(spoiled | is_over, Stage.OVER, stage)

    def are_on_host(self, stage: Int[np.ndarray, "*seeds"]) -> Bool[np.ndarray, "*seeds"]:
        """Whether the updates of a stage are made on the host: those of a search, and the pick."""
        is_search = self.config.learn.learner == SEARCH
        return np.asarray((stage == Stage.FINISH) | (stage == Stage.PICK) | ((stage == Stage.MAIN) & is_search))

    def left(self, stage: int, state: TrainState) -> tuple[int, int]:
        """Episodes and steps of one seed until the stage ends."""
        return tuple(int(left) for left in self.ends[stage].left(state.totals, state.env_steps)[:2])

    def progress(self, stage: int, state: TrainState) -> float:
        """Of one seed in a stage, from 0 at its beginning to 1 at its end."""
        run, (episodes, steps) = self.config.run, self.ends[Stage.PICK][:2]
        share = max(int(state.totals.episodes.sum()) / int(episodes), int(state.env_steps) / int(steps))
        bounds = (0.0, 1 - run.finish - run.pick, 1 - run.pick, 1.0)
        return min(max((share - bounds[stage]) / (bounds[stage + 1] - bounds[stage]), 0.0), 1.0)


def upto(budget: Budget, share: float) -> Budget:
    """A share of it. Where there is no limit, there is none."""
    none = np.iinfo(np.int64).max
    return Budget(*(most if most == none else np.int64(math.ceil(int(most) * share - ROUNDING)) for most in budget[:2]))


def surely_begun(left: tuple[int, int], episodes: int, horizon: int, most: int) -> int:
    """How many rounds of so many episodes surely begin before the budget is used up, however long they are: `most`, or
    half of it, and so on, so that few programs are compiled; at least one."""
    fits = min((left[0] - 1) // episodes, (left[1] - 1) // (episodes * horizon)) + 1
    while most > max(fits, 1):
        most //= 2
    return most
