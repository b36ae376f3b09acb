"""Counted play on tasks that are compiled together with who plays them."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

from asap.base.arrays import compiled, over_seeds
from asap.base.episodes import EVALUATION
from asap.base.keys import Key, fold, root
from asap.base.types import EpisodeTotals, Transition
from asap.envs.core import CompiledTasks, Episode, advance, begin
from asap.experience import rollout
from asap.experience.compiled import STREAMS, count_episodes, join_rounds, stacked_keys
from asap.experience.counted_play import Running, State, StepCounter, StepLearner, chunk_sizes, over_candidates
from asap.experience.protocol import Evaluation
from asap.experience.rollout import Actor, WholeEpisodes, Window, fresh_episodes, look
from asap.policy.policy import NO_SKILL

LEARNING, PLAYING = 10, 11  # Streams of a seed's key.
AT_ONCE = 200  # Episodes of each actor in one round of an evaluation.


class Place(NamedTuple):
    """Where one seed is in its episodes."""

    episode: Episode
    previous_skill: Int[Array, ""]
    steps: Int[Array, ""]  # So far: the id of the next one.


class CompiledPlay:
    """All seeds in one program."""

    def __init__(self, tasks: CompiledTasks, seeds: Sequence[int], counter: StepCounter):
        self._tasks, self.seeds, self.counter = tasks, tuple(map(int, seeds)), counter
        self._rounds = 0

    def learn(
        self,
        learner: StepLearner,
        num_steps: int | None = None,
        running: Running | None = None,
        active: Bool[np.ndarray, "seeds"] | None = None,
        start: State | None = None,
    ) -> Running:
        counted = np.ones(len(self.seeds), bool) if active is None else np.asarray(active)
        keys = self._keys(LEARNING)
        if running is None:
            running = program(_begun, "learner")(self._tasks, keys, learner=learner)
            running = running if start is None else running._replace(state=start)
        total = int(self.counter.left[counted].min()) if num_steps is None else num_steps
        for size in chunk_sizes(total):
            go_on = program(_learned, "learner")
            running, totals = go_on(self._tasks, keys, running, jnp.int32(size), learner=learner)
            self.counter.add(np.full(len(self.seeds), size), totals, counted)
        return running

    def play(
        self,
        actors: Actor,
        num_episodes: int,
        active: Bool[np.ndarray, "seeds"] | None = None,
        alike: Sequence[int] | None = None,
    ) -> tuple[Transition, EpisodeTotals]:
        keys = self._keys(PLAYING, self._rounds)
        self._rounds += 1
        if alike is None:
            steps, totals = program(_played, "num_episodes")(self._tasks, actors, keys, num_episodes=num_episodes)
            of_seeds = totals
        else:
            played = program(_played_alike, "num_episodes")
            steps, totals = played(self._tasks, actors, keys, np.int32(alike), num_episodes=num_episodes)
            of_seeds = over_candidates(totals)
        counted = np.ones(len(self.seeds), bool) if active is None else np.asarray(active)
        self.counter.add(np.asarray(of_seeds.steps).sum(-1), of_seeds, counted)
        return steps, totals

    def evaluate(self, actors: Actor, num_episodes: int, num_skills: int) -> Evaluation:
        size, parts = min(num_episodes, AT_ONCE), []
        for r in range(-(-num_episodes // size)):
            keys = stacked_keys(self.seeds, STREAMS[EVALUATION], np.full(len(self.seeds), r))
            played = program(_evaluated, "num_episodes", "num_skills")
            counted = played(self._tasks, actors, keys, num_episodes=size, num_skills=num_skills)
            *per_episode, steps, starts = map(np.asarray, counted[:6])
            parts.append(Evaluation(*(values.astype(float) for values in per_episode), steps, starts))
        return join_rounds(parts, num_episodes)

    def close(self) -> None:
        """Nothing is held."""

    def _keys(self, *ids: int) -> Key:
        keys = jax.tree.map(lambda *words: np.stack(words), *map(root, self.seeds))
        return jax.vmap(lambda key: fold(key, *ids))(keys)


@functools.cache
def program(function: Callable, *static: str) -> Callable:
    """Compiled when it is first asked for, and once: importing this starts nothing."""
    return compiled(function, static_argnames=static)


def begin_seed(tasks: CompiledTasks, key: Key, learner: StepLearner) -> Running:
    episode = begin(tasks, fold(key, 0, 0), fold(key, 0, 1))
    return Running(learner.begin(fold(key, 1)), Place(episode, jnp.int32(NO_SKILL), jnp.int32(0)))


def _begun(tasks: CompiledTasks, keys: Key, learner: StepLearner) -> Running:
    return over_seeds(lambda key: begin_seed(tasks, key, learner))(keys)


def _learned(
    tasks: CompiledTasks, keys: Key, running: Running, num_steps: Int[Array, ""], learner: StepLearner
) -> tuple[Running, EpisodeTotals]:
    def of_seed(key: Key, running: Running) -> tuple[Running, EpisodeTotals]:
        def one_step(_, carry: tuple[Running, EpisodeTotals]):
            return learn_one_step(tasks, learner, fold(key, 2), *carry)

        return jax.lax.fori_loop(0, num_steps, one_step, (running, rollout.no_episodes(tasks.size)))

    return over_seeds(of_seed)(keys, running)


def learn_one_step(
    tasks: CompiledTasks, learner: StepLearner, key: Key, running: Running, totals: EpisodeTotals
) -> tuple[Running, EpisodeTotals]:
    """Choose, step, learn."""
    (episode, previous, steps), (x, m) = running.place, look(tasks, running.place.episode)
    key = fold(key, steps)
    state, skill, action = learner.choose(fold(key, 0), running.state, x, m)
    keys = fold(key, 2), fold(key, 3)
    after, outcome = advance(tasks, tasks.env.noise(fold(key, 1)), *keys, episode, action)
    ended = outcome.terminated | outcome.truncated
    ends = outcome.reward, outcome.terminated, outcome.truncated
    step = Transition(x, m, previous, skill, action, *ends, outcome.next_observation)
    state: State = learner.learn(fold(key, 4), state, step)
    place = Place(after, jnp.where(ended, NO_SKILL, skill), steps + 1)
    return Running(state, place), rollout.add(totals, _one_ended(outcome, tasks.size))


def _one_ended(outcome: Any, num_tasks: int) -> EpisodeTotals:
    lane = jax.tree.map(lambda leaf: leaf[..., None], outcome)
    return rollout.count_ended(lane, num_tasks)


def _played(tasks: CompiledTasks, actors: Actor, keys: Key, num_episodes: int) -> tuple[Transition, EpisodeTotals]:
    def of_seed(actor: Actor, key: Key) -> tuple[Transition, EpisodeTotals]:
        lanes, moment = fresh_episodes(tasks, actor, key, jnp.arange(num_episodes))
        whole, horizon = WholeEpisodes(Window(tasks), keeps_next=True), tasks.env.spec.horizon
        _, (totals, _), steps = rollout.play(tasks, actor, lanes, moment, whole, most_steps=horizon)
        return rollout.time_before_lanes(steps), totals

    return over_seeds(of_seed)(actors, keys)


def _played_alike(
    tasks: CompiledTasks, actors: Actor, keys: Key, alike: Int[Array, "candidates"], num_episodes: int
) -> tuple[Transition, EpisodeTotals]:
    """All candidates of all seeds are rows of one loop."""
    own = jax.vmap(lambda key: jax.vmap(lambda number: fold(key, number))(alike))(keys)
    rows, keys_of_rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (actors, own))
    begin = functools.partial(fresh_episodes, tasks, ids=jnp.arange(num_episodes))
    lanes, moments = jax.vmap(lambda actor, key: begin(actor, key))(rows, keys_of_rows)
    whole, horizon = WholeEpisodes(Window(tasks)), tasks.env.spec.horizon
    _, (totals, _), steps = rollout.play(tasks, rows, lanes, moments, whole, most_steps=horizon, stacked=True)
    apart = own.hi.shape[:2]
    return jax.tree.map(lambda leaf: leaf.reshape(*apart, *leaf.shape[1:]), (rollout.time_before_lanes(steps), totals))


def _evaluated(tasks: CompiledTasks, actors: Actor, keys: Key, num_episodes: int, num_skills: int) -> Any:
    """Axes (seeds, tasks, ...), one task after the other."""

    def on(index: int, name: str) -> Any:
        own = jax.vmap(lambda key: fold(key, index))(keys)
        return count_episodes(tasks.only(name), actors, own, num_episodes, num_skills)

    each = [on(index, name) for index, name in enumerate(tasks.names)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves, 1), *each)
