"""The partition of an environment that nobody has drawn: over the two inputs that decide most, where it was visited."""

import itertools
import math
import textwrap

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.spec import Task
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, actions_at, one_per_skill, regions_at, require_one_seed, usual_states
from asap.policy.skills import GaussianSkills
from asap.show.figures.labels import Label, label_right, label_top
from asap.show.figures.palette import (
    GLOW,
    INK,
    MUTED,
    blend,
    legend_entry,
    region_colours,
    saturation,
    shown_skills,
    skill_colour,
)
from asap.show.words.plane_sentences import skill_in_words
from asap.show.words.rule_sentences import CELL, letter

WIDTH = 8.0  # Inches.
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
    height = WIDTH * cells_height(task.spec.observation_names) if task.spec.numbered else 0.65 * WIDTH
    figure = Figure(figsize=(WIDTH, height + 0.8 + 0.2 * len(shown)), layout="constrained")
    axes = figure.subplots()
    if task.spec.numbered:
        legend = draw_cells(axes, policy, task, observations)
    elif observations.shape[1] == 1:
        legend = _draw_strip(axes, policy, task, visited)
    else:
        legend = _draw_plane(axes, policy, task, visited)
    if not is_played:
        legend = f"nothing was played: states are drawn around the mean of those in training; {legend}"
        legend = legend.replace("visited states", "such states")
    figure.suptitle(task.name if title is None else title, x=0.01, ha="left", fontsize=12)
    entries = [legend_entry(s, skill_in_words(policy, task, visited, s), usage) for s in shown]
    _draw_legend(figure, entries, legend)
    return figure


def _some(observations: Float[np.ndarray, "N O"], size: int) -> Float[np.ndarray, "n O"]:
    if observations.ndim != 2 or observations.shape[1] != size or not len(observations):
        raise UserError(
            "observations", f"must have shape (n, {size})", observations.shape, "give states that were visited"
        )
    return observations[np.linspace(0, len(observations) - 1, min(len(observations), MOST_DOTS)).astype(int)]


def deciding_inputs(visited: Regions) -> tuple[int, int]:
    """The two inputs from which one can tell best on which side of the planes a state lies; without planes the first
    two.

    Not those with the largest coefficients: inputs that go together may cancel each other.
    """
    observations = _standardized(visited.observations)
    sides = _standardized(np.tanh(visited.margins / 2))
    single = np.square(observations.T @ sides / len(sides)).sum(1)
    candidates = sorted(np.argsort(-single, kind="stable")[:MOST_CANDIDATES].tolist())
    return max(itertools.combinations(candidates, 2), key=lambda pair: _told(observations[:, pair], sides))


def _standardized(values: Float[np.ndarray, "N n"]) -> Float[np.ndarray, "N n"]:
    deviations = values.std(0, dtype=float)
    return (values - values.mean(0, dtype=float)) / np.where(deviations > 0, deviations, 1.0)


def _told(inputs: Float[np.ndarray, "N 2"], sides: Float[np.ndarray, "N K"]) -> float:
    """How much of the sides is linear in these inputs."""
    return float(np.square(inputs @ _fit(inputs, sides)).sum())


def _fit(inputs: Float[np.ndarray, "N n"], values: Float[np.ndarray, "N m"]) -> Float[np.ndarray, "n m"]:
    return np.linalg.lstsq(inputs, values, rcond=1e-6)[0]


