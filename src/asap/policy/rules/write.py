"""A rulebook as text, which `read` reads again."""

import functools
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from asap.base.numbers import exact, ranges_in_words
from asap.policy.rules.cases import Case, possible_regions, shortest_cases, state_patterns
from asap.policy.rules.names import KEYWORDS, SIGNS, same
from asap.policy.rules.rulebook import Choice, Controls, Either, Rulebook, Scores, Skill, Test, Vocabulary
from asap.policy.rules.sums import Sum, Term

WIDTH, INDENT = 112, "  "
LONG_BESIDE_OTHERS, LONG_ALONE = 36, 72
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
FIRST_WORDS = frozenset("if then otherwise else and in not the".split())  # No name in a rule begins with them.
WHOLE_LINES = ("then", "otherwise", ":", "the largest of", "the largest of [keep]")  # With others below.
SKILL_UNIT = "skill unit"  # Of the network under the skills; those under the planes are units.
BREAK = re.compile(r" (?=[-+] |and )|(?<=[,;]) ")
NUMBERED = re.compile(r"(.*\S) (0|[1-9][0-9]{0,8})")


def write_rules(
    book: Rulebook,
    regions: Sequence[int] | None = None,
    weights: Sequence[float] | None = None,
    comments: Mapping[int, str] | None = None,
    planes: Sequence[int] | None = None,
    numbers: Sequence[int] | None = None,
    names_only: bool = False,
) -> list[str]:
    """The lines of the rules for these regions, of which others follow any case; by default for all that occur.

    `weights` tell how much each skill is used: of two lists of the same length, the one that ends with the most used.
    `comments` are written beside the first use of a skill. `planes` are the numbers by which named sums have their letters,
    `numbers` those of skills that need a name. With `names_only` skills that have names are not described.
    """
    comments = comments or {}
    cases = cases_of(book, regions, weights) if book.tests else [Case((), book.region_skills[0])]
    if len(cases) == 1 and not (book.names and book.names[cases[0].skill]):
        only = cases[0].skill
        return _commented([(_everywhere(book.skills[only], book.vocabulary), comments.get(only))])
    writer = _Writer(book, cases, planes, numbers)
    lines = [line for definition in writer.definitions for line in wrapped(definition)]
    named = writer.named_skills
    blocks = []
    for skill in [] if names_only else named:
        name, comment = writer.skill_name(skill), comments.get(skill)
        what = _joined(f"{name}:", does(book.skills[skill], book.vocabulary))
        blocks.append((what, comment and comment.removeprefix(f"{name}: ")))
    for case in cases:
        blocks.append((writer.case(case), None if case.skill in named else comments.get(case.skill)))
    return lines + _commented(blocks)


def cases_of(book: Rulebook, regions: Sequence[int] | None, weights: Sequence[float] | None) -> list[Case]:
    are_lists = book.vocabulary.numbered and all(is_membership(test, book.vocabulary) for test in book.tests)
    if are_lists:
        regions = state_patterns([test.value for test in book.tests])
    elif regions is None:
        regions = possible_regions([test.value for test in book.tests])
    # In an order that is not that of their numbers, which change as a text is read: so it is written as it was.
    tests = sorted(range(len(book.tests)), key=lambda k: _place_of(book.tests[k], book.vocabulary))
    skills = sorted(range(len(book.skills)), key=lambda s: does(book.skills[s], book.vocabulary))
    of_region = np.argsort(skills)[np.asarray(book.region_skills)[list(regions)]]
    while True:
        bits = [(np.asarray(regions) >> k & 1) << place for place, k in enumerate(tests)]
        ordered = sum(bits, np.zeros(len(regions), int))
        own, first = np.unique(ordered, return_index=True)
        in_order = np.zeros(2 ** len(tests), int)
        in_order[own] = of_region[first]
        counts = np.bincount(of_region[first], minlength=len(skills))
        counts = (counts if weights is None else np.asarray(weights)[skills]).astype(float)
        found = shortest_cases(in_order.tolist(), own.tolist(), len(tests), counts.tolist(), are_lists)
        used = sorted({k for case in found for k, _ in case.tests})
        if len(used) == len(tests):
            return [Case(tuple((tests[k], side) for k, side in case.tests), skills[case.skill]) for case in found]
        tests = [tests[k] for k in used]  # Without those that decide nothing, and would not be read again.


