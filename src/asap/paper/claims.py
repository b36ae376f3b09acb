"""What an experiment comes to: claims with their numbers, and pictures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from asap.base import stats
from asap.base.files import saving
from asap.paper.laboratory import TrainedRun
from asap.show.figures.curves import compare_curves
from asap.show.figures.policy_map import partition_gallery

OF_SEEDS = "Thin: seeds. Thick: interquartile mean with its 95 % interval."


@dataclass(frozen=True)
class Claim:
    """One row of the table: what is claimed, what the paper says of it, what we measured, and whether it holds."""

    claim: str
    paper: str
    ours: str
    ci: tuple[float, float] | None  # 95 % interval of the number that `ours` begins with, where it is one.
    passed: bool
    note: str = ""  # Our best explanation, above all where it did not pass.
    seeds: int | None = None  # None: those of the experiment.

    def as_dict(self) -> dict:
        ci = None if self.ci is None else [round(limit, 4) for limit in self.ci]
        row = {"claim": self.claim, "paper": self.paper, "ours": self.ours, "ci": ci, "seeds": self.seeds}
        return {**row, "pass": bool(self.passed), "note": self.note}

    @classmethod
    def of_dict(cls, row: Mapping[str, Any]) -> "Claim":
        parts = {("passed" if name == "pass" else name): value for name, value in row.items()}
        return cls(**{**parts, "ci": None if parts["ci"] is None else tuple(parts["ci"])})


@dataclass(frozen=True)
class Picture:
    """A drawing, kept as PNG."""

    figure: Figure
    caption: str
    ending = "png"

    def save(self, path: Path) -> None:
        with saving(path, "picture") as file:
            self.figure.savefig(file, format=self.ending, dpi=100)


@dataclass(frozen=True)
class Film:
    """A game that moves, kept as GIF; `save` writes it to a path."""

    save: Callable[[Path], None]
    caption: str
    ending = "gif"


@dataclass(frozen=True)
class Finding:
    """`pictures` by the name of their file, without its ending; `page` is more in Markdown, on a page of its own.
    `seconds` is what it took earlier, where it was kept."""

    claims: list[Claim]
    pictures: dict[str, Picture | Film] = field(default_factory=dict)
    page: str = ""
    seconds: float = 0.0


def curves_of(records: Mapping[str, TrainedRun], title: str) -> Picture:
    """Return while learning, of runs on one task."""
    reference = next(iter(records.values())).tasks[0].reference
    return Picture(compare_curves({name: run.curves() for name, run in records.items()}, reference, title), OF_SEEDS)


def maps_of(panels: Sequence[tuple[TrainedRun, int, str]], title: str, caption: str, columns: int = 5) -> Picture:
    """What seeds of runs learned on their first tasks, each under a title."""
    policies, tasks = [run.policy(s) for run, s, _ in panels], [run.tasks[0] for run, _, _ in panels]
    return Picture(partition_gallery(policies, tasks, [words for _, _, words in panels], title, columns), caption)


def maps_of_seeds(record: TrainedRun, titles: Sequence[str], title: str, caption: str) -> Picture:
    """What every seed of a run learned."""
    first = record.config.run.seed
    panels = [(record, s, f"seed {first + s}: {words}") for s, words in enumerate(titles)]
    return maps_of(panels, title, caption)


def interval(values: ArrayLike) -> tuple[float, float]:
    """95 % bootstrap interval of the IQM over seeds."""
    return stats.bootstrap_interval(np.asarray(values, float))


def median_interval(values: list[float | None]) -> tuple[float, float] | None:
    """95 % bootstrap interval of the median over seeds; None where a seed failed: its number is unknown."""
    if None in values:
        return None
    return stats.bootstrap_interval(np.asarray(values, float), statistic=np.median)
