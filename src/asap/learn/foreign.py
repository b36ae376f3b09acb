"""Training on an environment that is not ours: workers play complete episodes on the host, compiled updates learn from them.

What an update sees is a function of ids: episode n of a seed is the same whoever plays it, a batch takes episodes in the
order of their numbers, and how many it takes is decided by the episodes themselves. So any number of workers of any kind
gives the same bits.
"""

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np

from asap.base.arrays import compiled
from asap.base.episodes import EVALUATION, SEARCH, TRAINING, EpisodeId, Played
from asap.base.keys import host_generator
from asap.config.schema import Config
from asap.envs.gymnasium.task import HostedTask
from asap.evaluate import Evaluation
from asap.experience.episode_warnings import Remarks
from asap.learn.advantage import new_critic
from asap.learn.convergence import start_monitor
from asap.learn.episode_batches import packed, totals_of, update_from_episodes
from asap.learn.search import Found, search
from asap.learn.train import Metrics, TrainState, is_active
from asap.learn.updates import optimizer_of
from asap.policy.build import build_policy
from asap.policy.plan import plan_of
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import Moments, no_moments, rescaled, shift_and_scale, with_observations
from asap.policy.score import parameters_of
from asap.workers.dispatch import Dispatcher
from asap.workers.work import Work

_POLICY, _CRITIC = 0, 1  # Ids of what is drawn on the host, as in `asap.learn.train`.
_CANDIDATES = 8
SPAN = 2.0  # Scaled observations lie mostly within this many deviations; the critic's ramps are spread over them.


def template(config: Config, task: HostedTask) -> TrainState:
    """States of all seeds, for their shapes."""
    seeds, moments = range(config.run.seed, config.run.seed + config.run.seeds), no_moments(len(task.inputs))
    return _stacked([begin(config, seed, built_policy(config, task, seed), moments, []) for seed in seeds])


def built_policy(config: Config, task: HostedTask, seed: int) -> ASAPPolicy:
    return build_policy(config.policy, (task,), host_generator(seed, _POLICY))


def begin(config: Config, seed: int, policy: ASAPPolicy, moments: Moments, episodes: list[Played]) -> TrainState:
    """One seed before its first update; `episodes` are what the search for the policy has cost."""
    learn, span = config.learn, np.full(moments.mean.shape, SPAN, np.float32)
    parameters, totals = parameters_of(policy), totals_of(episodes)
    return TrainState(
        policy=policy,
        critic=new_critic(-span, span, 0, host_generator(seed, _CRITIC), learn.critic_features, learn.critic_length),
        optimizer=optimizer_of(learn).init(parameters),
        lanes=None,
        monitor=start_monitor(parameters),
        totals=totals,
        iteration=np.int32(0),
        env_steps=np.int32(totals.steps.sum()),
        spoiled=np.zeros((), bool),
        moments=moments,
        average=None if learn.averaging is None else parameters,
    )


