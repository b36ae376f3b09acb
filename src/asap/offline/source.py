"""From a run's settings to its data: which file, which objective, how many episodes, and the trainer that reads them."""

import dataclasses
from pathlib import Path

import numpy as np

from asap.base.errors import RunError, UserError
from asap.config.schema import OFFLINE_LEARNERS, Config
from asap.data.dataset import Dataset, task_of
from asap.data.layout import layout_of
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.core import CompiledTasks
from asap.experience.minibatches import Batches
from asap.experience.weights import effective_sample_size, merits
from asap.learn.train import Trainer
from asap.offline.objectives import update_from_data

LEAST_EPISODES = 30_000  # A small dataset is read several times.
# Below this the weights of the start, which is nearly uniform, say nothing about other policies.
LEAST_ESS = 0.01


def local_file(data: str) -> str:
    """The path of a dataset; one of Minari's is converted first."""
    if not data.startswith("minari:"):
        return data
    from asap.data.minari import converted

    return converted(data.removeprefix("minari:"))


def open_data(config: Config) -> Dataset:
    """The dataset of a run, checked, and the same as when the run began."""
    dataset = Dataset(
        local_file(config.offline.data), layout_of(catalog.find(config.run.tasks[0])), config.offline.drop_bad_rows
    )
    if config.offline.fingerprint not in (None, dataset.fingerprint):
        raise RunError(
            "offline.data", "the file has changed since the run began", config.offline.data, "restore it, or train anew"
        )
    return dataset


def task_of_data(data: str) -> str:
    """The task that a dataset is of."""
    return task_of(local_file(data), None)


def settle(config: Config, tasks: tuple[str, ...]) -> Config:
    """The config with what the data decide: task, objective and budget."""
    refuse_contradictions(config, tasks)
    data = (
        config.offline.data if config.offline.data.startswith("minari:") else str(Path(config.offline.data).absolute())
    )
    told = task_of(local_file(data), tasks[0] if tasks else None)
    run = dataclasses.replace(config.run, tasks=(told,), weights=(1.0,))
    config = dataclasses.replace(config, run=run, offline=dataclasses.replace(config.offline, data=data))
    dataset = open_data(config)
    learner = config.learn.learner or ("importance" if start_ess(dataset) >= LEAST_ESS else "likelihood")
    if learner == "importance" and not dataset.is_stochastic:
        what = "importance weights need a stochastic behaviour whose log-probabilities are known"
        raise UserError("learn.learner", what, learner, "use likelihood")
    episodes = config.run.episodes or max(LEAST_EPISODES, dataset.num_episodes)
    return dataclasses.replace(
        config,
        run=dataclasses.replace(config.run, episodes=episodes),
        learn=dataclasses.replace(config.learn, learner=learner),
        offline=dataclasses.replace(config.offline, fingerprint=dataset.fingerprint),
    )


def start_ess(dataset: Dataset) -> float:
    """Effective sample size, as a share of the episodes, of the whole-episode weights of uniform play; 0 where there are none."""
    if not dataset.is_stochastic:
        return 0.0
    episodes = dataset.episodes
    log_weights = -episodes.length * np.log(dataset.layout.num_actions) - episodes.behaviour_log_prob
    return float(effective_sample_size(np.exp(log_weights - log_weights.max()))) / len(log_weights)


def refuse_contradictions(config: Config, tasks: tuple[str, ...]) -> None:
    """Settings that have no meaning for data without skills, of one task."""
    if len(tasks) > 1:
        raise UserError("task", "a dataset is of one task", " ".join(tasks), "leave it out: the file tells it")
    if config.learn.learner not in (None, *OFFLINE_LEARNERS):
        cure = f"from data use {' or '.join(OFFLINE_LEARNERS)}, or leave it out"
        raise UserError("learn.learner", "needs to play", config.learn.learner, cure)
    if config.learn.gradient != "marginal":
        raise UserError("learn.gradient", "logged data have no skills to score", config.learn.gradient, "use marginal")
    if config.policy.termination is not None:
        raise UserError(
            "policy.termination", "logged data do not tell the skill before", config.policy.termination, "leave it out"
        )
    if config.run.search_episodes:
        raise UserError(
            "run.search_episodes", "the search for symmetries needs to play", config.run.search_episodes, "leave it out"
        )


def trainer_from_data(config: Config, named: tuple[CompiledTask, ...], tasks: CompiledTasks) -> Trainer:
    """A trainer whose updates read minibatches of the dataset."""
    dataset = open_data(config)
    weights = merits(dataset.episodes.total, config.offline.sharpness)
    batches = Batches(dataset, config.learn.lanes, config.learn.window, weights)
    seeds = range(config.run.seed, config.run.seed + config.run.seeds)
    return Trainer(
        config, named, tasks, update_from_data, lambda iterations: (batches.feed(seeds, iterations, config.run.chunk),)
    )
