"""What is fixed about a task, for all who learn it, play it or show it. Nothing here imports JAX."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from asap.base.episodes import EpisodeId


def base_of(name: str) -> str:
    """The name of a task without its parameters."""
    return name.partition("?")[0]


def short_name(names: Sequence[str]) -> str:
    """Of a run, for its folder and its lines: parameters of many tasks would fill a screen."""
    bases = dict.fromkeys(map(base_of, names))
    return "+".join(names) if bases == dict.fromkeys(names) else f"{'+'.join(bases)}-varied"


class Unit(NamedTuple):
    """What a number is read in: scale * number + shift, with a name where it has one."""

    name: str = ""
    scale: float = 1.0
    shift: float = 0.0

    def read(self, value: float) -> float:
        return self.scale * value + self.shift


@dataclass(frozen=True)
class Spec:
    """What is fixed about a family of tasks."""

    observation_names: tuple[str, ...]
    observation_low: tuple[float, ...]
    observation_high: tuple[float, ...]
    action_names: tuple[str, ...]
    horizon: int
    discount: float
    continuous: bool = False  # Actions are vectors, and action_names their dimensions.
    action_low: tuple[float, ...] = ()  # Of continuous actions, in the environment's units; infinite without a bound.
    action_high: tuple[float, ...] = ()
    numbered: bool = False  # Observations are states by their number: one of them is 1, all others 0.
    normalized: bool = False  # Observations are in the units of a running mean and deviation, which drift.
    place: str = ""  # What a map of the states is drawn on; empty where nobody has drawn one.
    units: tuple[Unit, ...] = ()  # Of observations; empty where they are read as they are.
    descriptor_names: tuple[str, ...] = ()  # Of the numbers of m; what has none is called m1, m2, ...
    descriptor_units: tuple[Unit, ...] = ()

    @property
    def num_actions(self) -> int:
        return len(self.action_names)


@dataclass(frozen=True)
class Reference:
    """Mean undiscounted returns that results are read against; `asap tasks NAME --measure` makes them anew."""

    misspecified: float  # The start: misspecified partition, uniform skills.
    approx_optimal: float  # The approximately optimal partition, held fixed, with learned skills; in soccer, dist:12.
    dp_optimal: float | None  # Dynamic programming over states and actions, where that is possible.

    @property
    def best(self) -> float:
        """The highest of them."""
        return self.approx_optimal if self.dp_optimal is None else self.dp_optimal

    @property
    def near_optimal(self) -> float:
        """95 % of the way from the misspecified start to the approximately optimal partition."""
        return self.misspecified + 0.95 * (self.approx_optimal - self.misspecified)


class Drawn(NamedTuple):
    """A number of m that each episode draws anew: by which name, and how far from its middle; 0 where it is fixed."""

    name: str
    spread: float

    def offset(self, episode: EpisodeId) -> float:
        return self.spread * (2 * episode.drawn(self.name) - 1) if self.spread else 0.0


def descriptor_in(episode: EpisodeId, middle: Sequence[float], drawn: Sequence[Drawn]) -> Float[np.ndarray, "Z"]:
    """m of an episode of a task."""
    return np.asarray([m + one.offset(episode) for m, one in zip(middle, drawn)], np.float32)


def points_of(task: "Task") -> tuple[tuple[float, ...], ...]:
    """m of a task; where episodes draw numbers of it, the lowest, the middle and the highest."""
    if not task.drawn:
        return (task.descriptor,)
    pairs = list(zip(task.descriptor, task.drawn, strict=True))
    return tuple(tuple(m + side * one.spread for m, one in pairs) for side in (-1, 0, 1))


@runtime_checkable
class Task(Protocol):
    """One task: what its policy is built from and its results are read against, whoever plays it."""

    name: str

    @property
    def spec(self) -> Spec: ...

    @property
    def descriptor(self) -> tuple[float, ...]:
        """m: the numbers that tell this task from others of its family."""
        ...

    @property
    def drawn(self) -> tuple[Drawn, ...]:
        """What of m each episode draws anew, number by number; empty where nothing is. `descriptor` has the middle."""
        ...

    @property
    def is_scaled(self) -> bool:
        """Whether observations are scaled by what was seen."""
        ...

    @property
    def threshold(self) -> float | None:
        """The mean return from which on the task counts as solved."""
        ...

    @property
    def reference(self) -> Reference | None: ...

    # Features and start of a policy, as in PolicyConfig.
    @property
    def basis(self) -> str: ...

    @property
    def inputs(self) -> tuple[str, ...]: ...

    @property
    def frequencies(self) -> tuple[tuple[float, ...], ...]: ...

    @property
    def misspecified(self) -> tuple[float, ...]:
        """beta of the first hyperplane; empty where there is no such thing."""
        ...

    @property
    def approximate(self) -> tuple[float, ...]: ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Where its defaults differ from the general ones, by the keys of settings."""
        ...

    @property
    def play_settings(self) -> Mapping[str, Any]:
        """The same, where it is learned by playing and not from logged data."""
        ...

    @property
    def budget_settings(self) -> tuple[tuple[int, Mapping[str, Any]], ...]:
        """Where the defaults differ again, from so many steps of budget on; larger ones add to smaller ones."""
        ...

    @property
    def data_settings(self) -> Mapping[str, Any]:
        """Where its defaults differ, if it is learned from logged data and not by playing."""
        ...

    @property
    def budget(self) -> Mapping[str, Any]:
        """Settings of the budget where the user says none."""
        ...

    # What a user's program gives and takes.
    @property
    def observation_shape(self) -> Any:
        """Of an observation as the user has it; of one made of parts, those of the parts by their keys."""
        ...

    @property
    def actions(self) -> str:
        """What there is to choose from, for messages."""
        ...

    def reader(self) -> Callable[[Any], Float[np.ndarray, "O"]]:
        """From what the user has observed to what a policy sees; raises UserError."""
        ...

    def actor(self) -> Callable[[Any], Any]:
        """From a policy's action to what is done with it outside."""
        ...

    def record(self) -> dict[str, Any] | None:
        """What a saved model keeps of the task, as JSON has it; None where its name says all."""
        ...


