"""The stages of a training: its learner (which a race may choose first), a finish by paired random search, and a pick.

Which stage a seed is in is a function of what it has spent and of its budget. So a run that was killed goes on where it was, and a run
that is given a larger budget goes back to its learner, if that has a share left. Shares that are set aside cannot be spent before.
"""

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from asap.config.schema import Config
from asap.learn.convergence import has_converged
from asap.learn.race import Racing
from asap.learn.state import Budget, TrainState

ROUNDING = 1e-9  # Shares of the budget are no exact numbers.


class Stage(IntEnum):
    """In the order in which they come."""

    MAIN, FINISH, PICK, OVER = range(4)


class Stages(NamedTuple):
    """Where the stages of a config end, as budgets: MAIN, FINISH and PICK."""

    config: Config
    racing: Racing
    ends: tuple[Budget, Budget, Budget]

    @classmethod
    def of(cls, config: Config, racing: Racing) -> "Stages":
        run, whole = config.run, Budget.of(config)
        ends = (upto(whole, 1 - run.finish - run.pick), upto(whole, 1 - run.pick), whole)
        return cls(config, racing, ends)

    @property
    def are_several(self) -> bool:
        return self.config.run.finish + self.config.run.pick > 0 or bool(self.config.run.race)

    def now(self, states: TrainState) -> Int[np.ndarray, "*seeds"]:
        """The stage of each seed. Asked on the host, where a few numbers cost less in NumPy than in JAX one by one."""
        return self.at([*map(np.asarray, states.progress)], self.racing.is_on(states))

    def at(
        self, progress: Sequence[np.ndarray], races: Bool[np.ndarray, "*seeds"] | bool = False
    ) -> Int[np.ndarray, "*seeds"]:
        """By what a seed has spent. Who has converged goes on to the finish; without one, it is over. A race goes on."""
        episodes, steps, movement, spoiled = progress
        spent = [(episodes.sum(-1) >= end.episodes) | (steps >= end.steps) for end in self.ends]
        races = races & np.logical_not(
            spent[2]
        )  # A batch of a race can last beyond its share; the race is decided all the same.
        converged = has_converged(movement, self.config.learn.convergence_tolerance)
        stage = np.where((spent[0] | converged) & np.logical_not(races), Stage.FINISH, Stage.MAIN)
        stage = np.where((stage == Stage.FINISH) & (spent[1] | (not self.config.run.finish)), Stage.PICK, stage)
        ends_early = converged & (not self.config.run.finish)
        is_over = (stage == Stage.PICK) & (spent[2] | ends_early | (not self.config.run.pick))
        return np.asarray(np.where(spoiled | is_over, Stage.OVER, stage))

    def on_host(self, states: TrainState) -> Bool[np.ndarray, "*seeds"]:
        """Whether the updates of now are made on the host: those of a search, and the pick."""
        stage, is_search = self.now(states), self.racing.is_search(states) | self.racing.is_deciding(states)
        return np.asarray((stage == Stage.FINISH) | (stage == Stage.PICK) | ((stage == Stage.MAIN) & is_search))

    def left(self, stage: int, states: TrainState) -> Budget:
        """Episodes and steps until the stage ends, or the heat."""
        if stage != Stage.MAIN:
            return self.ends[stage].left(states.totals, states.env_steps)
        main, whole = (self.ends[end].left(states.totals, states.env_steps) for end in (Stage.MAIN, Stage.PICK))
        races = self.racing.is_on(states)
        own = (np.where(races, *each).astype(np.int32) for each in zip(whole[:2], main[:2]))
        return self.racing.left(states, main._replace(**dict(zip(("episodes", "steps"), own))))

    def told(self, states: TrainState) -> list[str]:
        """Of each seed, in words."""
        races = self.racing.is_on(states)
        names = [Stage(stage).name.lower() for stage in self.now(states)]
        return [self.racing.told(states, seed) if races[seed] else name for seed, name in enumerate(names)]

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
