"""Planes and skills taken out of a policy as long as that costs little: what learning added and did not need.

A step drops a plane, whose two sides then share their skills, or lets two skills become one. The new skill is fitted to what the old
ones did in the states that were played. Of all steps the one with the best return is taken, if it stays within the loss that is
allowed: a share of the way from random play to the present return, measured on fresh episodes.
"""

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asap.base.arrays import stack
from asap.base.errors import UserError
from asap.base.numbers import counted, number
from asap.base.stats import mean_interval
from asap.config.settings import override
from asap.experience.protocol import Evaluation, OnProgress, ignore_progress
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import regions_at
from asap.policy.rules.from_policy import rules_text, sample_states
from asap.policy.surgery import merged_by_fit, uniform

if TYPE_CHECKING:
    from asap.model.model import ASAP

MOST_STATES = 4096
MOST_PAIRS = 28  # Of skills that are tried to become one.


class PruneStep(NamedTuple):
    words: str
    policy: ASAPPolicy
    mean: float
    interval: tuple[float, float] | None


class Pruned(NamedTuple):
    """The smaller model, and what it cost."""

    model: "ASAP"
    steps: list[dict[str, Any]]
    before: float
    random: float
    allowed: float  # The least return that was accepted.

    def as_dict(self) -> dict[str, Any]:
        partition = self.model.policy.partition
        sizes = {"planes": partition.num_planes, "skills": partition.num_skills}
        return {**sizes, "steps": self.steps, "return": self.before, "random": self.random, "least": self.allowed}

    def in_words(self) -> str:
        lines = [f"return {number(self.before)}, random play {number(self.random)}: {number(self.allowed)} is enough"]
        for step in self.steps:
            low, high = step["ci"] or (step["return"],) * 2
            lines.append(f"{step['step']}: {number(step['return'])} ({number(low)} to {number(high)})")
        if not self.steps:
            lines.append("nothing can go")
        partition = self.model.policy.partition
        return "\n".join(
            [*lines, f"left: {counted(partition.num_planes, 'plane')}, {counted(partition.num_skills, 'skill')}"]
        )


def prune(model: "ASAP", loss: float, episodes: int, seed: int, on_progress: OnProgress = ignore_progress) -> Pruned:
    """The model with as few planes and skills as the loss allows; of the seed that is looked at."""
    if not 0 <= loss <= 1:
        raise UserError("loss", "must be a share from 0 to 1", loss, "use for example 0.05")
    deterministic, rounds = model.config.run.deterministic, itertools.count(seed)

    def play(policy: ASAPPolicy, number_: int, is_drawn: bool = False) -> Evaluation:
        played = model.play(stack([policy]), episodes, [number_], deterministic and not is_drawn)
        on_progress(1)
        return played

    policy, first = model.policy, next(rounds)
    now = play(policy, first)
    before, random = _mean(model, now), _mean(model, play(uniform(policy), first, is_drawn=True))
    allowed = before - loss * max(before - random, 0.0)
    taken: list[PruneStep] = []
    while True:
        states = now.observations if now.observations is not None else sample_states(policy, model.tasks.tasks[0])
        fresh = next(rounds)
        tried = [
            _tried(model, words, smaller, play(smaller, fresh)) for words, smaller in _smaller(policy, model, states)
        ]
        fitting = [step for step in tried if step.mean >= allowed]
        if not fitting:
            return Pruned(_model_of(model, policy), [_told(step) for step in taken], before, random, allowed)
        taken.append(max(fitting, key=lambda step: (-step.policy.partition.num_planes, step.mean)))
        policy = taken[-1].policy
        now = play(policy, next(rounds))


def _mean(model: "ASAP", played: Evaluation) -> float:
    return float(np.einsum("m,mn->n", model.tasks.shares, played.returns[0]).mean())


def _tried(model: "ASAP", words: str, policy: ASAPPolicy, played: Evaluation) -> PruneStep:
    returns = np.einsum("m,mn->n", model.tasks.shares, played.returns[0])
    return PruneStep(words, policy, float(returns.mean()), mean_interval(returns))


def _told(step: PruneStep) -> dict[str, Any]:
    return {"step": step.words, "return": step.mean, "ci": step.interval}


def _smaller(policy: ASAPPolicy, model: "ASAP", states: np.ndarray) -> Iterator[tuple[str, ASAPPolicy]]:
    """One plane or one skill less, in every way."""
    partition, kept = policy.partition, policy.kept
    states = np.asarray(states, np.float32)[:: max(1, len(states) // MOST_STATES)]
    m = np.asarray(model.tasks.tasks[0].descriptor, np.float32)
    of_region, regions = partition.skill_of_region, np.arange(partition.num_regions)
    margins = regions_at(policy, states, m).margins
    active = of_region[(margins > 0) @ (1 << np.arange(partition.num_planes))]
    for k in range(partition.num_planes):
        if k in kept.planes:
            continue
        low, high = (of_region[regions[(regions >> k) & 1 == side]] for side in (0, 1))
        pairs, new = np.unique(np.sort(np.stack([low, high], -1), axis=1), axis=0, return_inverse=True)
        groups = [tuple(sorted(set(pair))) for pair in pairs.tolist()]
        if not any(set(group) & set(kept.skills) for group in groups if len(group) > 1):
            yield f"without plane {k + 1}", merged_by_fit(policy, k, groups, new.ravel().tolist(), states, m, active)
    pairs = itertools.combinations([s for s in range(partition.num_skills) if s not in kept.skills], 2)
    for first, second in itertools.islice(pairs, MOST_PAIRS) if partition.num_skills > 1 else ():
        groups = [(first, second) if s == first else (s,) for s in range(partition.num_skills) if s != second]
        place = {s: index for index, group in enumerate(groups) for s in group}
        new = [place[s] for s in of_region.tolist()]
        yield f"skills {first} and {second} as one", merged_by_fit(policy, None, groups, new, states, m, active)


def _model_of(model: "ASAP", policy: ASAPPolicy) -> "ASAP":
    """A model of the smaller policy, whose settings say its size."""
    config, partition = model.config, policy.partition
    run = {"run.seed": model.seed, "run.seeds": 1}
    if config.policy.rules:  # Their shape is that of their text: so the text is the smaller one's.
        text = rules_text(policy, model.tasks.tasks, is_exact=True)
        config = override(config, {**run, "policy.rules": text, "policy.hyperplanes": partition.num_planes})
        policy = type(model).of(config, model.tasks).given.policy()
    shared = partition.region_skills or ()
    config = override(config, {**run, "policy.hyperplanes": partition.num_planes, "policy.region_skills": shared})
    return type(model).of(config, model.tasks, stack([policy]), model.num_episodes, model.num_timesteps)
