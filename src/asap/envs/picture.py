"""A rooms task as pixels, with NumPy alone: what `render()` shows of one moment."""

import numpy as np
from jaxtyping import Float, UInt8

from asap.envs.rooms import RoomsTask

FLOOR = (250, 250, 247)
START = (229, 238, 247)
GOAL = (122, 187, 122)
WALL = (52, 56, 64)
AGENT = (205, 72, 48)

WALL_WIDTH = 0.012  # Walls have no width in the task; these are for the eye.
AGENT_RADIUS = 0.02


def draw_rooms(
    task: RoomsTask, position: Float[np.ndarray, "2"] | tuple[float, float], size: int = 400
) -> UInt8[np.ndarray, "size size 3"]:
    """The map with the agent on it. The y axis points up: the first row of pixels is the top of the square."""
    centres = (np.arange(size) + 0.5) / size
    x, y = centres[None, :], centres[::-1, None]
    picture = np.full((size, size, 3), FLOOR, np.uint8)
    picture[_box(x, y, task.start_low, task.start_high)] = START
    picture[_box(x, y, task.goal - task.goal_half_width, task.goal + task.goal_half_width)] = GOAL
    picture[_walls(x, y, task)] = WALL
    picture[(x - position[0]) ** 2 + (y - position[1]) ** 2 <= AGENT_RADIUS**2] = AGENT
    return picture


def _box(x: np.ndarray, y: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return (x >= low[0]) & (x <= high[0]) & (y >= low[1]) & (y <= high[1])


def _walls(x: np.ndarray, y: np.ndarray, task: RoomsTask) -> np.ndarray:
    """The frame around the square, and the walls without their doors."""
    half = WALL_WIDTH / 2
    solid = (np.minimum(x, 1 - x) <= half) | (np.minimum(y, 1 - y) <= half)
    for wall, door_low, door_high in zip(task.walls, task.door_low, task.door_high):
        solid |= (np.abs(x - wall) <= half) & ((y < door_low) | (y > door_high))
    return solid
