"""Typed settings: said once in frozen dataclasses, checked with the cure, overridden by mappings {key: value}.

This file knows how settings work, not which exist (that is `schema.py`) nor how text holds them (`toml.py`). A config
is a frozen dataclass; each field is a `setting(...)` or another such dataclass, which TOML calls a section. Every field
has a default. Types: bool, int, float, str, tuples of these, and `... | None`. `REMOVED` of a config class tells about
settings of earlier releases.
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
_NOUNS = {
    bool: ("true or false", "true or false"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("a string", "strings"),
}
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
    aliases: tuple[str, ...] = ()
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


class Row(NamedTuple):
    """One line of the table that `--help` and the documentation print."""

    key: str
    type: str
    default: Any
    help: str
    range: str


class Removed(NamedTuple):
    """A setting of an earlier release. Files that say what was its default are taken: nothing else happens now."""

    default: Any
    why: str


def setting(
    default: Any, help: str, *, low=None, high=None, above=None, below=None, choices=None, aliases=(), removed=None
) -> Any:
    """A dataclass field with its sentence and its range: `low` and `high` are allowed, `above` and `below` are not."""
    choices = None if choices is None else tuple(choices)
    rules = Constraints(help, low, high, above, below, choices, tuple(aliases), removed or {})
    return dataclasses.field(default=default, metadata={"rules": rules})


def describe(cls: type) -> list[Row]:
    """Every setting of a config class, in the order of declaration."""
    return [
        Row(key, re.sub("^an? ", "", _noun(kind)), default, rules.help, rules.range_text())
        for key, kind, default, rules in schema_of(cls).settings.values()
    ]


class Schema(NamedTuple):
    settings: dict[str, Setting]
    names: dict[str, str]  # every full name that means a setting, aliases too -> its key
    sections: tuple[str, ...]
    removed: Mapping[str, Removed]


@cache
def schema_of(cls: type) -> Schema:
    settings = {found.key: found for found in walk(cls(), "")}
    names: dict[str, str] = {}
    sections: dict[str, None] = {}
    for key, kind, default, rules in settings.values():
        _noun(kind)
        if default is not None and is_optional(kind):
            raise TypeError(f"{key}: an optional setting must default to None: TOML has no other way to say None")
        section, dot, name = key.rpartition(".")
        for full in (section + dot + known for known in (name, *rules.aliases)):
            if names.setdefault(full, key) != key:
                raise TypeError(f"{full}: names both {names[full]} and {key}")
        parts = key.split(".")
        sections |= {".".join(parts[:depth]): None for depth in range(1, len(parts))}
    return Schema(settings, names, tuple(sections), getattr(cls, "REMOVED", {}))


def walk(config: Any, prefix: str) -> Iterator[Setting]:
    """The settings of a config, with the values it has now."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        key, kind, value = prefix + field.name, hints[field.name], getattr(config, field.name)
        if not dataclasses.is_dataclass(kind):
            yield Setting(key, kind, value, field.metadata.get("rules", Constraints()))
        elif type(value) is kind:
            yield from walk(value, key + ".")
        else:
            name = getattr(kind, "__name__", str(kind))
            raise UserError(key, f"must be a {name}", shown(value), f"give {name}(...)")


def is_optional(kind: Any) -> bool:
    return types.NoneType in typing.get_args(kind)


def required_kind(kind: Any) -> Any:
    """`float` of `float | None`."""
    if not is_optional(kind):
        return kind
    return typing.Union[tuple(arg for arg in typing.get_args(kind) if arg is not types.NoneType)]  # noqa: UP007 - made at run time.


def _noun(kind: Any, plural: bool = False) -> str:
    """The type in words, for messages: 'a list of numbers'."""
    if is_optional(kind):
        return _noun(required_kind(kind), plural) + " or none"
    if typing.get_origin(kind) is tuple:
        first, *others = typing.get_args(kind)
        if any(map(is_optional, (first, *others))):
            raise TypeError(f"{kind}: a TOML list cannot hold None")
        of = _noun(first, plural=True) if others == [...] else " and ".join(map(_noun, (first, *others)))
        return ("lists of " if plural else "a list of ") + of
    if kind not in _NOUNS:
        raise TypeError(f"a setting cannot have the type {kind}")
    return _NOUNS[kind][plural]


# ---- Checking -----------------------------------------------------------------------------------------------------


def validate(config: AnyConfig) -> AnyConfig:
    """The same config with every value checked and of its declared type exactly (1 -> 1.0, numpy -> Python)."""
    settings = schema_of(type(config)).settings
    values = {key: checked(value, kind, settings[key], key) for key, kind, value, _ in walk(config, "")}
    return with_values(config, values)


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


