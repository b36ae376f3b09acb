"""Many partitions side by side: one small map per policy, in the colours of the skills."""

import math
from collections.abc import Sequence
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from asap.base.errors import UserError
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import OWNS, Regions
from asap.show.figures.backgrounds import Ground, PlacedTask
from asap.show.figures.palette import legend_entry
from asap.show.figures.partition_map import draw_partition, ground_of, pixel_regions

# All in inches.
ALL_PANELS, LARGEST, SMALLEST = 9.5, 3.2, 1.9
LEFT, RIGHT, BETWEEN, AXIS = 0.6, 0.2, 0.22, 0.55
LINE = 0.17  # Height of a line of text.
ENTRY = 0.97  # Width of an entry of the legend.
DESIGNED_FOR = 4.5  # The side of a map whose lines have full thickness; on smaller ones they thin out more slowly.


def partition_gallery(
    policies: Sequence[ASAPPolicy],
    tasks: Sequence[PlacedTask],
    titles: Sequence[str],
    title: str = "",
    columns: int = 5,
) -> Figure:
    """Policy i on task i under title i, in rows of at most `columns`. All tasks are of one family."""
    counts = (len(policies), len(tasks), len(titles))
    if len(set(counts)) != 1 or not policies:
        raise UserError("policies", "each needs a task and a title", counts, "give as many of each, at least one")
    ground = ground_of(tasks[0])
    regions = [pixel_regions(*each) for each in zip(policies, tasks)]
    num_rows = math.ceil(len(policies) / columns)
    num_columns = math.ceil(len(policies) / num_rows)
    side = min(max(ALL_PANELS / num_columns, SMALLEST), LARGEST)
    titles = [fill(text, int(13 * side)) for text in titles]
    figure, panels = _paper(ground, len(titles), num_columns, side, _num_lines(titles), title, _legend(regions))
    for axes, text, *drawn in zip(panels, titles, policies, tasks, regions):
        draw_partition(axes, *drawn, thickness=math.sqrt(side / DESIGNED_FOR), words=False)
        axes.set_title(text, loc="left", fontsize=9, pad=4)
    _only_outer_ticks(ground, panels, num_columns)
    return figure


def _num_lines(texts: Sequence[str]) -> int:
    return max(1 + text.count("\n") for text in texts)


def _legend(regions: Sequence[Regions]) -> list[Patch]:
    """An entry per skill that owns area in some panel."""
    skills = sorted({s for states in regions for s in np.flatnonzero(states.shares >= OWNS).tolist()})
    return [legend_entry(s, f"skill {s}") for s in skills]


def _paper(
    ground: Ground, num_panels: int, num_columns: int, side: float, title_lines: int, title: str, entries: list[Patch]
) -> tuple[Figure, list[Axes]]:
    """Panels of one size from the top left, row by row, and the legend below them; `side` is their width."""
    num_rows = math.ceil(num_panels / num_columns)
    width = LEFT + num_columns * (side + BETWEEN) - BETWEEN + RIGHT
    caption = f"most probable skill, pale where uncertain; {ground.small_legend}"
    caption, title = fill(caption, int(14 * (width - LEFT))), fill(title, int(11 * width))
    entries_in_row = int((width - LEFT) / ENTRY)
    legend = LINE * (_num_lines([caption]) + 1.3 * math.ceil(len(entries) / entries_in_row))
    head = 0.18 + 0.2 * (_num_lines([title]) - 1) if title else 0.0
    panel_height = side * ground.height
    row = panel_height + LINE * title_lines + BETWEEN
    height = head + num_rows * row + AXIS + legend
    figure = Figure(figsize=(width, height))

    def panel(i: int) -> Axes:
        up, right = divmod(i, num_columns)
        corner = LEFT + right * (side + BETWEEN), height - head - (up + 1) * row
        return figure.add_axes((corner[0] / width, corner[1] / height, side / width, panel_height / height))

    figure.suptitle(title, x=0.08 / width, y=1 - 0.08 / height, ha="left", va="top", fontsize=12)
    figure.legend(
        handles=entries,
        loc="upper left",
        bbox_to_anchor=(LEFT / width, legend / height),
        ncols=min(entries_in_row, len(entries)),
        borderaxespad=0,
        borderpad=0,
        title=caption,
        alignment="left",
        fontsize=9,
        title_fontsize=9,
        frameon=False,
    )
    return figure, [panel(i) for i in range(num_panels)]


def _only_outer_ticks(ground: Ground, panels: Sequence[Axes], num_columns: int) -> None:
    columns, rows = ground.ticks
    for i, axes in enumerate(panels):
        axes.set_xticks(columns, [f"{tick:g}" for tick in columns], fontsize=8)
        axes.set_yticks(rows, [f"{tick:g}" for tick in rows], fontsize=8)
        axes.xaxis.label.set_fontsize(8)
        axes.yaxis.label.set_fontsize(8)
        if i + num_columns < len(panels):
            axes.set(xticks=[], xlabel="")
        if i % num_columns:
            axes.set(yticks=[], ylabel="")
