"""The partition of an environment that nobody has drawn: over the two inputs that decide most, where it was visited."""

import itertools
import math
import textwrap
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.spec import Task
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import (
    Regions,
    actions_at,
    controls_at,
    one_per_skill,
    regions_at,
    require_one_seed,
    usual_states,
)
from asap.show.figures.labels import Label, label_right, label_top, others_in_words, tag_skills
from asap.show.figures.palette import (
    GLOW,
    INK,
    MUTED,
    WIDE_GLOW,
    ControlScale,
    blend,
    contrast,
    legend_entry,
    region_colours,
    shown_skills,
    skill_colour,
)
from asap.show.words.skills import CELL, letter, skill_in_words

WIDTHS = {1: 8.0, 2: 11.0, 3: 13.0}  # Inches, by the number of columns.
MOST_PANELS = 6
MOST_DOTS = 3000
MOST_CANDIDATES = 16
COLUMNS, ROWS = 240, 180  # Pixels.
BACKGROUND = 0.35  # How much of its colour a skill has behind the dots.
LEFT_OUT = 0.005  # Share of the states at each end that may lie outside of the picture.


def observed_map(
    policy: ASAPPolicy,
    task: Task,
    observations: Float[np.ndarray, "N O"] | None,
    usage: ArrayLike | None = None,
    title: str | None = None,
) -> Figure:
    """`observations` are states that were visited, in any order; None where nothing was played."""
    require_one_seed(policy)
    is_played = observations is not None
    states = observations if is_played else usual_states(policy, task.spec)
    observations = _some(np.asarray(states, np.float32), len(task.spec.observation_names))
    usage = None if usage is None else one_per_skill("usage", usage, policy.num_skills)
    visited = regions_at(policy, observations, task.descriptor)
    shown = shown_skills(visited, usage)
    figure, panels = _paper(task, len(shown))
    if task.spec.numbered:
        legend = draw_cells(panels, policy, task, observations)
    elif observations.shape[1] == 1:
        legend = _draw_strips(panels, policy, task, visited)
    else:
        legend = _draw_planes(panels, policy, task, visited)
    if not is_played:
        legend = f"nothing was played: states are drawn around the mean of those in training; {legend}"
        legend = legend.replace("visited states", "such states")
    if task.spec.normalized:
        legend += "; inputs in the units of NormalizeObservation, which drift"
    title = task.name if title is None else title
    if len(panels) < task.spec.num_actions and task.spec.continuous:
        title += f" (the first {len(panels)} of {task.spec.num_actions} actions)"
    figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    entries = [legend_entry(s, skill_in_words(policy, task, visited, s), usage) for s in shown]
    _draw_legend(figure, entries, legend)
    return figure


