"""Experience from logged data: minibatches of whole episodes, read as they are needed. Nothing is played to learn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.errors import RunError, UserError
from asap.base.keys import Key
from asap.base.spec import Task, TaskSet
from asap.config.schema import OFFLINE_LEARNERS, Config, OfflineConfig
from asap.data.dataset import Dataset, task_of
from asap.data.layout import Meta, layout_of
from asap.data.npz import open_columns
from asap.experience.advantages import advantages, fitted_value, moments_of_log
from asap.experience.minibatches import Batches
from asap.experience.protocol import (
    Batch,
    Counters,
    CurvePlayer,
    EpisodeIds,
    Evaluation,
    OnProgress,
    ignore_progress,
)
from asap.policy.policy import ASAPPolicy
from asap.policy.scaling import Moments

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


def merits(totals: Float[np.ndarray, "n"], sharpness: float) -> Float[np.ndarray, "n"]:
    """exp(sharpness (R - mean) / deviation) of the return of each episode, or the advantage of each step, at most 20, then divided by
    its mean.

    Nonnegative, so that the likelihood it weighs has a maximum; the same for returns in any unit; 1 where all returns
    are equal. Sharpness 0 gives the plain likelihood of what was logged.
    """
    totals = np.asarray(totals, np.float64)
    raised = np.exp(np.minimum(sharpness * (totals - totals.mean()) / (totals.std() + 1e-9), np.log(MOST_MERIT)))
    return (raised / raised.mean()).astype(np.float32)


class Weighing(NamedTuple):
    """How much each logged step counts, for the learner `likelihood`."""

    by: str  # returns: of its episode; or advantages: its own.
    sharpness: float

    @classmethod
    def of(cls, config: OfflineConfig) -> "Weighing":
        """Files of earlier releases do not say by what: it was by returns."""
        return cls(config.weights or "returns", 1.0 if config.sharpness is None else config.sharpness)

    def of_rows(
        self, dataset: Dataset, members: Int[np.ndarray, "E"], worth: Float[np.ndarray, "rows"] | None
    ) -> Float[np.ndarray, "rows"]:
        """The merit of every row of the file; `worth` are advantages."""
        episodes = dataset.episodes
        start, length = episodes.start[members], episodes.length[members]
        rows = np.repeat(start - (np.cumsum(length) - length), length) + np.arange(length.sum())
        found = np.ones(int((episodes.start + episodes.length).max()), np.float32)
        if self.by == "returns":
            found[rows] = np.repeat(merits(episodes.total[members], self.sharpness), length)
        else:
            found[rows] = merits(worth[rows], self.sharpness)
        return found


class Logged:
    """Minibatches for all seeds. What is evaluated is played, by an experience that can, if there is one.

    `members` are the episodes that are learned from, and `weighings` stand in for the config's, one for each seed.
    """

    together = True

    def __init__(
        self,
        config: Config,
        tasks: TaskSet,
        dataset: Dataset,
        player: CurvePlayer,
        members: Int[np.ndarray, "E"] | None = None,
        weighings: Sequence[Weighing] = (),
    ):
        self.config, self.tasks, self.plays = config, tasks, player.plays
        self.most_updates, self.least_episodes = config.run.chunk, player.least_episodes
        self._dataset, self.members = dataset, np.arange(dataset.num_episodes) if members is None else members
        self._moments = moments_of_log(dataset) if tasks.is_scaled else None
        chosen = tuple(weighings) or (Weighing.of(config.offline),)
        worth = self.advantages_of(self.members) if any(one.by == "advantages" for one in chosen) else None
        rows = np.stack([one.of_rows(dataset, self.members, worth) for one in chosen])
        rows = rows if weighings else rows[0]
        self._batches = Batches(dataset, config.learn.lanes, config.learn.window, rows, self.members)
        self._seeds, self._differ = range(config.run.seed, config.run.seed + config.run.seeds), bool(weighings)
        self.evaluate, self.look = player.evaluate, player.look
        self.close = player.close

    def advantages_of(self, others: Int[np.ndarray, "E"]) -> Float[np.ndarray, "rows"]:
        """Of the steps of some episodes, by the value of the behaviour in those that are learned from."""
        learn, spec, dataset = self.config.learn, self.tasks.spec, self._dataset
        moments = moments_of_log(dataset) if self._moments is None else self._moments
        discount = learn.discount_on(spec.discount, spec.horizon)
        value = fitted_value(dataset, self.members, moments, discount, learn.trace)
        return advantages(value, dataset, others)

    def random_states(self) -> tuple[Float[np.ndarray, "O N"], Float[np.ndarray, "Z N"]]:
        """Of the data: nothing is played to learn from them."""
        some = np.unique(np.linspace(0, self._dataset.num_episodes - 1, FIRST_EPISODES).astype(int))
        episodes = [self._dataset.read(index) for index in some.tolist()]
        states = np.concatenate([np.asarray(each.observation, np.float32) for each in episodes])[:MOST_STATES]
        descriptors = [np.tile(np.asarray(e.descriptor, np.float32), (len(e.observation), 1)) for e in episodes]
        return states.T, np.concatenate(descriptors)[:MOST_STATES].T

    def known_moments(self) -> Moments | None:
        """Of the whole log: what is learned later adds nothing to them."""
        return self._moments

    def begin(self, key: Key) -> None:
        return None

    def feed(self, policies: ASAPPolicy, counters: Counters, active: Bool[np.ndarray, "seeds"]) -> Batch:
        """Leaves have axes (updates, seeds, ...). Seeds that differ in their weights alone read the same, once."""
        firsts, updates = counters.iterations.tolist(), range(self.most_updates)
        if self._differ:
            found = [self._weighed(self._batches.minibatch(self._seeds[0], firsts[0] + n)) for n in updates]
            return jax.tree.map(lambda *leaves: np.stack(leaves), *found)
        pairs = [(seed, int(first) + n) for n in updates for seed, first in zip(self._seeds, firsts, strict=True)]
        found = [self._batches.minibatch(*pair) for pair in pairs]
        shape = len(updates), len(firsts)
        return jax.tree.map(lambda *leaves: np.stack(leaves).reshape(*shape, *leaves[0].shape), *found)

    def _weighed(self, batch: Batch) -> Batch:
        """For every seed, with its own weights."""
        count = len(self._seeds)
        wide = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (count, *np.shape(leaf))), batch)
        return wide._replace(behaviour=wide.behaviour._replace(merit=batch.behaviour.merit))

    def collect(self, key: Key, policy: ASAPPolicy, carry: None, fed: Batch) -> tuple[None, Batch]:
        return None, fed


class Unplayed:
    """Nobody who could play: the environment is not at hand, and only its record is known."""

    plays, least_episodes = False, 1

    def __init__(self, tasks: TaskSet):
        self.tasks = tasks

    def look(self, policies: ASAPPolicy, update: int) -> Evaluation:
        return nothing_seen(policies.partition.beta.shape[0], self.tasks.size, policies.num_skills)

    def evaluate(
        self,
        policies: ASAPPolicy,
        ids: EpisodeIds,
        num_episodes: int,
        deterministic: bool,
        on_progress: OnProgress = ignore_progress,
    ) -> Evaluation:
        raise UserError("env", "is not at hand, so nothing can be played", self.tasks.names[0], "name it by --env")

    def close(self) -> None:
        """Nothing is held."""


def nothing_seen(num_seeds: int, num_tasks: int, num_skills: int) -> Evaluation:
    unknown, none = np.full((num_seeds, num_tasks, 1), np.nan), np.zeros((num_seeds, num_tasks, num_skills), np.int64)
    return Evaluation(*[unknown] * 4, none, none)


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


def record_of_data(data: str) -> dict[str, Any] | None:
    """What the file tells about its environment; None where it tells nothing."""
    path = local_file(data)
    return Meta.of(open_columns(path), Path(path)).record


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
