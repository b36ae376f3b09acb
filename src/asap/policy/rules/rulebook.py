"""The structure between a policy and its text: tests, skills, and which skill each region has.

Everything is in the units that people read: a variable is `scale * number + shift` of an observation's or a descriptor's
number. `Rulebook.policy` gives the policy back, so that what is printed is what is played.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from asap.base.errors import UserError
from asap.base.spec import ControlUnits, Spec, Unit
from asap.policy.features import Features, Fourier, Network, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy, Kept
from asap.policy.rules.sums import ONE, Sum, Term, Wave
from asap.policy.skills import GaussianSkills, GibbsSkills

NINETY = math.log(9)  # The margin at which a sigmoid is 90 %.
SHARP = 1e-6  # What stands for `within` where a test has none, relative to the largest term.
NEVER = -30.0  # Logarithm of the chance that stands for 0 %: policies hold finite numbers.
MOST_TESTS = 10  # There are 2^K regions.
SURE = 1e-3  # Deviation of a Gaussian skill that is given none, relative to the action's range.
MOST_FEATURES = 50_000


@dataclass(frozen=True)
class Vocabulary:
    """The names that rules may use, and what the numbers behind them mean."""

    observations: tuple[str, ...]
    actions: tuple[str, ...]
    descriptors: tuple[str, ...] = ()
    units: tuple[Unit, ...] = ()  # Of observations, then of descriptors; empty where numbers are as they are.
    action_bounds: ControlUnits | None = None  # Of actions that are numbers to set; None where one is chosen.
    numbered: bool = False  # Observations are states by their number.

    @classmethod
    def of(cls, spec: Spec, descriptor_size: int) -> "Vocabulary":
        count, names = len(spec.observation_names), spec.descriptor_names[:descriptor_size]
        names += tuple(f"m{z + 1}" for z in range(len(names), descriptor_size))
        own, theirs = spec.units or (Unit(),) * count, spec.descriptor_units[:descriptor_size]
        units = (*own, *theirs, *(Unit(),) * (descriptor_size - len(theirs)))
        bounds = ControlUnits.of_bounds(spec.action_low, spec.action_high) if spec.continuous else None
        return cls(spec.observation_names, spec.action_names, names, units, bounds, spec.numbered)

    @property
    def variables(self) -> tuple[str, ...]:
        return self.observations + self.descriptors

    @property
    def affine(self) -> tuple[Float[np.ndarray, "V"], Float[np.ndarray, "V"]]:
        """Scale and shift of every variable: what is read is scale * number + shift."""
        units = self.units or (Unit(),) * len(self.variables)
        return np.array([unit.scale for unit in units]), np.array([unit.shift for unit in units])

    def values(self, observations: Float[np.ndarray, "N O"], m: Float[np.ndarray, "N Z"]) -> Float[np.ndarray, "V N"]:
        """Of all variables, as they are read."""
        numbers = np.concatenate([np.asarray(observations, float).T, np.asarray(m, float).T])
        scale, shift = self.affine
        return scale[:, None] * numbers + shift[:, None]

    def unit_of(self, value: Sum) -> str:
        """That of a sum whose terms all are single variables of one unit; else none."""
        names = {self.units[v].name for term in value.terms for v in term.variables} if self.units else set()
        is_plain = all(len(term.variables) == 1 and term.wave is None and term.unit is None for term in value.terms)
        return names.pop() if is_plain and len(names) == 1 else ""


class Test(NamedTuple):
    """A hyperplane by its positive side: value > 0."""

    value: Sum
    within: float | None = None  # The value from which on its side has a chance of 90 %; None: sharp.
    keep: bool = False  # Learning leaves it as it is.

    @property
    def margin(self) -> Sum:
        """u of the paper: its sigmoid is the chance of the positive side."""
        within = SHARP * (self.value.largest or 1.0) if self.within is None else self.within
        return self.value.scaled(NINETY / within)


class Choice(NamedTuple):
    """One distribution over actions: some by name, what is left spread evenly over the others."""

    shares: tuple[tuple[int, float], ...]  # Action and probability, the likeliest first.
    keep: bool = False

    def probabilities(self, count: int) -> Float[np.ndarray, "A"]:
        named = dict(self.shares)
        rest = max(0.0, 1 - math.fsum(named.values())) / max(1, count - len(named))
        return np.array([named.get(action, rest) for action in range(count)])


class Either(NamedTuple):
    """One of two actions, by the side of a sum."""

    action: int
    other: int
    test: Test
    keep: bool = False


class Scores(NamedTuple):
    """The action of the largest sum; drawn, an action's chance is proportional to exp(sum)."""

    sums: tuple[Sum, ...]
    keep: bool = False
    only: tuple[int, ...] = ()  # The actions that can be the largest, where some can not.

    @classmethod
    def of(cls, listed: dict[int, Sum], count: int, keep: bool = False) -> "Scores":
        """Of some of `count` actions: each other one stays below the first of these, wherever the state is."""
        first = listed[min(listed)]
        never = first.plus(Sum({}, NEVER - abs(1e-3 * first.constant)))  # Numbers of 32 bits must tell them apart.
        only = tuple(sorted(listed)) if len(listed) < count else ()
        return cls(tuple(listed.get(action, never) for action in range(count)), keep, only)

    @property
    def listed(self) -> dict[int, Sum]:
        return {action: self.sums[action] for action in self.only or range(len(self.sums))}


