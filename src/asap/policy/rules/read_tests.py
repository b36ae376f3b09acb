"""Conditions as they are written: comparisons of sums, and lists of states. The same test in another form is one plane."""

import re

from asap.policy.rules.cursor import Cursor
from asap.policy.rules.read_sums import read_sum
from asap.policy.rules.rulebook import MOST_TESTS, Test
from asap.policy.rules.sums import Sum, Term, term_order

CLOSE = 1e-9
TINY = 1e-300
LARGEST, SMALLEST = 1e36, 1e-30  # Of margins, which are numbers of 32 bits.
REVERSED = re.compile(r"=[<>]")
STATES = re.compile(r"(not\s+)?in\b", re.IGNORECASE)
SEVERAL = re.compile(r"([^\W\d][\w ]*?)s\s+(?=[0-9]+\s*(,|and\b|to\b)\s*[0-9])", re.IGNORECASE)
ONE_OF_SEVERAL = re.compile(r"([^\W\d][\w ]*?)s\s+([0-9]{1,9})(?![\w.])", re.IGNORECASE)  # `columns 1`
STATE_NUMBER = re.compile(r"[0-9]{1,9}(?![\w.])")

Literal = tuple[int, bool]  # A test by its number, and the side on which it holds.


class Tests:
    """The distinct tests that were read so far."""

    __test__ = False  # Nothing for pytest.

    def __init__(self):
        self.found: list[Test] = []
        self.places: list[tuple[Cursor, int]] = []  # Where each was read first.
        self._known: dict[tuple, Literal] = {}  # By what is the same in all spellings of a test.

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
        test, side = self._place(Test(members, keep=read_keep(cursor)), cursor, start)
        return test, side != is_not

    def _place(self, test: Test, cursor: Cursor, start: int) -> Literal:
        _require_size(test, cursor, start)
        is_turned = next(iter(test.value.terms.values())) < 0  # As tests are written: the first term positive.
        value = test.value.scaled(-1.0) if is_turned else test.value
        sign, key = _plane(value)
        if key not in self._known:
            if len(self.found) == MOST_TESTS:
                cure = "leave some out: each doubles the regions"
                cursor.fail(f"more than {MOST_TESTS} different tests", cure, start)
            self._known[key] = len(self.found), sign > 0
            self.found.append(test._replace(value=value))
            self.places.append((cursor, start))
            return len(self.found) - 1, not is_turned
        place, is_positive = self._known[key]
        before = self.found[place]
        within = None if test.within is None else test.within * before.value.largest / value.largest
        if within is not None and before.within is not None and abs(within - before.within) > CLOSE * within:
            first, at = self.places[place]
            line = first.line.place(at)[0] + 1
            cursor.fail(f"`within` is another number than for the same test in line {line}", "say it once", start)
        self.found[place] = before._replace(within=before.within or within, keep=before.keep or test.keep)
        return place, (is_positive == (sign > 0)) != is_turned


def _plane(value: Sum) -> tuple[float, tuple]:
    """What all sums have in common that are 0 on the same plane, and the sign with which this one has it."""
    ordered = sorted(value.items, key=lambda item: term_order(item[0]))
    sign = 1.0 if value.terms[min(value.terms, key=term_order)] > 0 else -1.0
    return sign, tuple((term, float(f"{sign * c / value.largest:.12g}")) for term, c in ordered)


def _require_size(test: Test, cursor: Cursor, start: int) -> None:
    """What is compared, and how sharply, must be numbers that a policy can hold."""
    margin = test.margin.substituted(*cursor.names.vocabulary.affine)
    largest = max(abs(c) for _, c in margin.items)
    if not (SMALLEST < margin.largest and largest < LARGEST):
        what = "numbers of this test are too far apart, or `within` is too small or too large"
        cursor.fail(what, "write it in other units", start)


def is_list(value: Sum) -> bool:
    """Whether it has the form of a list of states: which is as it is, and not scaled."""
    return set(value.terms.values()) == {2.0} and value.constant == -1.0


