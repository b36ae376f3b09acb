"""Environments that are not ours: what the learner must know about one before workers play it."""

import contextlib
import dataclasses
import math
import numbers
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, TypeVar

import gymnasium
import numpy as np
from gymnasium import Space, spaces
from gymnasium.wrappers import NormalizeObservation, NormalizeReward
from jaxtyping import Float

from asap.base.errors import UserError
from asap.base.spec import Drawn, Spec
from asap.envs.gymnasium import defaults
from asap.envs.gymnasium import spaces as space_records
from asap.envs.gymnasium.checked_env import time_limit
from asap.envs.gymnasium.errors import EnvError, show
from asap.envs.gymnasium.isolation import Isolated, Surroundings
from asap.envs.gymnasium.make import NO_ENV, EnvLimits, EnvSource, HostedSource, require_env
from asap.envs.gymnasium.names import action_names, is_name, observation_names
from asap.envs.gymnasium.observations import reading
from asap.envs.gymnasium.spaces import bounds, check_spaces, control, shape_of
from asap.envs.gymnasium.variant import require_kept, settable_of

Described = TypeVar("Described")

DISCOUNT = 0.99
FREQUENCIES = (0.25, 0.5)


@dataclass(frozen=True)
class EnvTask:
    """An environment that is not ours as a task that can be learned, whoever plays it."""

    name: str
    source: EnvSource
    limits: EnvLimits
    spec: Spec
    threshold: float | None  # The mean return at which its makers call it solved.
    observation_space: Space
    action_space: Space
    notes: tuple[str, ...] = ()  # What the user should know before it is learned; not kept in files.
    is_recorded: bool = False  # Read from a file: nobody has looked at the environment in this process.
    descriptor: tuple[float, ...] = ()  # Of a family: see `asap.envs.gymnasium.family`.
    drawn: tuple[Drawn, ...] = ()
    own_values: Mapping[str, float] = dataclasses.field(
        default_factory=dict
    )  # The environment's numbers without parameters.
    recorded_values: Mapping[str, float] = dataclasses.field(
        default_factory=dict
    )  # Those of them that its family needs.
    basis: ClassVar[str] = "linear"
    misspecified: ClassVar[tuple[float, ...]] = ()
    approximate: ClassVar[tuple[float, ...]] = ()
    reference: ClassVar[None] = None  # Nobody has measured any.
    play_settings: ClassVar[Mapping[str, Any]] = defaults.PLAY_SETTINGS
    data_settings: ClassVar[Mapping[str, Any]] = defaults.DATA_SETTINGS
    budget: ClassVar[Mapping[str, Any]] = {"run.steps": 300_000}

    @property
    def frequencies(self) -> tuple[tuple[float, ...], ...]:
        """One slow and one fast wave along every input, which is scaled to deviation 1."""
        count = len(self.inputs)
        return tuple(tuple(w * (i == j) for j in range(count)) for i in range(count) for w in FREQUENCIES)

    @property
    def is_scaled(self) -> bool:
        """Whether observations are scaled by what was seen; where all are places in lists, 0 or 1, they stay so."""
        return _has_box(self.observation_space)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Where its defaults differ from the general ones."""
        return defaults.settings_of(self.spec, self.is_scaled)

    @property
    def budget_settings(self) -> tuple[tuple[int, Mapping[str, Any]], ...]:
        return defaults.by_steps(self.spec, self.is_scaled)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.spec.observation_names

    @property
    def observation_shape(self) -> Any:
        return shape_of(self.observation_space)

    @property
    def actions(self) -> str:
        return str(self.action_space)

    def reader(self) -> Callable[[Any], Float[np.ndarray, "O"]]:
        """Of a Dict also the vector that stands for it."""
        read, size = reading(self.observation_space, lambda _: None), (len(self.inputs),)
        vector = reading(spaces.Box(-np.inf, np.inf, size), lambda _: None)
        is_dict = isinstance(self.observation_space, spaces.Dict)

        def checked(observation: Any) -> Float[np.ndarray, "O"]:
            try:
                is_vector = is_dict and not isinstance(observation, Mapping) and _shape(observation) == size
                return vector(observation) if is_vector else read(observation)
            except EnvError as error:
                cure = f"give what {self.name} returns, or several stacked on a first axis"
                got = list(observation) if isinstance(observation, Mapping) else _shape(observation)
                raise UserError("obs", error.what, error.value or got, cure) from None

        return checked

    def actor(self) -> Callable[[Any], Any]:
        return control(self.action_space)

    def record(self) -> dict[str, Any]:
        """All that a policy for the task needs to be used again, as JSON has it; the environment itself stays outside.

        Numbers of its family follow from the names of all tasks, and the environment's own values.
        """
        spec = replace(self.spec, descriptor_names=(), descriptor_units=())
        return {
            "name": self.name,
            "options": self.source.options if self.source.make is None else {},
            "rules": list(self.limits),
            "spec": {name: value for name, value in asdict(spec).items() if name not in _OF_SPACES},
            "reward_threshold": self.threshold,
            "observation_space": space_records.record(self.observation_space),
            "action_space": space_records.record(self.action_space),
            **({"own_values": dict(self.recorded_values)} if self.recorded_values else {}),
        }


@dataclass(frozen=True)
class HostedTask(EnvTask):
    """A Gymnasium environment, which workers play."""

    @property
    def hosted_source(self) -> HostedSource:
        return HostedSource(self.source, self.limits)


_OF_SPACES = ("observation_low", "observation_high", "continuous", "action_low", "action_high", "numbered")


def _shape(value: Any) -> tuple[int, ...] | None:
    try:
        return np.shape(value)
    except ValueError:  # Rows of different lengths.
        return None


def describe(source: EnvSource, limits: EnvLimits) -> HostedTask:
    """Makes the environment once, to look at it; raises UserError where it cannot be learned."""
    notes: list[str] = []
    look = lambda env: described_env(require_env(env, source.name), source, limits, notes)  # noqa: E731
    return seen_from(source, look, notes.append)


def seen_from(
    source: EnvSource, look: Callable[[Any], Described], note: Callable[[str], None] = lambda text: None
) -> Described:
    """What somebody says who looks at the environment, which is made for that."""
    before, isolated = Surroundings.now(), Isolated()
    try:
        env = isolated.run(source.made, note)
        try:
            return isolated.run(look, env)
        finally:
            isolated.close(env)
    finally:
        before.restore()


def look_at(task: HostedTask, notice: Callable[[str], None]) -> None:
    """Makes the environment of a recorded task once, before it is played: it must still be what it was."""
    if task.is_recorded:
        require_fit(describe(task.source, task.limits), task, notice)


def require_fit(given: EnvTask, wanted: EnvTask, notice: Callable[[str], None]) -> None:
    """Spaces must be of the same kind and size. Other bounds are noted: a policy can be played within them."""
    for name in ("observation_space", "action_space"):
        has, needs = getattr(given, name), getattr(wanted, name)
        if kind_of_space(has) != kind_of_space(needs):
            what = f"{name} must be like {needs}, for which the model was made"
            raise UserError("env", what, has, "give another one")
        if space_records.record(has) != space_records.record(needs):
            notice(f"env: {name} has other bounds: it is {has}, the model was made for {needs}")


def kind_of_space(space: Space) -> tuple:
    """What decides which numbers are observed, or which actions there are."""
    if isinstance(space, spaces.Dict):
        return type(space), *((key, kind_of_space(part)) for key, part in space.spaces.items())
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return type(space), repr(space)
    return type(space), space.shape, space.dtype.kind


def _has_box(space: Space) -> bool:
    if isinstance(space, spaces.Dict):
        return any(map(_has_box, space.spaces.values()))
    return isinstance(space, spaces.Box)


def _with_values(task: HostedTask, env: Any) -> HostedTask:
    """With the numbers of its environment, if parameters can be set and stay when it is reset."""
    with contextlib.suppress(Exception):  # What `reset` does wrong is told when it is played.
        env.reset(seed=0)
    require_kept(task.source, env)
    return replace(task, own_values=settable_of(task.source).known())


def with_own_values(task: HostedTask) -> HostedTask:
    """Of a task without parameters, in a family where others have some."""
    if task.own_values or task.is_recorded or task.source.is_lent or task.source.named_by:
        return task
    before, isolated = Surroundings.now(), Isolated()
    try:
        return replace(task, own_values=isolated.run(settable_of, task.source).known())
    finally:
        isolated.release()
        before.restore()


def described_env(env: Any, source: EnvSource, limits: EnvLimits, more: Iterable[str] = ()) -> HostedTask:
    """What is to be known of an environment; `more` are notes on how it was made."""
    check_spaces(env.observation_space, env.action_space)
    notes = [*more] + [
        f"{wrapper.__name__}: its numbers drift while it runs, so {harm}; ASAP scales {scaled} itself: leave the wrapper out"
        for wrapper, (harm, scaled) in _NOTES.items()
        if _is_within(env, wrapper)
    ]
    spec = Spec(
        observation_names=observation_names(env, notes.append),
        action_names=action_names(env, notes.append),
        horizon=time_limit(env, limits),
        discount=DISCOUNT,
        normalized=_is_within(env, NormalizeObservation),
        **spec_of_spaces(env.observation_space, env.action_space),
    )
    # With other numbers it is another task, which its makers have not judged.
    has_threshold = env.spec is not None and not source.named.parameters
    threshold = env.spec.reward_threshold if has_threshold else None
    if not is_threshold(threshold):
        cure = "give its spec one, or none"
        raise UserError("env", "reward_threshold must be a finite number", show(threshold), cure)
    threshold = None if threshold is None else float(threshold)
    seen = env.observation_space, env.action_space
    task = HostedTask(source.name, source, limits, spec, threshold, *seen, tuple(notes))
    return _with_values(task, env) if source.named.parameters else task


_NOTES = {  # Why to leave a wrapper out, and what ASAP scales itself.
    NormalizeObservation: ("rules over them are not in the environment's units", "observations"),
    NormalizeReward: ("returns are not the environment's", "advantages"),
}


def _is_within(env: Any, wrapper: type[gymnasium.Wrapper]) -> bool:
    """Whether it is among the environment's wrappers."""
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, wrapper):
            return True
        env = env.env
    return False


