"""The ways experience comes to an update, behind plain data: what knows how updates are made is here and nowhere else.

Every path takes the same hand-made episodes and the same start, and gives back NumPy arrays.
"""

import functools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from asap.base.arrays import compiled
from asap.base.episodes import TRAINING, EpisodeId, Played
from asap.base.keys import root
from asap.base.types import EpisodeTotals, Transition
from asap.config.schema import Config, LearnConfig, OfflineConfig, RunConfig
from asap.data.dataset import Logged
from asap.data.layout import Layout
from asap.envs.core import CompiledTasks
from asap.envs.rooms import TWO_ROOMS, Rooms, read_map
from asap.experience.minibatches import Batches
from asap.learn import episode_batches, train
from asap.learn.advantage import Critic, lambda_advantages
from asap.learn.convergence import start_monitor
from asap.learn.rollout import no_episodes
from asap.learn.scored_episodes import ScoredEpisodes
from asap.learn.train import TrainState
from asap.learn.updates import optimizer_of
from asap.offline import objectives
from asap.policy.features import Features, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.scaling import no_moments, shift_and_scale, with_observations
from asap.policy.score import Parameters, parameters_of
from asap.policy.skills import GibbsSkills


class Episode(NamedTuple):
    """T steps with one observation each, and the one after the last step."""

    observations: tuple[float, ...]  # T + 1 of them.
    skills: tuple[int, ...]
    actions: tuple[int, ...]
    rewards: tuple[float, ...]
    terminated: bool
    task: int = 0
    descriptor: tuple[float, ...] = ()
    behaviour: tuple[float, ...] = ()  # Log-probabilities of the actions under who played; for logged data.
    decides: tuple[bool, ...] = ()  # Where the actions differ; everywhere if nothing is said.

    @property
    def length(self) -> int:
        return len(self.rewards)

    @property
    def x(self) -> np.ndarray:
        return np.float32(self.observations)[:, None]


class Start(NamedTuple):
    """A policy of linear planes and constant skills, and a critic, before the update."""

    beta: Any
    theta: Any  # Skills by actions.
    alpha_beta: float
    alpha_theta: float
    ramps: Any  # Of the critic: rows of weights on observation and descriptor, without bias.
    critic: Any  # Weights; the first is that of the constant.
    gram: Any
    moment: Any
    termination: float | None = None
    task_features: str = "none"
    iteration: int = 0
    env_steps: int = 0


class Updated(NamedTuple):
    """Advantages stand in the order of the episodes, all in one row."""

    advantages: np.ndarray
    critic: np.ndarray
    beta: np.ndarray
    theta: np.ndarray
    spoiled: bool
    iteration: int


