"""Maps of states without two axes: numbered ones as cells, those along a single input as a strip."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from asap.base.spec import Task
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, actions_at, regions_at
from asap.show.figures.inputs import COLUMNS, mean_controls, span
from asap.show.figures.palette import (
    GLOW,
    INK,
    MUTED,
    PALE,
    WIDE_GLOW,
    control_scale,
    draw_colour_bar,
    point_colours,
    region_colours,
    skill_colour,
)
from asap.show.words.skills import CELL

NOT_VISITED = "#EDEDED"
MOST_COLUMNS = 25
MOST_WORDS = 64  # In more cells than that there is no room for words.


def draw_cells(panels: Sequence[Axes], policy: ASAPPolicy, task: Task, visited: Regions) -> str:
    """Returns what the picture shows, in words."""
    names, m, is_set = task.spec.observation_names, task.descriptor, task.spec.continuous
    states, has_words = np.eye(len(names), dtype=np.float32), len(names) <= MOST_WORDS
    regions, visits = regions_at(policy, states, m), visited.observations.sum(0)
    for a, axes in enumerate(panels):
        if is_set:
            values = mean_controls(policy, task, regions)[:, a]
            scale = control_scale(values[visits > 0])
            colours, words = scale.to_rgba(values)[:, :3], [f"{value:.2g}" for value in values]
            draw_colour_bar(axes, scale, f"mean {task.spec.action_names[a]}")
        else:
            colours = region_colours(regions)
            actions = actions_at(policy, regions.rulers, states, m).argmax(-1)
            words = [task.spec.action_names[action].replace(" ", "\n") for action in actions]
        _draw_grid(axes, names, visits, colours, words, regions.rulers if is_set else None)
    head = "one skill everywhere" if policy.num_skills == 1 else "most probable skill"
    if is_set:
        frames = "" if policy.num_skills == 1 else ", by its frame"
        number = " and number" if has_words else ""
        return f"{head}{frames}; colour{number}: its mean action; grey where never visited"
    action = ", with its most probable action" if has_words else ""
    return f"{head}{action}; {'' if policy.num_skills == 1 else 'pale where uncertain, '}grey where never visited"


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
            inner = {"fill": False, "edgecolor": skill_colour(int(skills[s])), "linewidth": 3.0}
            axes.add_patch(Rectangle((column - 0.44, row - 0.44), 0.88, 0.88, **inner, path_effects=WIDE_GLOW))
        if visits[s] and len(names) <= MOST_WORDS:
            axes.text(column, row, words[s], ha="center", va="center", fontsize=10, color=INK, path_effects=GLOW)
    num_rows, num_columns = np.max(places, 0) + 1
    axes.set(xlim=(-0.5, num_columns - 0.5), ylim=(num_rows - 0.5, -0.5), aspect="equal")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=MUTED)
    axes.xaxis.tick_top()
    if CELL.fullmatch(names[0]):
        axes.set_xticks(range(num_columns), [str(c) for c in range(num_columns)])
        axes.set_yticks(range(num_rows), [f"row {r}" for r in range(num_rows)])
    else:
        axes.set_xticks([])
        axes.set_yticks(range(num_rows), [f"{names[r * num_columns]} ..." for r in range(num_rows)])


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


def draw_strips(panels: Sequence[Axes], policy: ASAPPolicy, task: Task, visited: Regions) -> str:
    """Along the one input the chance of each skill, or the numbers that are set, and how often each place is
    visited."""
    left, right = span(visited.observations[:, 0])
    x = np.linspace(left, right, COLUMNS)
    regions = regions_at(policy, x[:, None], task.descriptor)
    used = np.flatnonzero(regions.skill_probs.max(0) >= 0.01)
    counts, bins = np.histogram(visited.observations[:, 0], 60, (left, right))
    for a, axes in enumerate(panels):
        if task.spec.continuous:
            label = f"mean {task.spec.action_names[a]}"
            low, high = _draw_curve(axes, x, mean_controls(policy, task, regions)[:, a], regions)
        else:
            label, (low, high) = "chance of each skill", (0.0, 1.0)
            axes.stackplot(x, regions.skill_probs[:, used].T, colors=[skill_colour(s) for s in used], alpha=0.75)
        heights = low + 0.3 * (high - low) * counts / counts.max()
        axes.stairs(heights, bins, baseline=low, color=INK, linewidth=1.5, path_effects=GLOW)
        axes.set(xlim=(left, right), ylim=(low, high), xlabel=task.spec.observation_names[0], ylabel=label)
    if task.spec.continuous:
        return "thick: mean action of the most probable skill, in its colour; thin: how often each place is visited"
    return "line: how often each place is visited"


def _draw_curve(
    axes: Axes, x: Float[np.ndarray, "X"], values: Float[np.ndarray, "X"], regions: Regions
) -> tuple[float, float]:
    """Points, because the action jumps where another skill begins; behind them the skills. Returns the limits of y."""
    low, high = control_scale(values).get_clim()
    limits = low - 0.1 * (high - low), high + 0.1 * (high - low)
    paler = region_colours(regions, PALE)[None]
    axes.imshow(paler, extent=(x[0], x[-1], *limits), aspect="auto", interpolation="nearest", zorder=0)
    axes.scatter(x, values, s=9, c=point_colours(regions), zorder=3)
    return limits
