"""An environment with other numbers: constructor arguments, or attributes that its constructor sets.

Setting an attribute of a finished environment would leave stale what was computed from it: CartPole's `polemass_length`
comes from `length`. So the constructor runs anew, and whatever value it assigns to the attribute is replaced at that
moment: all that it computes later follows. An attribute of the class is set on the object before its constructor runs.
What was assigned in some other way is set at the end, and a note says that nothing was recomputed.
"""

import contextlib
import difflib
import functools
import inspect
import json
import math
import numbers
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium
from gymnasium.envs.registration import load_env_creator

from asap.base.errors import UserError, message_of
from asap.envs.gymnasium.parameters import FIELD, Parameter, in_short

if TYPE_CHECKING:
    from asap.envs.gymnasium.make import EnvSource

MOST_SHOWN, MOST_KNOWN = 8, 64
_MAKING = threading.RLock()  # A class is changed while one of its objects is made.
_RESERVED = {"render_mode", "self"}


class Settable(NamedTuple):
    """What can be set of an environment: its constructor's arguments with their defaults, and its numbers."""

    arguments: dict[str, Any]
    numbers: dict[str, Any]
    of_class: frozenset[str]  # Numbers that only the class has.
    kind: type
    takes_any: bool  # The constructor has **kwargs.

    def value(self, name: str) -> float | None:
        """The present one; None where nobody knows."""
        for values in (self.arguments, self.numbers):
            if _is_number(values.get(name), or_flag=True):
                return float(values[name])
        return None

    def known(self) -> dict[str, float]:
        """All that have a present value."""
        names = sorted({*self.arguments, *self.numbers})
        return {name: value for name in names if (value := self.value(name)) is not None}


_known: dict[Any, Settable] = {}  # Each episode of a range makes an environment anew.


def settable_of(source: "EnvSource") -> Settable:
    """The environment is made once to see it."""
    if source.is_lent:
        what, cure = "an environment that is already made takes no parameters", "pass its id or a function"
        raise UserError(FIELD, what, source.name, cure)
    key = source.base, source.make, json.dumps(source.options, default=repr, sort_keys=True)
    if key not in _known:
        env, creator, given = source.without_parameters().build(), source.factory(), source.options
        if creator is None and env.spec is not None:
            entry, given = env.spec.entry_point, {**env.spec.kwargs, **given}
            creator = entry if callable(entry) else load_env_creator(str(entry))
        found = _looked_at(env, creator or type(env.unwrapped), given)
        env.close()
        while len(_known) >= MOST_KNOWN:
            _known.pop(next(iter(_known)))
        _known[key] = found
    return _known[key]


def _looked_at(env: gymnasium.Env, creator: Callable[..., Any], given: Mapping[str, Any]) -> Settable:
    """Of an environment without parameters, what made it, and the arguments that it was given."""
    inner, arguments, takes_any = env.unwrapped, {}, False
    with contextlib.suppress(TypeError, ValueError):  # Some callables have no signature.
        for name, one in inspect.signature(creator).parameters.items():
            takes_any |= one.kind is one.VAR_KEYWORD
            default = given.get(name, None if one.default is one.empty else one.default)
            is_keyword = one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
            if is_keyword and name not in _RESERVED and (default is None or _is_number(default, or_flag=True)):
                arguments[name] = default
    of_class = {name: value for each in reversed(type(inner).__mro__) for name, value in vars(each).items()}
    own = getattr(inner, "__dict__", {})
    found = {name: value for name, value in {**of_class, **own}.items() if not name.startswith("_")}
    for name, value in found.items():
        if isinstance(value, property) and value.fset is not None:
            with contextlib.suppress(Exception):
                found[name] = getattr(inner, name)
    settable = {name: value for name, value in found.items() if _is_number(value)}
    only_class = frozenset(name for name in settable if name not in own and _is_number(of_class[name]))
    return Settable(arguments, settable, only_class, type(inner), takes_any)


def _is_number(value: Any, or_flag: bool = False) -> bool:
    if isinstance(value, bool):
        return or_flag
    try:
        return isinstance(value, numbers.Real) and math.isfinite(value)
    except (TypeError, OverflowError):
        return False


