"""What is printed of a policy is read back as that policy, for every kind of features, skills, units and scaling.

Nothing is compiled here: policies are played by NumPy, on the host.
"""

import itertools
import math

import numpy as np
import pytest
from test_rules_reading import CARTPOLE

from asap.base.spec import ControlUnits, Unit
from asap.envs.catalog import find
from asap.policy.build import plan_of
from asap.policy.features import Features, Fourier, Polynomial
from asap.policy.host import Player
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.cases import possible_regions
from asap.policy.rules.from_policy import ALL_DIGITS, Sample, read_rounded
from asap.policy.rules.from_policy import rules_text as rules
from asap.policy.rules.read import read_rules
from asap.policy.rules.rulebook import Shape, Vocabulary
from asap.policy.rules.write import write_rules
from asap.policy.skills import GaussianSkills, GibbsSkills

NAMES = ("x", "pole angle", "speed of sound", "4th number", "a-b", "height")
NUM_STATES, SAME = 1000, 0.999


class Drawn:
    """One policy, the words for it, and states to try it on."""

    def __init__(self, seed: int, num_states: int = NUM_STATES):
        rng = self.rng = np.random.default_rng(seed)
        self.num_observations = int(rng.integers(2, 5))
        self.is_box = bool(rng.random() < 0.35)
        num_tasks, num_planes = int(rng.integers(0, 3)), int(rng.integers(0, 5))
        basis = rng.choice(["linear", "linear", "polynomial", "fourier"])
        skills = rng.choice(["constant", "linear"])
        has_descriptor = num_tasks > 0 and rng.random() < 0.7
        self.task = str(rng.choice(["additive", "interactions"])) if has_descriptor else "none"
        self.descriptors = np.float32(rng.normal(size=(max(1, num_tasks), 2 if has_descriptor else 0)))
        # Far from 0 beside their spread, or not. Squares there need more digits than are worth printing.
        is_far = basis == "linear" and rng.random() < 0.4
        spread = 10.0 ** rng.uniform(-2, 2, self.num_observations)
        mean = spread * rng.normal(size=self.num_observations) * (1000 if is_far else 1)
        self._mean, self._spread = mean, spread
        self.states, self.fresh = self.drawn_states(num_states), self.drawn_states(num_states)
        shift, scale = (np.float32(mean), np.float32(1 / spread)) if rng.random() < 0.7 or is_far else (None, None)
        psi = self._features(basis, self.task, shift, scale)
        phi = self._features("constant" if skills == "constant" else "linear", "none", shift, scale)
        self.vocabulary = self._vocabulary()
        beta = rng.normal(size=(num_planes, psi.size(self.descriptors.shape[1])))
        sharpness = 10.0 ** rng.uniform(-0.5, 2)
        region_skills = None
        num_skills = 2**num_planes
        if num_planes and rng.random() < 0.4:
            num_skills = int(rng.integers(1, num_skills + 1))
            shared = [*range(num_skills), *rng.integers(0, num_skills, 2**num_planes - num_skills)]
            region_skills = tuple(int(s) for s in rng.permutation(shared))
        shape = (num_skills, len(self.vocabulary.actions), phi.size(0))
        theta = np.float32(rng.normal(size=shape) * (0.5 if self.is_box else 2.0))
        if self.is_box:
            own = GaussianSkills(theta, np.float32(rng.normal(size=shape[:2]) - 1))
        else:
            own = GibbsSkills(theta, np.float32(rng.uniform(0.5, 2)))
        partition = Partition(np.float32(beta), np.float32(sharpness), region_skills)
        self.policy = ASAPPolicy(partition, own, psi, phi)

    def drawn_states(self, count: int) -> np.ndarray:
        states = self._mean + self._spread * self.rng.normal(size=(count, self.num_observations))
        return np.float32(states).astype(float)

    def _features(self, basis: str, task: str, shift, scale) -> Features:
        rng = self.rng
        if basis == "constant":
            return Features.of(Polynomial(0), (0,))
        inputs = tuple(int(i) for i in np.sort(rng.permutation(self.num_observations)[: rng.integers(1, 4)]))
        if basis == "fourier":
            frequencies = np.float32(rng.integers(-2, 3, size=(3, len(inputs)))) * np.float32(0.5)
            frequencies[:, 0] += frequencies[:, 0] == 0
            phases = np.float32(rng.uniform(-1, 1, 3)) if rng.random() < 0.5 else None
            made = Fourier(frequencies, bool(rng.random() < 0.5), phases)
        else:
            made = Polynomial(2 if basis == "polynomial" else 1)
        count = len(inputs)
        own_shift = np.zeros(count, np.float32) if shift is None else shift[list(inputs)]
        # Without scaling, waves and squares of large numbers would be no features that anybody uses.
        own_scale = np.float32(1 / self._spread[list(inputs)]) if scale is None else scale[list(inputs)]
        return Features(made, own_shift, own_scale, inputs, task)

    def _vocabulary(self) -> Vocabulary:
        rng, count = self.rng, self.num_observations
        observations = tuple(str(name) for name in rng.permutation(NAMES)[:count])
        descriptors = ("goal x", "goal y") if self.descriptors.shape[1] else ()
        units = ()
        if rng.random() < 0.5:
            units = tuple(
                Unit(str(rng.choice(["", "m", "m/s", "deg"])), float(rng.choice([0.5, 57.3, 2.0])), float(rng.normal()))
                for _ in range(count + len(descriptors))
            )
        if not self.is_box:
            actions = ("push left", "push right", "do nothing", "fire: main")[: rng.integers(2, 5)]
            return Vocabulary(observations, actions, descriptors, units)
        actions = ("torque", "steer-by", "lift")[: rng.integers(1, 4)]
        low = [-2.0, 0.0, -np.inf][: len(actions)]
        high = [2.0, 10.0, np.inf][: len(actions)]
        return Vocabulary(observations, actions, descriptors, units, ControlUnits.of_bounds(low, high))

    @property
    def sample(self) -> Sample:
        return self.sample_of(self.states)

    def sample_of(self, states: np.ndarray) -> Sample:
        which = np.arange(len(states)) % len(self.descriptors)
        return Sample(states, self.descriptors[which].astype(float))


