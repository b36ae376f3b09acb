"""Learning curves of one method or of several: every seed, the interquartile mean with its interval, and the references
they are read against."""

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.numbers import listed, number
from asap.base.spec import Reference
from asap.base.stats import SeedCurve, bootstrap_interval, common_grid, iqm, resample
from asap.show.figures.labels import Label, label_right
from asap.show.figures.palette import (
    CURVE,
    INK,
    MUTED,
    blend,
    method_colour,
    method_line_style,
    skill_colour,
    skill_line_style,
)

WIDTH, PANEL, LABEL = 8.6, 2.4, 0.33  # Inches; a label may have two lines.
LONGEST_LINE = 26  # Characters of a method's name, before it is broken.
MOST_TOGETHER = 6  # Methods whose lines can be told apart; of more, each has a panel.
SMALL, ACROSS = (2.9, 2.3), 4  # Inches of such a panel, and how many stand side by side.
EVER_USED = 0.01  # Share of the steps from which on a skill has a line.


class Lines(NamedTuple):
    """What returns are read against: lines with their names, and which of the returns are worth a panel of their own."""

    start: Label
    near_the_top: list[Label]
    near: float  # As good as can be hoped for, from here
    best: float  # to here.

    @classmethod
    def of(cls, reference: Reference) -> "Lines":
        start = Label(reference.misspecified, f"misspecified start: {number(reference.misspecified)}", MUTED)
        return cls(start, _near_the_top(reference), reference.near_optimal, reference.best)

    @classmethod
    def between(cls, worst: tuple[str, float], best: tuple[str, float]) -> "Lines":
        """Two returns with a name each."""
        start, top = (Label(value, f"{name}: {number(value)}", MUTED) for name, value in (worst, best))
        return cls(start, [top], worst[1] + 0.95 * (best[1] - worst[1]), best[1])

    @property
    def enlarged(self) -> tuple[float, float]:
        """As far below near-optimal as the best is above it, to a little over the best."""
        reach = self.best - self.near
        return self.near - reach, self.best + 0.12 * reach


class Method(NamedTuple):
    """The curves of its seeds; episodes, interquartile mean and its interval at common episode counts."""

    name: str  # Empty where there is only one.
    curves: list[SeedCurve]
    episodes: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    colour: str
    line_style: str

    @classmethod
    def of(cls, name: str, curves: Sequence[SeedCurve], colour: str, line_style: str) -> "Method":
        curves = [SeedCurve(*curve) for curve in curves]
        episodes = common_grid(curves)
        values = resample(curves, episodes)
        return cls(name, curves, episodes, iqm(values), *bootstrap_interval(values), colour, line_style)


def learning_curves(curves: Sequence[SeedCurve], reference: Reference | None = None, title: str = "") -> Figure:
    """Return by completed episodes, from the first; those of the search for a start, before any update, are shaded."""
    lines = None if reference is None else Lines.of(reference)
    figure = _draw([Method.of("", curves, CURVE, "-")], lines, title)
    searched = int(min(np.min(curve.episodes) for curve in map(SeedCurve._make, curves)))
    for axes in figure.axes:
        axes.set_xlim(left=0)
        if searched:
            axes.axvspan(0, searched, color=MUTED, alpha=0.15, linewidth=0, zorder=0)
    if searched:
        caption = f"{figure.axes[0].get_title('left')}\ngrey: search for a start ({searched:,} episodes)"
        figure.axes[0].set_title(caption, loc="left", fontsize=9, color=MUTED)
    return figure


def compare_curves(
    groups: Mapping[str, Sequence[SeedCurve]],
    reference: Reference | None = None,
    title: str = "",
    ylabel: str = "return",
    xlabel: str = "episodes",
    between: tuple[tuple[str, float], tuple[str, float]] | None = None,
) -> Figure:
    """A line per method, named at its end; read against the references of a task, or `between` two returns with names.

    Of many methods, each has a panel, with the first one in it to compare with.
    """
    if not groups:
        raise UserError("groups", "there is nothing to compare", cure="give the curves of at least one method")
    methods = [
        Method.of(name, curves, method_colour(i), method_line_style(i))
        for i, (name, curves) in enumerate(groups.items())
    ]
    lines = None if reference is None else Lines.of(reference)
    draw = _draw if len(methods) <= MOST_TOGETHER else _draw_apart
    return draw(methods, lines if between is None else Lines.between(*between), title, ylabel, xlabel)


