"""One number per seed, seed by seed: a row of dots for each method."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from asap.base.errors import UserError
from asap.base.numbers import number
from asap.base.stats import median_with_failures
from asap.show.labels import Label, label_top
from asap.show.palette import GLOW, INK, MUTED, method_colour
from asap.show.scales import on_scale

WIDTH, ROW = 8.0, 0.6  # Inches.
JITTER, TICK = 0.16, 0.26  # In rows, to both sides.


def seed_dots(
    groups: Mapping[str, Sequence[float | None]],
    xlabel: str,
    title: str = "",
    log: bool = False,
    marks: Mapping[str, float] | None = None,
) -> Figure:
    """A row per group, from the top. None is a seed that failed: it is counted at the right, and in the median it is
    worse than every number, so a group of which half failed has no median. `marks` are vertical lines with a name.
    """
    if not groups:
        raise UserError("groups", "there is nothing to show", cure="give the numbers of at least one method")
    marks = marks or {}
    figure = Figure(figsize=(WIDTH, 1.25 + ROW * len(groups) + (0.4 if marks else 0)), layout="constrained")
    axes = figure.subplots()
    if log:
        _use_logarithms(axes, groups)
    for row, values in enumerate(groups.values()):
        _draw_row(axes, row, values, method_colour(row))
    axes.set(ylim=(len(groups) - 0.45, -0.6), xlabel=xlabel)
    axes.set_yticks(range(len(groups)), [fill(name, 26) for name in groups])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    axes.set_title(_caption(groups), loc="left", fontsize=9, color=MUTED, pad=32 if marks else 6)
    _draw_marks(axes, marks)
    return figure


def _use_logarithms(axes: Axes, groups: Mapping[str, Sequence[float | None]]) -> None:
    lowest = min((value for values in groups.values() for value in values if value is not None), default=1)
    if lowest <= 0:
        raise UserError("log", "a logarithm needs numbers above 0", lowest, "use log=False")
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def _draw_row(axes: Axes, row: int, values: Sequence[float | None], colour: str) -> None:
    known = [float(value) for value in values if value is not None]
    heights = row + JITTER * _jitter(len(known))
    axes.scatter(known, heights, s=22, color=colour, alpha=0.6, linewidths=0, zorder=3)
    median = median_with_failures(values)
    if median is not None:
        axes.plot([median] * 2, [row - TICK, row + TICK], color=INK, linewidth=3, solid_capstyle="butt", zorder=4)
        words = {"fontsize": 9, "fontweight": "bold", "color": INK, "path_effects": GLOW}
        axes.text(median, row - TICK - 0.03, number(median), ha="center", va="bottom", zorder=5, **words)
    if len(known) < len(values):
        words = f"{len(values) - len(known)} of {len(values)} failed"
        axes.text(1.02, row, words, transform=axes.get_yaxis_transform(), va="center", fontsize=9, color=INK)


def _jitter(count: int) -> np.ndarray:
    """In [-1, 1], always the same: multiples of the golden ratio, of which neighbours lie far apart."""
    return 2 * (np.arange(count) * 0.618034 % 1) - 1


def _draw_marks(axes: Axes, marks: Mapping[str, float]) -> None:
    if not marks:
        return
    for value in marks.values():
        axes.axvline(value, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    labels = [Label(value, fill(f"{name}: {number(value)}", 16), MUTED) for name, value in marks.items()]
    widest = max(len(line) for label in labels for line in label.text.split("\n"))
    # Only the layout tells how wide the axes are, between the names and the failures.
    axes.figure.draw_without_rendering()
    width = axes.get_position().width * WIDTH
    label_top(axes, on_scale(axes.xaxis, labels), gap=(0.075 * widest + 0.1) / width)


def _caption(groups: Mapping[str, Sequence[float | None]]) -> str:
    failures = any(value is None for values in groups.values() for value in values)
    return "dots: one per seed; thick: median" + (", in which a failed seed is the worst" if failures else "")
