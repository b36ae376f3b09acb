"""Learning one task after another: all seeds side by side, each with a task of its own, in one program."""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import compiled
from asap.base.keys import Key, fold, host_generator, root
from asap.config.schema import Config
from asap.envs.catalog import CompiledTask
from asap.envs.core import CompiledTasks
from asap.evaluate import Evaluation, evaluate
from asap.learn.advantage import Critic
from asap.learn.train import TrainState, begin_training, init, update
from asap.policy.policy import ASAPPolicy
from asap.policy.surgery import soften
from asap.runs.signals import StopRequest

# Ids folded into a seed's key; training uses smaller ones.
_EVALUATE, _ORDER = 8, 9
JUDGING = range(1000, 1002)  # Rounds of evaluation that learning never gets to.


class LearnedTask(NamedTuple):
    """One learner before one task. Stacked, every leaf has a leading axis."""

    key: Key
    tasks: CompiledTasks  # Of one task.
    policy: ASAPPolicy
    critic: Critic
    step_size_theta: Float[Array, ""]  # 0 freezes the skills.
    tries_signs: Bool[Array, ""]  # Whether to begin with the hyperplanes' best sign pattern; its trials are counted.


class Learned(NamedTuple):
    """What lessons came to: the policies, and one entry per evaluation, the first before any update."""

    policy: ASAPPolicy
    episodes: Int[np.ndarray, "B E"]  # Completed so far.
    steps: Int[np.ndarray, "B E"]
    returns: Float[np.ndarray, "B E"]


class School:
    """Compiled once for all lessons: chunks of `config.run.chunk` updates, whose policies are evaluated together."""

    def __init__(self, config: Config, stop: StopRequest):
        self.config, self.stop = config, stop
        self._begin = compiled(jax.vmap(self._begin_one))
        self._advance = compiled(jax.vmap(self._advance_one))
        self._evaluate = compiled(jax.vmap(self._evaluate_one))

    def learn(self, lessons: LearnedTask, looks: tuple[int, ...]) -> Learned:
        """As many chunks as the last of `looks` says, looked at in the beginning and after each of these numbers."""
        states = self._begin(lessons)
        seen = [states]
        for chunk in range(1, looks[-1] + 1):
            if self.stop.requested:
                raise SystemExit(self.stop.exit_code)
            states = self._advance(lessons, states)
            seen += [states] if chunk in looks else []
        returns = self.returns([lessons] * len(seen), [state.policy for state in seen])
        episodes = np.stack([np.asarray(state.totals.episodes).sum(-1) for state in seen])
        steps = np.stack([np.asarray(state.env_steps) for state in seen])
        return Learned(jax.tree.map(np.asarray, states.policy), episodes.T, steps.T, returns.T)

    def returns(
        self, lessons: list[LearnedTask], policies: list[ASAPPolicy], first_round: int = 0
    ) -> Float[np.ndarray, "N B"]:
        """Mean return of policies on the tasks of their lessons; each entry of the lists is a round of its own."""
        rounds = np.repeat(np.arange(len(lessons), dtype=np.int32) + np.int32(first_round), len(lessons[0].tries_signs))
        rows = [(lesson.key, lesson.tasks, policy) for lesson, policy in zip(lessons, policies)]
        flat = jax.tree.map(lambda *leaves: np.concatenate(leaves), *rows)
        return np.asarray(self._evaluate(*flat, rounds).returns).mean(-1).reshape(len(lessons), -1)

    def _begin_one(self, one: LearnedTask) -> TrainState:
        """Plainly and with the search for signs; under `vmap` a branch would compute both as well."""
        run = dataclasses.replace(self.config.run, search_episodes=0)
        plain = begin_training(dataclasses.replace(self.config, run=run), one.tasks, one.key, one.policy, one.critic)
        searched = begin_training(self.config, one.tasks, one.key, one.policy, one.critic)
        return jax.tree.map(lambda a, b: jnp.where(one.tries_signs, a, b), searched, plain)

    def _advance_one(self, one: LearnedTask, state: TrainState) -> TrainState:
        learn = dataclasses.replace(self.config.learn, step_size_theta=one.step_size_theta)
        config = dataclasses.replace(self.config, learn=learn)

        def step(state: TrainState, _: None) -> tuple[TrainState, None]:
            return update(config, one.tasks, one.key, state)[0], None

        return jax.lax.scan(step, state, None, length=config.run.chunk)[0]

    def _evaluate_one(self, key: Key, tasks: CompiledTasks, policy: ASAPPolicy, round_: Int[Array, ""]) -> Evaluation:
        return evaluate(policy, tasks, fold(key, _EVALUATE, round_), self.config.run.eval_episodes)


