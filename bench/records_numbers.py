"""How many numbers a person reads in printed rules.

Every number that stands in the text counts once: coefficients, the limits of tests, constants, `within`, percentages,
deviations, frequencies and phases. What is not printed does not count, such as a coefficient of 1, and a name for a sum or
a skill saves what it saves the reader. Of percentages that sum to 100 the last says nothing new and does not count. States
that are listed by their number are no numbers to compute with, so they are counted apart. An exponent is part of a term.
"""

import math
from typing import NamedTuple

from asap.policy.rules.rulebook import Choice, Controls, Either, Rulebook, Scores, Skill, Test
from asap.policy.rules.sums import Sum
from asap.policy.rules.write import cases_of, is_membership, oriented

TINY = 1e-9


class Numbers(NamedTuple):
    numbers: int
    states: int = 0  # That are listed.


def numbers_in(book: Rulebook) -> Numbers:
    """Of what `write_rules` prints of this rulebook: its cases for all regions that can occur."""
    cases = cases_of(book, None, None) if book.tests else []
    tests = [book.tests[k] for k in sorted({k for case in cases for k, _ in case.tests})]
    skills = {case.skill for case in cases} or {book.region_skills[0]}
    lists = [test for test in tests if is_membership(test, book.vocabulary)]
    compared = [oriented(test)[0] for test in tests if not is_membership(test, book.vocabulary)]
    slopes = {repr(test.value.terms): test.value for test in compared}  # One name for tests that differ in the limit.
    numbers = sum(_of_terms(value) for value in slopes.values()) + sum(map(_of_limit, compared))
    numbers += sum(_of_skill(book.skills[skill]) for skill in skills)
    return Numbers(numbers, sum(len(test.value.terms) for test in lists))


def _of_limit(test: Test) -> int:
    return 1 + (test.within is not None)


def _of_terms(value: Sum) -> int:
    waves = [term.wave for term in value.terms if term.wave is not None]
    turns = sum(sum(abs(f) != 1 for _, f in wave.frequencies) + (wave.phase != 0) for wave in waves)
    return sum(abs(coefficient) != 1 for coefficient in value.terms.values()) + turns


def _of_sum(value: Sum) -> int:
    """A sum of nothing is printed as its constant, even where that is 0."""
    return _of_terms(value) + (value.constant != 0 or not value.terms)


def _of_skill(skill: Skill) -> int:
    match skill:
        case Choice(shares):
            is_all = math.isclose(math.fsum(share for _, share in shares), 1, abs_tol=TINY)
            return len(shares) - is_all
        case Either(test=test):
            return _of_terms(oriented(test)[0].value) + _of_limit(test)
        case Scores():
            return sum(_of_sum(value) for value in skill.listed.values())
        case Controls(means, deviations):
            return sum(map(_of_sum, means)) + sum(deviation is not None for deviation in deviations)