def _draw(
    methods: list[Method], lines: Lines | None, title: str, ylabel: str = "return", xlabel: str = "episodes"
) -> Figure:
    """Returns climb from hundreds below zero and differ visibly only near the top, so there are two panels over the same
    episodes: all of it below, the part that matters enlarged above. Where none got that far there is only one."""
    enlarged = None if lines is None else _worth_enlarging(methods, lines)
    # The first panel carries most labels and is high enough for them.
    least = LABEL * (len(methods) + 3 * (lines is not None))
    heights = [max(PANEL if enlarged else 1.5 * PANEL, least), *([PANEL] if enlarged else [])]
    figure = Figure(figsize=(WIDTH, sum(heights) + 1.0), layout="constrained")
    ratios = {"height_ratios": heights}
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, gridspec_kw=ratios)[:, 0]
    for axes in panels:
        _draw_methods(axes, methods)
    whole = panels[-1]
    if lines is not None:
        margin, (low, high) = 0.04 * (lines.best - lines.start.at), whole.get_ylim()
        whole.set_ylim(min(low, lines.start.at - margin), max(high, lines.best + margin))
    if enlarged:
        inside = [method for method in methods if enlarged[0] <= method.mean[-1] <= enlarged[1]]
        panels[0].set(ylim=enlarged, ylabel=f"{ylabel} (enlarged)")
        _label(panels[0], inside, lines.near_the_top)
        whole.axhspan(*enlarged, color=MUTED, alpha=0.15, linewidth=0, zorder=0)
        note = Label(sum(enlarged) / 2, "enlarged above", MUTED)
        _label(whole, [method for method in methods if method not in inside], [lines.start], [note])
    else:
        _label(whole, methods, [] if lines is None else [lines.start, *lines.near_the_top])
    whole.set(xlabel=xlabel, ylabel=ylabel)
    whole.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    figure.align_ylabels()
    panels[0].set_title(_caption(methods), loc="left", fontsize=9, color=MUTED)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, parse_math=False)
    return figure


