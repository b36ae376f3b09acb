"""Labels that stand at the line they name, moved apart where lines are close."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.text import Annotation
from numpy.typing import ArrayLike

from asap.base.numbers import number
from asap.show.figures.palette import INK, skill_colour

FONT_SIZE = 9


class Label(NamedTuple):
    at: float  # Where along the edge, in data coordinates.
    text: str
    colour: str  # Of the line it belongs to; the words themselves stay dark, or a yellow line's could not be read.


def label_right(axes: Axes, labels: Sequence[Label], gap: float) -> None:
    """Write each label right of the axes at its height; `gap` is the least distance as a share of the axes' height."""
    low, high = axes.get_ylim()
    heights = [(label.at - low) / (high - low) for label in labels]
    for label, height, place in zip(labels, heights, spread(heights, gap)):
        text = _write(axes, label, at=(1.0, height), place=(1.05, place), anchor=(0.0, 0.5))
        text.set(ha="left", va="center")


def label_top(axes: Axes, labels: Sequence[Label], gap: float) -> None:
    """The same above the axes; `gap` is a share of the axes' width."""
    low, high = axes.get_xlim()
    columns = [(label.at - low) / (high - low) for label in labels]
    for label, column, place in zip(labels, columns, spread(columns, gap)):
        text = _write(axes, label, at=(column, 1.0), place=(place, 1.02), anchor=(0.5, 0.0))
        text.set(ha="center", va="bottom")


def _write(
    axes: Axes, label: Label, at: tuple[float, float], place: tuple[float, float], anchor: tuple[float, float]
) -> Annotation:
    """Words at `place` with a line from there to `at`, both as shares of the axes; `anchor` is a share of the words."""
    line = {"arrowstyle": "-", "color": label.colour, "linewidth": 1.2, "shrinkA": 1, "shrinkB": 0, "relpos": anchor}
    return axes.annotate(
        label.text,
        xy=at,
        xytext=place,
        xycoords="axes fraction",
        textcoords="axes fraction",
        color=INK,
        fontsize=FONT_SIZE,
        annotation_clip=False,
        arrowprops=line,
    )


COARSE = 6  # Pixels between the places that are tried for a tag.
ROOM, HALF = 2.0, 4  # So many of these places must be free around it; half of its width.


def tag_skills(
    axes: Axes, x: Float[np.ndarray, "X"], y: Float[np.ndarray, "Y"], rulers: Int[np.ndarray, "Y X"]
) -> None:
    """Name each skill where its region is widest, if there is room; the frame has its colour."""
    rulers = rulers[COARSE // 2 :: COARSE, COARSE // 2 :: COARSE]
    for skill in np.unique(rulers).tolist():
        (row, column), room = _widest(rulers == skill)
        if room < ROOM:
            continue
        column = min(max(column, HALF), rulers.shape[1] - 1 - HALF)  # It stays within the frame.
        place = x[COARSE // 2 + COARSE * column], y[COARSE // 2 + COARSE * row]
        frame = {"boxstyle": "round,pad=0.25", "facecolor": "white", "edgecolor": skill_colour(skill), "linewidth": 2.0}
        style = {"fontsize": FONT_SIZE, "color": INK, "bbox": frame, "zorder": 5}
        axes.text(*place, f"skill {skill}", ha="center", va="center", **style)


def _widest(mask: Bool[np.ndarray, "R C"]) -> tuple[tuple[int, int], float]:
    """The place farthest from all that is outside, and how far that is."""
    inside, outside = np.argwhere(mask), np.argwhere(~np.pad(mask, 1)) - 1
    distances = np.sqrt(np.square(inside[:, None] - outside).sum(-1).min(1))
    best = int(distances.argmax())
    return tuple(inside[best].tolist()), float(distances[best])


def spread(heights: ArrayLike, gap: float) -> np.ndarray:
    """Heights in [0, 1] moved apart to at least `gap`, as long as there is room, in their order."""
    order = np.argsort(heights, kind="stable")
    gap = min(gap, 1 / max(len(order) - 1, 1))
    places = np.asarray(heights, float)[order]
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + gap)
    ceiling = 1.0
    for i in reversed(range(len(places))):
        places[i] = min(places[i], ceiling)
        ceiling = places[i] - gap
    result = np.empty_like(places)
    result[order] = places
    return result


def on_scale(axis: Axis, labels: Sequence[Label]) -> list[Label]:
    """The labels moved to where a linear axis with the same limits would have them: labels are placed linearly."""
    scale = axis.get_transform().transform
    low, high = axis.get_view_interval()
    first, last = scale([low, high])
    shares = [(scale([label.at])[0] - first) / (last - first) for label in labels]
    return [label._replace(at=low + share * (high - low)) for label, share in zip(labels, shares)]


MOST_OTHERS = 4


def others_in_words(names: Sequence[str], observations: np.ndarray, drawn: tuple[int, int]) -> str:
    """A second line of a caption: where the inputs without an axis are. They go with the axes, around their means."""
    means = observations.mean(0, dtype=float)
    others = [f"{name} {number(means[j])}" for j, name in enumerate(names) if j not in drawn]
    shown = [*others[:MOST_OTHERS], *([f"{len(others) - MOST_OTHERS} more"] if len(others) > MOST_OTHERS else [])]
    return f"\nother inputs as is usual there; their means: {', '.join(shown)}" if others else ""
