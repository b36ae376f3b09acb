"""Parameterized skills: policies of sample tasks become a function of the task (da Silva, Konidaris, Barto, 2012).

An implementation of ours, not the authors' code.

    for K tasks tau_i of the family:
      theta_i   <- policy search on tau_i, from the policy of the nearest task that is solved, else from 0
      theta_i   <- the same policy with weights that sum to 0 over the actions
    Theta       <- charts of {(tau_i, theta_i)} (`asap.rivals.charts`), from the tasks that are solved
    theta       <- Theta(tau) for the task at hand, without a step of it; then policy search with what is left of the budget

Departures: the search is a policy gradient, because actions are discrete; the paper's PoWER is what the throwing arm learns with.
What is solved, nobody says here: a task whose last episodes return more than halfway from the worst to the best that this seed has
seen. A policy that is sure of what earns nothing explores nothing: after the first batch, and at a few looks later, one that is
hardly better than the worst is dropped for 0. The tasks are the same for all seeds. It is one policy at a time, which ends only with its episode: actors name no skill.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from asap.base.spec import Task, TaskSet
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepCounter
from asap.rivals.charts import FEWEST, ParameterizedSkill, fit_skill
from asap.rivals.families import family, why_no_family
from asap.rivals.features import FourierBasis, fourier, inputs_of
from asap.rivals.flat_gradient import PolicyGradient
from asap.rivals.pg_ella import PerTaskActor, alone
from asap.rivals.protocol import Agents, has_discrete_actions

SOLVED, HOPELESS = 0.5, 0.1  # Of the way from the worst return to the best.
RIDGES = (1e-2, 1e-1, 1.0)  # Where a policy gradient ends is a matter of chance too.


class Samples(NamedTuple):
    """Tasks so far and the policies they led to; `basis` is that of the policies."""

    tau: Float[np.ndarray, "n Z"]
    theta: Float[np.ndarray, "seeds n AF"]
    returns: Float[np.ndarray, "seeds n"]  # Of the last batch; minus infinity where there were no steps for one.
    worst: Float[np.ndarray, "seeds"]  # Of all batches so far; NaN before the first.
    best: Float[np.ndarray, "seeds"]
    basis: FourierBasis

    @property
    def solved(self) -> Bool[np.ndarray, "seeds n"]:
        return self.returns > self.level(SOLVED)[:, None]

    def are_hopeless(self, returns: Float[np.ndarray, "seeds"]) -> Bool[np.ndarray, "seeds"]:
        return returns <= self.level(HOPELESS)

    def level(self, share: float) -> Float[np.ndarray, "seeds"]:
        return self.worst + share * (self.best - self.worst)

    def skill(self, seed: int) -> ParameterizedSkill | None:
        """Theta of a seed; None while it has too few tasks."""
        solved = self.solved[seed]
        if solved.sum() < FEWEST:
            return None
        return fit_skill(self.tau[solved], self.theta[seed, solved], ridges=RIDGES)

    def having_seen(self, counter: StepCounter) -> "Samples":
        """With the extremes of what the counter has heard of."""
        seen = [np.asarray(curve.returns).tolist() or [np.nan] for curve in counter.curves()]
        worst, best = (np.asarray([extreme(each) for each in seen]) for extreme in (min, max))
        return self._replace(worst=np.fmin(self.worst, worst), best=np.fmax(self.best, best))

    def nearest(self, tau: Float[np.ndarray, "Z"]) -> Float[np.ndarray, "seeds AF"]:
        """The policy of the nearest solved task; 0, which takes all actions alike, where there is none."""
        distance = np.linalg.norm(self.tau - tau, axis=1)
        found = np.zeros((len(self.theta), self.theta.shape[2]))
        for s, solved in enumerate(self.solved):
            if solved.any():
                found[s] = self.theta[s, np.where(solved, distance, np.inf).argmin()]
        return found

    def zero_shot(self, tau: Float[np.ndarray, "Z"]) -> Float[np.ndarray, "seeds AF"]:
        """Theta(tau); while there are too few tasks for it, the nearest one's policy."""
        skills = [self.skill(s) for s in range(len(self.theta))]
        nearest = self.nearest(tau)
        return np.stack([near if skill is None else skill(tau[None])[0] for skill, near in zip(skills, nearest)])


