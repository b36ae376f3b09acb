"""Sums as they are written: products, powers, brackets, waves, named sums; multiplied out into terms."""

import math
import re
from collections import defaultdict
from collections.abc import Callable

from asap.policy.rules.cursor import WORD, Cursor
from asap.policy.rules.names import KEYWORDS
from asap.policy.rules.source import LONGEST_SHOWN
from asap.policy.rules.sums import Sum, Term, Wave

MOST_FACTORS, MOST_TERMS = 6, 2000
LARGEST = 1e30  # Policies hold numbers of 32 bits.
WAVE = re.compile(r"sin\s*\(", re.IGNORECASE)
UNIT_OF_NETWORK = re.compile(r"(skill )?unit [0-9]", re.IGNORECASE)
SPREAD = re.compile(r"\+-|\+/-")
COMPARISON = re.compile(r"[<>≤≥=]")
NO_OPERAND = re.compile(r"[])<>≤≥+/^=,;:%]|(if|then|and|within|else|otherwise)\b", re.IGNORECASE)
AS_WAVE = "waves are written sin(pi*(3*x))"


def read_sum(cursor: Cursor) -> Sum:
    """Of products."""
    totals: defaultdict[Term, float] = defaultdict(float)
    sign = -1.0 if cursor.take("-", "+") == "-" else 1.0
    while True:
        start = cursor.offset
        for term, c in _product(cursor).items:
            totals[term] += sign * c
        if len(totals) > MOST_TERMS:
            cursor.fail(f"a sum of more than {MOST_TERMS:,} terms", "leave some out", start)
        if cursor.sees(SPREAD):
            cursor.fail("a sum goes on with one sign", cursor.habit())
        operator = cursor.take("+", "-")
        if operator is None:
            break
        sign = -1.0 if operator == "-" else 1.0
    return _finite(Sum.of(totals.items()), cursor, start)


def _finite(value: Sum, cursor: Cursor, start: int) -> Sum:
    if not all(abs(c) <= LARGEST for _, c in value.items):  # NaN is not smaller, either.
        cursor.fail(f"a number beyond {LARGEST:g}", "write it in other units", start)
    return value


def _product(cursor: Cursor) -> Sum:
    start = cursor.offset
    product = _factor(cursor)
    while (sign := cursor.take("*", "/")) is not None:
        at = cursor.offset
        factor = _factor(cursor)
        if sign == "/":
            if factor.terms or not factor.constant:
                cursor.fail("a sum can only be divided by a number other than 0", "write it as a product", at)
            factor = Sum({}, 1 / factor.constant)
        product = _multiplied(cursor, product, factor, at)
    return _finite(product, cursor, start)


def _multiplied(cursor: Cursor, one: Sum, other: Sum, start: int) -> Sum:
    if len(one.items) * len(other.items) > MOST_TERMS:
        cursor.fail(f"a product of more than {MOST_TERMS:,} terms", "leave some out", start)
    cursor.spend(len(one.items) * len(other.items))
    pairs = [(_both(cursor, a, b, start), c * d) for a, c in one.items for b, d in other.items if c * d]
    return Sum.of(pairs)


def _both(cursor: Cursor, a: Term, b: Term, start: int) -> Term:
    """The product of two terms, if a feature can be it."""
    count = len(cursor.names.vocabulary.observations)
    variables = tuple(sorted(a.variables + b.variables))
    if a.wave is not None and b.wave is not None:
        cursor.fail("a product of two waves", "no feature is one", start)
    if (a.wave is not None or b.wave is not None) and any(v < count for v in variables):
        cursor.fail("a product of a wave and an observation", "no feature is one", start)
    if sum(v >= count for v in variables) > 1:
        cursor.fail("a product of two numbers of the task", "no feature is one", start)
    if len(variables) > MOST_FACTORS:
        cursor.fail(f"a product of more than {MOST_FACTORS} observations", "leave some out", start)
    if sum(v < count for v in variables) > cursor.names.limits.degree:
        degree = max(2, cursor.names.limits.degree + 1)
        cure = "--features poly2" if degree == 2 else f"--set policy.degree={degree}"
        cursor.fail(f"a product of {degree} observations: features have none here", f"use {cure}", start)
    return Term(variables, a.wave or b.wave)


