"""Settings as text: TOML files, and `key=value` as a user gives it. Here alone text becomes typed values."""

import re
import stat
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from asap.base.errors import UserError
from asap.config import settings
from asap.config.settings import AnyConfig, Values, checked, find, schema_of, shown, toml_value, validate

MAX_FILE_BYTES = 1_000_000


# ---- key=value ----------------------------------------------------------------------------------------------------


def parse_settings(cls: type, given: str | Iterable[str] | Values) -> dict[str, Any]:
    """What a user gives, as checked values by their full keys: `section.key=value` items, the later ones winning, or a
    mapping.

    Values are TOML, or bare words where text is wanted. `key=value` will do when one section only has that key, and
    `key=none` empties an optional setting.
    """
    schema, values = schema_of(cls), {}
    if isinstance(given, Mapping):
        found = [(find(name, value, schema, short=True), value) for name, value in given.items()]
        return {of.key: checked(value, of) for of, value in found}
    for item in [given] if isinstance(given, str) else given:
        name, equals, text = (part.strip() for part in item.partition("="))
        if not equals or not name:
            raise UserError("override", "must have the form key=value", shown(item), f"write {name or 'key'}=value")
        of = find(name, _parsed(text, None), schema, short=True)
        values[of.key] = checked(_parsed(text, of.kind), of)
    return values


def to_item(key: str, value: Any) -> str:
    """A checked value as a user gives it: the way back."""
    if value is None:
        return f"{key}=none"
    return f"{key}={value if isinstance(value, str) else toml_value(value)}"


def _parsed(text: str, kind: Any) -> Any:
    required = settings.required_kind(kind)
    if text == "none" and settings.is_optional(kind):
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


# ---- Files --------------------------------------------------------------------------------------------------------


def read_toml(cls: type[AnyConfig], path: str | PathLike, base: AnyConfig | None = None) -> AnyConfig:
    """The config in a TOML file; what the file leaves out comes from `base`, or from the defaults."""
    return from_toml(cls, _read_text(Path(path)), str(Path(path)), base)


def from_toml(cls: type[AnyConfig], text: str, source: str, base: AnyConfig | None = None) -> AnyConfig:
    """The config in a TOML text. `source` tells in messages where it comes from."""
    schema, values = schema_of(cls), {}
    try:
        tree = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _syntax_error(source, text, error) from None
    for name, value in _flat(tree, "", schema.sections):
        try:
            if name not in schema.removed or value != schema.removed[name].default:
                values[name] = checked(value, find(name, value, schema))
        except UserError as error:
            raise UserError(f"{source}{_line_of(name, text)}", str(error)) from None
    return validate(settings.with_values(cls() if base is None else base, values))


def to_toml(config: Any) -> str:
    """The config as TOML that `read_toml` turns back into an equal one. Settings that are None are left out."""
    sections: dict[str, list[str]] = {"": []}  # keys of no section must come before the first header
    for key, value in settings.values_of(validate(config)).items():
        section, _, name = key.rpartition(".")
        lines = sections.setdefault(section, [f"\n[{section}]"])
        if value is not None:
            lines.append(f"{name} = {toml_value(value)}")
    return "\n".join(line for lines in sections.values() for line in lines).lstrip("\n") + "\n"


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


def _syntax_error(source: str, text: str, error: Exception) -> UserError:
    at = re.search(r" \(at line (\d+)", str(error))
    reason = "nested too deeply" if isinstance(error, RecursionError) else re.sub(r" \(at line.*|;.*", "", str(error))
    what, cure = f"is not TOML: {reason}", "write each key once, as key = value, with text in quotes"
    if at is None:
        return UserError(source, what, cure=cure)
    return UserError(f"{source} line {at[1]}", what, shown(text.split("\n")[int(at[1]) - 1].strip()), cure)


def _flat(tree: dict[str, Any], prefix: str, sections: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict) and prefix + name in sections:
            yield from _flat(value, prefix + name + ".", sections)
        else:
            yield prefix + name, value


def _line_of(key: str, text: str) -> str:
    """' line 3' where one line alone looks like the key's; nothing where none does, or several.

    tomllib tells no lines. A line of a longer string may look like an assignment, and then there are two.
    """
    same, around, section = [], [], ""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip().removeprefix("\ufeff")
        is_header = line.startswith("[")
        name, mark, _ = line.lstrip("[").partition("]" if is_header else "=")
        if not mark:
            continue
        name = ".".join(part.strip(" \t\"'") for part in name.split("."))
        if is_header:
            section = name
        full = name if is_header or not section else f"{section}.{name}"
        if full == key:
            same.append(number)
        elif full.startswith(key + ".") or (not is_header and key.startswith(full + ".")):  # learn = {epochs = 4}
            around.append(number)
    lines = same or around
    return f" line {lines[0]}" if len(lines) == 1 else ""