@dataclass(frozen=True)
class ParameterizedSkills:
    """`share` of the budget is for the family. With skills that are not learned, all policies stay as they begin: there is
    nothing else to learn, since one policy plays a whole task."""

    name: str = "parameterized-skills"
    representation: str = "native"
    learns_skills: bool = True
    num_tasks: int = 4  # K; charts are looked for from six solved tasks on.
    share: float = 0.6
    step_size: float = 0.1  # Of Adam.
    num_episodes: int = 20  # Of a batch.
    looks: int = 4  # At each task, whether its policy is to be dropped.
    order: int = 3  # Of the Fourier features; equal representation has none but the constant.

    def why_not(self, tasks: TaskSet) -> str | None:
        return has_discrete_actions(tasks) or why_no_family(tasks.tasks[0])

    def learn(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Samples | None = None) -> Agents:
        """With a `start` the family is not played again; the tasks at hand join it."""
        samples = start
        if samples is None:
            samples = self._none_yet(tasks, seeds, counter)
            members = family(tasks.tasks[0], self.num_tasks + 1)[1:]
            for task, until in zip(members, ends(counter, self.num_tasks, self.share)):
                samples = self._with(samples, task, samples.nearest(described(task)), until, seeds, counter)
        predicted = [samples.zero_shot(described(task)) for task in tasks.tasks]
        for task, theta, until in zip(tasks.tasks, predicted, ends(counter, tasks.size, 1.0)):
            samples = self._with(samples, task, theta, until, seeds, counter)
        theta = samples.theta[:, -tasks.size :].reshape(len(seeds), tasks.size, tasks.spec.num_actions, -1)
        descriptors = np.tile(tasks.descriptors, (len(seeds), 1, 1))
        actors = PerTaskActor(jnp.asarray(theta, jnp.float32), jnp.asarray(descriptors), samples.basis)
        return Agents(actors, 0, theta[0].size, counter.used.copy(), counter.curves(), samples)

    def _none_yet(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter) -> Samples:
        first = alone(tasks.tasks[0])
        with contextlib.closing(counted_play(first, seeds, counter)) as play:
            basis = fourier(inputs_of(first, play), 0 if self.representation == "equal" else self.order)
        size, count = tasks.spec.num_actions * basis.size, len(seeds)
        empty = np.zeros((0, tasks.descriptors.shape[1])), np.zeros((count, 0, size)), np.zeros((count, 0))
        return Samples(*empty, np.full(count, np.nan), np.full(count, np.nan), basis)

    def _with(
        self,
        samples: Samples,
        task: Task,
        theta: Float[np.ndarray, "seeds AF"],
        until: ArrayLike,
        seeds: Sequence[int],
        counter: StepCounter,
    ) -> Samples:
        """One more task, learned from `theta` until so many steps are used."""
        step_size = self.step_size if self.learns_skills else 0.0
        gradient = PolicyGradient(samples.basis, task.spec.discount, step_size, self.num_episodes)
        theta = theta.reshape(len(seeds), task.spec.num_actions, samples.basis.size)
        with contextlib.closing(counted_play(alone(task), seeds, counter)) as play:
            stops = np.linspace(counter.used, until, self.looks + 1)
            stops[0] = counter.used + 1  # One batch.
            returns = np.full(len(seeds), -np.inf)
            for stop in stops:
                found = gradient.improve(play, theta, task.spec.horizon, stop)
                returns, samples = np.where(found.learned, found.returns, returns), samples.having_seen(counter)
                goes_on = (counter.used < until) & counter.affords(self.num_episodes, task.spec.horizon)
                is_dropped = goes_on & samples.are_hopeless(returns)
                theta = np.where(is_dropped[:, None, None], 0.0, found.theta)
        return samples.having_seen(counter)._replace(
            tau=np.concatenate([samples.tau, described(task)[None]]),
            theta=np.concatenate([samples.theta, theta.reshape(len(seeds), 1, -1)], 1),
            returns=np.concatenate([samples.returns, returns[:, None]], 1),
        )


def described(task: Task) -> Float[np.ndarray, "Z"]:
    """tau"""
    return np.asarray(task.descriptor, float)


def ends(counter: StepCounter, count: int, share: float) -> Float[np.ndarray, "count seeds"]:
    """Steps used at the end of each of so many equal parts of a share of what is left."""
    return np.stack([counter.used + counter.left * share * (number + 1) / count for number in range(count)])