def _place_of(test: Test, vocabulary: Vocabulary) -> tuple[str, float]:
    """What tests are put in order by."""
    return sum_in_words(Sum((value := oriented(test)[0].value).terms), vocabulary), value.constant


def is_membership(test: Test, vocabulary: Vocabulary) -> bool:
    """Whether it says that the state is one of some, by number."""
    is_plain = all(len(t.variables) == 1 and t.wave is None and t.unit is None for t in test.value.terms)
    return vocabulary.numbered and is_plain and set(test.value.terms.values()) == {2.0} and test.value.constant == -1.0


class _Writer:
    """What occurs more than once has a name: a sum, a skill."""

    def __init__(
        self, book: Rulebook, cases: Sequence[Case], planes: Sequence[int] | None, numbers: Sequence[int] | None
    ):
        self.book, self.vocabulary = book, book.vocabulary
        tests = Counter(k for case in cases for k, _ in case.tests)
        skills = Counter(case.skill for case in cases)
        self.named_skills = [s for s in sorted(skills) if skills[s] > 1 or (book.names and book.names[s])]
        taken = (*self.vocabulary.variables, *self.vocabulary.actions, *book.names, *book.sum_names)
        taken = {name.casefold() for name in taken}
        letters = [name for name in LETTERS if name.casefold() not in taken]
        planes = range(len(book.tests)) if planes is None else planes
        self._sums = {k: letters[p] if p < len(letters) else f"sum {p + 1}" for k, p in enumerate(planes)}
        self._sums |= {k: name for k, name in enumerate(book.sum_names) if name}
        named = [k for k in sorted(tests) if self._deserves_name(k, tests[k], len(tests))]
        named = sorted(named, key=lambda k: (len(self._sums[k]), self._sums[k]))
        self.named_sums = {self._slopes(k): self._sums[k] for k in reversed(named)}  # One name for tests with one sum.
        self._sums = {k: self.named_sums.get(self._slopes(k)) for k in tests}
        named = [k for k in sorted(tests, key=self._name_order) if self._sums[k]]
        others = sorted(tests.keys() - set(named), key=lambda k: _place_of(book.tests[k], self.vocabulary))
        self._places = {k: place for place, k in enumerate([*named, *others])}
        words = ("skill", "behaviour", "number")
        self._skill = next((word for word in words if not any(name.startswith(word) for name in taken)), "asap skill")
        self._numbers = range(len(book.skills)) if numbers is None else numbers
        self._is_written: set[int] = set()  # Tests whose sharpness was said.

    def _deserves_name(self, k: int, uses: int, num_tests: int) -> bool:
        """A long sum has one, too: so cases can be told apart at a glance."""
        test, longest = self.book.tests[k], LONG_BESIDE_OTHERS if num_tests > 1 else LONG_ALONE
        if is_membership(test, self.vocabulary) or (len(test.value.terms) == 1 and len(self._slopes(k)) <= longest):
            return False
        return uses > 1 or len(self._slopes(k)) > longest

    def _name_order(self, k: int) -> tuple[int, str, float]:
        name = self._sums[k] or ""
        return len(name), name, oriented(self.book.tests[k])[0].value.constant

    @property
    def definitions(self) -> list[str]:
        ordered = sorted(self.named_sums.items(), key=lambda item: (len(item[1]), item[1]))
        return [f"{name} = {slopes}" for slopes, name in ordered]

    def _slopes(self, k: int) -> str:
        return sum_in_words(Sum(oriented(self.book.tests[k])[0].value.terms), self.vocabulary)

    def skill_name(self, skill: int) -> str:
        own = self.book.names[skill] if self.book.names else ""
        return own or f"{self._skill} {self._numbers[skill]}"

    def case(self, case: Case) -> list[str]:
        what = (
            [self.skill_name(case.skill)]
            if case.skill in self.named_skills
            else does(self.book.skills[case.skill], self.vocabulary)
        )
        if not case.tests:
            return _joined("otherwise", what)
        return _joined(f"{self._condition(case)} then", what)

    def _condition(self, case: Case) -> str:
        tests = [self._test(k, side) for k, side in sorted(case.tests, key=lambda test: self._places[test[0]])]
        return " and ".join(tests) if tests[0].startswith(("in ", "not in ")) else f"if {' and '.join(tests)}"

    def _test(self, k: int, side: bool) -> str:
        test = self.book.tests[k]
        if is_membership(test, self.vocabulary):
            states = [term.variables[0] for term in test.value.terms]
            kept = " [keep]" if test.keep and k not in self._is_written else ""
            self._is_written.add(k)
            return f"{'' if side else 'not '}in {states_in_words(states, self.vocabulary)}{kept}"
        words = comparison(
            test,
            self.vocabulary,
            side,
            self._sums[k],
            is_first=k not in self._is_written,
        )
        self._is_written.add(k)
        return words


