"""What is taken for a JAX environment: methods `reset_env(key, params)` and `step_env(key, state, action, params)`, as
gymnax has them. Its spaces, its parameters and its time limit are found by their names; no package is imported.
"""

import dataclasses
import importlib
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import Space, spaces

from asap.base.errors import UserError
from asap.envs.gymnasium.make import EnvNotMade, EnvSource
from asap.envs.gymnasium.parameters import FIELD
from asap.envs.gymnasium.registration import did_you_mean
from asap.envs.gymnasium.variant import MOST_KNOWN, Settable, like, unknown

GYMNAX = "gymnax:"  # What follows is a name for `gymnax.make`.
LIMITS = ("max_steps_in_episode", "max_steps", "max_episode_steps", "episode_length")  # Fields of parameters.
BEYOND = 1 << 30  # Steps that no episode has.
_others: set[Any] = set()  # What is no JAX environment: it is made anew for each episode of a range.


class JaxSource(NamedTuple):
    """An environment with its parameters; None where it has none."""

    env: Any
    params: Any

    @classmethod
    def of(cls, origin: Any) -> "JaxSource | None":
        """From an environment, or a pair (environment, parameters); None for anything else."""
        if isinstance(origin, cls):
            return origin
        is_pair = isinstance(origin, tuple) and len(origin) == 2
        env = origin[0] if is_pair else origin
        if isinstance(env, type) or not all(callable(getattr(env, name, None)) for name in ("reset_env", "step_env")):
            return None
        params = origin[1] if is_pair else None
        if params is None:
            params = getattr(env, "default_params", None)
            params = params() if callable(params) and not fields_of(params) else params
        return cls(env, params)


