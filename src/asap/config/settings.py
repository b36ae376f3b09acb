"""Typed settings: said once in frozen dataclasses, checked with the cure, overridden by `key=value`, kept as TOML.

This file knows how settings work, not which exist (that is `config.py`). A config is a frozen dataclass; each field is
a `setting(...)` or another such dataclass, which TOML calls a section. Every field has a default. Types: bool, int,
float, str, tuples of these, and `... | None`.
"""

import dataclasses
import difflib
import json
import math
import operator
import re
import reprlib
import stat
import sys
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from asap.base.errors import UserError

Config = TypeVar("Config")
MAX_FILE_BYTES = 1_000_000
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


def setting(default: Any, help: str, *, low=None, high=None, above=None, below=None, choices=None, aliases=()) -> Any:
    """A dataclass field with its sentence and its range: `low` and `high` are allowed, `above` and `below` are not."""
    choices = None if choices is None else tuple(choices)
    rules = Constraints(help, low, high, above, below, choices, tuple(aliases))
    return dataclasses.field(default=default, metadata={"rules": rules})


def describe(cls: type) -> list[Row]:
    """Every setting of a config class, in the order of declaration."""
    return [
        Row(key, re.sub("^an? ", "", _noun(kind)), default, rules.help, rules.range_text())
        for key, kind, default, rules in _schema(cls).settings.values()
    ]


class _Schema(NamedTuple):
    settings: dict[str, Setting]
    names: dict[str, str]  # every full name that means a setting, aliases too -> its key
    sections: tuple[str, ...]


@cache
def _schema(cls: type) -> _Schema:
    settings = {found.key: found for found in _walk(cls(), "")}
    names: dict[str, str] = {}
    sections: dict[str, None] = {}
    for key, kind, default, rules in settings.values():
        _noun(kind)
        if default is not None and _is_optional(kind):
            raise TypeError(f"{key}: an optional setting must default to None: TOML has no other way to say None")
        section, dot, name = key.rpartition(".")
        for full in (section + dot + known for known in (name, *rules.aliases)):
            if names.setdefault(full, key) != key:
                raise TypeError(f"{full}: names both {names[full]} and {key}")
        parts = key.split(".")
        sections |= {".".join(parts[:depth]): None for depth in range(1, len(parts))}
    return _Schema(settings, names, tuple(sections))


