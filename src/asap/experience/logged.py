"""Experience from logged data: minibatches of whole episodes, read as they are needed. Nothing is played to learn."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from asap.base.errors import RunError, UserError
from asap.base.keys import Key
from asap.base.spec import Task, TaskSet
from asap.config.schema import OFFLINE_LEARNERS, Config
from asap.data.dataset import Dataset, task_of
from asap.data.layout import layout_of
from asap.experience.minibatches import Batches
from asap.experience.protocol import Batch, Counters, Experience
from asap.policy.policy import ASAPPolicy

FIRST_EPISODES, MOST_STATES = 64, 4096  # Of the data, to know what states are like before anything is learned.


def log_ratios_so_far(log_ratio: Float[Array, "T L"], ended: Bool[Array, "T L"]) -> Float[Array, "T L"]:
    """log rho_{0:t} = sum_{s <= t} log pi(a_s | x_s) - log b(a_s | x_s), begun anew in each episode of a lane."""

    def body(before: Float[Array, "L"], step: tuple[Array, Array]) -> tuple[Float[Array, "L"], Float[Array, "L"]]:
        so_far = before + step[0]
        return jnp.where(step[1], 0.0, so_far), so_far

    return jax.lax.scan(body, jnp.zeros(log_ratio.shape[-1]), (log_ratio, ended))[1]


def clipped_weights(log_ratios: Float[Array, "..."], cap: float) -> Float[Array, "..."]:
    """min(rho, cap), in logarithms: rho itself overflows after some hundred steps."""
    return jnp.exp(jnp.minimum(log_ratios, jnp.log(cap)))


def effective_sample_size(weights: Float[Array, "... N"]) -> Float[Array, "..."]:
    """ESS = (sum w)^2 / sum w^2: how many equally weighted samples are worth as much; 0 where all weights are 0."""
    relative = weights / jnp.maximum(weights.max(-1, keepdims=True), 1e-30)  # Squares of tiny weights would vanish.
    return jnp.square(relative.sum(-1)) / jnp.maximum(jnp.square(relative).sum(-1), 1e-30)


MOST_MERIT = 20.0


def merits(totals: Float[np.ndarray, "E"], sharpness: float) -> Float[np.ndarray, "E"]:
    """exp(sharpness (R - mean) / deviation) of the return of each episode, at most 20, then divided by its mean.

    Nonnegative, so that the likelihood it weighs has a maximum; the same for returns in any unit; 1 where all returns
    are equal. Sharpness 0 gives the plain likelihood of what was logged.
    """
    totals = np.asarray(totals, np.float64)
    raised = np.exp(np.minimum(sharpness * (totals - totals.mean()) / (totals.std() + 1e-9), np.log(MOST_MERIT)))
    return (raised / raised.mean()).astype(np.float32)


LEAST_EPISODES = 30_000  # A small dataset is read several times.
# Below this the weights of the start, which is nearly uniform, say nothing about other policies.
LEAST_ESS = 0.01


class Logged:
    """Minibatches for all seeds. What is evaluated is played, by an experience that can."""

    together = True

    def __init__(self, config: Config, tasks: TaskSet, dataset: Dataset, player: Experience):
        self.config, self.tasks = config, tasks
        self.most_updates, self.least_episodes = config.run.chunk, player.least_episodes
        weights = merits(dataset.episodes.total, config.offline.sharpness)
        self._batches = Batches(dataset, config.learn.lanes, config.learn.window, weights)
        self._seeds = range(config.run.seed, config.run.seed + config.run.seeds)
        self.evaluate, self.look = player.evaluate, player.look
        self._dataset, self.close = dataset, player.close

    def random_states(self) -> tuple[Float[np.ndarray, "O N"], Float[np.ndarray, "Z N"]]:
        """Of the data: nothing is played to learn from them."""
        some = np.unique(np.linspace(0, self._dataset.num_episodes - 1, FIRST_EPISODES).astype(int))
        episodes = [self._dataset.read(index) for index in some.tolist()]
        states = np.concatenate([np.asarray(each.observation, np.float32) for each in episodes])[:MOST_STATES]
        descriptors = [np.tile(np.asarray(e.descriptor, np.float32), (len(e.observation), 1)) for e in episodes]
        return states.T, np.concatenate(descriptors)[:MOST_STATES].T

    def begin(self, key: Key) -> None:
        return None

    def feed(self, policies: ASAPPolicy, counters: Counters, active: Bool[np.ndarray, "seeds"]) -> Batch:
        return self._batches.feed(self._seeds, counters.iterations, self.most_updates)

    def collect(self, key: Key, policy: ASAPPolicy, carry: None, fed: Batch) -> tuple[None, Batch]:
        return None, fed


def local_file(data: str) -> str:
    """The path of a dataset; one of Minari's is converted first."""
    if not data.startswith("minari:"):
        return data
    from asap.data.minari import converted
    from asap.envs import catalog

    return converted(data.removeprefix("minari:"), {catalog.find(name).gymnasium_id: name for name in catalog.NAMES})


def open_data(config: Config, task: Task) -> Dataset:
    """The dataset of a run, checked, and the same as when the run began."""
    dataset = Dataset(local_file(config.offline.data), layout_of(task), config.offline.drop_bad_rows)
    if config.offline.fingerprint not in (None, dataset.fingerprint):
        what, cure = "the file has changed since the run began", "restore it, or start a new run"
        raise RunError("offline.data", what, config.offline.data, cure)
    return dataset


def task_of_data(data: str, named: str | None = None) -> str:
    """The name of the task that a dataset is of; `named` where the user says it."""
    return task_of(local_file(data), named)


def settle(config: Config, task: Task) -> Config:
    """The config with what the data decide: objective and budget."""
    offline = config.offline
    data = offline.data if offline.data.startswith("minari:") else str(Path(offline.data).absolute())
    config = dataclasses.replace(config, offline=dataclasses.replace(offline, data=data))
    dataset = open_data(config, task)
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
    """Effective sample size of uniform play's whole-episode weights, as a share of the episodes; 0 without weights."""
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
        what = "logged data do not tell the skill before"
        raise UserError("policy.termination", what, config.policy.termination, "leave it out")
    played = {"run.race": list(config.run.race), "run.finish": config.run.finish, "run.pick": config.run.pick}
    for field, value in played.items():
        if value:
            raise UserError(field, "needs to play", value, "leave it out")
    if config.run.search_episodes:
        what = "the search for symmetries needs to play"
        raise UserError("run.search_episodes", what, config.run.search_episodes, "leave it out")
