"""The parts of a map: the areas of the skills in their colours, the planes between them, and what each skill does."""

from collections.abc import Sequence
from textwrap import fill
from typing import NamedTuple

import matplotlib.patheffects
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from scipy import ndimage

from asap.base.spec import Task
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, mean_actions
from asap.show.figures.labels import Label, inches, label_right, label_top
from asap.show.figures.palette import GLOW, INK, skill_colour

SHORTEST_NAMED = 0.1  # Share of the map, in width or height, that a line with a name has.
ROOM = 0.045  # Share of the map's height: as much room there is on all sides of a skill's name.
OFTEN = 0.25  # Probability of the actions that a skill is named by.
SOLID = {"dash_offset": 0, "dash_list": None}


class Frame(NamedTuple):
    """The pixels of a map. Where `bottom` is larger than `top`, the y axis points down."""

    left: float
    right: float
    bottom: float
    top: float
    columns: int
    rows: int

    @property
    def x(self) -> np.ndarray:
        """Centres of the pixels from left to right. Centres, because a feature may vanish exactly on the frame."""
        return self.left + (self.right - self.left) * (np.arange(self.columns) + 0.5) / self.columns

    @property
    def y(self) -> np.ndarray:
        """From below."""
        return self.bottom + (self.top - self.bottom) * (np.arange(self.rows) + 0.5) / self.rows

    @property
    def places(self) -> Float[np.ndarray, "N 2"]:
        """The centres of all pixels, row by row from below."""
        return np.stack(np.meshgrid(self.x, self.y), -1).reshape(-1, 2)

    @property
    def height(self) -> float:
        """In widths."""
        return abs(self.top - self.bottom) / (self.right - self.left)

    def image(self, values: np.ndarray) -> np.ndarray:
        """From one value for each pixel to rows and columns."""
        return values.reshape(self.rows, self.columns, *values.shape[1:])


def paint(axes: Axes, frame: Frame, colours: Float[np.ndarray, "N 3"]) -> None:
    edges = (frame.left, frame.right, frame.bottom, frame.top)
    axes.imshow(frame.image(colours), origin="lower", extent=edges, aspect="auto", interpolation="nearest", zorder=0)


def draw_planes(
    axes: Axes, frame: Frame, margins: Float[np.ndarray, "N K"], names: Sequence[str] = (), thickness: float = 1.0
) -> None:
    """The line where both sides of a plane are equally probable, with its name, if any, where it leaves the map."""
    # White between the dashes, too: readable on any colour. Under the walls, with which a good partition may coincide.
    white = matplotlib.patheffects.Stroke(linewidth=3.4 * thickness, foreground="white", dashes=SOLID)
    style = {"path_effects": [white, matplotlib.patheffects.Normal()], "linewidth": 1.8 * thickness, "zorder": 3}
    above, right = [], []
    for k, margin in enumerate(margins.T):
        if (margin > 0).all() or (margin <= 0).all():
            continue
        lines = axes.contour(frame.x, frame.y, frame.image(margin), levels=[0.0], colors=[INK])
        lines.set(linestyle="dashed", **style)
        for line in lines.allsegs[0] if names else ():
            shares = (line - (frame.left, frame.bottom)) / (frame.right - frame.left, frame.top - frame.bottom)
            (rightmost, highest), (width, height) = shares.argmax(0), np.ptp(shares, axis=0)
            if max(width, height) < SHORTEST_NAMED:
                continue
            if shares[highest, 1] > 1 - 1.5 / frame.rows:
                above.append(Label(line[highest, 0], names[k], INK))
            elif shares[rightmost, 0] > 1 - 1.5 / frame.columns:
                right.append(Label(line[rightmost, 1], names[k], INK))
            else:
                middle = line[len(line) // 2]
                axes.text(*middle, names[k], ha="center", va="center", fontsize=9, path_effects=GLOW, zorder=8)
    label_top(axes, above)
    label_right(axes, right)


def name_skills(axes: Axes, policy: ASAPPolicy, task: Task, regions: Regions, frame: Frame) -> None:
    """What a skill does most, in the middle of each of its areas where there is room; the box has its colour."""
    rulers = frame.image(regions.rulers)
    for skill in np.unique(rulers).tolist():
        words = _name(policy, task, regions, skill)
        half = int(frame.columns * (0.04 * max(map(len, words.split("\n"))) + 0.1) / inches(axes)[0])
        depth = ndimage.distance_transform_edt(np.pad(rulers == skill, 1))[1:-1, 1:-1]
        areas = np.zeros(depth.shape, np.int32)  # What hangs together by a neck counts as two.
        ndimage.label(depth >= 0.75 * ROOM * frame.rows, output=areas)
        box = {"boxstyle": "round,pad=0.25", "facecolor": (1, 1, 1, 0.85), "edgecolor": skill_colour(skill)}
        style = {"fontsize": 10, "fontweight": "bold", "color": INK, "bbox": box | {"linewidth": 2.0}, "zorder": 8}
        for row, column in ndimage.maximum_position(depth, areas, range(1, areas.max() + 1)):
            if depth[row, column] < ROOM * frame.rows:
                continue
            column = min(max(column, half), frame.columns - 1 - half)  # It stays within the frame.
            axes.text(frame.x[column], frame.y[row], words, ha="center", va="center", **style)


def _name(policy: ASAPPolicy, task: Task, regions: Regions, skill: int) -> str:
    """Of numbers to set, the colours tell."""
    if task.spec.continuous:
        return f"skill {skill}"
    chances = mean_actions(policy, regions, skill, task.descriptor)
    often = [task.spec.action_names[action] for action in np.argsort(-chances) if chances[action] >= OFTEN]
    return " or\n".join(fill(name, 20) for name in often) or f"skill {skill}"
