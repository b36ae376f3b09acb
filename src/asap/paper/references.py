"""The returns that results are read against, measured: `asap tasks NAME --measure`."""

import dataclasses
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from asap.base import stats
from asap.base.arrays import compiled, stack
from asap.base.keys import root
from asap.base.spec import Reference
from asap.compose import compose
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.controllers import find_controller
from asap.envs.optimum import optimal_return
from asap.experience.episode_logs import discounted_returns, play_logged
from asap.learn.state import drawn_policy
from asap.model.training import Training, train
from asap.paper.laboratory import play
from asap.runs.directory import print_note
from asap.runs.events import InMemory
from asap.runs.signals import StopRequest

EPISODES, AT_ONCE = 20_000, 500
CONTROLLER = "dist:12"  # Of a striker: the approximately optimal partition is its disc around the goal.
SKILLS_ALONE = {
    "policy.start": "approximate",
    "learn.step_size_beta": 0.0,
    "learn.lanes": 32,
    "learn.entropy": 0.01,
    "learn.schedule": "robbins-monro",
    "learn.schedule_scale": 50.0,
    "learn.convergence_tolerance": 0.002,
    "run.episodes": 20000,
}


def measure(name: str, seed: int = 0, seeds: int = 10) -> Reference:
    """The references of a named task."""
    task, start = catalog.find(name), misspecified_return(name, seed)
    if task.spec.place == "rooms":
        return Reference(start, approximately_optimal_return(name, seed, seeds), optimal_return(task.task))
    return Reference(start, controller_return(task, CONTROLLER, seed), None)


def misspecified_return(name: str, seed: int) -> float:
    """Mean return of the misspecified partition with uniform skills."""
    config, tasks = compose([name], {})
    policy = drawn_policy(config, tasks, seed)
    uniform = dataclasses.replace(policy.skills, theta=np.zeros_like(policy.skills.theta))
    policies = stack([dataclasses.replace(policy, skills=uniform)])
    return float(play(policies, tasks.tasks[0], EPISODES, seed).returns.mean())


def controller_return(task: CompiledTask, controller: str, seed: int) -> float:
    """Mean return of a hand-written behaviour."""
    tasks, probabilities = catalog.task_set(((task.name, 1.0),)), find_controller(task, controller).probabilities
    logged = compiled(lambda ids: play_logged(tasks, probabilities, root(seed), ids))
    rounds = (jax.tree.map(np.asarray, logged(first + jnp.arange(AT_ONCE))) for first in range(0, EPISODES, AT_ONCE))
    return float(np.mean([discounted_returns(played, 1.0) for played in rounds]))


def approximately_optimal_return(name: str, seed: int, seeds: int) -> float:
    """IQM over seeds of skills learned on the approximately optimal partition, held fixed."""
    config, tasks = compose([name], {"run.seed": seed, "run.seeds": seeds}, overrides=SKILLS_ALONE)
    with tempfile.TemporaryDirectory() as folder:
        training = Training(config, tasks, InMemory(), (), "0", Path(folder), print_note)
        _, result = train(training, None, StopRequest())
    return float(stats.iqm(result.evaluation.returns.mean((-1, -2))))
