"""The one pass over a dataset, in chunks of bounded size: it proves every row and finds where episodes begin and end."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asap.base.errors import to_stderr
from asap.data.layout import BEHAVIOUR, EPISODE_COLUMNS, SUCCESS, Layout, step_columns
from asap.data.npz import Column, bad_file

CHUNK_ROWS = 1 << 16
MOST_LOG_PROB = 1e-5  # A sum of logarithms may round above 0.
MOST_LOG_DENSITY = 1e3  # Of a vector: it may well be above 1.
MOST_BEYOND = 100.0  # In units of the range: what is drawn beyond a bound is clipped on its way to the environment.


class Episodes(NamedTuple):
    """One entry per episode that is used."""

    number: np.ndarray  # Its row in the columns that have one per episode.
    start: np.ndarray
    length: np.ndarray
    total: np.ndarray  # Undiscounted return.
    behaviour_log_prob: np.ndarray  # Of all its actions; 0 where it is not known.
    terminated: np.ndarray
    success: np.ndarray


class Scan:
    def __init__(self, path: Path, columns: dict[str, Column], layout: Layout, drop_bad_rows: bool):
        self._path, self._columns, self._layout, self._drop = path, columns, layout, drop_bad_rows
        self._starts: list[np.ndarray] = []
        self._ends: list[np.ndarray] = []  # (n, 2): last row, terminated.
        # First episode of a chunk, then (2, n): rewards and log-probabilities.
        self._sums: list[tuple[int, np.ndarray]] = []
        self._bad: list[np.ndarray] = []
        self._first_complaint, self._num_bad_rows, self._num_episodes = "", 0, 0
        self._last_id, self._last_ended, self.is_stochastic = None, True, False
        names, first_row = step_columns(columns), 0
        for chunks in zip(*(self._columns[name].stream(CHUNK_ROWS) for name in names), strict=True):
            self._step_rows(first_row, dict(zip(names, chunks)))
            first_row += len(chunks[0])
        if not self._last_ended:
            cure = "set terminated or truncated there"
            raise bad_file(path, f"row {first_row - 1:,}: the last episode has no end", cure)
        self._episode_rows()
        self.episodes = self._kept()
        self.dropped = self._report_dropped()

    def _step_rows(self, first_row: int, rows: dict[str, np.ndarray]) -> None:
        terminated = rows["terminated"].astype(bool)
        ended = terminated | rows["truncated"].astype(bool)
        begins = self._boundaries(first_row, rows["episode"], ended)
        ordinal = self._num_episodes - 1 + np.cumsum(begins)
        self._complain(self._bad_values(first_row, rows), ordinal)
        self._starts.append(first_row + np.flatnonzero(begins))
        last = np.flatnonzero(ended)
        self._ends.append(np.stack([first_row + last, terminated[last]], -1))
        first = int(ordinal[0])
        summed = (rows["reward"], rows.get(BEHAVIOUR, np.zeros(len(ordinal))))
        sums = np.stack([np.bincount(ordinal - first, values.astype(np.float64)) for values in summed])
        self._sums.append((first, sums))
        self._num_episodes = int(ordinal[-1]) + 1
        if BEHAVIOUR in rows:
            is_chance = rows[BEHAVIOUR] < -MOST_LOG_PROB if self._layout.controls is None else rows[BEHAVIOUR] != 0
            self.is_stochastic |= bool(is_chance.any())

    def _boundaries(self, first_row: int, ids: np.ndarray, ended: np.ndarray) -> np.ndarray:
        """Which rows begin an episode. A new id has to follow an end, and only an end."""
        before = np.concatenate([ids[:1] if self._last_id is None else [self._last_id], ids[:-1]])
        ended_before = np.concatenate([[self._last_ended], ended[:-1]])
        begins = ids != before
        begins[0] |= self._last_id is None
        wrong = (begins != ended_before) | (ids < before)
        if wrong.any():
            at = int(np.argmax(wrong))
            new, old = ids[at], before[at]
            what = f"episode {new} goes on after its end, or its id is given twice"
            cure = "give every episode its own id"
            if new < old:
                what = f"episode {new} comes after episode {old}"
                cure = "keep the rows of an episode together, with rising ids"
            elif begins[at]:
                what = f"episode {new} begins, but episode {old} has no end"
                cure = "set terminated or truncated on its last row"
            raise bad_file(self._path, f"row {first_row + at:,}: {what}", cure)
        self._last_id, self._last_ended = ids[-1], bool(ended[-1])
        return begins

    def _bad_values(self, first_row: int, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Rows with a value that can't be used; the first one is described."""
        found = []
        for name in ("observation", "reward", BEHAVIOUR):
            if name in rows and rows[name].dtype.kind == "f":
                is_bad = ~np.isfinite(rows[name]).reshape(len(rows[name]), -1).all(-1)
                found.append((is_bad, lambda at, name=name: f"{name} is {_not_finite(rows[name][at])}"))
        found.append(_bad_controls(self._layout, rows["action"]) or _bad_choices(self._layout, rows["action"]))
        if BEHAVIOUR in rows:
            log_prob, is_density = rows[BEHAVIOUR], self._layout.controls is not None
            above = log_prob > (MOST_LOG_DENSITY if is_density else MOST_LOG_PROB)
            what = "which no density has" if is_density else "a probability above 1"
            found.append((above, lambda at: f"{BEHAVIOUR} is {log_prob[at]:g}, {what}"))
        is_bad = np.logical_or.reduce([mask for mask, _ in found])
        if is_bad.any() and not self._first_complaint:
            at = int(np.argmax(is_bad))
            self._first_complaint = f"row {first_row + at:,}: " + next(text(at) for mask, text in found if mask[at])
        return is_bad

    def _complain(self, is_bad: np.ndarray, ordinal: np.ndarray) -> None:
        if not is_bad.any():
            return
        if not self._drop:
            cure = "mend it, or leave out such episodes with --drop-bad-rows"
            raise bad_file(self._path, self._first_complaint, cure)
        self._num_bad_rows += int(is_bad.sum())
        self._bad.append(np.unique(ordinal[is_bad]))

    def _episode_rows(self) -> None:
        """The columns that have a row per episode."""
        for name in filter(self._columns.__contains__, EPISODE_COLUMNS):
            column, first = self._columns[name], 0
            if column.num_rows != self._num_episodes:
                counts = f"{column.num_rows:,} rows, there are {self._num_episodes:,} episodes"
                raise bad_file(self._path, f"column '{name}' has {counts}")
            for chunk in column.stream(CHUNK_ROWS):
                is_bad = ~np.isfinite(chunk).reshape(len(chunk), -1).all(-1)
                if is_bad.any() and not self._first_complaint:
                    at = int(np.argmax(is_bad))
                    self._first_complaint = f"row {first + at:,} of '{name}': is {_not_finite(chunk[at])}"
                self._complain(is_bad, first + np.arange(len(chunk)))
                first += len(chunk)

    def _kept(self) -> Episodes:
        starts, ends = np.concatenate(self._starts), np.concatenate(self._ends)
        totals = np.zeros((2, len(starts)))
        for first, sums in self._sums:
            totals[:, first : first + sums.shape[1]] += sums
        success = terminated = ends[:, 1].astype(bool)
        if SUCCESS in self._columns:
            success = np.concatenate(list(self._columns[SUCCESS].stream(CHUNK_ROWS))).astype(bool)
        number = np.setdiff1d(np.arange(len(starts)), np.concatenate([*self._bad, np.zeros(0, int)]))
        if not len(number):
            raise bad_file(self._path, f"every episode has a bad row; the first: {self._first_complaint}")
        lengths, totals = ends[:, 0] + 1 - starts, totals.astype(np.float32)
        return Episodes(number, *(part[number] for part in (starts, lengths, *totals, terminated, success)))

    def _report_dropped(self) -> dict[str, int]:
        if not self._num_bad_rows:
            return {"bad_rows": 0, "episodes": 0}
        dropped = self._num_episodes - len(self.episodes.number)
        left_out = f"{self._num_bad_rows:,} bad rows: left out {dropped:,} of {self._num_episodes:,} episodes"
        to_stderr(f"note: dataset {self._path}: {left_out}; the first: {self._first_complaint}")
        return {"bad_rows": self._num_bad_rows, "episodes": dropped}


Wrong = tuple[np.ndarray, Callable[[int], str]]  # Which rows, and what is wrong in one.


def _bad_choices(layout: Layout, action: np.ndarray) -> Wrong:
    last = layout.num_actions - 1
    return (action < 0) | (action > last), lambda at: f"action is {action[at]}, {layout.task} has 0 to {last}"


def _bad_controls(layout: Layout, action: np.ndarray) -> Wrong | None:
    """None where actions are no vectors."""
    if layout.controls is None:
        return None
    low, high = layout.controls.low, layout.controls.high
    with np.errstate(invalid="ignore", over="ignore"):
        is_bad = ~(np.abs(layout.controls.ours(action.astype(float))) <= MOST_BEYOND)

    def told(at: int) -> str:
        first = int(np.argmax(is_bad[at]))
        return f"action {first} is {action[at, first]:g}, {layout.task} has {low[first]:g} to {high[first]:g}"

    return is_bad.any(-1), told


def _not_finite(values: np.ndarray | np.floating) -> np.floating:
    values = np.atleast_1d(values)
    return values[~np.isfinite(values)][0]
