"""Counted play of environments on the host: all seeds in step, so that one compiled call chooses for all of them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import compiled
from asap.base.episodes import COLLECTION, EVALUATION, TRAINING, EpisodeId, Played
from asap.base.keys import Key, fold, root
from asap.base.spec import TaskSet
from asap.base.types import EpisodeTotals, Transition
from asap.envs.gymnasium.checked_env import CheckedEnv
from asap.envs.gymnasium.make import HostedSource
from asap.experience.compiled_play import LEARNING, PLAYING, program
from asap.experience.counted_play import Running, State, StepCounter, StepLearner, chunk_sizes, over_candidates
from asap.experience.hosted import evaluation_of, totals_of
from asap.experience.protocol import Evaluation
from asap.experience.rollout import Actor
from asap.policy.policy import NO_SKILL


class Ahead(NamedTuple):
    """What the learners have chosen; it stays in JAX's arrays from step to step."""

    states: State  # After the choice.
    previous_skill: Int[Array, "seeds"]
    skill: Int[Array, "seeds"]
    action: Int[Array, "seeds"] | Float[Array, "seeds A"]
    steps: Int[Array, ""]


class HostedPlace(NamedTuple):
    """Where the seeds are: what they observe, the skill in force, steps and episodes so far."""

    observation: Float[np.ndarray, "seeds O"]
    previous_skill: Int[np.ndarray, "seeds"]
    steps: int
    episodes: Int[np.ndarray, "seeds"]


class News(NamedTuple):
    """What came of a step of every seed, on its way to the learners."""

    next_observation: Float[np.ndarray, "seeds O"]  # The true one.
    outcome: Float[np.ndarray, "seeds 3"]  # Reward, terminated, truncated: each array that crosses costs time.
    observation: Float[np.ndarray, "seeds O"]  # To act on next: of a new episode, where one has ended.

    @property
    def ended(self) -> Bool[np.ndarray, "seeds"] | Bool[Array, "seeds"]:
        return (self.outcome[:, 1:] > 0).any(1)