def expanded(features: Features, states: np.ndarray, m: np.ndarray) -> np.ndarray:
    """Of all states at once, (F, N), by the definition of the features and with numbers of 64 bits."""
    inputs, basis = list(features.inputs), features.basis
    z = ((states[:, inputs] - np.asarray(features.shift, float)) * np.asarray(features.scale, float)).T
    one = np.ones((1, len(states)))
    if isinstance(basis, Fourier):
        phases = 0.0 if basis.phases is None else np.asarray(basis.phases, float)[:, None]
        waves = np.sin(math.pi * (np.asarray(basis.frequencies, float) @ z + phases))
        rows = np.concatenate([one, waves]) if basis.bias else waves
    else:
        products = (itertools.combinations_with_replacement(range(len(z)), d) for d in range(basis.degree + 1))
        rows = np.array([np.prod(z[list(term)], axis=0) if term else one[0] for d in products for term in d])
    if features.task == "additive":
        return np.concatenate([rows, m.T])
    if features.task == "interactions":
        return np.concatenate([rows, *(rows * m[:, z] for z in range(m.shape[1]))])
    return rows


def chances(policy: ASAPPolicy, states: np.ndarray, m: np.ndarray):
    """Of skills, and of the actions of each (or means); the action of whoever is sure, and the margins of the planes."""
    psi, phi = expanded(policy.psi, states, m), expanded(policy.phi, states, m)
    margins = float(policy.partition.alpha_beta) * np.asarray(policy.partition.beta, float) @ psi
    num_planes = len(margins)
    bits = (np.arange(2**num_planes)[:, None] >> np.arange(num_planes)) & 1
    logs = -np.logaddexp(0, -np.where(bits[..., None] == 1, 1.0, -1.0) * margins[None]).sum(1)
    of_region = policy.partition.skill_of_region
    skills = np.zeros((policy.num_skills, len(states)))
    np.add.at(skills, of_region, np.exp(logs))
    sure = of_region[((margins > 0).T @ (1 << np.arange(num_planes))).astype(int)]
    is_box = isinstance(policy.skills, GaussianSkills)
    scores = np.asarray(policy.skills.theta, float) @ phi * (1.0 if is_box else float(policy.skills.alpha_theta))
    chosen = scores[sure, :, np.arange(len(states))]
    if is_box:
        return skills, scores, chosen, margins
    sigma = np.exp(scores - scores.max(1, keepdims=True))
    return skills, sigma / sigma.sum(1, keepdims=True), chosen.argmax(1), margins


