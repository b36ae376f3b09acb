"""Logging what a controller does: complete episodes, step by step, written in rounds as they come."""

import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asap.base.spec import Task
from asap.data.layout import SUCCESS, Meta
from asap.data.writing import DatasetWriter
from asap.envs.controllers import Controller
from asap.experience.choose import logged_rounds
from asap.runs.directory import print_note


class Collected(NamedTuple):
    """What was logged."""

    meta: Meta
    steps: int
    seconds: float  # Of playing and writing, without compilation.


def collect(
    task: Task,
    controller: Controller,
    epsilon: float,
    num_episodes: int,
    seed: int,
    path: str | Path,
    report: Callable[[int, int, float], None] = lambda *_: None,
) -> Collected:
    """Episodes 0 to `num_episodes` - 1 of this seed, into a dataset at `path`; `report` gets round, episodes, mean
    return."""
    folder = Path(path).parent  # Takes what is left of an episode that fails.
    playing = logged_rounds(task, controller, num_episodes, seed, folder, print_note)
    with playing as rounds, DatasetWriter(path) as writer:
        began, done, steps, returns, successes = time.monotonic(), 0, 0, 0.0, 0
        for number, columns in enumerate(rounds):
            writer.add(columns)
            done += int((columns["terminated"] | columns["truncated"]).sum())
            steps += len(columns["reward"])
            returns += float(columns["reward"].sum(dtype=np.float64))
            successes = None if SUCCESS not in columns or successes is None else successes + int(columns[SUCCESS].sum())
            report(number, done, returns / done)
        meta = Meta(
            task=task.name,
            observation_names=task.spec.observation_names,
            action_names=task.spec.action_names,
            controller=controller.name,
            epsilon=epsilon,
            seed=seed,
            episodes=num_episodes,
            behaviour_return=returns / num_episodes,
            behaviour_success=None if successes is None else successes / num_episodes,
            versions={name: importlib.metadata.version(name) for name in ("asap-rl", "jax", "numpy")},
        )
        writer.finish(meta)
    return Collected(meta, steps, time.monotonic() - began)