class HostedPlay:
    """An environment for each seed, and one more for each candidate, so as not to disturb the episodes of a learner."""

    def __init__(self, tasks: TaskSet, sources: Sequence[HostedSource], seeds: Sequence[int], counter: StepCounter):
        self.seeds, self.counter = tuple(map(int, seeds)), counter
        self._tasks, self._source = tasks, sources[0]
        self._descriptor = self._described(len(self.seeds))
        self._learning: list[CheckedEnv] = []
        self._playing: list[CheckedEnv] = []
        self._rounds, self._tally = 0, Tally(len(self.seeds))

    def learn(
        self,
        learner: StepLearner,
        num_steps: int | None = None,
        running: Running | None = None,
        active: Bool[np.ndarray, "seeds"] | None = None,
        start: State | None = None,
    ) -> Running:
        counted = np.ones(len(self.seeds), bool) if active is None else np.asarray(active)
        envs, keys = self._envs(self._learning, len(self.seeds)), self._keys(self.seeds, LEARNING)
        of_seeds = jax.device_put((jax.vmap(lambda key: fold(key, 2))(keys), self._descriptor))
        programs, total = programs_of(learner), num_steps
        if total is None:
            total = int(self.counter.left[counted].min())
        state, place = self._begun(envs, keys, programs, start) if running is None else running
        if not total:
            return Running(state, place)
        x, skill, steps, episodes = place
        ahead, left = programs.choose(*of_seeds, state, x, skill, np.int32(steps)), total
        for size in chunk_sizes(total):
            for _ in range(size):
                news, left = self._one_step(envs, as_actions(ahead.action), episodes), left - 1
                arguments, x = (*of_seeds, ahead, x, news), news.observation
                episodes = episodes + news.ended
                if left:
                    ahead = programs.learn_and_choose(*arguments)
            self.counter.add(np.full(len(self.seeds), size), self._tally.take(), counted)
        skill = np.where(news.ended, NO_SKILL, np.asarray(ahead.skill)).astype(np.int32)
        return Running(programs.learn(*arguments), HostedPlace(x, skill, steps + total, episodes))

    def play(
        self,
        actors: Actor,
        num_episodes: int,
        active: Bool[np.ndarray, "seeds"] | None = None,
        alike: Sequence[int] | None = None,
    ) -> tuple[Transition, EpisodeTotals]:
        counted = np.ones(len(self.seeds), bool) if active is None else np.asarray(active)
        numbers = np.zeros(1, int) if alike is None else np.asarray(alike)
        firsts, apart = self._rounds + num_episodes * numbers, (len(self.seeds), len(numbers))
        self._rounds += num_episodes * (int(numbers.max()) + 1)
        rows = actors if alike is None else jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), actors)
        begins = [EpisodeId(seed, COLLECTION, int(first)) for seed in self.seeds for first in firsts]
        each = self._episodes(rows, begins, num_episodes, np.repeat(counted, len(numbers)))
        totals = EpisodeTotals(*map(np.stack, zip(*(totals_of(episodes, 1) for episodes in each))))
        steps = self._stacked(each, num_episodes)
        by_candidate = EpisodeTotals(*(leaf.reshape(*apart, -1) for leaf in totals))
        of_seeds = over_candidates(by_candidate)
        self.counter.add(of_seeds.steps.sum(-1), of_seeds, counted)
        if alike is None:
            return steps, totals
        return jax.tree.map(lambda leaf: leaf.reshape(*apart, *leaf.shape[1:]), steps), by_candidate

    def evaluate(self, actors: Actor, num_episodes: int, num_skills: int) -> Evaluation:
        begins = [EpisodeId(seed, EVALUATION, 0) for seed in self.seeds]
        each = self._episodes(actors, begins, num_episodes, np.ones(len(begins), bool))
        return evaluation_of(each, self._tasks, num_skills)

    def close(self) -> None:
        for env in (*self._learning, *self._playing):
            env.close()

    def _envs(self, kept: list[CheckedEnv], count: int) -> list[CheckedEnv]:
        while len(kept) < count:
            kept.append(CheckedEnv(*self._source))
        return kept[:count]

    def _keys(self, seeds: Sequence[int], stream: int) -> Key:
        keys = jax.tree.map(lambda *words: np.stack(words), *map(root, seeds))
        return jax.vmap(lambda key: fold(key, stream))(keys)

    def _described(self, count: int) -> Float[np.ndarray, "rows Z"]:
        return np.tile(self._tasks.descriptors[0], (count, 1))

    def _begun(self, envs: list[CheckedEnv], keys: Key, programs: "Programs", start: State | None) -> Running:
        x = np.stack([env.reset(EpisodeId(seed, TRAINING, 0)) for env, seed in zip(envs, self.seeds)])
        none = np.full(len(self.seeds), NO_SKILL, np.int32)
        states = programs.begin(keys) if start is None else start
        return Running(states, HostedPlace(x, none, 0, np.zeros(len(self.seeds), np.int64)))

    def _one_step(self, envs: list[CheckedEnv], actions: list[Any], episodes: Int[np.ndarray, "seeds"]) -> News:
        """Every seed steps."""
        shape = len(envs), len(self._tasks.spec.observation_names)
        news = News(np.empty(shape, np.float32), np.empty((len(envs), 3), np.float32), np.empty(shape, np.float32))
        for index, env in enumerate(envs):
            x, reward, ended = env.step(actions[index])
            news.next_observation[index] = x
            news.outcome[index] = reward, env.terminated, ended and not env.terminated
            self._tally.add(index, reward)
            if ended:
                self._tally.end(index, bool(env.success))
                x = env.reset(EpisodeId(self.seeds[index], TRAINING, int(episodes[index]) + 1))
            news.observation[index] = x
        return news

    def _episodes(
        self, actors: Actor, begins: Sequence[EpisodeId], count: int, active: Bool[np.ndarray, "rows"]
    ) -> list[list[Played]]:
        """Whole episodes of every active row from its first on, one after the other, all rows in step."""
        envs, choose, done = self._envs(self._playing, len(begins)), program(_choose), [[] for _ in begins]
        keys, m = self._keys([one.seed for one in begins], PLAYING + begins[0].stream), self._described(len(begins))
        going = [Recorder() if is_active else None for is_active in active]
        x = np.zeros((len(envs), len(self._tasks.spec.observation_names)), np.float32)
        previous, numbers = np.full(len(envs), NO_SKILL, np.int32), np.int32([one.number for one in begins])
        for index, recorder in enumerate(going):
            if recorder is not None:
                x[index] = recorder.begin(envs[index], begins[index])
        elapsed = np.zeros(len(envs), np.int32)
        while any(recorder is not None for recorder in going):
            skill, action = choose(actors, keys, numbers, elapsed, x, m, previous)
            skills, actions = np.asarray(skill), as_actions(action)
            for index, recorder in enumerate(going):
                if recorder is None:
                    continue
                x[index], ended = recorder.step(envs[index], int(skills[index]), actions[index])
                previous[index], elapsed[index] = skills[index], elapsed[index] + 1
                if ended:
                    done[index].append(recorder.played(envs[index]))
                    previous[index], elapsed[index], numbers[index] = NO_SKILL, 0, numbers[index] + 1
                    if len(done[index]) == count:
                        going[index] = None
                    else:
                        x[index] = recorder.begin(envs[index], begins[index]._replace(number=int(numbers[index])))
        return done

    def _stacked(self, each: list[list[Played]], num_episodes: int) -> Transition:
        """With room for the longest episodes there can be: shapes do not depend on what was played."""
        room, spec = (len(each), self._tasks.spec.horizon, num_episodes), self._tasks.spec
        numbers = (room[0], spec.num_actions, *room[1:]) if spec.continuous else room
        x = np.zeros((2, room[0], len(spec.observation_names), *room[1:]), np.float32)
        skill, action = (
            np.full((2, *room), NO_SKILL, np.int32),
            np.zeros(numbers, np.float32 if spec.continuous else np.int32),
        )
        reward, ends, counts = np.zeros(room, np.float32), np.zeros((2, *room), bool), np.zeros(room, bool)
        for s, episodes in enumerate(each):
            for n, episode in enumerate(episodes):
                t = episode.length
                x[0, s, :, :t, n], x[1, s, :, :t, n] = episode.observations[:-1].T, episode.observations[1:].T
                skill[0, s, 1:t, n], skill[1, s, :t, n] = episode.skills[:-1], episode.skills
                action[s, ..., :t, n] = episode.actions.T
                reward[s, :t, n], counts[s, :t, n] = episode.rewards, True
                ends[:, s, t - 1, n] = episode.terminated, not episode.terminated
        m = self._described(room[0])[:, :, None, None]
        m = np.broadcast_to(m, (*m.shape[:2], *room[1:]))
        return Transition(x[0], m, *skill, action, reward, *ends, x[1], counts=counts)