class Controls(NamedTuple):
    """Numbers to set, in the environment's units: drawn around each sum, and kept within the bounds."""

    means: tuple[Sum, ...]
    deviations: tuple[float | None, ...]
    keep: bool = False


Skill = Choice | Either | Scores | Controls


class Rulebook(NamedTuple):
    vocabulary: Vocabulary
    tests: tuple[Test, ...]
    skills: tuple[Skill, ...]
    region_skills: tuple[int, ...]  # Of each of 2^K regions; bit k is set on the positive side of test k.
    names: tuple[str, ...] = ()  # Of skills, where the text names them; empty for those without.
    sum_names: tuple[str, ...] = ()  # Of the sums in tests, likewise.
    psi_network: Features | None = None  # Whose units are terms of tests,
    phi_network: Features | None = None  # and of skills.
    termination: float | None = None

    def with_regions(self, region_skills: Sequence[int]) -> "Rulebook":
        """Other skills of its regions, without those that have none then."""
        used = sorted(set(region_skills))
        return self._replace(
            skills=tuple(self.skills[s] for s in used),
            names=tuple(self.names[s] for s in used) if self.names else (),
            region_skills=tuple(used.index(s) for s in region_skills),
        )

    def act(
        self,
        values: Float[np.ndarray, "V N"],
        psi_units: Float[np.ndarray, "U N"] | None = None,
        phi_units: Float[np.ndarray, "W N"] | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """What somebody does who follows the rules by hand: skill and action, (N,), or (N, A) where numbers are set."""
        regions = sum(
            ((test.value.at(values, psi_units) > 0).astype(int) << k for k, test in enumerate(self.tests)),
            np.zeros(values.shape[1], int),
        )
        skills = np.asarray(self.region_skills)[regions]
        every = [np.array([value.at(values, phi_units) for value in self.sums_of(skill)]) for skill in self.skills]
        chosen = np.stack(every)[skills, :, np.arange(len(skills))]
        bounds = self.vocabulary.action_bounds
        return skills, chosen.argmax(1) if bounds is None else np.clip(chosen, bounds.low, bounds.high)

    def policy(self, shape: "Shape | None" = None) -> ASAPPolicy:
        """The policy that the rules are, with just the features that they need or with those of a shape."""
        shape = Shape() if shape is None else shape
        scale, shift = shape.affine(self.vocabulary)
        margins = [test.margin.substituted(scale, shift) for test in self.tests]
        psi = shape.features(margins, self.vocabulary, self.psi_network, max(1, shape.degree))
        beta = weights_on(psi, margins, self.vocabulary)
        named = tuple(self.region_skills)
        shared = None if named == tuple(range(len(named))) else named
        partition = Partition(np.float32(beta / shape.alpha_beta), np.float32(shape.alpha_beta), shared)
        phi, skills = self._skills(shape)
        planes, kept = (tuple(i for i, part in enumerate(parts) if part.keep) for parts in (self.tests, self.skills))
        return ASAPPolicy(partition, skills, psi, phi, self.termination, Kept(planes, kept))

    def _skills(self, shape: "Shape") -> tuple[Features, GibbsSkills | GaussianSkills]:
        (scale, shift), bounds = shape.affine(self.vocabulary), self.vocabulary.action_bounds
        every = [value.substituted(scale, shift) for skill in self.skills for value in self.sums_of(skill)]
        phi = shape.features(every, self.vocabulary, self.phi_network, int(shape.linear_skills))
        theta = weights_on(phi, every, self.vocabulary)
        theta = theta.reshape(len(self.skills), len(self.vocabulary.actions), -1)
        if bounds is None:
            return phi, GibbsSkills(np.float32(theta / shape.alpha_theta), np.float32(shape.alpha_theta))
        theta = theta / bounds.scale[:, None]
        theta[..., 0] -= bounds.shift / bounds.scale
        least = SURE * bounds.scale
        deviations = [[size if d is None else d for d, size in zip(s.deviations, least)] for s in self.skills]
        return phi, GaussianSkills(np.float32(theta), np.float32(np.log(np.array(deviations) / bounds.scale)))

    def sums_of(self, skill: Skill) -> tuple[Sum, ...]:
        """Logits, or means."""
        count = len(self.vocabulary.actions)
        match skill:
            case Choice():
                chances = skill.probabilities(count)
                logs = np.where(chances > 0, np.log(np.maximum(chances, 1e-13)), NEVER)
                return tuple(Sum({}, float(value)) for value in logs)
            case Either(action, other, test):
                half = test.margin.scaled(0.5)
                sums = {action: half, other: half.scaled(-1.0)}
                return tuple(sums.get(a, Sum({}, NEVER)) for a in range(count))
            case Scores(sums):
                return sums
            case Controls(means):
                return means


class Shape(NamedTuple):
    """What a policy has beside what its rules need: more inputs, features and sharpness to learn with."""

    inputs: tuple[int, ...] = ()  # Observations, beside those that occur.
    degree: int = 1  # Of products under the planes, at least.
    linear_skills: bool = False  # Skills have slopes, even where none is given.
    alpha_beta: float = 1.0
    alpha_theta: float = 1.0
    scaling: tuple[np.ndarray, np.ndarray] | None = None  # Shift and scale of each observation under the features.
    is_fixed: bool = False  # The scaling stays as it is.

    @classmethod
    def centred(cls, centre: Float[np.ndarray, "O"]) -> "Shape":
        """For observations near to a centre: the policy's weights have 32 bits, which hold 10,000.5 to 0.001."""
        return cls(scaling=(np.float32(centre).astype(float), np.ones(len(centre))))

    def affine(self, vocabulary: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
        """What is read, as scale * input + shift of the inputs of features."""
        scale, shift = vocabulary.affine
        if self.scaling is None:
            return scale, shift
        rest = np.zeros(len(vocabulary.descriptors))
        centre, own = np.concatenate([self.scaling[0], rest]), np.concatenate([self.scaling[1], rest + 1.0])
        return scale / own, shift + scale * centre

    def features(self, sums: Sequence[Sum], vocabulary: Vocabulary, network: Features | None, degree: int) -> Features:
        """The smallest feature map that has all terms and these."""
        terms = {_as_feature(term) for value in sums for term in value.terms}
        if any(term.unit is not None for term in terms):
            return network
        count = len(vocabulary.observations)
        factors = [tuple(v for v in term.variables if v < count) for term in terms]
        used = {v for each in factors for v in each} | {v for t in terms if t.wave for v, _ in t.wave.frequencies}
        used = tuple(sorted(used | set(self.inputs))) or (0,)
        task = _task_features(terms, count)
        waves = sorted({term.wave for term in terms if term.wave is not None})
        if waves:
            if any(factors):
                what = "a wave beside an observation: features are waves or products, not both"
                raise UserError("rules", what, cure="write all of them as one kind")
            frequencies = np.array([[dict(wave.frequencies).get(v, 0.0) for v in used] for wave in waves])
            phases = np.float32([wave.phase for wave in waves])
            basis = Fourier(np.float32(frequencies), True, phases if phases.any() or self.scaling else None)
        else:
            basis = Polynomial(max([degree, int(task != "none"), *(len(each) for each in factors)]))
            size = math.comb(len(used) + basis.degree, basis.degree) * (1 + len(vocabulary.descriptors))
            if size > MOST_FEATURES:
                what = (
                    f"products of {basis.degree} of {len(used)} observations are more than {MOST_FEATURES:,} features"
                )
                raise UserError("rules", what, cure="use lower powers, or fewer observations")
        features = Features.of(basis, used, task)
        if self.scaling is None or features.constant:
            return features
        shift, scale = (np.float32(part)[list(used)] for part in self.scaling)
        return dataclasses.replace(features, shift=shift, scale=scale, is_fixed=self.is_fixed)


def _task_features(terms: Iterable[Term], count: int) -> str:
    """How the descriptor enters: not at all, by sums, or by products."""
    descriptors = [(term, sum(v >= count for v in term.variables)) for term in terms]
    most = max((number for _, number in descriptors), default=0)
    if most > 1:
        raise UserError("rules", "a product of two numbers of the task", cure="one in each product")
    if not most:
        return "none"
    is_alone = all(len(term.variables) == 1 and term.wave is None for term, number in descriptors if number)
    return "additive" if is_alone else "interactions"


def terms_of(features: Features, vocabulary: Vocabulary) -> list[Term]:
    """The term that each feature is, of the scaled inputs."""
    count, inputs = len(vocabulary.observations), features.inputs
    match features.basis:
        case Polynomial():
            base = [Term(tuple(sorted(inputs[j] for j in term))) for term in features.basis.terms(len(inputs))]
        case Fourier(frequencies=frequencies, bias=bias, phases=phases):
            offsets = np.zeros(len(frequencies)) if phases is None else np.asarray(phases, float)
            rows = np.asarray(frequencies, float)
            waves = [
                Wave(tuple(sorted((inputs[j], a) for j, a in enumerate(row.tolist()) if a)), float(p))
                for row, p in zip(rows, offsets)
            ]
            base = [ONE] * bias + [Term(wave=wave) for wave in waves]
        case Network(biases=biases):
            base = [ONE, *(Term(unit=u) for u in range(biases[-1].shape[-1]))]
    numbers = range(count, count + len(vocabulary.descriptors))
    if features.task == "additive":
        return base + [Term((number,)) for number in numbers]
    if features.task == "interactions":
        return base + [term.times(number) for number in numbers for term in base]
    return base


def weights_on(features: Features, sums: Sequence[Sum], vocabulary: Vocabulary) -> Float[np.ndarray, "S F"]:
    """The weights with which the features are these sums."""
    places = {_as_feature(term): place for place, term in enumerate(terms_of(features, vocabulary))}
    weights = np.zeros((len(sums), features.size(len(vocabulary.descriptors))))
    for row, value in zip(weights, sums):
        for term, c in value.items:
            if c:
                row[places[_as_feature(term)]] += c
    return weights


def _as_feature(term: Term) -> Term:
    """With numbers of 32 bits in its wave, as feature maps have them: so it is found again among them."""
    if term.wave is None:
        return term
    frequencies = ((v, float(np.float32(f))) for v, f in term.wave.frequencies)
    return term._replace(wave=Wave(tuple((v, f) for v, f in frequencies if f), float(np.float32(term.wave.phase))))
