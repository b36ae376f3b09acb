"""Typed settings: said once in frozen dataclasses, checked with the cure, overridden by mappings {key: value}.

This file knows how settings work, not which exist (that is `schema.py`) nor how text holds them (`toml.py`). A config
is a frozen dataclass; each field is a `setting(...)` or another such dataclass, which TOML calls a section. Every field
has a default. Types: bool, int, float, str, tuples of any number of one of these, and `... | None`. `REMOVED` of a
config class tells about settings of earlier releases.
"""

import dataclasses
import difflib
import json
import math
import operator
import re
import reprlib
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar

from asap.base.errors import UserError

AnyConfig = TypeVar("AnyConfig")
Values = Mapping[str, Any]  # Settings by their full keys, such as {"learn.epochs": 4}.
NO_VALUES: Values = types.MappingProxyType({})
REMOVED_IN = "0.2"
LARGEST = 3.4e38  # Programs hold numbers as float32, where larger ones would be infinite.
_NOUNS = {bool: "true or false", int: "an integer", float: "a number", str: "a string"}
_BOUNDS = {
    "low": (">=", operator.ge),
    "above": (">", operator.gt),
    "high": ("<=", operator.le),
    "below": ("<", operator.lt),
}


# ---- Declaring ----------------------------------------------------------------------------------------------------


class Constraints(NamedTuple):
    """What a field allows beyond its type. Of a tuple, every number in it must keep the rules."""

    help: str = ""
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    choices: tuple | None = None
    removed: Mapping[str, str] = {}  # Choices of earlier releases, each with the reason.

    def range_text(self) -> str:
        if self.choices is not None:
            return "one of " + ", ".join(map(str, self.choices))
        bounds = [(sign, getattr(self, name)) for name, (sign, _) in _BOUNDS.items()]
        return " and ".join(f"{sign} {repr(bound).removesuffix('.0')}" for sign, bound in bounds if bound is not None)


class Setting(NamedTuple):
    """One field of a config class, with its place in it."""

    key: str
    kind: Any
    default: Any
    rules: Constraints


class Removed(NamedTuple):
    """A setting of an earlier release. Files that say what was its default are taken: nothing else happens now."""

    default: Any
    why: str


def setting(default: Any, help: str, *, low=None, high=None, above=None, below=None, choices=None, removed=None) -> Any:
    """A dataclass field with its sentence and its range: `low` and `high` are allowed, `above` and `below` are not."""
    rules = Constraints(help, low, high, above, below, choices, removed or {})
    return dataclasses.field(default=default, metadata={"rules": rules})


def describe(cls: type) -> list[dict[str, Any]]:
    """Every setting of a config class, in the order of declaration, for tables of them."""
    return [
        {"key": key, "type": re.sub("^an? ", "", _noun(kind)), "default": default, "help": rules.help}
        | {"range": rules.range_text()}
        for key, kind, default, rules in schema_of(cls).settings.values()
    ]


class Schema(NamedTuple):
    settings: dict[str, Setting]  # By their full keys.
    sections: tuple[str, ...]
    removed: Mapping[str, Removed]


@cache
def schema_of(cls: type) -> Schema:
    settings = {found.key: found for found in _walk(cls())}
    sections: dict[str, None] = {}
    for key, kind, default, _ in settings.values():
        _noun(kind)
        if default is not None and is_optional(kind):
            raise TypeError(f"{key}: an optional setting must default to None: TOML has no other way to say None")
        parts = key.split(".")
        sections |= {".".join(parts[:depth]): None for depth in range(1, len(parts))}
    return Schema(settings, tuple(sections), getattr(cls, "REMOVED", {}))


