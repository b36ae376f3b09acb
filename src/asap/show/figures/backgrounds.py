"""What a map is drawn on: which state each of its pixels stands for, and what is drawn there for the eye."""

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.patches import Arc, Rectangle
from numpy.typing import ArrayLike

from asap.base.spec import Task
from asap.base.types import TaskParameters
from asap.envs.core import Env
from asap.envs.render import CENTRE_CIRCLE, END, GOAL_BOX, MARKINGS
from asap.envs.rooms import Position, Rooms, RoomsTask
from asap.envs.soccer import vectors as c
from asap.envs.soccer.half_field import Match, Striker, StrikerTask
from asap.envs.soccer.opponents import defender_home, goalkeeper_place
from asap.envs.soccer.physics import Ball, World, rested
from asap.envs.soccer.prediction import Meeting
from asap.envs.soccer.vectors import Vector
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, actions_at
from asap.show.figures.areas import Frame, name_skills
from asap.show.figures.palette import GLOW, INK


class PlacedTask(Task, Protocol):
    """A task whose spec names a place: walls, goals and starts are drawn from its environment's own numbers."""

    env: Env
    task: TaskParameters


class Background(NamedTuple):
    """A place seen from above, in metres."""

    frame: Frame
    inches: float  # Width of a map by itself.
    ticks: tuple[tuple[float, ...], tuple[float, ...]]  # Few enough for a small map.
    legend: str
    small_legend: str  # What more a small map has to say, without words on it.
    observe: Callable[[Env, TaskParameters, Array, Array], Float[Array, "O"]]  # In the state that a place stands for.
    draw: Callable[[Axes, TaskParameters], None]  # Sets the limits of the axes, too.
    draw_skills: Callable[[Axes, ASAPPolicy, PlacedTask, Regions, Frame], None]  # What each does where it rules.

    def observations(self, task: PlacedTask) -> Float[np.ndarray, "N O"]:
        """What is observed at every pixel, row by row from below."""
        return np.asarray(_observations(self.observe, task.env, task.task, self.frame.places.astype(np.float32)))


# Compiled once for all maps of a kind: a gallery has many.
@functools.partial(jax.jit, static_argnums=0)
def _observations(
    observe: Callable[..., Array], env: Env, task: TaskParameters, places: Float[Array, "N 2"]
) -> Float[Array, "N O"]:
    return jax.vmap(lambda place: observe(env, task, place[0], place[1]))(places)


def draw_start_area(axes: Axes, low: ArrayLike, high: ArrayLike, inset: float, words: str) -> None:
    """Drawn a little inside: its edges usually lie on a wall and on the frame."""
    corner = np.asarray(low) + inset
    width, height = np.asarray(high) - inset - corner
    axes.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=INK, linewidth=1.0, linestyle=":", zorder=5))
    lowest = corner + (0, height if axes.yaxis_inverted() else 0)
    style = {"fontsize": 9, "color": INK, "path_effects": GLOW, "zorder": 8}
    axes.annotate(words, lowest, xytext=(4, 4), textcoords="offset points", **style)


WALL_WIDTH = 4.5
DIRECTIONS = {"up": (0, 1), "down": (0, -1), "right": (1, 0), "left": (-1, 0)}
LONGEST_ARROW = 0.11
SHORTEST_DRAWN = 0.06  # Arrows of smaller probabilities would be points.


def _draw_rooms(axes: Axes, task: RoomsTask) -> None:
    for wall, low, high in zip(task.walls, task.door_low, task.door_high):
        for piece in ((0.0, low), (high, 1.0)):
            axes.plot([wall, wall], piece, color=INK, linewidth=WALL_WIDTH, solid_capstyle="butt", zorder=4)
    draw_start_area(axes, task.start_low, task.start_high, 0.014, "start area")
    half, (x, y) = float(task.goal_half_width), map(float, task.goal)
    # Nearly opaque: the word is readable, and the partition under it still shows.
    style = {"facecolor": (1, 1, 1, 0.8), "edgecolor": INK, "linewidth": 1.6, "zorder": 7}
    axes.add_patch(Rectangle((x - half, y - half), 2 * half, 2 * half, **style))
    axes.text(x, y, "goal", ha="center", va="center", fontsize=11, fontweight="bold", color=INK, zorder=8)
    ticks = np.linspace(0, 1, 6)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="x (m)", ylabel="y (m)", aspect="equal", xticks=ticks, yticks=ticks)


def _arrow_places(task: RoomsTask, rows: int = 5) -> Float[np.ndarray, "N 2"]:
    """A grid of points in each room, off the walls and the goal."""
    edges = np.concatenate([[0.0], np.asarray(task.walls), [1.0]])
    columns = np.concatenate([low + (high - low) * np.array([0.28, 0.72]) for low, high in zip(edges, edges[1:])])
    places = np.stack(np.meshgrid(columns, (np.arange(rows) + 0.5) / rows), -1).reshape(-1, 2)
    reach = float(task.goal_half_width) + 0.06
    return places[(np.abs(places - np.asarray(task.goal)) > reach).any(-1)]


