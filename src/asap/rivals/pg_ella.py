"""PG-ELLA: policies of many tasks share a basis, theta_t = L s_t (after Bou Ammar et al., 2014; an implementation of
ours and not the authors' code).

    task after task, several rounds:
      theta   <- policy gradient on task t for its share of the steps, from L s_t
      alpha_t <- theta, with weights that sum to 0 over the actions;   Gamma_t <- Fisher matrix + 1e-3 I
      s_t, L  <- the update of ELLA; the first k tasks give L its columns

Departures: the Fisher matrix in place of the Hessian of the return, because it is never negative; and its mean over
steps, not over episodes: else tasks that fail, whose episodes are long, would outweigh the others ten times. A task
begins with L s_t because the average of two good policies from different basins is a bad one; a new one with the
mean code, the first k with theta = 0.
"""

import contextlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from asap.base.arrays import pick
from asap.base.keys import Key, host_generator, uniforms
from asap.base.spec import Spec, Task, TaskSet
from asap.experience.choose import counted_play
from asap.experience.counted_play import CountedPlay, StepCounter
from asap.experience.rollout import Choice, Uniforms
from asap.policy.policy import NO_SKILL
from asap.rivals.ella import Knowledge, learn_first_task, learn_task, nothing_known, parameters
from asap.rivals.families import family, why_no_family
from asap.rivals.features import FourierBasis, fourier, inputs_of
from asap.rivals.flat_gradient import Improved, PolicyGradient
from asap.rivals.protocol import Agents, has_discrete_actions

RIDGE = 1e-3  # Of Gamma: directions that a policy does not feel.
DRAWN_COLUMNS = 20  # Stream of a seed.


class PerTaskActor(eqx.Module):
    """A softmax policy for each task, chosen by the nearest descriptor."""

    theta: Float[Array, "M A F"]
    descriptors: Float[Array, "M Z"]
    basis: FourierBasis = eqx.field(static=True)

    def draws(self, key: Key) -> Uniforms:
        return uniforms(key)[:1]

    def choose(self, draws: Uniforms, x: Float[Array, "O"], m: Float[Array, "Z"], previous: Int[Array, ""]) -> Choice:
        task = jnp.argmin(((self.descriptors - m) ** 2).sum(-1)) if len(self.theta) > 1 else 0
        return jnp.int32(NO_SKILL), pick(draws[0], jax.nn.softmax(self.theta[task] @ self.basis(x, m)))


def per_task(theta: Float[np.ndarray, "seeds M A F"], tasks: TaskSet, basis: FourierBasis) -> PerTaskActor:
    """Stacked over seeds."""
    descriptors = np.tile(tasks.descriptors, (len(theta), 1, 1))
    return PerTaskActor(jnp.asarray(theta, jnp.float32), jnp.asarray(descriptors), basis)


class LearnedFamily(NamedTuple):
    """For the next task to begin with."""

    known: tuple[Knowledge, ...]  # Of each seed.
    basis: FourierBasis


class Visit(NamedTuple):
    """One time that a task is learned."""

    task: Hashable
    play: CountedPlay
    until: Float[np.ndarray, "seeds"]  # Steps used when it ends.