class ForeignTrainer:
    """As `asap.learn.train.Trainer`: all seeds of a config, chunk by chunk."""

    def __init__(self, config: Config, task: HostedTask, dispatcher: Dispatcher, notice: Callable[[str], None]):
        self.config, self.task, self.dispatcher = config, task, dispatcher
        self._remarks = Remarks(notice, config.env.allow_one_step)
        self.seeds = range(config.run.seed, config.run.seed + config.run.seeds)
        discount = task.spec.discount if config.learn.discount is None else config.learn.discount
        self._update = compiled(functools.partial(update_from_episodes, config, discount))
        self._numbers = itertools.count()  # Of chunks: they tell answers apart and have no part in the result.
        self._recent: list[list[Played]] = [[] for _ in self.seeds]
        self._compiled: set[tuple[int, ...]] = set()
        self.compile_seconds = 0.0

    def template(self) -> TrainState:
        return template(self.config, self.task)

    def compile(self, meanwhile: Callable[[], None]) -> None:
        """Programs are compiled when the first batch of their size has come; the time counts from then on."""
        meanwhile()

    def start(self, changed: Callable[[ASAPPolicy], ASAPPolicy] = lambda policies: policies) -> TrainState:
        """All seeds before their first update: where the config asks for it, from the best of some that were drawn."""
        if not self.config.run.candidates:
            built = changed(_stacked([built_policy(self.config, self.task, seed) for seed in self.seeds]))
            policies = [_seed(built, index) for index in range(len(self.seeds))]
            self._recent = [
                self.played(policy, seed, self.config.run.eval_episodes, False)
                for policy, seed in zip(policies, self.seeds)
            ]
            nothing = no_moments(self._size), []
            return _stacked([begin(self.config, *parts, *nothing) for parts in zip(self.seeds, policies)])
        found = [self._search(seed) for seed in self.seeds]
        self._recent = [one.own for one in found]
        policies = changed(_stacked([one.policy for one in found]))
        return _stacked([
            begin(self.config, seed, _seed(policies, index), one.moments, one.episodes)
            for index, (seed, one) in enumerate(zip(self.seeds, found))
        ])  # fmt: skip

    def advance(self, states: TrainState) -> tuple[TrainState, Metrics]:
        """`chunk` updates of every seed; metrics have axes (chunk, seeds, ...)."""
        each, metrics = [_seed(states, index) for index in range(len(self.seeds))], []
        for _ in range(self.config.run.chunk):
            results = self._improved(each)
            each = [state for state, _ in results]
            metrics.append(_stacked([metric for _, metric in results]))
        return _stacked(each), _stacked(metrics)

    def look(self, states: TrainState) -> Evaluation:
        """What was played last in training: a foreign environment may be too slow to play more for a curve alone."""
        return _joined([evaluation_of(episodes, states.policy.num_skills) for episodes in self._recent])

    def evaluate(self, policies: ASAPPolicy, num_episodes: int) -> Evaluation:
        each = [
            self.played(_seed(policies, index), seed, num_episodes, self.config.run.deterministic)
            for index, seed in enumerate(self.seeds)
        ]
        return _joined([evaluation_of(episodes, policies.num_skills) for episodes in each])

    def played(self, policy: ASAPPolicy, seed: int, num_episodes: int, deterministic: bool) -> list[Played]:
        """The first so many episodes of the stream for evaluation."""
        return self._play(self._works(policy, seed, EVALUATION, range(num_episodes), deterministic))

    def close(self) -> None:
        self.dispatcher.close()

    @property
    def _size(self) -> int:
        return len(self.task.spec.observation_names)

    def _search(self, seed: int) -> Found:
        numbers, run = itertools.count(), self.config.run
        budget = run.episodes * self.task.spec.horizon if run.steps is None else run.steps
        most = int(run.search_share * budget)

        def play(policies: Sequence[ASAPPolicy]) -> list[Played]:
            works = [work for policy in policies for work in self._works(policy, seed, SEARCH, [next(numbers)])]
            return self._play(works)

        return search(self.config.policy, self.task, (seed, _CANDIDATES), play, run.candidates, most, budget)

    def _collected(self, states: Sequence[TrainState]) -> list[list[Played]]:
        """A batch for every seed that goes on: rounds of episodes until there are enough steps."""
        learn = self.config.learn
        batches: list[list[Played]] = [[] for _ in states]
        going_on = [bool(is_active(self.config, state)) for state in states]

        def missing() -> list[int]:
            return [
                i for i, batch in enumerate(batches) if going_on[i] and sum(e.length for e in batch) < learn.batch_steps
            ]

        while wanted := missing():
            works = []
            for i in wanted:
                first = int(states[i].totals.episodes.sum()) + len(batches[i])
                works.append(
                    self._works(states[i].policy, self.seeds[i], TRAINING, range(first, first + learn.round_episodes))
                )
            episodes = iter(self._play([work for some in works for work in some]))
            for i in wanted:
                batches[i] += itertools.islice(episodes, learn.round_episodes)
        return batches

    def _improved(self, states: Sequence[TrainState]) -> list[tuple[TrainState, Metrics]]:
        batches = self._collected(states)
        self._recent = [batch or before for batch, before in zip(batches, self._recent)]
        return [self._improved_by(state, batch) for state, batch in zip(states, batches)]

    def _improved_by(self, state: TrainState, episodes: list[Played]) -> tuple[TrainState, Metrics]:
        """One update; the observations it was made from count in the scaling of the next."""
        scaling = shift_and_scale(state.moments)
        if not episodes:  # A seed that has stopped: whatever it is given, it stays as it is.
            return self._update(state, packed([self._no_episode]), totals_of([]), *scaling)
        batch = packed(episodes)
        began, is_new = time.monotonic(), batch.reward.shape not in self._compiled
        state, metrics = jax.tree.map(np.asarray, self._update(state, batch, totals_of(episodes), *scaling))
        if is_new:
            self._compiled.add(batch.reward.shape)
            self.compile_seconds += time.monotonic() - began
        if not self.task.is_scaled:
            return state, metrics
        moments = with_observations(state.moments, np.concatenate([episode.observations for episode in episodes]))
        after = eqx.tree_at(lambda s: (s.policy, s.moments), state, (rescaled(state.policy, moments), moments))
        if state.average is not None:
            after = eqx.tree_at(lambda s: s.average, after, parameters_of(rescaled(state.outcome, moments)))
        return after, metrics

    @property
    def _no_episode(self) -> Played:
        size, spec = self._size, self.task.spec
        actions = np.zeros((1, spec.num_actions), np.float32) if spec.continuous else np.zeros(1, np.int32)
        nothing = np.zeros((2, size), np.float32)
        return Played(
            EpisodeId(0, TRAINING, 0), nothing, np.zeros(1, np.int32), actions, np.zeros(1, np.float32), True, None
        )

    def _works(
        self, policy: ASAPPolicy, seed: int, stream: int, numbers: Sequence[int], deterministic: bool = False
    ) -> list[Work]:
        plan, size = plan_of(policy, self._size), self.config.learn.episodes_per_chunk
        chunks = (numbers[i : i + size] for i in range(0, len(numbers), size))
        return [
            Work(next(self._numbers), plan, tuple(EpisodeId(seed, stream, number) for number in chunk), deterministic)
            for chunk in chunks
        ]

    def _play(self, works: list[Work]) -> list[Played]:
        episodes = [episode for finished in self.dispatcher.play(works) for episode in finished.played]
        self._remarks.look(episodes)
        return episodes


