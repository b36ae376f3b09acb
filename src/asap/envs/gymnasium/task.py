"""Environments that are not ours: what the learner must know about one before workers play it."""

import itertools
import math
import numbers
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from gymnasium import Space, spaces
from jaxtyping import Float

from asap.base.errors import UserError
from asap.base.spec import Spec
from asap.envs.gymnasium import spaces as space_records
from asap.envs.gymnasium.actions import control
from asap.envs.gymnasium.checked_env import time_limit
from asap.envs.gymnasium.errors import EnvError, show
from asap.envs.gymnasium.isolation import Isolated, Surroundings
from asap.envs.gymnasium.make import EnvLimits, EnvSource, HostedSource
from asap.envs.gymnasium.names import GRID_COLUMNS, KNOWN, Names
from asap.envs.gymnasium.observations import reading
from asap.envs.gymnasium.spaces import bounds, check_spaces, num_numbers

DISCOUNT = 0.99
STEPS = 300_000  # Budget where the user says none.
FREQUENCIES = (0.25, 0.5)
LONGEST_NAME = 200  # Characters.
PLANES_OF_CONTROLS, MOST_PLANES, FEW_INPUTS = 2, 4, 6  # Where the user says nothing.
SETTINGS = (
    "policy.start=random",
    "policy.alpha_beta=4.0",
    "policy.bias=true",
    "run.eval_episodes=8",
    "run.final_episodes=100",
    "run.deterministic=true",
)
PLAY_SETTINGS = (
    "learn.critic_features=128",
    "learn.entropy=0.01",
    "learn.convergence_tolerance=0.0",
    "learn.averaging=3.0",
    "learn.softening_floor=0.02",
    "run.chunk=1",
    "run.candidates=256",
)


@dataclass(frozen=True)
class HostedTask:
    """A Gymnasium environment as a task that can be learned."""

    name: str
    source: EnvSource
    rules: EnvLimits
    spec: Spec
    threshold: float | None  # The mean return at which its makers call it solved.
    observation_space: Space
    action_space: Space
    basis: str = "linear"
    misspecified: tuple[float, ...] = ()
    approximate: tuple[float, ...] = ()
    is_recorded: bool = False  # Read from a file: nobody has looked at the environment in this process.

    @property
    def frequencies(self) -> tuple[tuple[float, ...], ...]:
        """One slow and one fast wave along every input, which is scaled to deviation 1."""
        count = len(self.inputs)
        return tuple(tuple(w * (i == j) for j in range(count)) for i in range(count) for w in FREQUENCIES)

    @property
    def is_scaled(self) -> bool:
        """Whether observations are scaled by what was seen; a place in a list is 0 or 1 and stays so."""
        return isinstance(self.observation_space, spaces.Box)

    @property
    def settings(self) -> tuple[str, ...]:
        """Where its defaults differ from those for tasks that we know: as many skills as actions, if there are not too
        many.

        Skills of a single action need a plane wherever the action changes: with many observations too few are found.
        """
        if self.spec.continuous:
            return (*SETTINGS, f"policy.hyperplanes={PLANES_OF_CONTROLS}", "policy.skills=linear")
        if not self.is_scaled:  # A weight for every place: skills need hardly any planes.
            return (*SETTINGS, "policy.hyperplanes=1", "policy.skills=linear")
        planes = min(max(1, (self.spec.num_actions - 1).bit_length()), MOST_PLANES)
        skills = "constant" if len(self.inputs) <= FEW_INPUTS else "linear"
        return (*SETTINGS, f"policy.hyperplanes={planes}", f"policy.skills={skills}")

    @property
    def play_settings(self) -> tuple[str, ...]:
        return PLAY_SETTINGS

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.spec.observation_names

    @property
    def descriptor(self) -> tuple[float, ...]:
        return ()

    @property
    def reference(self) -> None:
        """Nobody has measured any."""

    @property
    def hosted_source(self) -> HostedSource:
        return HostedSource(self.source, self.rules)

    @property
    def budget(self) -> tuple[str, ...]:
        return (f"run.steps={STEPS}",)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return self.observation_space.shape

    @property
    def actions(self) -> str:
        return str(self.action_space)

    def reader(self) -> Callable[[Any], Float[np.ndarray, "O"]]:
        read = reading(self.observation_space, lambda _: None)

        def checked(observation: Any) -> Float[np.ndarray, "O"]:
            try:
                return read(observation)
            except EnvError as error:
                cure = f"give what {self.name} returns, or several stacked on a first axis"
                raise UserError("obs", error.what, error.value or np.shape(observation), cure) from None

        return checked

    def actor(self) -> Callable[[Any], Any]:
        return control(self.action_space)

    def record(self) -> dict[str, Any]:
        return record(self)


