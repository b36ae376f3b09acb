"""What each family of tasks shows to the host besides its observation: a picture, and how the episode stands in words."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Int

from asap.base.types import State, Task
from asap.envs.catalog import NamedTask
from asap.envs.core import Env
from asap.envs.picture import draw_pitch, draw_rooms
from asap.envs.rooms import Position, Rooms
from asap.envs.soccer.half_field import STATUS_NAMES, Striker


class View(NamedTuple):
    """Of a family of tasks. Status 0 is the one of a running episode."""

    draw: Callable[[Task, State], np.ndarray]
    status: Callable[[State], Int[Array, ""] | int] = lambda _: 0
    status_names: tuple[str, ...] = ()  # By status; none where an end says all by itself.
    start: Callable[[Any], State] | None = None  # The state that a user's words ask for.


def view_of(named: NamedTask) -> View:
    return _VIEWS[type(named.env)]


def _position(start: Any) -> Position:
    try:
        x, y = map(float, start)
    except (TypeError, ValueError, OverflowError):
        x = y = float("nan")
    # Written so that NaN fails.
    if not all(
        low <= c <= high for c, low, high in zip((x, y), Rooms.spec.observation_low, Rooms.spec.observation_high)
    ):
        raise ValueError(f"options: 'start' is not a point of the unit square (got {start!r}); give (x, y)")
    return Position(np.float32(x), np.float32(y))


_VIEWS: dict[type[Env], View] = {
    Rooms: View(lambda task, state: draw_rooms(task, (float(state.x), float(state.y))), start=_position),
    Striker: View(lambda _, match: draw_pitch(match), lambda match: match.status, STATUS_NAMES),
}