def _walk(config: Any, prefix: str = "") -> Iterator[Setting]:
    """The settings of a config, with the values it has now as defaults."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        key, kind, value = prefix + field.name, hints[field.name], getattr(config, field.name)
        if not dataclasses.is_dataclass(kind):
            yield Setting(key, kind, value, field.metadata["rules"])
        elif type(value) is kind:
            yield from _walk(value, key + ".")
        else:
            raise UserError(key, f"must be a {kind.__name__}", shown(value), f"give {kind.__name__}(...)")


def values_of(config: Any) -> dict[str, Any]:
    """What a config sets, by full keys."""
    return {found.key: found.default for found in _walk(config)}


def is_optional(kind: Any) -> bool:
    return len(typing.get_args(kind)) == 2 and types.NoneType in typing.get_args(kind)


def required_kind(kind: Any) -> Any:
    """`float` of `float | None`."""
    return next(arg for arg in typing.get_args(kind) if arg is not types.NoneType) if is_optional(kind) else kind


def _noun(kind: Any) -> str:
    """The type in words, for messages: 'a list of numbers'."""
    if is_optional(kind):
        return _noun(required_kind(kind)) + " or none"
    first, *others = typing.get_args(kind) or (None,)
    if typing.get_origin(kind) is tuple and others == [...]:
        if is_optional(first):
            raise TypeError(f"{kind}: a TOML list cannot hold None")
        return "a list of " + re.sub(r"^an? (\w+)", r"\1s", _noun(first))
    if kind not in _NOUNS:
        raise TypeError(f"a setting cannot have the type {kind}")
    return _NOUNS[kind]


# ---- Checking -----------------------------------------------------------------------------------------------------


def validate(config: AnyConfig) -> AnyConfig:
    """The same config with every value checked and of its declared type exactly (1 -> 1.0, numpy -> Python)."""
    settings = schema_of(type(config)).settings
    return with_values(config, {key: checked(value, settings[key]) for key, value in values_of(config).items()})


def with_values(config: Any, values: dict[str, Any], prefix: str = "") -> Any:
    """A copy with the values at these keys. One `replace` per section, so that its __post_init__ sees them together."""
    changes = {}
    for field in dataclasses.fields(config):
        key, value = prefix + field.name, getattr(config, field.name)
        if key in values:
            changes[field.name] = values[key]
        elif dataclasses.is_dataclass(value):
            changes[field.name] = with_values(value, values, key + ".")
    return dataclasses.replace(config, **changes)


def checked(value: Any, of: Setting) -> Any:
    """The value as its declared type itself, if it keeps the rules and can be stored and read back."""
    value, rules, required = _plain(value), of.rules, required_kind(of.kind)
    if value is None and is_optional(of.kind):
        return None
    if typing.get_origin(required) is tuple:
        if not isinstance(value, list | tuple):
            _refuse(f"must be {_noun(required)}", value, of)
        item = typing.get_args(required)[0]
        return tuple(checked(each, of._replace(key=f"{of.key}[{i}]", kind=item)) for i, each in enumerate(value))
    is_allowed = (
        required is bool
        if isinstance(value, bool)
        else isinstance(value, int | float if required is float else required)
    )
    if not is_allowed:
        noun = "" if rules.choices else f"{_noun(required)} "
        none = " or none" if is_optional(of.kind) and not rules.choices else ""
        _refuse(f"must be {noun}{rules.range_text()}".rstrip() + none, value, of)
    value = _exact(value, required, of)
    if value in rules.removed:
        _refuse(f"{value} was removed in {REMOVED_IN}: {rules.removed[value]}", value, of, f"use {rules.range_text()}")
    if rules.choices is not None and value not in rules.choices:
        near = difflib.get_close_matches(str(value).lower()[:80], rules.choices, n=1)
        _refuse(f"must be {rules.range_text()}", value, of, f"did you mean {near[0]}?" if near else "")
    for name, (_, holds) in _BOUNDS.items():
        bound = getattr(rules, name)
        if bound is not None and not holds(value, bound):
            _refuse(f"must be {'an integer ' if required is int else ''}{rules.range_text()}", value, of)
    if isinstance(value, float) and abs(value) > LARGEST:
        _refuse(f"must be at most {LARGEST:g} in size", value, of, "float32 holds no more")
    return value


def _plain(value: Any) -> Any:
    """Numpy values as Python ones. Numpy is looked up, not imported: `--help` must not wait for it."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic | numpy.ndarray):
        return value
    return float(value) if isinstance(value, numpy.floating) else value.tolist()  # longdouble has no Python item


