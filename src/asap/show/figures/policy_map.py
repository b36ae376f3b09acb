"""The partition and the skills of a policy in one picture (paper, Figure 1 f-i): on the place of the task, or over the
two inputs that decide most. And many policies side by side, as small maps."""

import math
from collections.abc import Sequence
from textwrap import fill

import matplotlib
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.spec import Spec, Task
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import OWNS, Regions, one_per_skill, regions_at, require_one_seed, usual_states
from asap.show.figures.areas import draw_planes, name_skills, paint
from asap.show.figures.backgrounds import BACKGROUNDS, Background, PlacedTask
from asap.show.figures.cells import cells_height, draw_cells, draw_strips
from asap.show.figures.inputs import deciding_inputs, frame_over, mean_controls, others_in_words, states_at
from asap.show.figures.palette import (
    MUTED,
    PALE,
    contrast,
    control_scale,
    draw_colour_bar,
    legend_entry,
    point_colours,
    region_colours,
    shown_skills,
)
from asap.show.words.skills import letter, skill_in_words

WIDTHS = {1: 8.0, 2: 11.0, 3: 13.0}  # Inches, by the number of columns.
MOST_PANELS = 6
MOST_POINTS = 3000


def policy_map(
    policy: ASAPPolicy,
    task: Task,
    observations: Float[np.ndarray, "N O"] | None = None,
    usage: ArrayLike | None = None,
    title: str | None = None,
    beside: tuple[ASAPPolicy, Float[np.ndarray, "M O"]] | None = None,
) -> Figure:
    """Skills as areas, planes as lines. Where there is a background for the task's place, on that; numbered states as
    cells; everything else over inputs, with a panel for each number that an action sets.

    `observations` are states that were visited, in any order; None where nothing was played. A map of a place needs
    none. `usage` is the share of the steps of each skill. Maps to be compared are `beside` one policy and some states, which
    choose the inputs and their range for all.
    """
    require_one_seed(policy)
    usage = None if usage is None else one_per_skill("usage", usage, policy.num_skills)
    spec, has_place = task.spec, task.spec.place in BACKGROUNDS
    if has_place:
        regions = pixel_regions(policy, task)
    else:
        regions = regions_at(policy, _some_states(policy, spec, observations), task.descriptor)
    shown = shown_skills(regions, usage)
    with matplotlib.rc_context({"text.parse_math": False}):  # A name may have a $ in it.
        figure, panels = _paper(spec, len(shown))
        if spec.numbered:
            caption = draw_cells(panels, policy, task, regions)
        elif len(spec.observation_names) == 1:
            caption = draw_strips(panels, policy, task, regions)
        else:
            chosen = (
                None
                if beside is None
                else regions_at(beside[0], _some_states(policy, spec, beside[1]), task.descriptor)
            )
            caption = _draw_areas(
                panels, policy, task, regions, (policy, regions) if chosen is None else (beside[0], chosen)
            )
        if observations is None and not has_place:
            caption = caption.replace("visited states", "such states")
            caption = f"nothing was played: states are drawn around the mean of those in training; {caption}"
        if spec.normalized:
            caption += "; inputs in the units of NormalizeObservation, which drift"
        title = task.name if title is None else title
        if spec.continuous and len(panels) < spec.num_actions:
            title += f" (the first {len(panels)} of {spec.num_actions} actions)"
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
        _draw_legend(figure, shown, [skill_in_words(policy, task, regions, s) for s in shown], usage, caption)
    return figure


def pixel_regions(policy: ASAPPolicy, task: PlacedTask) -> Regions:
    """The partition at every pixel of the map of a place."""
    require_one_seed(policy)
    return regions_at(policy, BACKGROUNDS[task.spec.place].observations(task), task.descriptor)


def _some_states(policy: ASAPPolicy, spec: Spec, visited: Float[np.ndarray, "N O"] | None) -> Float[np.ndarray, "n O"]:
    visited = np.asarray(usual_states(policy, spec) if visited is None else visited, np.float32)
    size = len(spec.observation_names)
    if visited.ndim != 2 or visited.shape[1] != size or not len(visited):
        raise UserError("observations", f"must have shape (n, {size})", visited.shape, "give states that were visited")
    return visited[np.linspace(0, len(visited) - 1, min(len(visited), MOST_POINTS)).astype(int)]


