"""Regions with skills as a short list of cases, read from the top: the first whose tests hold decides."""

import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from asap.policy.rules.sums import Sum, Term

FEW_TESTS = 5  # Up to here all conjunctions are tried; beyond, those of three tests and of all.
MOST_REGIONS = 1024  # Beyond, all sides are taken to occur.
MOST_WORK = 1e10  # Of looking for short lists; beyond, each region has a case of its own.
TINY = 1e-9


class Case(NamedTuple):
    tests: tuple[tuple[int, bool], ...]  # Test and side, all of which hold; none for `otherwise`.
    skill: int


def shortest_cases(
    region_skills: Sequence[int],
    regions: Sequence[int],
    num_tests: int,
    weights: Sequence[float],
    are_lists: bool = False,
) -> list[Case]:
    """Cases that are right in each of these regions; elsewhere they may say anything. Never more than regions.

    Of lists of the same length, the one whose last case weighs most: `weights` has a number per skill. Lists of states
    (`are_lists`) are only said to have a state, not to lack it.
    """
    skills = np.asarray(region_skills)[list(regions)]
    if len(regions) ** 2 * float(len(np.unique(skills))) ** 3 > MOST_WORK:
        return _one_by_one(skills, regions, num_tests, weights)
    conjunctions, holds = _conjunctions(num_tests, np.asarray(regions), (True,) if are_lists else (True, False))
    found = [_greedy(skills, conjunctions, holds, int(last)) for last in np.unique(skills)]
    lists = [cases for cases in found if cases is not None]
    if not lists:
        return shortest_cases(region_skills, regions, num_tests, weights)

    def length(cases: list[Case]) -> tuple[int, int, float, int]:
        negative = sum(not side for case in cases for _, side in case.tests)
        return len(cases), sum(len(case.tests) for case in cases), -weights[cases[-1].skill], negative

    return min(lists, key=length)


def _one_by_one(
    skills: Int[np.ndarray, "N"], regions: Sequence[int], num_tests: int, weights: Sequence[float]
) -> list[Case]:
    last = int(max(np.unique(skills), key=lambda skill: weights[skill]))
    own = [
        Case(tuple((k, bool(region >> k & 1)) for k in range(num_tests)), int(skill))
        for region, skill in zip(regions, skills)
        if skill != last
    ]
    return [*own, Case((), last)]


def skills_by_cases(cases: Sequence[Case], num_tests: int) -> tuple[int, ...]:
    """What the cases say in every region."""
    regions = np.arange(2**num_tests)
    skills = np.full(len(regions), cases[-1].skill)
    for case in reversed(cases):
        holds = np.ones(len(regions), bool)
        for k, side in case.tests:
            holds &= (regions >> k & 1 == 1) == side
        skills[holds] = case.skill
    return tuple(skills.tolist())


def _conjunctions(
    num_tests: int, regions: Int[np.ndarray, "N"], sides: tuple[bool, ...]
) -> tuple[list[tuple[tuple[int, bool], ...]], Bool[np.ndarray, "C N"]]:
    """Those worth trying, the shortest first, and in which regions they hold."""
    sizes = range(1, num_tests + 1) if num_tests <= FEW_TESTS else (1, 2, 3)
    found = [
        tuple(zip(planes, chosen))
        for size in sizes
        for planes in itertools.combinations(range(num_tests), size)
        for chosen in itertools.product(sides, repeat=size)
    ]
    if num_tests > FEW_TESTS:
        found += [tuple((k, bool(region >> k & 1)) for k in range(num_tests)) for region in regions.tolist()]
    bits = (regions[:, None] >> np.arange(num_tests)) & 1 == 1
    holds = [np.all([bits[:, k] == side for k, side in tests], axis=0) for tests in found]
    return found, np.array(holds, bool).reshape(len(found), len(regions))


def _greedy(
    skills: Int[np.ndarray, "N"], conjunctions: list, holds: Bool[np.ndarray, "C N"], last: int
) -> list[Case] | None:
    """Next the conjunction that settles most regions of one other skill; what is left has the last."""
    left, cases = np.ones(len(skills), bool), []
    while np.any(left & (skills != last)):
        best, settled = None, 0
        for skill in np.unique(skills[left & (skills != last)]):
            wrong = (holds & (left & (skills != skill))).any(1)
            counts = np.where(wrong, 0, (holds & left).sum(1))
            if counts.max() > settled:
                best, settled = Case(conjunctions[int(counts.argmax())], int(skill)), counts.max()
        if best is None:  # Only lists that lack a state would do.
            return None
        cases.append(best)
        left &= ~holds[conjunctions.index(best.tests)]
    return [*cases, Case((), last)]


def possible_regions(sums: Sequence[Sum], bounds: Iterable[tuple[Term, float, float]] = ()) -> list[int]:
    """The sign patterns of these sums that occur for some values of their terms, each term for itself.

    `bounds` are of terms. Products are taken for free numbers, so a pattern may be kept that does not occur.
    """
    limits = {term: (low, high) for term, low, high in bounds}
    regions = [0]
    for group in _groups(sums):
        patterns = _patterns([sums[k] for k in group], limits)
        places = [sum(side << k for k, side in zip(group, pattern)) for pattern in patterns]
        regions = [region | place for region in regions for place in places]
    return sorted(regions)