def _paper(task: Task, num_entries: int) -> tuple[Figure, list[Axes]]:
    """One panel for actions to choose from; for numbers to set, one for each of the first few."""
    count = min(task.spec.num_actions, MOST_PANELS) if task.spec.continuous else 1
    columns = min(count, 2 if count <= 4 else 3)
    rows, width = math.ceil(count / columns), WIDTHS[columns]
    height = cells_height(task.spec.observation_names) if task.spec.numbered else 0.65
    panel = width / columns * height + (0.6 if task.spec.continuous else 0.0)  # With its colour bar.
    figure = Figure(figsize=(width, rows * panel + 0.8 + 0.2 * num_entries), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[count:]:
        axes.remove()
    return figure, list(grid.flat[:count])


def _some(observations: Float[np.ndarray, "N O"], size: int) -> Float[np.ndarray, "n O"]:
    if observations.ndim != 2 or observations.shape[1] != size or not len(observations):
        raise UserError(
            "observations", f"must have shape (n, {size})", observations.shape, "give states that were visited"
        )
    return observations[np.linspace(0, len(observations) - 1, min(len(observations), MOST_DOTS)).astype(int)]


def deciding_inputs(visited: Regions, controls: Float[np.ndarray, "N A"] | None = None) -> tuple[int, int]:
    """The two inputs from which one can tell best on which side of the planes a state lies, and which numbers are set;
    without either the first two.

    Not those with the largest coefficients: inputs that go together may cancel each other.
    """
    observations = _standardized(visited.observations)
    sides = _standardized(np.tanh(visited.margins / 2))
    told = sides if controls is None else np.concatenate([sides, _standardized(controls)], 1)
    single = np.square(observations.T @ told / len(told)).sum(1)
    candidates = sorted(np.argsort(-single, kind="stable")[:MOST_CANDIDATES].tolist())
    return max(itertools.combinations(candidates, 2), key=lambda pair: _told(observations[:, pair], told))


def _standardized(values: Float[np.ndarray, "N n"]) -> Float[np.ndarray, "N n"]:
    deviations = values.std(0, dtype=float)
    return (values - values.mean(0, dtype=float)) / np.where(deviations > 0, deviations, 1.0)


def _told(inputs: Float[np.ndarray, "N 2"], sides: Float[np.ndarray, "N K"]) -> float:
    """How much of the sides is linear in these inputs."""
    return float(np.square(inputs @ _fit(inputs, sides)).sum())


def _fit(inputs: Float[np.ndarray, "N n"], values: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "n m"]:
    return np.linalg.lstsq(inputs, values, rcond=1e-6)[0]


def _draw_planes(panels: list[Axes], policy: ASAPPolicy, task: Task, visited: Regions) -> str:
    names, is_set = task.spec.observation_names, task.spec.continuous
    does = _controls(policy, task, visited) if is_set else None
    across, up = deciding_inputs(visited, does)
    x, y = (_grid(visited.observations[:, j], count) for j, count in ((across, COLUMNS), (up, ROWS)))
    regions = regions_at(policy, _usual(visited.observations, across, up, x, y), task.descriptor)
    usual = _controls(policy, task, regions) if is_set else None
    edges = (x[0], x[-1], y[0], y[-1])
    for a, axes in enumerate(panels):
        if is_set:
            scale = ControlScale.over(usual[:, a], does[:, a])
            paint, colours = scale.colours(usual[:, a]), scale.colours(does[:, a])
            edges_of_dots = [contrast(colour) for colour in colours]
        else:
            paint = region_colours(regions, BACKGROUND)
            colours, edges_of_dots = [blend(skill_colour(s), INK, 0.15) for s in visited.rulers], "white"
        paint = paint.reshape(ROWS, COLUMNS, 3)
        axes.imshow(paint, origin="lower", extent=edges, aspect="auto", interpolation="nearest", zorder=0)
        dots = visited.observations[:, [across, up]].T
        axes.scatter(*dots, s=10, c=colours, edgecolors=edges_of_dots, linewidths=0.3, zorder=2)
        axes.set(xlim=edges[:2], ylim=edges[2:], xlabel=names[across], ylabel=names[up])
        _draw_borders(axes, x, y, regions.margins, on_dark=is_set)
        if is_set:
            tag_skills(axes, x, y, regions.rulers.reshape(ROWS, COLUMNS))
            scale.draw_bar(axes, f"mean {task.spec.action_names[a]}")
    others = others_in_words(names, visited.observations, (across, up))
    if policy.num_skills == 1:
        one = "one skill everywhere; dots: visited states"
        return f"{one}; colour: its mean action{others}" if is_set else one
    if is_set:
        return f"colour: mean action of the likeliest skill; dots: visited states; dashed: boundaries{others}"
    return f"likeliest skill: dots for visited states, pale for all others; dashed: boundaries{others}"


def _controls(policy: ASAPPolicy, task: Task, regions: Regions) -> Float[np.ndarray, "N A"]:
    """What the skill that rules there sets on average."""
    return controls_at(policy, regions.rulers, regions.observations, task.descriptor, task.spec)


def _usual(
    observations: Float[np.ndarray, "N O"], across: int, up: int, x: Float[np.ndarray, "X"], y: Float[np.ndarray, "Y"]
) -> Float[np.ndarray, "XY O"]:
    """At each place what is observed there on average, as far as that is linear in the two inputs."""
    mean = observations.mean(0, dtype=float)
    slopes = _fit(observations[:, [across, up]] - mean[[across, up]], observations - mean)
    places = np.stack([grid.ravel() for grid in np.meshgrid(x, y)], -1)
    usual = mean + (places - mean[[across, up]]) @ slopes
    usual[:, [across, up]] = places
    return usual


def _grid(values: Float[np.ndarray, "N"], count: int) -> Float[np.ndarray, "count"]:
    """Over what was observed, with a margin."""
    low, high = np.quantile(values.astype(float), [LEFT_OUT, 1 - LEFT_OUT])
    margin = 0.05 * (high - low) or 0.5
    return np.linspace(low - margin, high + margin, count)


def _draw_borders(
    axes: Axes, x: Float[np.ndarray, "X"], y: Float[np.ndarray, "Y"], margins: Float[np.ndarray, "N K"], on_dark: bool
) -> None:
    above, right = [], []
    for k, margin in enumerate(margins.T):
        if (margin > 0).all() or (margin <= 0).all():
            continue
        heights = margin.reshape(len(y), len(x))
        if on_dark:  # Between the dashes, too.
            axes.contour(x, y, heights, levels=[0.0], colors="white", linewidths=3.4, zorder=2.5)
        lines = axes.contour(x, y, heights, levels=[0.0], colors=[INK])
        lines.set(linestyle="dashed", linewidth=1.8, path_effects=GLOW, zorder=3)
        longest = max(lines.allsegs[0], key=len)
        end = longest[np.argmax((longest[:, 1] - y[0]) / (y[-1] - y[0]) + (longest[:, 0] - x[0]) / (x[-1] - x[0]))]
        words = "boundary" if margins.shape[1] == 1 else letter(k + 1)
        if end[1] >= y[-2]:
            above.append(Label(end[0], words, INK))
        elif end[0] >= x[-2]:
            right.append(Label(end[1], words, INK))
    label_top(axes, above, gap=0.08)
    label_right(axes, right, gap=0.05)


def _draw_strips(panels: list[Axes], policy: ASAPPolicy, task: Task, visited: Regions) -> str:
    """One input: along it the chance of each skill, or the numbers that are set, and how often each place is
    visited."""
    x, is_set = _grid(visited.observations[:, 0], COLUMNS), task.spec.continuous
    regions = regions_at(policy, x[:, None], task.descriptor)
    probs = regions.skill_probs
    used = [s for s in range(probs.shape[1]) if probs[:, s].max() >= 0.01]
    counts, bins = np.histogram(visited.observations[:, 0], 60, (x[0], x[-1]))
    does = _controls(policy, task, regions) if is_set else None
    for a, axes in enumerate(panels):
        if is_set:
            _draw_curve(axes, x, does[:, a], regions)
        else:
            axes.stackplot(x, probs[:, used].T, colors=[skill_colour(s) for s in used], alpha=0.75)
            axes.set_ylim(0, 1)
        low, high = axes.get_ylim()
        heights = low + 0.3 * (high - low) * counts / counts.max()
        axes.stairs(heights, bins, baseline=low, color=INK, linewidth=1.5, path_effects=GLOW)
        label = f"mean {task.spec.action_names[a]}" if is_set else "chance of each skill"
        axes.set(xlim=(x[0], x[-1]), ylim=(low, high), xlabel=task.spec.observation_names[0], ylabel=label)
    visits = "how often each place is visited"
    if is_set:
        return f"thick: mean action of the likeliest skill, in its colour; thin: {visits}"
    return f"line: {visits}"


def _draw_curve(axes: Axes, x: Float[np.ndarray, "X"], does: Float[np.ndarray, "X"], regions: Regions) -> None:
    """Dots, because the action jumps where another skill begins; behind them the skills."""
    low, high = ControlScale.over(does).limits
    edges = (x[0], x[-1], low - 0.1 * (high - low), high + 0.1 * (high - low))
    paint = region_colours(regions, BACKGROUND)[None]
    axes.imshow(paint, extent=edges, aspect="auto", interpolation="nearest", zorder=0)
    axes.scatter(x, does, s=9, c=[blend(skill_colour(s), INK, 0.15) for s in regions.rulers], zorder=3)
    axes.set_ylim(*edges[2:])


def _draw_legend(figure: Figure, entries: list[Patch], words: str) -> None:
    width = int(13.75 * figure.get_figwidth())  # Characters.
    for entry in entries:
        entry.set_label(textwrap.fill(entry.get_label(), width - 12))
    title = "\n".join(textwrap.fill(line, width) for line in words.splitlines())
    style = {"alignment": "left", "fontsize": 9, "frameon": False}
    legend = figure.legend(handles=entries, loc="outside lower left", title=title, **style)
    legend.get_title().set(fontsize=9, color=MUTED)


NOT_VISITED = "#EDEDED"
MOST_COLUMNS = 25
MOST_WORDS = 64  # In more cells than that there is no room for words.


def draw_cells(panels: list[Axes], policy: ASAPPolicy, task: Task, observations: Float[np.ndarray, "N O"]) -> str:
    """Returns what the picture shows, in words."""
    names, m, is_set = task.spec.observation_names, task.descriptor, task.spec.continuous
    states, has_words = np.eye(len(names), dtype=np.float32), len(names) <= MOST_WORDS
    regions, visits = regions_at(policy, states, m), observations.sum(0)
    for a, axes in enumerate(panels):
        if is_set:
            does = _controls(policy, task, regions)[:, a]
            scale = ControlScale.over(does[visits > 0])
            colours, words = scale.colours(does), [f"{value:.2g}" for value in does]
            scale.draw_bar(axes, f"mean {task.spec.action_names[a]}")
        else:
            colours = region_colours(regions)
            does = actions_at(policy, regions.rulers, states, m).argmax(-1)
            words = [task.spec.action_names[action].replace(" ", "\n") for action in does]
        _draw_grid(axes, names, visits, colours, words, regions.rulers if is_set else None)
    if is_set:
        told = f"colour{' and number' if has_words else ''}: its mean action; grey where never visited"
        return f"one skill everywhere; {told}" if policy.num_skills == 1 else f"likeliest skill, by its frame; {told}"
    told = ", with its likeliest action" if has_words else ""
    if policy.num_skills == 1:
        return f"one skill everywhere{told}; grey where never visited"
    return f"likeliest skill{told}; pale where uncertain, grey where never visited"


def _draw_grid(
    axes: Axes,
    names: tuple[str, ...],
    visits: Float[np.ndarray, "O"],
    colours: Float[np.ndarray, "O 3"],
    words: Sequence[str],
    skills: Int[np.ndarray, "O"] | None,
) -> None:
    places = _places(names)
    for s, (row, column) in enumerate(places):
        colour = colours[s] if visits[s] else NOT_VISITED
        cell = {"facecolor": colour, "edgecolor": "white", "linewidth": 1.5}
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, **cell))
        if skills is not None and visits[s]:
            inner = {
                "fill": False,
                "edgecolor": skill_colour(int(skills[s])),
                "linewidth": 3.0,
                "path_effects": WIDE_GLOW,
            }
            axes.add_patch(Rectangle((column - 0.44, row - 0.44), 0.88, 0.88, **inner))
        if visits[s] and len(names) <= MOST_WORDS:
            axes.text(column, row, words[s], ha="center", va="center", fontsize=9, color=INK, path_effects=GLOW)
    num_rows, num_columns = np.max(places, 0) + 1
    axes.set(xlim=(-0.5, num_columns - 0.5), ylim=(num_rows - 0.5, -0.5), aspect="equal")
    _draw_axes(axes, names, num_rows, num_columns)


def cells_height(names: tuple[str, ...]) -> float:
    """In widths; of a tall grid only so much that it fits on a screen."""
    num_rows, num_columns = np.max(_places(names), 0) + 1
    return float(np.clip(num_rows / num_columns, 0.15, 0.8))


def _places(names: tuple[str, ...]) -> list[tuple[int, int]]:
    """Row and column of each state; where there is no grid, line by line."""
    cells = [CELL.fullmatch(name) for name in names]
    if all(cells):
        return [(int(cell[1]), int(cell[2])) for cell in cells]
    columns = min(MOST_COLUMNS, math.ceil(math.sqrt(1.5 * len(names))))
    return [divmod(s, columns) for s in range(len(names))]


def _draw_axes(axes: Axes, names: tuple[str, ...], num_rows: int, num_columns: int) -> None:
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=MUTED)
    axes.xaxis.tick_top()
    if CELL.fullmatch(names[0]):
        axes.set_xticks(range(num_columns), [str(c) for c in range(num_columns)])
        axes.set_yticks(range(num_rows), [f"row {r}" for r in range(num_rows)])
    else:
        axes.set_xticks([])
        axes.set_yticks(range(num_rows), [f"{names[r * num_columns]} ..." for r in range(num_rows)])
