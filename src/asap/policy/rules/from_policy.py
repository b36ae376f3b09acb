"""A policy as a rulebook: its numbers multiplied out into the units that people read, and rounded.

Rounding slopes turns a plane about the origin, which may be far from all states. So the constant makes up for it at the
mean of the states of a sample, and has as many digits as the sum needs that it is compared with.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from asap.base.errors import UserError
from asap.base.spec import Task
from asap.policy.features import Features, Network
from asap.policy.partition import region_bits
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import actions_at, regions_at, states_in_bounds, usual_states
from asap.policy.rules.rulebook import (
    MOST_TESTS,
    NINETY,
    Choice,
    Controls,
    Either,
    Rulebook,
    Scores,
    Skill,
    Test,
    Vocabulary,
    terms_of,
)
from asap.policy.rules.sums import Sum, Term, term_at
from asap.policy.skills import GaussianSkills

DIGITS = 2
MOST_DIGITS = 8
SAME = 0.999  # Share of the states in which rounded numbers must give the same action.
CLOSE = 0.01  # Of an action's range: numbers to set that are as near count as the same.
MOST_STATES = 4096
MOST_DECIMALS = 12
ALL_DIGITS = 17  # Of a float of 64 bits.


class Sample(NamedTuple):
    """States that numbers are rounded for: what differs only elsewhere does not count."""

    observations: Float[np.ndarray, "N O"]
    m: Float[np.ndarray, "N Z"]  # Descriptors of their tasks.

    @classmethod
    def of(cls, states: dict[tuple[float, ...], Float[np.ndarray, "n O"]]) -> "Sample":
        """States by the descriptor of their task."""
        descriptors = [np.tile(np.asarray(m, float), (len(x), 1)) for m, x in states.items()]
        return cls(np.concatenate([np.asarray(x, float) for x in states.values()]), np.concatenate(descriptors))


class Reading(NamedTuple):
    """A rulebook, and where its parts come from."""

    book: Rulebook
    skills: tuple[tuple[int, ...], ...]  # The policy's skills that each of the book's stands for.
    planes: tuple[int, ...]  # The policy's plane that each test is.
    regions: tuple[int, ...]  # The policy's region that each of the book's is.
    units: tuple[np.ndarray | None, np.ndarray | None] = (None, None)  # Of networks, at the states of the sample.


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
    psi, phi = (_Reader(features, vocabulary, sample, fixed) for features in (policy.psi, policy.phi))
    planes = [_test(psi.sum(row), psi, digits) for row in rows]
    every = _skills(policy, phi, vocabulary, digits, decimals)
    kept = [k for k, (test, _) in enumerate(planes) if test.value.terms]
    distinct: list[Skill] = []
    for skill in every:
        if skill not in distinct:
            distinct.append(skill)
    regions, region_skills = [], []
    for bits in np.asarray(region_bits(len(kept))):
        region = sum(_fixed_bit(*planes[k]) << k for k in range(len(planes)) if k not in kept)
        region += sum(int(bool(bits[i]) != planes[k][1]) << k for i, k in enumerate(kept))
        regions.append(region)
        region_skills.append(distinct.index(every[policy.partition.skill_of_region[region]]))
    book = Rulebook(
        vocabulary,
        tuple(planes[k][0] for k in kept),
        tuple(distinct),
        tuple(region_skills),
        psi_network=_network(policy.psi, fixed),
        phi_network=_network(policy.phi, fixed),
        termination=policy.termination,
    )
    origins = tuple(tuple(s for s, skill in enumerate(every) if skill == each) for each in distinct)
    return Reading(book, origins, tuple(kept), tuple(regions), (psi.units, phi.units))


def _fixed_bit(test: Test, is_flipped: bool) -> int:
    """The side of a plane without slopes: the likelier one, everywhere."""
    return int((test.value.constant > 0) != is_flipped)


class _Reader:
    """Weights on features become sums in the units that people read."""

    def __init__(self, features: Features, vocabulary: Vocabulary, sample: Sample, fixed: tuple[float, ...] | None):
        self.terms = terms_of(features, vocabulary)
        count = len(vocabulary.observations)
        scale, shift = vocabulary.affine
        self._scale, self._shift = 1 / scale, -shift / scale
        inputs = list(features.inputs)
        own, centre = np.asarray(features.scale, float), np.asarray(features.shift, float)
        self._scale[inputs] *= own
        self._shift[inputs] = own * (self._shift[inputs] - centre)
        if fixed is not None:
            self._scale[count:], self._shift[count:] = 0.0, np.asarray(fixed, float)
        self._values = vocabulary.values(sample.observations, sample.m)
        self.units = None
        if isinstance(features.basis, Network):
            scaled = (np.asarray(sample.observations, float)[:, inputs] - centre) * own
            self.units = np.asarray(features.basis(jnp.asarray(scaled.T, jnp.float32)), float)[1:]
        self._statistics: dict[Term, tuple[float, float]] = {}

    def sum(self, weights: Float[np.ndarray, "F"]) -> Sum:
        return Sum.of(zip(self.terms, weights.tolist())).substituted(self._scale, self._shift)

    def statistics(self, term: Term) -> tuple[float, float]:
        """Mean and deviation over the sample."""
        if term not in self._statistics:
            values = term_at(term, self._values, self.units)
            self._statistics[term] = float(values.mean()), float(values.std())
        return self._statistics[term]

    def rounded(self, value: Sum, digits: int | None) -> Sum:
        """With terms in the order of what they contribute; those that contribute next to nothing become constants."""
        shares = {term: abs(c) * self.statistics(term)[1] for term, c in value.terms.items()}
        order = sorted(value.terms, key=lambda term: (-shares[term], term.variables))
        if digits is None:
            return Sum({term: value.terms[term] for term in order}, value.constant)
        largest = max(shares.values(), default=0.0)
        slopes = {
            term: significant(value.terms[term], digits)
            for term in order
            if shares[term] == 0 or shares[term] >= largest * 10.0 ** -(digits + 1)
        }
        errors = (((c - slopes.get(term, 0.0)) * self.statistics(term)[0]) for term, c in value.terms.items())
        constant = value.constant + math.fsum(errors)
        return Sum(slopes, _like(math.hypot(*shares.values()), constant, digits))


def _test(margin: Sum, reader: _Reader, digits: int | None) -> tuple[Test, bool]:
    """Its largest coefficient is 1 and its first term positive: which side it is for is easily said, two minus signs
    easily missed. Also whether that turned it round."""
    length = margin.largest or 1.0
    value = reader.rounded(margin.scaled(1 / length), digits)
    is_flipped = next(iter(value.terms.values()), 1.0) < 0
    if is_flipped:
        value = value.scaled(-1.0)
    return Test(value, significant(NINETY / length, ALL_DIGITS if digits is None else digits)), is_flipped


def _skills(policy: ASAPPolicy, phi: _Reader, vocabulary: Vocabulary, digits: int | None, decimals: int) -> list[Skill]:
    theta = np.asarray(policy.skills.theta, float)
    if isinstance(policy.skills, GaussianSkills):
        deviations = np.exp(np.asarray(policy.skills.log_std, float))
        return [_controls(rows, spread, phi, vocabulary, digits) for rows, spread in zip(theta, deviations)]
    theta = float(policy.skills.alpha_theta) * (
        theta - theta.mean(1, keepdims=True)
    )  # The mean cancels in the softmax.
    return [_gibbs([phi.sum(row) for row in rows], phi, digits, decimals) for rows in theta]


def _gibbs(logits: list[Sum], phi: _Reader, digits: int | None, decimals: int) -> Skill:
    if not any(value.terms for value in logits):
        scores = np.array([value.constant for value in logits])
        chances = np.exp(scores - scores.max())
        return choice(chances / chances.sum(), decimals)
    if len(logits) == 2:
        test, is_flipped = _test(logits[1].plus(logits[0], -1.0), phi, digits)
        return Either(int(not is_flipped), int(is_flipped), test)
    return Scores(tuple(phi.rounded(value, digits) for value in logits))


def _controls(
    rows: np.ndarray, spread: np.ndarray, phi: _Reader, vocabulary: Vocabulary, digits: int | None
) -> Controls:
    bounds = vocabulary.action_bounds
    means = [
        phi.rounded(phi.sum(row).scaled(scale).plus(Sum({}, shift)), digits)
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
    """A list of the states of each skill; where skills weigh states, of each action. The last has all other states."""
    states = np.eye(len(vocabulary.observations), dtype=np.float32)
    m = sample.m[:1].ravel()
    rulers = np.array([skill_at(policy, margins) for margins in regions_at(policy, states, m).margins])
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
    book = Rulebook(vocabulary, tests, tuple(distinct), tuple(first), termination=policy.termination)
    return Reading(book, origins, (), tuple(range(len(first))))


def _membership(states: Sequence[int]) -> Test:
    return Test(Sum({Term((s,)): 2.0 for s in states}, -1.0))


def skill_at(policy: ASAPPolicy, margins: Float[np.ndarray, "K"]) -> int:
    """The skill of the likeliest region."""
    return int(policy.partition.skill_of_region[int((margins > 0) @ (1 << np.arange(len(margins))))])


def _network(features: Features, fixed: tuple[float, ...] | None) -> Features | None:
    if not isinstance(features.basis, Network):
        return None
    return features if fixed is None else dataclasses.replace(features, task="none")


def checked_digits(field: str, digits: int | None) -> int | None:
    if digits is not None and (type(digits) is not int or not 1 <= digits <= ALL_DIGITS):
        raise UserError(
            field, f"must be an integer from 1 to {ALL_DIGITS}", repr(digits), "leave it out to choose as few as do"
        )
    return digits


def significant(value: float, digits: int) -> float:
    return float(f"{value:.{digits - 1}e}")


def _like(size: float, value: float, digits: int) -> float:
    """The value to within a share of the size that is at least as small as for the size to so many digits."""
    if size == 0:
        return significant(value, digits)
    return round(float(value), digits - math.floor(math.log10(size)))
