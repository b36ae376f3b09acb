"""What the soccer experiments share: the runs, goals of the start and of strikers by rule, and regions on the pitch."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from asap.base.arrays import compiled
from asap.base.keys import fold, root
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.soccer.controllers import shoot_within, shooting_distance
from asap.envs.soccer.striker import SHOOT
from asap.experience.collect import play_logged
from asap.learn.train import Trainer
from asap.paper import references
from asap.paper.laboratory import Laboratory, Record
from asap.policy.policy import ASAPPolicy
from asap.show.figures.partition_map import map_observations
from asap.show.figures.pitch import PITCH
from asap.trained import play

TASKS = ("striker-r1", "striker-r2", "striker-r3")
EPISODES = 1000  # Of a goal ratio, as in the paper.
CONTROLLER = shooting_distance(
    references.CONTROLLER
)  # Metres within which the approximately optimal controller shoots.
DISTANCES = (10.0, 12.0, 13.0, 14.0, 15.0, 16.0)
_BY_RULE = 9  # Stream of the seed's key.


def short(task: str) -> str:
    """R1 for striker-r1."""
    return task.rpartition("-")[-1].upper()


def learned(laboratory: Laboratory, task: str) -> Record:
    """The run with the task's own settings, which several experiments read."""
    return laboratory.train(task, [task])


def linear(laboratory: Laboratory) -> Record:
    return laboratory.train("striker-r1-linear", ["striker-r1"], "policy.basis=linear")


def start_goals(record: Record) -> np.ndarray:
    """(seeds,): goals per episode before any learning: the misspecified partition, with the skills as drawn."""
    tasks = catalog.task_set(tuple((task.name, 1.0) for task in record.tasks))
    policies, _ = Trainer(record.config, record.tasks, tasks).learned_parts()
    return play(policies, record.tasks[0], EPISODES, record.config.run.seed).success.mean(-1)


def goals_by_distance(laboratory: Laboratory, task: str) -> dict[float, np.ndarray]:
    """(seeds,) for each distance: goals per episode of strikers that shoot within it and dribble elsewhere."""
    tasks = catalog.task_set(((task, 1.0),))
    keys = [fold(root(laboratory.seed + s), _BY_RULE) for s in range(laboratory.seeds)]
    play_some = compiled(
        lambda distance, key: play_logged(tasks, shoot_within(distance), key, jnp.arange(EPISODES)).success
    )
    return {
        distance: np.asarray([play_some(jnp.float32(distance), key).mean() for key in keys]) for distance in DISTANCES
    }


def best_distance(goals: dict[float, np.ndarray]) -> float:
    return max(goals, key=lambda distance: goals[distance].mean())


def shooting_places(
    policy: ASAPPolicy, task: CompiledTask, moved: dict[str, float] | None = None
) -> Bool[np.ndarray, "Y X"]:
    """Where on the pitch the striker most probably shoots; `moved` adds to observations, by name, as they are normalised."""
    x = np.array(map_observations(task))
    for name, amount in (moved or {}).items():
        x[:, task.env.spec.observation_names.index(name)] += amount
    m = task.env.descriptor(task.task)
    log_probs = jax.vmap(lambda one: policy.action_log_probs(one, m))(jnp.asarray(x))
    return np.asarray(log_probs.argmax(-1) == SHOOT).reshape(PITCH.rows, PITCH.columns)


def distances_to_goal() -> Float[np.ndarray, "Y X"]:
    """Of the same places, from the goal's centre, in metres."""
    return np.hypot(PITCH.right - PITCH.x[None, :], PITCH.y[:, None])


def area(places: Bool[np.ndarray, "Y X"]) -> float:
    """In square metres."""
    pixel = (PITCH.x[1] - PITCH.x[0]) * abs(PITCH.y[1] - PITCH.y[0])
    return float(places.sum() * pixel)
