"""Text of rules becomes a rulebook. Nothing in it is evaluated as code.

A text is a list of cases, read from the top: the first whose tests hold decides. A case may hold further cases, indented.
Before them, sums and skills may be given names.
"""

import re
from collections.abc import Sequence
from typing import Any, NoReturn

from asap.base.errors import UserError
from asap.policy.rules.cursor import Cursor, nearest
from asap.policy.rules.names import KEYWORDS, NO_LIMITS, Lexicon, Limits, Meanings, same
from asap.policy.rules.read_regions import Branch, Rules, decided
from asap.policy.rules.read_skills import read_controls, read_skill
from asap.policy.rules.read_sums import LARGEST, NamedSum
from asap.policy.rules.read_tests import Tests, read_keep, sees_states
from asap.policy.rules.rulebook import Choice, Rulebook, Shape, Skill, Vocabulary
from asap.policy.rules.source import Line, Node, RulesError, Source, statements
from asap.policy.rules.sums import Sum

DEFINITION = re.compile(r"([^\W\d]\w*(?: +\w+)*)\s*(=(?!=)|:)\s*")
STARTS = ("if", "in", "not", "otherwise", "else")
RESERVED = {"if", "then", "and", "otherwise", "within", "else"}


def read_rules(text: str, vocabulary: Vocabulary, name: str = "rules", limits: Limits = NO_LIMITS) -> Rules:
    """Raises RulesError, which says where."""
    source, nodes = statements(text, name)
    if not nodes:
        raise RulesError(source, 0, 0, "there is no rule", "write `if NAME > 0 then ACTION` and `otherwise ACTION`")
    return _Reader(source, vocabulary, limits).read(nodes)


