"""Episodes of a behaviour as columns of a dataset, in rounds: our tasks are played in one program, environments on the
host.

A fixed set of ids is played and all of their episodes are kept, so short ones are not over-represented.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from asap.base.arrays import compiled, element, stack
from asap.base.episodes import COLLECTION, EpisodeId, Played
from asap.base.keys import Key, fold, root
from asap.base.spec import Task, TaskSet
from asap.data.layout import BEHAVIOUR, DESCRIPTOR, FINAL, SUCCESS, layout_of
from asap.envs import catalog
from asap.envs.controllers import Controller, Probabilities
from asap.envs.core import CompiledTasks, Outcome
from asap.envs.jax_native.task import playable
from asap.experience.behaviours import LoggedPolicy
from asap.experience.hosted import Hosted
from asap.experience.rollout import Actor, Controlled, Moment, fresh_episodes, look_lanes, play
from asap.runs.directory import print_note

_COLLECT = 8  # Stream of the seed's key; 0 to 7 are the learner's and the model's.
STEPS_AT_ONCE = 1 << 19  # Room for this many steps is made in a round: it bounds memory, whatever the horizon.
MOST_LANES = 1024
HOSTED_ROUND = 64  # Episodes: an environment may be slow, and rounds are what the progress bar sees.

Columns = dict[str, np.ndarray]
STEPS = ("observation", "action", "reward")


class LoggedEpisodes(NamedTuple):
    """L episodes; of the H steps that there is room for, the first `lengths` are theirs."""

    observation: Float[Array, "O H L"]
    action: Int[Array, "H L"] | Float[Array, "A H L"]
    reward: Float[Array, "H L"]
    log_prob: Float[Array, "H L"]
    lengths: Int[Array, "L"]
    terminated: Bool[Array, "L"]
    success: Bool[Array, "L"]
    final_observation: Float[Array, "O L"]
    playing: Bool[Array, "L"]


class Log(NamedTuple):
    """Keeps every step of one episode per lane; of a controller with the probability of its action."""

    tasks: CompiledTasks
    probabilities: Probabilities | None = None

    def start(self, moment: Moment) -> LoggedEpisodes:
        count, horizon = moment.skill.shape[-1], self.tasks.env.spec.horizon
        x, _ = look_lanes(self.tasks, moment)
        none, zeros, lengths = jnp.zeros(count, bool), jnp.zeros((horizon, count)), jnp.zeros(count, jnp.int32)
        room = jnp.zeros((x.shape[0], horizon, count))
        actions = jnp.zeros((*moment.action.shape[:-1], horizon, count), moment.action.dtype)
        return LoggedEpisodes(room, actions, zeros, zeros, lengths, none, none, x, ~none)

    def add(
        self, so_far: LoggedEpisodes, before: Moment, outcome: Outcome, step: Int[Array, ""]
    ) -> tuple[LoggedEpisodes, None]:
        ends = (outcome.terminated | outcome.truncated) & so_far.playing
        x, _ = look_lanes(self.tasks, before)
        log_prob = so_far.log_prob
        if self.probabilities is not None:
            log_prob = log_prob.at[step].set(jnp.log(element(self.probabilities(x), before.action)))
        return LoggedEpisodes(
            observation=so_far.observation.at[:, step].set(x),
            action=so_far.action.at[..., step, :].set(before.action),
            reward=so_far.reward.at[step].set(outcome.reward),
            log_prob=log_prob,
            lengths=jnp.where(ends, outcome.elapsed, so_far.lengths),
            terminated=jnp.where(ends, outcome.terminated, so_far.terminated),
            success=jnp.where(ends, outcome.success, so_far.success),
            final_observation=jnp.where(ends, outcome.next_observation, so_far.final_observation),
            playing=so_far.playing & ~ends,
        ), None

    def goes_on(self, gathered: LoggedEpisodes) -> Bool[Array, "L"]:
        return gathered.playing


def play_logged(tasks: CompiledTasks, probabilities: Probabilities, key: Key, ids: Int[Array, "L"]) -> LoggedEpisodes:
    """The episodes of these ids, from start to end."""
    return _play(tasks, Controlled(probabilities), Log(tasks, probabilities), key, ids)


def _play(tasks: CompiledTasks, actor: Actor, log: Log, key: Key, ids: Int[Array, "L"]) -> LoggedEpisodes:
    keys, moment = fresh_episodes(tasks, actor, key, ids)
    return play(tasks, actor, keys, moment, log)[1]


def discounted_returns(played: LoggedEpisodes, discount: float) -> Float[np.ndarray, "L"]:
    steps = np.arange(played.reward.shape[0])[:, None]
    return (np.where(steps < played.lengths, played.reward, 0.0) * discount**steps).sum(0)


def compiled_rounds(
    task: Task, behaviour: Controller | LoggedPolicy, num_episodes: int, seed: int
) -> Iterator[Columns]:
    """Episodes 0 to `num_episodes` - 1 of this seed; the program is compiled before this returns."""
    lanes = max(1, min(MOST_LANES, num_episodes, STEPS_AT_ONCE // task.spec.horizon))
    tasks, key = catalog.compiled(TaskSet((playable(task, print_note),), (1.0,))), fold(root(seed), _COLLECT)
    learned = behaviour if isinstance(behaviour, LoggedPolicy) else None
    if isinstance(behaviour, LoggedPolicy):
        play_ids = functools.partial(compiled(functools.partial(_play, tasks)), behaviour.policy, Log(tasks), key)
    else:
        probabilities = behaviour.probabilities
        play_ids = functools.partial(compiled(lambda key, ids: play_logged(tasks, probabilities, key, ids)), key)
    jax.block_until_ready(play_ids(jnp.arange(lanes)))

    def played(first: int) -> Columns:
        episodes = jax.tree.map(np.asarray, play_ids(first + jnp.arange(lanes)))
        descriptor = np.asarray(task.descriptor, np.float32)
        columns = as_columns(episodes, first, min(lanes, num_episodes - first), descriptor)
        return columns if learned is None else told(columns, learned, task)

    return map(played, range(0, num_episodes, lanes))


def as_columns(played: LoggedEpisodes, first: int, count: int, descriptor: np.ndarray) -> Columns:
    """The first `count` episodes as rows, one episode after the other."""
    lengths = played.lengths[:count]
    longest = int(lengths.max())
    is_step = np.arange(longest) < lengths[:, None]

    def rows(grid: np.ndarray) -> np.ndarray:
        return grid[..., :longest, :count].T[is_step]  # Lanes first, and the numbers of a vector last.

    steps = {name: rows(getattr(played, name)) for name in STEPS} | {BEHAVIOUR: rows(played.log_prob)}
    ends = played.terminated[:count], played.final_observation[:, :count].T, np.tile(descriptor, (count, 1))
    return table(steps, lengths, first, *ends) | {SUCCESS: played.success[:count]}


def told(columns: Columns, behaviour: LoggedPolicy, task: Task) -> Columns:
    """With the probabilities of a policy, and actions in the environment's units."""
    layout, ended = layout_of(task), columns["terminated"] | columns["truncated"]
    lengths = np.diff(np.flatnonzero(ended), prepend=-1)
    descriptors = np.repeat(columns[DESCRIPTOR], lengths, axis=0)
    log_prob = behaviour.log_probs(columns["observation"], descriptors, columns["action"], ended) - layout.log_scale
    return columns | {"action": layout.logged(columns["action"]), BEHAVIOUR: log_prob.astype(np.float32)}


