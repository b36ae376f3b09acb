"""The ways experience comes to an update, behind plain data: what knows how updates are made is here and nowhere else.

Every path takes the same hand-made episodes and the same start, and gives back NumPy arrays.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import jax
import numpy as np

from asap.base.arrays import compiled
from asap.base.episodes import TRAINING, EpisodeId, Played
from asap.base.keys import root
from asap.base.spec import TaskSet
from asap.base.types import EpisodeTotals, Transition
from asap.config.schema import Config, LearnConfig, OfflineConfig, RunConfig
from asap.data.dataset import StoredEpisode
from asap.data.layout import Layout
from asap.experience import hosted
from asap.experience.critic import Critic, lambda_advantages
from asap.experience.logged import Logged
from asap.experience.minibatches import Batches
from asap.experience.protocol import Batch, Experience, ScoredEpisodes
from asap.experience.rollout import no_episodes
from asap.learn import judge
from asap.learn.convergence import start_monitor
from asap.learn.state import Budget, TrainState, no_totals
from asap.learn.update import update
from asap.learn.updates import fisher_of_samples, optimizer_of
from asap.policy.features import Features, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.policy.scaling import moments_of
from asap.policy.score import Parameters, parameters_of
from asap.policy.skills import GaussianSkills, GibbsSkills


class Episode(NamedTuple):
    """T steps with one observation each, and the one after the last step."""

    observations: tuple[float, ...]  # T + 1 of them.
    skills: tuple[int, ...]
    actions: tuple[int, ...] | tuple[tuple[float, ...], ...]
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
    config, tasks = config_of(lanes=lanes, window=sum(e.length for e in episodes) // lanes, **learn), task_set(episodes)
    places = laid(episodes, lanes, config.learn.window)
    assert sum(e.length for e in episodes) == lanes * config.learn.window, "lanes must be full"
    steps = transitions(episodes)._replace(of_task=None if tasks.size == 1 else task_rows(episodes))
    order = np.empty(lanes * config.learn.window, int)
    order[[t * lanes + lane for lane, t in places]] = np.arange(len(order))
    shape = config.learn.window, lanes
    window = jax.tree.map(lambda leaf: leaf[..., order].reshape(*leaf.shape[:-1], *shape), steps)
    batch = Batch(totals_of(episodes, tasks.size), lanes * config.learn.window, window)
    return finished(config, tasks, start, batch, [(t, lane) for lane, t in places])


def packed_update(
    start: Start, episodes: Sequence[Episode], smallest: int = 16, scaled: bool = False, **learn: Any
) -> Updated:
    """Complete episodes one after the other, filled up to a size; `scaled` by the moments of their observations."""
    places = [(n, 0) for n in range(sum(e.length for e in episodes))]
    seen = np.concatenate([as_played(episode).observations[:-1] for episode in episodes])
    moments = moments_of(seen.T) if scaled else None
    return finished(config_of(**learn), task_set(episodes), start, packed(episodes, smallest), places, moments)


def sampled_fisher(
    start: Start, log_std: Any, episodes: Sequence[Episode], smallest: int = 16, gradient: str = "marginal"
) -> np.ndarray:
    """The Fisher matrix of Gaussian skills with means theta, from packed episodes: by theta, beta, log_std."""
    policy = policy_of(start)
    skills = GaussianSkills(policy.skills.theta, np.float32(log_std))
    policy = ASAPPolicy(policy.partition, skills, policy.psi, policy.phi, policy.termination)
    config, steps = config_of(gradient=gradient), packed(episodes, smallest).steps
    return np.asarray(compiled(lambda steps: fisher_of_samples(config.learn, policy, steps))(steps))


def packed_ends(episodes: Sequence[Episode], smallest: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Where packed episodes terminate and where they are truncated."""
    steps = packed(episodes, smallest).steps
    return np.asarray(steps.terminated), np.asarray(steps.truncated)


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
    learn = {"learner": "importance", **learn}
    config = config_of(offline=OfflineConfig(cap=cap, anchor=anchor), **learn)
    rows = np.repeat(np.float32(merits or [1.0] * len(episodes)), [e.length for e in episodes])
    batches = Batches(dataset(episodes), lanes, window, rows)
    places = laid(episodes, lanes, window)
    starts = [places[sum(e.length for e in episodes[:n])] for n in range(len(episodes))]
    members = [[n for n, (lane, _) in enumerate(starts) if lane == one] for one in range(lanes)]
    minibatch = batches.fill([np.asarray(one, int) for one in members])
    batch = Logged.collect(None, None, None, None, minibatch)[1]
    return finished(config, task_set(episodes[:0]), start, batch, [(t, lane) for lane, t in places])


