"""The tasks that have a name, each with its oracle: how a policy starts misspecified, and what good looks like."""

import difflib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from asap.base.errors import UserError
from asap.base.spec import Drawn, Reference, Spec, TaskSet
from asap.base.types import TaskParameters
from asap.envs.core import CompiledTasks, Env
from asap.envs.gymnasium.parameters import Named, parse
from asap.envs.gymnasium.registration import IDS
from asap.envs.rooms import FLIPPED_TWO_ROOMS, THREE_ROOMS, TWO_ROOMS, Rooms, changed_rooms, read_map
from asap.envs.soccer.half_field import Striker, standard_task


@dataclass(frozen=True)
class CompiledTask:
    """A task with the features the paper gives it, the partition it starts from, and its references."""

    name: str
    summary: str
    env: Env
    task: TaskParameters
    basis: str  # As in PolicyConfig.
    inputs: tuple[str, ...]
    frequencies: tuple[tuple[float, ...], ...]
    misspecified: tuple[float, ...]  # beta of the first hyperplane.
    approximate: tuple[float, ...]
    reference: Reference | None  # None where nobody has measured any.
    settings: Mapping[str, Any] = field(default_factory=dict)  # Where its defaults differ from the general ones.
    play_settings: Mapping[str, Any] = field(default_factory=dict)  # The same, where it is learned by playing.
    drawn: ClassVar[tuple[Drawn, ...]] = ()
    budget_settings: ClassVar[tuple[tuple[int, Mapping[str, Any]], ...]] = ()
    is_scaled: ClassVar[bool] = False  # The bounds of its observations are known.
    data_settings: ClassVar[Mapping[str, Any]] = {}
    budget: ClassVar[Mapping[str, Any]] = {}

    @property
    def gymnasium_id(self) -> str:
        if self.name not in IDS:
            raise UserError("task", "with parameters it is no Gymnasium environment", self.name, "leave them out")
        return IDS[self.name]

    @property
    def spec(self) -> Spec:
        return self.env.spec

    @functools.cached_property
    def descriptor(self) -> tuple[float, ...]:
        return tuple(np.asarray(self.env.descriptor(self.task), np.float32).tolist())

    @property
    def threshold(self) -> float | None:
        return None if self.reference is None else self.reference.near_optimal

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


# A vertical cut at the wall; the scale makes it a step rather than a slope: with alpha_beta 20, from 10 % to 90 % in
# 0.04 m.
_AT_THE_WALL = (-2.5, 5.0, 0.0)
_TWO_ROOMS = ("linear", ("x", "y"), (), (-0.5, 0.0, 1.0), _AT_THE_WALL, Reference(-383.7, 53.1, 71.3))
_THREE_ROOMS = ("fourier", ("x", "y"), ((3.0, 0.0),), (0.01,), (1.0,), Reference(-398.6, 30.7, 60.4))
_ROOMS = {
    "two-rooms": ("2R: up through the door, then down to the goal", TWO_ROOMS, _TWO_ROOMS),
    "flipped-two-rooms": ("flipped 2R: the mirror image of 2R, door below, goal above", FLIPPED_TWO_ROOMS, _TWO_ROOMS),
    "three-rooms": ("3R: one skill is needed in two rooms that do not touch", THREE_ROOMS, _THREE_ROOMS),
}

# Dribble on the right wing and shoot on the left, or the other way round: y = 0 cuts the pitch. The disc has a radius
# of 12 m around the goal's centre, in the normalised coordinates of the ball: 1, x, y, x^2, x y, y^2.
_ALONG_THE_PITCH = (0.0, 0.0, 0.05)
_AROUND_THE_GOAL = (-0.5451, 1.6538, 0.0, -0.9923, 0.0, -1.3988)
_SOCCER = ("polynomial", ("ball x", "ball y"), (), _ALONG_THE_PITCH, _AROUND_THE_GOAL)
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
_STRIKERS = {  # Summary, defenders, reference, budget in episodes.
    "striker-r1": ("R1: a striker against a goalkeeper", 0, Reference(-0.083, 0.947, None), 15_000),
    "striker-r2": ("R2: a striker against a goalkeeper and a defender", 1, Reference(-0.185, 0.450, None), 40_000),
    "striker-r3": ("R3: a striker against a goalkeeper and two defenders", 2, Reference(-0.190, 0.101, None), 40_000),
}
NAMES = (*_ROOMS, *_STRIKERS)


