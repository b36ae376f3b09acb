"""A policy in words and numbers: its rules, in the language that can be read back, and what playing says of them."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from asap.base.numbers import counted, listed, number, percent
from asap.base.spec import Task, TaskSet, points_of
from asap.experience.protocol import Evaluation
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import one_per_skill, regions_at, require_one_seed
from asap.policy.rules.cases import possible_regions, skills_by_cases
from asap.policy.rules.from_policy import MOST_DIGITS, Reading, read_policy, read_rounded, sample_states
from asap.policy.rules.rounding import Sample
from asap.policy.rules.rulebook import Choice, Rulebook, Shape, Vocabulary
from asap.policy.rules.write import SKILL_UNIT, cases_of, comparison, does, sum_in_words, write_rules
from asap.show.words.notes import on_choice, on_numbers, on_skills, on_tasks, on_units, skills_in_words, sums_of
from asap.show.words.returns import Returns, returns_in_words, returns_of


@dataclass(frozen=True)
class Explanation:
    """`text` for people, `file` as rules that load again, `as_dict` for JSON."""

    title: str
    rules: tuple[str, ...]
    notes: tuple[str, ...]
    numbers: dict[str, Any]
    book: Rulebook  # What the rules say: it gives the policy that they are.
    verdict: dict[str, Any] | None = None  # How the training came out, where that is known.
    remarks: tuple[str, ...] = ()  # On the training.

    @property
    def text(self) -> str:
        blocks = (
            [self.title],
            [f"  {line}" for line in self.rules],
            self.notes,
            [f"note: {each}" for each in self.remarks],
        )
        return "\n\n".join("\n".join(lines) for lines in blocks if lines)

    @property
    def file(self) -> str:
        below = (*self.notes, *(f"note: {each}" for each in self.remarks))
        title, comments = (_as_comments(lines) for lines in (self.title.splitlines(), below))
        return "\n".join([*title, "", *self.rules, "", *comments, ""])

    def as_dict(self) -> dict:
        return {**self.numbers, "rules": list(self.rules), "verdict": self.verdict}

    def judged(self, verdict: dict[str, Any], remarks: Sequence[str]) -> "Explanation":
        """With what is known about how the training came out."""
        return dataclasses.replace(self, verdict=verdict, remarks=(*self.remarks, *remarks))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class PlayStatistics:
    """What playing has shown of a policy; all of it may be unknown."""

    usage: list[float | None]  # Share of the steps of each skill.
    durations: list[float | None]  # Steps at a time.
    states: Float[np.ndarray, "n O"] | None = (
        None  # Visited when skills and actions are drawn: numbers are rounded for them.
    )
    more_states: Float[np.ndarray, "k O"] | None = None  # And else.


def explain(
    policy: ASAPPolicy,
    tasks: TaskSet | Sequence[Task],
    usage: ArrayLike | None = None,
    durations: ArrayLike | None = None,
    states: Float[np.ndarray, "n O"] | None = None,
    digits: int | None = None,
    is_exact: bool = False,
    shows_all: bool = False,
) -> Explanation:
    """Read a policy for one task, or for several that it was trained on together.

    `usage` is the share of the steps and `durations` the mean number of steps at a time, one number per skill; `states`
    are some that were visited. Numbers have so many `digits`, or as many as the actions there need, or all of them.
    """
    require_one_seed(policy)
    usage = _or_nones("usage", usage, policy.num_skills)
    played = PlayStatistics(usage, _or_nones("durations", durations, policy.num_skills), states)
    reader = _Reader(policy, tasks.tasks if isinstance(tasks, TaskSet) else tuple(tasks), played, shows_all)
    return reader.explanation(reader.reading(digits, is_exact))


Play = Callable[[list[ASAPPolicy], bool], Evaluation]  # Policies on the same episodes of the tasks, by chance or not.


def explain_played(
    policy: ASAPPolicy,
    tasks: TaskSet,
    play: Play,
    digits: int | None = None,
    is_exact: bool = False,
    shows_all: bool = False,
) -> Explanation:
    """The same, with what playing tells: how much each skill is used, and what the printed rules lose."""
    drawn = play([policy], False)
    steps, starts = (np.einsum("m,ms->s", tasks.shares, n[0]) for n in (drawn.skill_steps, drawn.skill_starts))
    durations = np.where(starts > 0, steps / np.where(starts > 0, starts, 1), np.nan)
    usage = (steps / max(steps.sum(), 1e-9)).tolist()
    likeliest = play([policy], True)
    durations = _or_nones("durations", durations, policy.num_skills)
    reader = _Reader(
        policy, tasks.tasks, PlayStatistics(usage, durations, drawn.observations, likeliest.observations), shows_all
    )
    reading = reader.reading(digits, is_exact)
    while True:
        printed = reader.printed(reading).policy(Shape(policy.psi.inputs))
        returns = returns_of(tasks, drawn, likeliest, play([printed], False), play([printed], True))
        if digits is not None or is_exact or reader.digits >= MOST_DIGITS or not returns.loses:
            return reader.explanation(reading, returns)
        finer = reader.reading(reader.digits + 1, False)
        if _says(finer) == _says(reading):  # Lists of states have no digits to add.
            return reader.explanation(reading, returns)
        reading = finer


def _says(reading: Reading) -> tuple:
    return reading.book.tests, reading.book.skills, reading.layers


class _Reader:
    def __init__(self, policy: ASAPPolicy, tasks: tuple[Task, ...], played: PlayStatistics, shows_all: bool):
        self.policy, self.tasks, self.played, self.shows_all = policy, tasks, played, shows_all
        self.spec = tasks[0].spec
        self.vocabulary = Vocabulary.of(self.spec, len(tasks[0].descriptor))
        is_told_apart = {policy.psi.task, policy.phi.task} != {"none"}
        self.fixed = tasks[0].descriptor if len(tasks) == 1 and is_told_apart and not tasks[0].drawn else None
        self.states = sample_states(policy, tasks[0], played.states)
        self.sample = Sample.of({m: self.states for task in tasks for m in points_of(task)})
        self.digits, self.agreement = 0, 1.0
        seen = [states for states in (played.states, played.more_states) if states is not None]
        at = [regions_at(policy, states, m) for m in {m for task in tasks for m in points_of(task)} for states in seen]
        self._visited = {int(region) for regions in at for region in np.unique(regions.likeliest_regions)}

    def reading(self, digits: int | None, is_exact: bool) -> Reading:
        how = self.policy, self.vocabulary, self.sample, digits, is_exact, self.fixed
        reading, self.digits, self.agreement = read_rounded(*how)
        return reading

    def printed(self, reading: Reading) -> Rulebook:
        """What the printed cases say everywhere, also where they were not made for."""
        book = reading.book
        if not book.tests:
            return book
        cases = cases_of(book, self._regions(reading), self._weights(reading))
        return book.with_regions(skills_by_cases(cases, len(book.tests)))

    def _possible(self, reading: Reading) -> list[int]:
        return possible_regions([test.value for test in reading.book.tests])

    def _regions(self, reading: Reading) -> list[int] | None:
        """The book's regions that cases are written for; None for all."""
        usage = self.played.usage
        if self.shows_all or self.spec.numbered:
            return None
        skill_of_region = self.policy.partition.skill_of_region
        if self._visited:
            used = [r for r, region in enumerate(reading.regions) if region in self._visited]
        elif None not in usage:
            used = [r for r, region in enumerate(reading.regions) if usage[skill_of_region[region]] > 0]
        else:
            return None
        return used or None

    def _weights(self, reading: Reading) -> list[float] | None:
        usage = self.played.usage
        return None if None in usage else [sum(usage[s] for s in own) for own in reading.skills]

    def explanation(self, reading: Reading, returns: Returns | None = None) -> Explanation:
        regions, weights = self._regions(reading), self._weights(reading)
        is_alone = not reading.book.tests and None in self.played.usage  # Then there is nothing to say of it.
        comments = {} if is_alone else {index: self._habits(own) for index, own in enumerate(reading.skills)}
        numbers = [own[0] for own in reading.skills]
        rules = write_rules(reading.book, regions, weights, comments, reading.planes or None, numbers)
        notes = [*self._notes(reading, regions), *(["", *returns_in_words(returns)] if returns is not None else [])]
        return Explanation(
            self._title(), tuple(rules), tuple(notes), self._numbers(reading, returns), self.printed(reading)
        )

    def _title(self) -> str:
        planes, skills = self.policy.partition.num_planes, self.policy.num_skills
        sizes = f"{counted(planes, 'plane')}, {counted(skills, 'skill')}" if planes else "no planes, 1 skill"
        return f"{listed([task.name for task in self.tasks])}: {sizes}."

    def _habits(self, own: tuple[int, ...]) -> str:
        name = skills_in_words(own)
        usage = [self.played.usage[s] for s in own]
        if self.spec.numbered and not self.policy.phi.constant or None in usage:  # Several cases may be of one skill.
            return name
        share = math.fsum(usage)
        if not share:
            return f"{name}: never used"
        duration = self.played.durations[own[0]] if len(own) == 1 else None
        steps = "" if duration is None else f"{number(duration)} step{'' if number(duration) == '1' else 's'}"
        lasting = steps and f", {steps} at a time"
        return f"{name}: used in {percent(share)} of the steps{lasting}"

    def _notes(self, reading: Reading, regions: list[int] | None) -> list[str]:
        book, spec = reading.book, self.spec
        are_by_state = spec.numbered and not self.policy.phi.constant and self.vocabulary.action_bounds is None
        notes = on_numbers(book, spec, self.digits, self.agreement) + on_skills(book, are_by_state) + on_choice(book)
        is_several = len(self.tasks) > 1 or any(task.drawn for task in self.tasks)
        if is_several and {self.policy.psi.task, self.policy.phi.task} != {"none"}:
            notes += on_tasks(self.tasks, self.vocabulary, self._by_task())
        tests, skills = (
            [test.value for test in book.tests],
            [value for skill in book.skills for value in sums_of(skill)],
        )
        for layers, sums, name in zip(reading.layers, (tests, skills), ("unit", SKILL_UNIT)):
            notes += on_units(layers, sums, self.vocabulary, name, self.shows_all)
        left_out = 0 if regions is None else len(set(self._possible(reading)) - set(regions))
        if left_out:
            notes.append(
                f"{counted(left_out, 'region')} of {2 ** len(book.tests)} {'was' if left_out == 1 else 'were'} never visited: "
                "there the first case that fits decides, too (--all shows their own skills)."
            )
        return notes

    def _by_task(self) -> list[Reading]:
        """The tests with the numbers of each task put in; none where they are the same in all."""
        if self.policy.psi.task == "none" or any(task.drawn for task in self.tasks):
            return []
        samples = [Sample.of({task.descriptor: self.states}) for task in self.tasks]
        return [
            read_policy(self.policy, self.vocabulary, sample, self.digits, task.descriptor, decimals=0)
            for task, sample in zip(self.tasks, samples)
        ]

    def _numbers(self, reading: Reading, returns: Returns | None) -> dict[str, Any]:
        book, vocabulary = reading.book, self.vocabulary
        names = [task.name for task in self.tasks]
        planes = [
            {
                "plane": (reading.planes[k] if reading.planes else k) + 1,
                "positive": comparison(test, vocabulary),
                "terms": {
                    sum_in_words(type(test.value)({term: 1.0}), vocabulary): c for term, c in test.value.terms.items()
                },
                "constant": test.value.constant,
                "within": test.within,
                "unit": vocabulary.unit_of(test.value),
            }
            for k, test in enumerate(book.tests)
        ]
        skills = [
            {
                "skills": list(own),
                "does": does(skill, vocabulary),
                "actions": dict(zip(vocabulary.actions, skill.probabilities(len(vocabulary.actions)).tolist()))
                if isinstance(skill, Choice)
                else None,
                "usage": None if None in (each := [self.played.usage[s] for s in own]) else math.fsum(each),
                "duration": self.played.durations[own[0]] if len(own) == 1 else None,
            }
            for own, skill in zip(reading.skills, book.skills)
        ]
        return {
            "task": listed(names),
            "tasks": names,
            "digits": self.digits,
            "same_actions": self.agreement,
            "termination": self.policy.termination,
            "planes": planes,
            "skills": skills,
            "returns": None if returns is None else asdict(returns),
            "normalized": self.spec.normalized,
        }


def _as_comments(lines: Sequence[str]) -> list[str]:
    return [f"# {part}".rstrip() for line in lines for part in (line.splitlines() or [""])]


def _or_nones(field: str, values: ArrayLike | None, num_skills: int) -> list[float | None]:
    """As JSON can hold it: the duration of a skill that never ran is NaN, hence None."""
    if values is None:
        return [None] * num_skills
    return [v if math.isfinite(v) else None for v in one_per_skill(field, values, num_skills).tolist()]
