"""The ground of a map: which states its pixels stand for, and what is drawn on it for the eye."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from asap.base.spec import Task
from asap.base.types import TaskParameters
from asap.envs.core import Env
from asap.envs.rooms import Position, Rooms, RoomsTask
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, actions_at
from asap.show.figures.palette import GLOW, INK


class PlacedTask(Task, Protocol):
    """A task whose spec names a place: walls, goals and starts are drawn from its environment's own numbers."""

    env: Env
    task: TaskParameters


# What is observed in the state that a place stands for.
Observe = Callable[[Env, TaskParameters, Float[Array, ""], Float[Array, ""]], Float[Array, "O"]]


class Ground(NamedTuple):
    """A place seen from above, in metres. Where `bottom` is larger than `top`, the y axis points down."""

    left: float
    right: float
    bottom: float
    top: float
    columns: int  # Pixels.
    rows: int
    inches: float  # Width of a map by itself.
    ticks: tuple[tuple[float, ...], tuple[float, ...]]  # Few enough for a small map.
    legend: str  # What the map shows in full, and what a small one shows.
    small_legend: str
    one_skill: str  # What it shows of a policy without planes.
    observe: Observe
    draw: Callable[[Axes, TaskParameters], None]  # Sets the limits of the axes, too.
    draw_skills: Callable[[Axes, ASAPPolicy, PlacedTask, Regions], None]  # What each skill does where it rules.

    @property
    def x(self) -> np.ndarray:
        """Centres of the pixels from left to right. Centres, because a feature may vanish exactly on the frame."""
        return self.left + (self.right - self.left) * (np.arange(self.columns) + 0.5) / self.columns

    @property
    def y(self) -> np.ndarray:
        """From below."""
        return self.bottom + (self.top - self.bottom) * (np.arange(self.rows) + 0.5) / self.rows

    @property
    def height(self) -> float:
        """In widths."""
        return abs(self.top - self.bottom) / (self.right - self.left)


def draw_start_area(axes: Axes, low: ArrayLike, high: ArrayLike, inset: float, words: str) -> None:
    """Drawn a little inside: its edges usually lie on a wall and on the frame."""
    corner = np.asarray(low) + inset
    width, height = np.asarray(high) - inset - corner
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=INK, linewidth=1.0, linestyle=":", zorder=5))
    lowest = corner + (0, height if axes.yaxis_inverted() else 0)
    style = {"fontsize": 9, "color": INK, "path_effects": GLOW, "zorder": 8}
    axes.annotate(words, lowest, xytext=(4, 4), textcoords="offset points", **style)


WALL_WIDTH = 4.5
PIXELS = 240
DIRECTIONS = {"up": (0, 1), "down": (0, -1), "right": (1, 0), "left": (-1, 0)}
LONGEST_ARROW = 0.11
SHORTEST_DRAWN = 0.06  # Probabilities below would be dots.


def draw_rooms(axes: Axes, task: RoomsTask) -> None:
    for wall, low, high in zip(task.walls, task.door_low, task.door_high):
        for piece in ((0.0, low), (high, 1.0)):
            axes.plot([wall, wall], piece, color=INK, linewidth=WALL_WIDTH, solid_capstyle="butt", zorder=4)
    draw_start_area(axes, task.start_low, task.start_high, 0.014, "start area")
    _draw_goal(axes, task)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="x (m)", ylabel="y (m)", aspect="equal")
    axes.set_xticks(np.linspace(0, 1, 6))
    axes.set_yticks(np.linspace(0, 1, 6))


def _draw_goal(axes: Axes, task: RoomsTask) -> None:
    half = float(task.goal_half_width)
    x, y = map(float, task.goal)
    # Nearly opaque: the word is readable, and the partition under it still shows.
    style = {"facecolor": (1, 1, 1, 0.8), "edgecolor": INK, "linewidth": 1.6}
    axes.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, **style, zorder=7))
    axes.text(x, y, "goal", ha="center", va="center", fontsize=11, fontweight="bold", color=INK, zorder=8)


def _rose_places(task: RoomsTask, rows: int = 5) -> np.ndarray:
    """(N, 2): a grid of points in each room, off the walls and the goal."""
    edges = np.concatenate([[0.0], np.asarray(task.walls), [1.0]])
    columns = np.concatenate([low + (high - low) * np.array([0.28, 0.72]) for low, high in zip(edges, edges[1:])])
    heights = (np.arange(rows) + 0.5) / rows
    places = np.stack(np.meshgrid(columns, heights), -1).reshape(-1, 2)
    reach = float(task.goal_half_width) + 0.06
    return places[(np.abs(places - np.asarray(task.goal)) > reach).any(-1)]


def _draw_roses(axes: Axes, policy: ASAPPolicy, task: PlacedTask, regions: Regions) -> None:
    """At each place, one arrow per action of the skill that rules there, as long as the action is probable."""
    column, row = np.floor(PIXELS * _rose_places(task.task)).astype(int).T
    pixel = row * PIXELS + column
    probabilities = actions_at(policy, regions.rulers[pixel], regions.observations[pixel], task.descriptor)
    directions = np.array([DIRECTIONS[name] for name in task.spec.action_names])
    place, action = np.nonzero(probabilities >= SHORTEST_DRAWN)
    arrows = LONGEST_ARROW * probabilities[place, action, None] * directions[action]
    in_metres = {"angles": "xy", "scale_units": "xy", "units": "xy", "scale": 1, "minlength": 0}
    shape = {"width": 0.0075, "headwidth": 3.6, "headlength": 3.4, "headaxislength": 3.2}
    colours = {"color": "white", "edgecolor": INK, "linewidth": 0.5}
    axes.quiver(ROOMS.x[column[place]], ROOMS.y[row[place]], *arrows.T, **in_metres, **shape, **colours, zorder=6)


def _observe(env: Rooms, task: RoomsTask, x: Float[Array, ""], y: Float[Array, ""]) -> Float[Array, "O"]:
    return env.observe(Position(x, y), task)


ROOMS = Ground(
    left=0.0,
    right=1.0,
    bottom=0.0,
    top=1.0,
    columns=PIXELS,
    rows=PIXELS,
    inches=4.5,
    ticks=((0, 0.5, 1), (0, 0.5, 1)),
    legend="arrows: its actions",
    small_legend="arrows: its actions; dashed: planes; dotted: start area; pale square: goal",
    one_skill="one skill everywhere; arrows: its actions",
    observe=_observe,
    draw=draw_rooms,
    draw_skills=_draw_roses,
)
