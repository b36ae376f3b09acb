"""Labels that stand at the line they name, moved apart where lines are close."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.text import Annotation
from numpy.typing import ArrayLike

from asap.show.figures.palette import INK


class Label(NamedTuple):
    at: float  # Where along the edge, in data coordinates.
    text: str
    colour: str  # Of the line it belongs to; the words themselves stay dark, or a yellow line's could not be read.


def inches(axes: Axes) -> tuple[float, float]:
    """Width and height as they are now; a layout may still change them a little."""
    place = axes.get_position()
    return place.width * axes.figure.get_figwidth(), place.height * axes.figure.get_figheight()


def label_right(axes: Axes, labels: Sequence[Label]) -> None:
    """Write each label right of the axes at its height, as far as there is room for all."""
    shares = _shares(axes.yaxis, labels)
    lines = max((1 + label.text.count("\n") for label in labels), default=1)
    for label, share, place in zip(labels, shares, spread(shares, (0.08 + 0.2 * lines) / inches(axes)[1])):
        _write(axes, label, (1.0, share), (1.05, place), (0.0, 0.5)).set(ha="left", va="center")


def label_top(axes: Axes, labels: Sequence[Label]) -> None:
    """The same above the axes."""
    shares = _shares(axes.xaxis, labels)
    widest = max((len(line) for label in labels for line in label.text.split("\n")), default=1)
    for label, share, place in zip(labels, shares, spread(shares, (0.1 + 0.08 * widest) / inches(axes)[0])):
        _write(axes, label, (share, 1.0), (place, 1.02), (0.5, 0.0)).set(ha="center", va="bottom")


def _shares(axis: Axis, labels: Sequence[Label]) -> list[float]:
    """Where along the axis they belong, which may be logarithmic."""
    scale = axis.get_transform().transform
    first, last = scale(np.asarray(axis.axes.get_xlim() if axis.axis_name == "x" else axis.axes.get_ylim()))
    return [float((scale(np.asarray([label.at]))[0] - first) / (last - first)) for label in labels]


def _write(
    axes: Axes, label: Label, at: tuple[float, float], place: tuple[float, float], anchor: tuple[float, float]
) -> Annotation:
    """Words at `place` with a line from there to `at`, both as shares of the axes; `anchor` is a share of the words."""
    line = {"arrowstyle": "-", "color": label.colour, "linewidth": 1.2, "shrinkA": 1, "shrinkB": 0, "relpos": anchor}
    shares = {"xycoords": "axes fraction", "textcoords": "axes fraction", "annotation_clip": False}
    return axes.annotate(label.text, at, place, color=INK, fontsize=9, arrowprops=line, **shares)


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
