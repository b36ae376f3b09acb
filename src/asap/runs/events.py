"""What a run tells while it goes on: a report to callbacks, a line in the event log, and the learning curve of them
all."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from asap.base.errors import RunError


@runtime_checkable  # For the tests, which check types.
class Record(Protocol):
    """Where a training is recorded: a run directory, or this process alone.

    Of the checkpoints that are saved the newest is wanted, and the best one.
    """

    def append(self, event: Mapping[str, Any]) -> None: ...
    def events(self) -> Iterator[dict[str, Any]]: ...
    def save(self, step: int, arrays: Mapping[str, Any], meta: dict[str, Any]) -> Any: ...
    def save_best(self, step: int, arrays: Mapping[str, Any], meta: dict[str, Any]) -> Any: ...
    def best_score(self) -> float: ...  # -infinity before there is a best checkpoint.
    @property
    def where(self) -> str: ...  # For messages: what can be resumed.


@dataclass
class InMemory:
    """Events in this process; nothing is written to disk."""

    recorded: list[dict[str, Any]] = field(default_factory=list)
    score: float = -np.inf
    where: str = "by another call of learn"

    def append(self, event: Mapping[str, Any]) -> None:
        self.recorded.append(dict(event))

    def events(self) -> Iterator[dict[str, Any]]:
        return iter(self.recorded)

    def save(self, step: int, arrays: Mapping[str, Any], meta: dict[str, Any]) -> None:
        """The model holds what was learned."""

    def save_best(self, step: int, arrays: Mapping[str, Any], meta: dict[str, Any]) -> None:
        self.score = meta["score"]

    def best_score(self) -> float:
        return self.score


class Report(NamedTuple):
    """What callbacks get between two chunks of updates."""

    update: int
    episodes: np.ndarray  # (seeds,): completed so far.
    env_steps: np.ndarray  # (seeds,)
    returns: np.ndarray  # (seeds, tasks): mean of the last evaluation, or of the last episodes of training.
    lengths: np.ndarray  # (seeds,): mean steps of these episodes.
    event: dict[str, Any]  # As it is written to events.jsonl.
    policies: Any  # Stacked over seeds.


Callback = Callable[[Report], bool | None]  # False stops the run: it is saved and can be resumed.


@dataclass(frozen=True)
class Curve:
    """One entry per evaluation, the first before any update: axes (entries, seeds), then tasks or skills."""

    episodes: np.ndarray
    returns: np.ndarray
    success: np.ndarray
    usage: np.ndarray
    active: np.ndarray
    seconds: np.ndarray  # (entries,): of training and evaluation since the entry before, without compilation.

    @classmethod
    def read(cls, record: Record) -> "Curve":
        """From the event log. A resumed run logs some updates again: they are the same, and count once."""
        rows = [event for event in record.events() if event.get("kind") == "update"]
        try:
            by_update = {int(row["update"]): row for row in rows}
            names = [field.name for field in dataclasses.fields(cls)]
            # Runs of earlier releases have no seconds.
            columns = [[by_update[update].get(name, 0.0) for update in sorted(by_update)] for name in names]
            curve = cls(*(np.asarray(column, float) for column in columns))
            fits = not rows or curve._fits()
        except (LookupError, TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            what = "events.jsonl has updates that are no learning curve"
            raise RunError("run", what, record.where, "restore it from a copy, or delete these lines")
        return curve

    def _fits(self) -> bool:
        """Whether the columns belong together: a file may hold anything."""
        episodes, returns, usage = self.episodes, self.returns, self.usage
        have_axes = (episodes.ndim, returns.ndim, usage.ndim) == (2, 3, 3)
        share_seeds = episodes.shape == self.active.shape == returns.shape[:2] == usage.shape[:2]
        share_entries = (self.success.shape, self.seconds.shape) == (returns.shape, episodes.shape[:1])
        return have_axes and share_seeds and share_entries and bool((np.abs(episodes) < 2**53).all())

    def first_near_optimal(self, threshold: np.ndarray) -> list[int | None]:
        """Per seed, completed episodes at the first evaluation that is near-optimal on every task.

        Evaluations after the seed has stopped do not count: how many there are depends on the other seeds.
        """
        reached = (self.returns >= threshold).all(-1) & (self.active > 0)
        return [
            int(self.episodes[np.argmax(reached[:, seed]), seed]) if reached[:, seed].any() else None
            for seed in range(self.episodes.shape[1])
        ]
