"""The returns that results are read against, measured: `asap tasks NAME --measure`."""

import dataclasses
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from asap import stats
from asap.config import Config, LearnConfig, PolicyConfig, RunConfig, complete
from asap.envs import catalog
from asap.envs.catalog import Reference
from asap.envs.dynamic_programming import optimal_return
from asap.evaluate import evaluate
from asap.keys import host_generator, root
from asap.policy.build import build_policy
from asap.runs import Run
from asap.session import Session
from asap.settings import to_toml
from asap.stopping import StopRequest

EPISODES = 20_000


def measure(name: str, seed: int = 0, seeds: int = 10) -> Reference:
    """All three references of a named task."""
    return Reference(
        misspecified=misspecified_return(name, seed),
        approx_optimal=approximately_optimal_return(name, seed, seeds),
        dp_optimal=optimal_return(catalog.find(name).task),
    )


def misspecified_return(name: str, seed: int) -> float:
    """Mean return of the misspecified partition with uniform skills."""
    task = catalog.find(name)
    policy = build_policy(PolicyConfig(), (task,), host_generator(seed))
    uniform = dataclasses.replace(policy.skills, theta=jnp.zeros_like(policy.skills.theta))
    policy = dataclasses.replace(policy, skills=uniform)
    tasks = catalog.task_set(((name, 1.0),))
    return float(jax.jit(lambda p, key: evaluate(p, tasks, key, EPISODES).returns.mean())(policy, root(seed)))


def approximately_optimal_return(name: str, seed: int, seeds: int) -> float:
    """IQM over seeds of skills learned on the approximately optimal partition, held fixed."""
    config = complete(
        Config(
            run=RunConfig(tasks=(name,), seed=seed, seeds=seeds, episodes=20_000),
            policy=PolicyConfig(start="approximate"),
            learn=LearnConfig(lanes=32, step_size_beta=0.0, entropy=0.01, schedule="robbins-monro", schedule_scale=50.0, convergence_tolerance=0.002),
        )
    )
    with tempfile.TemporaryDirectory() as folder:
        result = Session(config, Run.create(Path(folder) / "reference", to_toml(config))).train(StopRequest())
    return float(stats.iqm(np.asarray(result.evaluation.returns).mean((-1, -2))))
