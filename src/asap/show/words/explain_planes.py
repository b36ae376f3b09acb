"""A policy as planes and skills: which inequality cuts where in each task, what each skill does, how often and how
long."""

import math
from collections.abc import Mapping, Sequence

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from asap.base.numbers import number, sum_of
from asap.base.spec import Spec, Task
from asap.policy.partition import region_bits
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import OWNS, Regions, regions_at, states_in_bounds
from asap.show.words.expressions import Expression, expression
from asap.show.words.readings import PlaneInTask, PlaneReading, PolicyReading, SkillReading

TEN_TO_NINETY = 2 * math.log(9)  # What a margin grows by while its sigmoid goes from 10 % to 90 %.


def planes_reading(
    policy: ASAPPolicy, tasks: Sequence[Task], usage: list[float | None], durations: list[float | None]
) -> PolicyReading:
    """For one task, or for several that it was trained on together: they share a spec."""
    spec, descriptors = tasks[0].spec, {task.name: np.asarray(task.descriptor, np.float32) for task in tasks}
    states = states_in_bounds(spec)
    regions = {name: None if states is None else regions_at(policy, states, m) for name, m in descriptors.items()}
    return PolicyReading(
        tasks=tuple(descriptors),
        unit=spec.unit,
        alpha_beta=float(policy.partition.alpha_beta),
        termination=policy.termination,
        planes=tuple(_read_plane(policy, spec, descriptors, regions, k) for k in range(policy.partition.num_planes)),
        skills=_read_skills(policy, spec, descriptors, usage, durations, _used(regions, usage)),
    )


def _read_plane(
    policy: ASAPPolicy,
    spec: Spec,
    descriptors: Mapping[str, ArrayLike],
    regions: Mapping[str, Regions | None],
    k: int,
) -> PlaneReading:
    beta = policy.partition.beta[k]

    def in_task(m: ArrayLike, states: Regions | None) -> PlaneInTask:
        plane = expression(policy.psi, beta, spec.observation_names, m)
        slope = float(policy.partition.alpha_beta) * (plane.slope or 0.0)
        share = None if states is None else float((states.margins[:, k] > 0).mean())
        return PlaneInTask(_inequality(plane, spec.unit), TEN_TO_NINETY / slope if slope else None, share)

    tasks = {name: in_task(m, regions[name]) for name, m in descriptors.items()}
    features = policy.psi.names(spec.observation_names, len(next(iter(descriptors.values()))))
    return PlaneReading(k + 1, tuple(beta.tolist()), features, tasks)


def _inequality(plane: Expression, unit: str) -> str:
    """`1.63 x + 0.63 y > 1.38 (x, y in m)`. Only very small or large numbers are rescaled; the side stays the same."""
    if not plane.terms:
        return f"{number(plane.constant)} > 0"
    largest = max(abs(c) for _, c in plane.terms)
    if not 0.1 <= largest < 10:
        plane = plane.scaled(10.0 ** -math.floor(math.log10(largest)))
    where = f" ({', '.join(plane.inputs)} in {unit})" if unit else ""
    return f"{sum_of(plane.terms)} > {number(-plane.constant)}{where}"


def _read_skills(
    policy: ASAPPolicy,
    spec: Spec,
    descriptors: Mapping[str, ArrayLike],
    usage: list[float | None],
    durations: list[float | None],
    used: list[bool],
) -> tuple[SkillReading, ...]:
    sides = (2 * np.asarray(region_bits(policy.partition.num_planes)) - 1).tolist()
    constant = policy.phi.constant and policy.phi.task == "none"
    probabilities = np.exp(np.asarray(policy.skills.log_probs(jnp.ones(1)))) if constant else None

    def read(s: int) -> SkillReading:
        actions = dict(zip(spec.action_names, probabilities[s].tolist())) if constant else None
        scores = None if constant else {name: _scores(policy, spec, s, m) for name, m in descriptors.items()}
        return SkillReading(s, tuple(sides[s]), actions, scores, usage[s], durations[s], used[s])

    return tuple(read(s) for s in range(policy.num_skills))


def _scores(policy: ASAPPolicy, spec: Spec, skill: int, m: ArrayLike) -> dict[str, str]:
    """alpha_theta theta_a^T phi per action. The mean over actions cancels in the softmax, so it is taken out."""
    weights = float(policy.skills.alpha_theta) * np.asarray(policy.skills.theta[skill], float)
    scores = [expression(policy.phi, row, spec.observation_names, m) for row in weights - weights.mean(0)]
    return {name: str(score) for name, score in zip(spec.action_names, scores)}


def _used(regions: Mapping[str, Regions | None], usage: list[float | None]) -> list[bool]:
    """By usage if it is known, otherwise by ruling a part of the observation box in some task."""
    if None not in usage:
        return [share >= OWNS for share in usage]
    if any(states is None for states in regions.values()):
        return [True] * len(usage)
    return (np.max([states.shares for states in regions.values()], axis=0) >= OWNS).tolist()