def _draw_arrows(axes: Axes, policy: ASAPPolicy, task: PlacedTask, regions: Regions, frame: Frame) -> None:
    """At each place, one arrow per action of the skill that rules there, as long as the action is probable."""
    column, row = np.floor(frame.columns * _arrow_places(task.task)).astype(int).T
    pixel = row * frame.columns + column
    probabilities = actions_at(policy, regions.rulers[pixel], regions.observations[pixel], task.descriptor)
    directions = np.array([DIRECTIONS[name] for name in task.spec.action_names])
    place, action = np.nonzero(probabilities >= SHORTEST_DRAWN)
    arrows = LONGEST_ARROW * probabilities[place, action, None] * directions[action]
    in_metres = {"angles": "xy", "scale_units": "xy", "units": "xy", "scale": 1, "minlength": 0}
    shape = {"width": 0.0075, "headwidth": 3.6, "headlength": 3.4, "headaxislength": 3.2}
    colours = {"color": "white", "edgecolor": INK, "linewidth": 0.5}
    axes.quiver(frame.x[column[place]], frame.y[row[place]], *arrows.T, **in_metres, **shape, **colours, zorder=6)


def _observe_room(env: Rooms, task: RoomsTask, x: Float[Array, ""], y: Float[Array, ""]) -> Float[Array, "O"]:
    return env.observe(Position(x, y), task)


ROOMS = Background(
    frame=Frame(left=0.0, right=1.0, bottom=0.0, top=1.0, columns=240, rows=240),
    inches=4.5,
    ticks=((0, 0.5, 1), (0, 0.5, 1)),
    legend="arrows: its actions",
    small_legend="dotted: start area; pale square: goal",
    observe=_observe_room,
    draw=_draw_rooms,
    draw_skills=_draw_arrows,
)


BEHIND_THE_BALL = 0.5
PIXELS_PER_METRE = 4


def draw_pitch(axes: Axes, colour: str) -> None:
    """Lines in a colour, and the goal. The frame of the axes is the edge of the pitch; the goal is behind it."""
    lines = {"fill": False, "edgecolor": colour, "linewidth": 1.0, "zorder": 2}
    for (left, top), (right, bottom) in MARKINGS[1:]:
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, **lines))
    axes.add_patch(Arc((0, 0), 2 * CENTRE_CIRCLE, 2 * CENTRE_CIRCLE, **lines))
    (left, top), (right, bottom) = GOAL_BOX
    goal = {"facecolor": "white", "edgecolor": INK, "linewidth": 1.6, "clip_on": False, "zorder": 7}
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, **goal))
    frame = PITCH.frame
    axes.set(xlim=(frame.left, frame.right), ylim=(frame.bottom, frame.top), aspect="equal")


def _draw_striker_map(axes: Axes, task: StrikerTask) -> None:
    draw_pitch(axes, "white")
    style = {"rotation": 270, "ha": "center", "va": "center", "fontsize": 10, "fontweight": "bold", "color": INK}
    axes.text(np.mean(GOAL_BOX, 0)[0], 0, "goal", **style, zorder=8)
    draw_start_area(axes, task.ball_low, task.ball_high, 0.6, "ball starts")
    axes.set(xlabel="x (m)", ylabel="y (m)", xticks=range(0, 51, 10), yticks=range(-30, 31, 10))


def _observe_pitch(env: Striker, task: StrikerTask, x: Float[Array, ""], y: Float[Array, ""]) -> Float[Array, "O"]:
    """A place of the ball is no whole state. The others stand, by choice, as in the middle of an attack: the striker
    0.5 m behind the ball with the ball at its feet and at rest, the goalkeeper and the defenders where their own rules
    send them."""
    place, still = Vector(x, y), Vector(jnp.zeros_like(x), jnp.zeros_like(y))
    ball = Ball(place, still)
    goalkeeper = goalkeeper_place(ball, Meeting(jnp.zeros_like(x), place))
    homes = [defender_home(ball, side) for side in (1.0, -1.0)[: env.num_defenders]]
    places = (Vector(x - BEHIND_THE_BALL, y), goalkeeper, *homes)
    world = World(ball, tuple(rested(each, jnp.zeros_like(x)) for each in places))
    zero = jnp.int32(0)
    return env.observe(Match(world, zero, zero, jnp.zeros((), bool), zero), task)


PITCH = Background(
    frame=Frame(
        left=0.0,
        right=END,
        bottom=c.PITCH_HALF_WIDTH,
        top=-c.PITCH_HALF_WIDTH,
        columns=round(PIXELS_PER_METRE * END),
        rows=round(PIXELS_PER_METRE * 2 * c.PITCH_HALF_WIDTH),
    ),
    inches=4.2,
    ticks=((0, 25, 50), (-30, 0, 30)),
    legend="x, y: place of the ball",
    small_legend="dotted: starts of the ball",
    observe=_observe_pitch,
    draw=_draw_striker_map,
    draw_skills=name_skills,
)

BACKGROUNDS = {"rooms": ROOMS, "pitch": PITCH}  # By the place that a task's spec names.