def describe(source: EnvSource, rules: EnvLimits) -> HostedTask:
    """Makes the environment once, to look at it; raises UserError where it cannot be learned."""
    before, isolated = Surroundings.now(), Isolated()
    try:
        env = isolated.run(source.build)
        try:
            return _described(env, source, rules)
        finally:
            isolated.close(env)
    finally:
        before.restore()


def look_at(task: HostedTask, notice: Callable[[str], None]) -> None:
    """Makes the environment of a recorded task once, before it is played: it must still be what it was."""
    if task.is_recorded:
        require_fit(describe(task.source, task.rules), task, notice)


def require_fit(given: HostedTask, wanted: HostedTask, notice: Callable[[str], None]) -> None:
    """Spaces must be of the same kind and size. Other bounds are noted: a policy can be played within them."""
    for name in ("observation_space", "action_space"):
        has, needs = getattr(given, name), getattr(wanted, name)
        if _kind(has) != _kind(needs):
            raise UserError("env", f"{name} is {has}, the model was made for", needs, "give such an environment")
        if has != needs:
            notice(f"env: {name} has other bounds: it is {has}, the model was made for {needs}")


def _kind(space: Space) -> tuple:
    """What decides which numbers are observed, or which actions there are."""
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return type(space), repr(space)
    return type(space), space.shape, space.dtype.kind


def _described(env: Any, source: EnvSource, rules: EnvLimits) -> HostedTask:
    check_spaces(env.observation_space, env.action_space)
    spec = Spec(
        observation_names=_observation_names(env),
        unit="",
        action_names=_action_names(env),
        horizon=time_limit(env, rules),
        discount=DISCOUNT,
        **_spec_of_spaces(env.observation_space, env.action_space),
    )
    threshold = env.spec.reward_threshold if env.spec is not None else None
    if not _is_threshold(threshold):
        raise UserError(
            "env", "reward_threshold must be a finite number", show(threshold), "give its spec one, or none"
        )
    threshold = None if threshold is None else float(threshold)
    return HostedTask(source.name, source, rules, spec, threshold, env.observation_space, env.action_space)


def _is_threshold(value: Any) -> bool:
    try:
        return value is None or (isinstance(value, numbers.Real) and math.isfinite(value))
    except OverflowError:  # An integer can be larger than any float.
        return False


def _spec_of_spaces(observations: Space, actions: Space) -> dict[str, Any]:
    """What a policy must know of the spaces."""
    low, high = bounds(observations)
    told = {
        "observation_low": tuple(low.tolist()),
        "observation_high": tuple(high.tolist()),
        "numbered": isinstance(observations, spaces.Discrete),
    }
    if not isinstance(actions, spaces.Box):
        return told | {"continuous": False}
    low, high = (tuple(np.asarray(bound, float).ravel().tolist()) for bound in (actions.low, actions.high))
    return told | {"continuous": True, "action_low": low, "action_high": high}


def _observation_names(env: Any) -> tuple[str, ...]:
    space = env.observation_space
    told = _told(env, "observation_names", num_numbers(space)) or _fitting(_known(env).observations, num_numbers(space))
    if told:
        return told
    if isinstance(space, spaces.Discrete):
        columns = GRID_COLUMNS[_stem(env)](env.unwrapped) if _stem(env) in GRID_COLUMNS else None
        states = range(int(space.start), int(space.start + space.n))
        return tuple(f"state {s}" if columns is None else f"row {s // columns} column {s % columns}" for s in states)
    if isinstance(space, spaces.MultiDiscrete):
        pairs = zip(_numbered("obs", space.shape), space.start.ravel(), space.nvec.ravel())
        return tuple(f"{name} is {start + value}" for name, start, count in pairs for value in range(count))
    return _numbered("obs", space.shape)