def _groups(sums: Sequence[Sum]) -> list[list[int]]:
    """Sums that share terms, directly or through others: what one group does leaves the others free."""
    groups: list[tuple[set[Term], list[int]]] = []
    for k, value in enumerate(sums):
        terms, members = set(value.terms), [k]
        for group in [each for each in groups if each[0] & terms]:
            groups.remove(group)
            terms, members = terms | group[0], [*group[1], *members]
        groups.append((terms, members))
    return [sorted(members) for _, members in groups]


def _patterns(sums: Sequence[Sum], limits: dict[Term, tuple[float, float]]) -> list[tuple[bool, ...]]:
    terms = list(dict.fromkeys(term for value in sums for term in value.terms))
    slopes = np.array([[value.terms.get(term, 0.0) for term in terms] for value in sums]).reshape(len(sums), len(terms))
    constants = np.array([value.constant for value in sums])
    sizes = np.abs(slopes).max(1, initial=TINY)
    slopes, constants = slopes / sizes[:, None], constants / sizes
    limited = [limits.get(term, (-np.inf, np.inf)) for term in terms]
    limited = [(-1.0, 1.0) if t.unit is not None or (t.wave and not t.variables) else b for t, b in zip(terms, limited)]
    is_free = not np.isfinite(limited).any()
    if len(terms) == 1 and is_free:
        return _along_a_line(slopes[:, 0], constants)
    if is_free and np.linalg.matrix_rank(slopes) == len(sums):
        return list(itertools.product((False, True), repeat=len(sums)))
    patterns: list[tuple[tuple[bool, ...], np.ndarray]] = [((), np.zeros(len(terms)))]
    for k in range(len(sums)):
        longer = []
        for pattern, point in patterns:
            value = slopes[k] @ point + constants[k]
            for side in (False, True):
                # A point of the pattern without this sum is on one of its sides: there is no need to look for another.
                is_there = k > 0 and (value > TINY if side else value < -TINY) or len(patterns) > MOST_REGIONS
                found = point if is_there else _point_in((*pattern, side), slopes[: k + 1], constants[: k + 1], limited)
                if found is not None:
                    longer.append(((*pattern, side), found))
        patterns = longer
    return [pattern for pattern, _ in patterns]


def _along_a_line(slopes: Float[np.ndarray, "K"], constants: Float[np.ndarray, "K"]) -> list[tuple[bool, ...]]:
    """Of sums in one term: those between its thresholds."""
    thresholds = np.unique(-constants / slopes)
    wide = thresholds[np.diff(thresholds, prepend=-np.inf) > TINY * np.maximum(1.0, np.abs(thresholds))]
    places = [wide[0] - 1 - abs(wide[0]), *((wide[1:] + wide[:-1]) / 2), wide[-1] + 1 + abs(wide[-1])]
    return sorted({tuple((slopes * place + constants > 0).tolist()) for place in places})


def _point_in(
    pattern: tuple[bool, ...], slopes: Float[np.ndarray, "K T"], constants: Float[np.ndarray, "K"], limited: list
) -> Float[np.ndarray, "T"] | None:
    """Where every sum is on its side by a margin: the largest common one is looked for."""
    from scipy.optimize import linprog

    signs = np.where(pattern, 1.0, -1.0)
    constraints = np.column_stack([-signs[:, None] * slopes, np.ones(len(signs))])
    found = linprog(
        np.append(np.zeros(slopes.shape[1]), -1.0), constraints, signs * constants, bounds=[*limited, (None, 1.0)]
    )
    if found.status not in (0, 2):  # Numbers too far apart for it: taken for possible, which refuses nothing.
        return np.zeros(slopes.shape[1])
    return found.x[:-1] if found.status == 0 and -found.fun > TINY else None


def example_in(region: int, sums: Sequence[Sum]) -> dict[int, float] | None:
    """Values of variables in a region, where all sums are linear in them: the nearest to 0, as far inside as can be said."""
    terms = list(dict.fromkeys(term for value in sums for term in value.terms))
    if any(len(term.variables) != 1 or term.wave or term.unit is not None for term in terms):
        return None
    slopes = np.array([[value.terms.get(term, 0.0) for term in terms] for value in sums])
    signs = np.array([1.0 if region >> k & 1 else -1.0 for k in range(len(sums))])
    wanted = signs * np.maximum(0.1, np.abs([0.1 * value.constant for value in sums])) - [
        value.constant for value in sums
    ]
    found = np.linalg.lstsq(slopes, wanted, rcond=None)[0]
    is_inside = np.sign(slopes @ found + [value.constant for value in sums]) == signs
    return {term.variables[0]: float(x) for term, x in zip(terms, found)} if is_inside.all() else None


def state_patterns(sums: Sequence[Sum], num_states: int | None = None) -> list[int]:
    """The patterns that lists of states leave: each state is on or off each list."""
    states = {term for value in sums for term in value.terms}
    patterns = {sum((term in value.terms) << k for k, value in enumerate(sums)) for term in states}
    return sorted(patterns if len(states) == num_states else patterns | {0})
