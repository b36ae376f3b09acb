"""Conditions as they are written: comparisons of sums, and lists of states. The same test in another form is one plane."""

import re

from asap.policy.rules.cursor import Cursor
from asap.policy.rules.names import same
from asap.policy.rules.rulebook import MOST_TESTS, Test
from asap.policy.rules.sums import Sum, Term

CLOSE = 1e-9
TINY = 1e-300

Literal = tuple[int, bool]  # A test by its number, and the side on which it holds.


class Tests:
    """The distinct tests that were read so far."""

    __test__ = False  # Nothing for pytest.

    def __init__(self):
        self.found: list[Test] = []
        self._places: dict[tuple, Literal] = {}  # By what is the same in all spellings of a test.

    def conjunction(self, cursor: Cursor) -> list[Literal]:
        """Comparisons joined by `and`."""
        literals: list[Literal] = []
        while True:
            literals += [self._states(cursor)] if sees_states(cursor) else self._comparisons(cursor)
            if not cursor.take("and"):
                return literals

    def _comparisons(self, cursor: Cursor) -> list[Literal]:
        start = cursor.offset
        return [self._place(test, cursor, start) for test in read_chain(cursor)]

    def _states(self, cursor: Cursor) -> Literal:
        start, is_not = cursor.offset, cursor.take("not") is not None
        cursor.take("in")
        if not cursor.names.vocabulary.numbered:
            cursor.fail("states are not numbered here", "compare an observation: `NAME > NUMBER`", start)
        members = Sum({Term((s,)): 2.0 for s in sorted(_read_states(cursor))}, -1.0)
        test, side = self._place(Test(members), cursor, start)
        return test, side != is_not

    def _place(self, test: Test, cursor: Cursor, start: int) -> Literal:
        size = 1.0 if is_list(test.value) else test.value.largest
        value, within = test.value.scaled(1 / size), None if test.within is None else test.within / size
        sign = 1.0 if value.terms[min(value.terms)] > 0 else -1.0
        key = tuple(sorted((term, float(f"{sign * c:.10g}")) for term, c in value.items))
        if key not in self._places:
            if len(self.found) == MOST_TESTS:
                cursor.fail(
                    f"more than {MOST_TESTS} different tests", "leave some out: each doubles the regions", start
                )
            self._places[key] = len(self.found), sign > 0
            self.found.append(Test(value, within, test.keep))
            return len(self.found) - 1, True
        place, is_positive = self._places[key]
        before = self.found[place]
        if within is not None and before.within is not None and abs(within - before.within) > CLOSE * within:
            cursor.fail("`within` was given before for this test, with another number", "say it once", start)
        self.found[place] = before._replace(within=before.within or within, keep=before.keep or test.keep)
        return place, is_positive == (sign > 0)


def is_list(value: Sum) -> bool:
    """Whether it has the form of a list of states: which is as it is, and not scaled."""
    return set(value.terms.values()) == {2.0} and value.constant == -1.0


def sees_states(cursor: Cursor) -> bool:
    return bool(re.match(r"(not\s+)?in\s", cursor.rest, re.IGNORECASE))


def read_chain(cursor: Cursor) -> list[Test]:
    """`a < sum < b` are two tests; `within` and [keep] behind them are for both."""
    start, first_unit, vocabulary = cursor.offset, len(cursor.units), cursor.names.vocabulary
    left, values = cursor.sum(), []
    while (sign := cursor.take(">=", "<=", ">", "<", "≥", "≤")) is not None:
        right = cursor.sum()
        bigger, smaller = (left, right) if sign[0] in ">≥" else (right, left)
        values.append(bigger.plus(smaller, -1.0))
        left = right
    if not values:
        cursor.fail("expected a comparison", "write `NAME > NUMBER`")
    within, keep = _within(cursor), read_keep(cursor)
    for value in values:
        if value.largest < TINY:
            cursor.fail("a constant test: it is always true or never", "compare an observation", start)
        unit = vocabulary.unit_of(value)
        for name, place in cursor.units[first_unit:]:
            if name != unit:
                cursor.fail(f"{name} is not the unit of this sum", f"use {unit}" if unit else "leave it out", place)
    return [Test(value, within, keep) for value in values]


def _within(cursor: Cursor) -> float | None:
    start = cursor.offset
    if not cursor.take("within"):
        return None
    within = cursor.needed_number("`within`")
    if within <= 0:
        cursor.fail("`within` must be positive", offset=start)
    return within


def read_keep(cursor: Cursor) -> bool:
    if not cursor.take("["):
        return False
    if not cursor.take("keep"):
        cursor.fail("expected [keep]")
    cursor.expect("]")
    return True


def _read_states(cursor: Cursor) -> set[int]:
    """`row 0 columns 1, 3 to 5; row 2 column 1`, `states 3, 5`: names, or what several begin with and their numbers."""
    found: set[int] = set()
    while True:
        several = re.compile(r"([^\W\d][\w ]*?)s\s+(?=\d+\s*(,|and|to)\s*\d)").match(cursor.text, cursor.offset)
        if several is not None:
            cursor.move(several.end())
            found |= _numbered(cursor, several[1])
        else:
            found.add(_one_state(cursor))
        if cursor.take(";", ",") is None:
            return found


def _one_state(cursor: Cursor) -> int:
    place = cursor.indexed("state", len(cursor.names.vocabulary.observations))
    found = cursor.variable() if place is None else place
    if not isinstance(found, int):
        cursor.unknown("state", cursor.names.vocabulary.observations)
    return found


def _numbered(cursor: Cursor, stem: str) -> set[int]:
    """The states whose names are the stem with one of these numbers."""
    variables, states = cursor.names.variables, set()
    while True:
        at, first = cursor.offset, int(cursor.needed_number("a state"))
        last = int(cursor.needed_number("a state")) if cursor.take("to") else first
        if not 0 <= last - first <= len(variables):
            cursor.fail("no such range of states", "the smaller number first", at)
        for each in range(first, last + 1):
            name = same(f"{stem} {each}")
            if name not in variables:
                cursor.fail(f"{name}: no such state", offset=at)
            states.add(variables[name])
        before = cursor.offset
        if cursor.take(",", "and") is None or not re.match(r"\d", cursor.rest):
            cursor.move(before)
            return states
