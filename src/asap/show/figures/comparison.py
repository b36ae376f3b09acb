"""Several methods in one picture: the learning curves of each, over its seeds, and the references."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, StrMethodFormatter

from asap.base.errors import UserError
from asap.base.numbers import number
from asap.base.spec import Reference
from asap.base.stats import SeedCurve, median_with_failures
from asap.show.figures.curves import Summary, at_the_start, make_room, near_the_top, summarise, worth_enlarging
from asap.show.figures.labels import Label, label_right, label_top, on_scale
from asap.show.figures.palette import GLOW, INK, MUTED, blend, method_colour, method_line_style

WIDTH, PANEL, LABEL = 8.6, 2.4, 0.33  # Inches; a label may have two lines.
LONGEST_LINE = 26  # Characters of a group's name, before it is broken.


class Group(NamedTuple):
    name: str
    curves: list[SeedCurve]
    summary: Summary
    colour: str
    line_style: str

    @property
    def label(self) -> Label:
        return Label(float(self.summary.mean[-1]), fill(self.name, LONGEST_LINE), self.colour)


def compare_curves(
    groups: Mapping[str, Sequence[SeedCurve]],
    reference: Reference | None = None,
    title: str = "",
    xlabel: str = "episodes",
    ylabel: str = "return",
    symlog: bool = False,
) -> Figure:
    """A line per method, named at its end. With a reference, what lies near it is enlarged in a panel of its own.

    `symlog` is for values over orders of magnitude: one panel, logarithmic on both sides of zero.
    """
    drawn = [_group(i, name, curves) for i, (name, curves) in enumerate(groups.items())]
    if not drawn:
        raise UserError("groups", "there is nothing to compare", cure="give the curves of at least one method")
    every_curve = [curve for group in drawn for curve in group.curves]
    enlarged = None if symlog else worth_enlarging(every_curve, reference)
    panels = _paper([PANEL, PANEL] if enlarged else [1.5 * PANEL], num_labels=len(drawn) + 3 * (reference is not None))
    for axes in panels:
        _draw_groups(axes, drawn)
    if symlog:
        panels[0].set_yscale("symlog", linthresh=_smallest_decade(every_curve))
    whole = panels[-1]
    if reference is not None:
        make_room(whole, reference)
    if enlarged:
        inside = [group for group in drawn if enlarged[0] <= group.summary.mean[-1] <= enlarged[1]]
        panels[0].set(ylim=enlarged, ylabel=f"{ylabel} (enlarged)")
        _label(panels[0], inside, near_the_top(reference))
        whole.axhspan(*enlarged, color=MUTED, alpha=0.15, linewidth=0, zorder=0)
        note = Label(sum(enlarged) / 2, "enlarged above", MUTED)
        _label(whole, [group for group in drawn if group not in inside], [at_the_start(reference)], [note])
    else:
        _label(whole, drawn, [] if reference is None else [at_the_start(reference), *near_the_top(reference)])
    whole.set(xlabel=xlabel, ylabel=ylabel)
    whole.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    whole.figure.align_ylabels()
    panels[0].set_title(_caption(drawn), loc="left", fontsize=9, color=MUTED)
    whole.figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    return whole.figure


def _group(index: int, name: str, curves: Sequence[SeedCurve]) -> Group:
    curves = [SeedCurve(*curve) for curve in curves]
    return Group(name, curves, summarise(curves), method_colour(index), method_line_style(index))


def _paper(heights: list[float], num_labels: int) -> list[Axes]:
    """The first panel carries most labels and is high enough for them."""
    heights = [max(heights[0], LABEL * num_labels), *heights[1:]]
    figure = Figure(figsize=(WIDTH, sum(heights) + 1.0), layout="constrained")
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw={"height_ratios": heights})
    return list(panels[:, 0])


def _draw_groups(axes: Axes, groups: Sequence[Group]) -> None:
    end = max(group.summary.episodes[-1] for group in groups)
    for group in groups:
        episodes, mean, low, high = group.summary
        for curve in group.curves:
            axes.plot(
                curve.episodes,
                curve.returns,
                color=group.colour,
                linewidth=0.5,
                alpha=0.5 / (1 + len(groups)),
                zorder=2,
            )
        axes.fill_between(episodes, low, high, color=group.colour, alpha=0.2, linewidth=0, zorder=3)
        axes.plot(episodes, mean, color=group.colour, linewidth=2.2, linestyle=group.line_style, zorder=4)
        # A method that stopped early is led on to its label.
        axes.plot([episodes[-1], end], [mean[-1]] * 2, color=group.colour, linewidth=0.8, alpha=0.7, zorder=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0)


def _label(axes: Axes, groups: Sequence[Group], references: Sequence[Label], notes: Sequence[Label] = ()) -> None:
    """All labels of a panel in one go, so that none overlaps another."""
    for reference in references:
        axes.axhline(reference.at, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    height = axes.get_position().height * axes.figure.get_figheight()
    own = [group.label for group in groups]
    label_right(axes, on_scale(axes.yaxis, [*own, *references, *notes]), gap=LABEL / height)
    for group, text in zip(groups, axes.texts):
        text.set(color=blend(group.colour, INK, 0.3), fontweight="bold")
        text.arrow_patch.set(linestyle=group.line_style, linewidth=2.0)


def _smallest_decade(curves: Sequence[SeedCurve]) -> float:
    """Below it, the scale is linear: the power of ten that nine of ten values exceed."""
    sizes = np.abs(np.concatenate([np.asarray(curve.returns, float) for curve in curves]))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return 10.0 ** np.floor(np.log10(np.quantile(sizes, 0.1))) if len(sizes) else 1.0


def _caption(groups: Sequence[Group]) -> str:
    counts = sorted({len(group.curves) for group in groups})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if counts == [1]:
        return "one seed each"
    return f"thin: each of {seeds} seeds; thick: interquartile mean; shaded: its 95 % bootstrap interval"


DOTS_WIDTH, ROW = 8.0, 0.6  # Inches.
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
    figure = Figure(figsize=(DOTS_WIDTH, 1.25 + ROW * len(groups) + (0.4 if marks else 0)), layout="constrained")
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
    axes.set_title(_dots_caption(groups), loc="left", fontsize=9, color=MUTED, pad=32 if marks else 6)
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
    width = axes.get_position().width * DOTS_WIDTH
    label_top(axes, on_scale(axes.xaxis, labels), gap=(0.075 * widest + 0.1) / width)


def _dots_caption(groups: Mapping[str, Sequence[float | None]]) -> str:
    failures = any(value is None for values in groups.values() for value in values)
    return "dots: one per seed; thick: median" + (", in which a failed seed is the worst" if failures else "")