def _exact(value: Any, kind: type, of: Setting) -> Any:
    if kind is int and not -(2**63) <= value < 2**63:  # all that TOML promises to carry
        _refuse("must be an integer of at most 64 bits", value, of)
    if kind is str:
        if any("\ud800" <= char <= "\udfff" for char in value):  # what Python makes of argv bytes that are not UTF-8
            _refuse("must be valid Unicode text", value, of)
        return str.__str__(value)
    try:
        exact = kind(value)
    except OverflowError:  # 10**400 is a fine int
        exact = math.inf
    if kind is float and not math.isfinite(exact):
        _refuse("must be finite", value, of)
    return exact


def _refuse(what: str, value: Any, of: Setting, cure: str = "") -> typing.NoReturn:
    default = "leave it out for none" if of.default is None else f"the default is {toml_value(of.default)[:80]}"
    raise UserError(of.key, what, shown(value), cure or default)


def toml_value(value: Any) -> str:
    """A checked value as a TOML file has it."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):  # JSON's escapes are TOML's, except that TOML also wants DEL escaped
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


class _Short(reprlib.Repr):
    """Users give values that are huge, deep, or (integers over 4300 digits) refuse to be printed."""

    def __init__(self):
        super().__init__()
        self.maxstring = self.maxother = 60

    def repr_int(self, value: int, level: int) -> str:
        return repr(value) if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"


def shown(value: Any) -> str:
    return _Short().repr(_plain(value))


# ---- Overriding ---------------------------------------------------------------------------------------------------


def override(config: AnyConfig, values: Values) -> AnyConfig:
    """The config with these values, all checked; None empties an optional setting."""
    schema = schema_of(type(config))
    return validate(with_values(config, {find(name, value, schema).key: value for name, value in values.items()}))


def find(name: str, value: Any, schema: Schema, short: bool = False) -> Setting:
    """The setting that a user's name means. `short`: a key will do that one section only has."""
    if name in schema.settings:
        return schema.settings[name]
    gone = [key for key in schema.removed if name == key or (short and key.endswith("." + name))]
    if gone:
        what = f"was removed in {REMOVED_IN}: {schema.removed[gone[0]].why}"
        raise UserError(gone[0], what, shown(value), "leave it out")
    if name in schema.sections:
        inside = next(key for key in schema.settings if key.startswith(name + "."))
        raise UserError(name, "is a section, not a setting", shown(value), f"name one in it, such as {inside}")
    same = [key for key in schema.settings if short and key.endswith("." + name)]
    if len(same) > 1:
        raise UserError(name, "is in several sections", cure=f"write one of {', '.join(same)}")
    if same:
        return schema.settings[same[0]]
    what, known = ("section", schema.sections) if isinstance(value, dict) else ("setting", tuple(schema.settings))
    cure = _nearest(name[:80], known, schema.sections)
    name = name[:80] if name and name.isprintable() else ascii(name[:80])
    raise UserError(name, f"unknown {what}", shown(value), cure)


def _nearest(name: str, known: tuple[str, ...], sections: tuple[str, ...]) -> str:
    """The cure for a wrong name. The last part decides: a slip in it, or a good one in the wrong section."""
    section, _, tail = name.rpartition(".")

    def likeness(full: str) -> tuple[float, float]:
        tails = difflib.SequenceMatcher(None, tail, full.rpartition(".")[2]).ratio()
        return tails, difflib.SequenceMatcher(None, name, full).ratio()

    near = sorted((full for full in known if likeness(full)[0] >= 0.6), key=likeness, reverse=True)[:3]
    if near:
        return f"did you mean {' or '.join(near)}?"
    section = section if section in sections else ""
    beside = [full for full in dict.fromkeys(known + sections) if full.rpartition(".")[0] == section]
    return f"known here: {', '.join(beside)}"