def _walk(config: Any, prefix: str) -> Iterator[Setting]:
    """The settings of a config, with the values it has now."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        key, kind, value = prefix + field.name, hints[field.name], getattr(config, field.name)
        if not dataclasses.is_dataclass(kind):
            yield Setting(key, kind, value, field.metadata.get("rules", Constraints()))
        elif type(value) is kind:
            yield from _walk(value, key + ".")
        else:
            raise UserError(key, f"must be a {kind.__name__}", _shown(value), f"give {kind.__name__}(...)")


def _is_optional(kind: Any) -> bool:
    return types.NoneType in typing.get_args(kind)


def _required(kind: Any) -> Any:
    """`float` of `float | None`."""
    if not _is_optional(kind):
        return kind
    return typing.Union[tuple(arg for arg in typing.get_args(kind) if arg is not types.NoneType)]  # noqa: UP007 - made at run time.


def _noun(kind: Any, plural: bool = False) -> str:
    """The type in words, for messages: 'a list of numbers'."""
    if _is_optional(kind):
        return _noun(_required(kind), plural) + " or none"
    if typing.get_origin(kind) is tuple:
        first, *others = typing.get_args(kind)
        if any(map(_is_optional, (first, *others))):
            raise TypeError(f"{kind}: a TOML list cannot hold None")
        of = _noun(first, plural=True) if others == [...] else " and ".join(map(_noun, (first, *others)))
        return ("lists of " if plural else "a list of ") + of
    if kind not in _NOUNS:
        raise TypeError(f"a setting cannot have the type {kind}")
    return _NOUNS[kind][plural]


# ---- Checking -----------------------------------------------------------------------------------------------------


def validate(config: Config) -> Config:
    """The same config with every value checked and of its declared type exactly (1 -> 1.0, numpy -> Python)."""
    settings = _schema(type(config)).settings
    values = {key: _checked(value, kind, settings[key], key) for key, kind, value, _ in _walk(config, "")}
    return _with(config, values)


def _with(config: Any, values: dict[str, Any], prefix: str = "") -> Any:
    """A copy with the values at these keys. One `replace` per section, so that its __post_init__ sees them together."""
    changes = {}
    for field in dataclasses.fields(config):
        key, value = prefix + field.name, getattr(config, field.name)
        if key in values:
            changes[field.name] = values[key]
        elif dataclasses.is_dataclass(value):
            changes[field.name] = _with(value, values, key + ".")
    return dataclasses.replace(config, **changes)


def _checked(value: Any, kind: Any, of: Setting, where: str) -> Any:
    value = _plain(value)
    if value is None and _is_optional(kind):
        return None
    required = _required(kind)
    if typing.get_origin(required) is tuple:
        return _checked_items(value, required, of, where)
    if not _is_a(value, required):
        _refuse(f"must be {_expected(kind, of.rules)}", value, of, where)
    value = _exact(value, required, of, where)
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
    return tuple(_checked(item, kinds[i], of, f"{where}[{i}]") for i, item in enumerate(value))


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
    return f"{_noun(_required(kind))} {rules.range_text()}".strip() + (" or none" if _is_optional(kind) else "")


def _refuse(what: str, value: Any, of: Setting, where: str, cure: str = "") -> typing.NoReturn:
    default = "leave it out for none" if of.default is None else f"the default is {_toml(of.default)[:80]}"
    raise UserError(where, what, _shown(value), cure or default)


class _Short(reprlib.Repr):
    """Users give values that are huge, deep, or (integers over 4300 digits) refuse to be printed."""

    def __init__(self):
        super().__init__()
        self.maxstring = self.maxother = 60

    def repr_int(self, value: int, level: int) -> str:
        return repr(value) if value.bit_length() <= 128 else f"an integer of {value.bit_length()} bits"


def _shown(value: Any) -> str:
    return _Short().repr(_plain(value))


# ---- Overriding ---------------------------------------------------------------------------------------------------


def override(config: Config, items: Iterable[str]) -> Config:
    """The config after `section.key=value` items, the later ones winning.

    Values are TOML, or bare words where text is wanted. `key=value` will do when one section only has that key, and
    `key=none` empties an optional setting.
    """
    schema = _schema(type(config))
    values = {}
    for item in [items] if isinstance(items, str) else items:
        name, equals, text = (part.strip() for part in item.partition("="))
        if not equals or not name:
            raise UserError("override", "must have the form key=value", _shown(item), f"write {name or 'key'}=value")
        found = _find(name, _parsed(text, None), schema, short=True)
        values[found.key] = _checked(_parsed(text, found.kind), found.kind, found, found.key)
    return validate(_with(config, values))


def _parsed(text: str, kind: Any) -> Any:
    required = _required(kind)
    if text == "none" and _is_optional(kind):
        return None
    try:
        tree = tomllib.loads(f"value = {text}")
        value = tree["value"] if len(tree) == 1 else text  # a newline in the text could start another key
    except (ValueError, RecursionError):
        value = text
    if required is str and not isinstance(value, str):
        return text  # run.name=7 and run.name=2024-01-01 are names
    if required is float and isinstance(value, str):
        try:
            return float(text)  # .5 is no TOML, but everyone types it
        except ValueError:
            return value  # The check names what was expected.
    return value


def _find(name: str, value: Any, schema: _Schema, where: str = "", short: bool = False) -> Setting:
    """The setting that a user's name means."""
    if name in schema.names:
        return schema.settings[schema.names[name]]
    if name in schema.sections:
        inside = next(key for key in schema.settings if key.startswith(name + "."))
        raise UserError(where + name, "is a section, not a setting", _shown(value), f"name one in it, such as {inside}")
    same = {key: None for known, key in schema.names.items() if short and known.rpartition(".")[2] == name}
    if len(same) > 1:
        raise UserError(where + name, "is in several sections", cure=f"write one of {', '.join(same)}")
    if same:
        return schema.settings[next(iter(same))]
    what, known = ("section", schema.sections) if isinstance(value, dict) else ("setting", tuple(schema.names))
    cure = _nearest(name[:80], known, schema.sections)
    name = name[:80] if name and name.isprintable() else ascii(name[:80])
    raise UserError(where + name, f"unknown {what}", _shown(value), cure)


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


