"""Which case decides in which region: cases are read from the top, and each must decide somewhere."""

from collections.abc import Sequence
from typing import NamedTuple, NoReturn

import numpy as np
from jaxtyping import Bool, Int

from asap.base.numbers import counted, listed, number
from asap.policy.rules.cases import example_in, possible_regions, state_patterns
from asap.policy.rules.read_tests import Literal, is_list
from asap.policy.rules.rulebook import Choice, Controls, Rulebook, Skill, Vocabulary
from asap.policy.rules.source import Line, RulesError, Source
from asap.policy.rules.sums import Sum

MOST_NAMED = 3  # Lines that are named as those in the way of a case.


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


class Branch(NamedTuple):
    """A case: tests that all hold, and what then."""

    tests: tuple[Literal, ...]
    then: "list[Branch] | int"  # Further cases, or a skill.
    line: Line

    @property
    def row(self) -> int:
        """Counted from 1."""
        return self.line.place(0)[0] + 1


class Decision(NamedTuple):
    """A case that says what to do, and the regions where its tests hold and those of the cases that it is in."""

    branch: Branch
    holds: Bool[np.ndarray, "R"]


def decided(branches: list[Branch], book: Rulebook, source: Source, warnings: list[str]) -> Rules:
    """The rulebook with the skill of every region.

    Cases decide all sign patterns of the tests, because soft tests give each of them a chance. Whether a case is reached
    depends on those that occur.
    """
    sums, count = [test.value for test in book.tests], 2 ** len(book.tests)
    has_lists = book.vocabulary.numbered and all(map(is_list, sums))
    occurs = np.zeros(count, bool)
    occurs[state_patterns(sums, len(book.vocabulary.observations)) if has_lists else possible_regions(sums)] = True
    bits = (np.arange(count)[:, None] >> np.arange(len(sums))) & 1 == 1
    decisions: list[Decision] = []
    chosen = np.full(count, -1)
    _decide(branches, bits, np.ones(count, bool), np.ones(count, bool), chosen, decisions)
    for index, decision in enumerate(decisions):
        if not (occurs & (chosen == index)).any():
            _refuse(decision, occurs, chosen, decisions, source)
    uncovered = tuple(np.flatnonzero(occurs & (chosen < 0)).tolist())
    if uncovered:
        warnings = [*warnings, _uncovered_in_words(uncovered, sums, book.vocabulary, has_lists)]
    cases = [
        Leaf(branch.line.text, branch.row, tuple(np.flatnonzero(occurs & (chosen == index)).tolist()))
        for index, (branch, _) in enumerate(decisions)
    ]
    # Where no case decides: any skill if no state can be there, else the uniform one.
    of_case = np.array([*(decision.branch.then for decision in decisions), decisions[-1].branch.then])
    skills = np.where(occurs & (chosen < 0), len(book.skills), of_case[chosen])
    return Rules(_with_skills(book, skills), tuple(cases), uncovered, tuple(warnings))


def _decide(
    branches: list[Branch],
    bits: Bool[np.ndarray, "R K"],
    inside: Bool[np.ndarray, "R"],
    left: Bool[np.ndarray, "R"],
    chosen: Int[np.ndarray, "R"],
    decisions: list[Decision],
) -> None:
    """Case by case: those regions that no case of the list has decided yet, where its tests hold."""
    for branch in branches:
        holds = inside.copy()
        for k, side in branch.tests:
            holds &= bits[:, k] == side
        if isinstance(branch.then, list):
            _decide(branch.then, bits, holds, left & holds, chosen, decisions)
        else:
            chosen[left & holds] = len(decisions)
            decisions.append(Decision(branch, holds))
        left = left & ~holds


def _refuse(
    decision: Decision,
    occurs: Bool[np.ndarray, "R"],
    chosen: Int[np.ndarray, "R"],
    decisions: list[Decision],
    source: Source,
) -> NoReturn:
    """A case that is never reached, with those that are in its way."""
    own, place = occurs & decision.holds, decision.branch.line.place(0)
    if not own.any():
        what = "can never be reached: its tests never hold together"
        raise RulesError(source, *place, what, "leave it out, or change its tests")
    rows = sorted({decisions[d].branch.row for d in np.unique(chosen[own]) if d >= 0})
    if len(rows) == 1:
        where = f"line {rows[0]} covers"
    else:
        where = (
            f"lines {listed([str(row) for row in rows])} cover" if 0 < len(rows) <= MOST_NAMED else "lines above cover"
        )
    raise RulesError(source, *place, f"can never be reached: {where} it", "leave it out, or put it first")


def _with_skills(book: Rulebook, skills: Int[np.ndarray, "R"]) -> Rulebook:
    """Only those skills that a region has; the last may be the uniform one."""
    every, names = [*book.skills, _uniform(book.vocabulary)], [*book.names, ""]
    used, numbered = np.unique(skills, return_inverse=True)
    kept = tuple(every[s] for s in used), tuple(numbered.ravel().tolist()), tuple(names[s] for s in used)
    return Rulebook(book.vocabulary, book.tests, *kept, book.sum_names)


def _uniform(vocabulary: Vocabulary) -> Skill:
    count, bounds = len(vocabulary.actions), vocabulary.action_bounds
    if bounds is None:
        return Choice(tuple((a, 1 / count) for a in range(count)))
    return Controls(tuple(Sum({}, middle) for middle in bounds.shift.tolist()), tuple(bounds.scale.tolist()))


def _uncovered_in_words(uncovered: Sequence[int], sums: Sequence[Sum], vocabulary: Vocabulary, has_lists: bool) -> str:
    where = ""
    if has_lists:
        on_lists = (
            sum((state in {t.variables[0] for t in v.terms}) << k for k, v in enumerate(sums))
            for state in range(len(vocabulary.observations))
        )
        states = [state for state, pattern in enumerate(on_lists) if pattern in uncovered]
        where = f", for example {vocabulary.observations[states[0]]}" if states else ""
    elif (found := example_in(uncovered[0], sums)) is not None:
        values = [f"{vocabulary.variables[v]} is {number(x)}" for v, x in found.items()]
        where = f", for example where {', '.join(values)}"
    what = f"no case covers {counted(len(uncovered), 'region')}{where}"
    return f"{what}: any action is taken there; add `otherwise ACTION`"