def _draw_apart(methods: list[Method], lines: Lines | None, title: str, ylabel: str, xlabel: str) -> Figure:
    """A panel for each method, with the first one behind it; all have the same axes."""
    first, others = methods[0], methods[1:]
    down = -(-len(others) // ACROSS)
    figure = Figure(figsize=(SMALL[0] * ACROSS, SMALL[1] * down + 1.0), layout="constrained")
    panels = figure.subplots(down, ACROSS, sharex=True, sharey=True, squeeze=False)
    references = [] if lines is None else [lines.start, *lines.near_the_top]
    for axes, method in zip(panels.flat, others):
        _draw_methods(axes, [first, method])
        for reference in references:
            axes.axhline(reference.at, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        axes.set_title(method.name, fontsize=10, fontweight="bold", color=blend(method.colour, INK, 0.3))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.xaxis.set_major_locator(MaxNLocator(3))
    for axes in panels.flat[len(others) :]:
        axes.set_axis_off()
    for axes in panels.flat[max(0, len(others) - ACROSS) : len(others)]:  # The lowest of each column.
        axes.xaxis.set_tick_params(labelbottom=True)
    named = ", ".join(" ".join(one.text.split()) for one in references)
    caption = f"the same line in every panel: {first.name}; {_caption(methods)}{f'; dashed: {named}' if named else ''}"
    figure.supxlabel(f"{xlabel}\n\n{fill(caption, 130)}", fontsize=9)
    figure.supylabel(ylabel, fontsize=9)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, parse_math=False)
    return figure


def _worth_enlarging(methods: Sequence[Method], lines: Lines) -> tuple[float, float] | None:
    """Where any seed got that far; of several methods, where the mean of one did: seeds alone tell no methods apart."""
    of_seeds = [curve.returns for method in methods for curve in method.curves]
    highest = max(map(np.nanmax, of_seeds if len(methods) == 1 else [method.mean for method in methods]))
    return lines.enlarged if highest > lines.enlarged[0] else None


def _draw_methods(axes: Axes, methods: Sequence[Method]) -> None:
    end = max(method.episodes[-1] for method in methods)
    for method in methods:
        colour, episodes, mean = method.colour, method.episodes, method.mean
        for curve in method.curves:
            axes.plot(*curve, color=colour, linewidth=0.5, alpha=0.6 / (1 + len(methods)), zorder=2)
        axes.fill_between(episodes, method.low, method.high, color=colour, alpha=0.2, linewidth=0, zorder=3)
        axes.plot(episodes, mean, color=colour, linewidth=2.2, linestyle=method.line_style, zorder=4)
        if episodes[-1] < end:  # A method that stopped early is led on to its label.
            axes.plot([episodes[-1], end], [mean[-1]] * 2, color=colour, linewidth=0.8, alpha=0.7, zorder=3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0)


def _label(axes: Axes, methods: Sequence[Method], references: Sequence[Label], notes: Sequence[Label] = ()) -> None:
    """All labels of a panel in one go, so that none overlaps another."""
    for reference in references:
        axes.axhline(reference.at, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    named = [method for method in methods if method.name]
    own = [Label(float(method.mean[-1]), fill(method.name, LONGEST_LINE), method.colour) for method in named]
    label_right(axes, [*own, *references, *notes])
    for method, text in zip(named, axes.texts):
        text.set(color=blend(method.colour, INK, 0.3), fontweight="bold")
        text.arrow_patch.set(linestyle=method.line_style, linewidth=2.0)


def _near_the_top(reference: Reference) -> list[Label]:
    known = [
        (reference.near_optimal, "near-optimal\n(95 % of the way)"),
        (reference.approx_optimal, "approximately optimal"),
        (reference.dp_optimal, "dynamic-programming\noptimum"),
    ]
    return [Label(value, f"{words}: {number(value)}", MUTED) for value, words in known if value is not None]


def _caption(methods: Sequence[Method]) -> str:
    counts = sorted({len(method.curves) for method in methods})
    seeds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    if counts == [1]:
        return "one seed each" if len(methods) > 1 else "one seed"
    return f"thin: each of {seeds} seeds; thick: interquartile mean; shaded: its 95 % bootstrap interval"


def skill_usage(episodes: ArrayLike, usage: ArrayLike, title: str = "") -> Figure:
    """Share of the steps by completed episodes, a line per skill in its colour, labelled at its end.

    `usage` is (points, skills), or (seeds, points, skills): then seeds are thin and their interquartile mean is thick.
    `episodes` is (points,), or (seeds, points) where seeds differ. Skills that no seed ever used are only named.
    """
    episodes, usage = np.asarray(episodes), np.asarray(usage, float)
    usage = usage[None] if usage.ndim == 2 else usage
    if usage.ndim != 3 or episodes.shape not in (usage.shape[1:2], usage.shape[:2]):
        shapes = "must be (points, skills) or (seeds, points, skills), with as many points as there are episode counts"
        raise UserError("usage", shapes, f"{usage.shape} for {episodes.shape}", "stack the seeds on the first axis")
    episodes, num_seeds = np.broadcast_to(episodes, usage.shape[:2]), len(usage)
    is_used = usage.max((0, 1)) >= EVER_USED
    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    axes, labels = figure.subplots(), []
    for s in np.flatnonzero(is_used).tolist():
        curves = [SeedCurve(x, y) for x, y in zip(episodes, usage[..., s])]
        style = {"color": skill_colour(s), "linestyle": skill_line_style(s)}
        for curve in curves if num_seeds > 1 else ():
            axes.plot(*curve, linewidth=0.6, alpha=0.3, **style)
        grid = common_grid(curves)
        mean = iqm(resample(curves, grid))
        axes.plot(grid, mean, linewidth=2.4, **style)
        labels.append(Label(mean[-1], f"skill {s}", skill_colour(s)))
    axes.set(ylim=(-0.02, 1.02), xlabel="episodes", ylabel="share of the steps")
    axes.margins(x=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
    label_right(axes, labels)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, parse_math=False)
    idle = [str(s) for s in np.flatnonzero(~is_used)]
    never = f"never used: skill{'s' if len(idle) > 1 else ''} {listed(idle)}" if idle else ""
    seeds = f"thin: each of {num_seeds} seeds; thick: interquartile mean" if num_seeds > 1 else ""
    axes.set_title("; ".join(filter(None, [seeds, never])), loc="left", fontsize=9, color=MUTED)
    return figure