class Tally:
    """Episodes of each seed that ended since it was last taken, and the one that runs."""

    def __init__(self, num_seeds: int):
        self._ended, self._running = np.zeros((4, num_seeds)), np.zeros((2, num_seeds))

    def add(self, seed: int, reward: float) -> None:
        self._running[:, seed] += reward, 1

    def end(self, seed: int, success: bool) -> None:
        total, length = self._running[:, seed]
        self._ended[:, seed] += 1, total, success, length
        self._running[:, seed] = 0

    def take(self) -> EpisodeTotals:
        """Axes (seeds, tasks): there is one task."""
        episodes, returns, successes, steps = self._ended[..., None]
        self._ended = np.zeros_like(self._ended)
        return EpisodeTotals(episodes.astype(int), returns, successes.astype(int), steps.astype(int))


class Recorder:
    """One episode while it is played."""

    def begin(self, env: CheckedEnv, episode: EpisodeId) -> Float[np.ndarray, "O"]:
        x = env.reset(episode)
        self._episode, self._observations = episode, [x]
        self._skills, self._actions, self._rewards = [], [], []
        return x

    def step(self, env: CheckedEnv, skill: int, action: Any) -> tuple[Float[np.ndarray, "O"], bool]:
        x, reward, ended = env.step(action)
        self._observations.append(x)
        self._skills.append(skill)
        self._actions.append(action)
        self._rewards.append(reward)
        return x, ended

    def played(self, env: CheckedEnv) -> Played:
        actions = np.asarray(self._actions, np.int32 if isinstance(self._actions[0], int) else np.float32)
        steps = np.asarray(self._skills, np.int32), actions, np.asarray(self._rewards, np.float32)
        return Played(self._episode, np.stack(self._observations), *steps, env.terminated, env.success)