def make_gymnax(name: str, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """What `gymnax.make` gives for a name. Options that are called like parameters take their place."""
    try:
        gymnax = importlib.import_module(GYMNAX[:-1])
    except ModuleNotFoundError as error:
        what = f"'{GYMNAX}{name}' needs the module '{error.name}', which is not installed"
        raise EnvNotMade("env", what, cure=f"pip install {error.name}") from None
    known = getattr(gymnax, "registered_envs", (name,))
    if name not in known:
        raise EnvNotMade("env", "gymnax has no such environment", repr(name), did_you_mean(name, known))
    of_params = fields_of(gymnax.make(name)[1]).keys() & options.keys()
    env, params = gymnax.make(name, **{key: value for key, value in options.items() if key not in of_params})
    return env, with_fields(params, checked_fields(params, {key: options[key] for key in of_params}))


def jax_variant(source: EnvSource) -> "JaxSource | None":
    """A JAX environment with the parameters that its name says; None where the name leads to something else."""
    key = source.base, source.make
    if key in _others or (source.make is None and ":" not in source.base):  # The latter: an id of Gymnasium.
        return None
    made = source.maker()()
    found = JaxSource.of(made)
    if found is not None:
        return with_parameters(found, source)
    if len(_others) < MOST_KNOWN:
        _others.add(key)
    getattr(made, "close", lambda: None)()
    return None


def with_parameters(found: JaxSource, source: EnvSource) -> JaxSource:
    """With numbers in the place of those of its parameters, of the kind that these have."""
    known, values = known_numbers(found.params), {}
    for one in source.named.parameters:
        if one.name in LIMITS:
            raise UserError(FIELD, f"'{one.name}' is the time limit", one.word, "set it by env.max_steps")
        if one.is_range:
            what = "episodes of a JAX environment can't draw their numbers"
            raise UserError(FIELD, what, one.word, f"list values: --vary {one.name}={one.low:g},{one.high:g}")
        if one.name not in known:
            settable = Settable(
                {}, {name: known[name] for name in known if name not in LIMITS}, frozenset(), object, False
            )
            raise unknown(one.name, settable, source.base)
        values[one.name] = like(known[one.name], one)
    return JaxSource(found.env, with_fields(found.params, values))


def known_numbers(params: Any) -> dict[str, Any]:
    """The parameters that are finite numbers, as numbers of Python."""
    numbers = {name: np.asarray(value).item() for name, value in fields_of(params).items() if _is_number(value)}
    return {name: value for name, value in numbers.items() if np.isfinite(value)}


def require_stepping(origin: Any, name: str) -> None:
    """Refuses what is like a JAX environment, but hides the last observation of an episode behind the first of the next."""
    env = origin[0] if isinstance(origin, tuple) and len(origin) == 2 else origin
    if hasattr(env, "default_params") and hasattr(env, "step") and not hasattr(env, "step_env"):
        what = f"{type(env).__name__} has only a `step` that resets by itself, so the end of an episode is not seen"
        raise EnvNotMade("env", what, name, "give it reset_env(key, params) and step_env(key, state, action, params)")


def fields_of(params: Any) -> dict[str, Any]:
    """By name; empty where the parameters have no names."""
    if isinstance(params, Mapping):
        return dict(params)
    if hasattr(params, "_asdict"):
        return params._asdict()
    is_value = dataclasses.is_dataclass(params) and not isinstance(params, type)
    return {field.name: getattr(params, field.name) for field in dataclasses.fields(params)} if is_value else {}


def with_fields(params: Any, values: Mapping[str, Any]) -> Any:
    """The parameters with these in place of theirs."""
    if not values:
        return params
    if isinstance(params, Mapping):
        return {**params, **values}
    return params._replace(**values) if hasattr(params, "_replace") else dataclasses.replace(params, **values)


def checked_fields(params: Any, values: Mapping[str, Any]) -> dict[str, float]:
    """Numbers for parameters that are numbers."""
    known = {name: value for name, value in fields_of(params).items() if _is_number(value)}
    for name, value in values.items():
        if name not in known:
            raise UserError("env", "has no such parameter", name, f"choose from {', '.join(known)}")
        if not _is_number(value) or not np.isfinite(float(value)):
            raise UserError(
                "env", f"{name} must be a finite number", repr(value)[:80], f"it is {known[name]} by default"
            )
    return {name: type(value)(value) for name, value in values.items()}


def changed_fields(params: Any, default: Any) -> dict[str, float] | None:
    """Numbers that are not as they are by default; None where anything else is not."""
    ours, theirs = fields_of(params), fields_of(default)
    if ours.keys() != theirs.keys():
        return None if ours or theirs or params is not default else {}
    changed = {}
    for name, value in ours.items():
        if not np.array_equal(np.asarray(value), np.asarray(theirs[name])):
            changed[name] = value
    is_plain = all(_is_number(value) for value in changed.values())
    return {name: np.asarray(value).item() for name, value in changed.items()} if is_plain else None


def _is_number(value: Any) -> bool:
    if isinstance(value, numbers.Real):
        return True
    return getattr(value, "shape", None) == () and getattr(getattr(value, "dtype", None), "kind", "") in "biuf"


def limit_of(params: Any) -> tuple[str, int] | None:
    """The field with the environment's own time limit, and the limit; None where it tells none."""
    fields = fields_of(params)
    for name in LIMITS:
        if name in fields and _is_number(fields[name]):
            return name, int(fields[name])
    return None


def with_limit(params: Any, field: str, limit: int) -> Any:
    """The parameters with another time limit, of the type that it had."""
    value = fields_of(params)[field]
    is_array = hasattr(value, "dtype")
    return with_fields(params, {field: np.asarray(limit, value.dtype) if is_array else type(value)(limit)})


def space_of(env: Any, params: Any, field: str) -> Space:
    """A space of the environment as one of Gymnasium, by what is read of it: `n`, or `low`, `high` and `shape`."""
    given = getattr(env, field, None)
    space = given(params) if callable(given) and not isinstance(given, Space) else given
    if isinstance(space, Space):
        return space
    if hasattr(space, "n"):
        return spaces.Discrete(int(space.n))
    if hasattr(space, "low") and hasattr(space, "high"):
        dtype = np.dtype(getattr(space, "dtype", np.float32))
        shape = getattr(space, "shape", None)
        shape = np.shape(space.low) if shape is None else shape
        low, high = (np.broadcast_to(np.asarray(bound, dtype), shape) for bound in (space.low, space.high))
        return spaces.Box(low, high, dtype=dtype.type)
    what = f"{type(space).__name__} is not supported in a JAX environment"
    raise UserError(field, what, str(space)[:80], "give it a Box or a Discrete")