def oriented(test: Test) -> tuple[Test, bool]:
    """With a positive first term, because two minus signs are easily missed; and whether that turned it round."""
    is_turned = next(iter(test.value.terms.values()), 1.0) < 0
    return (test._replace(value=test.value.scaled(-1.0)) if is_turned else test), is_turned


def comparison(
    test: Test,
    vocabulary: Vocabulary,
    side: bool = True,
    name: str | None = None,
    is_first: bool = True,
    network_unit: str = "unit",
) -> str:
    """`x + 0.39*y > 0.85 m within 0.05 m`; a sum that has a name goes by it."""
    test, is_turned = oriented(test)
    side ^= is_turned
    unit = vocabulary.unit_of(test.value)
    told = f" {unit}" if unit else ""
    sharpness = f" within {exact(test.within)}{told}" if test.within is not None and is_first else ""
    kept = " [keep]" if test.keep and is_first else ""
    left = name or sum_in_words(Sum(test.value.terms), vocabulary, network_unit)
    return f"{left} {'>' if side else '<'} {exact(-test.value.constant)}{told}{sharpness}{kept}"


def does(skill: Skill, vocabulary: Vocabulary) -> list[str]:
    """What a skill does: one line, or a head and lines below it."""
    kept = " [keep]" if skill.keep else ""
    match skill:
        case Choice(shares):
            return [", ".join(f"{_action(vocabulary, a)} ({exact(round(100 * p, 10))} %)" for a, p in shares) + kept]
        case Either(action, other, test):
            condition = comparison(test, vocabulary, network_unit=SKILL_UNIT)
            return [f"{_action(vocabulary, action)} if {condition}, else {_action(vocabulary, other)}{kept}"]
        case Scores():
            rows = [f"{_action(vocabulary, a)}: {_skill_sum(value, vocabulary)}" for a, value in skill.listed.items()]
            return [f"the largest of{kept}", *rows]
        case Controls(means, deviations):
            rows = [_control(vocabulary, a, *pair) for a, pair in enumerate(zip(means, deviations))]
            inline = ", ".join(rows) + kept
            return [inline] if len(rows) == 1 or len(inline) <= WIDTH // 2 else ["", *rows[:-1], rows[-1] + kept]


def _control(vocabulary: Vocabulary, action: int, mean: Sum, deviation: float | None) -> str:
    spread = "" if deviation is None else f" (+- {exact(deviation)})"
    return f"{_action(vocabulary, action)} = {_skill_sum(mean, vocabulary)}{spread}"


def _everywhere(skill: Skill, vocabulary: Vocabulary) -> list[str]:
    head, *rows = does(skill, vocabulary)
    if not head:
        return [line for row in rows for line in wrapped(row)]
    return [*wrapped(head), *(line for row in rows for line in wrapped(f"{INDENT}{row}"))]


def _joined(condition: str, what: list[str]) -> list[str]:
    head, *rows = what
    if " = " in head and len(condition) + len(head) >= WIDTH:  # Numbers to set may stand below.
        head, rows = "", [head]
    return [*wrapped(f"{condition} {head}".rstrip()), *(line for row in rows for line in wrapped(f"{INDENT}{row}"))]


def _commented(blocks: Sequence[tuple[list[str], str | None]]) -> list[str]:
    """All comments beside what they are about, or all of them above: where one has no room, or a line goes on below."""
    is_beside = all(
        not comment
        or (len(lines[0]) + len(comment) + 4 <= WIDTH and (len(lines) == 1 or lines[0].endswith(WHOLE_LINES)))
        for lines, comment in blocks
    )
    found = []
    for lines, comment in blocks:
        if comment and is_beside:
            found += [f"{lines[0]}  # {comment}", *lines[1:]]
        else:
            found += [f"# {comment}", *lines] if comment else lines
    return found


