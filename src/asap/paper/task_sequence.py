"""Tasks one after another as `asap.sequence` has them, with all seeds in one program: each seed has an order of its own."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.arrays import compiled, stack
from asap.base.keys import Key, fold, host_generator, root
from asap.base.spec import TaskSet
from asap.base.types import EpisodeTotals
from asap.config.schema import Config
from asap.envs.catalog import CompiledTask
from asap.envs.core import CompiledTasks
from asap.experience.compiled import Compiled, Counted, count_episodes
from asap.experience.critic import Critic
from asap.learn.state import Budget, Start, TrainState, drawn_critic, drawn_policy, first_state, no_totals
from asap.learn.update import update
from asap.policy.policy import ASAPPolicy
from asap.policy.surgery import flip, sign_patterns
from asap.runs.signals import StopRequest
from asap.sequence.parts import carried_on

# Ids folded into a seed's key; training uses smaller ones.
_SEARCH, _EVALUATE, _ORDER = 7, 8, 9
FINAL_ROUNDS = range(1000, 1002)  # Rounds of evaluation that learning never gets to.


class TaskStart(NamedTuple):
    """One learner before one task. Stacked, every leaf has a leading axis."""

    key: Key
    tasks: CompiledTasks  # Of one task.
    policy: ASAPPolicy
    critic: Critic
    step_size_theta: Float[Array, ""]  # 0 freezes the skills.


class TaskCurves(NamedTuple):
    """What learning a task came to: the policies, and one entry per evaluation, the first before any update."""

    policy: ASAPPolicy
    episodes: Int[np.ndarray, "B E"]  # Completed so far.
    steps: Int[np.ndarray, "B E"]
    returns: Float[np.ndarray, "B E"]


class TaskTrainer:
    """Compiled once for all tasks: chunks of `config.run.chunk` updates, whose policies are evaluated together."""

    def __init__(self, config: Config, named: CompiledTask, stop: StopRequest):
        """Features, bounds and fresh starts are those of the named task."""
        self.config, self.named, self.stop = config, TaskSet((named,), (1.0,)), stop
        self._begin = compiled(jax.vmap(self._begin_one))
        self._advance = compiled(jax.vmap(self._advance_one))
        self._evaluate = compiled(jax.vmap(self._evaluate_one))
        self._try = compiled(jax.vmap(self._try_one))

    def learn(self, starts: TaskStart, eval_chunks: tuple[int, ...], tries_signs: bool = False) -> TaskCurves:
        """As many chunks as the last of `eval_chunks` says, evaluated in the beginning and after each of these numbers.

        `tries_signs` begins with the hyperplanes' best sign pattern; its trials are counted.
        """
        nothing = stack([no_totals(self.named)] * len(starts.key.hi))
        states = self._begin(*(self._best_signs(starts) if tries_signs else (starts, nothing)))
        evaluated = [states]
        for chunk in range(1, eval_chunks[-1] + 1):
            if self.stop.requested:
                raise SystemExit(self.stop.exit_code)
            states = self._advance(starts, states)
            evaluated += [states] if chunk in eval_chunks else []
        returns = self.returns([starts] * len(evaluated), [state.policy for state in evaluated])
        episodes = np.stack([np.asarray(state.totals.episodes).sum(-1) for state in evaluated])
        steps = np.stack([np.asarray(state.env_steps) for state in evaluated])
        return TaskCurves(jax.tree.map(np.asarray, states.policy), episodes.T, steps.T, returns.T)

    def returns(
        self, starts: list[TaskStart], policies: list[ASAPPolicy], first_round: int = 0
    ) -> Float[np.ndarray, "N B"]:
        """Mean return of policies on the tasks of their starts; each entry of the lists is a round of its own."""
        rounds = np.repeat(np.arange(len(starts), dtype=np.int32) + np.int32(first_round), len(starts[0].key.hi))
        rows = [(start.key, start.tasks, policy) for start, policy in zip(starts, policies)]
        flat = jax.tree.map(lambda *leaves: np.concatenate(leaves), *rows)
        return np.asarray(self._evaluate(*flat, rounds).returns).mean(-1).reshape(len(starts), -1)

    def fresh_start(self, tasks: CompiledTasks, seed: int, position: int) -> TaskStart:
        own = (position << 32) + seed  # Two ids in one: the upper and the lower word of the key.
        policy, critic = (draw(self.config, self.named, own) for draw in (drawn_policy, drawn_critic))
        return TaskStart(root(own), tasks, policy, critic, np.float32(self.config.learn.step_size_theta))

    def _best_signs(self, starts: TaskStart) -> tuple[TaskStart, EpisodeTotals]:
        images, played = self._try(starts)  # Axes (learners, patterns, ...).
        returns = np.asarray(played.returns).mean(-1)
        best = (np.arange(len(returns)), returns.argmax(-1))
        num_episodes = np.full((len(returns), 1), played.returns[0].size, np.int32)
        sums = (np.asarray(leaf).sum((1, 2))[:, None] for leaf in (played.returns, played.success, played.lengths))
        policy = jax.tree.map(lambda leaf: np.asarray(leaf)[best], images)
        return starts._replace(policy=policy), EpisodeTotals(num_episodes, *sums)

    def _try_one(self, one: TaskStart) -> tuple[ASAPPolicy, Counted]:
        """All symmetric images of a policy, and a few episodes of each."""
        patterns = sign_patterns(one.policy.partition.num_planes)
        images = jax.vmap(lambda signs: flip(one.policy, signs))(patterns)
        key = fold(one.key, _SEARCH)
        keys = jax.vmap(lambda pattern: fold(fold(key, pattern), 0))(jnp.arange(len(patterns)))
        return images, count_episodes(one.tasks, images, keys, self.config.run.search_episodes, one.policy.num_skills)

    def _begin_one(self, one: TaskStart, spent: EpisodeTotals) -> TrainState:
        experience = Compiled(self.config, self.named, one.tasks)
        return first_state(self.config, experience, one.key, Start(one.policy, one.critic, spent, None))

    def _advance_one(self, one: TaskStart, state: TrainState) -> TrainState:
        learn = dataclasses.replace(self.config.learn, step_size_theta=one.step_size_theta)
        config = dataclasses.replace(self.config, learn=learn)
        experience = Compiled(config, self.named, one.tasks)
        budget = Budget.of(config).left(no_totals(self.named), np.int64(0))

        def step(state: TrainState, _: None) -> tuple[TrainState, None]:
            return update(config, experience, budget, one.key, state, ())[0], None

        return jax.lax.scan(step, state, None, length=config.run.chunk)[0]

    def _evaluate_one(self, key: Key, tasks: CompiledTasks, policy: ASAPPolicy, round_: Int[Array, ""]) -> Counted:
        actors, keys = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], (policy, fold(key, _EVALUATE, round_)))
        played = count_episodes(tasks, actors, keys, self.config.run.eval_episodes, policy.num_skills)
        return jax.tree.map(lambda leaf: leaf[0], played)


class Learner(NamedTuple):
    """What is taken along from one task to the next."""

    name: str
    carries: bool = True  # Skills and hyperplanes, rather than a fresh start.
    plane_length: float | None = None  # Hyperplanes are shortened to this; a short one is soft and can turn.
    freezes_after: int = 10**6  # Tasks after which the skills no longer change.


class LearnedSequence(NamedTuple):
    """What one learner did in all seeds; axes (seeds, positions), or seeds in a list over positions."""

    order: Int[np.ndarray, "S P"]  # The task at each position.
    starts: list[TaskStart]
    policies: list[ASAPPolicy]  # After each task.
    episodes: Int[np.ndarray, "S P E"]  # As in TaskCurves.
    steps: Int[np.ndarray, "S P E"]
    returns: Float[np.ndarray, "S P E"]


def learn_sequence(
    trainer: TaskTrainer, learner: Learner, tasks: list[CompiledTasks], seeds: range, eval_chunks: tuple[int, ...]
) -> LearnedSequence:
    """All tasks, in each seed's own order."""
    order = np.stack([host_generator(seed, _ORDER).permutation(len(tasks)) for seed in seeds])
    starts, results = [], []
    for position in range(len(tasks)):
        own = zip(order[:, position], seeds)
        fresh = stack([trainer.fresh_start(tasks[task], seed, position) for task, seed in own])
        knows = bool(results) and learner.carries
        starts.append(_go_on(learner, fresh, results[-1].policy, position) if knows else fresh)
        results.append(trainer.learn(starts[-1], eval_chunks, tries_signs=knows))
    curves = (np.stack(columns, 1) for columns in zip(*(result[1:] for result in results)))
    return LearnedSequence(order, starts, [result.policy for result in results], *curves)


def final_returns(
    trainer: TaskTrainer, sequence: LearnedSequence, policies: list[ASAPPolicy]
) -> Float[np.ndarray, "S P"]:
    """Mean return of each position's policies on the tasks of that position, in episodes kept for that."""
    each = [trainer.returns(sequence.starts, policies, first * len(policies)) for first in FINAL_ROUNDS]
    return np.mean(each, axis=0).T


def _go_on(learner: Learner, fresh: TaskStart, known: ASAPPolicy, position: int) -> TaskStart:
    """With what is known; critic and optimizer stay fresh."""
    policy = carried_on(known, learner.plane_length)
    step = np.zeros_like(fresh.step_size_theta) if position >= learner.freezes_after else fresh.step_size_theta
    return fresh._replace(policy=policy, step_size_theta=step)
