"""The tasks that have a name, each with its oracle: how a policy starts misspecified, and what good looks like."""

import difflib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.spec import Reference, Spec
from asap.base.types import TaskParameters
from asap.envs.core import CompiledTasks, Env
from asap.envs.rooms import FLIPPED_TWO_ROOMS, THREE_ROOMS, TWO_ROOMS, Rooms, read_map
from asap.envs.soccer.half_field import Striker, standard_task


@dataclass(frozen=True)
class CompiledTask:
    """A task with the features the paper gives it, the partition it starts from, and its references."""

    name: str
    summary: str
    gymnasium_id: str
    env: Env
    task: TaskParameters
    basis: str  # As in PolicyConfig.
    inputs: tuple[str, ...]
    frequencies: tuple[tuple[float, ...], ...]
    misspecified: tuple[float, ...]  # beta of the first hyperplane.
    approximate: tuple[float, ...]
    reference: Reference
    settings: Mapping[str, Any] = field(default_factory=dict)  # Where its defaults differ from the general ones.
    play_settings: Mapping[str, Any] = field(default_factory=dict)  # The same, where it is learned by playing.

    @property
    def spec(self) -> Spec:
        return self.env.spec

    @functools.cached_property
    def descriptor(self) -> tuple[float, ...]:
        return tuple(np.asarray(self.env.descriptor(self.task), np.float32).tolist())

    @property
    def is_scaled(self) -> bool:
        """Their bounds are known."""
        return False

    @property
    def threshold(self) -> float:
        return self.reference.near_optimal

    @property
    def budget(self) -> Mapping[str, Any]:
        return {}

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (len(self.spec.observation_names),)

    @property
    def actions(self) -> str:
        return f"{self.spec.num_actions} actions of {self.name}"

    def reader(self) -> Callable[[Any], Float[np.ndarray, "O"]]:
        return functools.partial(checked_observation, names=self.spec.observation_names)

    def actor(self) -> Callable[[Any], Any]:
        return np.int64

    def record(self) -> None:
        return None


# A vertical cut at the wall; the scale makes it a step rather than a slope (alpha_beta 20: from 10 % to 90 % in 0.04
# m).
_AT_THE_WALL = (-2.5, 5.0, 0.0)

# Dribble on the right wing and shoot on the left, or the other way round: y = 0 cuts the pitch. The disc has a radius
# of 12 m around the goal's centre, in the normalised coordinates of the ball: 1, x, y, x^2, x y, y^2.
_ALONG_THE_PITCH = (0.0, 0.0, 0.05)
_AROUND_THE_GOAL = (-0.5451, 1.6538, 0.0, -0.9923, 0.0, -1.3988)
_SOCCER_SETTINGS = {
    "policy.alpha_beta": 100.0,
    "policy.alpha_theta": 2.0,
    "learn.step_size_beta": 0.01,  # A fifth of the general one, as alpha_beta is five times as large.
    "learn.entropy": 0.001,  # Without the ball, Move, Dribble and Shoot are the same: entropy would cost nothing there.
    "learn.softening": 0.01,
    "learn.softening_floor": 0.02,  # The ball is within shooting range in a few of a hundred cycles.
}
_SOCCER_PLAYED = {
    "learn.lanes": 256,
    "learn.trace": 0.97,
    "learn.critic_features": 128,
    "run.chunk": 10,
    "run.eval_episodes": 128,
}


def _striker(number: int, summary: str, reference: Reference, episodes: int) -> CompiledTask:
    return CompiledTask(
        name=f"striker-r{number}",
        summary=summary,
        gymnasium_id=f"asap/StrikerR{number}-v0",
        env=Striker(number - 1),
        task=standard_task(),
        basis="polynomial",
        inputs=("ball x", "ball y"),
        frequencies=(),
        misspecified=_ALONG_THE_PITCH,
        approximate=_AROUND_THE_GOAL,
        reference=reference,
        settings=_SOCCER_SETTINGS,
        play_settings={**_SOCCER_PLAYED, "run.episodes": episodes},
    )


def _two_rooms() -> CompiledTask:
    return CompiledTask(
        name="two-rooms",
        summary="2R: up through the door, then down to the goal",
        gymnasium_id="asap/TwoRooms-v0",
        env=Rooms(),
        task=read_map(TWO_ROOMS),
        basis="linear",
        inputs=("x", "y"),
        frequencies=(),
        misspecified=(-0.5, 0.0, 1.0),
        approximate=_AT_THE_WALL,
        reference=Reference(-383.7, 53.1, 71.3),
    )


