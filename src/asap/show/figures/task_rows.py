"""Tasks that were learned one after another: what each of them returned before the first and after every one."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from asap.base.spec import base_of
from asap.show.figures.palette import CURVE, INK, MUTED, method_colour

WIDTH, ROW, HEAD = 9.0, 0.62, 1.3  # Inches.
LOW, HIGH = -0.25, 1.25  # Shares that a row shows; what is beyond is drawn at its edge.
LONGEST = 34  # Characters of a task's name.


def task_rows(
    performance: Float[np.ndarray, "looks tasks seeds"], names: Sequence[str], title: str = "", caption: str = ""
) -> Figure:
    """A row per task and one for their mean: 0 is random play, 1 the threshold. The task's own training is shaded; thin lines
    are seeds, thick ones their mean."""
    count = len(names)
    figure = Figure(figsize=(WIDTH, HEAD + ROW * (count + 1)), layout="constrained")
    rows = figure.subplots(count + 1, 1, sharex=True)
    for index, (axes, name) in enumerate(zip(rows, short_names(names))):
        axes.axvspan(index, index + 1, color=method_colour(0), alpha=0.16, linewidth=0)
        _draw(axes, performance[:, index], name, CURVE)
    known = np.isfinite(performance)
    means = np.where(known, performance, 0).sum(1) / np.maximum(known.sum(1), 1)
    _draw(rows[-1], means, "mean of all", INK)
    rows[-1].set(xlabel="tasks learned so far", xticks=range(count + 1), xlim=(-0.05, count + 0.05))
    rows[-1].spines["bottom"].set_visible(True)
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    words = "share of the way from random play (0) to solved (1); shaded: the task's own training"
    rows[0].set_title(f"{words}\n{caption}" if caption else words, loc="left", fontsize=9, color=MUTED)
    return figure


def _draw(axes: Axes, values: Float[np.ndarray, "looks seeds"], name: str, colour: str) -> None:
    places, shown = range(len(values)), np.clip(values, LOW, HIGH)
    for level, style in ((0, (0, (2, 3))), (1, (0, (4, 3)))):
        axes.axhline(level, color=MUTED, linewidth=0.8, linestyle=style, zorder=1)
    if values.shape[1] > 1:
        axes.plot(places, shown, color=colour, linewidth=0.7, alpha=0.3, zorder=2)
    mean = np.clip(values.mean(1), LOW, HIGH)
    axes.plot(places, mean, color=colour, linewidth=2.2, marker="o", markersize=3.5, zorder=3)
    last = values.mean(1)[-1]
    if np.isfinite(last):
        place = {"xy": (1.0, mean[-1]), "xycoords": axes.get_yaxis_transform(), "textcoords": "offset points"}
        axes.annotate(f"{last:.2f}", xytext=(6, 0), va="center", fontsize=9, color=INK, annotation_clip=False, **place)
    axes.set(ylim=(LOW, HIGH), yticks=(0, 1))
    axes.set_ylabel(name, rotation=0, ha="right", va="center", fontsize=9)
    axes.tick_params(axis="y", labelsize=8, length=0)
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    axes.tick_params(axis="x", length=0)


def short_names(names: Sequence[str]) -> list[str]:
    """Of a family, the numbers alone, which tell its members apart."""
    is_family = len({*map(base_of, names)}) == 1 and all("?" in name for name in names)
    words = [name.partition("?")[2].replace("&", ", ").replace("=", " ") if is_family else name for name in names]
    return [word if len(word) <= LONGEST else f"{word[: LONGEST - 1]}..." for word in words]