def window_update(start: Start, episodes: Sequence[Episode], lanes: int = 2, **learn: Any) -> Updated:
    """Windows of lanes: episodes follow each other in a lane, and the lanes are full."""
    start, episodes = with_descriptor(start, episodes)
    config, tasks = config_of(lanes=lanes, window=sum(e.length for e in episodes) // lanes, **learn), task_set(episodes)
    places = laid(episodes, lanes, config.learn.window)
    assert sum(e.length for e in episodes) == lanes * config.learn.window, "lanes must be full"
    steps = transitions(episodes)._replace(of_task=None if tasks.size == 1 else task_rows(episodes))
    order = np.empty(lanes * config.learn.window, int)
    order[[t * lanes + lane for lane, t in places]] = np.arange(len(order))
    window = jax.tree.map(lambda leaf: leaf[..., order].reshape(*leaf.shape[:-1], -1, lanes), steps)
    totals = totals_of(episodes, tasks.size)

    def run(state: TrainState, window: Transition) -> tuple[TrainState, Any]:
        with mock.patch.object(train, "play_window", lambda *_: (None, window, totals)):
            return train.update(config, tasks, root(0), state)

    return finished(config, run, start, (window,), [(t, lane) for lane, t in places], tasks.size)


def packed_update(
    start: Start, episodes: Sequence[Episode], smallest: int = 16, scaled: bool = False, **learn: Any
) -> Updated:
    """Complete episodes one after the other, filled up to a size; `scaled` by the moments of their observations."""
    config = config_of(**learn)
    played = [as_played(episode) for episode in episodes]
    seen = np.concatenate([episode.observations for episode in played])
    scaling = shift_and_scale(with_observations(no_moments(1), seen) if scaled else no_moments(1))
    totals = episode_batches.totals_of(played)
    update = functools.partial(episode_batches.update_from_episodes, config, config.learn.discount)
    places = [(n, 0) for n in range(sum(e.length for e in episodes))]
    return finished(config, update, start, (packed(episodes, smallest), totals, *scaling), places)


def packed_ends(episodes: Sequence[Episode], smallest: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Where packed episodes terminate and where they are truncated."""
    batch = packed(episodes, smallest)
    return np.asarray(batch.terminated), np.asarray(batch.truncated)


def logged_update(
    start: Start,
    episodes: Sequence[Episode],
    lanes: int = 2,
    window: int = 4,
    cap: float = 10.0,
    anchor: float = 0.0,
    merits: Sequence[float] = (),
    **learn: Any,
) -> Updated:
    """A minibatch of logged episodes, filled up to `lanes` of `window` steps; the learner is one for logged data."""
    start, episodes = with_descriptor(start, episodes)
    learn = {"learner": "importance", **learn}
    config = config_of(offline=OfflineConfig(cap=cap, anchor=anchor), **learn)
    tasks = task_set([])
    batches = Batches(dataset(episodes), lanes, window, np.float32(merits or [1.0] * len(episodes)))
    places = laid(episodes, lanes, window)
    starts = [places[sum(e.length for e in episodes[:n])] for n in range(len(episodes))]
    members = [[n for n, (lane, _) in enumerate(starts) if lane == one] for one in range(lanes)]
    minibatch = batches.fill([np.asarray(one, int) for one in members])
    update = functools.partial(objectives.update_from_data, config, tasks, root(0))
    return finished(config, update, start, (minibatch,), [(t, lane) for lane, t in places])


def reinforce_update(
    start: Start, scores: Sequence[tuple[Any, Any]], returns: Sequence[float], **learn: Any
) -> Updated:
    """Whole episodes with their scores by theta and beta, as if they had been played."""
    config, tasks, count = config_of(learner="reinforce", **learn), task_set([]), len(returns)
    theta, beta = (np.float32([score[part] for score in scores]) for part in (0, 1))
    theta = theta[..., None]
    weights = np.float32(returns)
    totals = EpisodeTotals(*(np.asarray([number]) for number in (count, weights.sum(), 0, count)))
    summed = ScoredEpisodes(
        Parameters(np.tensordot(weights, theta, 1), np.tensordot(weights, beta, 1)),
        Parameters(theta.sum(0), beta.sum(0)),
        weights.sum(),
        totals,
    )

    def run(state: TrainState) -> tuple[TrainState, Any]:
        with mock.patch.object(train, "play_scored", lambda *_: jax.tree.map(jnp.asarray, summed)):
            return train.update(config, tasks, root(0), state)

    return finished(config, run, start, (), [])


# ---- What the paths are made of -----------------------------------------------------------------------------------


def config_of(offline: OfflineConfig = OfflineConfig(), steps: int | None = None, **learn: Any) -> Config:
    plain = {"learner": "actor-critic", "optimizer": "sgd", "schedule": "constant", "lanes": 2}
    sizes = {"step_size_theta": 1.0, "step_size_beta": 1.0, "entropy": 0.0, "softening": 0.0}
    run = RunConfig(tasks=("any",), weights=(1.0,), episodes=10**6, steps=steps)
    return Config(run=run, learn=LearnConfig(**{**plain, **sizes, **learn}), offline=offline)


def task_set(episodes: Sequence[Episode]) -> CompiledTasks:
    """A set with as many tasks as the episodes have; nothing of it is played."""
    count = 1 + max((episode.task for episode in episodes), default=0)
    return CompiledTasks.of(Rooms(), {f"task {n}": read_map(TWO_ROOMS) for n in range(count)})


def state_of(config: Config, start: Start, num_tasks: int) -> TrainState:
    beta, theta = (np.float32(part) for part in (start.beta, start.theta))
    policy = ASAPPolicy(
        Partition(beta, np.float32(start.alpha_beta)),
        GibbsSkills(theta[..., None], np.float32(start.alpha_theta)),
        Features.of(Polynomial(1), (0,), start.task_features),
        Features.of(Polynomial(0), (0,)),
        start.termination,
    )
    ramps, weights, gram, moment = (np.float32(x) for x in (start.ramps, start.critic, start.gram, start.moment))
    return TrainState(
        policy=policy,
        critic=Critic(ramps, np.zeros(len(ramps), np.float32), weights, gram, moment),
        optimizer=optimizer_of(config.learn).init(parameters_of(policy)),
        lanes=None,
        monitor=start_monitor(parameters_of(policy)),
        totals=no_episodes(num_tasks),
        iteration=np.int32(start.iteration),
        env_steps=np.int32(start.env_steps),
        spoiled=np.zeros((), bool),
    )


def finished(
    config: Config, update: Any, start: Start, fed: tuple, places: list[tuple[int, int]], num_tasks: int = 1
) -> Updated:
    """Runs the update; `places` are where in (time, lane) the steps of the episodes stand."""

    def run(state: TrainState, *fed: Any) -> tuple[TrainState, list]:
        with advantages_recorded() as found:
            return update(state, *fed)[0], list(found)

    state, found = jax.tree.map(np.asarray, compiled(run)(state_of(config, start, num_tasks), *fed))
    return Updated(
        advantages=np.asarray([found[0][place] for place in places]) if found else np.zeros(0),
        critic=state.critic.weights,
        beta=state.policy.partition.beta,
        theta=state.policy.skills.theta[..., 0],
        spoiled=bool(state.spoiled),
        iteration=int(state.iteration),
    )


def with_descriptor(start: Start, episodes: Sequence[Episode]) -> tuple[Start, Sequence[Episode]]:
    """Some paths need a descriptor: where there is none, a 0 that the critic does not see."""
    if episodes[0].descriptor:
        return start, episodes
    ramps = [[*row, 0.0] for row in start.ramps]
    return start._replace(ramps=ramps), [episode._replace(descriptor=(0.0,)) for episode in episodes]


@contextmanager
def advantages_recorded() -> Iterator[list]:
    found = []

    def recording(*arguments: Any) -> Any:
        found.append(lambda_advantages(*arguments))
        return found[-1]

    with ExitStack() as stack:
        for module in (train, episode_batches, objectives):
            stack.enter_context(mock.patch.object(module, "lambda_advantages", recording))
        yield found


def laid(episodes: Sequence[Episode], lanes: int, window: int) -> list[tuple[int, int]]:
    """Lane and time of every step: episodes whole into the first lane that has room, in their order."""
    places, lane, at = [], 0, 0
    for episode in episodes:
        if at + episode.length > window:
            lane, at = lane + 1, 0
        assert lane < lanes, "too few lanes"
        places += [(lane, at + t) for t in range(episode.length)]
        at += episode.length
    return places


def transitions(episodes: Sequence[Episode]) -> Transition:
    """One step per column, in the order of the episodes."""

    def joined(parts: list, kind: type) -> np.ndarray:
        return np.concatenate([np.asarray(part, kind) for part in parts])

    ends = joined([[False] * (e.length - 1) + [True] for e in episodes], bool)
    terminated = joined([[e.terminated] * e.length for e in episodes], bool)
    descriptors = [np.tile(np.float32(e.descriptor), (e.length, 1)) for e in episodes]
    decides = joined([e.decides or [True] * e.length for e in episodes], bool)
    return Transition(
        observation=joined([e.x[:-1] for e in episodes], np.float32).T,
        descriptor=np.concatenate(descriptors).T,
        previous_skill=joined([(NO_SKILL, *e.skills[:-1]) for e in episodes], np.int32),
        skill=joined([e.skills for e in episodes], np.int32),
        action=joined([e.actions for e in episodes], np.int32),
        reward=joined([e.rewards for e in episodes], np.float32),
        terminated=ends & terminated,
        truncated=ends & ~terminated,
        next_observation=joined([e.x[1:] for e in episodes], np.float32).T,
        decides=None if decides.all() else decides,
    )


def task_rows(episodes: Sequence[Episode]) -> np.ndarray:
    tasks = np.concatenate([[e.task] * e.length for e in episodes])
    return np.arange(tasks.max() + 1)[:, None] == tasks


def totals_of(episodes: Sequence[Episode], num_tasks: int) -> EpisodeTotals:
    totals = np.zeros((4, num_tasks), np.int32)
    for episode in episodes:
        totals[:, episode.task] += [1, int(sum(episode.rewards)), 0, episode.length]
    return EpisodeTotals(totals[0], np.float32(totals[1]), totals[2], totals[3])


def packed(episodes: Sequence[Episode], smallest: int) -> Transition:
    with mock.patch.object(episode_batches, "SMALLEST", smallest):
        return episode_batches.packed([as_played(episode) for episode in episodes])


def as_played(episode: Episode) -> Played:
    assert not episode.descriptor and not episode.task, "packed episodes are of one task"
    numbers = np.int32(episode.skills), np.int32(episode.actions), np.float32(episode.rewards)
    return Played(EpisodeId(0, TRAINING, 0), episode.x, *numbers, episode.terminated, None)


def dataset(episodes: Sequence[Episode]) -> Any:
    """As much of a dataset as minibatches are read from."""

    def read(index: int) -> Logged:
        episode = episodes[index]
        behaviour = np.float32(episode.behaviour or [0.0] * episode.length)
        numbers = np.int32(episode.actions), np.float32(episode.rewards), behaviour
        return Logged(episode.x[:-1], *numbers, episode.x[-1], np.float32(episode.descriptor), episode.terminated)

    return SimpleNamespace(
        layout=Layout("any", 1, 2, np.float32(episodes[0].descriptor)),
        longest=max(episode.length for episode in episodes),
        num_episodes=len(episodes),
        episodes=SimpleNamespace(success=np.zeros(len(episodes), bool)),
        read=read,
    )
