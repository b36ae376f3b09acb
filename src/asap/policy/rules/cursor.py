"""A line of rules, read from left to right: words, numbers, names, sums; and errors that point at their place."""

import difflib
import math
import re
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from asap.base.errors import UserError
from asap.policy.rules.names import Names, same
from asap.policy.rules.sums import Sum, Term, Wave

NUMBER = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
WORD = re.compile(r"[^\W\d]\w*")
MOST_FACTORS, MOST_TERMS, MOST_BRACKETS = 6, 2000, 30
LONGEST_SHOWN = 60


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


class Cursor:
    """A place in a line, which moves on as things are read."""

    def __init__(self, source: Source, line: Line, names: Names, offset: int = 0):
        self.source, self.line, self.names = source, line, names
        self.text, self.offset = line.text, offset
        self.units: list[tuple[str, int]] = []  # Units that stood behind numbers, and where.
        self._brackets = 0
        self._skip()

    def _skip(self) -> None:
        while self.offset < len(self.text) and self.text[self.offset].isspace():
            self.offset += 1

    @property
    def is_at_end(self) -> bool:
        return self.offset >= len(self.text)

    @property
    def rest(self) -> str:
        return self.text[self.offset :]

    def fail(self, what: str, cure: str = "", offset: int | None = None) -> NoReturn:
        raise RulesError(self.source, *self.line.place(self.offset if offset is None else offset), what, cure)

    def move(self, offset: int) -> None:
        self.offset = offset
        self._skip()

    def take(self, *signs: str) -> str | None:
        """The first of these that stands here; words end where a word ends."""
        for sign in signs:
            end = self.offset + len(sign)
            if self.text[self.offset : end].casefold() == sign and not (
                sign[-1].isalnum() and self.text[end : end + 1].isalnum()
            ):
                self.move(end)
                return sign
        return None

    def expect(self, sign: str, cure: str = "") -> None:
        if self.take(sign) is None:
            self.fail(f"expected {sign!r}{self._before()}", cure)

    def _before(self) -> str:
        found = self.rest.split(maxsplit=1)
        return f" before {found[0][:LONGEST_SHOWN]!r}" if found else " at the end of the line"

    def end(self) -> None:
        if not self.is_at_end:
            self.fail(f"did not expect {self.rest.split(maxsplit=1)[0][:LONGEST_SHOWN]!r} here")

    def number(self) -> float | None:
        match = NUMBER.match(self.text, self.offset)
        if match is None:
            return None
        value = float(match[0])
        if not math.isfinite(value):
            self.fail(f"{match[0][:LONGEST_SHOWN]} is not a finite number")
        self.move(match.end())
        word = WORD.match(self.text, self.offset)
        if word is not None and word[0] in self.names.units:
            self.units.append((word[0], self.offset))
            self.move(word.end())
        return value

    def needed_number(self, of: str) -> float:
        start, sign = self.offset, -1.0 if self.take("-") else 1.0
        value = self.number()
        if value is None:
            self.fail(f"{of} must be a number", offset=start)
        return sign * value

    # ---- Names ----------------------------------------------------------------------------------------------------

    def quoted(self) -> str | None:
        if self.text[self.offset : self.offset + 1] != '"':
            return None
        end = self.text.find('"', self.offset + 1)
        if end < 0:
            self.fail("a name in quotes does not end")
        name = self.text[self.offset + 1 : end]
        self.move(end + 1)
        return name

    def indexed(self, word: str, count: int) -> int | None:
        """`obs[3]`."""
        match = re.compile(rf"{word}\s*\[\s*(\d{{1,9}})\s*\]", re.IGNORECASE).match(self.text, self.offset)
        if match is None:
            return None
        index = int(match[1])
        if index >= count:
            self.fail(f"{word}[{index}]: there are {count}", f"use 0 to {count - 1}" if count else "")
        self.move(match.end())
        return index

    def unknown(self, what: str, known: Sequence[str]) -> NoReturn:
        """No such name; the nearest one, if any."""
        found = re.match(r'"[^"]*"|[^\W\d][\w ]*\w|\S+', self.rest)
        name = " ".join((found[0] if found else "").strip('"').split())[:LONGEST_SHOWN]
        words = name.split()
        for length in range(len(words), 0, -1):  # What follows the name may be words of the language.
            near = difflib.get_close_matches(same(" ".join(words[:length])), [same(each) for each in known], 1)
            if near:
                nearest = next(each for each in known if same(each) == near[0])
                self.fail(f"{' '.join(words[:length])}: no such {what}", f"did you mean {nearest!r}?")
        shown = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "")
        self.fail(f"{words[0] if words else 'nothing'}: no such {what}", f"choose from {shown}" if known else "")

    def variable(self) -> int | Sum | None:
        """An observation or a number of the task, by index; or a named sum."""
        vocabulary, start = self.names.vocabulary, self.offset
        count = len(vocabulary.observations)
        place = self.indexed("obs", count)
        if place is not None:
            return place
        place = self.indexed("m", len(vocabulary.descriptors))
        if place is not None:
            return count + place
        name = self.quoted()
        if name is not None:
            if same(name) not in self.names.variables:
                self.offset = start
                self.unknown("observation", vocabulary.variables)
            return self.names.variables[same(name)]
        own, named = self.names.variable_at(self.text, start), self.names.sum_at(self.text, start)
        if named is not None and (own is None or named.end() > own.end()):
            self.move(named.end())
            return self.names.sums[same(named[0])](self)
        if own is not None:
            self.move(own.end())
            return self.names.variables[same(own[0])]
        return None

    def action(self) -> int | None:
        start = self.offset
        place = self.indexed("action", len(self.names.vocabulary.actions))
        if place is not None:
            return place
        name = self.quoted()
        if name is None:
            match = self.names.action_at(self.text, start)
            if match is None:
                return None
            name = match[0]
            self.move(match.end())
        if same(name) not in self.names.actions:
            self.offset = start
            self.unknown("action", self.names.vocabulary.actions)
        return self.names.actions[same(name)]

    def needed_action(self, *others: str) -> int:
        action = self.action()
        if action is None:
            self.unknown("action", (*self.names.vocabulary.actions, *others))
        return action

    # ---- Sums -----------------------------------------------------------------------------------------------------

    def sum(self) -> Sum:
        """Of products."""
        total, sign = Sum({}), -1.0 if self.take("-", "+") == "-" else 1.0
        while True:
            start = self.offset
            total = total.plus(self._product(), sign)
            if len(total.terms) > MOST_TERMS:
                self.fail(f"a sum of more than {MOST_TERMS:,} terms", offset=start)
            if not all(map(math.isfinite, (total.constant, *total.terms.values()))):
                self.fail("numbers too large to add", offset=start)
            operator = self.take("+", "-")
            if operator is None:
                return total
            sign = -1.0 if operator == "-" else 1.0

    def _product(self) -> Sum:
        product = self._factor()
        while (sign := self.take("*", "/")) is not None:
            start = self.offset
            factor = self._factor()
            if sign == "/":
                if factor.terms or not factor.constant:
                    self.fail("a sum can only be divided by a number", "write 0.5*x for x/2", start)
                factor = Sum({}, 1 / factor.constant)
            product = self._multiplied(product, factor, start)
        return product

    def _multiplied(self, one: Sum, other: Sum, start: int) -> Sum:
        if len(one.items) * len(other.items) > MOST_TERMS:
            self.fail(f"a product of more than {MOST_TERMS:,} terms", offset=start)
        pairs = []
        for a, c in one.items:
            for b, d in other.items:
                if c * d == 0:
                    continue
                if a.wave is not None and b.wave is not None:
                    self.fail("a product of two waves", "no feature is one", start)
                variables = tuple(sorted(a.variables + b.variables))
                if len(variables) > MOST_FACTORS:
                    self.fail(f"a product of more than {MOST_FACTORS} numbers", offset=start)
                if sum(v < len(self.names.vocabulary.observations) for v in variables) > self.names.limits.degree:
                    degree = max(2, self.names.limits.degree + 1)
                    cure = "--features poly2" if degree == 2 else f"--set policy.degree={degree}"
                    self.fail(f"a product of {degree} observations: features have none here", f"use {cure}", start)
                pairs.append((Term(variables, a.wave or b.wave), c * d))
        return Sum.of(pairs)

    def _factor(self) -> Sum:
        start = self.offset
        if self.take("-"):
            return self._factor_within().scaled(-1.0)
        value = self.number()
        if value is not None:
            word = WORD.match(self.text, self.offset)
            if (
                word is not None
                and word[0].casefold() not in ("then", "and", "within", "else", "or")
                and not self.is_at_end
            ):
                units = (
                    f"units here are {', '.join(sorted(self.names.units))}"
                    if self.names.units
                    else "write 2*x for two x"
                )
                self.fail(f"{word[0][:LONGEST_SHOWN]!r} behind a number", units)
            return Sum({}, value)
        found = self.variable()
        if found is None:
            return self._bracket_or_wave(start)
        value = found if isinstance(found, Sum) else Sum({Term((found,)): 1.0})
        if self.take("^"):
            power = self.needed_number("a power")
            if power != int(power) or not 1 <= power <= MOST_FACTORS:
                self.fail(f"a power must be a whole number from 1 to {MOST_FACTORS}", offset=start)
            base = value
            for _ in range(int(power) - 1):
                value = self._multiplied(value, base, start)
        return value

    def _factor_within(self) -> Sum:
        """A factor behind a sign: as deep as brackets may be."""
        self._enter()
        value = self._factor()
        self._brackets -= 1
        return value

    def _enter(self) -> None:
        self._brackets += 1
        if self._brackets > MOST_BRACKETS:
            self.fail(f"more than {MOST_BRACKETS} brackets inside each other")

    def _bracket_or_wave(self, start: int) -> Sum:
        is_wave = bool(re.match(r"sin\s*\(", self.rest, re.IGNORECASE))
        if is_wave:
            self.take("sin")
        if not self.take("("):
            if re.match(r"(skill )?unit \d", self.rest):
                self.fail("units of a network can be printed, but not read", "a network is no rule; use other features")
            self.unknown("observation", (*self.names.vocabulary.variables, *self.names.sums))
        self._enter()
        if is_wave:
            value = self._wave(start)
        else:
            value = self.sum()
        self.expect(")")
        self._brackets -= 1
        return value

    def _wave(self, start: int) -> Sum:
        """sin(pi*(3*x)): behind `pi *`, a linear sum."""
        if not self.names.limits.has_waves:
            self.fail("a wave: features have none here", "use --features fourier", start)
        self.expect("pi", "waves are written sin(pi*(3*x))")
        self.expect("*", "waves are written sin(pi*(3*x))")
        inside = self._product()
        if not inside.terms or any(len(t.variables) != 1 or t.wave is not None for t in inside.terms):
            self.fail("inside a wave there must be a linear sum", "as in sin(pi*(3*x))", start)
        frequencies = tuple(sorted((term.variables[0], c) for term, c in inside.terms.items()))
        if frequencies[-1][0] >= len(self.names.vocabulary.observations):
            self.fail("inside a wave there may be observations only", offset=start)
        return Sum({Term(wave=Wave(frequencies, inside.constant)): 1.0})