def wrapped(line: str) -> list[str]:
    """A long line goes on below: the sign of an addition in front there, a comma at the end here."""
    lines, indent = [], " " * (len(line) - len(line.lstrip()) + 4)
    while len(line) > WIDTH:
        places = [place.start() for place in BREAK.finditer(_masked(line)) if len(indent) < place.start() <= WIDTH]
        if not places:
            break
        lines.append(line[: places[-1]].rstrip())
        line = indent + line[places[-1] :].lstrip()
    return [*lines, line]


def _masked(line: str) -> str:
    """Names in quotes are not broken."""
    return re.sub(r'"[^"]*"', lambda quoted: "x" * len(quoted[0]), line)


def sum_in_words(value: Sum, vocabulary: Vocabulary, network_unit: str = "unit") -> str:
    """`1.6*pole angle - velocity + 2`."""
    pieces = [(_coefficient(term, abs(c), vocabulary, network_unit), c) for term, c in value.terms.items()]
    if value.constant or not pieces:
        pieces.append((exact(abs(value.constant)), value.constant))
    (first, c), *rest = pieces
    return ("-" if c < 0 else "") + first + "".join(f" {'-' if c < 0 else '+'} {piece}" for piece, c in rest)


def _skill_sum(value: Sum, vocabulary: Vocabulary) -> str:
    return sum_in_words(value, vocabulary, SKILL_UNIT)


def _coefficient(term: Term, size: float, vocabulary: Vocabulary, network_unit: str) -> str:
    powers = Counter(term.variables)
    factors = [_name(vocabulary, v) if n == 1 else f"{_name(vocabulary, v)}^{n}" for v, n in powers.items()]
    if term.wave is not None:
        inside = Sum({Term((v,)): f for v, f in term.wave.frequencies}, term.wave.phase)
        factors.insert(0, f"sin(pi*({sum_in_words(inside, vocabulary)}))")
    if term.unit is not None:
        factors.insert(0, f"{network_unit} {term.unit + 1}")
    words = "*".join(factors)
    return words if size == 1 else f"{exact(size)}*{words}"


def quoted(name: str) -> str | None:
    """A name as rules write it, in quotes where it has signs in it; None where it can't be written."""
    if '"' in name or not name.strip() or name != name.strip():
        return None
    is_plain = not SIGNS.search(name) and not _is_of_the_language(name) and not name[0].isdigit()
    return name if is_plain else f'"{name}"'


def _is_of_the_language(name: str) -> bool:
    """Or would look so to a person: in `0.3*mode is 2` it is hard to see where the name ends."""
    words = name.casefold().split()
    return name.casefold() in KEYWORDS or words[0] in FIRST_WORDS or "is" in words


def _name(vocabulary: Vocabulary, variable: int) -> str:
    count = len(vocabulary.observations)
    place = f"obs[{variable}]" if variable < count else f"m[{variable - count}]"
    return (quoted(vocabulary.variables[variable]) or place) if _is_first(vocabulary.variables, variable) else place


def _is_first(names: tuple[str, ...], index: int) -> bool:
    """Whether the name, in any case, means this one and not one before it."""
    return index in _first_of_each(names)


@functools.lru_cache(maxsize=16)
def _first_of_each(names: tuple[str, ...]) -> frozenset[int]:
    return frozenset({same(name): index for index, name in reversed(list(enumerate(names)))}.values())


def _action(vocabulary: Vocabulary, action: int) -> str:
    """Names of actions stand alone, so signs do no harm to them."""
    name = vocabulary.actions[action]
    if not _is_first(vocabulary.actions, action):
        return f"action[{action}]"
    is_harmless = bool(name.strip()) and not re.search(r'["#,;:=%]|[()\[\]]', name) and not _is_of_the_language(name)
    return name if is_harmless and name == name.strip() else quoted(name) or f"action[{action}]"


def states_in_words(states: Sequence[int], vocabulary: Vocabulary) -> str:
    """`row 0 columns 1, 2; row 1 column 1`, `states 3, 5 to 9`: those with the same words before a number together."""
    groups: dict[str, list[str]] = {}
    alone: list[str] = []
    for state in states:
        name = vocabulary.observations[state]
        match = NUMBERED.fullmatch(name)
        is_first = _is_first(vocabulary.observations, state)
        if match and quoted(match[1]) == match[1] and is_first:
            groups.setdefault(match[1], []).append(match[2])
        else:
            alone.append((quoted(name) if is_first else None) or f"state[{state}]")
    words = [f"{stem}{'s' if len(numbers) > 1 else ''} {ranges_in_words(numbers)}" for stem, numbers in groups.items()]
    return "; ".join([*words, *alone])
