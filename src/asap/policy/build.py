"""A policy from its configuration, bounded by memory before anything is allocated; and as a plan for the host."""

import dataclasses
import itertools
import math
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from asap.base.errors import UserError
from asap.base.spec import Drawn, Task
from asap.config.schema import Config, LearnConfig, PolicyConfig
from asap.config.settings import shown
from asap.policy.features import Basis, Features, Fourier, Network, Polynomial
from asap.policy.host import Plan
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GaussianSkills, GibbsSkills, UniformSkills

START_SCALE = 0.01  # Skills start near uniform: symmetric ones would get equal gradients and never part.
MOST_FEATURES, MOST_WEIGHTS = 100_000, 10_000_000  # Looked at before anything is allocated.
START_LOG_STD = -0.5  # Of Gaussian skills, whose range of actions is from -1 to 1.


def build_policy(config: PolicyConfig, tasks: tuple[Task, ...], generator: np.random.Generator) -> ASAPPolicy:
    """A fresh policy at its misspecified start, or as rules have it; the first task decides what is left open."""
    if config.rules:
        from asap.policy.rules.given import given_rules  # Most trainings need none, and start sooner.

        return _kept(given_rules(config, tasks).policy(), config)
    psi, phi = build_psi(config, tasks), build_phi(config, tasks)
    num_psi, num_phi = psi.size(len(tasks[0].descriptor)), phi.size(len(tasks[0].descriptor))
    shape = (config.num_skills, tasks[0].spec.num_actions, num_phi)
    theta = np.float32(START_SCALE) * generator.standard_normal(shape, np.float32)
    beta = _start_planes(config, tasks[0], generator, num_psi)
    skills = GibbsSkills(theta, np.float32(config.alpha_theta))
    if tasks[0].spec.continuous:
        skills = GaussianSkills(theta, np.full(shape[:2], START_LOG_STD, np.float32))
    psi, phi = (_with_drawn_network(features, generator) for features in (psi, phi))
    partition = Partition(beta, np.float32(config.alpha_beta), config.region_skills or None)
    return _kept(ASAPPolicy(partition, skills, psi, phi, config.termination), config)


def _kept(policy: ASAPPolicy, config: PolicyConfig) -> ASAPPolicy:
    """With all of its planes or skills kept, where the config says so."""
    if config.keep is None:
        return policy
    planes, skills = tuple(range(policy.partition.num_planes)), tuple(range(policy.num_skills))
    kept = policy.kept._replace(**({"planes": planes} if config.keep == "partition" else {"skills": skills}))
    return dataclasses.replace(policy, kept=kept)


def uniform_policy(task: Task) -> ASAPPolicy:
    """One skill everywhere that takes every action alike."""
    policy = build_policy(PolicyConfig(hyperplanes=0, start="random"), (task,), np.random.default_rng(0))
    return dataclasses.replace(policy, skills=dataclasses.replace(policy.skills, theta=0 * policy.skills.theta))


def _with_drawn_network(features: Features, generator: np.random.Generator) -> Features:
    """Only here, so that maps can be asked for their size and names before anything is drawn."""
    if not isinstance(features.basis, Network):
        return features
    sizes = (features.basis.weights[0].shape[1], *(len(biases) for biases in features.basis.biases))
    return dataclasses.replace(features, basis=Network.drawn(sizes, generator))


def _start_planes(config: PolicyConfig, task: Task, generator: np.random.Generator, size: int) -> np.ndarray:
    """The task's named plane first, where psi is the task's own; further planes are random."""
    beta = np.float32(0.5) * generator.standard_normal((config.hyperplanes, size), np.float32)
    if config.start == "random" or not has_own_features(config, task) or not config.hyperplanes:
        return beta
    named = task.misspecified if config.start == "misspecified" else task.approximate
    if not named:
        return beta
    beta[0] = 0
    beta[0, : len(named)] = named
    return beta


def has_own_features(config: PolicyConfig, task: Task) -> bool:
    """Planes that a task names are in its own features."""
    return config.basis in (None, task.basis) and not config.inputs and not config.frequencies


def require_sensible(config: PolicyConfig, task: Task) -> None:
    """What a policy that is yet to be trained may not ask for: a start that there is not, or skills beyond reading."""
    if config.hyperplanes > config.most_hyperplanes:
        what = f"must be an integer from 0 to {config.most_hyperplanes}: there would be {skills_of(config.hyperplanes)}"
        cure = f"if you mean it, say so: --set policy.most_hyperplanes={config.hyperplanes}"
        raise UserError("policy.hyperplanes", what, config.hyperplanes, cure)
    planes = {"misspecified": task.misspecified, "approximate": task.approximate}
    starts = [*(name for name, plane in planes.items() if plane), "random"]
    if config.start not in starts:
        what = f"{task.name} has no such first plane"
        raise UserError("policy.start", what, config.start, f"choose from {', '.join(starts)}")
    if config.start == "approximate" and not has_own_features(config, task):
        what = f"the plane of {task.name} is in its own features, and others are chosen"
        raise UserError("policy.start", what, config.start, "use random, or leave the features out")


