"""Drawing a map of rooms: walls with their doors, the goal, the start area."""

import matplotlib.patheffects
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from asap.envs.rooms import RoomsTask
from asap.show.palette import INK

WALL_WIDTH = 4.5


def draw_rooms(axes: Axes, task: RoomsTask) -> None:
    for wall, low, high in zip(task.walls, task.door_low, task.door_high):
        for piece in ((0.0, low), (high, 1.0)):
            axes.plot([wall, wall], piece, color=INK, linewidth=WALL_WIDTH, solid_capstyle="butt", zorder=4)
    _draw_start(axes, task)
    _draw_goal(axes, task)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="x (m)", ylabel="y (m)", aspect="equal")
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.set_yticks(np.linspace(0, 1, 6))


def _draw_start(axes: Axes, task: RoomsTask) -> None:
    # Drawn a little inside: its edges usually lie on a wall and on the frame.
    inset = 0.014
    corner = np.asarray(task.start_low) + inset
    width, height = np.asarray(task.start_high) - inset - corner
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=INK, linewidth=1.0, linestyle=":", zorder=5))
    glow = [matplotlib.patheffects.withStroke(linewidth=2.5, foreground="white")]
    axes.text(*(corner + 0.012), "start area", fontsize=9, color=INK, path_effects=glow, zorder=8)


def _draw_goal(axes: Axes, task: RoomsTask) -> None:
    half = float(task.goal_half_width)
    x, y = map(float, task.goal)
    # Nearly opaque: the word is readable, and the partition under it still shows.
    style = {"facecolor": (1, 1, 1, 0.8), "edgecolor": INK, "linewidth": 1.6}
    axes.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, **style, zorder=7))
    axes.text(x, y, "goal", ha="center", va="center", fontsize=11, fontweight="bold", color=INK, zorder=8)


def rose_places(task: RoomsTask, rows: int = 5) -> np.ndarray:
    """(N, 2): a grid of points in each room, off the walls and the goal."""
    edges = np.concatenate([[0.0], np.asarray(task.walls), [1.0]])
    columns = np.concatenate([low + (high - low) * np.array([0.28, 0.72]) for low, high in zip(edges, edges[1:])])
    heights = (np.arange(rows) + 0.5) / rows
    places = np.stack(np.meshgrid(columns, heights), -1).reshape(-1, 2)
    reach = float(task.goal_half_width) + 0.06
    return places[(np.abs(places - np.asarray(task.goal)) > reach).any(-1)]
