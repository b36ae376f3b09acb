"""Experience of tasks that are compiled together with the learner: lanes of episodes played inside the update's
program."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import compiled
from asap.base.episodes import EVALUATION, RANDOM, SEARCH
from asap.base.keys import Key, fold, root
from asap.base.spec import TaskSet
from asap.config.schema import Config
from asap.envs.core import CompiledTasks, Outcome
from asap.experience import rollout
from asap.experience.protocol import Batch, Counters, EpisodeIds, Evaluation, OnProgress, ignore_progress
from asap.experience.rollout import Actor, Lane, Likeliest, Moment, fresh_episodes
from asap.experience.summed_scores import EpisodeScores, play_scored
from asap.policy.policy import ASAPPolicy
from asap.runs.signals import StopRequest

# Ids folded into a seed's key: one stream per purpose. 0 and 1 are drawn on the host, with 3 updates play.
LANES, LOOK = 2, 4
STREAMS = {EVALUATION: 5, SEARCH: 7, RANDOM: 9}
RANDOM_LANES = RANDOM_STEPS = 64


class Compiled:
    """All seeds in one program."""

    together = True

    def __init__(self, config: Config, tasks: TaskSet, compiled_tasks: CompiledTasks, stop: StopRequest | None = None):
        """`stop` is looked at between rounds of an evaluation."""
        self.config, self.tasks, self._tasks, self._stop = config, tasks, compiled_tasks, stop or StopRequest()
        self.most_updates, self.least_episodes = config.run.chunk, config.run.eval_episodes
        learn = config.learn
        self._discount = learn.discount_on(tasks.spec.discount, tasks.spec.horizon)
        self._evaluate = compiled(self._evaluated, static_argnames=("num_episodes", "deterministic"))

    def begin(self, key: Key) -> Lane:
        return rollout.start_lanes(self._tasks, fold(key, LANES), jnp.arange(self.config.learn.lanes))

    def feed(self, policies: ASAPPolicy, counters: Counters, active: Bool[np.ndarray, "seeds"]) -> tuple[()]:
        return ()

    def collect(self, key: Key, policy: ASAPPolicy, carry: Lane, fed: tuple[()]) -> tuple[Lane, Batch]:
        learn = self.config.learn
        if learn.learner == "reinforce" and learn.baseline == "running":
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
        first = np.broadcast_to(np.asarray(ids.first), len(ids.seeds))
        for r in range(-(-num_episodes // size)):
            self._stop.check()
            keys = stacked_keys(ids.seeds, STREAMS[ids.stream], first + r)
            parts.append(self._played(keys, policies, size, deterministic))
            on_progress(min((r + 1) * size, num_episodes) * self.tasks.size * len(ids.seeds))
        return join_rounds(parts, num_episodes)

    def look(self, policies: ASAPPolicy, update: int) -> Evaluation:
        """`eval_episodes` on every task, as learned."""
        run = self.config.run
        keys = stacked_keys(range(run.seed, run.seed + run.seeds), LOOK, np.full(run.seeds, update))
        return self._played(keys, policies, run.eval_episodes, False)

    def random_states(self) -> tuple[Float[np.ndarray, "O N"], Float[np.ndarray, "Z N"]]:
        return tuple(map(np.asarray, jax.jit(self._visited_at_random)(root(0))))

    def close(self) -> None:
        """Nothing is held."""

    def _played(self, keys: Key, policies: ASAPPolicy, num_episodes: int, deterministic: bool) -> Evaluation:
        counted = self._evaluate(keys, policies, num_episodes=num_episodes, deterministic=deterministic)
        *per_episode, steps, starts, _, _ = map(np.asarray, counted)
        return Evaluation(*(values.astype(float) for values in per_episode), steps, starts)

    def _visited_at_random(self, key: Key) -> tuple[Float[Array, "O N"], Float[Array, "Z N"]]:
        num_actions = self.tasks.spec.num_actions
        actor = rollout.Controlled(lambda x: jnp.full((num_actions, *x.shape[1:]), 1 / num_actions))
        keys, moment = fresh_episodes(self._tasks, actor, key, jnp.arange(RANDOM_LANES))
        steps = rollout.play(self._tasks, actor, keys, moment, rollout.Window(self._tasks), RANDOM_STEPS)[2]
        steps = rollout.time_before_lanes(steps).flat()
        return steps.observation, steps.descriptor

    def _evaluated(self, keys: Key, policies: ASAPPolicy, num_episodes: int, deterministic: bool) -> "Counted":
        """Axes (policies, tasks, ...). All policies play in one loop, one task after the other."""
        actors = Likeliest(policies) if deterministic else policies

        def on(index: int, name: str) -> Counted:
            own = jax.vmap(lambda key: fold(key, index))(keys)
            return count_episodes(self._tasks.only(name), actors, own, num_episodes, policies.num_skills)

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


class Counts(NamedTuple):
    """One episode per lane: its return and length, and how much each skill is used."""

    num_skills: int
    discount: float

    def start(self, moment: Moment) -> Counted:
        zeros, none = jnp.zeros(moment.skill.shape), jnp.zeros(moment.skill.shape, bool)
        skills = jnp.zeros(self.num_skills, jnp.int32)
        return Counted(zeros, zeros, none, zeros.astype(jnp.int32), skills, skills, ~none, zeros + 1)

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
            weight=gathered.weight * self.discount,
        ), None

    def goes_on(self, gathered: Counted) -> Bool[Array, "*stack N"]:
        return gathered.playing


def count_episodes(tasks: CompiledTasks, actors: Actor, keys: Key, num_episodes: int, num_skills: int) -> Counted:
    """One episode per lane for each of the stacked actors."""
    ids = jnp.arange(num_episodes)
    lanes, moment = jax.vmap(lambda actor, key: fresh_episodes(tasks, actor, key, ids))(actors, keys)
    counts = Counts(num_skills, tasks.env.spec.discount)
    return rollout.play(tasks, actors, lanes, moment, counts, stacked=True)[1]


def join_rounds(parts: list[Evaluation], num_episodes: int) -> Evaluation:
    """Several rounds as one."""
    per_episode = zip(*(part[:4] for part in parts))
    skills = zip(*(part[4:6] for part in parts))
    joined = (np.concatenate(values, -1)[..., :num_episodes] for values in per_episode)
    return Evaluation(*joined, *(np.sum(counts, 0, np.int64) for counts in skills))
