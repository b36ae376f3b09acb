"""What learning made of given rules: which plane moved and how far, which skill changed its mind, which case fell idle, and
what it gained."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from asap.base.numbers import counted, number, percent, play_in_words
from asap.base.spec import Task, TaskSet, points_of
from asap.base.stats import bootstrap_interval
from asap.experience.protocol import Evaluation
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import OWNS
from asap.policy.rules.from_policy import Reading, read_policy, read_rounded, sample_states
from asap.policy.rules.given import Given
from asap.policy.rules.rounding import Sample
from asap.policy.rules.rulebook import Rulebook, Test, Vocabulary
from asap.policy.rules.sums import Sum, term_at
from asap.policy.rules.write import comparison, does, oriented, states_in_words

SAME_ANGLE = 1.0  # Degrees: less is not worth a word.
SAME_PLACE = 1e-3  # The same, of the deviation of the given sum.
ALONGSIDE = 60.0  # Degrees up to which a plane is said to have moved, and not only turned.


class Gain(NamedTuple):
    """Mean returns of the same episodes, with 95 % intervals."""

    given: tuple[float, float, float]
    corrected: tuple[float, float, float]
    difference: tuple[float, float, float]
    episodes: int
    deterministic: bool


@dataclass(frozen=True)
class Changes:
    """`text` for people, `as_dict` for JSON."""

    title: str
    lines: tuple[str, ...]
    numbers: dict[str, Any]

    @property
    def text(self) -> str:
        return "\n".join([self.title, "", *self.lines])

    def as_dict(self) -> dict[str, Any]:
        return self.numbers

    def __str__(self) -> str:
        return self.text


def changes(
    given: Given,
    policy: ASAPPolicy,
    tasks: TaskSet,
    played: tuple[Evaluation, Evaluation] | None,
    deterministic: bool,
    digits: int | None = None,
) -> Changes:
    """`played` are the given rules and the corrected ones on the same episodes; None where nothing can be played."""
    task, vocabulary = tasks.tasks[0], given.book.vocabulary
    states = _states(policy, task, played)
    sample = Sample.of({m: states for each in tasks.tasks for m in points_of(each)})
    values = vocabulary.values(*sample)
    plain = replace(vocabulary, numbered=False)  # By planes, not by lists of states: the given ones are compared.
    reading, count, _ = read_rounded(policy, plain, sample, digits)
    exact = read_policy(policy, plain, sample, None)  # What rounding changes, learning did not.
    start = read_policy(given.policy(), plain, sample, count, decimals=0 if digits is None else None)
    planes = [_plane(k, given.book, reading, exact, values) for k in range(len(given.book.tests))]
    added = [
        _added(plane, given.book.vocabulary, reading, values)
        for plane in range(len(given.book.tests), policy.partition.num_planes)
    ]
    skills = [_skill(s, given.book, start, reading) for s in range(len(given.book.skills))]
    gain = None if played is None else _gain(tasks, *played, deterministic)
    cases = _idle_cases(given, policy, played, tasks)
    lines = [line for part in (planes, added, skills) for entry in part for line in (*entry["words"], "")]
    lines += [
        *(entry["words"] for entry in cases),
        *([""] if cases else []),
        *([] if gain is None else _gain_in_words(gain)),
    ]
    numbers = {
        "task": task.name,
        "planes": planes + added,
        "skills": skills,
        "unused_cases": cases,
        "gain": None if gain is None else gain._asdict(),
    }
    changed = sum(entry["changed"] for entry in planes + skills)
    title = f"{' and '.join(tasks.names)}: learning changed {changed} of {counted(len(planes) + len(skills), 'part')} of the given rules."
    return Changes(title, tuple(lines), numbers)


def _states(policy: ASAPPolicy, task: Task, played: Sequence[Evaluation] | None) -> np.ndarray:
    seen = [each.observations for each in played or () if each.observations is not None and len(each.observations)]
    return sample_states(policy, task, np.concatenate(seen) if seen else None)


def _test_of(k: int, reading: Reading) -> Test:
    """A plane by the side that it has in the policy; printed, its first term is positive."""
    place = reading.planes.index(k)
    test, is_same = reading.book.tests[place], reading.regions[1 << place] >> k & 1
    return test if is_same else test._replace(value=test.value.scaled(-1.0))


def _as_it_was(test: Test, now: Test) -> str:
    """A plane whose sides stayed may still be drawn otherwise."""
    before, after = ((each.within or 0.0) / (each.value.largest or 1.0) for each in (test, now))
    if test.keep or math.isclose(before, after, rel_tol=0.01):
        return "as it was"
    return f"as it was, but {'softer' if after > before else 'sharper'}"


def _in_words(test: Test, vocabulary: Vocabulary, values: Float[np.ndarray, "V N"]) -> str:
    """States that have numbers are listed."""
    if not vocabulary.numbered:
        return comparison(test, vocabulary)
    of_one_task = values[:, : len(vocabulary.observations)]
    held = np.flatnonzero(test.value.at(of_one_task) > 0).tolist()
    return f"in {states_in_words(held, vocabulary) if held else 'no state'}{' [keep]' if test.keep else ''}"


def _plane(
    k: int, book: Rulebook, reading: Reading, exact: Reading, values: Float[np.ndarray, "V N"]
) -> dict[str, Any]:
    vocabulary, test = book.vocabulary, book.tests[k]
    name, before = f"plane {k + 1}", _in_words(test, vocabulary, values)
    if k not in reading.planes:
        words = [f"{name}  given:      {before}", "         corrected:  one side everywhere"]
        return {"plane": k + 1, "given": before, "corrected": None, "changed": True, "words": words}
    now = _test_of(k, exact)
    other = float(((test.value.at(values) > 0) != (now.value.at(values, exact.units[0]) > 0)).mean())
    angle, moved = 0.0, None
    if not vocabulary.numbered:
        angle, moved = _angle(test.value, now.value, values), _moved(test.value, now.value, values)
    if moved is not None and oriented(test)[1]:
        moved = -moved  # As it is printed: of `level < 0.6`, the level, and not its negative.
    printed = now if vocabulary.numbered else _in_units_of(test, _test_of(k, reading), angle, values)
    after = _in_words(printed, vocabulary, values)
    unit = f" {vocabulary.unit_of(test.value)}".rstrip()
    what = []
    if angle > 90:
        what.append(f"turned the other way round, by {angle:.0f} degrees")
    elif angle > SAME_ANGLE:
        what.append(f"turned by {angle:.0f} degrees")
    if moved is not None and abs(moved) > SAME_PLACE * test.value.at(values).std():
        what.append(f"moved by {number(moved)}{unit}")
    what.append(f"another side in {percent(other)} of the states")
    is_changed = bool(other) or angle > SAME_ANGLE
    kept = [_as_it_was(test, now)] if test.keep or not is_changed else what
    words = [f"{name}  given:      {before}", f"         corrected:  {after}", f"         {', '.join(kept)}"]
    numbers = {"turned_degrees": angle, "moved": moved, "other_side": other, "changed": is_changed and not test.keep}
    return {"plane": k + 1, "given": before, "corrected": after, **numbers, "words": words}


def _in_units_of(given: Test, test: Test, angle: float, values: Float[np.ndarray, "V N"]) -> Test:
    """With the coefficient that the given test has for what decides it most, so that a reader can compare the limits; as it
    is where learning has turned it too far for that."""
    main = max(given.value.terms, key=lambda term: abs(given.value.terms[term]) * term_at(term, values).std())
    slope = test.value.terms.get(main, 0.0)
    factor = given.value.terms[main] / slope if slope else 0.0
    if factor <= 0 or math.isclose(factor, 1.0) or angle > ALONGSIDE:
        return test
    digits = max(_num_digits(c) for _, c in test.value.items)

    def rounded(c: float) -> float:
        return float(f"{factor * c:.{digits}g}")

    value = Sum({term: rounded(c) for term, c in test.value.terms.items()}, rounded(test.value.constant))
    return test._replace(value=value, within=None if test.within is None else rounded(test.within))


def _num_digits(c: float) -> int:
    """That a coefficient is printed with."""
    return max(1, len(f"{abs(c):.12g}".partition("e")[0].replace(".", "").strip("0")))


def _slopes(value: Sum, spread: Float[np.ndarray, "V"]) -> Float[np.ndarray, "V"] | None:
    """In deviations of the states; None where the sum is not linear."""
    slopes = np.zeros(len(spread))
    for term, c in value.terms.items():
        if len(term.variables) != 1 or term.wave is not None or term.unit is not None:
            return None
        slopes[term.variables[0]] = c
    return slopes * spread


def _angle(before: Sum, after: Sum, values: Float[np.ndarray, "V N"]) -> float:
    """Between two planes, where every observation counts in deviations; 0 where one of them is no plane."""
    first, second = (_slopes(value, values.std(1)) for value in (before, after))
    if first is None or second is None or not first.any() or not second.any():
        return 0.0
    cosine = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    return math.degrees(math.acos(float(np.clip(cosine, -1, 1))))


def _moved(before: Sum, after: Sum, values: Float[np.ndarray, "V N"]) -> float | None:
    """How far the boundary went, in units of the given sum: from the mean state straight to it, before and after."""
    spread, centre = values.std(1), values.mean(1, keepdims=True)
    first, second = _slopes(before, spread), _slopes(after, spread)
    if first is None or second is None or not first.any() or _angle(before, after, values) > ALONGSIDE:
        return None
    direction = first / np.linalg.norm(first)
    along = float(second @ direction)
    if abs(along) < 1e-12:
        return None
    here = centre[:, 0] - float(after.at(centre)[0]) / along * direction * spread
    return float(before.at(here[:, None])[0])


def _added(plane: int, vocabulary: Vocabulary, reading: Reading, values: Float[np.ndarray, "V N"]) -> dict[str, Any]:
    if plane not in reading.planes:
        return {
            "plane": plane + 1,
            "given": None,
            "corrected": None,
            "changed": False,
            "words": [f"plane {plane + 1}  added: one side everywhere"],
        }
    after = _in_words(reading.book.tests[reading.planes.index(plane)], vocabulary, values)
    return {
        "plane": plane + 1,
        "given": None,
        "corrected": after,
        "changed": False,
        "words": [f"plane {plane + 1}  added:      {after}"],
    }


def _skill(s: int, book: Rulebook, start: Reading, reading: Reading) -> dict[str, Any]:
    def printed(found: Reading) -> list[str]:
        own = next(skill for skill, origins in zip(found.book.skills, found.skills) if s in origins)
        return does(own, book.vocabulary)

    before, after = does(book.skills[s], book.vocabulary), printed(reading)
    name = book.names[s] if book.names and book.names[s] else f"skill {s}"
    pad, is_changed = " " * (len(name) + 2), printed(start) != after and not book.skills[s].keep
    words = [f"{name}  given:      {'; '.join(filter(None, before))}"]
    words.append(f"{pad}corrected:  {'; '.join(filter(None, after))}" if is_changed else f"{pad}as it was")
    return {"skill": s, "name": name, "given": before, "corrected": after, "changed": is_changed, "words": words}


def _idle_cases(
    given: Given, policy: ASAPPolicy, played: tuple[Evaluation, Evaluation] | None, tasks: TaskSet
) -> list[dict[str, Any]]:
    """Given cases whose skill is hardly used any more, though it was; tasks count by their shares, whatever their length."""
    if played is None:
        return []
    before, after = (np.einsum("m,ms->s", tasks.shares, each.usage[0]) for each in played)
    count, found = len(given.book.skills), []
    for case in given.rules.cases:
        skill = given.book.region_skills[case.regions[0]] if case.regions else None
        if skill is None:
            continue
        own = [s for s in range(policy.num_skills) if s % count == skill]  # Planes that were added double the skills.
        used, was = float(after[own].sum()), float(before[own].sum())
        if used < OWNS <= was:
            words = f"line {case.line}: hardly used any more ({percent(used)} of the steps, before {percent(was)}): {case.text}"
            found.append({"line": case.line, "case": case.text, "before": was, "after": used, "words": words})
    return found


def _gain(tasks: TaskSet, given: Evaluation, corrected: Evaluation, deterministic: bool) -> Gain:
    first, second = (np.einsum("m,mn->n", tasks.shares, each.returns[0]) for each in (given, corrected))

    def interval(values: np.ndarray) -> tuple[float, float, float]:
        return float(values.mean()), *bootstrap_interval(values, statistic=np.mean)

    return Gain(interval(first), interval(second), interval(second - first), len(first), deterministic)


def _gain_in_words(gain: Gain) -> list[str]:
    def told(values: tuple[float, float, float]) -> str:
        mean, low, high = (number(value) for value in values)
        return f"{mean} ({low} to {high})"

    more = "more" if gain.difference[0] >= 0 else "less"
    size = tuple(sorted(abs(value) for value in gain.difference[1:])) if gain.difference[0] else (0.0, 0.0)
    difference = f"{number(abs(gain.difference[0]))} {more}"
    if not any(gain.difference):
        difference = "the same"
    elif np.sign(gain.difference[1]) == np.sign(gain.difference[2]):
        difference += f" ({number(size[0])} to {number(size[1])})"
    else:
        difference += ", which may be chance"
    how = play_in_words(gain.episodes, gain.deterministic)
    return [
        f"return  given:      {told(gain.given)}",
        f"        corrected:  {told(gain.corrected)}: {difference}",
        f"        {how}; 95 % intervals",
    ]
