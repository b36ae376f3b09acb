"""What stands below printed rules: how to read their numbers, how skills are drawn, what differs from task to task."""

import math
from collections.abc import Sequence

from asap.base.numbers import counted, exact, listed, percent
from asap.base.spec import Spec, Task, Unit, points_of
from asap.policy.rules.from_policy import MOST_DIGITS, Reading
from asap.policy.rules.rounding import Layers, significant
from asap.policy.rules.rulebook import Choice, Controls, Either, Rulebook, Scores, Skill, Vocabulary
from asap.policy.rules.sums import Sum
from asap.policy.rules.write import sum_in_words, wrapped, write_rules

MOST_WEIGHTS = 200  # Of a network that is printed in full.
MOST_WEIGHED = 4  # Terms named for each unit of a larger one.


def on_numbers(book: Rulebook, spec: Spec, digits: int, agreement: float) -> list[str]:
    sums = [test.value for test in book.tests] + [value for skill in book.skills for value in sums_of(skill)]
    if spec.numbered or not any(value.terms for value in sums):
        return []
    units = "in the units of NormalizeObservation, which drift" if spec.normalized else "in the environment's own units"
    if digits > MOST_DIGITS:
        return [f"Numbers are {units}, with all digits."]
    where = "" if agreement == 1.0 else f" in {100 * agreement:.4g} % of the states"
    return [f"Numbers are {units}, with {counted(digits, 'digit')}: the action is the same as with all digits{where}."]


def on_skills(book: Rulebook, are_by_state: bool) -> list[str]:
    """`are_by_state`: numbered states are listed by what skills do there."""
    notes, bounds, count = [], book.vocabulary.action_bounds, len(book.vocabulary.actions)
    if any(isinstance(skill, Scores) for skill in book.skills):
        notes.append("`the largest of`: drawn, an action's chance is proportional to exp(score).")
    if any(isinstance(skill, Choice) and _leaves_some(skill, count) for skill in book.skills):
        notes.append("Where percentages add up to less than 100, the other actions share the rest evenly.")
    if are_by_state:
        notes.append(
            "A state is listed with the likeliest action of its likeliest skill, which need not be the only one there."
        )
    if any(isinstance(skill, Controls) and any(skill.deviations) for skill in book.skills):
        notes.append("`(+- d)`: drawn, a number has the standard deviation d around the sum; most probable is the sum.")
    if bounds is not None:
        limits = zip(book.vocabulary.actions, bounds.low.tolist(), bounds.high.tolist())
        notes += [
            f"{name} is kept within {exact(significant(low, 6))} to {exact(significant(high, 6))}."
            for name, low, high in limits
            if math.isfinite(low + high)
        ]
    return notes


def _leaves_some(skill: Choice, count: int) -> bool:
    """To share: what is left for one action needs no words."""
    return len(skill.shares) < count - 1 and math.fsum(share for _, share in skill.shares) < 1 - 1e-9


def on_choice(book: Rulebook) -> list[str]:
    """How a skill comes into force, where there are several."""
    if not book.tests or len(book.skills) == 1:
        return []
    if book.termination is None:
        notes = ["A skill is drawn at every step."]
    else:
        inside = percent(book.termination)
        notes = [f"A skill is kept until its region is left; inside, {inside} of the steps draw a new one."]
    if any(test.within is not None for test in book.tests):
        notes.append(
            "`within`: where the sum is so far beyond the number, its side is drawn with 90 %; nearer, with less."
        )
    return notes


def on_tasks(tasks: Sequence[Task], vocabulary: Vocabulary, readings: Sequence[Reading]) -> list[str]:
    """The numbers of each task; where they change the tests, the tests with them put in."""
    notes = []
    units = vocabulary.units[len(vocabulary.observations) :]
    for index, task in enumerate(tasks):
        numbers = [
            f"{name} {_ends_in_words(unit, low, high)} {unit.name}".rstrip()
            for name, unit, low, high in zip(vocabulary.descriptors, units, points_of(task)[0], points_of(task)[-1])
        ]
        notes.append(f"In {task.name} ({', '.join(numbers)}){':' if readings else '.'}")
        if readings:
            own = readings[index]
            names = tuple(skills_in_words(each) for each in own.skills)
            cases = write_rules(own.book._replace(names=names), planes=own.planes or None, names_only=True)
            notes += [f"  {line}" for line in cases]
    return notes


def _ends_in_words(unit: Unit, low: float, high: float) -> str:
    """Of a number that episodes draw, from where to where."""
    ends = [exact(significant(unit.read(value), 6)) for value in (low, high)]
    return ends[0] if low == high else f"{' to '.join(ends)}, drawn for each episode"


def skills_in_words(numbers: Sequence[int]) -> str:
    return f"skill{'s' * (len(numbers) > 1)} {listed([str(s) for s in numbers])}"


def on_units(layers: Layers, sums: Sequence[Sum], vocabulary: Vocabulary, name: str, is_full: bool) -> list[str]:
    """What each unit of a network is that the rules need; of a large one, what it weighs most, unless asked for all."""
    used = {term.unit for value in sums for term in value.terms if term.unit is not None}
    if not used:
        return []
    if not is_full and sum(len(value.terms) + 1 for layer in layers for value in layer) > MOST_WEIGHTS:
        lines = [f"A {name} goes from -1 to 1; it weighs most (--all shows everything):"]
        what = layers[-1] if len(layers) == 1 else _linear(layers)
        return lines + [f"  {name} {u + 1}: {_heaviest(what[u], vocabulary)}" for u in sorted(used)]
    lines = [f"A {name} is computed so (tanh goes from -1 to 1):"]
    for depth, layer in enumerate(layers, 1):
        is_last, below = depth == len(layers), f"layer {depth - 1} unit"
        own = name if is_last else f"layer {depth} unit"
        for u, value in enumerate(layer):
            if not is_last or u in used:
                lines += wrapped(f"  {own} {u + 1} = tanh({sum_in_words(value, vocabulary, below)})")
    return lines


def _linear(layers: Layers) -> list[Sum]:
    """The products of the weights on the way, as if tanh were a straight line."""
    through = list(layers[0])
    for layer in layers[1:]:
        through = [
            Sum.of(pair for term, c in value.terms.items() for pair in through[term.unit].scaled(c).items)
            for value in layer
        ]
    return through


def _heaviest(value: Sum, vocabulary: Vocabulary) -> str:
    order = sorted(value.terms.items(), key=lambda pair: -abs(pair[1]))[:MOST_WEIGHED]
    return ", ".join(f"{sum_in_words(Sum({term: 1.0}), vocabulary)} ({exact(significant(c, 2))})" for term, c in order)


def sums_of(skill: Skill) -> tuple[Sum, ...]:
    match skill:
        case Choice():
            return ()
        case Either(_, _, test):
            return (test.value,)
        case Scores(sums):
            return sums
        case Controls(means):
            return means
