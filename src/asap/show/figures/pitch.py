"""Maps of the half pitch: which skill a striker uses for which place of the ball.

A place of the ball is no whole state. The others stand, by choice, as in the middle of an attack: the striker 0.5 m
behind the ball with the ball at its feet and at rest, the goalkeeper and the defenders where their own rules send them.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.axes import Axes
from matplotlib.patches import Arc, Rectangle

from asap.envs.render import CENTRE_CIRCLE, END, GOAL_BOX, MARKINGS
from asap.envs.soccer import vectors as c
from asap.envs.soccer.half_field import Match, Striker, StrikerTask
from asap.envs.soccer.opponents import defender_home, goalkeeper_place
from asap.envs.soccer.physics import Ball, World, rested
from asap.envs.soccer.prediction import Meeting
from asap.envs.soccer.vectors import Vector
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import Regions, mean_actions
from asap.show.figures.backgrounds import Ground, PlacedTask, draw_start_area
from asap.show.figures.palette import GLOW, INK

BEHIND_THE_BALL = 0.5
PIXELS_PER_METRE = 4
NAMED_FROM = 0.03  # Share of the pitch: smaller regions have no room for words.
SMALLEST_NAMED = 0.25  # Of the actions of a mixed skill.


def draw_pitch(axes: Axes, colour: str) -> None:
    """Lines in a colour, and the goal. The frame of the axes is the edge of the pitch; the goal is behind it."""
    lines = {"fill": False, "edgecolor": colour, "linewidth": 1.0, "zorder": 2}
    for (left, top), (right, bottom) in MARKINGS[1:]:
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, **lines))
    axes.add_patch(Arc((0, 0), 2 * CENTRE_CIRCLE, 2 * CENTRE_CIRCLE, **lines))
    (left, top), (right, bottom) = GOAL_BOX
    goal = {"facecolor": "white", "edgecolor": INK, "linewidth": 1.6, "clip_on": False, "zorder": 7}
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, **goal))
    axes.set(xlim=(PITCH.left, PITCH.right), ylim=(PITCH.bottom, PITCH.top), aspect="equal")


def _draw_map(axes: Axes, task: StrikerTask) -> None:
    draw_pitch(axes, "white")
    words = {
        "rotation": 270,
        "ha": "center",
        "va": "center",
        "fontsize": 10,
        "fontweight": "bold",
        "color": INK,
        "zorder": 8,
    }
    axes.text(np.mean(GOAL_BOX, 0)[0], 0, "goal", **words)
    draw_start_area(axes, task.ball_low, task.ball_high, 0.6, "ball starts")
    axes.set(xlabel="x (m)", ylabel="y (m)", xticks=range(0, 51, 10), yticks=range(-30, 31, 10))


def _observe(env: Striker, task: StrikerTask, x: Float[Array, ""], y: Float[Array, ""]) -> Float[Array, "O"]:
    place, still = Vector(x, y), Vector(jnp.zeros_like(x), jnp.zeros_like(y))
    ball = Ball(place, still)
    keeper = goalkeeper_place(ball, Meeting(jnp.zeros_like(x), place))
    homes = [defender_home(ball, side) for side in (1.0, -1.0)[: env.num_defenders]]
    places = (Vector(x - BEHIND_THE_BALL, y), keeper, *homes)
    world = World(ball, tuple(rested(each, jnp.zeros_like(x)) for each in places))
    zero = jnp.int32(0)
    return env.observe(Match(world, zero, zero, jnp.zeros((), bool), zero), task)


def _name_regions(axes: Axes, policy: ASAPPolicy, task: PlacedTask, regions: Regions) -> None:
    """What the ruling skill does most, written in the middle of its region."""
    rulers = regions.rulers.reshape(PITCH.rows, PITCH.columns)
    for skill in np.flatnonzero(regions.shares >= NAMED_FROM):
        row, column = _deepest(rulers == skill)
        chances = mean_actions(policy, regions, skill, task.descriptor)
        likely = [action for action in np.argsort(-chances) if chances[action] >= SMALLEST_NAMED]
        words = " or\n".join(task.spec.action_names[action] for action in likely)
        style = {"ha": "center", "va": "center", "fontsize": 12, "fontweight": "bold", "color": INK}
        axes.text(PITCH.x[column], PITCH.y[row], words, path_effects=GLOW, zorder=8, **style)


def _deepest(inside: np.ndarray) -> tuple[int, int]:
    """Row and column of a pixel that is as far from the edge of a region as any: what is left when it is peeled."""
    while True:
        around = np.pad(inside, 1)
        peeled = inside & around[:-2, 1:-1] & around[2:, 1:-1] & around[1:-1, :-2] & around[1:-1, 2:]
        if not peeled.any():
            rows, columns = np.nonzero(inside)
            return int(rows[len(rows) // 2]), int(columns[len(rows) // 2])
        inside = peeled


PITCH = Ground(
    left=0.0,
    right=END,
    bottom=c.PITCH_HALF_WIDTH,
    top=-c.PITCH_HALF_WIDTH,
    columns=round(PIXELS_PER_METRE * END),
    rows=round(PIXELS_PER_METRE * 2 * c.PITCH_HALF_WIDTH),
    inches=4.2,
    ticks=((0, 25, 50), (-30, 0, 30)),
    legend="by the place of the ball",
    small_legend="by the place of the ball; dashed: planes; dotted: starts of the ball",
    one_skill="one skill, wherever the ball is",
    observe=_observe,
    draw=_draw_map,
    draw_skills=_name_regions,
)
