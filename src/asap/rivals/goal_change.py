"""The goal-change experiment of Bacon, Harb and Precup (2017): four rooms, and after so many episodes another goal, which
nobody announces. What counts is how many steps each episode takes.

All runs play in one loop over steps, in which each counts its own episodes: in a loop over episodes all would wait for
the longest. Who has played all of its episodes goes on until the last has, and that is not recorded.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from asap.base.arrays import known_mean
from asap.base.keys import Key, fold, host_generator, root
from asap.base.spec import TaskSet
from asap.envs.core import CompiledTasks, begin
from asap.envs.four_rooms import CELLS, FIRST_GOAL, LOWER_RIGHT, FourRooms, FourRoomsTask, four_rooms
from asap.experience.compiled_play import LEARNING, begin_seed, learn_one_step, program
from asap.experience.counted_play import Running, StepLearner
from asap.experience.protocol import OnProgress, ignore_progress
from asap.experience.rollout import no_episodes
from asap.rivals.features import Inputs01, fourier
from asap.rivals.option_critic import OptionCritic
from asap.rivals.values import QLearning, Sarsa

EPISODES = 1000  # With each of the two goals.
AT_ONCE = 20_000  # Steps between two looks of the host.
SECOND_GOAL, CHANGE = 20, 3  # Streams of a seed: on the host, and of its key.
FEW, SOON, LATE = 50, (100, 200), 100


# Rates and temperatures as they are used for this task; 4 options.
_SHARED: dict[str, Any] = {"step_size": 0.5, "epsilon": 0.01}
_OPTIONS: dict[str, Any] = {
    **_SHARED,
    "step_size_theta": 0.25,
    "step_size_termination": 0.25,
    "temperature": 1e-3,
    "option_temperature": None,
    "margin": 0.0,
    "reward_scale": 1.0,
}
OPTION_CRITIC, CONTROL, PRIMITIVE = "Option-Critic", "Option-Critic,\none-step options", "primitive actor-critic"
Q_LEARNING, SARSA = "Q-learning", "Sarsa"
SYSTEMS: dict[str, OptionCritic | Sarsa | QLearning] = {
    OPTION_CRITIC: OptionCritic(num_options=4, **_OPTIONS),
    CONTROL: OptionCritic(num_options=4, terminates_always=True, **_OPTIONS),
    Q_LEARNING: QLearning(temperature=1e-3, **_SHARED),
    SARSA: Sarsa(temperature=1e-3, trace=0.0, **_SHARED),
    PRIMITIVE: OptionCritic(num_options=1, **_OPTIONS),
}


def tabular_learner(system: OptionCritic | Sarsa | QLearning, slip: str) -> StepLearner:
    tasks, cells = TaskSet((four_rooms(slip),), (1.0,)), len(CELLS)
    inputs = Inputs01(tuple(range(cells)), (0.0,) * cells, (1.0,) * cells, 0)
    return system.learner(fourier(inputs, system.order, numbered=True), tasks)


class Recorded(NamedTuple):
    """One run on its way."""

    running: Running
    count: Int[Array, ""]  # Episodes that have ended.
    lengths: Int[Array, "E"]  # Their steps.


def second_goals(seeds: Sequence[int]) -> Int[np.ndarray, "runs"]:
    """A cell of the lower right room for each run."""
    return np.array([host_generator(seed, SECOND_GOAL).choice(LOWER_RIGHT) for seed in seeds], np.int32)


def goal_change(
    learner: StepLearner,
    slip: str,
    seeds: Sequence[int],
    num_episodes: int = EPISODES,
    heard: OnProgress = ignore_progress,
) -> Int[np.ndarray, "runs E"]:
    """Steps of every episode, of the first goal and then of the second. `heard` is told the episodes of the slowest run."""
    env, keys = FourRooms(slip), run_keys(seeds)
    goals = np.stack([np.full(len(seeds), FIRST_GOAL, np.int32), second_goals(seeds)], 1)
    recorded = program(_begun, "learner", "num_episodes")(env, keys, goals, learner=learner, num_episodes=num_episodes)
    while (slowest := int(np.asarray(recorded.count).min())) < 2 * num_episodes:
        heard(slowest)
        go_on = program(_go_on, "learner", "num_episodes")
        recorded = go_on(env, keys, goals, recorded, learner=learner, num_episodes=num_episodes)
    return np.asarray(recorded.lengths)


def run_keys(seeds: Sequence[int]) -> Key:
    keys = jax.tree.map(lambda *words: np.stack(words), *map(root, seeds))
    return jax.vmap(lambda key: fold(key, LEARNING))(keys)


def _tasks(env: FourRooms, goal: Int[Array, ""]) -> CompiledTasks:
    return CompiledTasks(env, FourRoomsTask(goal[None]), jnp.ones(1), ("four-rooms",))


def _begun(env: FourRooms, keys: Key, goals: Int[Array, "runs 2"], learner: StepLearner, num_episodes: int) -> Recorded:
    def of_run(key: Key, goals: Int[Array, "2"]) -> Recorded:
        running = begin_seed(_tasks(env, goals[0]), key, learner)
        return Recorded(running, jnp.int32(0), jnp.zeros(2 * num_episodes, jnp.int32))

    return jax.vmap(of_run)(keys, goals)


def _go_on(
    env: FourRooms,
    keys: Key,
    goals: Int[Array, "runs 2"],
    recorded: Recorded,
    learner: StepLearner,
    num_episodes: int,
) -> Recorded:
    def one_step(key: Key, goals: Int[Array, "2"], now: Recorded) -> Recorded:
        goal = jnp.where(now.count < num_episodes, goals[0], goals[1])
        running, ended = learn_one_step(_tasks(env, goal), learner, fold(key, 2), now.running, no_episodes(1))
        has_ended = ended.episodes[0] == 1
        index = jnp.where(has_ended, now.count, 2 * num_episodes)
        lengths = now.lengths.at[index].set(ended.steps[0], mode="drop")
        count = now.count + has_ended
        # The episode that has begun already has the old goal, and may begin at the new one.
        anew = begin(_tasks(env, goals[1]), fold(key, CHANGE), fold(key, CHANGE))
        changes = has_ended & (count == num_episodes)
        episode = jax.tree.map(lambda new, old: jnp.where(changes, new, old), anew, running.place.episode)
        running = running._replace(place=running.place._replace(episode=episode))
        return Recorded(running, count, lengths)

    def goes_on(carry: tuple[Int[Array, ""], Recorded]) -> Array:
        return (carry[0] < AT_ONCE) & (carry[1].count < 2 * num_episodes).any()

    def body(carry: tuple[Int[Array, ""], Recorded]) -> tuple[Int[Array, ""], Recorded]:
        return carry[0] + 1, jax.vmap(one_step)(keys, goals, carry[1])

    return jax.lax.while_loop(goes_on, body, (jnp.int32(0), recorded))[1]


class Recovery(NamedTuple):
    """Mean steps per episode of each run; NaN where there are no such episodes."""

    before: np.ndarray  # The last 100 with the first goal.
    first: np.ndarray  # The first 50 with the second.
    soon: np.ndarray  # 100 to 200 after the change.
    last: np.ndarray  # The last 100.
    total: np.ndarray  # All steps.

    @classmethod
    def of(cls, lengths: Int[np.ndarray, "runs E"]) -> "Recovery":
        change = lengths.shape[1] // 2
        after = lengths[:, change:]
        means = lengths[:, max(change - LATE, 0) : change], after[:, :FEW], after[:, slice(*SOON)], after[:, -LATE:]
        return cls(*(known_mean(part) for part in means), lengths.sum(1))
