"""Learning curves: every seed, the interquartile mean with its interval, and the references they are read against."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, StrMethodFormatter
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.numbers import listed, number
from asap.base.spec import Reference
from asap.base.stats import SeedCurve, bootstrap_interval, common_grid, iqm, resample
from asap.show.figures.labels import Label, label_right
from asap.show.figures.palette import CURVE, MUTED, skill_colour, skill_line_style


class Summary(NamedTuple):
    """Over seeds, at common episode counts."""

    episodes: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray


def learning_curves(curves: Sequence[SeedCurve], reference: Reference | None = None, title: str = "") -> Figure:
    """Return by completed episodes, from the first; those of the search for a start, before any update, are shaded.

    Returns climb from hundreds below zero and are told apart only near the top, so there are two panels over the same
    episodes: all of it below, the part that matters enlarged above. Where no seed got that far there is only one.
    """
    curves = [SeedCurve(*curve) for curve in curves]
    summary = summarise(curves)
    enlarged = worth_enlarging(curves, reference)
    figure = Figure(figsize=(8.0, 6.0 if enlarged else 4.2), layout="constrained")
    panels = figure.subplots(2 if enlarged else 1, 1, sharex=True, squeeze=False)[:, 0]
    for axes in panels:
        _draw_curves(axes, curves, summary)
    if enlarged:
        panels[0].set(ylim=enlarged, ylabel="return (enlarged)")
        _draw_references(panels[0], near_the_top(reference))
        _draw_whole(panels[1], reference, enlarged)
    elif reference is not None:
        make_room(panels[0], reference)
        _draw_references(panels[0], [at_the_start(reference), *near_the_top(reference)])
    panels[-1].set(xlabel="episodes", ylabel="return")
    panels[-1].xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    figure.align_ylabels()
    searched = int(min(np.min(curve.episodes) for curve in curves))
    for axes in panels:
        axes.set_xlim(left=0)
        if searched:
            axes.axvspan(0, searched, color=MUTED, alpha=0.15, linewidth=0, zorder=0)
    panels[0].set_title(_caption(len(curves), searched), loc="left", fontsize=9, color=MUTED)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, parse_math=False)
    return figure


def summarise(curves: Sequence[SeedCurve]) -> Summary:
    episodes = common_grid(curves)
    values = resample(curves, episodes)
    return Summary(episodes, iqm(values), *bootstrap_interval(values))


def worth_enlarging(curves: Sequence[SeedCurve], reference: Reference | None) -> tuple[float, float] | None:
    """As far below near-optimal as the optimum is above it, to a little over the optimum, if any seed got there."""
    if reference is None:
        return None
    reach = reference.best - reference.near_optimal
    low, high = reference.near_optimal - reach, reference.best + 0.12 * reach
    return (low, high) if max(np.nanmax(curve.returns) for curve in curves) > low else None


def _draw_curves(axes: Axes, curves: Sequence[SeedCurve], summary: Summary) -> None:
    for curve in curves:
        axes.plot(curve.episodes, curve.returns, color=CURVE, linewidth=0.6, alpha=0.3, zorder=2)
    axes.fill_between(summary.episodes, summary.low, summary.high, color=CURVE, alpha=0.25, linewidth=0, zorder=3)
    axes.plot(summary.episodes, summary.mean, color=CURVE, linewidth=2.2, zorder=4)
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0)


def _draw_whole(axes: Axes, reference: Reference, enlarged: tuple[float, float]) -> None:
    make_room(axes, reference)
    axes.axhspan(*enlarged, color=MUTED, alpha=0.15, linewidth=0, zorder=0)
    _draw_references(axes, [at_the_start(reference)])
    label_right(axes, [Label(sum(enlarged) / 2, "enlarged above", MUTED)], gap=0.0)


def make_room(axes: Axes, reference: Reference) -> None:
    """Widen the range so that every reference lies a little inside it."""
    margin = 0.04 * (reference.best - reference.misspecified)
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, reference.misspecified - margin), max(high, reference.best + margin))


def at_the_start(reference: Reference) -> Label:
    return Label(reference.misspecified, f"misspecified start: {number(reference.misspecified)}", MUTED)


def near_the_top(reference: Reference) -> list[Label]:
    near, approximate, best = reference.near_optimal, reference.approx_optimal, reference.dp_optimal
    labels = [
        Label(near, f"near-optimal\n(95 % of the way): {number(near)}", MUTED),
        Label(approximate, f"approximately optimal: {number(approximate)}", MUTED),
    ]
    return labels if best is None else [*labels, Label(best, f"dynamic-programming\noptimum: {number(best)}", MUTED)]


def _draw_references(axes: Axes, labels: list[Label]) -> None:
    for label in labels:
        axes.axhline(label.at, color=MUTED, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
    label_right(axes, labels, gap=0.14)


def _caption(num_seeds: int, searched: int) -> str:
    """`searched` is the least of the episodes that the search for a start took."""
    seeds = "one seed"
    if num_seeds > 1:
        seeds = f"thin: each of {num_seeds} seeds; thick: interquartile mean; shaded: its 95 % bootstrap interval"
    return f"{seeds}\ngrey: search for a start ({searched:,} episodes)" if searched else seeds


EVER_USED = 0.01


def skill_usage(episodes: ArrayLike, usage: ArrayLike, title: str = "") -> Figure:
    """Share of the steps by completed episodes, a line per skill in its colour, labelled at its end.

    `usage` is (points, skills), or (seeds, points, skills): then seeds are thin and their interquartile mean is thick.
    `episodes` is (points,), or (seeds, points) where seeds differ. Skills that no seed ever used are only named.
    """
    episodes, usage = _by_seed(np.asarray(episodes), np.asarray(usage, float))
    num_skills = usage.shape[-1]
    used = [s for s in range(num_skills) if usage[..., s].max() >= EVER_USED]
    figure = Figure(figsize=(8.0, 4.2), layout="constrained")
    axes = figure.subplots()
    labels = []
    for s in used:
        curves = [SeedCurve(x, y) for x, y in zip(episodes, usage[..., s])]
        style = {"color": skill_colour(s), "linestyle": skill_line_style(s)}
        if len(curves) > 1:
            for curve in curves:
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
    label_right(axes, labels, gap=0.06)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12, parse_math=False)
    axes.set_title(_usage_caption(len(usage), used, num_skills), loc="left", fontsize=9, color=MUTED)
    return figure


def _by_seed(episodes: np.ndarray, usage: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(seeds, points) and (seeds, points, skills)."""
    usage = usage[None] if usage.ndim == 2 else usage
    if usage.ndim != 3 or episodes.shape not in (usage.shape[1:2], usage.shape[:2]):
        raise UserError(
            "usage",
            "must be (points, skills) or (seeds, points, skills), with as many points as there are episode counts",
            f"{usage.shape} for {episodes.shape}",
            "stack the seeds on the first axis",
        )
    return np.broadcast_to(episodes, usage.shape[:2]), usage


def _usage_caption(num_seeds: int, used: list[int], num_skills: int) -> str:
    seeds = "" if num_seeds == 1 else f"thin: each of {num_seeds} seeds; thick: interquartile mean"
    idle = [str(s) for s in range(num_skills) if s not in used]
    never = f"never used: skill{'s' if len(idle) > 1 else ''} {listed(idle)}" if idle else ""
    return "; ".join(filter(None, [seeds, never]))
