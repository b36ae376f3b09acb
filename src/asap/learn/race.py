"""A race of runners: some learn by gradients, others by paired random search.

Which of them gets anywhere on a task nobody knows before, and one seed of a learner may fail where another does not. So each runner of
`run.race` gets `run.heat` of the budget, and is judged by what it returned in the last half of that. Of one kind, the best goes on.

Of two kinds, what was returned early says little: a search of decided policies is ahead on many tasks on which learning by gradients
wins in the end. So both go on: the best search for two more heats, unless the best learner is ahead of it already, and the best learner
for all that is left before the finish. (A learner whose returns were all alike has nothing to go by: then the search goes on alone.) Then both play the same fresh episodes, paid from a share as large as `run.pick`, by their
likeliest actions, and the better one is finished. Without `run.pick` their last returns decide. All that is played is paid.

All runners are states of one learner, with arrays of the same shapes. The one that plays is the state itself, the others wait in it: a run
that is killed in the race resumes like any other. The runners `single` and `ars` are one linear skill (or what skills are here), the
same in all regions: their skills move together, also in the finish. Fewer numbers are learned sooner, and are easier to read. `ars`
begins at 0.
"""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import member, stack
from asap.base.keys import host_generator
from asap.base.spec import TaskSet
from asap.config.schema import RUNNERS, SEARCH, SINGLE, Config
from asap.learn.convergence import has_converged
from asap.learn.state import Budget, Race, RunnerState, TrainState, with_zero_skills
from asap.policy.build import build_policy
from asap.policy.policy import ASAPPolicy
from asap.policy.score import parameters_of, with_parameters
from asap.policy.surgery import has_one_skill, with_one_skill
from asap.runs.events import Record

LEARNER = RUNNERS[0]
WORTH_OF_SINGLE = 0.25  # Of the range of what the runners have returned.
ROUNDING = 1e-6  # Shares of the budget are no exact numbers.
_RUNNERS = 11  # Id of the stream that further starts are drawn from.


