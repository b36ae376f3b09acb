"""A map of numbered states: a cell for each, in its colour, with what is done there."""

import math

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from asap.envs.gymnasium.task import ForeignTask
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import actions_at, regions_at
from asap.policy.skills import GaussianSkills
from asap.show.palette import GLOW, INK, MUTED, blend, skill_colour
from asap.show.partition_map import PALEST
from asap.show.rule_sentences import CELL

NOT_VISITED = "#EDEDED"
MOST_COLUMNS = 25
MOST_WORDS = 64  # In more cells than that there is no room for words.


def draw_cells(axes: Axes, policy: ASAPPolicy, task: ForeignTask, observations: Float[np.ndarray, "N O"]) -> str:
    """Returns what the picture shows, in words."""
    names, m = task.spec.observation_names, np.zeros(0)
    states, places = np.eye(len(names), dtype=np.float32), _places(names)
    regions = regions_at(policy, states, m)
    does = (
        None if isinstance(policy.skills, GaussianSkills) else actions_at(policy, regions.rulers, states, m).argmax(-1)
    )
    visits, num_skills = observations.sum(0), policy.num_skills
    for s, (row, column) in enumerate(places):
        certainty = (regions.skill_probs[s].max() - 1 / num_skills) / (1 - 1 / num_skills)
        paint = blend("#FFFFFF", skill_colour(int(regions.rulers[s])), PALEST + (1 - PALEST) * certainty)
        colour = paint if visits[s] else NOT_VISITED
        axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=1.5))
        if does is not None and visits[s] and len(names) <= MOST_WORDS:
            words = task.spec.action_names[does[s]].replace(" ", "\n")
            axes.text(column, row, words, ha="center", va="center", fontsize=9, color=INK, path_effects=GLOW)
    num_rows, num_columns = np.max(places, 0) + 1
    axes.set(xlim=(-0.5, num_columns - 0.5), ylim=(num_rows - 0.5, -0.5), aspect="equal")
    _draw_axes(axes, names, num_rows, num_columns)
    words = ", with its likeliest action" if does is not None and len(names) <= MOST_WORDS else ""
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
