"""Names with parameters: `CartPole-v1?length=0.3&force_mag=5..15`, and what they say.

A number is a value for all episodes. `LOW..HIGH` is a range: each episode draws its own value, decided by its id. A name
says all, so that runs, recordings and workers need nothing else.
"""

import functools
import itertools
import math
import numbers
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from asap.base.episodes import EpisodeId
from asap.base.errors import UserError
from asap.base.spec import base_of

FIELD = "task"
CURE = "write CartPole-v1?length=0.3, or a range: CartPole-v1?length=0.3..1"
LONGEST_NAME, LONGEST_WORD, MOST = 500, 64, 16
MOST_MEMBERS = 1000  # Of a family, as `--vary` makes them.
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_PUBLIC = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


class Parameter(NamedTuple):
    """A number of an environment, or a range from which each episode draws one."""

    name: str
    low: float
    high: float

    @classmethod
    def of(cls, name: object, value: object) -> "Parameter":
        """From what a program gives: a number, or two of them for a range."""
        ends = value if isinstance(value, tuple) else (value, value)
        if len(ends) != 2 or not all(isinstance(end, numbers.Real) for end in ends):
            what = f"'{ascii(name)[1:-1][:LONGEST_WORD]}' must be a number, or two of them for a range"
            cure = "texts and lists are options: settings={'env.options': ...}"
            raise UserError(FIELD, what, ascii(value)[:80], cure)
        return cls(_public(str(name)), *map(_finite, ends)).checked()

    @classmethod
    def read(cls, word: str) -> "Parameter":
        """From NAME=NUMBER or NAME=LOW..HIGH."""
        name, _, value = word.partition("=")
        low, dots, high = value.partition("..")
        ends = (low, high) if dots else (low, low)
        if not all(map(_NUMBER.fullmatch, ends)):
            what = "a parameter must be NAME=NUMBER, or NAME=LOW..HIGH"
            raise UserError(FIELD, what, ascii(word)[1:-1][:80] or "nothing", CURE)
        return cls(_public(name), *map(_finite, map(float, ends))).checked()

    def checked(self) -> "Parameter":
        if self.low > self.high:
            raise UserError(FIELD, f"the range of '{self.name}' must begin with its lower end", self.word, CURE)
        if not math.isfinite(self.high - self.low):
            raise UserError(FIELD, f"the range of '{self.name}' is too wide", self.word, "choose nearer ends")
        return self

    @property
    def is_range(self) -> bool:
        return self.low < self.high

    @property
    def middle(self) -> float:
        return self.low if not self.is_range else (self.low + self.high) / 2

    @property
    def word(self) -> str:
        ends = in_short(self.low), in_short(self.high)
        return f"{self.name}={'..'.join(ends) if self.is_range else ends[0]}"

    def at(self, value: float) -> "Parameter":
        return Parameter(self.name, value, value)


class Named(NamedTuple):
    """An environment's own name, and its parameters."""

    base: str
    parameters: tuple[Parameter, ...] = ()

    @property
    def text(self) -> str:
        words = "&".join(parameter.word for parameter in self.parameters)
        return f"{self.base}?{words}" if words else self.base

    @property
    def has_ranges(self) -> bool:
        return any(parameter.is_range for parameter in self.parameters)

    def with_parameters(self, more: Sequence[Parameter]) -> "Named":
        """With others behind its own."""
        every = (*self.parameters, *more)
        return Named(self.base, every)._checked()

    def of_episode(self, episode: EpisodeId | None) -> "Named":
        """With the values that an episode draws; without one, those in the middle."""
        values = [
            one.middle if episode is None or not one.is_range else drawn_value(one, episode) for one in self.parameters
        ]
        return Named(self.base, tuple(one.at(value) for one, value in zip(self.parameters, values)))

    def _checked(self) -> "Named":
        names = [parameter.name for parameter in self.parameters]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UserError(FIELD, "a parameter is given twice", twice, "name each once")
        if len(names) > MOST or len(self.text) > LONGEST_NAME:
            what = f"a name may have {MOST} parameters and {LONGEST_NAME} characters"
            raise UserError(FIELD, what, f"{len(names)} and {len(self.text):,}", "name fewer")
        return self


def drawn_value(parameter: Parameter, episode: EpisodeId) -> float:
    """Of a range, in an episode; `base.spec.TaskSet.descriptor_of` draws the same."""
    return parameter.low + episode.drawn(parameter.name) * (parameter.high - parameter.low)


@functools.lru_cache(maxsize=1024)
def parse(text: str) -> Named:
    """What a name says; its base may be anything."""
    base, words = base_of(text), text.partition("?")[2]
    if base == text:
        return Named(text)
    if len(text) > LONGEST_NAME + 100:  # Looked at before it is read.
        raise UserError(FIELD, f"a name may have {LONGEST_NAME} characters", f"{len(text):,}", "name fewer parameters")
    return Named(base, tuple(map(Parameter.read, words.split("&"))))._checked()


def named(base: str, values: Mapping[str, Any]) -> str:
    """The name that a program means by a base and keyword arguments."""
    return parse(base).with_parameters([Parameter.of(*pair) for pair in values.items()]).text


def varied(texts: Sequence[str], vary: Sequence[str]) -> list[str]:
    """`--vary NAME=A,B,C` makes a task of each value, several such lists their product; a range goes into every task.

    A weight behind a task's name stays behind it.
    """
    lists = [_alternatives(word) for word in vary]
    count = len(texts) * math.prod(map(len, lists))
    if count > MOST_MEMBERS:
        raise UserError("--vary", f"may make {MOST_MEMBERS:,} tasks", f"{count:,}", "give ranges: NAME=LOW..HIGH")
    found = []
    for text in texts:
        name, weight = split_weight(text)
        for chosen in itertools.product(*lists):
            found.append(parse(name).with_parameters(chosen).text + weight)
    return found


def _alternatives(word: str) -> list[Parameter]:
    name, _, values = word.partition("=")
    return [Parameter.read(f"{name}={value}") for value in values.split(",")]


def split_weight(text: str) -> tuple[str, str]:
    """The name, and what stands behind it where that is a colon and a number: neither a module nor an id ends so."""
    start, colon, last = text.rpartition(":")
    return (start, colon + last) if start and _NUMBER.fullmatch(last) else (text, "")


def in_short(value: float) -> str:
    """A number with as few characters as say it exactly."""
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def _public(name: str) -> str:
    if not _PUBLIC.fullmatch(name) or len(name) > LONGEST_WORD:
        what = "a parameter must be a plain public name, such as length"
        raise UserError(FIELD, what, ascii(name)[1:-1][:80] or "nothing", CURE)
    return name


def _finite(value: Any) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise UserError(FIELD, "a parameter must be finite", str(number), CURE)
    return number
