"""Logging what somebody does: complete episodes, step by step, written in rounds as they come."""

import importlib.metadata
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asap.base.spec import Task
from asap.data.layout import EPISODE_COLUMNS, SUCCESS, Meta
from asap.data.writing import DatasetWriter
from asap.experience.behaviours import WhoPlays
from asap.experience.choose import logged_rounds
from asap.experience.episode_logs import Columns
from asap.runs.directory import print_note


class Collected(NamedTuple):
    """What was logged."""

    meta: Meta
    steps: int
    seconds: float  # Of playing and writing, without compilation.


def collect(
    task: Task,
    behaviour: WhoPlays,
    epsilon: float,
    num_episodes: int,
    seed: int,
    path: str | Path,
    report: Callable[[int, int, float], None] = lambda *_: None,
    num_steps: int | None = None,
) -> Collected:
    """Episodes 0 to `num_episodes` - 1 of this seed, into a dataset at `path`; `report` gets round, episodes or steps, mean
    return. With `num_steps` no more episodes than it takes to have so many steps."""
    folder = Path(path).parent  # Takes what is left of an episode that fails.
    playing = logged_rounds(task, behaviour, num_episodes, seed, folder, print_note)
    with playing as rounds, DatasetWriter(path) as writer:
        began, done, steps, returns, successes = time.monotonic(), 0, 0, 0.0, 0
        for number, columns in enumerate(rounds):
            if num_steps is not None:
                columns = upto(columns, num_steps - steps)
            writer.add(columns)
            done += int((columns["terminated"] | columns["truncated"]).sum())
            steps += len(columns["reward"])
            returns += float(columns["reward"].sum(dtype=np.float64))
            successes = None if SUCCESS not in columns or successes is None else successes + int(columns[SUCCESS].sum())
            report(number, done if num_steps is None else steps, returns / done)
            if num_steps is not None and steps >= num_steps:
                break
        meta = Meta(
            task=task.name,
            observation_names=task.spec.observation_names,
            action_names=task.spec.action_names,
            controller=behaviour.name,
            epsilon=epsilon,
            seed=seed,
            episodes=done,
            behaviour_return=returns / done,
            behaviour_success=None if successes is None else successes / done,
            versions={name: importlib.metadata.version(name) for name in ("asap-rl", "jax", "numpy")},
            record=task.record(),
        )
        writer.finish(meta)
    return Collected(meta, steps, time.monotonic() - began)


def upto(columns: Columns, num_steps: int) -> Columns:
    """The episodes that begin within so many steps."""
    ends = np.flatnonzero(columns["terminated"] | columns["truncated"]) + 1
    count = min(int(np.searchsorted(ends, num_steps)) + 1, len(ends))
    rows = int(ends[count - 1])
    return {name: values[: count if name in EPISODE_COLUMNS else rows] for name, values in columns.items()}