def sees_states(cursor: Cursor) -> bool:
    """A name may begin like a list of states."""
    is_name = cursor.names.plain_variables.at(cursor.text, cursor.offset) is not None
    return cursor.sees(STATES) is not None and not is_name


def read_chain(cursor: Cursor) -> list[Test]:
    """`a < sum < b` are two tests; `within` and [keep] behind them are for both."""
    start, first_unit = cursor.offset, len(cursor.units)
    left, values = read_sum(cursor), []
    while (sign := cursor.take(">=", "<=", ">", "<", "≥", "≤")) is not None:
        if cursor.text[cursor.offset : cursor.offset + 1] in ("=", ">", "<"):
            cursor.fail(f"did not expect {cursor.shown()!r} here", "numbers are compared by > or <")
        right = read_sum(cursor)
        bigger, smaller = (left, right) if sign[0] in ">≥" else (right, left)
        values.append(bigger.plus(smaller, -1.0))
        left = right
    if not values:
        cure = "written >= or <=" if cursor.sees(REVERSED) else cursor.habit() or "write `NAME > NUMBER`"
        cursor.fail("expected a comparison", cure)
    within, keep = _within(cursor), read_keep(cursor)
    for value in values:
        if value.largest < TINY:
            cursor.fail("a constant test: it is always true or never", "compare an observation", start)
        cursor.require_unit(value, first_unit)
    return [Test(value, within, keep) for value in values]


def _within(cursor: Cursor) -> float | None:
    start = cursor.offset
    if not cursor.take("within"):
        return None
    within = cursor.needed_number("`within`", "as in `x > 3 within 0.5`", may_have_unit=True)
    if within <= 0:
        cursor.fail("`within` must be positive", "leave it out for a sharp test", start)
    return within


def read_keep(cursor: Cursor) -> bool:
    if not cursor.take("["):
        return False
    if not cursor.take("keep"):
        cursor.fail("expected `keep` in square brackets", "as in [keep]")
    cursor.expect("]", "as in [keep]")
    return True


def _read_states(cursor: Cursor) -> set[int]:
    """`row 0 columns 1, 3 to 5; row 2 column 1`, `states 3, 5`: names, or what several begin with and their numbers."""
    found: set[int] = set()
    while True:
        several = cursor.sees(SEVERAL)
        if several is not None:
            cursor.move(several.end())
            found |= _numbered(cursor, several[1])
        else:
            found.add(_one_state(cursor))
        if cursor.take(";", ",") is None:
            return found


def _one_state(cursor: Cursor) -> int:
    start, count = cursor.offset, len(cursor.names.vocabulary.observations)
    place = cursor.indexed("state", count)
    found = cursor.variable() if place is None else place
    if not isinstance(found, int) or found >= count:
        cursor.offset = start
        one = cursor.sees(ONE_OF_SEVERAL)
        found = None if one is None else cursor.names.variables.get(f"{one[1]} {one[2]}")
        if one is not None and found is not None:
            cursor.move(one.end())
            return found
        cursor.unknown("state", cursor.names.vocabulary.observations)
    return found


def _numbered(cursor: Cursor, stem: str) -> set[int]:
    """The states whose names are the stem with one of these numbers."""
    variables, states = cursor.names.variables, set()
    while True:
        at, first = cursor.offset, _state_number(cursor)
        last = _state_number(cursor) if cursor.take("to") else first
        if not 0 <= last - first <= len(variables.meanings):
            cursor.fail(f"no such range of states: {first} to {last}", "the smaller number first", at)
        for each in range(first, last + 1):
            found = variables.get(f"{stem} {each}")
            if found is None:
                cursor.fail(f"{stem} {each}: no such state", "choose from those that `asap tasks` prints", at)
            states.add(found)
        before = cursor.offset
        if cursor.take(",", "and") is None or cursor.sees(STATE_NUMBER) is None:
            cursor.move(before)
            return states


def _state_number(cursor: Cursor) -> int:
    found = cursor.sees(STATE_NUMBER)
    if found is None:
        cursor.fail("states are numbered by whole numbers", "as in `states 3, 5 to 9`")
    cursor.move(found.end())
    return int(found[0])
