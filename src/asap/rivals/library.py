"""The systems that are this library: ASAP, ASAP without planes, and flat policies, which are ASAP without planes too.

A flat policy is one skill everywhere: logits that are linear in the state, or a network. `flat-ppo` and `flat-reinforce` have about
as many parameters as ASAP's policy on the same task, `flat-ppo-64` and `flat-reinforce-64` a network of two layers of 64 units.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from asap.base.spec import TaskSet
from asap.base.stats import SeedCurve
from asap.compose import config_for
from asap.config.schema import Config
from asap.config.settings import Values, with_values
from asap.experience.counted_play import CHUNKS, StepCounter
from asap.experience.rollout import Likeliest
from asap.model.training import train_run
from asap.policy.build import build_policy
from asap.policy.policy import ASAPPolicy
from asap.policy.score import parameters_of
from asap.rivals.protocol import Agents
from asap.runs.events import Report

FLAT = {  # Learner and units of each layer; None: as few as ASAP has parameters.
    "flat-ppo": ("ppo", None),
    "flat-ppo-64": ("ppo", (64, 64)),
    "flat-reinforce": ("reinforce", None),
    "flat-reinforce-64": ("reinforce", (64, 64)),
}
# The best of six settings each, on seeds 100 to 102 of 2R and 3R.
TUNED: dict[str, Values] = {
    "flat-ppo-64": {"learn.step_size_theta": 0.003},
    "flat-reinforce": {"learn.step_size_theta": 0.05, "learn.batch_episodes": 8},
    "flat-reinforce-64": {"learn.step_size_theta": 0.003, "learn.batch_episodes": 8},
}
NEAR = 1 / 8  # Of ASAP's parameters: up to that many more or fewer, logits are linear rather than of a network.
# On 3R the task's own feature lies alike in the first and the third room, so that one skill must serve both. On the equal
# track nothing forces that: two planes over [1, x, y].
# Of six settings of learning, tried on seeds 100 to 102, none solved 3R more than once; this is one of the two that did.
UNFORCED = {
    "policy.basis": "linear",
    "policy.hyperplanes": 2,
    "policy.skills": "constant",
    "policy.start": "random",
    "learn.trace": 0.98,
    "learn.schedule_scale": 400.0,
}


# A look at a policy that fails is as long as episodes get: many would take longer than learning.
LOOK_EPISODES = 16
EPISODIC_CHUNK = 4  # Updates between two looks, where an update takes as many steps as its episodes have.


class Trained(NamedTuple):
    """What came out for seeds that follow each other."""

    policies: ASAPPolicy
    env_steps: np.ndarray
    curves: list[SeedCurve]


@dataclass(frozen=True)
class Library:
    """Its name says which of them it is; `settings` are further ones, as of `asap settings`."""

    name: str = "asap"
    representation: str = "native"
    learns_skills: bool = True
    settings: tuple[tuple[str, Any], ...] = ()

    def why_not(self, tasks: TaskSet) -> str | None:
        return None

    def learn(self, tasks: TaskSet, seeds: Sequence[int], counter: StepCounter, start: Any = None) -> Agents:
        config, parts, done = self.config(tasks, counter.budget), [], 0
        for first, count in neighbours(seeds):
            place = slice(done, done + count)
            own = with_values(config, {"run.seed": first, "run.seeds": count})
            given = None if start is None else jax.tree.map(lambda leaf, place=place: leaf[place], start)
            parts.append(_trained(own, tasks, counter, place, given))
            counter.stop.check()
            done += count
        policies = jax.tree.map(lambda *leaves: np.concatenate(leaves), *(part.policies for part in parts))
        return Agents(
            actors=Likeliest(policies) if config.run.deterministic else policies,
            num_skills=0 if self.name in FLAT else policies.num_skills,
            num_parameters=num_parameters(policies) // len(seeds),
            steps_used=np.concatenate([part.env_steps for part in parts]),
            curves=[curve for part in parts for curve in part.curves],
            state=policies,
        )

    def config(self, tasks: TaskSet, budget: int) -> Config:
        """The task's defaults, this system's own, and the budget in whole updates: it is not overdrawn by more than one."""
        own = {**self._own(tasks), **dict(self.settings), "learn.convergence_tolerance": 0.0}
        if not self.learns_skills:
            own["policy.keep"] = "skills"
        own.setdefault("run.eval_episodes", LOOK_EPISODES)
        learn = config_for(tasks, own).learn
        size, chunk = 1, EPISODIC_CHUNK
        if learn.learner != "reinforce":
            size = learn.lanes * learn.window
            chunk = max(1, budget // (size * CHUNKS))
        return config_for(tasks, {**own, "run.steps": max(budget // size, 1) * size, "run.chunk": chunk})

    def _own(self, tasks: TaskSet) -> Values:
        if self.name == "asap":
            return self._partition(tasks)
        if self.name == "asap-k0":
            return {"policy.hyperplanes": 0}
        learner, hidden = FLAT[self.name]
        sees_task = {"policy.task_features": "interactions"} if tasks.size > 1 else {}
        own = {"policy.hyperplanes": 0, "policy.start": "random", "learn.learner": learner}
        own = {**own, **TUNED.get(self.name, {}), **sees_task}
        if hidden is not None:
            return {**own, "policy.skills": "network", "policy.hidden": hidden}
        wanted = size_of(tasks, self._partition(tasks))
        linear = {**own, "policy.skills": "linear"}
        best, distance = linear, abs(size_of(tasks, linear) - wanted)
        if distance <= NEAR * wanted:
            return linear
        for units in range(1, wanted):
            small = {**own, "policy.skills": "network", "policy.hidden": (units,)}
            size = size_of(tasks, small)
            if abs(size - wanted) < distance:
                best, distance = small, abs(size - wanted)
            if size >= wanted:
                break
        return best

    def _partition(self, tasks: TaskSet) -> Values:
        return UNFORCED if self.representation == "equal" and tasks.tasks[0].basis == "fourier" else {}


def neighbours(seeds: Sequence[int]) -> list[tuple[int, int]]:
    """Seeds as runs of numbers that follow each other, first and length: that is how the library trains them."""
    runs: list[tuple[int, int]] = []
    for seed in map(int, seeds):
        if runs and seed == sum(runs[-1]):
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((seed, 1))
    return runs


def size_of(tasks: TaskSet, settings: Values) -> int:
    """Parameters of the policy that these settings give."""
    policy = build_policy(config_for(tasks, settings).policy, tasks.tasks, np.random.default_rng(0))
    return num_parameters(policy)


def num_parameters(policies: ASAPPolicy) -> int:
    """Of all seeds that are stacked."""
    return sum(np.size(leaf) for leaf in jax.tree.leaves(parameters_of(policies)))


def _trained(config: Config, tasks: TaskSet, counter: StepCounter, place: slice, given: ASAPPolicy | None) -> Trained:
    """These seeds, side by side."""
    steps: list[np.ndarray] = []

    def watch(report: Report) -> None:
        steps.append(np.asarray(report.env_steps))
        counter.reach(report.env_steps, place)

    states, result = train_run(None, config, tasks, counter.stop, [watch], given=given, evaluates=False)
    curve, by_steps = result.curve, np.stack([np.zeros_like(states.env_steps), *steps])
    returns = curve.returns @ tasks.shares
    known = np.isfinite(returns) & (curve.active > 0)
    curves = [SeedCurve(by_steps[known[:, s], s], returns[known[:, s], s]) for s in range(config.run.seeds)]
    return Trained(jax.tree.map(np.asarray, states.outcome), np.asarray(states.env_steps), curves)
