"""Experience of environments that are played on the host: workers bring complete episodes, compiled updates learn from
them.

What an update sees is a function of ids: episode n of a seed is the same whoever plays it, a batch takes episodes in
the order of their numbers, and how many it takes is decided by the episodes themselves. So any number of workers of any
kind gives the same bits. Episodes stand one after the other in one lane and are filled up to one of a few sizes, so
that few programs are compiled.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Int

from asap.base.arrays import member
from asap.base.episodes import EVALUATION, TRAINING, EpisodeId, Played
from asap.base.errors import RunError
from asap.base.keys import Key
from asap.base.spec import TaskSet
from asap.base.types import EpisodeTotals, Transition
from asap.config.schema import Config
from asap.experience.minibatches import Lanes
from asap.experience.protocol import Batch, Counters, EpisodeIds, Evaluation, OnProgress, ignore_progress
from asap.policy.build import plan_of
from asap.policy.host import Plan
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.scaling import moments_of
from asap.workers.dispatch import Dispatcher
from asap.workers.grouping import Grouping

SMALLEST, GROWTH = 1024, 2
MANY_UPDATES = 16
STEPS_PER_EPISODE = 256  # Of a batch: as many episodes make a round.
ENOUGH = 200  # Episodes, before anything is said of all of them.
MOST_OF_ONE_STEP = 0.99


class Hosted:
    """Seed by seed: a common padding would make one seed's bits depend on the others."""

    together, plays = False, True
    most_updates = least_episodes = 1

    def __init__(
        self,
        config: Config,
        tasks: TaskSet,
        dispatcher: Dispatcher,
        notice: Callable[[str], None],
        watch: Callable[[int], None] | None = None,
        record: Callable[[dict[str, Any]], None] | None = None,
    ):
        """`watch` looks after each update whether the environments still are what they were; `record` takes events."""
        self.config, self.tasks, self._dispatcher, self._watch = config, tasks, dispatcher, watch
        self._warnings = EpisodeWarnings(notice, config.env.allow_one_step)
        learn = config.learn
        self._round = learn.round_episodes or max(2, learn.batch_steps // STEPS_PER_EPISODE)
        self._seeds = range(config.run.seed, config.run.seed + config.run.seeds)
        self._grouping = Grouping(tuple(task.hosted_source for task in tasks.tasks), notice, record)
        self._recent: list[list[Played]] = [[] for _ in self._seeds]

    def begin(self, key: Key) -> None:
        """Nothing is kept."""

    def feed(self, policies: ASAPPolicy, counters: Counters, active: Bool[np.ndarray, "seeds"]) -> list[Batch | None]:
        """A batch for every seed that goes on: rounds of episodes until there are enough."""
        plans, batches = self.plans(policies), [[] for _ in self._seeds]
        playing = [i for i, is_active in enumerate(active) if is_active]
        while sizes := {i: size for i in playing if (size := self._round_size(batches[i], counters, i))}:
            ids = {i: self._training_ids(i, int(counters.episodes[i]) + len(batches[i]), sizes[i]) for i in sizes}
            episodes = self.play([(plans[i], one) for i in ids for one in ids[i]], False)
            for i, size in sizes.items():
                batches[i] += itertools.islice(episodes, size)
        self._recent = [batch or before for batch, before in zip(batches, self._recent)]
        return [packed(batch, self.tasks) if batch else None for batch in batches]

    def collect(self, key: Key, policy: ASAPPolicy, carry: None, fed: Batch) -> tuple[None, Batch]:
        return None, fed

    def evaluate(
        self,
        policies: ASAPPolicy,
        ids: EpisodeIds,
        num_episodes: int,
        deterministic: bool,
        on_progress: OnProgress = ignore_progress,
    ) -> Evaluation:
        planned, first = [], np.broadcast_to(np.asarray(ids.first), len(ids.seeds))
        for plan, seed, begin in zip(self.plans(policies), ids.seeds, first.tolist()):
            numbers = itertools.product(range(self.tasks.size), range(begin, begin + num_episodes))
            planned += [(plan, EpisodeId(seed, ids.stream, number, task)) for task, number in numbers]
        episodes, count = self.play(planned, deterministic, on_progress), self.tasks.size * num_episodes
        each = [list(itertools.islice(episodes, count)) for _ in ids.seeds]
        return evaluation_of(each, self.tasks, policies.num_skills)

    def look(self, policies: ASAPPolicy, update: int) -> Evaluation:
        """What was played last in training: an environment may be too slow to play more for a curve alone."""
        if not update or not any(self._recent):  # From logged data nothing is played to learn.
            count = self.config.run.eval_episodes
            return self.evaluate(policies, EpisodeIds(self._seeds, EVALUATION), count, deterministic=False)
        if self._watch is not None:
            self._watch(update)
        return evaluation_of(self._recent, self.tasks, policies.num_skills, observed=False)

    def random_states(self) -> None:
        """An environment may be too slow to play for this alone."""

    def known_moments(self) -> None:
        """They are learned as they come."""

    def close(self) -> None:
        self._dispatcher.close()

    def _round_size(self, batch: list[Played], counters: Counters, index: int) -> int:
        """Episodes that a batch is to get next; 0 when it is enough.

        In the first updates no episode begins when the budget is used up, and a rest that is less than half a batch
        joins the batch before. After many updates the last batch is a small part of the budget, and is played whole.
        """
        size, is_enough = self._round, self._is_enough(batch)
        if counters.left is None or counters.iterations[index] >= MANY_UPDATES:
            return 0 if is_enough else size
        num_steps = sum(episode.length for episode in batch)
        episodes, steps = (int(left[index]) - used for left, used in zip(counters.left, (len(batch), num_steps)))
        if min(episodes, steps) <= 0 or (is_enough and 2 * episodes >= len(batch) and 2 * steps >= num_steps):
            return 0
        # As many as are sure to begin before the budget is used up, however long they are.
        return min(size, episodes, (steps - 1) // self.tasks.spec.horizon + 1)

    def _is_enough(self, batch: list[Played]) -> bool:
        learn = self.config.learn
        if learn.learner == "reinforce":  # A mean over episodes, long or short.
            return len(batch) >= learn.batch_episodes
        return sum(episode.length for episode in batch) >= learn.batch_steps

    def _training_ids(self, index: int, first: int, count: int) -> Iterator[EpisodeId]:
        """m ~ mu, decided by the id."""
        for number in range(first, first + count):
            one = EpisodeId(self._seeds[index], TRAINING, number)
            if self.tasks.size > 1:
                one = one._replace(task=int((one.uniform() >= np.cumsum(self.tasks.shares)[:-1]).sum()))
            yield one

    def plans(self, policies: ASAPPolicy) -> list[Plan]:
        size, count = len(self.tasks.spec.observation_names), policies.partition.beta.shape[0]
        numbers = self.tasks.descriptors, [task.drawn for task in self.tasks.tasks]
        return [plan_of(member(policies, index), size, *numbers) for index in range(count)]

    def play(
        self, planned: list[tuple[Plan, EpisodeId]], deterministic: bool, on_progress: OnProgress = ignore_progress
    ) -> Iterator[Played]:
        works = self._grouping.works(planned, deterministic)
        episodes = [episode for finished in self._dispatcher.play(works, on_progress) for episode in finished.played]
        self._warnings.look(episodes)
        return iter(episodes)


def batch_size(num_steps: int) -> int:
    """The size that so many steps are filled up to."""
    size = SMALLEST
    while size < num_steps:
        size *= GROWTH
    return size


def packed(episodes: Sequence[Played], tasks: TaskSet) -> Batch:
    """One lane with one step after the other; padding does not count."""
    num_steps = sum(episode.length for episode in episodes)
    at = Lanes([[episode.length for episode in episodes]], batch_size(num_steps), 1)
    start = np.int32([NO_SKILL])
    task = at.steps([np.repeat(np.int32(episode.episode.task), episode.length) for episode in episodes])
    m = [tasks.descriptor_of(episode.episode) for episode in episodes] if tasks.has_ranges else []
    own = [np.tile(numbers, (episode.length, 1)) for numbers, episode in zip(m, episodes)]
    steps = Transition(
        observation=at.steps([episode.observations[:-1] for episode in episodes]),
        descriptor=at.steps(own) if own else np.moveaxis(tasks.descriptors[task], -1, 0),
        previous_skill=at.steps([np.concatenate([start, episode.skills[:-1]]) for episode in episodes]),
        skill=at.steps([episode.skills for episode in episodes]),
        action=at.steps([episode.actions for episode in episodes]),
        reward=at.steps([episode.rewards for episode in episodes]),
        terminated=at.ends([episode.terminated for episode in episodes]),
        truncated=at.ends([not episode.terminated for episode in episodes]),
        next_observation=at.steps([episode.observations[1:] for episode in episodes]),
        of_task=None if tasks.size == 1 else task == np.arange(tasks.size)[:, None, None],
        counts=at.counts,
        elapsed=at.steps([np.arange(episode.length, dtype=np.int32) for episode in episodes]),
    )
    return Batch(totals_of(episodes, tasks.size), np.int32(num_steps), steps)


def totals_of(episodes: Sequence[Played], num_tasks: int) -> EpisodeTotals:
    def summed(values: Sequence[float], kind: type) -> np.ndarray:
        tasks = [episode.episode.task for episode in episodes]
        return np.bincount(tasks, weights=values, minlength=num_tasks).astype(kind)

    return EpisodeTotals(
        episodes=summed([1.0] * len(episodes), np.int32),
        returns=summed([episode.total for episode in episodes], np.float32),
        successes=summed([float(bool(episode.success)) for episode in episodes], np.int32),
        steps=summed([episode.length for episode in episodes], np.int32),
    )


def evaluation_of(
    each: Sequence[Sequence[Played]], tasks: TaskSet, num_skills: int, observed: bool = True
) -> Evaluation:
    """Episodes of each policy; policies may have played different numbers of episodes: what is missing is NaN."""
    groups = [[[e for e in episodes if e.episode.task == m] for m in range(tasks.size)] for episodes in each]
    most = max((len(group) for per_task in groups for group in per_task), default=0)

    def table(value: Callable[[Played], float]) -> np.ndarray:
        rows = [[[*map(value, group), *[np.nan] * (most - len(group))] for group in per_task] for per_task in groups]
        return np.asarray(rows, float).reshape(len(groups), tasks.size, most)

    def counted(values: Callable[[Played], Int[np.ndarray, "n"]]) -> np.ndarray:
        none = np.zeros(0, np.int32)
        rows = [[np.concatenate([none, *map(values, group)]) for group in per_task] for per_task in groups]
        named = [[row[row != NO_SKILL] for row in per_task] for per_task in rows]
        return np.asarray([[np.bincount(row, minlength=num_skills) for row in per_task] for per_task in named])

    shown = [episodes for episodes in each if len(episodes)] if observed else []
    seen = [np.concatenate([e.observations[:-1] for e in episodes]) for episodes in shown]
    return Evaluation(
        returns=table(lambda episode: episode.total),
        discounted=table(lambda episode: discounted(episode, tasks.spec.discount)),
        success=table(lambda episode: np.nan if episode.success is None else episode.success),
        lengths=table(lambda episode: episode.length),
        skill_steps=counted(lambda episode: episode.skills),
        skill_starts=counted(lambda episode: episode.skills[np.flatnonzero(np.diff(episode.skills, prepend=NO_SKILL))]),
        seen=[moments_of(observations.T) for observations in seen] if tasks.is_scaled and observed else None,
        observations=np.concatenate(seen) if seen else None,
    )


def discounted(episode: Played, discount: float) -> float:
    return float(episode.rewards.astype(float) @ discount ** np.arange(episode.length))


class EpisodeWarnings:
    """What the user should know about the episodes that come in, said once: notes of the checks, and whether they teach
    anything."""

    def __init__(self, notice: Callable[[str], None], allows_one_step: bool):
        self._notice, self._allows_one_step = notice, allows_one_step
        self._said: set[str] = set()
        self._episodes = self._of_training = self._of_one_step = 0
        self._least, self._most = math.inf, -math.inf

    def look(self, episodes: Sequence[Played]) -> None:
        """RunError where all episodes end as they begin."""
        for episode in episodes:
            for note in episode.notes:
                self._say(note)
            self._episodes += 1
            self._of_one_step += episode.length == 1
            if episode.episode.stream == TRAINING:
                self._of_training += 1
                self._least, self._most = min(self._least, episode.total), max(self._most, episode.total)
        is_judged = self._episodes >= ENOUGH and not self._allows_one_step
        if is_judged and self._of_one_step / self._episodes > MOST_OF_ONE_STEP:
            what = f"{self._of_one_step} of {self._episodes} episodes ended at their first step"
            cure = "look at it with `asap check`, or allow it by --set env.allow_one_step=true"
            raise RunError("env", what, cure=cure)
        if self._of_training >= ENOUGH and self._least == self._most:
            self._say(f"no learning signal: every episode so far had a return of {self._least:g}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._notice(text)