def build_psi(config: PolicyConfig, tasks: tuple[Task, ...]) -> Features:
    first = tasks[0]
    inputs = _input_indices(config, first)
    return Features.of(_basis(config, first, len(inputs)), inputs, _task_features(config, tasks))


def _task_features(config: PolicyConfig, tasks: tuple[Task, ...]) -> str:
    if config.task_features != "auto":
        return config.task_features
    return "interactions" if len(tasks) > 1 or any(task.drawn for task in tasks) else "none"


def build_phi(config: PolicyConfig, tasks: tuple[Task, ...]) -> Features:
    inputs = _input_indices(config, tasks[0])
    # Without planes nothing else could see the task.
    is_asked = config.task_in_skills or (not config.hyperplanes and config.task_features != "auto")
    sees_task = is_asked and config.skills in ("linear", "network")
    task_features = _task_features(config, tasks) if sees_task else "none"
    if config.skills == "network":
        return Features.of(_network(config, len(inputs)), inputs, task_features)
    return Features.of(Polynomial(1 if config.skills == "linear" else 0), inputs, task_features)


def _basis(config: PolicyConfig, task: Task, count: int) -> Basis:
    kind = config.basis or task.basis
    if kind == "polynomial" and math.comb(count + config.degree, count) > MOST_FEATURES:
        what = f"over {count} inputs there are more than {MOST_FEATURES:,} features"
        cure = (
            "states with numbers need no products: use linear"
            if task.spec.numbered
            else "name fewer by policy.inputs, or use linear"
        )
        raise UserError("policy.basis", what, kind, cure)
    if kind == "linear":
        return Polynomial(1)
    if kind == "polynomial":
        return Polynomial(config.degree)
    if kind == "network":
        return _network(config, count)
    return _fourier(config, task, count)


def _network(config: PolicyConfig, num_inputs: int) -> Network:
    if not config.hidden:
        raise UserError("policy.hidden", "a network needs at least one layer", "()", "set policy.hidden=[16]")
    sizes = num_inputs, *config.hidden
    if sum(before * after for before, after in itertools.pairwise(sizes)) > MOST_WEIGHTS:
        what = f"a network may have {MOST_WEIGHTS:,} weights at most"
        raise UserError("policy.hidden", what, shown(config.hidden), "use fewer units")
    return Network.empty(sizes)


def _fourier(config: PolicyConfig, task: Task, num_inputs: int) -> Fourier:
    frequencies = config.frequencies or task.frequencies
    if not frequencies:
        raise UserError(
            "policy.frequencies", "the fourier basis needs at least one", "()", "set policy.frequencies=[[3, 0]]"
        )
    for row in frequencies:
        if len(row) != num_inputs:
            what = f"each frequency vector needs {num_inputs} numbers, one per input"
            raise UserError("policy.frequencies", what, list(row), "set policy.inputs to match")
    bias = bool(config.frequencies) if config.bias is None else config.bias
    return Fourier(np.float32(frequencies), bias)


def _input_indices(config: PolicyConfig, task: Task) -> tuple[int, ...]:
    known = task.spec.observation_names
    for name in config.inputs:
        if name not in known:
            raise UserError(
                "policy.inputs",
                f"no observation of that name in {task.name}",
                repr(name),
                f"choose from {', '.join(known)}",
            )
    return tuple(known.index(name) for name in (config.inputs or task.inputs))


