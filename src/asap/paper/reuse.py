"""What is shared: one policy for two tasks, and one skill for two regions that do not touch."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from scipy import ndimage

from asap.base.keys import Key, fold, root
from asap.base.stats import SeedCurve
from asap.envs import catalog
from asap.envs.catalog import CompiledTask
from asap.envs.core import CompiledTasks
from asap.experience.rollout import play_window, start_lanes
from asap.paper.claims import Claim, Finding, Picture, interval, maps_of_seeds
from asap.paper.laboratory import Laboratory, TrainedRun
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import regions_at
from asap.show.figures.curves import compare_curves
from asap.show.figures.policy_map import partition_gallery

TASKS = ["two-rooms", "flipped-two-rooms"]
STEADY = {"learn.lanes": 32, "run.episodes": 4000}

WAVES = ((1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0), (0.0, 1.0), (0.0, 2.0))
DICTIONARY = {
    "policy.basis": "fourier",
    "policy.frequencies": WAVES,
    "policy.bias": True,
    "policy.start": "random",
    "learn.schedule_scale": 200,
    "run.episodes": 4000,
}
ENOUGH_VISITS = 0.1
CELLS = 50  # Of the grid of visits, on each axis.
LANES, STEPS = 256, 400


def joint_multitask(laboratory: Laboratory) -> Finding:
    """One parameter set for two tasks, and why the descriptor must interact with the state.

    With interactions psi = [1, x, y] (x) [1, m] the task can turn a hyperplane round; an additive descriptor
    psi = [1, x, y, m] only shifts it, so the same sides have the same skills in both tasks (errata E13).
    """
    together = laboratory.train("joint", TASKS, STEADY)
    additive = laboratory.train("joint-additive", TASKS, {"policy.task_features": "additive", **STEADY})
    good, poor = served(together), served(additive)
    seeds = laboratory.seeds
    claims = [
        Claim(
            claim="one policy serves 2R and flipped 2R, with the task descriptor in interactions",
            paper="tasks are learned one after the other",
            ours=f"{good.sum()} of {seeds} seeds reach 90 % of the reference on both tasks; returns {together.iqm(0):.1f} and {together.iqm(1):.1f}",
            ci=interval(together.result.evaluation.returns.mean((-1, -2))),
            passed=good.sum() >= 0.9 * seeds,
            note="90 % of the way from the misspecified start to the approximately optimal partition. The interval is that of the mean return over both",
        ),
        Claim(
            claim="an additive descriptor cannot do it",
            paper="not in the paper",
            ours=f"{poor.sum()} of {seeds} seeds; returns {additive.iqm(0):.1f} and {additive.iqm(1):.1f}",
            ci=interval(additive.result.evaluation.returns.mean((-1, -2))),
            passed=poor.sum() <= 0.1 * seeds,
            note="it can shift a boundary and not swap its sides: each seed serves one task, or neither",
        ),
    ]
    worse = {name: _worse_task(record) for name, record in {"interactions": together, "additive": additive}.items()}
    curves = compare_curves(worse, together.tasks[0].reference, "both rooms together: return on the worse task")
    chosen = [together.policy(together.typical_seed())] * 2 + [additive.policy(additive.typical_seed())] * 2
    titles = [f"{kind}: {task}" for kind in worse for task in TASKS]
    maps = partition_gallery(chosen, [*together.tasks] * 2, titles, "One policy, seen in each task", columns=2)
    pictures = {
        "joint-multitask": Picture(curves, "For each seed and evaluation, the task with the smaller return."),
        "joint-multitask-partitions": Picture(maps, "Seeds whose return on Two Rooms is the median."),
    }
    return Finding(claims, pictures)


def served(record: TrainedRun) -> np.ndarray:
    """(seeds,): whether both tasks have 90 % of the reference."""
    references = [task.reference for task in record.tasks]
    enough = [r.misspecified + 0.9 * (r.approx_optimal - r.misspecified) for r in references]
    return (record.result.evaluation.returns.mean(-1) >= np.asarray(enough)).all(-1)


def _worse_task(record: TrainedRun) -> list[SeedCurve]:
    """Curves of the smaller return of the two."""
    first, second = (record.curves(task) for task in range(2))
    return [one._replace(returns=np.minimum(one.returns, other.returns)) for one, other in zip(first, second)]


def unforced(laboratory: Laboratory) -> Finding:
    """Three Rooms with a dictionary of Fourier features and a bias: reuse of a skill has to be found.

    The paper's one feature, sin(3 pi x), changes sign at the two walls whatever its weight is: it forces one skill on
    the first and the last room (errata E12). Here slower and faster waves, waves in y and a bias compete with it.
    """
    record = laboratory.train("three-rooms-dictionary", ["three-rooms"], DICTIONARY)
    seeds = laboratory.seeds
    shares = [visited_components(record.policy(s), record.tasks[0], laboratory.seed + s) for s in range(seeds)]
    reused = np.asarray([any((np.asarray(skill) >= ENOUGH_VISITS).sum() >= 2 for skill in each) for each in shares])
    near = record.returns() >= record.near_optimal[0]
    claim = Claim(
        claim="a skill is reused in two regions that do not touch, although no feature forces it",
        paper="skill A is reused in two parts of the state space (one feature, which forces it)",
        ours=f"{(reused & near).sum()} of {seeds} seeds: near-optimal, and one skill in two regions with at least 10 % of the visits each",
        ci=interval(record.returns()),
        passed=(reused & near).sum() >= 0.9 * seeds,
        note=f"{near.sum()} seeds are near-optimal, {reused.sum()} reuse a skill; regions are connected components on a grid. The interval is that of the return",
    )
    titles = [f"{value:.1f}{', reused' if r else ''}" for value, r in zip(record.returns(), reused)]
    maps = maps_of_seeds(record, titles, "three-rooms with a dictionary of features", "Every seed with its return.")
    return Finding([claim], {"unforced-reuse": maps})


def visited_components(policy: ASAPPolicy, task: CompiledTask, seed: int) -> list[list[float]]:
    """For each skill, the share of all visits in each connected component of the cells where it is the most
    probable."""
    visits = np.asarray(_visits(policy, catalog.task_set(((task.name, 1.0),)), root(seed)))
    centres = (np.arange(CELLS) + 0.5) / CELLS
    goal = np.broadcast_to(np.asarray(task.task.goal), (CELLS * CELLS, 2))
    places = np.stack(np.meshgrid(centres, centres, indexing="ij"), -1).reshape(-1, 2)
    states = np.concatenate([places, goal], -1)
    rulers = regions_at(policy, states, task.descriptor).rulers.reshape(CELLS, CELLS)
    shares = visits / visits.sum()
    return [[float(shares[part].sum()) for part in components(rulers == skill)] for skill in range(policy.num_skills)]


def components(cells: np.ndarray) -> list[np.ndarray]:
    """The connected parts of a mask, as masks: neighbours share an edge."""
    parts = np.zeros(cells.shape, np.int32)
    ndimage.label(cells, output=parts)
    return [parts == part for part in range(1, parts.max() + 1)]


@jax.jit
def _visits(policy: ASAPPolicy, tasks: CompiledTasks, key: Key) -> Int[Array, "X Y"]:
    lanes = start_lanes(tasks, fold(key, 0), jnp.arange(LANES))
    _, window, _ = play_window(policy, tasks, lanes, fold(key, 1), STEPS)
    cell: Float[Array, "2 ..."] = jnp.clip(jnp.floor(window.observation[:2] * CELLS), 0, CELLS - 1).astype(jnp.int32)
    return jnp.zeros((CELLS, CELLS), jnp.int32).at[cell[0].ravel(), cell[1].ravel()].add(1)