class Racing:
    """Knows whose turn it is; without a race, all seeds are through with it."""

    def __init__(self, config: Config, tasks: TaskSet, record: Record):
        self.config, self.tasks, self.record = config, tasks, record
        self.names = config.run.race
        self.kinds = tuple(dict.fromkeys(map(kind_of, self.names)))
        self._again = len(
            self.names
        )  # The heat in which the best search runs again; behind it the best learner, and both.
        self.num_heats = self._again + (3 if len(self.kinds) > 1 else 0)

    # ---- Starts ----

    def begun(self, states: TrainState) -> TrainState:
        """All runners at their starts; the first one is what the training would start from without a race."""
        if not self.names:
            return states
        each = []
        for index in range(self.config.run.seeds):
            state = member(states, index)
            policies = self._policies(self.config.run.seed + index, state.policy)
            ties = [name != LEARNER and self._is_drawn for name in self.names]
            each.append(stack([runner_of(started(state, *own)) for own in zip(policies, ties)]))
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
        """Searches begin at 0. The first of the others begin with the policy that is there, as far as it fits: a search for a
        start may have found it. The rest are drawn, unless that policy was given."""
        found = []
        for number, name in enumerate(self.names):
            policy, is_first = first, name not in self.names[:number]
            if self._is_drawn and (not is_first or (name == SINGLE and not has_one_skill(first))):
                drawn = build_policy(self.config.policy, self.tasks.tasks, host_generator(seed, _RUNNERS, number))
                policy = with_parameters(first, jax.tree.map(np.asarray, parameters_of(drawn)))
            if name == SEARCH:
                policy = with_zero_skills(policy)
            found.append(with_one_skill(policy) if name != LEARNER and self._is_drawn else policy)
        return found

    @property
    def _is_drawn(self) -> bool:
        """Whether nobody has given a policy to begin with."""
        return not self.config.policy.rules and self.config.run.source is None

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

    def is_deciding(self, states: TrainState) -> Bool[np.ndarray, "*seeds"]:
        """Whether the best of both kinds are to play the episodes that decide."""
        if states.race is None or len(self.kinds) == 1:
            return np.zeros(np.shape(states.iteration), bool)
        return np.asarray(np.asarray(states.race.heat) == self._again + 2)

    def finalists(self, state: TrainState) -> tuple[ASAPPolicy, ASAPPolicy]:
        """What the best search and the best learner of one seed have come to; the learner is the one that has run last."""
        runner = self._best(scores(state.race.sums, state.race.counts))[SEARCH]
        search = jax.tree.map(lambda leaf: leaf[runner], state.race.runners)
        policy = search.policy if search.average is None else with_parameters(search.policy, search.average)
        return policy, state.outcome

    def decided(self, state: TrainState, returns: tuple[float, float]) -> TrainState:
        """With what the finalists have returned taken down."""
        sums, counts = np.array(state.race.sums), np.array(state.race.counts)
        sums[self._again + 2], counts[self._again + 2] = returns, 1.0
        return state.with_race(state.race._replace(sums=sums, counts=counts))

    def left(self, states: TrainState, left: Budget) -> Budget:
        """Of a stage, and in a race no more than of the heat."""
        if states.race is None:
            return left
        rest = np.clip(np.ceil(self._ends(states) - spent(states) - ROUNDING), 0, np.iinfo(np.int32).max)
        racing = self.is_on(states)
        own = (
            np.where(racing, np.minimum(most, more), most).astype(np.int32)
            for most, more in zip(left, (rest[..., 0], rest[..., 1]))
        )
        return left._replace(**dict(zip(("episodes", "steps"), own)))

    def moved_on(self, before: TrainState, after: TrainState) -> TrainState:
        """With what was returned since `before` taken down, and with the next runner where a heat is over."""
        racing = self.is_on(before)
        if not racing.any():
            return after
        race, ends = after.race, self._ends(before)
        late = ((spent(before) - race.since) / np.maximum(ends - race.since, 1)).max(-1) >= 0.5
        played = after.totals.episodes - before.totals.episodes, after.totals.returns - before.totals.returns
        sums, counts = np.array(race.sums), np.array(race.counts)
        for seed in np.flatnonzero(racing & ~self.is_deciding(before)):
            place = seed, race.heat[seed], int(late[seed])
            sums[place] += float(played[1][seed].sum())
            counts[place] += float(played[0][seed].sum())
        after = after.with_race(race._replace(sums=sums, counts=counts))
        is_out = (spent(after) >= ends - ROUNDING).any(-1) | self.is_deciding(before)
        converged = has_converged(np.asarray(after.monitor.movement), self.config.learn.convergence_tolerance)
        over = np.flatnonzero(racing & (is_out | converged))
        return self._changed(after, over) if len(over) else after

    def told(self, states: TrainState, seed: int) -> str:
        race = states.race
        number = 1 + int(race.runner[seed])
        if self.is_deciding(states)[seed]:
            return f"race: {self.names[number - 1]} against {SEARCH}"
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
        since[seeds] = spent(states)[seeds]
        for seed in seeds:
            found = scores(race.sums[seed], race.counts[seed])
            is_stuck = stuck(race.sums[seed], race.counts[seed])[self._best(found).get(LEARNER, 0)]
            heat[seed] = self._following(int(heat[seed]), found, bool(is_stuck))
            runner[seed] = self._runner(int(heat[seed]), found, race.sums[seed])
        changed = race._replace(heat=heat, runner=runner, since=since, runners=runners)
        for seed in seeds[heat[seeds] == self.num_heats]:
            self._announce(int(seed), changed)
        return self._loaded(states.with_race(changed), seeds)

    def _following(self, heat: int, found: np.ndarray, is_stuck: bool) -> int:
        """The heat after this one. A search that is behind does not run again, and then there is nothing to decide. Nor is
        there if it is ahead of learners that have nothing to go by."""
        best = self._best(found)
        if heat + 1 == self._again and len(self.kinds) > 1:
            if found[best[SEARCH]] < found[best[LEARNER]]:
                return self._again + 1
            if is_stuck and found[best[SEARCH]] > found[best[LEARNER]]:
                return self.num_heats
        if heat + 1 == self._again + 2 and (not self.config.run.pick or np.isneginf(found[self._again])):
            return self.num_heats
        return heat + 1

    def _runner(self, heat: int, found: np.ndarray, sums: np.ndarray) -> int:
        """Of a heat: first each in turn, then the best of each kind. Behind the last heat, the winner; of equal ones the learner."""
        best = self._best(found)
        if heat < self._again:
            return heat
        if len(self.kinds) == 1:
            return best[self.kinds[0]]
        if heat == self._again:
            return best[SEARCH]
        if heat < self.num_heats:
            return best[LEARNER]
        search, learner = found[self._again : self._again + 2] if np.isneginf(found[-1]) else sums[-1]
        if np.isneginf(found[self._again]):
            search, learner = found[best[SEARCH]], found[best[LEARNER]]
        return best[SEARCH if search > learner else LEARNER]

    def _best(self, found: np.ndarray) -> dict[str, int]:
        """The runner of each kind that was the best in its first heat. A single skill counts a little more: it is easier to
        read, and returns this early are of few episodes."""
        first = found[: self._again]
        known = first[np.isfinite(first)]
        bonus = WORTH_OF_SINGLE * float(np.ptp(known)) if len(known) else 0.0
        merits = [value + bonus * (name == SINGLE) for name, value in zip(self.names, first)]
        numbers = range(len(self.names))
        return {
            kind: max((r for r in numbers if kind_of(self.names[r]) == kind), key=lambda r: merits[r])
            for kind in self.kinds
        }

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
        found, first = scores(race.sums[seed], race.counts[seed]), len(self.names)
        again = [float(value) for value in found[first : first + 2].round(3) if np.isfinite(value)]
        event = {"kind": "race", "seed": self.config.run.seed + seed, "runners": list(self.names)}
        event |= {"winner": int(race.runner[seed]), "returns": found[:first].round(3).tolist(), "again": again}
        if self.num_heats > first and np.isfinite(found[-1]):
            event["decided"] = dict(zip((SEARCH, LEARNER), race.sums[seed][-1].round(3).tolist()))
        self.record.append(event)

    def _ends(self, states: TrainState) -> Float[np.ndarray, "*seeds 2"]:
        """Episodes and steps at which the heat of each seed is over; that of the learner that runs again leaves what the
        decision, the finish and the pick take."""
        run, race = self.config.run, states.race
        whole = np.asarray(Budget.of(self.config)[:2], float)
        heat, since = np.asarray(race.heat)[..., None], np.asarray(race.since, float)
        shares = np.where(heat == self._again, 2 * run.heat, run.heat)
        if len(self.kinds) == 1:
            return since + run.heat * whole
        shares = np.where(heat == self._again + 2, run.pick, shares)
        last = np.maximum(since + run.heat * whole, (1 - run.finish - 2 * run.pick) * whole)
        return np.where(heat == self._again + 1, last, since + shares * whole)


