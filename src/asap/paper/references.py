"""The returns that results are read against, measured: `asap tasks NAME --measure`."""

import dataclasses
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from asap.base import stats
from asap.base.arrays import compiled
from asap.base.keys import host_generator, root
from asap.base.spec import Reference
from asap.compose import settings_of
from asap.config.schema import Config, LearnConfig, PolicyConfig, RunConfig, complete
from asap.config.toml import to_toml
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.controllers import find_controller
from asap.envs.optimum import optimal_return
from asap.envs.rooms import Rooms
from asap.evaluate import evaluate
from asap.experience.collect import discounted_returns, play_logged
from asap.policy.build import build_policy
from asap.runs.directory import Run
from asap.runs.signals import StopRequest
from asap.session import Session

EPISODES, AT_ONCE = 20_000, 500
CONTROLLER = "dist:12"  # Of a striker: the approximately optimal partition is its disc around the goal.


def measure(name: str, seed: int = 0, seeds: int = 10) -> Reference:
    """The references of a named task."""
    task, start = catalog.find(name), misspecified_return(name, seed)
    if isinstance(task.env, Rooms):
        return Reference(start, approximately_optimal_return(name, seed, seeds), optimal_return(task.task))
    return Reference(start, controller_return(task, CONTROLLER, seed), None)


def misspecified_return(name: str, seed: int) -> float:
    """Mean return of the misspecified partition with uniform skills."""
    task = catalog.find(name)
    policy = build_policy(settings_of([name], {}, None, None, []).policy, (task,), host_generator(seed))
    uniform = dataclasses.replace(policy.skills, theta=jnp.zeros_like(policy.skills.theta))
    policy = dataclasses.replace(policy, skills=uniform)
    tasks = catalog.task_set(((name, 1.0),))
    return float(jax.jit(lambda p, key: evaluate(p, tasks, key, EPISODES).returns.mean())(policy, root(seed)))


def controller_return(task: CompiledTask, controller: str, seed: int) -> float:
    """Mean return of a hand-written behaviour."""
    tasks, play = catalog.task_set(((task.name, 1.0),)), find_controller(task, controller).probabilities
    logged = compiled(lambda ids: play_logged(tasks, play, root(seed), ids))
    rounds = (jax.tree.map(np.asarray, logged(first + jnp.arange(AT_ONCE))) for first in range(0, EPISODES, AT_ONCE))
    return float(np.mean([discounted_returns(played, 1.0) for played in rounds]))


def approximately_optimal_return(name: str, seed: int, seeds: int) -> float:
    """IQM over seeds of skills learned on the approximately optimal partition, held fixed."""
    config = complete(
        Config(
            run=RunConfig(tasks=(name,), seed=seed, seeds=seeds, episodes=20_000),
            policy=PolicyConfig(start="approximate"),
            learn=LearnConfig(
                lanes=32,
                step_size_beta=0.0,
                entropy=0.01,
                schedule="robbins-monro",
                schedule_scale=50.0,
                convergence_tolerance=0.002,
            ),
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        result = Session(config, Run.create(Path(folder) / "reference", to_toml(config))).train(StopRequest())
    return float(stats.iqm(np.asarray(result.evaluation.returns).mean((-1, -2))))
