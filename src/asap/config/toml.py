"""Configs as TOML files. What is wrong in a file is told with its line, which `tomllib` alone does not know."""

import re
import stat
import tomllib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from asap.base.errors import UserError
from asap.config.settings import AnyConfig, checked, find, schema_of, shown, toml_value, validate, walk, with_values

MAX_FILE_BYTES = 1_000_000


def read_toml(cls: type[AnyConfig], path: str | PathLike, base: AnyConfig | None = None) -> AnyConfig:
    """The config in a TOML file; what the file leaves out comes from `base`, or from the defaults."""
    path, schema = Path(path), schema_of(cls)
    text = _read_text(path)
    try:
        tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _syntax_error(path, text, error) from None
    values = {}
    for line, name, value in _assignments(text, schema.sections):
        where = f"{path} line {line}: "
        found = find(name, value, schema, where)
        if found.key in values:
            raise UserError(where + name, "is given twice", shown(value), f"keep only {found.key}")
        values[found.key] = checked(value, found.kind, found, where + found.key)
    return validate(with_values(cls() if base is None else base, values))


def to_toml(config: Any) -> str:
    """The config as TOML that `read_toml` turns back into an equal one. Settings that are None are left out."""
    sections: dict[str, list[str]] = {"": []}  # keys of no section must come before the first header
    for key, _, value, _ in walk(validate(config), ""):
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


def _syntax_error(path: Path, text: str, error: Exception) -> UserError:
    reason = "nested too deeply" if isinstance(error, RecursionError) else re.sub(r" \(at .*|;.*", "", str(error))
    at = re.search(r"\(at line (\d+)", str(error))
    line = int(at[1]) if at else _bad_line(text)
    got = shown(text.split("\n")[line - 1].strip())
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
