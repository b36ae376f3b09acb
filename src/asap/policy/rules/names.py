"""All that a word of rules may mean: observations, numbers of the task, actions, named sums, named skills, units."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from asap.policy.rules.rulebook import Vocabulary

SIGNS = re.compile(r'[-+*/^()\[\],;:=<>#"%]')  # A name that has one of them is written in quotes.
KEYWORDS = frozenset("if then otherwise else and in not within keep or the largest of sin pi to".split())
PIECE = re.compile(r"(\s*)(\w+|[^\w\s])")
MOST_WORK = 300_000  # Terms that may be added or multiplied while one text is read.


def same(name: str) -> str:
    """What two spellings of a name have in common."""
    return " ".join(name.split()).casefold()


class Limits(NamedTuple):
    """The features that rules may use."""

    degree: int = 99  # Observations in a product.
    has_waves: bool = True


NO_LIMITS = Limits()


class NameAt(NamedTuple):
    """A name that stands in a text."""

    meaning: Any
    end: int


class Lexicon:
    """Names with their meanings. They are found in any case, with any spaces between their words, the longest first.

    Nothing here is a regular expression made of names: thousands of them would be tried one by one.
    """

    def __init__(self, names: Iterable[tuple[str, Any]]):
        self.meanings: dict[str, Any] = {}
        for name, meaning in names:
            self.meanings.setdefault(same(name), meaning)
        self._longest = max(map(len, self.meanings), default=0)

    def at(self, text: str, offset: int) -> NameAt | None:
        found, read, end = None, "", offset
        while self.meanings and (piece := PIECE.match(text, end)) is not None:
            read += (" " if piece[1] and read else "") + piece[2].casefold()
            if len(read) > self._longest:
                break
            end = piece.end()
            if read in self.meanings:
                found = NameAt(self.meanings[read], end)
        return found

    def get(self, name: str) -> Any:
        return self.meanings.get(same(name))


class Meanings:
    """All that a word may mean here."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits = NO_LIMITS):
        self.vocabulary, self.limits = vocabulary, limits
        numbered = list(enumerate(vocabulary.variables))
        self.variables = Lexicon((name, v) for v, name in numbered)
        self.plain_variables = Lexicon((name, v) for v, name in numbered if not SIGNS.search(name))
        self.actions = Lexicon((name, a) for a, name in enumerate(vocabulary.actions))
        self.units = Lexicon((unit.name, unit.name) for unit in vocabulary.units if unit.name)
        self.sums = Lexicon(())
        self.skills: dict[str, Any] = {}
        self.depth = 0  # Of brackets and named sums that are being read.
        self.work = 0  # Terms that were added or multiplied so far.