def is_threshold(value: Any) -> bool:
    try:
        return value is None or (isinstance(value, numbers.Real) and math.isfinite(value))
    except OverflowError:  # An integer can be larger than any float.
        return False


def spec_of_spaces(observations: Space, actions: Space) -> dict[str, Any]:
    """What a policy must know of the spaces."""
    low, high = (tuple(bound.tolist()) for bound in bounds(observations))
    fields = {"observation_low": low, "observation_high": high, "numbered": isinstance(observations, spaces.Discrete)}
    if not isinstance(actions, spaces.Box):
        return fields | {"continuous": False}
    low, high = (tuple(np.asarray(bound, float).ravel().tolist()) for bound in (actions.low, actions.high))
    return fields | {"continuous": True, "action_low": low, "action_high": high}


def without_env(
    observation_names: Iterable[str], action_names: Iterable[str], action_low: Any = None, action_high: Any = None
) -> HostedTask:
    """A task of names alone, for rules that nobody plays here: its policy can be read, asked, drawn and saved."""
    low, high = action_low, action_high
    observation_names, action_names = tuple(observation_names), tuple(action_names)
    for field, names in (("observation_names", observation_names), ("action_names", action_names)):
        if not names or len(set(names)) != len(names) or not all(map(is_name, names)):
            raise UserError(field, "must be different names, at least one", show(names), "give a list of texts")
    count = len(action_names)
    if (low is None) != (high is None):
        raise UserError("action_low", "needs action_high", show(low), "give both bounds of numbers to set, or none")
    observed = spaces.Box(-np.inf, np.inf, (len(observation_names),), np.float32)
    if low is None:
        action_space: Space = spaces.Discrete(count)
    else:
        try:
            bounds = [np.broadcast_to(np.asarray(bound, np.float32), (count,)) for bound in (low, high)]
            action_space = spaces.Box(*bounds, dtype=np.float32)
        except (TypeError, ValueError, AssertionError):
            raise UserError("action_low", "must hold a number per action", show(low), "give lists of bounds") from None
    shape = {"observation_names": observation_names, "action_names": action_names, "horizon": 1000}
    spec = Spec(**shape, discount=DISCOUNT, **spec_of_spaces(observed, action_space))
    return HostedTask(NO_ENV, EnvSource(NO_ENV), EnvLimits(), spec, None, observed, action_space, is_recorded=True)