class Learner(NamedTuple):
    """What is taken along from one task to the next."""

    name: str
    carries: bool = True  # Skills and hyperplanes, rather than a fresh start.
    plane_length: float = np.inf  # Hyperplanes are shortened to this; a short one is soft and can turn.
    freezes_after: int = 10**6  # Tasks after which the skills no longer change.


class Sequence(NamedTuple):
    """What one learner did in all seeds; axes (seeds, positions), or seeds in a list over positions."""

    order: Int[np.ndarray, "S P"]  # The task at each position.
    lessons: list[LearnedTask]
    policies: list[ASAPPolicy]  # After each task.
    episodes: Int[np.ndarray, "S P E"]  # As in Learned.
    steps: Int[np.ndarray, "S P E"]
    returns: Float[np.ndarray, "S P E"]


def play_sequence(
    school: School,
    learner: Learner,
    named: CompiledTask,
    tasks: list[CompiledTasks],
    seeds: range,
    looks: tuple[int, ...],
) -> Sequence:
    """All tasks, in each seed's own order; features and fresh starts are those of the named task."""
    order = np.stack([host_generator(seed, _ORDER).permutation(len(tasks)) for seed in seeds])
    lessons, results = [], []
    for position in range(len(tasks)):
        fresh = [
            _fresh_lesson(school.config, named, tasks[task], seed, position)
            for task, seed in zip(order[:, position], seeds)
        ]
        fresh = jax.tree.map(lambda *leaves: np.stack(leaves), *fresh)
        lessons.append(_go_on(learner, fresh, results[-1].policy, position) if results and learner.carries else fresh)
        results.append(school.learn(lessons[-1], looks))
    curves = (np.stack(columns, 1) for columns in zip(*(result[1:] for result in results)))
    return Sequence(order, lessons, [result.policy for result in results], *curves)


def judge(school: School, sequence: Sequence, policies: list[ASAPPolicy]) -> Float[np.ndarray, "S P"]:
    """Mean return of each position's policies on the tasks of that position, in episodes kept for that."""
    each = [school.returns(sequence.lessons, policies, first * len(policies)) for first in JUDGING]
    return np.mean(each, axis=0).T


def _fresh_lesson(config: Config, named: CompiledTask, tasks: CompiledTasks, seed: int, position: int) -> LearnedTask:
    own = (position << 32) + seed  # Two ids in one: the upper and the lower word of the key.
    policy, critic = init(config, (named,), tasks, own)
    return LearnedTask(root(own), tasks, policy, critic, np.float32(config.learn.step_size_theta), np.bool_(False))


def _go_on(learner: Learner, fresh: LearnedTask, known: ASAPPolicy, position: int) -> LearnedTask:
    """With what is known; critic and optimizer stay fresh."""
    policy = jax.tree.map(np.asarray, jax.vmap(lambda policy: soften(policy, learner.plane_length))(known))
    step = np.zeros_like(fresh.step_size_theta) if position >= learner.freezes_after else fresh.step_size_theta
    return fresh._replace(policy=policy, step_size_theta=step, tries_signs=np.ones_like(fresh.tries_signs))
