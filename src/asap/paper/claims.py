"""What an experiment comes to: claims with their numbers, and pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from asap.base import stats
from asap.base.files import saving

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Claim:
    """One row of the table: what is claimed, what the paper says of it, what we measured, and whether it holds."""

    claim: str
    paper: str
    ours: str
    ci: tuple[float, float] | None  # 95 % interval of the number that `ours` begins with, where it is one.
    seeds: int
    passed: bool
    note: str = ""  # Our best explanation, above all where it did not pass.

    def as_dict(self) -> dict:
        ci = None if self.ci is None else [round(limit, 4) for limit in self.ci]
        row = {"claim": self.claim, "paper": self.paper, "ours": self.ours, "ci": ci, "seeds": self.seeds}
        return {**row, "pass": bool(self.passed), "note": self.note}


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
    """`pictures` by the name of their file, without its ending."""

    claims: list[Claim]
    pictures: dict[str, Picture | Film] = field(default_factory=dict)


def interval(values: ArrayLike) -> tuple[float, float]:
    """95 % bootstrap interval of the IQM over seeds."""
    low, high = stats.bootstrap_interval(np.asarray(values, float))
    return float(low), float(high)


def difference(ours: ArrayLike, theirs: ArrayLike) -> tuple[float, float]:
    """95 % bootstrap interval of the difference of the IQMs over seeds: it tells whether one is larger."""
    return stats.difference_interval(ours, theirs)


def median_interval(values: list[float | None]) -> tuple[float, float] | None:
    """95 % bootstrap interval of the median over seeds; None where a seed failed: its number is unknown."""
    if any(value is None for value in values):
        return None
    low, high = stats.bootstrap_interval(np.asarray(values, float), statistic=np.median)
    return float(low), float(high)