@dataclass(frozen=True)
class PGELLA:
    """From one task it draws a family, and plays all of it; from several, these are the family."""

    name: str = "pg-ella"
    representation: str = "native"
    learns_skills: bool = True
    num_tasks: int = 3  # Of the family, the given task among them.
    num_columns: int = 3  # k
    rounds: int = 1
    mu: float = 1e-3
    lam: float = 1e-5
    step_size: float = 0.1  # Of Adam.
    num_episodes: int = 20  # Of a batch.
    order: int = 3  # Of the Fourier features; equal representation has none but the constant.

    def why_not(self, tasks: TaskSet) -> str | None:
        return has_discrete_actions(tasks) or (why_no_family(tasks.tasks[0]) if tasks.size == 1 else None)

    def learn(
        self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: LearnedFamily | None = None
    ) -> Agents:
        members = tasks.tasks
        if start is None and tasks.size == 1:
            members = family(tasks.tasks[0], self.num_tasks)
        with contextlib.ExitStack() as stack:
            plays = [
                stack.enter_context(contextlib.closing(counted_play(alone(task), seeds, counter))) for task in members
            ]
            learned = start or self._begun(alone(members[0]), plays[0])
            known, gradient = list(learned.known), self.gradient(learned.basis, tasks.spec)
            for visit in self._visits(members, plays):
                theta = np.stack([self._start(each, visit.task) for each in known])
                shape = len(seeds), tasks.spec.num_actions, learned.basis.size
                found = gradient.improve(visit.play, theta.reshape(shape), tasks.spec.horizon, visit.until)
                known = self._taken_in(known, visit, found)
        learned = LearnedFamily(tuple(known), learned.basis)
        size = tasks.size * tasks.spec.num_actions * learned.basis.size
        return Agents(self.actors(learned, tasks), 0, size, counter.used.copy(), counter.curves(), learned)

    def actors(self, learned: LearnedFamily, tasks: TaskSet) -> PerTaskActor:
        """theta_t = L s_t of every task, with the last L."""
        each = [[self._start(known, named(task)) for task in tasks.tasks] for known in learned.known]
        theta = np.reshape(each, (len(each), tasks.size, tasks.spec.num_actions, -1))
        return per_task(theta, tasks, learned.basis)

    def _begun(self, first: TaskSet, play: CountedPlay) -> LearnedFamily:
        basis = fourier(inputs_of(first, play), 0 if self.representation == "equal" else self.order)
        empty = nothing_known(np.zeros((first.spec.num_actions * basis.size, self.num_columns)))
        return LearnedFamily((empty,) * len(play.seeds), basis)

    def gradient(self, basis: FourierBasis, spec: Spec) -> PolicyGradient:
        """How it learns a task for itself."""
        return PolicyGradient(basis, spec.discount, self.step_size, self.num_episodes)

    def _visits(self, members: Sequence[Task], plays: Sequence[CountedPlay]) -> list[Visit]:
        """Round after round, each with the same share of the steps that are left."""
        counter, total = plays[0].counter, self.rounds * len(members)
        ends = [counter.used + counter.left * ((number + 1) / total) for number in range(total)]
        return [
            Visit(named(task), play, end) for (task, play), end in zip(list(zip(members, plays)) * self.rounds, ends)
        ]

    def _start(self, known: Knowledge, task: Hashable) -> Float[np.ndarray, "AF"]:
        """Where a task's policy gradient begins."""
        if task in known.lessons:
            return parameters(known, task, self.mu)
        return known.L @ known.mean_code if len(known.lessons) >= self.num_columns else np.zeros(len(known.L))

    def _taken_in(self, known: Sequence[Knowledge], visit: Visit, found: Improved) -> list[Knowledge]:
        """A seed that had no steps for this task keeps what it knew."""
        return [
            self._lesson(each, visit.task, found.theta[s].ravel(), found.fisher[s], visit.play.seeds[s])
            if found.learned[s]
            else each
            for s, each in enumerate(known)
        ]

    def _lesson(
        self,
        known: Knowledge,
        task: Hashable,
        alpha: Float[np.ndarray, "AF"],
        fisher: Float[np.ndarray, "AF AF"],
        seed: int,
    ) -> Knowledge:
        gamma = fisher + RIDGE * np.eye(len(alpha))
        if task not in known.lessons and len(known.lessons) < self.num_columns:
            return learn_first_task(known, task, alpha, gamma, self.lam)
        generator = host_generator(seed, DRAWN_COLUMNS, len(known.lessons))
        return learn_task(known, task, alpha, gamma, self.mu, self.lam, generator)


def alone(task: Task) -> TaskSet:
    return TaskSet((task,), (1.0,))


def named(task: Task) -> Hashable:
    """By which a task is known again."""
    return task.name, task.descriptor
