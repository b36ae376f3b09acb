"""All that a word of rules may mean: observations, numbers of the task, actions, named sums."""

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from asap.policy.rules.rulebook import Vocabulary
from asap.policy.rules.sums import Sum

SIGNS = re.compile(r'[-+*/^()\[\],;:=<>#"%]')  # A name that has one of them is written in quotes.


def names_pattern(names: Sequence[str]) -> re.Pattern[str] | None:
    """Any of these names, the longest first, in any case and with any spaces between their words."""
    ordered = sorted(names, key=len, reverse=True)
    parts = [r"\s+".join(map(re.escape, name.split())) for name in ordered if name.split()]
    return re.compile(rf"(?:{'|'.join(parts)})(?!\w)", re.IGNORECASE) if parts else None


def same(name: str) -> str:
    """What two spellings of a name have in common."""
    return " ".join(name.split()).casefold()


class Limits(NamedTuple):
    """The features that rules may use."""

    degree: int = 99  # Observations in a product.
    has_waves: bool = True


NO_LIMITS = Limits()


class Names:
    """All that a word may mean here."""

    def __init__(self, vocabulary: Vocabulary, limits: Limits = NO_LIMITS):
        self.vocabulary, self.limits = vocabulary, limits
        self.variables = {same(name): v for v, name in reversed(list(enumerate(vocabulary.variables)))}
        self.actions = {same(name): a for a, name in reversed(list(enumerate(vocabulary.actions)))}
        self.units = {unit.name for unit in vocabulary.units if unit.name}
        self._variables = names_pattern([name for name in vocabulary.variables if not SIGNS.search(name)])
        self._actions = names_pattern(vocabulary.actions)
        self.sums: dict[str, Callable[[Any], Sum]] = {}
        self._sums: re.Pattern[str] | None = None

    def define_sums(self, sums: dict[str, Callable[[Any], Sum]]) -> None:
        self.sums, self._sums = sums, names_pattern(list(sums))

    def variable_at(self, text: str, offset: int) -> re.Match[str] | None:
        return self._variables.match(text, offset) if self._variables else None

    def sum_at(self, text: str, offset: int) -> re.Match[str] | None:
        return self._sums.match(text, offset) if self._sums else None

    def action_at(self, text: str, offset: int) -> re.Match[str] | None:
        return self._actions.match(text, offset) if self._actions else None