def agreement(drawn: Drawn, one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Where the actions are the same: numbers to set, to a hundredth of their range."""
    bounds = drawn.vocabulary.action_bounds
    if bounds is None:
        return one == other
    return (np.abs(bounds.theirs(one) - bounds.theirs(other)) <= 0.0101 * bounds.scale).all(-1)


def written(drawn: Drawn, **how) -> tuple:
    reading, digits, share = read_rounded(drawn.policy, drawn.vocabulary, drawn.sample, **how)
    return reading, digits, share, "\n".join(write_rules(reading.book))


def check_rounded(drawn: Drawn) -> tuple[int, int]:
    """Returns in how many fresh states the action is the same, and of how many."""
    reading, digits, share, text = written(drawn)
    assert share >= SAME, (digits, share, text)
    rules = read_rules(text, drawn.vocabulary)
    assert rules.warnings == () and rules.uncovered == ()
    # The rounded book, read back, does the same as it did; and nearly the same as the policy.
    values = drawn.vocabulary.values(*drawn.sample)
    (
        _,
        meant,
    ) = reading.book.act(values)
    _, said = rules.book.act(values)
    np.testing.assert_allclose(said, meant, rtol=1e-9, atol=1e-9)
    _, _, original, _ = chances(drawn.policy, *drawn.sample)
    again = rules.book.policy(Shape.centred(drawn.states.mean(0)))
    _, _, played, _ = chances(again, *drawn.sample)
    assert agreement(drawn, played, original).mean() >= SAME, text
    check_lines(text, reading)
    check_stable(text, reading, rules)
    fresh = drawn.sample_of(drawn.fresh)
    same = agreement(drawn, chances(again, *fresh)[2], chances(drawn.policy, *fresh)[2])
    return int(same.sum()), len(same)


def check_lines(text: str, reading) -> None:
    """Never more cases than regions: each begins on a line of its own, and others go on, list actions, or give names."""
    starts = [line for line in text.splitlines() if line.startswith(("if ", "otherwise"))]
    regions = possible_regions([test.value for test in reading.book.tests])
    assert len(starts) <= max(1, len(regions))


def check_stable(text: str, reading, rules) -> None:
    """Writing is a function of the book; what is read and written again is the same text."""
    assert "\n".join(write_rules(reading.book)) == text
    again = "\n".join(write_rules(rules.book))
    assert again == text, f"{text}\n--\n{again}"


def check_exact(drawn: Drawn) -> None:
    reading, digits, _, text = written(drawn, is_exact=True)
    assert digits == ALL_DIGITS
    rules = read_rules(text, drawn.vocabulary)
    sample = drawn.sample
    skills, actions, original, margins = chances(drawn.policy, *sample)
    _, said = rules.book.act(drawn.vocabulary.values(*sample))
    bounds = drawn.vocabulary.action_bounds
    # Numbers of 64 bits in other units: what is nearer to a plane than their last digits may fall to either side.
    is_clear = (np.abs(margins) > 1e-9 * np.abs(margins).mean(1, keepdims=True)).all(0)
    assert is_clear.mean() > 0.999
    if bounds is None:
        assert (said == original)[is_clear].all(), text
    else:
        np.testing.assert_allclose(said[is_clear], bounds.theirs(original)[is_clear], rtol=1e-6, atol=1e-6)
    again = rules.book.policy(Shape.centred(sample.observations.mean(0)))
    new_skills, new_actions, played, _ = chances(again, *sample)
    is_clear = (np.abs(margins) > 1e-4).all(0)
    assert agreement(drawn, played, original)[is_clear].all(), text
    check_probabilities(drawn, reading, rules, (skills, actions), (new_skills, new_actions))


def check_probabilities(drawn: Drawn, reading, rules, before, after, tolerance: float = 2e-3) -> None:
    """Of each skill that is said, by what it does; where all sides of all planes occur."""
    tests = [test.value for test in reading.book.tests]
    if len(possible_regions(tests)) < 2 ** len(tests) or len(tests) < drawn.policy.partition.num_planes:
        return
    weighed = [np.einsum("sn,san->an", skills, actions) for skills, actions in (before, after)]
    if drawn.vocabulary.action_bounds is None:
        np.testing.assert_allclose(weighed[1], weighed[0], atol=tolerance)
    origins = [sum(before[0][s] for s in own) for own in reading.skills]
    used = sorted(set(reading.book.region_skills))
    assert len(rules.book.skills) == len(used)
    found = sorted(np.round(row.mean(), 3) for row in after[0])
    np.testing.assert_allclose(found, sorted(np.round(origins[s].mean(), 3) for s in used), atol=2e-3)


SEEDS = range(100)


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_a_rounded_policy_is_read_back(first):
    counts = np.array([check_rounded(Drawn(seed)) for seed in SEEDS[first : first + 20]])
    assert counts[:, 0].sum() >= 0.998 * counts[:, 1].sum()  # In states for which nothing was rounded.


@pytest.mark.parametrize("first", range(0, 100, 20))
def test_a_policy_with_all_digits_is_read_back_exactly(first):
    for seed in SEEDS[first : first + 20]:
        check_exact(Drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 1100, 50))
def test_a_thousand_policies_are_read_back(first):
    counts = []
    for seed in range(first, first + 50):
        drawn = Drawn(seed, 10_000)
        counts.append(check_rounded(drawn))
        check_exact(drawn)
    counts = np.array(counts)
    assert counts[:, 0].sum() >= 0.999 * counts[:, 1].sum()


def test_the_policies_are_of_every_kind():
    drawn = [Drawn(seed) for seed in SEEDS]
    kinds = {
        (d.is_box, type(d.policy.psi.basis).__name__, d.policy.phi.constant, d.policy.partition.region_skills is None)
        for d in drawn
    }
    assert len(kinds) >= 15
    assert {d.policy.partition.num_planes for d in drawn} == {0, 1, 2, 3, 4}
    assert {d.policy.psi.task for d in drawn} == {"none", "additive", "interactions"}
    assert {d.policy.psi.basis.degree for d in drawn if isinstance(d.policy.psi.basis, Polynomial)} == {1, 2}
    assert {bool(d.vocabulary.units) for d in drawn} == {True, False}
    assert max(np.max(np.abs(d.states.mean(0)) / d.states.std(0)) for d in drawn) > 1000


def test_the_host_plays_the_same():
    """What these tests compute of all states at once is what is played."""
    for seed in SEEDS[:20]:
        drawn = Drawn(seed, 20)
        player = Player(plan_of(drawn.policy, drawn.num_observations, drawn.descriptors))
        sample = drawn.sample
        for n, action in enumerate(chances(drawn.policy, *sample)[2]):
            played = player.act(sample.observations[n], task=n % len(drawn.descriptors))[1]
            np.testing.assert_allclose(played, action, rtol=1e-9, atol=1e-9)


# ---- What the library writes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [("two-rooms",), ("two-rooms", "flipped-two-rooms"), ("three-rooms",), ("striker-r1",)]
)
@pytest.mark.parametrize("is_exact", [False, True])
def test_rules_of_our_own_tasks(names, is_exact):
    """With units, and a descriptor that is put in where there is one task, and stays a name where there are several."""
    tasks = tuple(find(name) for name in names)
    spec, size = tasks[0].spec, len(tasks[0].descriptor)
    rng = np.random.default_rng(3)
    count = len(spec.observation_names)
    psi = Features.of(Polynomial(1), (0, 1), "interactions" if size else "none")
    beta = np.float32(rng.normal(size=(2, psi.size(size))))
    theta = np.float32(rng.normal(size=(4, spec.num_actions, 1)))
    policy = ASAPPolicy(
        Partition(beta, np.float32(5)), GibbsSkills(theta, np.float32(2)), psi, Features.of(Polynomial(0), (0,))
    )
    text = rules(policy, tasks, None, is_exact)
    vocabulary = Vocabulary.of(spec, size)
    book = read_rules(text, vocabulary).book
    states = rng.uniform(np.maximum(spec.observation_low, -1), np.minimum(spec.observation_high, 1), (2000, count))
    for task in tasks:
        m = np.tile(np.asarray(task.descriptor, float), (len(states), 1))
        said, original = book.act(vocabulary.values(states, m))[1], chances(policy, states, m)[2]
        assert (said == original).mean() >= (1.0 if is_exact else 0.98), text


@pytest.mark.parametrize("seed", range(20))
def test_numbered_states_are_read_back(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(4, 30))
    names = tuple(f"row {s // 5} column {s % 5}" if seed % 2 else f"state {s}" for s in range(count))
    vocabulary = Vocabulary(names, ("left", "right", "up", "the other"), numbered=True)
    psi = Features.of(Polynomial(1), tuple(range(count)))
    planes = seed % 4
    theta = np.float32(rng.normal(size=(2**planes, 4, 1)))
    beta = np.float32(rng.normal(size=(planes, 1 + count)))
    policy = ASAPPolicy(
        Partition(beta, np.float32(5)), GibbsSkills(theta, np.float32(2)), psi, Features.of(Polynomial(0), (0,))
    )
    sample = Sample(np.eye(count), np.zeros((count, 0)))
    reading, *_ = read_rounded(policy, vocabulary, sample)
    text = "\n".join(write_rules(reading.book))
    found = read_rules(text, vocabulary)
    assert found.warnings == ()
    assert (found.book.act(vocabulary.values(*sample))[1] == chances(policy, *sample)[2]).all(), text
    assert (chances(found.book.policy(), *sample)[2] == chances(policy, *sample)[2]).all()
    assert "\n".join(write_rules(found.book)) == text


def test_names_and_notes_that_a_person_gave_stay():
    text = """lean = pole angle + 0.2*pole angular velocity
strong: push right (95 %)
if lean > 0.01 within 0.05 and cart position < 2 then strong
if lean > 0.01 then strong [keep]
otherwise push left (90 %)"""
    lines = write_rules(read_rules(text, CARTPOLE).book)
    assert lines == [
        "strong: push right (95 %) [keep]",
        "if pole angle + 0.2*pole angular velocity > 0.01 within 0.05 then strong",
        "otherwise push left (90 %)",
    ]
    two = text.replace("if lean > 0.01 then strong [keep]", "if lean > 0.01 then push left (60 %)")
    lines = write_rules(read_rules(two, CARTPOLE).book)
    assert lines[0] == "lean = pole angle + 0.2*pole angular velocity" and "strong: push right (95 %)" in lines
    assert write_rules(read_rules("\n".join(lines), CARTPOLE).book) == lines