def _action_names(env: Any) -> tuple[str, ...]:
    space, known = env.action_space, _known(env)
    is_discrete = isinstance(space, spaces.Discrete)
    told = _told(env, "action_names", num_numbers(space))
    named = told or _fitting(known.actions if is_discrete else known.controls, num_numbers(space))
    if named:
        return named
    if is_discrete:
        return tuple(f"action {int(space.start) + a}" for a in range(int(space.n)))
    return _numbered("action", space.shape or (1,))


def _told(env: Any, name: str, count: int) -> tuple[str, ...]:
    """Names that the environment itself gives, by an attribute or in its metadata; empty if they do not fit."""
    for look in (lambda: getattr(env.unwrapped, name), lambda: env.metadata[name]):
        try:
            told = tuple(" ".join(str(each).split()) for each in itertools.islice(look(), count + 1))
        except Exception:  # There may be anything by that name, or nothing.
            continue
        if _fitting(told, count) and all(map(_is_name, told)):
            return told
    return ()


def _fitting(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    return names if len(set(names)) == count else ()


def _is_name(text: Any) -> bool:
    """Fit to be printed, and short enough to be read."""
    return isinstance(text, str) and text.isprintable() and len(text) <= LONGEST_NAME


def _known(env: Any) -> Names:
    return KNOWN.get(_stem(env), Names())


def _stem(env: Any) -> str:
    """The environment's id without its version."""
    return env.spec.id.partition("-v")[0] if env.spec is not None else ""


def _numbered(name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    places = itertools.product(*(range(size) for size in shape))
    return tuple(f"{name} {','.join(str(i) for i in place)}" for place in places)


def record(task: HostedTask) -> dict[str, Any]:
    """All that a policy for the task needs to be used again, as JSON has it; the environment itself stays outside."""
    spec = {name: value for name, value in asdict(task.spec).items() if name not in _OF_SPACES}
    return {
        "name": task.name,
        "options": task.source.options if task.source.make is None else {},
        "rules": list(task.rules),
        "spec": spec,
        "reward_threshold": task.threshold,
        "observation_space": space_records.record(task.observation_space),
        "action_space": space_records.record(task.action_space),
    }


_OF_SPACES = ("observation_low", "observation_high", "continuous", "action_low", "action_high", "numbered")


def _checked_spec(spec: Spec, name: str) -> Spec:
    """A stranger may have written it: names must be fit to be printed, and numbers be numbers."""
    if not (isinstance(spec.observation_names, tuple) and isinstance(spec.action_names, tuple)):
        raise ValueError("names are lists")
    for text in (name, *spec.observation_names, *spec.action_names):
        if not _is_name(text):
            raise ValueError(f"{text!r} is no name")
    if (type(spec.horizon), type(spec.discount)) != (int, float) or spec.horizon < 1 or not 0 <= spec.discount <= 1:
        raise ValueError("no horizon or discount")
    if spec.unit or spec.place:
        raise ValueError("units and places are of our own tasks")
    return spec


def restore(told: dict[str, Any]) -> HostedTask:
    """The task of a record, checked: its numbers decide shapes."""
    try:
        spaces_ = [space_records.restore(told[name]) for name in ("observation_space", "action_space")]
        check_spaces(*spaces_)
        spec = {name: tuple(value) if isinstance(value, list) else value for name, value in told["spec"].items()}
        spec = _checked_spec(Spec(**{**spec, **_spec_of_spaces(*spaces_)}), str(told["name"]))
        source, rules = EnvSource(str(told["name"]), dict(told["options"])), EnvLimits.checked(*told["rules"])
        sizes = [num_numbers(space) for space in spaces_]
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, AssertionError) as error:
        raise UserError("task", "cannot be read from the file", type(error).__name__, "save it again") from None
    if sizes != [len(spec.observation_names), spec.num_actions]:
        raise UserError("task", "names and spaces in the file do not fit", sizes, "save it again")
    threshold = told.get("reward_threshold")
    if not _is_threshold(threshold):
        raise UserError("task", "has a reward threshold that is no number", repr(threshold)[:80], "save it again")
    return HostedTask(source.name, source, rules, spec, threshold, *spaces_, is_recorded=True)
