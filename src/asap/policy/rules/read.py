"""Text of rules becomes a rulebook. Nothing in it is evaluated as code.

A text is a list of cases, read from the top: the first whose tests hold decides. A case may hold further cases, indented.
Before them, sums and skills may be given names.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from asap.base.numbers import counted, number
from asap.policy.rules.cases import example_in, possible_regions, state_patterns
from asap.policy.rules.cursor import Cursor, Line, RulesError, Source
from asap.policy.rules.names import Names, same
from asap.policy.rules.read_skills import read_controls, read_skill
from asap.policy.rules.read_tests import Literal, Tests, is_list, sees_states
from asap.policy.rules.rulebook import Choice, Controls, Rulebook, Skill, Vocabulary
from asap.policy.rules.sums import Sum

LONGEST_TEXT, MOST_LINES, DEEPEST = 1_000_000, 5_000, 40
COMMENT = re.compile(r'"[^"\n]*"|#.*')
DEFINITION = re.compile(r"([^\W\d][\w ]*?)\s*(=(?!=)|:)\s*")
STARTS = ("if", "in", "not", "otherwise", "else")
RESERVED = {"if", "then", "and", "otherwise", "within", "else"}


class Leaf(NamedTuple):
    """A case that says what to do."""

    text: str
    line: int  # Counted from 1.
    regions: tuple[int, ...]  # Where it decides.


class Rules(NamedTuple):
    """What was read."""

    book: Rulebook
    cases: tuple[Leaf, ...]
    uncovered: tuple[int, ...]  # Regions that no case covers: their skill is uniform, and the last.
    warnings: tuple[str, ...]


class Node(NamedTuple):
    line: Line
    children: list["Node"]


class Branch(NamedTuple):
    """A case: tests that all hold, and what then."""

    tests: tuple[Literal, ...]
    then: "list[Branch] | int"  # Further cases, or a skill.
    line: Line


def read_rules(text: str, vocabulary: Vocabulary, name: str = "rules") -> Rules:
    """Raises RulesError, which says where."""
    source = Source(name, tuple(text.splitlines()))
    if len(text) > LONGEST_TEXT or len(source.lines) > MOST_LINES:
        what = f"too long: {counted(MOST_LINES, 'line')} and {LONGEST_TEXT:,} characters at most"
        raise RulesError(source, 0, 0, what)
    nodes = _tree(source, _lines(source))
    if not nodes:
        raise RulesError(source, 0, 0, "there is no rule", "write `if NAME > 0 then ACTION` and `otherwise ACTION`")
    return _Reader(source, vocabulary).read(nodes)


def _lines(source: Source) -> list[Line]:
    """Statements without comments; a line that begins with a sign, or comes behind a comma, goes on with the one above."""
    lines: list[Line] = []
    for row, raw in enumerate(source.lines):
        if "\t" in raw[: len(raw) - len(raw.lstrip())]:
            raise RulesError(source, row, 0, "a tab in the indentation", "use spaces")
        bad = next((i for i, c in enumerate(raw) if not c.isprintable() and c != "\t"), None)
        if bad is not None:
            raise RulesError(source, row, bad, f"the character {ascii(raw[bad])} is not text", "save the file as UTF-8")
        text = COMMENT.sub(lambda found: found[0] if found[0].startswith('"') else "", raw).rstrip()
        stripped = text.lstrip()
        indent = len(text) - len(stripped)
        goes_on = (
            stripped and lines and (lines[-1].text[-1] in ",;" or stripped[0] in "+-,;" or stripped.startswith("and "))
        )
        if goes_on:
            above = lines[-1]
            starts = (*above.starts, (len(above.text) + 1, row, indent))
            lines[-1] = Line(f"{above.text} {stripped}", above.indent, starts)
        elif stripped:
            lines.append(Line(stripped, indent, ((0, row, indent),)))
    return lines


def _tree(source: Source, lines: Sequence[Line]) -> list[Node]:
    roots: list[Node] = []
    above: list[Node] = []
    for line in lines:
        while above and above[-1].line.indent >= line.indent:
            above.pop()
        siblings = above[-1].children if above else roots
        if siblings and siblings[-1].line.indent != line.indent:
            what = "the indentation fits no line above"
            raise RulesError(source, *line.place(0), what, "indent the cases of one list alike")
        node = Node(line, [])
        siblings.append(node)
        above.append(node)
        if len(above) > DEEPEST:
            what = f"cases more than {DEEPEST} deep inside each other"
            raise RulesError(source, *line.place(0), what, "join tests by `and`")
    return roots


class _Reader:
    def __init__(self, source: Source, vocabulary: Vocabulary):
        self.source, self.vocabulary, self.names = source, vocabulary, Names(vocabulary)
        self.tests = Tests()
        self.skills: list[Skill] = []
        self.skill_names: list[str] = []
        self.named: dict[str, int] = {}
        self.used: set[str] = set()

    def cursor(self, line: Line, offset: int = 0) -> Cursor:
        return Cursor(self.source, line, self.names, offset)

    def read(self, nodes: list[Node]) -> Rules:
        statements = self._definitions(nodes)
        if not statements:
            self.cursor(nodes[-1].line).fail("there are names, but no rule", "write what to do below them")
        first = statements[0].line
        if self.cursor(first).take(*STARTS) is None:
            branches = [Branch((), self._everywhere(statements), first)]
        else:
            branches = self._branches(statements)
        unused = [name for name in (*self.names.sums, *self.named) if name not in self.used]
        return self._in_regions(branches, [f"{name}: has a name, but is not used" for name in unused])

    def _definitions(self, nodes: list[Node]) -> list[Node]:
        """Takes the names of sums and skills; returns the rest."""
        sums, skills, rest = {}, [], []
        for node in nodes:
            match = DEFINITION.match(node.line.text)
            name = match and same(match[1])
            if match is None or name in self.names.actions or name.split()[0] in STARTS:
                rest.append(node)
                continue
            self._require_free(node, match[1], {*sums, *(each for each, *_ in skills)})
            if match[2] == "=":
                sums[name] = _NamedSum(self, match[1], node, match.end())
            else:
                skills.append((name, match, node))
        self.names.define_sums(sums)
        for each in sums.values():
            each.check()
        for name, match, node in skills:
            skill = self._skill(self.cursor(node.line, match.end()), node.children)
            self.named[name] = self._number(skill, " ".join(match[1].split()))
        return rest

    def _require_free(self, node: Node, name: str, taken: set[str]) -> None:
        cursor = self.cursor(node.line)
        if same(name) in self.names.variables:
            cursor.fail(f"{name} is a name of the environment already", "choose another one")
        if same(name) in taken:
            cursor.fail(f"{name} has been named before", "choose another name")
        if RESERVED & set(same(name).split()):
            cursor.fail(f"{name}: a word of the language can be no part of a name", "choose another one")

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
        if cursor.take("if") or sees_states(cursor):
            tests = tuple(self.tests.conjunction(cursor))
        elif not is_last:
            cursor.fail("expected a case", "write `if TEST then ACTION`, or `otherwise ACTION`")
        is_said = cursor.take("then") is not None
        if cursor.is_at_end and node.children and self.cursor(node.children[0].line).take(*STARTS):
            return Branch(tests, self._branches(node.children), node.line)
        if tests and not is_said:
            if cursor.take("or"):
                cursor.fail("`or` joins no tests", "write a case for each, with the same action")
            cursor.expect("then", "write `if TEST then ACTION`")
        if cursor.is_at_end and not node.children:
            cursor.fail("nothing to do", "name an action, or indent further cases below")
        known = self.named.get(same(cursor.rest))
        if known is not None and not node.children:
            self.used.add(same(cursor.rest))
            return Branch(tests, known, node.line)
        return Branch(tests, self._number(self._skill(cursor, node.children), ""), node.line)

    def _skill(self, cursor: Cursor, below: list[Node]) -> Skill:
        for node in below:
            if node.children:
                self.cursor(node.children[0].line).fail("did not expect a list here")
        return read_skill(cursor, [self.cursor(node.line) for node in below], list(self.named))

    def _everywhere(self, nodes: list[Node]) -> int:
        """One skill, without a test. Numbers to set may be on a line each."""
        first, *more = nodes
        if more and self.vocabulary.action_bounds is None:
            cure = "write `if TEST then ACTION`, and `otherwise ACTION` last"
            self.cursor(more[0].line).fail("expected a case", cure)
        known = self.named.get(same(first.line.text))
        if known is not None:
            self.used.add(same(first.line.text))
            return known
        if not more:
            return self._number(self._skill(self.cursor(first.line), first.children), "")
        below = [self.cursor(node.line) for node in more]
        return self._number(read_controls(self.cursor(first.line), below, list(self.named)), "")

    def _number(self, skill: Skill, name: str) -> int:
        """Skills with the same words are one."""
        known = list(zip(self.skills, self.skill_names))
        if (skill, name) not in known:
            self.skills.append(skill)
            self.skill_names.append(name)
            known.append((skill, name))
        return known.index((skill, name))

    # ---- Regions --------------------------------------------------------------------------------------------------

    def _in_regions(self, branches: list[Branch], warnings: list[str]) -> Rules:
        sums = [test.value for test in self.tests.found]
        has_lists = self.vocabulary.numbered and all(map(is_list, sums))
        regions = np.array(state_patterns(sums) if has_lists else possible_regions(sums))
        bits = (regions[:, None] >> np.arange(len(sums))) & 1 == 1
        leaves: list[tuple[Branch, np.ndarray]] = []
        decided = np.full(len(regions), -1)
        _decide(branches, bits, np.ones(len(regions), bool), decided, leaves)
        for index, (branch, holds) in enumerate(leaves):
            if not (decided == index).any():
                self._refuse(branch, holds, decided, leaves)
        skills = [leaves[leaf][0].then if leaf >= 0 else -1 for leaf in decided]
        uncovered = tuple(regions[decided < 0].tolist())
        if uncovered:
            warnings.append(_uncovered_in_words(uncovered, sums, self.vocabulary))
        cases = [
            Leaf(branch.line.text, branch.line.place(0)[0] + 1, tuple(regions[decided == index].tolist()))
            for index, (branch, _) in enumerate(leaves)
        ]
        return Rules(self._book(regions, skills), tuple(cases), uncovered, tuple(warnings))

    def _refuse(self, branch: Branch, holds: np.ndarray, decided: Int[np.ndarray, "R"], leaves: list) -> None:
        """A case that is never reached, with the one that is in its way."""
        cursor, covering = self.cursor(branch.line), decided[holds]
        if not holds.any():
            cursor.fail("can never be reached: its tests never hold together", "leave it out, or change its tests")
        first = covering[covering >= 0].min(initial=len(leaves))
        where = "a case above" if first == len(leaves) else f"line {leaves[first][0].line.place(0)[0] + 1}"
        cursor.fail(f"can never be reached: {where} covers it", "leave it out, or put it first")

    def _book(self, regions: Int[np.ndarray, "R"], skills: list[int]) -> Rulebook:
        """Regions that no state is in have any skill; those that no case covers a uniform one."""
        every, names = [*self.skills, self._uniform()], [*self.skill_names, ""]
        of_region = np.full(2 ** len(self.tests.found), max(skills))
        of_region[regions] = np.where(np.array(skills) < 0, len(self.skills), skills)
        used, numbered = np.unique(of_region, return_inverse=True)
        kept = tuple(every[s] for s in used), tuple(numbered.ravel().tolist()), tuple(names[s] for s in used)
        return Rulebook(self.vocabulary, tuple(self.tests.found), *kept)

    def _uniform(self) -> Skill:
        count, bounds = len(self.vocabulary.actions), self.vocabulary.action_bounds
        if bounds is None:
            return Choice(tuple((a, 1 / count) for a in range(count)))
        return Controls(tuple(Sum({}, middle) for middle in bounds.shift.tolist()), tuple(bounds.scale.tolist()))


def _decide(
    branches: list[Branch], bits: Bool[np.ndarray, "R K"], left: np.ndarray, decided: np.ndarray, leaves: list
) -> None:
    """Case by case: those regions that no case of the list has decided yet, where its tests hold."""
    for branch in branches:
        holds = np.ones(len(bits), bool)
        for k, side in branch.tests:
            holds &= bits[:, k] == side
        if isinstance(branch.then, list):
            _decide(branch.then, bits, left & holds, decided, leaves)
        else:
            decided[left & holds] = len(leaves)
            leaves.append((branch, holds))
        left = left & ~holds


class _NamedSum:
    """Read when it is first used; a sum that needs itself is refused."""

    def __init__(self, reader: _Reader, name: str, node: Node, offset: int):
        self.reader, self.name, self.node, self.offset = reader, name, node, offset
        self.value: Sum | None = None
        self.is_open = False

    def __call__(self, cursor: Cursor) -> Sum:
        self.reader.used.add(same(self.name))
        if self.is_open:
            cursor.fail(f"{self.name} is made of itself", "a named sum needs names that do not need it")
        return self.check()

    def check(self) -> Sum:
        if self.value is None:
            own = self.reader.cursor(self.node.line, self.offset)
            if sum(each.is_open for each in self.reader.names.sums.values()) > DEEPEST:
                own.fail(f"named sums more than {DEEPEST} deep inside each other")
            if self.node.children:
                self.reader.cursor(self.node.children[0].line).fail("did not expect a list here")
            self.is_open = True
            self.value = own.sum()
            self.is_open = False
            own.end()
        return self.value


def _uncovered_in_words(uncovered: Sequence[int], sums: Sequence[Sum], vocabulary: Vocabulary) -> str:
    found = example_in(uncovered[0], sums)
    values = [] if found is None else [f"{vocabulary.variables[v]} is {number(x)}" for v, x in found.items()]
    where = f", for example where {', '.join(values)}" if values else ""
    what = f"no case covers {counted(len(uncovered), 'region')}{where}"
    return f"{what}: any action is taken there; add `otherwise ACTION`"
