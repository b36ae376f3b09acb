"""A moment of a task as pixels, with NumPy alone: what `render()` shows."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Int, UInt8

from asap.base.types import State, TaskParameters
from asap.envs.catalog import CompiledTask
from asap.envs.core import Env
from asap.envs.rooms import Position, Rooms, RoomsTask
from asap.envs.soccer import vectors as c
from asap.envs.soccer.half_field import STATUS_NAMES, Match, Striker

FLOOR = (250, 250, 247)
START = (229, 238, 247)
GOAL = (122, 187, 122)
WALL = (52, 56, 64)
AGENT = (205, 72, 48)

WALL_WIDTH = 0.012  # Walls have no width in the task; these are for the eye.
AGENT_RADIUS = 0.02


def draw_rooms(task: RoomsTask, position: Position, size: int = 400) -> UInt8[np.ndarray, "size size 3"]:
    """The map with the agent on it. The y axis points up: the first row of pixels is the top of the square."""
    centres = (np.arange(size) + 0.5) / size
    x, y = centres[None, :], centres[::-1, None]
    picture = np.full((size, size, 3), FLOOR, np.uint8)
    picture[_box(x, y, task.start_low, task.start_high)] = START
    picture[_box(x, y, task.goal - task.goal_half_width, task.goal + task.goal_half_width)] = GOAL
    half = WALL_WIDTH / 2
    picture[(np.minimum(x, 1 - x) <= half) | (np.minimum(y, 1 - y) <= half)] = WALL
    for wall, door_low, door_high in zip(task.walls, task.door_low, task.door_high):
        picture[(np.abs(x - wall) <= half) & ((y < door_low) | (y > door_high))] = WALL
    picture[_disc(x, y, (float(position.x), float(position.y)), AGENT_RADIUS)] = AGENT
    return picture


def _box(x: np.ndarray, y: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return (x >= low[0]) & (x <= high[0]) & (y >= low[1]) & (y <= high[1])


def _disc(x: np.ndarray, y: np.ndarray, centre: tuple[float, float], radius: float) -> np.ndarray:
    return (x - centre[0]) ** 2 + (y - centre[1]) ** 2 <= radius**2


# ---- The half pitch -------------------------------------------------------------------------------------------------

# Corners (x, y) of what is marked out with lines, in m: pitch, penalty area and goal area. The goal is behind them.
END = c.PITCH_HALF_LENGTH
MARKINGS = tuple(
    ((x, -y), (END, y)) for x, y in ((0.0, c.PITCH_HALF_WIDTH), (c.AREA_X, c.AREA_HALF_WIDTH), (END - 5.5, 9.16))
)
GOAL_BOX = ((END, -c.GOAL_HALF_WIDTH), (END + 2.44, c.GOAL_HALF_WIDTH))
CENTRE_CIRCLE = 9.15

AROUND, GRASS, LINE, NET = (200, 214, 196), (222, 236, 217), (255, 255, 255), (90, 96, 104)
STRIKER, GOALKEEPER, DEFENDER = (205, 72, 48), (34, 38, 46), (122, 76, 160)
BALL, BALL_EDGE = (255, 255, 255), (20, 20, 20)

PIXELS_PER_METRE = 7
MARGIN_X, MARGIN_Y = 3.0, 2.0  # Around the pitch, in metres.
LINE_WIDTH = 0.3
PLAYER_RADIUS, BALL_RADIUS, BALL_EDGE_WIDTH = 1.0, 0.5, 0.22  # Larger than they are, for the eye.


def draw_pitch(match: Match) -> UInt8[np.ndarray, "height width 3"]:
    """The half pitch with players and ball. The y axis points down: the first row of pixels has the smallest y."""
    x = _centres(-MARGIN_X, END + MARGIN_X)[None, :]
    y = _centres(-c.PITCH_HALF_WIDTH - MARGIN_Y, c.PITCH_HALF_WIDTH + MARGIN_Y)[:, None]
    picture = np.full((y.size, x.size, 3), AROUND, np.uint8)
    picture[_box(x, y, *MARKINGS[0])] = GRASS
    picture[(np.abs(np.hypot(x, y) - CENTRE_CIRCLE) <= LINE_WIDTH / 2) & (x >= 0)] = LINE
    for low, high in MARKINGS:  # Lines are just inside of what they mark out, as on a real pitch.
        inner = np.add(low, LINE_WIDTH), np.subtract(high, LINE_WIDTH)
        picture[_box(x, y, low, high) & ~_box(x, y, *inner)] = LINE
    picture[_box(x, y, *GOAL_BOX)] = NET
    ball, *players = (tuple(map(float, each.position)) for each in (match.world.ball, *match.world.players))
    for place, colour in reversed(list(zip(players, player_colours(len(players))))):  # The striker on top.
        picture[_disc(x, y, place, PLAYER_RADIUS)] = colour
    picture[_disc(x, y, ball, BALL_RADIUS + BALL_EDGE_WIDTH)] = BALL_EDGE
    picture[_disc(x, y, ball, BALL_RADIUS)] = BALL
    return picture


def player_colours(count: int) -> list[tuple[int, int, int]]:
    """In the order of the players: striker, goalkeeper, defenders."""
    return [STRIKER, GOALKEEPER, *[DEFENDER] * (count - 2)]


def _centres(low: float, high: float) -> np.ndarray:
    return low + (np.arange(round((high - low) * PIXELS_PER_METRE)) + 0.5) / PIXELS_PER_METRE


class View(NamedTuple):
    """Of a family of tasks. Status 0 is the one of a running episode."""

    draw: Callable[[TaskParameters, State], np.ndarray]
    status: Callable[[State], Int[Array, ""] | int] = lambda _: 0
    status_names: tuple[str, ...] = ()  # By status; none where an end says all by itself.
    start: Callable[[Any], State] | None = None  # The state that a user's words ask for.


def view_of(named: CompiledTask) -> View:
    return _VIEWS[type(named.env)]


def _position(start: Any) -> Position:
    try:
        x, y = map(float, start)
    except (TypeError, ValueError, OverflowError):
        x = y = float("nan")
    if not (0 <= x <= 1 and 0 <= y <= 1):  # Written so that NaN fails.
        raise ValueError(f"options: 'start' is not a point of the unit square (got {start!r}); give (x, y)")
    return Position(np.float32(x), np.float32(y))


_VIEWS: dict[type[Env], View] = {
    Rooms: View(draw_rooms, start=_position),
    Striker: View(lambda _, match: draw_pitch(match), lambda match: match.status, STATUS_NAMES),
}