@functools.cache
def find(name: str) -> CompiledTask:
    """Made when it is asked for: most runs need one of them, or none. Rooms may have parameters: `two-rooms?door=0.4`."""
    given = parse(name)
    if given.parameters:
        return _with_parameters(find(given.base), given)
    if name in _ROOMS:
        summary, drawing, start = _ROOMS[name]
        return CompiledTask(name, summary, Rooms(), read_map(drawing), *start)
    if name in _STRIKERS:
        summary, defenders, reference, episodes = _STRIKERS[name]
        settings = _SOCCER_SETTINGS, {**_SOCCER_PLAYED, "run.episodes": episodes}
        return CompiledTask(name, summary, Striker(defenders), standard_task(), *_SOCCER, reference, *settings)
    near = nearest(name)
    raise UserError("task", "unknown task", repr(name), f"did you mean '{near}'?" if near else "see `asap tasks`")


def _with_parameters(task: CompiledTask, given: Named) -> CompiledTask:
    """Rooms whose doors or goal are elsewhere; nobody has measured references for them."""
    if not isinstance(task.env, Rooms):
        what = "has no parameters to set"
        raise UserError("task", f"{task.name} {what}", given.text, f"choose from {', '.join(_ROOMS)}")
    if given.has_ranges:
        what, cure = "episodes of Gymnasium environments alone draw from ranges", "name a task of each value"
        raise UserError("task", what, given.text, cure)
    rooms = changed_rooms(task.task, {one.name: one.low for one in given.parameters})
    return replace(task, name=given.text, task=rooms, reference=None)


def nearest(name: str) -> str | None:
    """The task that may have been meant."""
    return next(iter(difflib.get_close_matches(name, NAMES, 1, 0.4)), None)


def task_set(names_and_weights: tuple[tuple[str, float], ...]) -> CompiledTasks:
    """mu over named tasks of one family; tasks whose shapes differ cannot share a policy."""
    names, weights = zip(*names_and_weights)
    return compiled(TaskSet(tuple(map(find, names)), weights))


def compiled(tasks: TaskSet) -> CompiledTasks:
    """Tasks of one family, named or made from one that has a name."""
    require_alike(tasks.tasks)
    return CompiledTasks.of(tasks.tasks[0].env, {task.name: task.task for task in tasks.tasks}, tasks.weights)


def require_alike(tasks: Sequence[CompiledTask]) -> None:
    def shapes(task: CompiledTask) -> tuple[tuple[str, ...], tuple[str, ...], int]:
        return task.spec.observation_names, task.spec.action_names, len(task.descriptor)

    def described(task: CompiledTask) -> str:
        observations, actions, z = shapes(task)
        return f"'{task.name}' ({len(observations)} observations, {len(actions)} actions, {z} task numbers)"

    for first, other in ((tasks[0], other) for other in tasks[1:]):
        if type(first.env) is not type(other.env) or shapes(first) != shapes(other):
            what = f"{described(first)} and {described(other)} cannot share one policy"
            cure = "train them apart, or choose tasks of one shape"
            raise UserError("tasks", what, f"{first.name} {other.name}", cure)


def checked_observation(obs: ArrayLike, names: tuple[str, ...]) -> Float[np.ndarray, "O"]:
    cure = f"give {', '.join(names)}, or rows of them"
    try:
        given = np.asarray(obs)
    except ValueError:  # Rows of different lengths.
        given = np.empty(0, object)
    if given.dtype.kind not in "biuf":
        raise UserError("obs", "must be an array of numbers", f"a {type(obs).__name__}", cure)
    if given.shape != (len(names),):
        raise UserError("obs", f"must have shape ({len(names)},) or (n, {len(names)})", given.shape, cure)
    if given.dtype != np.float32:
        with np.errstate(over="ignore"):  # What is too large becomes infinite, and is refused as such.
            given = given.astype(np.float32)
    finite = np.isfinite(given)
    if not finite.all():
        raise UserError("obs", "must be finite in 32 bits", given[~finite][0], cure)
    return given