def is_none(node: Any) -> bool:
    return node is None


def runner_of(states: TrainState) -> RunnerState:
    """What belongs to a runner: all but what is counted."""
    return RunnerState(*(getattr(states, name) for name in RunnerState._fields))


def kind_of(name: str) -> str:
    """Of a runner: how it learns."""
    return SEARCH if name == SEARCH else LEARNER


def started(state: TrainState, policy: ASAPPolicy, is_tied: bool) -> TrainState:
    """The state of one seed before anything was learned, with another policy."""
    state = eqx.tree_at(lambda s: (s.policy, s.tied), state, (policy, np.bool_(is_tied)))
    return state if state.average is None else eqx.tree_at(lambda s: s.average, state, parameters_of(policy))


def spent(states: TrainState) -> Int[np.ndarray, "*seeds 2"]:
    return np.stack([np.asarray(states.totals.episodes).sum(-1), np.asarray(states.env_steps)], -1).astype(np.int64)


def stuck(sums: np.ndarray, counts: np.ndarray) -> Bool[np.ndarray, "heats"]:
    """Whether the mean return of a heat was the same in both halves: then most likely all returns were."""
    means = sums / np.maximum(counts, 1)
    return (counts > 0).all(-1) & (means[:, 0] == means[:, 1])


def scores(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The mean return of each heat in its last half; where no episode ended there, in the first; -infinity before."""
    means = np.where(counts > 0, sums / np.maximum(counts, 1), -np.inf)
    return np.where(counts[:, 1] > 0, means[:, 1], means[:, 0])