def reinforce_update(
    start: Start, scores: Sequence[tuple[Any, Any]], returns: Sequence[float], **learn: Any
) -> Updated:
    """Whole episodes with their scores by theta and beta, as if they had been played."""
    config, count = config_of(learner="reinforce", **learn), len(returns)
    theta, beta = (np.float32([score[part] for score in scores]) for part in (0, 1))
    theta = theta[..., None]
    weights = np.float32(returns)
    totals = EpisodeTotals(*(np.asarray([number]) for number in (count, weights.sum(), 0, count)))
    summed = ScoredEpisodes(
        Parameters(np.tensordot(weights, theta, 1), np.tensordot(weights, beta, 1)),
        Parameters(theta.sum(0), beta.sum(0)),
        weights.sum(),
    )
    return finished(config, task_set([]), start, Batch(totals, count, sums=summed), [])


def side_by_side_update(start: Start, episodes: Sequence[Episode], **learn: Any) -> Updated:
    """Complete episodes, one in each lane from its first step; the rest of the lanes does not count."""
    steps, places = side_by_side(episodes)
    batch = Batch(totals_of(episodes, 1), sum(e.length for e in episodes), steps)
    return finished(config_of(**learn), task_set(episodes), start, batch, places)


def side_by_side(episodes: Sequence[Episode]) -> tuple[Transition, list[tuple[int, int]]]:
    """One more step than the longest has, and the places of all steps; what does not count is another step's."""
    places = [(t, lane) for lane, episode in enumerate(episodes) for t in range(episode.length)]
    index = np.zeros((1 + max(e.length for e in episodes), len(episodes)), int)
    counts = np.zeros(index.shape, bool)
    for number, place in enumerate(places):
        index[place], counts[place] = number, True
    steps = transitions(episodes)
    return jax.tree.map(lambda leaf: leaf[..., index], steps)._replace(counts=counts), places


def as_one_lane(episodes: Sequence[Episode]) -> tuple[Transition, list[tuple[int, int]]]:
    """As hosted episodes are packed, and the places of all steps."""
    steps = packed(episodes, 16).steps
    return steps, [(n, 0) for n in range(sum(e.length for e in episodes))]


# ---- What the paths are made of -----------------------------------------------------------------------------------


def config_of(offline: OfflineConfig = OfflineConfig(), steps: int | None = None, **learn: Any) -> Config:
    plain = {"learner": "actor-critic", "optimizer": "sgd", "schedule": "constant", "lanes": 2}
    sizes = {"step_size_theta": 1.0, "step_size_beta": 1.0, "entropy": 0.0, "softening": 0.0}
    run = RunConfig(tasks=("any",), weights=(1.0,), episodes=10**6, steps=steps)
    return Config(run=run, learn=LearnConfig(**{**plain, **sizes, **learn}), offline=offline)


def task_set(episodes: Sequence[Episode]) -> TaskSet:
    """A set with as many tasks as the episodes have; nothing of it is played."""
    described = {episode.task: episode.descriptor for episode in episodes}
    spec = SimpleNamespace(discount=0.5, observation_names=("x",), horizon=4)
    tasks = [
        SimpleNamespace(spec=spec, descriptor=described.get(n, ()), drawn=())
        for n in range(1 + max(described, default=0))
    ]
    return TaskSet(tuple(tasks), (1.0,) * len(tasks))


def policy_of(start: Start) -> ASAPPolicy:
    beta, theta = (np.float32(part) for part in (start.beta, start.theta))
    return ASAPPolicy(
        Partition(beta, np.float32(start.alpha_beta)),
        GibbsSkills(theta[..., None], np.float32(start.alpha_theta)),
        Features.of(Polynomial(1), (0,), start.task_features),
        Features.of(Polynomial(0), (0,)),
        start.termination,
    )


