"""The trainings behind Table 1: what one system does on the rooms, seed by seed, kept in a file per seed.

transfer   2R from scratch; what that policy does on flipped 2R; flipped 2R learned from it
scratch    flipped 2R from scratch
frozen     2R with skills that stay as they began
joint      one policy for 2R and flipped 2R
three      3R from scratch; whether a skill is used in two places, and the return without it
"""

import contextlib
import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from asap.base.arrays import stack
from asap.base.spec import TaskSet
from asap.base.stats import SeedCurve
from asap.envs import catalog
from asap.experience.choose import counted_play
from asap.experience.counted_play import StepCounter
from asap.experience.protocol import Evaluation
from asap.paper.table1_reuse import reuse_of
from asap.policy.build import uniform_policy
from asap.rivals.protocol import Agents, System

EPISODES = 200  # Of each evaluation; nobody learns from them.
TWO, FLIPPED, THREE = "two-rooms", "flipped-two-rooms", "three-rooms"
LUCKY = 8  # Single skills that play again.
WINDOW = 5  # Looks at a learning curve that are averaged: single ones are of few episodes.

Rows = list[dict[str, Any]]  # One per seed, as JSON has it.


class RunSetting(NamedTuple):
    """With what the runs are made."""

    seeds: tuple[int, ...]
    budget: int  # Steps.
    counter: Callable[[int, int], StepCounter]  # From seeds and budget: it watches.


def transfer(system: System, setting: RunSetting) -> Rows:
    first, rows = learned(system, [TWO], setting)
    there = deployed(system, first, FLIPPED, setting.seeds)
    _, after = learned(system, [FLIPPED], setting, first.state)
    return [{"first": row, "deployed": _outcome(there, s, 0), "after": after[s]} for s, row in enumerate(rows)]


def scratch(system: System, setting: RunSetting) -> Rows:
    return learned(system, [FLIPPED], setting)[1]


def frozen(system: System, setting: RunSetting) -> Rows:
    return learned(dataclasses.replace(system, learns_skills=False), [TWO], setting)[1]


def joint(system: System, setting: RunSetting) -> Rows:
    return learned(system, [TWO, FLIPPED], setting)[1]


def three(system: System, setting: RunSetting) -> Rows:
    agents, rows = learned(system, [THREE], setting)
    if agents.num_skills < 2 or agents.evaluation is not None:
        return rows
    found = reuse_of(agents.actors, agents.num_skills, catalog.find(THREE), list(setting.seeds), EPISODES)
    return [{**row, "reuse": {**one._asdict(), "is_reused": one.is_reused}} for row, one in zip(rows, found)]


RUNS = {run.__name__: run for run in (transfer, scratch, frozen, joint, three)}


def learned(system: System, names: list[str], setting: RunSetting, start: Any = None) -> tuple[Agents, Rows]:
    """The agents, and what came out for each seed: by task its return and success, steps, seconds and the curve."""
    tasks, began = task_set(names), time.process_time()
    counter = setting.counter(len(setting.seeds), setting.budget)
    agents = system.learn(tasks, setting.seeds, counter, start)
    seconds = (time.process_time() - began) / len(setting.seeds)
    played = agents.evaluation or evaluated(agents, tasks, setting.seeds)
    rows = [
        {
            "tasks": {name: _outcome(played, s, m) for m, name in enumerate(names)},
            "steps": int(agents.steps_used[s]),
            "seconds": round(seconds, 3),
            "parameters": agents.num_parameters,
            "skills": agents.num_skills,
            "curve": {"steps": np.asarray(curve.episodes).tolist(), "returns": np.round(curve.returns, 2).tolist()},
        }
        for s, curve in enumerate(agents.curves)
    ]
    return agents, rows


def deployed(system: System, agents: Agents, name: str, seeds: Sequence[int]) -> Evaluation:
    """What was learned elsewhere, on another task, without learning."""
    tasks = task_set([name])
    if agents.evaluation is None:
        return evaluated(agents, tasks, seeds)
    return system.learn(tasks, seeds, StepCounter(len(seeds), 0), agents.state).evaluation


def evaluated(agents: Agents, tasks: TaskSet, seeds: Sequence[int]) -> Evaluation:
    with contextlib.closing(counted_play(tasks, seeds, StepCounter(len(seeds), 0))) as play:
        return play.evaluate(agents.actors, EPISODES, agents.num_skills)


def _outcome(played: Evaluation, seed: int, task: int) -> dict[str, float]:
    return {
        "return": float(played.returns[seed, task].mean()),
        "success": float(played.success[seed, task].mean()),
        "length": float(played.lengths[seed, task].mean()),
    }


def task_set(names: Sequence[str]) -> TaskSet:
    return TaskSet(tuple(map(catalog.find, names)), (1.0,) * len(names))


def steps_to(row: dict[str, Any], enough: float) -> float | None:
    """Steps at the first look from which the mean return of training episodes, over a window, is enough."""
    curve = SeedCurve(row["curve"]["steps"], row["curve"]["returns"])
    returns = np.asarray(curve.returns, float)
    if len(returns) < WINDOW:
        return None
    means = np.convolve(returns, np.ones(WINDOW) / WINDOW, "valid")
    reached = np.flatnonzero(means >= enough)
    return float(np.asarray(curve.episodes)[reached[0] + WINDOW - 1]) if len(reached) else None


def best_single_success(name: str, resolution: int = 10) -> float:
    """The best success of a policy that draws every action from one distribution: all on a grid of the simplex play, and
    the best of them again, since the luckiest of many looks better than it is."""
    grid = range(resolution + 1)
    shares = [(a, b, c, resolution - a - b - c) for a in grid for b in grid for c in grid if a + b + c <= resolution]
    best = np.argsort(_successes(name, shares, 64))[-LUCKY:]
    return float(_successes(name, [shares[index] for index in best], 1000).max())


def _successes(name: str, shares: list[tuple[int, ...]], episodes: int) -> np.ndarray:
    blank, policies = uniform_policy(catalog.find(name)), []
    for share in shares:
        theta = np.log(np.maximum(np.float32(share), 1e-9)).reshape(blank.skills.theta.shape)
        policies.append(dataclasses.replace(blank, skills=dataclasses.replace(blank.skills, theta=theta)))
    seeds = range(len(policies))
    with contextlib.closing(counted_play(task_set([name]), seeds, StepCounter(len(seeds), 0))) as play:
        return play.evaluate(stack(policies), episodes, 1).success.mean((-1, -2))