def _paper(spec: Spec, num_entries: int) -> tuple[Figure, list[Axes]]:
    """One panel for actions to choose from; for numbers to set, one for each of the first few."""
    count = min(spec.num_actions, MOST_PANELS) if spec.continuous else 1
    columns = min(count, 2 if count <= 4 else 3)
    rows, width = math.ceil(count / columns), WIDTHS[columns] / columns
    height = width * (cells_height(spec.observation_names) if spec.numbered else 0.65)
    if spec.place in BACKGROUNDS:
        background = BACKGROUNDS[spec.place]
        width, height = background.inches + 1.5, background.inches * background.frame.height + 0.7
    height = rows * (height + (0.6 if spec.continuous else 0.0))  # With its colour bar.
    figure = Figure(figsize=(columns * width, height + 0.8 + 0.2 * num_entries), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.remove()
    return figure, list(grid[:count])


def _draw_legend(
    figure: Figure, skills: list[int], words: list[str], usage: Float[np.ndarray, "S"] | None, caption: str
) -> None:
    width = int(14.5 * figure.get_figwidth())  # Characters.
    words = [fill(text.replace(" %", "\u00a0%"), width - 25) for text in words]  # Never broken before the %.
    entries = [legend_entry(s, text.replace("\u00a0", " "), usage) for s, text in zip(skills, words)]
    caption = "\n".join(fill(line, width) for line in caption.splitlines())
    style = {"alignment": "left", "fontsize": 9, "title_fontsize": 9, "frameon": False}
    figure.legend(handles=entries, loc="outside lower left", title=caption, **style).get_title().set_color(MUTED)


def _draw_areas(
    panels: list[Axes], policy: ASAPPolicy, task: Task, seen: Regions, by: tuple[ASAPPolicy, Regions]
) -> str:
    """`seen` is the partition at the pixels of a place, or at the states that were visited; inputs and range are chosen `by`
    that policy in those states. Returns a caption."""
    spec, background, is_set = task.spec, BACKGROUNDS.get(task.spec.place), task.spec.continuous
    controls = mean_controls(policy, task, seen) if is_set else None
    if background is not None:
        frame, regions, legend, others = background.frame, seen, background.legend, ""
    else:
        deciding, among = by
        across, up = deciding_inputs(among, mean_controls(deciding, task, among) if is_set else None)
        frame = frame_over(among.observations, across, up)
        usual = states_at(among.observations, across, up, frame.places)
        regions, legend = regions_at(policy, usual, task.descriptor), "dots: visited states"
        others = others_in_words(task, among.observations, (across, up))
    count = policy.partition.num_planes
    names = [f"plane {k + 1}" if background else "boundary" if count == 1 else letter(k + 1) for k in range(count)]
    for a, axes in enumerate(panels):
        if is_set:
            values = mean_controls(policy, task, regions)[:, a]
            scale = control_scale(values, controls[:, a])
            colours, points = (scale.to_rgba(each)[:, :3] for each in (values, controls[:, a]))
            edges = [contrast(colour) for colour in points]
            draw_colour_bar(axes, scale, f"mean {spec.action_names[a]}")
        else:
            colours, points, edges = region_colours(regions, 1.0 if background else PALE), point_colours(seen), "white"
        paint(axes, frame, colours)
        if background is not None:
            background.draw(axes, task.task)
        else:
            axes.scatter(*seen.observations[:, [across, up]].T, s=10, c=points, edgecolors=edges, linewidths=0.3)
            labels = {"xlabel": spec.observation_names[across], "ylabel": spec.observation_names[up]}
            axes.set(xlim=(frame.left, frame.right), ylim=(frame.bottom, frame.top), **labels)
        draw_planes(axes, frame, regions.margins, names)
        draw_skills = name_skills if background is None else background.draw_skills
        draw_skills(axes, policy, task, regions, frame)
    head = "boxes: most probable skill" if is_set else "most probable skill, pale where uncertain"
    colour = ["colour: its mean action"] if is_set else []
    dashed = [f"dashed: {'planes' if background else 'boundaries'}"] if count else []
    return "; ".join([head if policy.num_skills > 1 else "one skill everywhere", legend, *colour, *dashed]) + others


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
    """Policy i on task i under title i, in rows of at most `columns`. All tasks have one place."""
    counts = (len(policies), len(tasks), len(titles))
    if len(set(counts)) != 1 or not policies:
        raise UserError("policies", "each needs a task and a title", counts, "give as many of each, at least one")
    background = BACKGROUNDS[tasks[0].spec.place]
    regions = [pixel_regions(*each) for each in zip(policies, tasks)]
    num_rows = math.ceil(len(policies) / columns)
    columns = math.ceil(len(policies) / num_rows)
    side = min(max(ALL_PANELS / columns, SMALLEST), LARGEST)
    titles = [fill(text, int(13 * side)) for text in titles]

    # Panels of one size from the top left, row by row, and the legend below them.
    width = LEFT + columns * (side + BETWEEN) - BETWEEN + RIGHT
    caption = (
        f"most probable skill, pale where uncertain; {background.legend}; dashed: planes; {background.small_legend}"
    )
    caption, title = fill(caption, int(14 * (width - LEFT))), fill(title, int(11 * width))
    skills = sorted({s for states in regions for s in np.flatnonzero(states.shares >= OWNS).tolist()})
    in_row = int((width - LEFT) / ENTRY)
    legend = LINE * (1 + caption.count("\n") + 1.3 * math.ceil(len(skills) / in_row))
    head = 0.18 + 0.2 * title.count("\n") if title else 0.0
    down = side * background.frame.height
    row = down + LINE * max(1 + text.count("\n") for text in titles) + BETWEEN
    height = head + num_rows * row + AXIS + legend
    figure = Figure(figsize=(width, height))
    figure.suptitle(title, x=0.08 / width, y=1 - 0.08 / height, ha="left", va="top", fontsize=12)
    style = {"borderaxespad": 0, "borderpad": 0, "alignment": "left", "fontsize": 9, "title_fontsize": 9}
    place = {"loc": "upper left", "bbox_to_anchor": (LEFT / width, legend / height), "ncols": min(in_row, len(skills))}
    entries = [legend_entry(s, f"skill {s}") for s in skills]
    figure.legend(handles=entries, title=caption, frameon=False, **place, **style)

    for i, (policy, task, text, states) in enumerate(zip(policies, tasks, titles, regions)):
        right, up = LEFT + i % columns * (side + BETWEEN), height - head - (i // columns + 1) * row
        axes = figure.add_axes((right / width, up / height, side / width, down / height))
        _draw_small(axes, background, policy, task, states, math.sqrt(side / DESIGNED_FOR))
        axes.set_title(text, loc="left", fontsize=9, pad=4)
        for axis, ticks in zip((axes.xaxis, axes.yaxis), background.ticks):
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks], fontsize=8)
            axis.label.set_fontsize(8)
        if i + columns < len(policies):
            axes.set(xticks=[], xlabel="")
        if i % columns:
            axes.set(yticks=[], ylabel="")
    return figure


def _draw_small(
    axes: Axes, background: Background, policy: ASAPPolicy, task: PlacedTask, regions: Regions, thickness: float
) -> None:
    """With thinner lines, and of all words only what the skills do."""
    paint(axes, background.frame, region_colours(regions))
    background.draw(axes, task.task)
    for text in tuple(axes.texts):
        text.remove()
    background.draw_skills(axes, policy, task, regions, background.frame)
    for artist in (*axes.lines, *axes.patches, *axes.collections):
        artist.set_linewidth(np.multiply(thickness, artist.get_linewidth()))
    for text in axes.texts:
        text.set_fontsize(thickness * text.get_fontsize())
    draw_planes(axes, background.frame, regions.margins, thickness=thickness)