def _draw_plane(axes: Axes, policy: ASAPPolicy, task: Task, visited: Regions) -> str:
    across, up = deciding_inputs(visited)
    names = task.spec.observation_names
    x, y = (_grid(visited.observations[:, j], count) for j, count in ((across, COLUMNS), (up, ROWS)))
    regions = regions_at(policy, _usual(visited.observations, across, up, x, y), task.descriptor)
    edges = (x[0], x[-1], y[0], y[-1])
    paint = region_colours(regions, BACKGROUND).reshape(ROWS, COLUMNS, 3)
    axes.imshow(paint, origin="lower", extent=edges, aspect="auto", interpolation="nearest", zorder=0)
    colours = [blend(skill_colour(s), INK, 0.15) for s in visited.rulers]
    axes.scatter(
        *visited.observations[:, [across, up]].T, s=10, c=colours, edgecolors="white", linewidths=0.3, zorder=2
    )
    axes.set(xlim=edges[:2], ylim=edges[2:], xlabel=names[across], ylabel=names[up])
    _draw_borders(axes, x, y, regions.margins)
    if policy.num_skills == 1:
        return "one skill everywhere; dots: visited states"
    where = ", where other inputs are as is usual there" if len(names) > 2 else ""
    return f"likeliest skill: dots for visited states, pale for all others{where}; dashed: boundaries"


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
    axes: Axes, x: Float[np.ndarray, "X"], y: Float[np.ndarray, "Y"], margins: Float[np.ndarray, "N K"]
) -> None:
    above, right = [], []
    for k, margin in enumerate(margins.T):
        if (margin > 0).all() or (margin <= 0).all():
            continue
        lines = axes.contour(x, y, margin.reshape(len(y), len(x)), levels=[0.0], colors=[INK])
        lines.set(linestyle="dashed", linewidth=1.8, path_effects=GLOW, zorder=3)
        longest = max(lines.allsegs[0], key=len)
        end = longest[np.argmax((longest[:, 1] - y[0]) / (y[-1] - y[0]) + (longest[:, 0] - x[0]) / (x[-1] - x[0]))]
        words = "border" if margins.shape[1] == 1 else letter(k + 1)
        if end[1] >= y[-2]:
            above.append(Label(end[0], words, INK))
        elif end[0] >= x[-2]:
            right.append(Label(end[1], words, INK))
    label_top(axes, above, gap=0.08)
    label_right(axes, right, gap=0.05)


def _draw_strip(axes: Axes, policy: ASAPPolicy, task: Task, visited: Regions) -> str:
    """One input: the chance of each skill along it, and how often each place is visited."""
    x = _grid(visited.observations[:, 0], COLUMNS)
    probs = regions_at(policy, x[:, None], task.descriptor).skill_probs
    used = [s for s in range(probs.shape[1]) if probs[:, s].max() >= 0.01]
    axes.stackplot(x, probs[:, used].T, colors=[skill_colour(s) for s in used], alpha=0.75)
    counts, edges = np.histogram(visited.observations[:, 0], 60, (x[0], x[-1]))
    axes.stairs(0.3 * counts / counts.max(), edges, color=INK, linewidth=1.5, path_effects=GLOW)
    axes.set(xlim=(x[0], x[-1]), ylim=(0, 1), xlabel=task.spec.observation_names[0], ylabel="chance of each skill")
    return "line: how often each place is visited"


def _draw_legend(figure: Figure, entries: list[Patch], words: str) -> None:
    title = textwrap.fill(words, 110)
    style = {"alignment": "left", "fontsize": 9, "frameon": False}
    legend = figure.legend(handles=entries, loc="outside lower left", title=title, **style)
    legend.get_title().set(fontsize=9, color=MUTED)


NOT_VISITED = "#EDEDED"
MOST_COLUMNS = 25
MOST_WORDS = 64  # In more cells than that there is no room for words.


def draw_cells(axes: Axes, policy: ASAPPolicy, task: Task, observations: Float[np.ndarray, "N O"]) -> str:
    """Returns what the picture shows, in words."""
    names, m = task.spec.observation_names, task.descriptor
    states, places = np.eye(len(names), dtype=np.float32), _places(names)
    regions = regions_at(policy, states, m)
    does = (
        None if isinstance(policy.skills, GaussianSkills) else actions_at(policy, regions.rulers, states, m).argmax(-1)
    )
    visits, amounts = observations.sum(0), saturation(regions.skill_probs)
    for s, (row, column) in enumerate(places):
        paint = blend("#FFFFFF", skill_colour(int(regions.rulers[s])), amounts[s])
        colour = paint if visits[s] else NOT_VISITED
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5))
        if does is not None and visits[s] and len(names) <= MOST_WORDS:
            words = task.spec.action_names[does[s]].replace(" ", "\n")
            axes.text(column, row, words, ha="center", va="center", fontsize=9, color=INK, path_effects=GLOW)
    num_rows, num_columns = np.max(places, 0) + 1
    axes.set(xlim=(-0.5, num_columns - 0.5), ylim=(num_rows - 0.5, -0.5), aspect="equal")
    _draw_axes(axes, names, num_rows, num_columns)
    words = ", with its likeliest action" if does is not None and len(names) <= MOST_WORDS else ""
    if policy.num_skills == 1:
        return f"one skill everywhere{words}; grey where never visited"
    return f"likeliest skill{words}; pale where uncertain, grey where never visited"


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