def require_memory(config: Config, tasks: tuple[Task, ...]) -> None:
    """Refuse a K whose skills, or whose scores over a batch, do not fit; nothing has been allocated yet."""
    policy, learn = config.policy, config.learn
    if policy.hyperplanes < 0:
        what = f"must be an integer from 0 to {policy.most_hyperplanes}"
        raise UserError("policy.hyperplanes", what, shown(policy.hyperplanes), "K = 0 is one skill everywhere")
    _require_region_skills(policy)
    per_skill = tasks[0].spec.num_actions * build_phi(policy, tasks).size(len(tasks[0].descriptor))
    samples = _samples(learn, tasks[0])
    # Parameters with their gradients and moments (6 copies); joint, posterior and score of each sample (4 arrays).
    numbers = (6 * per_skill + 4 * samples) * config.run.seeds
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    largest = (available // (4 * numbers)).bit_length() - 1
    if policy.hyperplanes <= largest:
        return
    if largest < 0:
        what = f"{samples:,} samples of {config.run.seeds:,} seeds need {4 * numbers:,} bytes, the machine has {available:,}"
        if _keeps_steps(learn):
            raise UserError("learn.batch_episodes", what, learn.batch_episodes, "use fewer episodes or seeds")
        raise UserError("learn.lanes", what, learn.lanes, "use fewer lanes or seeds, or a shorter learn.window")
    # Beyond 2^60 skills the exact number helps nobody and would take a while to print.
    exact = policy.hyperplanes <= 60
    needed = f"{4 * numbers << policy.hyperplanes:,} bytes" if exact else f"more than {4 * numbers << 60:,} bytes"
    raise UserError(
        "policy.hyperplanes",
        f"K={policy.hyperplanes} needs {needed} ({skills_of(policy.hyperplanes)} x {numbers:,} numbers x 4 B), "
        f"the machine has {available:,} bytes",
        policy.hyperplanes,
        f"use K <= {min(largest, policy.most_hyperplanes)}",
    )


def _samples(learn: LearnConfig, task: Task) -> int:
    """Steps whose scores an update holds at a time."""
    if learn.learner != "reinforce":
        return learn.lanes * learn.window
    # A task of our own has room for the longest episodes; other environments are packed as they come.
    return learn.batch_episodes * task.spec.horizon if _keeps_steps(learn) and task.record() is None else learn.lanes


def _keeps_steps(learn: LearnConfig) -> bool:
    return learn.learner == "reinforce" and learn.baseline == "running"


def skills_of(planes: int) -> str:
    return f"{1 << planes:,} skills" if planes <= 60 else f"2^{planes} skills"


def _require_region_skills(config: PolicyConfig) -> None:
    """Each region has a skill, and each skill a region."""
    skills = config.region_skills
    if not skills:
        return
    if config.hyperplanes > 20 or len(skills) != 2**config.hyperplanes:
        what = f"must name a skill for each of the 2^{config.hyperplanes} regions"
        raise UserError("policy.region_skills", what, f"{len(skills)} numbers", "set policy.hyperplanes to match")
    missing = set(range(max(skills))) - set(skills)
    if missing:
        what = f"no region has skill {min(missing)}"
        raise UserError("policy.region_skills", what, shown(skills), "count skills from 0, without gaps")


ONE_TASK = np.zeros((1, 0), np.float32)  # The descriptors of a task that has none.


def plan_of(
    policy: ASAPPolicy,
    num_observations: int,
    descriptors: Float[np.ndarray, "M Z"] = ONE_TASK,
    drawn: Sequence[Sequence[Drawn]] = (),
) -> Plan:
    """Of one seed, for all tasks whose descriptors are given, with what of them episodes draw."""
    static: dict[str, Any] = {"termination": policy.termination}
    if policy.partition.region_skills is not None:
        static["region_skills"] = list(policy.partition.region_skills)
    arrays = {
        "beta": policy.partition.beta,
        "alpha_beta": policy.partition.alpha_beta,
        "theta": policy.skills.theta,
        "descriptors": descriptors,
    }
    if any(drawn):
        static["drawn"] = [list(map(list, of_task)) for of_task in drawn]
    if isinstance(policy.skills, GaussianSkills):
        static["skills"], arrays["log_std"] = "gaussian", policy.skills.log_std
    elif isinstance(policy.skills, UniformSkills):
        static["skills"] = "uniform"
    else:
        static["skills"], arrays["alpha_theta"] = "gibbs", policy.skills.alpha_theta
    for name, features in (("psi", policy.psi), ("phi", policy.phi)):
        static[name], own = _map(features, num_observations)
        arrays |= {f"{name}.{key}": values for key, values in own.items()}
    return Plan(static, {name: np.asarray(values) for name, values in arrays.items()})


def _map(features: Features, num_observations: int) -> tuple[dict[str, Any], dict[str, Any]]:
    basis = features.basis
    if features.constant:
        return {"kind": "constant"}, {}
    static = {"inputs": list(features.inputs), "observations": num_observations, "task": features.task}
    arrays = {"shift": features.shift, "scale": features.scale}
    match basis:
        case Polynomial():
            static |= {"kind": "polynomial", "degree": basis.degree}
        case Fourier():
            static |= {"kind": "fourier", "bias": basis.bias}
            arrays["frequencies"] = basis.frequencies
            if basis.phases is not None:
                arrays["phases"] = basis.phases
        case Network():
            static |= {"kind": "network", "layers": len(basis.weights)}
            for i, (weights, biases) in enumerate(zip(basis.weights, basis.biases)):
                arrays |= {f"weights.{i}": weights, f"biases.{i}": biases}
    return static, arrays