def table(
    steps: Columns,
    lengths: np.ndarray,
    first: int,
    terminated: Bool[np.ndarray, "E"],
    final: Float[np.ndarray, "E O"],
    descriptors: Float[np.ndarray, "E Z"],
) -> Columns:
    """All columns, in the order of the file; `steps` may have the probabilities of the behaviour."""
    flags, count = np.zeros((2, sum(lengths)), bool), len(lengths)
    flags[:, np.cumsum(lengths) - 1] = terminated, ~terminated
    numbers = np.repeat(np.arange(first, first + count, dtype=np.int32), lengths)
    known = {name: rows for name, rows in steps.items() if name != BEHAVIOUR}
    columns = {**known, "terminated": flags[0], "truncated": flags[1], "episode": numbers}
    if BEHAVIOUR in steps:
        columns[BEHAVIOUR] = steps[BEHAVIOUR]
    return columns | {FINAL: final, DESCRIPTOR: descriptors}


def hosted_rounds(player: Hosted, behaviour: LoggedPolicy, num_episodes: int, seed: int) -> Iterator[Columns]:
    """The same of an environment."""
    (plan,), task = player.plans(stack([behaviour.policy])), player.tasks.tasks[0]

    def played(first: int) -> Columns:
        numbers = range(first, min(first + HOSTED_ROUND, num_episodes))
        planned = [(plan, EpisodeId(seed, COLLECTION, number)) for number in numbers]
        episodes = list(player.play(planned, deterministic=False))
        return told(of_played(episodes, player.tasks, first), behaviour, task)

    return map(played, range(0, num_episodes, HOSTED_ROUND))


def of_played(episodes: Sequence[Played], tasks: TaskSet, first: int) -> Columns:
    """Columns of episodes that were played on the host, with actions as they were drawn."""
    observations = [episode.observations.astype(np.float32) for episode in episodes]
    fields = [one[:-1] for one in observations], [one.actions for one in episodes], [one.rewards for one in episodes]
    lengths = np.asarray([episode.length for episode in episodes])
    ends = np.asarray([one.terminated for one in episodes], bool), np.stack([one[-1] for one in observations])
    descriptors = np.stack([tasks.descriptor_of(episode.episode) for episode in episodes]).astype(np.float32)
    columns = table(dict(zip(STEPS, map(np.concatenate, fields))), lengths, first, *ends, descriptors)
    success = [episode.success for episode in episodes]
    return columns if None in success else columns | {SUCCESS: np.asarray(success, bool)}