def _flipped_two_rooms() -> CompiledTask:
    return CompiledTask(
        name="flipped-two-rooms",
        summary="flipped 2R: the mirror image of 2R, door below, goal above",
        gymnasium_id="asap/FlippedTwoRooms-v0",
        env=Rooms(),
        task=read_map(FLIPPED_TWO_ROOMS),
        basis="linear",
        inputs=("x", "y"),
        frequencies=(),
        misspecified=(-0.5, 0.0, 1.0),
        approximate=_AT_THE_WALL,
        reference=Reference(-383.7, 53.1, 71.3),
    )


def _three_rooms() -> CompiledTask:
    return CompiledTask(
        name="three-rooms",
        summary="3R: one skill is needed in two rooms that do not touch",
        gymnasium_id="asap/ThreeRooms-v0",
        env=Rooms(),
        task=read_map(THREE_ROOMS),
        basis="fourier",
        inputs=("x", "y"),
        frequencies=((3.0, 0.0),),
        misspecified=(0.01,),
        approximate=(1.0,),
        reference=Reference(-398.6, 30.7, 60.4),
    )


# Made when they are asked for: most runs need one of them, or none.
_MAKERS: dict[str, Callable[[], CompiledTask]] = {
    "two-rooms": _two_rooms,
    "flipped-two-rooms": _flipped_two_rooms,
    "three-rooms": _three_rooms,
    "striker-r1": functools.partial(
        _striker, 1, "R1: a striker against a goalkeeper", Reference(-0.083, 0.947, None), 15_000
    ),
    "striker-r2": functools.partial(
        _striker, 2, "R2: a striker against a goalkeeper and a defender", Reference(-0.185, 0.450, None), 40_000
    ),
    "striker-r3": functools.partial(
        _striker, 3, "R3: a striker against a goalkeeper and two defenders", Reference(-0.190, 0.101, None), 40_000
    ),
}
NAMES = tuple(_MAKERS)


@functools.cache
def find(name: str) -> CompiledTask:
    if name in _MAKERS:
        return _MAKERS[name]()
    near = nearest(name)
    cure = f"did you mean '{near}'?" if near else "see `asap tasks`"
    raise UserError("task", "unknown task", repr(name), cure)


def nearest(name: str) -> str | None:
    """The task that may have been meant."""
    return next(iter(difflib.get_close_matches(name, NAMES, 1, 0.4)), None)


def task_set(names_and_weights: tuple[tuple[str, float], ...]) -> CompiledTasks:
    """mu over named tasks of one family; tasks whose shapes differ cannot share a policy."""
    chosen = [find(name) for name, _ in names_and_weights]
    require_alike(chosen)
    return CompiledTasks.of(
        chosen[0].env, {t.name: t.task for t in chosen}, tuple(weight for _, weight in names_and_weights)
    )


def require_alike(tasks: Sequence[CompiledTask]) -> None:
    for other in tasks[1:]:
        _require_same_shapes(tasks[0], other)


def _require_same_shapes(first: CompiledTask, other: CompiledTask) -> None:
    def shapes(task: CompiledTask) -> tuple[tuple[str, ...], tuple[str, ...], int]:
        spec = task.env.spec
        return spec.observation_names, spec.action_names, len(task.descriptor)

    if type(first.env) is not type(other.env) or shapes(first) != shapes(other):
        sizes = [
            f"{len(obs)} observations, {len(act)} actions, {z} task numbers"
            for obs, act, z in map(shapes, (first, other))
        ]
        raise UserError(
            "tasks",
            f"'{first.name}' ({sizes[0]}) and '{other.name}' ({sizes[1]}) cannot share one policy",
            f"{first.name} {other.name}",
            "train them apart, or choose tasks of one shape",
        )


def checked_observation(obs: ArrayLike, names: tuple[str, ...]) -> Float[np.ndarray, "O"]:
    cure = f"give {', '.join(names)}, or rows of them"
    try:
        given = np.asarray(obs)
    except ValueError:  # Rows of different lengths.
        raise UserError("obs", "must be an array of numbers", f"a {type(obs).__name__}", cure) from None
    if given.dtype.kind not in "biuf":
        raise UserError("obs", "must be an array of numbers", f"a {type(obs).__name__}", cure)
    if given.shape != (len(names),):
        raise UserError("obs", f"must have shape ({len(names)},) or (n, {len(names)})", given.shape, cure)
    if given.dtype != np.float32:
        with np.errstate(over="ignore"):  # It becomes infinite, and is refused as such.
            given = given.astype(np.float32)
    finite = np.isfinite(given)
    if not finite.all():
        raise UserError("obs", "must be finite in 32 bits", given[~finite][0], cure)
    return given
