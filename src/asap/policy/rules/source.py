"""A text of rules as statements: without comments, joined where one goes on below, each under the line it belongs to.

Errors point at their place: file, line and column, and the line with a mark under it.
"""

import codecs
import re
from collections.abc import Sequence
from typing import NamedTuple

from asap.base.errors import UserError
from asap.base.numbers import counted

LONGEST_TEXT, MOST_LINES, LONGEST_STATEMENT, DEEPEST = 1_000_000, 5_000, 100_000, 40
LONGEST_SHOWN = 60
COMMENT = re.compile(r'"[^"]*"|#.*')
NEWLINE = re.compile(r"\r\n|\n|\r")  # Those of editors: `splitlines` knows more, and would number lines in its own way.
SAVE_AS = "save the file as plain text in UTF-8"


class Source(NamedTuple):
    """Where a text comes from, for messages."""

    name: str
    lines: tuple[str, ...]


class RulesError(UserError):
    """What is wrong in rules: file, line and column, and the line with a mark under the place."""

    def __init__(self, source: Source, line: int, column: int, what: str, cure: str = ""):
        super().__init__(f"{source.name}:{line + 1}:{column + 1}", what, cure=cure)
        text = source.lines[line] if line < len(source.lines) else ""
        start = max(0, column - LONGEST_SHOWN)
        shown = "".join(c if c.isprintable() else " " for c in text[start : column + LONGEST_SHOWN])
        self.marked = f"  {shown}\n  {' ' * (column - start)}^"
        self.line, self.column = line + 1, column + 1

    def __str__(self) -> str:
        return f"{super().__str__()}\n{self.marked}"


class Line(NamedTuple):
    """One statement, of one line or of several that go on below it."""

    text: str
    indent: int
    starts: tuple[tuple[int, int, int], ...]  # Offset in the text, line and column in the source.

    def place(self, offset: int) -> tuple[int, int]:
        start, line, column = next(s for s in reversed(self.starts) if s[0] <= max(offset, 0))
        return line, column + offset - start


class Node(NamedTuple):
    """A statement, and those that are indented below it."""

    line: Line
    children: list["Node"]


def decoded(data: bytes, name: str) -> str:
    """The text in a file's bytes."""
    if len(data) > 4 * LONGEST_TEXT:
        raise _too_long(Source(name, ()))
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise RulesError(Source(name, ()), 0, 0, "the text is in UTF-16", SAVE_AS)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = NEWLINE.split(data[: error.start].decode("utf-8"))
        source = Source(name, tuple(NEWLINE.split(data.decode("utf-8", "replace"))))
        what = f"byte 0x{data[error.start]:02x} is not text in UTF-8"
        raise RulesError(source, len(before) - 1, len(before[-1]), what, SAVE_AS) from None


def statements(text: str, name: str) -> tuple[Source, list[Node]]:
    """Raises RulesError."""
    if len(text) > LONGEST_TEXT:
        raise _too_long(Source(name, ()))
    source = Source(name, tuple(NEWLINE.split(text.removeprefix("\ufeff"))))  # Some editors put that mark first.
    if len(source.lines) > MOST_LINES:
        raise _too_long(source)
    return source, _tree(source, _lines(source))


def _too_long(source: Source) -> RulesError:
    what = f"too long: {counted(MOST_LINES, 'line')} and {LONGEST_TEXT:,} characters at most"
    return RulesError(source, 0, 0, what, "rules are meant to be read")


def _lines(source: Source) -> list[Line]:
    """Statements without comments; a line that begins with a sign, or comes behind a comma, goes on with the one above."""
    lines: list[Line] = []
    pieces: list[str] = []  # Of the statement that may still go on.
    starts: list[tuple[int, int, int]] = []
    length = 0

    def close() -> None:
        if pieces:
            lines.append(Line(" ".join(pieces), starts[0][2], tuple(starts)))
            pieces.clear()
            starts.clear()

    for row, raw in enumerate(source.lines):
        _require_plain(source, row, raw)
        text = COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else "", raw).rstrip()
        stripped = text.lstrip()
        if not stripped:
            continue
        goes_on = pieces and (pieces[-1][-1] in ",;" or stripped[0] in "+-,;" or stripped.startswith("and "))
        if not goes_on:
            close()
            length = 0
        starts.append((length, row, len(text) - len(stripped)))
        pieces.append(stripped)
        length += len(stripped) + 1
        if length > LONGEST_STATEMENT:
            what = f"a statement of more than {LONGEST_STATEMENT:,} characters"
            raise RulesError(source, *starts[0][1:], what, "give parts of it names, or leave some out")
    close()
    return lines


def _require_plain(source: Source, row: int, raw: str) -> None:
    if "\t" in raw[: len(raw) - len(raw.lstrip())]:
        raise RulesError(source, row, raw.index("\t"), "a tab in the indentation", "use spaces")
    bad = None if raw.isprintable() else next((i for i, c in enumerate(raw) if not c.isprintable() and c != "\t"), None)
    if bad is None:
        return
    if raw[bad].isspace():
        raise RulesError(source, row, bad, f"{ascii(raw[bad])} is a space of another kind", "write a plain one")
    raise RulesError(source, row, bad, f"{ascii(raw[bad])} is not a character of text", SAVE_AS)


def _tree(source: Source, lines: Sequence[Line]) -> list[Node]:
    roots: list[Node] = []
    above: list[Node] = []
    for line in lines:
        while above and above[-1].line.indent >= line.indent:
            above.pop()
        siblings = above[-1].children if above else roots
        if siblings and siblings[-1].line.indent != line.indent:
            what = "the indentation fits no line above"
            raise RulesError(source, *line.place(0), what, "indent the cases of one list alike")
        node = Node(line, [])
        siblings.append(node)
        above.append(node)
        if len(above) > DEEPEST:
            what = f"cases more than {DEEPEST} deep inside each other"
            raise RulesError(source, *line.place(0), what, "join tests by `and`")
    return roots