def checked(value: Any, kind: Any, of: Setting, where: str) -> Any:
    value = _plain(value)
    if value is None and is_optional(kind):
        return None
    required = required_kind(kind)
    if typing.get_origin(required) is tuple:
        return _checked_items(value, required, of, where)
    if not _is_a(value, required):
        _refuse(f"must be {_expected(kind, of.rules)}", value, of, where)
    value = _exact(value, required, of, where)
    if value in of.rules.removed:
        what = f"{value} was removed in {REMOVED_IN}: {of.rules.removed[value]}"
        _refuse(what, value, of, where, f"use {of.rules.range_text()}")
    if of.rules.choices is not None and value not in of.rules.choices:
        near = difflib.get_close_matches(str(value).lower()[:80], map(str, of.rules.choices), n=1)
        _refuse(f"must be {of.rules.range_text()}", value, of, where, f"did you mean {near[0]}?" if near else "")
    for name, (_, holds) in _BOUNDS.items():
        bound = getattr(of.rules, name)
        if bound is not None and not holds(value, bound):
            _refuse(f"must be {'an integer ' if required is int else ''}{of.rules.range_text()}", value, of, where)
    return value


def _checked_items(value: Any, kind: Any, of: Setting, where: str) -> tuple:
    kinds = typing.get_args(kind)
    if isinstance(value, list | tuple) and kinds[-1] is ...:
        kinds = kinds[:1] * len(value)
    if not isinstance(value, list | tuple) or len(value) != len(kinds):
        _refuse(f"must be {_noun(kind)}", value, of, where)
    return tuple(checked(item, kinds[i], of, f"{where}[{i}]") for i, item in enumerate(value))


def _plain(value: Any) -> Any:
    """Numpy values as Python ones. Numpy is looked up, not imported: `--help` must not wait for it."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic | numpy.ndarray):
        return value
    return float(value) if isinstance(value, numpy.floating) else value.tolist()  # longdouble has no Python item


def _is_a(value: Any, kind: type) -> bool:
    if isinstance(value, bool):  # Python calls True an int
        return kind is bool
    return isinstance(value, int | float if kind is float else kind)


def _exact(value: Any, kind: type, of: Setting, where: str) -> Any:
    """A value of the right type as that type itself, if it can be stored and read back."""
    if kind is int and not -(2**63) <= value < 2**63:  # all that TOML promises to carry
        _refuse("must be an integer of at most 64 bits", value, of, where)
    if kind is str:
        if any("\ud800" <= char <= "\udfff" for char in value):  # what Python makes of argv bytes that are not UTF-8
            _refuse("must be valid Unicode text", value, of, where)
        return str.__str__(value)
    try:
        value = kind(value)
    except OverflowError:  # 10**400 is a fine int
        _refuse("must be finite", value, of, where)
    if kind is float and not math.isfinite(value):
        _refuse("must be finite", value, of, where)
    return value


def _expected(kind: Any, rules: Constraints) -> str:
    if rules.choices is not None:
        return rules.range_text()
    return f"{_noun(required_kind(kind))} {rules.range_text()}".strip() + (" or none" if is_optional(kind) else "")


def _refuse(what: str, value: Any, of: Setting, where: str, cure: str = "") -> typing.NoReturn:
    default = "leave it out for none" if of.default is None else f"the default is {toml_value(of.default)[:80]}"
    raise UserError(where, what, shown(value), cure or default)


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
    """The config with these values, each checked; None empties an optional setting."""
    return validate(with_values(config, checked_values(type(config), values)))


def checked_values(cls: type, values: Values, short: bool = False) -> dict[str, Any]:
    """The same by their full keys, of their declared types. `short`: a key will do that one section only has."""
    found = {name: find(name, value, schema_of(cls), short=short) for name, value in values.items()}
    return {of.key: checked(values[name], of.kind, of, of.key) for name, of in found.items()}


def find(name: str, value: Any, schema: Schema, short: bool = False) -> Setting:
    """The setting that a user's name means."""
    if name in schema.names:
        return schema.settings[schema.names[name]]
    gone = [key for key in schema.removed if name == key or (short and key.endswith("." + name))]
    if gone:
        what = f"was removed in {REMOVED_IN}: {schema.removed[gone[0]].why}"
        raise UserError(gone[0], what, shown(value), "leave it out")
    if name in schema.sections:
        inside = next(key for key in schema.settings if key.startswith(name + "."))
        raise UserError(name, "is a section, not a setting", shown(value), f"name one in it, such as {inside}")
    same = {key: None for known, key in schema.names.items() if short and known.rpartition(".")[2] == name}
    if len(same) > 1:
        raise UserError(name, "is in several sections", cure=f"write one of {', '.join(same)}")
    if same:
        return schema.settings[next(iter(same))]
    what, known = ("section", schema.sections) if isinstance(value, dict) else ("setting", tuple(schema.names))
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