def _factor(cursor: Cursor) -> Sum:
    cursor.spend(2)
    if cursor.take("-"):
        cursor.enter()
        value = _factor(cursor).scaled(-1.0)
        cursor.leave()
        return value
    start = cursor.offset
    value = _base(cursor)
    if not cursor.take("^"):
        return value
    at, base = cursor.offset, value
    power = cursor.needed_number("a power", "as in x^2")
    if power != int(power) or not 1 <= power <= MOST_FACTORS:
        cursor.fail(f"a power must be a whole number from 1 to {MOST_FACTORS}", "as in x^2", at)
    for _ in range(int(power) - 1):
        value = _multiplied(cursor, value, base, start)
    return value


def _base(cursor: Cursor) -> Sum:
    """A number, a name, brackets or a wave."""
    start, number = cursor.offset, cursor.number(may_have_unit=True)
    if number is not None:
        _require_end_of_number(cursor)
        return Sum({}, number)
    found = cursor.variable()
    if found is not None:
        return found if isinstance(found, Sum) else Sum({Term((found,)): 1.0})
    is_wave = cursor.sees(WAVE) is not None
    if is_wave:
        cursor.take("sin")
    if not cursor.take("("):
        if cursor.sees(UNIT_OF_NETWORK):
            cursor.fail("units of a network can be printed, but not read", "a network is no rule; use other features")
        if cursor.is_at_end or cursor.sees(NO_OPERAND):
            what = f"expected a number or a name{cursor.before()}"
            cursor.fail(what, cursor.habit() or "as in `2*x + 3`")
        cursor.unknown("observation", (*cursor.names.vocabulary.variables, *cursor.names.sums.meanings))
    cursor.enter()
    value = _wave(cursor, start) if is_wave else read_sum(cursor)
    is_test = cursor.sees(COMPARISON) is not None
    cursor.expect(")", AS_WAVE if is_wave else "comparisons stand without brackets" if is_test else "close the bracket")
    cursor.leave()
    return value


def _require_end_of_number(cursor: Cursor) -> None:
    """Behind a number there is a sign, a word of the language, or what comes where `then` was forgotten."""
    word, names = cursor.sees(WORD), cursor.names
    if word is None or word[0].casefold() in KEYWORDS - {"sin", "pi"}:
        return
    if names.actions.at(cursor.text, cursor.offset) or any(
        cursor.text[cursor.offset :].casefold().startswith(name) for name in names.skills
    ):
        return
    is_name = names.plain_variables.at(cursor.text, cursor.offset) or names.sums.at(cursor.text, cursor.offset)
    units = f"units here are {', '.join(names.units.meanings.values())}" if names.units.meanings else ""
    if not units and cursor.text[word.start() - 1].isspace():
        units = "numbers stand without units here"
    cure = "" if is_name else units
    cursor.fail(f"did not expect {word[0][:LONGEST_SHOWN]!r} behind a number", cure or "a product is written 2*x")


def _wave(cursor: Cursor, start: int) -> Sum:
    """sin(pi*(3*x)): behind `pi *`, a linear sum."""
    if not cursor.names.limits.has_waves:
        cursor.fail("a wave: features have none here", "use --features fourier", start)
    cursor.expect("pi", AS_WAVE)
    cursor.expect("*", AS_WAVE)
    inside = _product(cursor)
    if not inside.terms or any(len(t.variables) != 1 or t.wave is not None for t in inside.terms):
        cursor.fail("inside a wave there must be a linear sum", "as in sin(pi*(3*x))", start)
    frequencies = tuple(sorted((term.variables[0], c) for term, c in inside.terms.items()))
    if frequencies[-1][0] >= len(cursor.names.vocabulary.observations):
        cursor.fail("inside a wave there may be observations only", "put numbers of the task in front of it", start)
    return Sum({Term(wave=Wave(frequencies, math.fmod(inside.constant, 2.0))): 1.0})


class NamedSum:
    """Read when it is first used; a sum that needs itself is refused."""

    def __init__(self, name: str, cursor_at: Callable[[], Cursor]):
        self.name, self._cursor_at = name, cursor_at
        self.value: Sum | None = None
        self.is_open = self.is_used = False

    def __call__(self, cursor: Cursor, start: int) -> Sum:
        if self.is_open:
            cursor.fail(f"{self.name} is made of itself", "a named sum needs names that do not need it", start)
        self.is_used = True
        cursor.enter()
        value = self.read()
        cursor.leave()
        cursor.spend(len(value.terms))
        return value

    def read(self) -> Sum:
        if self.value is None:
            own, self.is_open = self._cursor_at(), True
            value = read_sum(own)
            own.end()
            own.require_unit(value, 0)
            self.value, self.is_open = value, False
        return self.value
