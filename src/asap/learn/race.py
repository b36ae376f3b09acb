"""A race of runners for the first shares of the budget: some learn by gradients, others by paired random search.

Which of them gets anywhere on a task nobody knows before, and one seed of a learner may fail where another does not. So each runner of
`run.race` gets `run.heat` of the budget. The best of each kind gets as much again, and the best of these goes on. They are judged by
what they returned in the last half of their heat. All that they play is paid.

All runners are states of one learner, with arrays of the same shapes. The one that plays is the state itself, the others wait in it: a run
that is killed in the race resumes like any other. A runner `ars` is one linear skill (or what skills are here), the same in all regions:
it begins at 0 and its skills move together, until the finish parts them.
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Int

from asap.base.arrays import member, stack
from asap.base.keys import host_generator
from asap.base.spec import TaskSet
from asap.config.schema import SEARCH, Config
from asap.learn.convergence import has_converged
from asap.learn.state import Budget, Race, RunnerState, TrainState, with_zero_skills
from asap.policy.build import build_policy
from asap.policy.policy import ASAPPolicy
from asap.policy.score import parameters_of, with_parameters
from asap.runs.events import Record

_RUNNERS = 11  # Id of the stream that further starts are drawn from.


class Racing:
    """Knows whose turn it is; without a race, all seeds are through with it."""

    def __init__(self, config: Config, tasks: TaskSet, record: Record):
        self.config, self.tasks, self.record = config, tasks, record
        self.names = config.run.race
        self.kinds = tuple(dict.fromkeys(self.names))
        self.num_heats = len(self.names) + (len(self.kinds) if len(self.kinds) < len(self.names) else 0)

    # ---- Starts ----

    def begun(self, states: TrainState) -> TrainState:
        """All runners at their starts; the first one is what the training would start from without a race."""
        if not self.names:
            return states
        each = []
        for index in range(self.config.run.seeds):
            state = member(states, index)
            policies = self._policies(self.config.run.seed + index, state.policy)
            each.append(stack([runner_of(started(state, policy)) for policy in policies]))
        runners, num_seeds = stack(each), self.config.run.seeds
        sums = np.zeros((num_seeds, self.num_heats, 2))
        race = Race(
            np.zeros(num_seeds, np.int32), np.zeros(num_seeds, np.int32), spent(states), sums, sums.copy(), runners
        )
        return self._loaded(states.with_race(race), np.arange(num_seeds))

    def shaped(self, states: TrainState) -> TrainState:
        """The same for shapes."""
        if not self.names:
            return states

        def of(shape: tuple[int, ...], kind: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((self.config.run.seeds, *shape), kind)

        runners = jax.tree.map(lambda leaf: of((len(self.names), *leaf.shape[1:]), leaf.dtype), runner_of(states))
        table, number = of((self.num_heats, 2), np.float64), of((), np.int32)
        race = Race(number, number, of((2,), np.int64), table, table, runners)
        return states.with_race(race)

    def _policies(self, seed: int, first: ASAPPolicy) -> list[ASAPPolicy]:
        """Searches begin at 0; learners where the first one does, or, where that was drawn, at draws of their own."""
        found, is_drawn = [], not self.config.policy.rules and self.config.run.source is None
        for number, name in enumerate(self.names):
            policy = first
            if number and is_drawn:
                drawn = build_policy(self.config.policy, self.tasks.tasks, host_generator(seed, _RUNNERS, number))
                policy = with_parameters(first, jax.tree.map(np.asarray, parameters_of(drawn)))
            if name == SEARCH:
                policy = with_zero_skills(policy)
            found.append(policy)
        return found

    # ---- Whose turn it is ----

    def is_on(self, states: TrainState) -> Bool[np.ndarray, "*seeds"]:
        """Which seeds are in their race."""
        if states.race is None:
            return np.zeros(np.shape(states.iteration), bool)
        return np.asarray(np.asarray(states.race.heat) < self.num_heats)

    def is_search(self, states: TrainState) -> Bool[np.ndarray, "*seeds"]:
        """Whose runner is a search."""
        if states.race is None:
            return np.full(np.shape(states.iteration), self.config.learn.learner == SEARCH)
        return np.asarray(np.asarray([name == SEARCH for name in self.names])[np.asarray(states.race.runner)])

    def left(self, states: TrainState, left: Budget) -> Budget:
        """Of a stage, and in a race no more than of the heat."""
        if states.race is None:
            return left
        rest = [
            np.clip(share - done, 0, None) for share, done in zip(self._heat(), np.moveaxis(self._since(states), -1, 0))
        ]
        racing = self.is_on(states)
        own = (np.where(racing, np.minimum(most, more), most).astype(np.int32) for most, more in zip(left, rest))
        return left._replace(**dict(zip(("episodes", "steps"), own)))

    def moved_on(self, before: TrainState, after: TrainState) -> TrainState:
        """With what was returned since `before` taken down, and with the next runner where a heat is over."""
        racing = self.is_on(before)
        if not racing.any():
            return after
        race = before.race
        done = (self._since(before) / np.asarray(self._heat())).max(-1)
        late = (done >= 0.5).astype(int)
        played = after.totals.episodes - before.totals.episodes, after.totals.returns - before.totals.returns
        sums, counts = race.sums.copy(), race.counts.copy()
        for seed in np.flatnonzero(racing):
            place = seed, race.heat[seed], late[seed]
            sums[place] += float(played[1][seed].sum())
            counts[place] += float(played[0][seed].sum())
        after = after.with_race(race._replace(sums=sums, counts=counts))
        is_out = (self._since(after) >= np.asarray(self._heat())).any(-1)
        converged = has_converged(np.asarray(after.monitor.movement), self.config.learn.convergence_tolerance)
        over = np.flatnonzero(racing & (is_out | converged))
        return self._changed(after, over) if len(over) else after

    def told(self, states: TrainState, seed: int) -> str:
        race = states.race
        number = 1 + int(race.runner[seed])
        return f"race: {self.names[number - 1]}, {number} of {len(self.names)}"

    # ---- Changing runners ----

    def _changed(self, states: TrainState, seeds: Int[np.ndarray, "n"]) -> TrainState:
        """Who has run waits, and the next one runs."""
        race, now = states.race, runner_of(states)
        runners = jax.tree.map(np.array, race.runners)

        def stored(waiting: np.ndarray, running: Array) -> np.ndarray:
            waiting[seeds, race.runner[seeds]] = np.asarray(running)[seeds]
            return waiting

        runners = jax.tree.map(stored, runners, now)
        heat, runner, since = race.heat.copy(), race.runner.copy(), np.array(race.since)
        heat[seeds] += 1
        since[seeds] = spent(states)[seeds]
        for seed in seeds:
            runner[seed] = self._next(int(heat[seed]), scores(race.sums[seed], race.counts[seed]))
        changed = race._replace(heat=heat, runner=runner, since=since, runners=runners)
        for seed in seeds[heat[seeds] == self.num_heats]:
            self._announce(int(seed), changed)
        return self._loaded(states.with_race(changed), seeds)

    def _next(self, heat: int, found: np.ndarray) -> int:
        """First each in turn, then the best of each kind, then the best of these."""
        count = len(self.names)
        if heat < count:
            return heat
        best = [max((r for r in range(count) if self.names[r] == kind), key=lambda r: found[r]) for kind in self.kinds]
        if self.num_heats == count:
            return max(best, key=lambda r: found[r])
        if heat < self.num_heats:
            return best[heat - count]
        return best[int(np.argmax(found[count:]))]

    def _loaded(self, states: TrainState, seeds: Int[np.ndarray, "n"]) -> TrainState:
        """With the runner whose turn it is as the state of these seeds."""
        race = states.race

        def loaded(waiting: np.ndarray, running: Array) -> np.ndarray:
            values = np.array(running)
            values[seeds] = waiting[seeds, race.runner[seeds]]
            return values

        runner = jax.tree.map(loaded, race.runners, runner_of(states))
        return eqx.tree_at(runner_of, states, runner, is_leaf=is_none)

    def _announce(self, seed: int, race: Race) -> None:
        found = scores(race.sums[seed], race.counts[seed]).round(3).tolist()
        first = len(self.names)
        event = {"kind": "race", "seed": self.config.run.seed + seed, "runners": list(self.names)}
        event |= {"winner": int(race.runner[seed]), "returns": found[:first], "again": found[first:]}
        self.record.append(event)

    def _heat(self) -> tuple[float, float]:
        episodes, steps = Budget.of(self.config)[:2]
        return float(episodes) * self.config.run.heat, float(steps) * self.config.run.heat

    def _since(self, states: TrainState) -> Int[np.ndarray, "*seeds 2"]:
        return spent(states) - np.asarray(states.race.since)


def is_none(node: Any) -> bool:
    return node is None


def runner_of(states: TrainState) -> RunnerState:
    """What belongs to a runner: all but what is counted."""
    return RunnerState(*(getattr(states, name) for name in RunnerState._fields))


def started(state: TrainState, policy: ASAPPolicy) -> TrainState:
    """The state of one seed before anything was learned, with another policy."""
    state = eqx.tree_at(lambda s: s.policy, state, policy)
    return state if state.average is None else eqx.tree_at(lambda s: s.average, state, parameters_of(policy))


def spent(states: TrainState) -> Int[np.ndarray, "*seeds 2"]:
    return np.stack([np.asarray(states.totals.episodes).sum(-1), np.asarray(states.env_steps)], -1).astype(np.int64)


def scores(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The mean return of each heat in its last half; where no episode ended there, in the first; -infinity before."""
    means = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)
    return np.where(counts[:, 1] > 0, means[:, 1], means[:, 0])
