"""A dataset: a file of logged trajectories, checked once and then read episode by episode, in any order.

Nothing but the list of episodes is held in memory. JAX is not needed here.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from asap.data.layout import BEHAVIOUR, DESCRIPTOR, FINAL, STEP_COLUMNS, SUCCESS, Layout, Meta, step_columns
from asap.data.npz import bad_file, fingerprint, open_columns
from asap.data.scan import Scan

_KINDS = {"action": "iu", "episode": "iu", "terminated": "biu", "truncated": "biu", SUCCESS: "biu"}


class StoredEpisode(NamedTuple):
    """One episode of T steps."""

    observation: np.ndarray  # (T, O)
    action: np.ndarray  # As the policy has it.
    reward: np.ndarray
    behaviour_log_prob: np.ndarray  # Of a vector, a density in our units. Zeros where it is not known.
    final_observation: np.ndarray  # (O,)
    descriptor: np.ndarray  # (Z,)
    terminated: bool


class Dataset:
    """A checked file, read episode by episode."""

    def __init__(self, path: str | Path, layout: Layout, drop_bad_rows: bool = False):
        self.path, self.layout = Path(path), layout
        self.columns = open_columns(path)
        self.meta = Meta.of(self.columns, self.path)
        self._require_same_task()
        self._require_columns()
        scan = Scan(self.path, self.columns, layout, drop_bad_rows)
        self.episodes, self.dropped, self.is_stochastic = scan.episodes, scan.dropped, scan.is_stochastic
        self.fingerprint = fingerprint(self.columns)

    @property
    def num_episodes(self) -> int:
        return len(self.episodes.number)

    @property
    def num_steps(self) -> int:
        return int(self.episodes.length.sum())

    @property
    def longest(self) -> int:
        return int(self.episodes.length.max())

    def read(self, index: int) -> StoredEpisode:
        """One episode, by its place among those that are used."""
        episodes = self.episodes
        start, length, number = (int(part[index]) for part in (episodes.start, episodes.length, episodes.number))

        def row(name: str, otherwise: np.ndarray) -> np.ndarray:
            return self.columns[name].read(number, 1)[0] if name in self.columns else otherwise

        observation, action, reward = (self.columns[name].read(start, length) for name in STEP_COLUMNS[:3])
        known = BEHAVIOUR in self.columns
        log_prob = self.columns[BEHAVIOUR].read(start, length) + self.layout.log_scale if known else np.zeros(length)
        action = self.layout.ours(action)
        final, descriptor = row(FINAL, observation[-1]), row(DESCRIPTOR, self.layout.descriptor)
        return StoredEpisode(
            observation,
            action,
            reward,
            log_prob.astype(np.float32),
            final,
            descriptor,
            bool(episodes.terminated[index]),
        )

    def _require_same_task(self) -> None:
        meta, layout = self.meta, self.layout
        if meta.task not in (None, layout.task):
            raise bad_file(self.path, f"is for {meta.task}, not for {layout.task}", f"give data of {layout.task}")
        if meta.action_names and len(meta.action_names) != layout.num_actions:
            raise bad_file(self.path, f"has {len(meta.action_names)} actions, {layout.task} has {layout.num_actions}")

    def _require_columns(self) -> None:
        """Columns, their kinds and sizes; nothing has been read yet."""
        columns, layout = self.columns, self.layout
        for name in (*STEP_COLUMNS, FINAL):
            if name not in columns:
                raise bad_file(self.path, f"column '{name}' missing", f"has {', '.join(columns)}")
        for name, column in columns.items():
            kinds = "fiu" if name == "action" and layout.controls is not None else _KINDS.get(name, "fiu")
            if name != "meta" and column.dtype.kind not in kinds:
                raise bad_file(self.path, f"column '{name}' has the type {column.dtype}", "save plain numbers")
        widths = dict.fromkeys(("observation", FINAL), layout.num_observations) | {DESCRIPTOR: len(layout.descriptor)}
        for name in (*STEP_COLUMNS, BEHAVIOUR, FINAL, DESCRIPTOR, SUCCESS):
            wanted = (widths[name],) if name in widths else layout.of_actions if name == "action" else ()
            if name in columns and columns[name].shape[1:] != wanted:
                other = f"{self.meta.task or 'another task'} with rows {columns[name].shape[1:]}"
                what = f"column '{name}' is for {other}, {layout.task} has {wanted}"
                raise bad_file(self.path, what, f"give data of {layout.task}")
        num_rows = columns["observation"].num_rows
        for name in step_columns(columns):
            count = columns[name].num_rows
            if count != num_rows:
                what = f"column '{name}' has {count:,} rows, 'observation' has {num_rows:,}"
                raise bad_file(self.path, f"row {min(num_rows, count):,}: {what}")
        if num_rows == 0:
            raise bad_file(self.path, "has no rows")


def task_of(path: str | Path, named: str | None) -> str:
    """The task of a dataset, from its meta or as given; the two may not contradict each other."""
    recorded = Meta.of(open_columns(path), Path(path)).task
    if recorded is None and named is None:
        raise bad_file(path, "does not name its task", "name it: asap train TASK --offline FILE")
    if recorded is not None and named not in (None, recorded):
        raise bad_file(path, f"is for {recorded}, not for {named}", f"leave out the task, or give data of {named}")
    return named or recorded
