"""A strip plot: one number of every seed as a point, a row per method."""

from collections.abc import Mapping, Sequence
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from asap.base.errors import UserError
from asap.base.numbers import number
from asap.base.stats import bootstrap_interval, iqm, median_with_failures
from asap.show.figures.labels import Label, label_top
from asap.show.figures.palette import GLOW, INK, MUTED, method_colour

WIDTH, ROW = 8.0, 0.6  # Inches.
JITTER, TICK = 0.16, 0.26  # In rows, to both sides.


def strip_plot(
    groups: Mapping[str, Sequence[float | None]],
    xlabel: str,
    title: str = "",
    log: bool = False,
    marks: Mapping[str, float] | None = None,
    means: bool = False,
) -> Figure:
    """A row per group, from the top. None is a seed that failed: it is counted at the right, and in the median it is
    worse than every number, so a group of which half failed has no median. `marks` are vertical lines with a name.
    With `means`, the thick mark is the interquartile mean with its interval, as tables of results have it.
    """
    if not groups:
        raise UserError("groups", "there is nothing to show", cure="give the numbers of at least one method")
    marks, numbers = marks or {}, [value for values in groups.values() for value in values]
    figure = Figure(figsize=(WIDTH, 1.25 + ROW * len(groups) + (0.4 if marks else 0)), layout="constrained")
    axes = figure.subplots()
    if log:
        lowest = min((value for value in numbers if value is not None), default=1)
        if lowest <= 0:
            raise UserError("log", "a logarithm needs numbers above 0", lowest, "use log=False")
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for row, values in enumerate(groups.values()):
        _draw_row(axes, row, values, method_colour(row), means)
    axes.set(ylim=(len(groups) - 0.45, -0.6), xlabel=xlabel)
    axes.set_yticks(range(len(groups)), [fill(name, 26) for name in groups])
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.10g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    caption = "dots: one per seed; thick: median" + (", in which a failed seed is the worst" if None in numbers else "")
    if means:
        caption = "dots: one per seed; thick: interquartile mean; line: its 95 % bootstrap interval"
    axes.set_title(caption, loc="left", fontsize=9, color=MUTED, pad=32 if marks else 6)
    for value in marks.values():
        axes.axvline(value, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    figure.draw_without_rendering()  # Only the layout knows how wide the axes are, between the names and the failures.
    label_top(axes, [Label(value, fill(f"{name}: {number(value)}", 16), MUTED) for name, value in marks.items()])
    return figure


def _draw_row(axes: Axes, row: int, values: Sequence[float | None], colour: str, means: bool) -> None:
    known = [float(value) for value in values if value is not None]
    # In [-1, 1], always the same: multiples of the golden ratio, of which neighbours lie far apart.
    jitter = 2 * (np.arange(len(known)) * 0.618034 % 1) - 1
    axes.scatter(known, row + JITTER * jitter, s=22, color=colour, alpha=0.6, linewidths=0, zorder=3)
    middle = iqm(known) if means else median_with_failures(values)
    if means and len(known) > 1:
        axes.plot(bootstrap_interval(known), [row, row], color=INK, linewidth=1.2, zorder=4)
    if middle is not None:
        axes.plot([middle] * 2, [row - TICK, row + TICK], color=INK, linewidth=3, solid_capstyle="butt", zorder=4)
        style = {"fontsize": 9, "fontweight": "bold", "color": INK, "path_effects": GLOW, "zorder": 5}
        axes.text(middle, row - TICK - 0.03, number(middle), ha="center", va="bottom", **style)
    if len(known) < len(values):
        words = f"{len(values) - len(known)} of {len(values)} failed"
        axes.text(1.02, row, words, transform=axes.get_yaxis_transform(), va="center", fontsize=9, color=INK)
