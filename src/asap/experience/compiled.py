"""Experience of tasks that are compiled together with the learner: lanes of episodes played inside the update's
program."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import compiled
from asap.base.episodes import EVALUATION, PAIRS, PICK, RANDOM, SEARCH
from asap.base.keys import Key, fold, root
from asap.base.spec import TaskSet
from asap.config.schema import Config
from asap.envs.core import CompiledTasks, Outcome
from asap.experience import rollout
from asap.experience.protocol import Batch, Counters, EpisodeIds, Evaluation, OnProgress, ignore_progress
from asap.experience.rollout import Actor, Lane, Likeliest, Moment, fresh_episodes
from asap.experience.summed_scores import EpisodeScores, play_scored
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import merged, moments_of
from asap.runs.signals import StopRequest

# Ids folded into a seed's key: one stream per purpose. 0 and 1 are drawn on the host, with 3 updates play.
LANES, LOOK = 2, 4
STREAMS = {EVALUATION: 5, SEARCH: 7, RANDOM: 9, PAIRS: 11, PICK: 12}
RANDOM_LANES = RANDOM_STEPS = 64
AT_ONCE = 16  # Policies of a search, in one program.
MOST_VISITED = 1 << 13  # Observations of each policy that are kept of a round.


class Compiled:
    """All seeds in one program."""

    together = plays = True

    def __init__(self, config: Config, tasks: TaskSet, compiled_tasks: CompiledTasks, stop: StopRequest | None = None):
        """`stop` is looked at between rounds of an evaluation."""
        self.config, self.tasks, self._tasks, self._stop = config, tasks, compiled_tasks, stop or StopRequest()
        self.most_updates, self.least_episodes = config.run.chunk, config.run.eval_episodes
        learn = config.learn
        self._discount = learn.discount_on(tasks.spec.discount, tasks.spec.horizon)
        # What is visited is known of our own tasks; of others it is looked at, as their scaling and words need it.
        self._watches = not tasks.names_say_all
        self._evaluate = compiled(self._evaluated, static_argnames=("num_episodes", "deterministic", "watched"))

    def begin(self, key: Key) -> Lane:
        return rollout.start_lanes(self._tasks, fold(key, LANES), jnp.arange(self.config.learn.lanes))

    def feed(self, policies: ASAPPolicy, counters: Counters, active: Bool[np.ndarray, "seeds"]) -> tuple[()]:
        return ()

    def collect(self, key: Key, policy: ASAPPolicy, carry: Lane, fed: tuple[()]) -> tuple[Lane, Batch]:
        learn = self.config.learn
        sums_scores = learn.baseline != "running" and not (self.tasks.is_scaled or self.tasks.spec.continuous)
        if learn.learner == "reinforce" and not sums_scores:
            steps, totals = rollout.play_episodes(policy, self._tasks, key, learn.batch_episodes)
            return carry, Batch(totals, totals.steps.sum(), steps)
        if learn.learner == "reinforce":
            scores = EpisodeScores(policy, self._tasks, learn.batch_episodes, learn.gradient, self._discount)
            sums, totals = play_scored(scores, key, learn.lanes)
            return carry, Batch(totals, totals.steps.sum(), sums=sums)
        lanes, steps, totals = rollout.play_window(policy, self._tasks, carry, key, learn.window, learn.critic_time)
        return lanes, Batch(totals, learn.lanes * learn.window, steps)

    def evaluate(
        self,
        policies: ASAPPolicy,
        ids: EpisodeIds,
        num_episodes: int,
        deterministic: bool,
        on_progress: OnProgress = ignore_progress,
    ) -> Evaluation:
        """In rounds of one size: results under `vmap` can differ in the last bits with the size of the batch."""
        size, parts = min(num_episodes, self.config.run.eval_episodes), []
        if self._watches and ids.stream == SEARCH:
            return self._searched(policies, ids, num_episodes, deterministic, on_progress)
        first = np.broadcast_to(np.asarray(ids.first), len(ids.seeds))
        for r in range(-(-num_episodes // size)):
            self._stop.check()
            keys = stacked_keys(ids.seeds, STREAMS[ids.stream], first + r)
            parts.append(self._played(keys, policies, size, deterministic, self._watches and ids.stream == EVALUATION))
            on_progress(min((r + 1) * size, num_episodes) * self.tasks.size * len(ids.seeds))
        return join_rounds(parts, num_episodes)

    def _searched(
        self, policies: ASAPPolicy, ids: EpisodeIds, num_episodes: int, deterministic: bool, on_progress: OnProgress
    ) -> Evaluation:
        """As many policies at a time, for one episode each, as a program of one size plays: a search has any number."""
        count, rows = len(ids.seeds), []
        first = np.broadcast_to(np.asarray(ids.first), count)
        for begin in range(0, count, AT_ONCE):
            chosen, parts = np.minimum(np.arange(begin, begin + AT_ONCE), count - 1), []
            own = jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], policies)
            for r in range(num_episodes):
                self._stop.check()
                keys = stacked_keys([ids.seeds[i] for i in chosen], STREAMS[SEARCH], first[chosen] + r)
                parts.append(self._played(keys, own, 1, deterministic, True, min(AT_ONCE, count - begin)))
            rows.append(join_rounds(parts, num_episodes))
            on_progress(min(begin + AT_ONCE, count) * num_episodes * self.tasks.size)
        return joined_policies(rows)

    def look(self, policies: ASAPPolicy, update: int) -> Evaluation:
        """`eval_episodes` on every task, as learned."""
        run = self.config.run
        keys = stacked_keys(range(run.seed, run.seed + run.seeds), LOOK, np.full(run.seeds, update))
        return self._played(keys, policies, run.eval_episodes, False)

    def random_states(self) -> tuple[Float[np.ndarray, "O N"], Float[np.ndarray, "Z N"]] | None:
        if self._watches:  # As of environments that are played on the host: their planes are drawn for what is seen.
            return None
        return tuple(map(np.asarray, jax.jit(self._visited_at_random)(root(0))))

    def known_moments(self) -> None:
        """They are learned as they come."""

    def close(self) -> None:
        """Nothing is held."""

    def _played(
        self,
        keys: Key,
        policies: ASAPPolicy,
        num_episodes: int,
        deterministic: bool,
        watched: bool = False,
        count: int | None = None,
    ) -> Evaluation:
        """The first `count` of the policies are wanted."""
        how = {"num_episodes": num_episodes, "deterministic": deterministic, "watched": watched}
        counted = jax.tree.map(lambda leaf: np.asarray(leaf)[:count], self._evaluate(keys, policies, **how))
        returns, discounted, success, lengths = (values.astype(float) for values in counted[:4])
        if not self._tasks.env.tells_success:
            success = np.full_like(success, np.nan)
        found = Evaluation(returns, discounted, success, lengths, counted.skill_steps, counted.skill_starts)
        return found if counted.visited is None else self._with_visited(found, counted.visited, counted.lengths)

    def _with_visited(self, found: Evaluation, visited: np.ndarray, lengths: np.ndarray) -> Evaluation:
        """`visited` has axes (policies, tasks, O, slots, episodes)."""
        stride = -(-self.tasks.spec.horizon // visited.shape[3])
        is_visited = stride * np.arange(visited.shape[3])[:, None] < lengths[:, :, None]
        each = [np.moveaxis(own, 1, -1)[kept] for own, kept in zip(visited, is_visited)]
        seen = [moments_of(observations.T) for observations in each] if self.tasks.is_scaled else None
        return found._replace(seen=seen, observations=np.concatenate(each))

    def _visited_at_random(self, key: Key) -> tuple[Float[Array, "O N"], Float[Array, "Z N"]]:
        num_actions = self.tasks.spec.num_actions
        actor = rollout.Controlled(lambda x: jnp.full((num_actions, *x.shape[1:]), 1 / num_actions))
        keys, moment = fresh_episodes(self._tasks, actor, key, jnp.arange(RANDOM_LANES))
        steps = rollout.play(self._tasks, actor, keys, moment, rollout.Window(self._tasks), RANDOM_STEPS)[2]
        steps = rollout.time_before_lanes(steps).flat()
        return steps.observation, steps.descriptor

    def _evaluated(
        self, keys: Key, policies: ASAPPolicy, num_episodes: int, deterministic: bool, watched: bool = False
    ) -> "Counted":
        """Axes (policies, tasks, ...). All policies play in one loop, one task after the other."""
        actors = Likeliest(policies) if deterministic else policies

        def on(index: int, name: str) -> Counted:
            own = jax.vmap(lambda key: fold(key, index))(keys)
            slots = min(self.tasks.spec.horizon, max(1, MOST_VISITED // num_episodes)) if watched else 0
            return count_episodes(self._tasks.only(name), actors, own, num_episodes, policies.num_skills, slots)

        each = [on(index, name) for index, name in enumerate(self._tasks.names)]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, 1), *each)


def stacked_keys(seeds, stream: int, numbers: Int[np.ndarray, "P"]) -> Key:
    """One key per policy, a function of seed, stream and number."""
    keys = jax.tree.map(lambda *words: np.stack(words), *(root(int(seed)) for seed in seeds))
    return jax.vmap(lambda key, number: fold(key, stream, number))(keys, jnp.asarray(numbers, jnp.int32))


class Counted(NamedTuple):
    """Lanes that play, or have played, one episode each."""

    returns: Float[Array, "N"]
    discounted: Float[Array, "N"]
    success: Bool[Array, "N"]
    lengths: Int[Array, "N"]
    skill_steps: Int[Array, "S"]
    skill_starts: Int[Array, "S"]
    playing: Bool[Array, "N"]
    weight: Float[Array, "N"]  # gamma^t
    visited: Float[Array, "O slots N"] | None = None  # Observations, every so many steps.


class Counts(NamedTuple):
    """One episode per lane: its return and length, and how much each skill is used; with `slots`, as many of its
    observations."""

    tasks: CompiledTasks
    num_skills: int
    slots: int = 0

    def start(self, moment: Moment) -> Counted:
        zeros, none = jnp.zeros(moment.skill.shape), jnp.zeros(moment.skill.shape, bool)
        skills = jnp.zeros(self.num_skills, jnp.int32)
        size = len(self.tasks.env.spec.observation_names), self.slots, *moment.skill.shape
        visited = jnp.zeros(size) if self.slots else None
        return Counted(zeros, zeros, none, zeros.astype(jnp.int32), skills, skills, ~none, zeros + 1, visited)

    def add(self, gathered: Counted, before: Moment, outcome: Outcome, step: Int[Array, ""]) -> tuple[Counted, None]:
        """Only lanes that still play are counted."""
        used = (jnp.arange(self.num_skills)[:, None] == before.skill) & gathered.playing
        begun = used & (before.skill != before.lane.previous_skill)
        ends = (outcome.terminated | outcome.truncated) & gathered.playing
        paid = jnp.where(gathered.playing, gathered.weight * outcome.reward, 0.0)
        return Counted(
            returns=jnp.where(ends, outcome.total, gathered.returns),
            discounted=gathered.discounted + paid,
            success=jnp.where(ends, outcome.success, gathered.success),
            lengths=jnp.where(ends, outcome.elapsed, gathered.lengths),
            skill_steps=gathered.skill_steps + used.sum(-1),
            skill_starts=gathered.skill_starts + begun.sum(-1),
            playing=gathered.playing & ~ends,
            weight=gathered.weight * self.tasks.env.spec.discount,
            visited=None if gathered.visited is None else self._with_visited(gathered.visited, before, step),
        ), None

    def _with_visited(self, visited: Array, before: Moment, step: Int[Array, ""]) -> Array:
        """Each slot has the observation of the first step of its stretch."""
        stride = -(-self.tasks.env.spec.horizon // self.slots)
        x, _ = rollout.look_lanes(self.tasks, before)
        slot = step // stride
        kept = jnp.where(step % stride == 0, x, jax.lax.dynamic_index_in_dim(visited, slot, 1, keepdims=False))
        return jax.lax.dynamic_update_index_in_dim(visited, kept, slot, 1)

    def goes_on(self, gathered: Counted) -> Bool[Array, "*stack N"]:
        return gathered.playing


def count_episodes(
    tasks: CompiledTasks, actors: Actor, keys: Key, num_episodes: int, num_skills: int, slots: int = 0
) -> Counted:
    """One episode per lane for each of the stacked actors."""
    ids = jnp.arange(num_episodes)
    lanes, moment = jax.vmap(lambda actor, key: fresh_episodes(tasks, actor, key, ids))(actors, keys)
    counts = Counts(tasks, num_skills, slots)
    return rollout.play(tasks, actors, lanes, moment, counts, stacked=True)[1]


def join_rounds(parts: list[Evaluation], num_episodes: int) -> Evaluation:
    """Several rounds as one."""
    per_episode = zip(*(part[:4] for part in parts))
    skills = zip(*(part[4:6] for part in parts))
    joined = (np.concatenate(values, -1)[..., :num_episodes] for values in per_episode)
    found = Evaluation(*joined, *(np.sum(counts, 0, np.int64) for counts in skills))
    if parts[0].observations is None:
        return found
    seen = None
    if parts[0].seen is not None:
        seen = [functools.reduce(merged, of_policy) for of_policy in zip(*(part.seen for part in parts))]
    return found._replace(seen=seen, observations=np.concatenate([part.observations for part in parts]))


def joined_policies(rows: list[Evaluation]) -> Evaluation:
    """Of policies that were played apart."""
    found = Evaluation(*(np.concatenate(values) for values in zip(*(row[:6] for row in rows))))
    seen = None if rows[0].seen is None else [one for row in rows for one in row.seen]
    return found._replace(seen=seen, observations=np.concatenate([row.observations for row in rows]))
