"""A policy as a rulebook: its numbers multiplied out into the units that people read, and rounded."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from asap.base.errors import UserError
from asap.base.spec import Task, points_of
from asap.policy.partition import region_bits
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import actions_at, regions_at, states_in_bounds, usual_states
from asap.policy.rules.rounding import Layers, Sample, SumReader, least_varied, significant
from asap.policy.rules.rulebook import (
    MOST_TESTS,
    NINETY,
    SHARP,
    Choice,
    Controls,
    Either,
    Rulebook,
    Scores,
    Skill,
    Test,
    Vocabulary,
)
from asap.policy.rules.sums import Sum, Term
from asap.policy.rules.write import write_rules
from asap.policy.skills import GaussianSkills

DIGITS = 2
MOST_DIGITS = 8
SAME = 0.999  # Share of the states in which rounded numbers must give the same action.
CLOSE = 0.01  # Of an action's range: numbers to set that are as near count as the same.
MOST_STATES = 4096
MOST_DECIMALS = 12
ALL_DIGITS = 17  # Of a float of 64 bits.
NEARLY = 1e-4


class Reading(NamedTuple):
    """A rulebook, and where its parts come from."""

    book: Rulebook
    skills: tuple[tuple[int, ...], ...]  # The policy's skills that each of the book's stands for.
    planes: tuple[int, ...]  # The policy's plane that each test is.
    regions: tuple[int, ...]  # The policy's region that each of the book's is.
    units: tuple[np.ndarray | None, np.ndarray | None] = (None, None)  # Of networks, at the states of the sample,
    layers: tuple[Layers, Layers] = ((), ())  # and what they are computed by.


def sample_states(policy: ASAPPolicy, task: Task, visited: Float[np.ndarray, "n O"] | None = None) -> np.ndarray:
    """(N, O): states that were visited, if any are known; else those that a task or the scaling of a policy names."""
    spec = task.spec
    if spec.numbered:
        return np.eye(len(spec.observation_names))
    if visited is not None and len(visited):
        return np.asarray(visited, float)[:: max(1, len(visited) // MOST_STATES)]
    states = None if task.is_scaled else states_in_bounds(spec)
    return usual_states(policy, spec) if states is None else states


def read_rounded(
    policy: ASAPPolicy,
    vocabulary: Vocabulary,
    sample: Sample,
    digits: int | None = None,
    is_exact: bool = False,
    fixed: tuple[float, ...] | None = None,
) -> tuple[Reading, int, float]:
    """The rules with the fewest digits that keep the action in nearly all states of the sample, if nobody says how many.

    Also how many that are, and the share of the states with the same action.
    """
    full = read_policy(policy, vocabulary, sample, None, fixed)
    if is_exact:
        return full, ALL_DIGITS, 1.0
    values = vocabulary.values(*sample)
    meant = full.book.act(values, *full.units)[1]
    for count in range(1, MOST_DIGITS + 1) if digits is None else (digits,):
        reading = read_policy(policy, vocabulary, sample, count, fixed, 0 if digits is None else None)
        said, bounds = reading.book.act(values, *reading.units)[1], vocabulary.action_bounds
        is_same = said == meant if bounds is None else (np.abs(said - meant) <= CLOSE * bounds.scale).all(-1)
        if is_same.mean() >= SAME:
            break
    return reading, count, float(is_same.mean())


def read_policy(
    policy: ASAPPolicy,
    vocabulary: Vocabulary,
    sample: Sample,
    digits: int | None = DIGITS,
    fixed: tuple[float, ...] | None = None,
    decimals: int | None = None,
) -> Reading:
    """The rules of a policy, with so many digits or with all; `fixed` is the descriptor of the one task they are for.

    Percentages have two digits less, or so many `decimals`.
    """
    if decimals is None:
        decimals = MOST_DECIMALS if digits is None else max(0, digits - 2)
    if vocabulary.numbered and vocabulary.action_bounds is None:
        reading = _of_numbered_states(policy, vocabulary, sample, decimals)
        if reading is not None:
            return reading
    rows = np.asarray(policy.partition.alpha_beta * policy.partition.beta, float)
    psi, phi = (SumReader(features, vocabulary, sample, digits, fixed) for features in (policy.psi, policy.phi))
    planes = [_test(psi.sum(row), psi, digits) for row in rows]
    planes = [(test._replace(keep=k in policy.kept.planes), turned) for k, (test, turned) in enumerate(planes)]
    every = _skills(policy, phi, vocabulary, digits, decimals)
    every = [skill._replace(keep=s in policy.kept.skills) for s, skill in enumerate(every)]
    kept = [k for k, (test, _) in enumerate(planes) if test.value.terms]
    same: dict[str, list[int]] = {}  # By all that is said of them: sums can't be keys.
    for s, skill in enumerate(every):
        same.setdefault(repr(skill), []).append(s)
    index = {s: i for i, own in enumerate(same.values()) for s in own}
    regions, region_skills = [], []
    for bits in np.asarray(region_bits(len(kept))):
        region = sum(_fixed_bit(*planes[k]) << k for k in range(len(planes)) if k not in kept)
        region += sum(int(bool(bits[i]) != planes[k][1]) << k for i, k in enumerate(kept))
        regions.append(region)
        region_skills.append(index[int(policy.partition.skill_of_region[region])])
    book = Rulebook(
        vocabulary,
        tuple(planes[k][0] for k in kept),
        tuple(every[own[0]] for own in same.values()),
        tuple(region_skills),
        psi_network=psi.network,
        phi_network=phi.network,
        termination=policy.termination,
    )
    return Reading(
        book,
        tuple(map(tuple, same.values())),
        tuple(kept),
        tuple(regions),
        (psi.units, phi.units),
        (psi.layers, phi.layers),
    )


def _fixed_bit(test: Test, is_flipped: bool) -> int:
    """The side of a plane without slopes: the likelier one, everywhere."""
    return int((test.value.constant > 0) != is_flipped)


def _test(margin: Sum, reader: SumReader, digits: int | None) -> tuple[Test, bool]:
    """Its largest coefficient is 1 and its first term positive: which side it is for is easily said, two minus signs
    easily missed. Also whether that turned it round."""
    length = margin.largest or 1.0
    value = reader.rounded(margin.scaled(1 / length))
    is_flipped = next(iter(value.terms.values()), 1.0) < 0
    if is_flipped:
        value = value.scaled(-1.0)
    within = NINETY / length
    is_sharp = abs(within / SHARP - 1) < NEARLY  # As one that was given without `within`.
    return Test(value, None if is_sharp else significant(within, ALL_DIGITS if digits is None else digits)), is_flipped


def _skills(
    policy: ASAPPolicy, phi: SumReader, vocabulary: Vocabulary, digits: int | None, decimals: int
) -> list[Skill]:
    theta = np.asarray(policy.skills.theta, float)
    if isinstance(policy.skills, GaussianSkills):
        deviations = np.exp(np.asarray(policy.skills.log_std, float))
        return [_controls(rows, spread, phi, vocabulary, digits) for rows, spread in zip(theta, deviations)]
    theta = float(policy.skills.alpha_theta) * (
        theta - theta.mean(1, keepdims=True)
    )  # The mean cancels in the softmax.
    return [_gibbs([phi.sum(row) for row in rows], phi, digits, decimals) for rows in theta]


def _gibbs(logits: list[Sum], phi: SumReader, digits: int | None, decimals: int) -> Skill:
    if not any(value.terms for value in logits):
        scores = np.array([value.constant for value in logits])
        chances = np.exp(scores - scores.max())
        return choice(chances / chances.sum(), decimals)
    if len(logits) == 2:
        test, is_flipped = _test(logits[1].plus(logits[0], -1.0), phi, digits)
        return Either(int(not is_flipped), int(is_flipped), test)
    # Only differences count. So that there is less to read, the score that varies least is 0, and all are compared with it.
    reference = least_varied(logits, phi)
    return Scores(tuple(phi.rounded(value.plus(reference, -1.0)) for value in logits))


def _controls(
    rows: np.ndarray, spread: np.ndarray, phi: SumReader, vocabulary: Vocabulary, digits: int | None
) -> Controls:
    bounds = vocabulary.action_bounds
    means = [
        phi.rounded(phi.sum(row).scaled(scale).plus(Sum({}, shift)))
        for row, scale, shift in zip(rows, bounds.scale.tolist(), bounds.shift.tolist())
    ]
    places = ALL_DIGITS if digits is None else digits
    return Controls(tuple(means), tuple(significant(d, places) for d in (spread * bounds.scale).tolist()))


def choice(chances: Float[np.ndarray, "A"], decimals: int = 0) -> Choice:
    """Percents with as few decimals as keep the likeliest action; of small ones that are alike, none is named."""
    order = np.argsort(-chances, kind="stable")
    while True:
        percents = _percents(chances, decimals)
        tolerance = 10.0**-decimals
        for count in range(1, len(chances) + 1):
            rest = (100 - percents[order[:count]].sum()) / max(1, len(chances) - count)
            if np.all(np.abs(100 * chances[order[count:]] - rest) <= tolerance):
                break
        named = Choice(tuple((int(a), round(float(percents[a]) / 100, 2 + decimals)) for a in order[:count]))
        if named.probabilities(len(chances)).argmax() == chances.argmax() or decimals >= MOST_DECIMALS:
            return named
        decimals += 1


def _percents(chances: Float[np.ndarray, "A"], decimals: int) -> Float[np.ndarray, "A"]:
    """They sum to 100: what is missing goes to those that were rounded off most."""
    unit = 10**decimals
    parts = np.floor(100 * unit * chances + 1e-9)
    missing = round(100 * unit - parts.sum())
    parts[np.argsort(parts - 100 * unit * chances, kind="stable")[:missing]] += 1
    return parts / unit


def _of_numbered_states(policy: ASAPPolicy, vocabulary: Vocabulary, sample: Sample, decimals: int) -> Reading | None:
    """A list of the states of each skill; where skills weigh states, of each action. The last has all other states.

    None where there is no such list: tasks differ in it, or there are too many.
    """
    if {policy.psi.task, policy.phi.task} != {"none"} and len(np.unique(sample.m, axis=0)) > 1:
        return None
    states = np.eye(len(vocabulary.observations), dtype=np.float32)
    m = sample.m[:1].ravel()
    rulers = policy.partition.skill_of_region[regions_at(policy, states, m).likeliest_regions]
    if policy.phi.constant:
        chances = actions_at(policy, np.arange(policy.num_skills), states[:1].repeat(policy.num_skills, 0), m)
        own = [choice(np.asarray(row, float), decimals) for row in chances]
        outcomes: list[Skill] = [own[ruler] for ruler in rulers]
    else:
        outcomes = [Choice(((int(row.argmax()), 1.0),)) for row in actions_at(policy, rulers, states, m)]
    distinct = sorted(set(outcomes), key=lambda skill: (outcomes.count(skill), -outcomes.index(skill)))
    if len(distinct) > 1 + MOST_TESTS:
        return None
    tests = tuple(_membership([s for s, each in enumerate(outcomes) if each == skill]) for skill in distinct[:-1])
    first = [next((k for k in range(len(tests)) if region >> k & 1), len(tests)) for region in range(2 ** len(tests))]
    origins = tuple(tuple(sorted({int(r) for r, each in zip(rulers, outcomes) if each == skill})) for skill in distinct)
    kept = policy.kept
    if kept.planes and len(kept.planes) == policy.partition.num_planes:  # A list of states may be of several planes.
        tests = tuple(test._replace(keep=True) for test in tests)
    skills = tuple(skill._replace(keep=set(own) <= set(kept.skills)) for skill, own in zip(distinct, origins))
    book = Rulebook(vocabulary, tests, skills, tuple(first), termination=policy.termination)
    return Reading(book, origins, (), tuple(range(len(first))))


def _membership(states: Sequence[int]) -> Test:
    return Test(Sum({Term((s,)): 2.0 for s in states}, -1.0))


def checked_digits(field: str, digits: Any) -> int | None:
    if digits is not None and (type(digits) is not int or not 1 <= digits <= ALL_DIGITS):
        raise UserError(
            field, f"must be an integer from 1 to {ALL_DIGITS}", repr(digits), "leave it out to choose as few as do"
        )
    return digits


def rules_text(policy: ASAPPolicy, tasks: tuple[Task, ...], digits: int | None = None, is_exact: bool = False) -> str:
    """The rules of a policy for all regions, of all tasks or of one that is to be shown alone."""
    vocabulary, states = Vocabulary.of(tasks[0].spec, len(tasks[0].descriptor)), sample_states(policy, tasks[0])
    is_fixed = len(tasks) == 1 and not tasks[0].drawn and {policy.psi.task, policy.phi.task} != {"none"}
    sample = Sample.of({m: states for task in tasks for m in points_of(task)})
    fixed = tasks[0].descriptor if is_fixed else None
    found, *_ = read_rounded(policy, vocabulary, sample, digits, is_exact, fixed)
    numbers = [own[0] for own in found.skills]
    return "\n".join([*write_rules(found.book, planes=found.planes or None, numbers=numbers), ""])