class _Reader:
    def __init__(self, source: Source, vocabulary: Vocabulary, limits: Limits):
        self.source, self.vocabulary, self.names = source, vocabulary, Meanings(vocabulary, limits)
        self.tests = Tests()
        self.skills: list[Skill] = []
        self.skill_names: list[str] = []
        self.skill_cursors: list[Cursor] = []  # Where each was read first.
        self._known: dict[Any, int] = {}
        self._named = Lexicon(())
        self.used: set[str] = set()

    def cursor(self, line: Line, offset: int = 0) -> Cursor:
        return Cursor(self.source, line, self.names, offset)

    def read(self, nodes: list[Node]) -> Rules:
        statements = self._definitions(nodes)
        if not statements:
            self._refuse_names_alone(nodes[-1])
        first = statements[0].line
        if self._is_case(first):
            branches = self._branches(statements)
        else:
            branches = [Branch((), self._everywhere(statements), first)]
        unused = [each.name for each in self.names.sums.meanings.values() if not each.is_used]
        unused += [self.skill_names[s] for name, s in self.names.skills.items() if name not in self.used]
        self._require_features()
        warnings = [f"{name}: has a name, but is not used" for name in unused]
        tests, names = tuple(self.tests.found), tuple(self.skill_names)
        empty = Rulebook(self.vocabulary, tests, tuple(self.skills), (), names, self._sum_names())
        return decided(branches, empty, self.source, warnings)

    # ---- Names ----------------------------------------------------------------------------------------------------

    def _definitions(self, nodes: list[Node]) -> list[Node]:
        """Takes the names of sums and skills; returns the rest."""
        sums, skills, rest = {}, [], []
        taken: set[str] = set()
        for node in nodes:
            match = DEFINITION.match(node.line.text)
            name = match and same(match[1])
            is_set = match is not None and name in self.names.actions.meanings and self.vocabulary.action_bounds
            if match is None or is_set or name.split()[0] in STARTS:
                rest.append(node)
                continue
            self._require_free(node, match[1], match[2], taken)
            taken.add(name)
            if match[2] == ":":
                skills.append((name, match, node))
                continue
            if node.children:
                self.cursor(node.children[0].line).fail("did not expect a list here", "a named sum is one line")
            sums[name] = NamedSum(match[1], lambda line=node.line, end=match.end(): self.cursor(line, end))
        self.names.sums = Lexicon(sums.items())
        for each in sums.values():
            each.read()
        for name, match, node in skills:
            cursor = self.cursor(node.line, match.end())
            skill = self._skill(cursor, node.children)
            self.names.skills[name] = self._number(skill, " ".join(match[1].split()), cursor)
        self._named = Lexicon(self.names.skills.items())
        return rest

    def _require_free(self, node: Node, name: str, sign: str, taken: set[str]) -> None:
        cursor = self.cursor(node.line)
        if same(name) in self.names.variables.meanings:
            cursor.fail(f"{name} is a name of the environment already", "choose another one")
        if same(name) in self.names.actions.meanings and sign == "=":
            cursor.fail("an action is chosen by its name here, not set to a number", f"write `{name}` alone")
        if same(name) in self.names.actions.meanings:
            cursor.fail(f"{name} is an action already", "choose another name; scores stand below `the largest of`")
        if same(name) in taken:
            cursor.fail(f"{name} has been named before", "choose another name")
        if RESERVED & set(same(name).split()) or same(name) in KEYWORDS:
            cursor.fail(f"{name}: a word of the language can be no part of a name", "choose another one")

    def _refuse_names_alone(self, last: Node) -> NoReturn:
        cursor, named = self.cursor(last.line), DEFINITION.match(last.line.text)
        near = nearest(named[1], self.vocabulary.actions) if named and self.vocabulary.action_bounds else None
        if near is not None:
            cursor.fail(f"{named[1]}: no such action", f"did you mean {near!r}?")
        cursor.fail("there are names, but no rule", "write what to do below them")

    # ---- Cases ----------------------------------------------------------------------------------------------------

    def _is_case(self, line: Line) -> bool:
        """Begins like one; and not with the name of an action or a skill that begins like one."""
        cursor = self.cursor(line)
        start = cursor.take(*STARTS)
        action = self.names.actions.at(line.text, 0)
        is_skill = same(line.text) in self.names.skills
        return start is not None and not is_skill and (action is None or action.end <= len(start))

    def _branches(self, nodes: list[Node]) -> list[Branch]:
        """A list of cases; lists inside of it are at most `DEEPEST` deep."""
        found: list[Branch] = []
        for node in nodes:
            if found and not found[-1].tests:
                self.cursor(node.line).fail("a case behind `otherwise` is never reached", "put `otherwise` last")
            found.append(self._branch(node))
        return found

    def _branch(self, node: Node) -> Branch:
        cursor, tests = self.cursor(node.line), ()
        is_last = cursor.take("otherwise", "else") is not None
        if cursor.take("if") or (sees_states(cursor) and not (is_last and self._sees_action(cursor))):
            tests = tuple(self.tests.conjunction(cursor))
        elif not is_last:
            cursor.fail("expected a case", cursor.habit() or "write `if TEST then ACTION`, or `otherwise ACTION`")
        is_said = cursor.take("then") is not None
        if cursor.is_at_end and node.children and self._is_case(node.children[0].line):
            return Branch(tests, self._branches(node.children), node.line)
        if tests and not is_said:
            cursor.expect("then", "write `if TEST then ACTION`")
        if cursor.is_at_end and not node.children:
            cursor.fail("nothing to do", "name an action, or indent further cases below")
        return Branch(tests, self._named_or_own(cursor, node.children), node.line)

    def _sees_action(self, cursor: Cursor) -> bool:
        return self.names.actions.at(cursor.text, cursor.offset) is not None

    def _named_or_own(self, cursor: Cursor, below: list[Node]) -> int:
        """The skill that is named here, or that is described."""
        place = self._named.at(cursor.text, cursor.offset)
        action = self.names.actions.at(cursor.text, cursor.offset)
        if place is None or (action is not None and action.end >= place.end):
            return self._number(self._skill(cursor, below), "", cursor)
        name = same(cursor.text[cursor.offset : place.end])
        self.used.add(name)
        cursor.move(place.end)
        keep = read_keep(cursor)
        if not cursor.is_at_end:
            what = f"did not expect {cursor.shown()!r} behind the name of a skill"
            cursor.fail(what, f"write it where {name} is described")
        if below:
            self.cursor(below[0].line).fail("did not expect a list here", f"write it where {name} is described")
        if keep:
            self.skills[place.meaning] = self.skills[place.meaning]._replace(keep=True)
        return place.meaning

    def _skill(self, cursor: Cursor, below: list[Node]) -> Skill:
        for node in below:
            if node.children:
                what, cure = "did not expect a list here", "indent only what belongs to the line above"
                self.cursor(node.children[0].line).fail(what, cure)
        return read_skill(cursor, [self.cursor(node.line) for node in below], list(self.names.skills))

    def _everywhere(self, nodes: list[Node]) -> int:
        """One skill, without a test. Numbers to set may be on a line each."""
        first, *more = nodes
        cursor = self.cursor(first.line)
        is_sum = self.names.plain_variables.at(cursor.text, 0) or self.names.sums.at(cursor.text, 0)
        if is_sum and not self._sees_action(cursor) and same(first.line.text) not in self.names.skills:
            cursor.fail("expected a case", "write `if TEST then ACTION`, and `otherwise ACTION` last")
        if not more:
            return self._named_or_own(cursor, first.children)
        below = [self.cursor(node.line) for node in more]
        wrong = next((each for each in below if not self._sees_action(each)), below[0])
        if self.vocabulary.action_bounds is None or not self._sees_action(cursor) or not self._sees_action(wrong):
            wrong = cursor if not self._sees_action(cursor) else wrong
            if self._is_case(wrong.line):
                what, cure = (
                    "a case is never reached behind a skill without a test",
                    "put it first, and `otherwise` last",
                )
                wrong.fail(what, cure)
            cure = wrong.habit() or "write `if TEST then ACTION`, and `otherwise ACTION` last"
            wrong.fail("expected a case", cure)
        for node in nodes:
            if node.children:
                self.cursor(node.children[0].line).fail("did not expect a list here", "indent all of them alike")
        return self._number(read_controls(cursor, below, list(self.names.skills)), "", cursor)

    def _number(self, skill: Skill, name: str, cursor: Cursor) -> int:
        """Skills with the same words are one."""
        key = _frozen(skill), name
        if key not in self._known:
            self._known[key] = len(self.skills)
            self.skills.append(skill)
            self.skill_names.append(name)
            self.skill_cursors.append(cursor)
        return self._known[key]

    def _sum_names(self) -> tuple[str, ...]:
        """Of tests that compare a named sum with a number."""
        named = [(each.name, each.read()) for each in self.names.sums.meanings.values()]
        plain = {_frozen(value.terms): name for name, value in reversed(named) if not value.constant}
        found = (plain.get(_frozen(test.value.terms), "") for test in self.tests.found)
        return tuple(" ".join(name.split()) for name in found)

    # ---- What a policy can be -------------------------------------------------------------------------------------

    def _require_features(self) -> None:
        """Tests stand on one feature map, and skills on another."""
        book, affine = Rulebook(self.vocabulary, (), (), (0,)), self.vocabulary.affine
        tests = [(test.value, *place) for test, place in zip(self.tests.found, self.tests.places)]
        skills = [
            (value, cursor, 0)
            for skill, cursor in zip(self.skills, self.skill_cursors)
            if not isinstance(skill, Choice)
            for value in book.sums_of(skill)
        ]
        for value, cursor, offset in skills:
            if not all(abs(c) <= LARGEST * 1e6 for _, c in value.substituted(*affine).items):
                cursor.fail(f"a number beyond {LARGEST:g}", "write it in other units", offset)
        for which in (tests, skills):
            sums = [value for value, *_ in which]
            if self._misfit(sums) is None:
                continue
            for count, (_, cursor, offset) in enumerate(which, 1):
                if (misfit := self._misfit(sums[:count])) is not None:
                    cursor.fail(*misfit, offset)

    def _misfit(self, sums: Sequence[Sum]) -> tuple[str, str] | None:
        """Why no feature map has all of these, and the cure."""
        try:
            Shape().features(sums, self.vocabulary, None, 1)
        except UserError as error:
            what, _, cure = str(error).removeprefix("rules: ").partition("; ")
            return what, cure
        return None


def _frozen(value: Any) -> Any:
    """What can be looked up, and is the same for the same skill."""
    if isinstance(value, dict):
        return frozenset(value.items())
    return (type(value).__name__, *map(_frozen, value)) if isinstance(value, tuple) else value
