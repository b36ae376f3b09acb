"""A line of rules, read from left to right: words, numbers and names; and what a person may have meant who wrote another."""

import difflib
import itertools
import math
import re
from collections.abc import Sequence
from typing import NoReturn

from asap.policy.rules.names import KEYWORDS, MOST_WORK, Lexicon, Meanings, same
from asap.policy.rules.source import LONGEST_SHOWN, Line, RulesError, Source
from asap.policy.rules.sums import Sum

NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
WORD = re.compile(r"[^\W\d]\w*")
NAMELESS = re.compile(r"(obs|action) -?[0-9]+")  # As they are called where nobody named them.
INDEX = {word: re.compile(rf"{word}\s*\[\s*([0-9]{{1,9}})\s*\]", re.I) for word in ("obs", "m", "action", "state")}
UNKNOWN = re.compile(r'"[^"]*"|[^\W\d]\w*(?: +\w+)*|\S+')
MOST_DEPTH = 30  # Of brackets and named sums inside each other.
MOST_COMPARED = 2_000  # Names that a misspelt one is compared with.

# What people write who know another language, and how it is written here.
HABITS = [
    (re.compile(pattern, re.IGNORECASE), cure)
    for pattern, cure in (
        (r"(?<=[0-9],)[0-9]|(?<=[0-9]),[0-9]", "decimals are written with a point: 0.5"),
        (r"=>|->|→|\{|(?<=-)>|:(?!\s*$)", "write `if TEST then ACTION`"),
        (r"==?|!=|<>|≠|is\b|equals\b", "numbers are compared by > or <"),
        (r"&", "tests are joined by `and`"),
        (r"\||(or|xor)\b", "tests are joined by `and` alone: write a case for each"),
        (r"!|not\b", "turn the comparison round: < in place of >"),
        (r"(elif|elsif|elseif|when|while|unless|case|switch)\b", "cases begin with `if` or `otherwise`"),
        (r"\*", "a power is written x^2, a product x*y"),
        (r"[“”„«»‘’'`]", 'names are quoted by plain double quotes: "NAME"'),
        (r"[−–—]", "a minus is written -"),
        (r"[×·⋅•]", "a product is written x*y"),
        (r"\w*[²³]", "a power is written x^2"),
        (r"(else|otherwise)\b", "write it on a line of its own"),
        (r"if\b", "conditions stand in front: `if TEST then ACTION`"),
        (r"[0-9.]+\s*%", "percentages stand in brackets, behind an action: (90 %)"),
        (r"\(?\s*\+/-|\+-|±", "a spread stands in brackets, behind a number to set: (+- 0.3)"),
        (r"(inf|infinity|nan)\b", "numbers must be finite"),
        (r"(true|false|none)\b", "compare an observation with a number: `NAME > NUMBER`"),
        (r"pi\b", "pi stands in waves only: sin(pi*(3*x))"),
        (r"(abs|min|max|cos|tan|tanh|exp|log|sqrt|sign|clip|round)\s*\(", "the one function is sin(pi*(3*x))"),
    )
]


