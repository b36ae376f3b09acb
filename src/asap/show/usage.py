"""How often each skill is used while learning."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter, StrMethodFormatter
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.numbers import listed
from asap.base.stats import Curve, common_grid, iqm, resample
from asap.show.labels import Label, label_right
from asap.show.palette import MUTED, skill_colour, skill_line_style

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
        curves = [Curve(x, y) for x, y in zip(episodes, usage[..., s])]
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
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    axes.set_title(_caption(len(usage), used, num_skills), loc="left", fontsize=9, color=MUTED)
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


def _caption(num_seeds: int, used: list[int], num_skills: int) -> str:
    seeds = "" if num_seeds == 1 else f"thin: each of {num_seeds} seeds; thick: interquartile mean"
    idle = [str(s) for s in range(num_skills) if s not in used]
    never = f"never used: skill{'s' if len(idle) > 1 else ''} {listed(idle)}" if idle else ""
    return "; ".join(filter(None, [seeds, never]))