def state_of(config: Config, start: Start, num_tasks: int, moments: Any) -> TrainState:
    policy = policy_of(start)
    ramps, weights, gram, moment = (np.float32(x) for x in (start.ramps, start.critic, start.gram, start.moment))
    return TrainState(
        policy=policy,
        critic=Critic(ramps, np.zeros(len(ramps), np.float32), weights, gram, moment),
        optimizer=optimizer_of(config.learn).init(parameters_of(policy)),
        carry=None,
        monitor=start_monitor(parameters_of(policy)),
        totals=no_episodes(num_tasks),
        iteration=np.int32(start.iteration),
        env_steps=np.int32(start.env_steps),
        spoiled=np.zeros((), bool),
        moments=moments,
    )


class Given(Experience):
    """An experience that hands on what it is fed."""

    together, most_updates = True, 1

    def __init__(self, tasks: TaskSet):
        self.tasks = tasks

    def collect(self, key: Any, policy: ASAPPolicy, carry: None, fed: Batch) -> tuple[None, Batch]:
        return None, fed


def finished(
    config: Config, tasks: TaskSet, start: Start, batch: Batch, places: list[tuple[int, int]], moments: Any = None
) -> Updated:
    """Runs the update; `places` are where in (time, lane) the steps of the episodes stand."""

    def run(state: TrainState, batch: Batch) -> tuple[TrainState, list]:
        with advantages_recorded() as found:
            left = Budget.of(config).left(no_totals(tasks), np.int64(0))
            return update(config, Given(tasks), left, root(0), state, batch)[0], list(found)

    state, found = jax.tree.map(np.asarray, compiled(run)(state_of(config, start, tasks.size, moments), batch))
    return Updated(
        advantages=np.asarray([found[0][place] for place in places]) if found else np.zeros(0),
        critic=state.critic.weights,
        beta=state.policy.partition.beta,
        theta=state.policy.skills.theta[..., 0],
        spoiled=bool(state.spoiled),
        iteration=int(state.iteration),
    )


@contextmanager
def advantages_recorded() -> Iterator[list]:
    found = []

    def recording(*arguments: Any) -> Any:
        found.append(lambda_advantages(*arguments))
        return found[-1]

    with mock.patch.object(judge, "lambda_advantages", recording):
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
        elapsed=joined([np.arange(e.length) for e in episodes], np.int32),
    )


def task_rows(episodes: Sequence[Episode]) -> np.ndarray:
    tasks = np.concatenate([[e.task] * e.length for e in episodes])
    return np.arange(tasks.max() + 1)[:, None] == tasks


def totals_of(episodes: Sequence[Episode], num_tasks: int) -> EpisodeTotals:
    totals = np.zeros((4, num_tasks), np.int32)
    for episode in episodes:
        totals[:, episode.task] += [1, int(sum(episode.rewards)), 0, episode.length]
    return EpisodeTotals(totals[0], np.float32(totals[1]), totals[2], totals[3])


def packed(episodes: Sequence[Episode], smallest: int) -> Batch:
    with mock.patch.object(hosted, "SMALLEST", smallest):
        return hosted.packed([as_played(episode) for episode in episodes], task_set(episodes))


def as_played(episode: Episode) -> Played:
    actions = np.asarray(episode.actions, np.float32 if np.ndim(episode.actions) == 2 else np.int32)
    numbers = np.int32(episode.skills), actions, np.float32(episode.rewards)
    return Played(EpisodeId(0, TRAINING, 0, episode.task), episode.x, *numbers, episode.terminated, None)


def dataset(episodes: Sequence[Episode]) -> Any:
    """As much of a dataset as minibatches are read from."""

    def read(index: int) -> StoredEpisode:
        episode = episodes[index]
        behaviour = np.float32(episode.behaviour or [0.0] * episode.length)
        numbers = np.int32(episode.actions), np.float32(episode.rewards), behaviour
        return StoredEpisode(
            episode.x[:-1], *numbers, episode.x[-1], np.float32(episode.descriptor), episode.terminated
        )

    lengths = np.array([episode.length for episode in episodes])
    return SimpleNamespace(
        layout=Layout("any", 1, 2, np.float32(episodes[0].descriptor)),
        longest=max(episode.length for episode in episodes),
        num_episodes=len(episodes),
        episodes=SimpleNamespace(
            success=np.zeros(len(episodes), bool), start=np.cumsum(lengths) - lengths, length=lengths
        ),
        read=read,
    )
