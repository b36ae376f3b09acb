"""The ground of a map: which states its pixels stand for, and what is drawn on it for the eye."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from asap.base.types import Task
from asap.envs.catalog import NamedTask
from asap.envs.core import Env
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions
from asap.show.palette import GLOW, INK

# What is observed in the state that a place stands for.
Observe = Callable[[Env, Task, Float[Array, ""], Float[Array, ""]], Float[Array, "O"]]


class Ground(NamedTuple):
    """A place seen from above, in metres. Where `bottom` is larger than `top`, the y axis points down."""

    left: float
    right: float
    bottom: float
    top: float
    columns: int  # Pixels.
    rows: int
    inches: float  # Width of a map by itself.
    ticks: tuple[tuple[float, ...], tuple[float, ...]]  # Few enough for a small map.
    legend: str  # What the map shows in full, and what a small one shows.
    small_legend: str
    observe: Observe
    draw: Callable[[Axes, Task], None]  # Sets the limits of the axes, too.
    draw_skills: Callable[
        [Axes, ASAPPolicy, NamedTask, Regions, ArrayLike], None
    ]  # What each skill does where it rules.

    @property
    def x(self) -> np.ndarray:
        """Centres of the pixels from left to right. Centres, because a feature may vanish exactly on the frame."""
        return self.left + (self.right - self.left) * (np.arange(self.columns) + 0.5) / self.columns

    @property
    def y(self) -> np.ndarray:
        """From below."""
        return self.bottom + (self.top - self.bottom) * (np.arange(self.rows) + 0.5) / self.rows

    @property
    def height(self) -> float:
        """In widths."""
        return abs(self.top - self.bottom) / (self.right - self.left)


def draw_start_area(axes: Axes, low: ArrayLike, high: ArrayLike, inset: float, words: str) -> None:
    """Drawn a little inside: its edges usually lie on a wall and on the frame."""
    corner = np.asarray(low) + inset
    width, height = np.asarray(high) - inset - corner
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=INK, linewidth=1.0, linestyle=":", zorder=5))
    lowest = corner + (0, height if axes.yaxis_inverted() else 0)
    style = {"fontsize": 9, "color": INK, "path_effects": GLOW, "zorder": 8}
    axes.annotate(words, lowest, xytext=(4, 4), textcoords="offset points", **style)