class Cursor:
    """A place in a line, which moves on as things are read."""

    def __init__(self, source: Source, line: Line, names: Meanings, offset: int = 0):
        self.source, self.line, self.names = source, line, names
        self.text, self.offset = line.text, offset
        self.units: list[tuple[str, int]] = []  # Units that stood behind numbers, and where.
        self._skip()

    def _skip(self) -> None:
        while self.offset < len(self.text) and self.text[self.offset].isspace():
            self.offset += 1

    @property
    def is_at_end(self) -> bool:
        return self.offset >= len(self.text)

    def sees(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        return pattern.match(self.text, self.offset)

    def fail(self, what: str, cure: str = "", offset: int | None = None) -> NoReturn:
        raise RulesError(self.source, *self.line.place(self.offset if offset is None else offset), what, cure)

    def move(self, offset: int) -> None:
        self.offset = offset
        self._skip()

    def spend(self, terms: int) -> None:
        """Short texts can ask for long sums: of sums of sums."""
        self.names.work += terms
        if self.names.work > MOST_WORK:
            self.fail("too many terms to add and multiply", "leave some out: rules are meant to be read")

    def enter(self) -> None:
        self.names.depth += 1
        if self.names.depth > MOST_DEPTH:
            self.fail(f"more than {MOST_DEPTH} brackets and named sums inside each other", "write it shorter")

    def leave(self) -> None:
        self.names.depth -= 1

    # ---- Words and numbers ----------------------------------------------------------------------------------------

    def take(self, *signs: str) -> str | None:
        """The first of these that stands here; words end where a word ends."""
        for sign in signs:
            end = self.offset + len(sign)
            if self.text[self.offset : end].casefold() == sign and not (sign[-1].isalnum() and self._is_word_at(end)):
                self.move(end)
                return sign
        return None

    def _is_word_at(self, offset: int) -> bool:
        after = self.text[offset : offset + 1]
        return after.isalnum() or after == "_"

    def expect(self, sign: str, cure: str = "") -> None:
        if self.take(sign) is None:
            self.fail(f"expected `{sign}`{self.before()}", (self.habit() if sign in ("then", "%", ")") else "") or cure)

    def before(self) -> str:
        return " at the end of the line" if self.is_at_end else f" before {self.shown()!r}"

    def shown(self) -> str:
        """What stands here, up to a space."""
        return self.text[self.offset : self.offset + LONGEST_SHOWN].split(maxsplit=1)[0]

    def habit(self) -> str:
        """How it is written here what stands here, if it is of another language."""
        return next((cure for pattern, cure in HABITS if self.sees(pattern)), "")

    def end(self) -> None:
        if not self.is_at_end:
            is_percentage = self.names.vocabulary.action_bounds is None and self.sees(NUMBER)
            cure = "percentages stand in brackets: (90 %)" if is_percentage else "leave it out"
            self.fail(f"did not expect {self.shown()!r} here", self.habit() or cure)

    def number(self, may_have_unit: bool = False) -> float | None:
        match = self.sees(NUMBER)
        if match is None:
            return None
        value = float(match[0])
        if not math.isfinite(value):
            self.fail(f"{match[0][:LONGEST_SHOWN]} is not a finite number", "write a smaller one")
        self.move(match.end())
        unit = self.names.units.at(self.text, self.offset) if may_have_unit else None
        if unit is not None:
            self.units.append((unit.meaning, self.offset))
            self.move(unit.end)
        return value

    def needed_number(self, of: str, cure: str = "", may_have_unit: bool = False) -> float:
        start, sign = self.offset, -1.0 if self.take("-") else 1.0
        value = self.number(may_have_unit)
        if value is None:
            self.fail(f"{of} must be a number", cure, start)
        return sign * value

    def require_unit(self, value: Sum, first: int) -> None:
        """Units behind numbers, from the first on, are those of the sum."""
        unit = self.names.vocabulary.unit_of(value)
        for name, place in self.units[first:]:
            if name != unit:
                cure = f"use {unit}, or leave it out" if unit else "leave it out"
                self.fail(f"{name} is not the unit of this sum", cure, place)

    # ---- Names ----------------------------------------------------------------------------------------------------

    def quoted(self) -> str | None:
        if self.text[self.offset : self.offset + 1] != '"':
            return None
        end = self.text.find('"', self.offset + 1)
        if end < 0:
            self.fail("a name in quotes does not end", 'put " behind it')
        name = self.text[self.offset + 1 : end]
        self.move(end + 1)
        return name

    def indexed(self, word: str, count: int) -> int | None:
        """`obs[3]`."""
        match = self.sees(INDEX[word])
        if match is None:
            return None
        index = int(match[1])
        if index >= count:
            self.fail(f"{word}[{index}]: there are {count}", f"use 0 to {count - 1}" if count else "leave it out")
        self.move(match.end())
        return index

    def unknown(self, what: str, known: Sequence[str]) -> NoReturn:
        """No such name; the nearest one, if any."""
        found, habit = self.sees(UNKNOWN), self.habit()
        shown = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "")
        choose = f"choose from {shown}" if known else ""
        if known and all(map(NAMELESS.fullmatch, known)):
            choose += f", or give the environment an attribute `{what}_names`"
        words = found[0][: 3 * LONGEST_SHOWN].strip('"').split() or ['""'] if found else []
        if not words or same(words[0]) in KEYWORDS - {"not", "or", "pi", "sin"}:
            self.fail(f"expected the name of {'an' if what[0] in 'ao' else 'a'} {what}{self.before()}", habit or choose)
        words = [words[0], *itertools.takewhile(lambda word: same(word) not in KEYWORDS, words[1:])]
        for length in range(len(words), 0, -1):  # What follows the name may be words of the language.
            name = " ".join(words[:length])
            near = None if habit else nearest(name, known)
            if near is not None:
                self.fail(f"{name}: no such {what}", f"did you mean {near!r}?")
        self.fail(f"{words[0][:LONGEST_SHOWN]}: no such {what}", habit or choose)

    def variable(self) -> int | Sum | None:
        """An observation or a number of the task, by index; or a named sum."""
        names, start = self.names, self.offset
        count = len(names.vocabulary.observations)
        place = self.indexed("obs", count)
        if place is not None:
            return place
        place = self.indexed("m", len(names.vocabulary.descriptors))
        if place is not None:
            return count + place
        name = self.quoted()
        if name is not None:
            return self._meaning(names.variables, name, start, "observation", names.vocabulary.variables)
        own, named = names.plain_variables.at(self.text, start), names.sums.at(self.text, start)
        if named is not None and (own is None or named.end > own.end):
            value = named.meaning(self, start)
            self.move(named.end)
            return value
        if own is not None:
            self.move(own.end)
            return own.meaning
        return None

    def _meaning(self, lexicon: Lexicon, name: str, start: int, what: str, known: Sequence[str]) -> int:
        found = lexicon.get(name)
        if found is None:
            self.offset = start
            self.unknown(what, known)
        return found

    def action(self) -> int | None:
        start, actions = self.offset, self.names.vocabulary.actions
        place = self.indexed("action", len(actions))
        if place is not None:
            return place
        name = self.quoted()
        if name is not None:
            return self._meaning(self.names.actions, name, start, "action", actions)
        found = self.names.actions.at(self.text, start)
        if found is None:
            return None
        self.move(found.end)
        return found.meaning

    def needed_action(self, *others: str) -> int:
        action = self.action()
        if action is None:
            self.unknown("action", (*self.names.vocabulary.actions, *others))
        return action


def nearest(name: str, known: Sequence[str]) -> str | None:
    """The known name that is spelt most like this one, if any is alike."""
    spelt = {same(each): each for each in reversed(known[:MOST_COMPARED])}
    near = difflib.get_close_matches(same(name), list(spelt), 1)
    return spelt[near[0]] if near else None