@dataclass(frozen=True)
class TaskSet:
    """mu(m): tasks of one family with their weights. One task is the set with one member."""

    tasks: tuple[Task, ...]
    weights: tuple[float, ...]

    @property
    def size(self) -> int:
        return len(self.tasks)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(task.name for task in self.tasks)

    @property
    def spec(self) -> Spec:
        return self.tasks[0].spec

    @property
    def shares(self) -> Float[np.ndarray, "M"]:
        """The weights, with sum 1."""
        return np.asarray(self.weights, float) / np.sum(self.weights)

    @property
    def descriptors(self) -> Float[np.ndarray, "M Z"]:
        return np.asarray([task.descriptor for task in self.tasks], np.float32).reshape(self.size, -1)

    @property
    def has_ranges(self) -> bool:
        """Whether episodes draw numbers of m."""
        return any(task.drawn for task in self.tasks)

    @property
    def is_part_of_family(self) -> bool:
        """One task alone, with the numbers by which it differs from others that are not here."""
        task = self.tasks[0]
        return self.size == 1 and bool(task.descriptor) and not task.drawn and task.record() is not None

    def descriptor_of(self, episode: EpisodeId) -> Float[np.ndarray, "Z"]:
        task = self.tasks[episode.task]
        return descriptor_in(episode, task.descriptor, task.drawn) if task.drawn else self.descriptors[episode.task]

    @property
    def is_scaled(self) -> bool:
        return self.tasks[0].is_scaled

    @property
    def names_say_all(self) -> bool:
        """Whether another name is another task; an environment may come by another name."""
        return all(task.record() is None for task in self.tasks)


class ControlUnits(NamedTuple):
    """Numbers of an action in the policy's units and in the environment's. With two bounds, -1 and 1 are these;
    otherwise both units are the same."""

    low: Float[np.ndarray, "A"]
    high: Float[np.ndarray, "A"]
    scale: Float[np.ndarray, "A"]
    shift: Float[np.ndarray, "A"]

    @classmethod
    def of_bounds(cls, low: ArrayLike, high: ArrayLike) -> "ControlUnits":
        """In the environment's units; infinite without a bound."""
        low, high = (np.asarray(bound, float).ravel() for bound in (low, high))
        has_both = np.isfinite(low) & np.isfinite(high)
        half_low, half_high = (np.where(has_both, bound, 0.0) / 2 for bound in (low, high))
        width = half_high - half_low
        return cls(low, high, np.where(has_both & (width > 0), width, 1.0), half_low + half_high)

    @classmethod
    def of(cls, space: Any) -> "ControlUnits":
        """Of a Box: its bounds are all that is needed, so Gymnasium is not imported here."""
        return cls.of_bounds(space.low, space.high)

    def ours(self, action: Float[np.ndarray, "*n A"]) -> Float[np.ndarray, "*n A"]:
        """From the environment's units."""
        return (action - self.shift) / self.scale

    def theirs(self, action: Float[np.ndarray, "*n A"]) -> Float[np.ndarray, "*n A"]:
        """To the environment's units, within the bounds."""
        return np.clip(action * self.scale + self.shift, self.low, self.high)

    def clipped(self, action: Float[np.ndarray, "*n A"]) -> Float[np.ndarray, "*n A"]:
        """As the environment gets to see it, in our units."""
        return self.ours(self.theirs(action))