# ---- TOML ---------------------------------------------------------------------------------------------------------


def read_toml(cls: type[Config], path: str | PathLike, base: Config | None = None) -> Config:
    """The config in a TOML file; what the file leaves out comes from `base`, or from the defaults."""
    path, schema = Path(path), _schema(cls)
    text = _read_text(path)
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _syntax_error(path, text, error) from None
    values = {}
    for line, name, value in _assignments(text, schema.sections):
        where = f"{path} line {line}: "
        found = _find(name, value, schema, where)
        if found.key in values:
            raise UserError(where + name, "is given twice", _shown(value), f"keep only {found.key}")
        values[found.key] = _checked(value, found.kind, found, where + found.key)
    return validate(_with(cls() if base is None else base, values))


def to_toml(config: Any) -> str:
    """The config as TOML that `read_toml` turns back into an equal one. Settings that are None are left out."""
    sections: dict[str, list[str]] = {"": []}  # keys of no section must come before the first header
    for key, _, value, _ in _walk(validate(config), ""):
        section, _, name = key.rpartition(".")
        lines = sections.setdefault(section, [f"\n[{section}]"])
        if value is not None:
            lines.append(f"{name} = {_toml(value)}")
    return "\n".join(line for lines in sections.values() for line in lines).lstrip("\n") + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):  # JSON's escapes are TOML's, except that TOML also wants DEL escaped
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _read_text(path: Path) -> str:
    """The text of a regular file. Never opens a FIFO or device, where reading could wait for ever."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            kind = "directory" if path.is_dir() else "FIFO, socket or device"
            raise UserError(str(path), "must be a regular file", f"a {kind}", "give the path of a TOML file")
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(str(path), f"cannot be read: {reason}", cure="check the path and its permissions") from None
    if len(data) > MAX_FILE_BYTES:
        raise UserError(str(path), "is too large", f"over {MAX_FILE_BYTES} bytes", "give the path of a TOML file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        got = f"byte 0x{data[error.start]:02x}"
        raise UserError(f"{path} line {line}", "is not UTF-8 text", got, "save the file as UTF-8") from None


def _syntax_error(path: Path, text: str, error: Exception) -> UserError:
    reason = "nested too deeply" if isinstance(error, RecursionError) else re.sub(r" \(at .*|;.*", "", str(error))
    at = re.search(r"\(at line (\d+)", str(error))
    line = int(at[1]) if at else _bad_line(text)
    got = _shown(text.split("\n")[line - 1].strip())
    cure = "write each key once, as key = value, with text in quotes"
    return UserError(f"{path} line {line}", f"is not TOML: {reason}", got, cure)


def _bad_line(text: str) -> int:
    """Where the first statement starts that is wrong by itself; else the last one (it repeats a key, say)."""
    line = 1
    for line, statement in _statements(text):  # noqa: B007 - read after the loop.
        try:
            tomllib.loads(statement)
        except (ValueError, RecursionError):
            break
    return line


def _assignments(text: str, sections: tuple[str, ...]) -> Iterator[tuple[int, str, Any]]:
    """(line, full key, value) of each assignment and of each header that names no section.

    tomllib does not tell lines, so each statement is parsed again by itself, under its header.
    """
    header = ""
    for line, statement in _statements(text):
        if statement.startswith("["):
            header = statement + "\n"
        tree = tomllib.loads(header if statement.startswith("[") else header + statement)
        for key, value in _flat(tree, "", sections):
            yield line, key, value


def _flat(tree: dict[str, Any], prefix: str, sections: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict) and prefix + name in sections:
            yield from _flat(value, prefix + name + ".", sections)
        else:
            yield prefix + name, value


_TOKEN = re.compile(
    r'''"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*|[\[\]{}\n]''', re.DOTALL
)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """(first line, text) of each statement: it ends at a newline outside of strings, comments and brackets."""
    depth, start, line = 0, 0, 1
    for token in _TOKEN.finditer(text + "\n"):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(token[0], 0)
        if token[0] == "\n" and (depth <= 0 or token.end() > len(text)):
            statement = text[start : token.start()]
            if statement.strip() and not statement.lstrip().startswith("#"):
                yield line, statement.strip()
            depth, start, line = 0, token.end(), line + statement.count("\n") + 1