def evaluation_of(episodes: Sequence[Played], num_skills: int) -> Evaluation:
    """One entry per episode, one per skill."""
    none = np.zeros(0, np.int32)
    skills = [episode.skills for episode in episodes]
    starts = [np.concatenate([run[:1], run[1:][run[1:] != run[:-1]]]) for run in skills]
    return Evaluation(
        returns=np.asarray([episode.total for episode in episodes]),
        success=np.asarray([np.nan if episode.success is None else episode.success for episode in episodes], float),
        lengths=np.asarray([episode.length for episode in episodes]),
        skill_steps=np.bincount(np.concatenate([none, *skills]), minlength=num_skills),
        skill_starts=np.bincount(np.concatenate([none, *starts]), minlength=num_skills),
    )


def _joined(evaluations: list[Evaluation]) -> Evaluation:
    """Axes (seeds, tasks, ...); seeds may have played different numbers of episodes: what is missing is NaN."""
    most = max(len(one.returns) for one in evaluations)

    def padded(values: np.ndarray) -> np.ndarray:
        return np.concatenate([values.astype(float), np.full(most - len(values), np.nan)])

    padded_ones = [
        one._replace(**{name: padded(getattr(one, name)) for name in ("returns", "success", "lengths")})
        for one in evaluations
    ]
    return jax.tree.map(lambda leaf: leaf[:, None], _stacked(padded_ones))


def _stacked(trees: list) -> Any:
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def _seed(tree: Any, index: int) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf[index]), tree)