def build_variant(source: "EnvSource", note: Callable[[str], None]) -> gymnasium.Env:
    """An environment with the source's parameters; of a range, the value in the middle."""
    settable, name, parameters = settable_of(source), source.base, source.named.of_episode(None).parameters
    arguments, values = {}, {}
    for parameter in parameters:
        default = settable.arguments.get(parameter.name)
        if parameter.name in settable.arguments:
            arguments[parameter.name] = like(default, parameter)
        elif parameter.name in settable.numbers:
            values[parameter.name] = like(settable.numbers[parameter.name], parameter)
        elif settable.takes_any and _looks_free(settable.kind, parameter.name):
            arguments[parameter.name] = like(0, parameter)
        else:
            raise unknown(parameter.name, settable, name)
    with _replaced(settable, values):
        env = source.maker(arguments)()
    for attribute, value in values.items():
        _require_set(env.unwrapped, attribute, value, name, note)
    return env


def _looks_free(kind: type, name: str) -> bool:
    """Whether **kwargs may take it: nothing that the environment has already, as a method or an object."""
    return not hasattr(kind, name) and name not in _RESERVED


def like(present: Any, parameter: Parameter) -> Any:
    """The value in the type of the present one, where it has a place there: counts stay integers, flags stay flags."""
    value = parameter.low
    if isinstance(present, bool):
        if value not in (0.0, 1.0):
            raise UserError(FIELD, f"'{parameter.name}' is a flag", in_short(value), "give 0 or 1")
        return bool(value)
    if isinstance(present, float) and not isinstance(present, numbers.Integral):
        return value
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def unknown(parameter: str, settable: Settable, name: str) -> UserError:
    """With the nearest names and their present values."""
    known = settable.known()
    near = difflib.get_close_matches(parameter, known, 3, 0.5) or list(known)[:MOST_SHOWN]
    shown = ", ".join(f"{each}={in_short(known[each])}" for each in near)
    what = "has no number of that name that can be set"
    cure = f"choose from {shown}" if shown else "it has no numbers to set: give its constructor arguments"
    return UserError(FIELD, f"{name} {what}", parameter, cure)


def _require_set(env: Any, attribute: str, value: Any, name: str, note: Callable[[str], None]) -> None:
    if getattr(env, attribute, None) == value:
        return
    try:
        setattr(env, attribute, value)
    except Exception as error:
        what = f"{name} does not let '{attribute}' be set: {message_of(error)}"
        raise UserError(FIELD, what[:200], in_short(float(value)), "choose another parameter") from None
    if getattr(env, attribute, None) != value:
        raise UserError(
            FIELD, f"{name} keeps its own '{attribute}'", in_short(float(value)), "choose another parameter"
        )
    note(f"{attribute} was set when {name} was made: what its constructor computed from it before is as it was")


def require_kept(source: "EnvSource", env: gymnasium.Env) -> None:
    """After a reset: a number that the reset sets is a part of the state."""
    settable, name = settable_of(source), source.base
    for one in source.named.of_episode(None).parameters:
        if one.name in settable.arguments or one.name not in settable.numbers:
            continue
        now = getattr(env.unwrapped, one.name, None)
        if now != one.low:
            what, got = f"reset sets '{one.name}' again: it is a part of the state of {name}", ascii(now)[:40]
            raise UserError(FIELD, what, got, "choose a number that reset leaves as it is")


@contextlib.contextmanager
def _replaced(settable: Settable, values: Mapping[str, Any]) -> Iterator[None]:
    """While this thread makes objects of the class, these values take the place of those that are assigned."""
    if not values:
        yield
        return
    kind, maker = settable.kind, threading.get_ident()
    before = {name: value for name, value in values.items() if name in settable.of_class}
    with _MAKING:
        own = {name: vars(kind)[name] for name in ("__setattr__", "__init__") if name in vars(kind)}
        assign, construct = kind.__setattr__, kind.__init__

        def is_meant(made: Any) -> bool:
            return type(made) is kind and threading.get_ident() == maker

        def __setattr__(self: Any, name: str, value: Any) -> None:
            assign(self, name, values[name] if name in values and is_meant(self) else value)

        @functools.wraps(construct)
        def __init__(self: Any, *given: Any, **named: Any) -> None:
            for name, value in before.items() if is_meant(self) else ():
                assign(self, name, value)
            construct(self, *given, **named)

        try:
            kind.__setattr__, kind.__init__ = __setattr__, __init__
            yield
        finally:
            for name in ("__setattr__", "__init__"):
                if name in own:
                    setattr(kind, name, own[name])
                else:
                    delattr(kind, name)