def as_actions(action: Int[Array, "seeds"] | Float[Array, "seeds A"]) -> list[Any]:
    """As environments take them."""
    values = np.asarray(action)
    return values.tolist() if values.ndim == 1 else list(values)


class Programs(NamedTuple):
    """Of a learner, for all seeds at once."""

    begin: Callable[..., State]
    choose: Callable[..., Ahead]
    learn: Callable[..., State]
    learn_and_choose: Callable[..., Ahead]


@functools.lru_cache(maxsize=16)
def programs_of(learner: StepLearner) -> Programs:
    """Found by the learner once and not at every step: hashing one may take long."""
    return Programs(
        *(compiled(functools.partial(f, learner)) for f in (_begun, _chosen, _learned, _learned_and_chosen))
    )


def _begun(learner: StepLearner, keys: Key) -> State:
    return jax.vmap(lambda key: learner.begin(fold(key, 1)))(keys)


def _chosen(
    learner: StepLearner,
    keys: Key,
    m: Float[Array, "seeds Z"],
    states: State,
    x: Float[Array, "seeds O"],
    previous: Int[Array, "seeds"],
    t: Int[Array, ""],
) -> Ahead:
    choose = jax.vmap(lambda key, *seen: learner.choose(fold(fold(key, t), 0), *seen))
    states, skill, action = choose(keys, states, x, m)
    return Ahead(states, previous, skill, action, t)


def _learned(
    learner: StepLearner, keys: Key, m: Float[Array, "seeds Z"], ahead: Ahead, x: Float[Array, "seeds O"], news: News
) -> State:
    reward, (terminated, truncated) = news.outcome[:, 0], (news.outcome[:, 1:] > 0).T
    taken = ahead.previous_skill, ahead.skill, ahead.action
    steps = Transition(x, m, *taken, reward, terminated, truncated, news.next_observation)
    learn = jax.vmap(lambda key, *seen: learner.learn(fold(fold(key, ahead.steps), 4), *seen))
    return learn(keys, ahead.states, steps)


def _learned_and_chosen(
    learner: StepLearner, keys: Key, m: Float[Array, "seeds Z"], ahead: Ahead, x: Float[Array, "seeds O"], news: News
) -> Ahead:
    states = _learned(learner, keys, m, ahead, x, news)
    previous = jnp.where(news.ended, NO_SKILL, ahead.skill)
    return _chosen(learner, keys, m, states, news.observation, previous, ahead.steps + 1)


def _choose(
    actors: Actor,
    keys: Key,
    numbers: Int[Array, "seeds"],
    elapsed: Int[Array, "seeds"],
    x: Float[Array, "seeds O"],
    m: Float[Array, "seeds Z"],
    previous: Int[Array, "seeds"],
) -> tuple[Int[Array, "seeds"], Array]:
    def of_seed(actor: Actor, key: Key, number: Any, step: Any, x: Any, m: Any, previous: Any) -> tuple[Any, Any]:
        return actor.choose(actor.draws(fold(key, number, step)), x, m, previous)

    return jax.vmap(of_seed)(actors, keys, numbers, elapsed, x, m, previous)
