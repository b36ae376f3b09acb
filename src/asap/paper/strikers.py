"""Strikers on R1, R2 and R3: their runs, their regions on the pitch, and the supplement's goal ratios."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from asap.base.arrays import compiled
from asap.base.keys import fold, root
from asap.base.stats import difference_interval, iqm
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.controllers import shoot_within, shooting_distance
from asap.envs.soccer.striker import SHOOT
from asap.experience.episode_logs import play_logged
from asap.model.training import blank_start
from asap.paper import references
from asap.paper.claims import Claim, Finding, Picture, interval
from asap.paper.laboratory import Laboratory, TrainedRun, play
from asap.policy.policy import NO_SKILL, ASAPPolicy
from asap.show.figures.backgrounds import PITCH
from asap.show.figures.strip_plot import strip_plot

TASKS = ("striker-r1", "striker-r2", "striker-r3")
EPISODES = 1000  # Of a goal ratio, as in the paper.
# Metres within which the approximately optimal controller shoots.
CONTROLLER = shooting_distance(references.CONTROLLER)
DISTANCES = (10.0, 12.0, 13.0, 14.0, 15.0, 16.0)
_BY_RULE = 9  # Stream of the seed's key.
PAPER = {"striker-r1": "I 0.18, A 0.79, O 0.91", "striker-r2": "a bar chart", "striker-r3": "a bar chart"}


def goal_ratios(laboratory: Laboratory) -> Finding:
    """Goals per episode of the misspecified start, of ASAP, and of strikers by rule."""
    claims, rows = [], {}
    for task in TASKS:
        record = learned(laboratory, task)
        start, goals, by_distance = start_goals(record), record.success(), goals_by_distance(laboratory, task)
        best, controller = max(by_distance, key=lambda d: by_distance[d].mean()), by_distance[CONTROLLER]
        gained, name = difference_interval(goals, start), task.rpartition("-")[-1].upper()  # R1 for striker-r1.
        claims.append(
            Claim(
                claim=f"{name}: ASAP scores at least as often as the best shooting distance",
                paper=PAPER[task],
                ours=f"{np.median(goals):.3f} (median) against {by_distance[best].mean():.3f} (dist:{best:g}); "
                f"start {np.median(start):.3f}, dist:{CONTROLLER:g} {controller.mean():.3f}",
                ci=interval(goals),
                passed=np.median(goals) >= by_distance[best].mean(),
                note=(
                    f"goals per episode, {EPISODES:,} episodes per seed. Seeds: {' '.join(f'{value:.3f}' for value in goals)}. IQM: {iqm(goals):.3f} "
                    f"with the interval. Distances: "
                    + ", ".join(f"{distance:g} m {values.mean():.3f}" for distance, values in by_distance.items())
                ),
            )
        )
        claims.append(
            Claim(
                claim=f"{name}: from the misspecified start to ASAP",
                paper="I far below A",
                ours=f"{np.median(start):.3f} to {np.median(goals):.3f}",
                ci=interval(start),
                passed=gained[0] > 0,
                note=f"holds if the 95 % interval of the difference, {gained[0]:.3f} to {gained[1]:.3f}, lies above 0. The "
                "interval is that of the start",
            )
        )
        rows |= {f"{name}: start": start, f"{name}: ASAP": goals, f"{name}: dist:{CONTROLLER:g}": controller}
        if best != CONTROLLER:
            rows[f"{name}: dist:{best:g} (best)"] = by_distance[best]
    drawn = strip_plot({name: values.tolist() for name, values in rows.items()}, "goals per episode", "Goal ratios")
    caption = f"A dot is a seed, with {EPISODES:,} episodes. Thick: median."
    return Finding(claims, {"goal-ratios": Picture(drawn, caption)})


def learned(laboratory: Laboratory, task: str) -> TrainedRun:
    """The run with the task's own settings, which several experiments read."""
    return laboratory.train(task, [task])


def start_goals(record: TrainedRun) -> np.ndarray:
    """(seeds,): goals per episode before any learning: the misspecified partition, with the skills as drawn."""
    policies = blank_start(record.config, record.result.tasks).policy
    return play(policies, record.tasks[0], EPISODES, record.config.run.seed).success.mean((1, 2))


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


def shooting_places(
    policy: ASAPPolicy, task: CompiledTask, moved: dict[str, float] | None = None
) -> Bool[np.ndarray, "Y X"]:
    """Where on the pitch the striker shoots in deterministic play; `moved` adds to observations, by name, as they are
    normalised."""
    x = PITCH.observations(task).copy()
    for name, amount in (moved or {}).items():
        x[:, task.spec.observation_names.index(name)] += amount
    m = jnp.float32(task.descriptor)
    actions = jax.vmap(lambda one: policy.likeliest(one, m, NO_SKILL)[1])(jnp.asarray(x))
    return PITCH.frame.image(np.asarray(actions == SHOOT))


def distances_to_goal() -> Float[np.ndarray, "Y X"]:
    """Of the same places, from the goal's centre, in metres."""
    return np.hypot(PITCH.frame.right - PITCH.frame.x[None, :], PITCH.frame.y[:, None])


def area(places: Bool[np.ndarray, "Y X"]) -> float:
    """In square metres."""
    pixel = (PITCH.frame.x[1] - PITCH.frame.x[0]) * abs(PITCH.frame.y[1] - PITCH.frame.y[0])
    return float(places.sum() * pixel)
