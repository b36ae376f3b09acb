"""Promise: whoever follows the printed rules by hand plays the printed policy, and that is close to what was learned.

The rules are followed by `printed_rules`, which shares no code with the package.
"""

import dataclasses
import functools
import itertools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_task import Plain
from printed_rules import Printed

from asap.base.errors import UserError
from asap.base.spec import ControlUnits, Spec
from asap.envs.catalog import find
from asap.policy.build import plan_of
from asap.policy.features import Features, Fourier, Network, Polynomial
from asap.policy.host import Player
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.rules import rulebook
from asap.policy.rules.from_policy import choice
from asap.policy.rules.rulebook import Choice, Rulebook, Vocabulary
from asap.policy.rules.sums import Sum, Term
from asap.policy.skills import GaussianSkills, GibbsSkills
from asap.show.words.explain import explain

NUM_STATES = 1000
NAMES = ("pole angle", "pole angular velocity", "speed", "speed limit")  # Some are parts of others.
MEANS = np.float32([0.5, -1.0, 0.02, 300.0])  # The last is a hundred deviations away from 0.
DEVIATIONS = np.float32([0.4, 2.0, 0.05, 3.0])
ACTIONS = {2: ("push left", "push right"), 4: ("up", "down", "do nothing", "fire")}
ENDLESS = (np.inf,) * 4
SPEC = Spec(NAMES, tuple(-x for x in ENDLESS), ENDLESS, ACTIONS[4], 500, 0.99, descriptor_names=("goal height", "door"))
CONTROLS = dataclasses.replace(
    SPEC, action_names=("torque", "heat"), continuous=True, action_low=(0.0, -2.0), action_high=(10.0, 2.0)
)
DESCRIPTORS = ((0.8, -1.5), (-0.4, 0.6))


def task(spec=SPEC, descriptor=(), name="plain"):
    return Plain(name, spec, descriptor, is_scaled=True)


def scaled(basis, joined="none"):
    return dataclasses.replace(Features.of(basis, (0, 1, 2, 3), joined), shift=MEANS, scale=1 / DEVIATIONS)


def network(*sizes):
    drawn = Network.drawn((4, *sizes), np.random.default_rng(0))
    return dataclasses.replace(drawn, biases=tuple(np.full_like(b, 0.3) for b in drawn.biases))


WAVES = np.float32([[0.3, 0.1, 0, 0], [0, 0.2, -0.3, 0], [0, 0, 0, 0.4], [0.1, 0.1, 0.2, 0.2]])
BASES = {
    "linear": Polynomial(1),
    "quadratic": Polynomial(2),
    "waves": Fourier(WAVES, True),
    "waves without bias": Fourier(WAVES, False),
    "waves with phases": Fourier(WAVES, True, np.float32([0.1, -0.7, 0.25, 0.5])),
    "network": network(6),
    "deep network": network(3, 4),
}
SHARED = (0, 1, 1, 2, 0, 2, 2, 1)


def policy_of(kind="linear", skills="constant", planes=1, actions=4, joined="none", shared=None, seed=0, alpha=2.0):
    """Random, on the scaled inputs; a descriptor of two numbers where it is joined."""
    generator, size = np.random.default_rng(seed), 0 if joined == "none" else 2
    psi = scaled(BASES[kind], joined)
    phi = Features.of(Polynomial(0), (0,)) if skills == "constant" else psi
    count = 2**planes if shared is None else 1 + max(shared)
    theta = generator.normal(size=(count, 2 if skills == "gaussian" else actions, phi.size(size)))
    if skills == "gaussian":
        made = GaussianSkills(jnp.float32(theta), jnp.float32(generator.normal(-1, 0.3, (count, 2))))
    else:
        made = GibbsSkills(jnp.float32(2 * theta), jnp.float32(1.5))
    beta = jnp.float32(generator.normal(size=(planes, psi.size(size))))
    return ASAPPolicy(Partition(beta, jnp.float32(alpha), shared), made, psi, phi)


def observations(number=NUM_STATES):
    return np.float32(MEANS + DEVIATIONS * np.random.default_rng(7).normal(size=(number, 4)))


def spec_of(policy):
    if isinstance(policy.skills, GaussianSkills):
        return CONTROLS
    return dataclasses.replace(SPEC, action_names=ACTIONS[policy.skills.theta.shape[1]])


def values_of(x, m=()):
    columns = {name: x[:, i].astype(float) for i, name in enumerate(NAMES)}
    return columns | {name: np.full(len(x), value) for name, value in zip(SPEC.descriptor_names, m)}


def read(explanation, spec, x, m=()):
    values = values_of(x, m)
    return Printed(explanation.rules, values, spec.action_names, units=units_in_notes(explanation.notes, values))


def units_in_notes(notes, values):
    """Of networks, layer by layer, as the notes say that they are computed."""
    found = {}
    for line in "\n".join(notes).replace("\n      ", " ").splitlines():
        if " = tanh(" in line:
            name, formula = line.strip().split(" = ", 1)
            found[name] = Printed([], {**values, **found}, ()).sum(formula)
    return found


def played(policy, x, m=()):
    """What the host plays: the likeliest action, or the numbers it sets in the environment's units."""
    player = Player(plan_of(policy, x.shape[1], np.float32([m])))
    chosen = [player.act(each)[1] for each in x.astype(float)]
    if isinstance(policy.skills, GibbsSkills):
        return np.array(chosen)
    return ControlUnits.of_bounds(CONTROLS.action_low, CONTROLS.action_high).theirs(np.stack(chosen))


def assert_followed(explanation, policy, spec, m=(), printed_m=None):
    """By hand and by the host, the same; nearly the same as was learned."""
    x = observations()
    rules = read(explanation, spec, x, () if printed_m is None else printed_m)
    followed, host = rules.followed(), played(explanation.book.policy(), x, m)
    learned = played(policy, x, m)
    if spec.continuous:
        hand = np.clip(followed.T, spec.action_low, spec.action_high)
        np.testing.assert_allclose(hand, host, atol=0.01)  # Squares of numbers near 300 leave few of 32 bits.
        assert np.mean(np.abs(host - learned).max(1) < 0.3) > 0.98
    else:
        assert np.mean(followed.argmax(0) == host) >= 0.999  # Numbers of 32 bits may differ at the boundary itself.
        assert np.mean(host == learned) >= 0.99
    return rules


@functools.cache
def explained(kind, skills, planes, actions=4, shared=None):
    policy = policy_of(kind, skills, planes, actions, shared=shared)
    return policy, explain(policy, [task(spec_of(policy))])


KINDS = [
    *itertools.product(BASES, ("constant", "linear", "gaussian"), (1, 2)),
    *itertools.product(("linear", "quadratic"), ("constant", "linear", "gaussian"), (0, 3)),
]


@pytest.mark.parametrize(("kind", "skills", "planes"), KINDS)
def test_the_rules_say_what_the_printed_policy_does(kind, skills, planes):
    policy, explanation = explained(kind, skills, planes)
    assert_followed(explanation, policy, spec_of(policy))


@pytest.mark.parametrize(("kind", "planes"), [*itertools.product(("linear", "waves", "network"), (0, 1, 2))])
def test_of_two_actions_a_sum_decides(kind, planes):
    policy, explanation = explained(kind, "linear", planes, 2)
    assert ", else push " in explanation.text
    assert_followed(explanation, policy, spec_of(policy))


@pytest.mark.parametrize(("kind", "skills", "planes"), [k for k in KINDS if k[1] != "gaussian" and k[0] != "quadratic"])
def test_actions_that_are_drawn_have_the_chances_of_the_rules(kind, skills, planes):
    _, explanation = explained(kind, skills, planes)
    x, printed = observations(), explanation.book.policy()
    theirs = np.exp(printed.action_log_probs(jnp.asarray(x.T), jnp.zeros((0, NUM_STATES))))
    drawn = read(explanation, spec_of(printed), x).drawn()
    np.testing.assert_allclose(drawn.sum(0), 1.0, atol=1e-6)
    np.testing.assert_allclose(theirs, drawn, atol=2e-3)


@pytest.mark.parametrize("skills", ["constant", "linear", "gaussian"])
def test_a_skill_that_regions_share_is_printed_once(skills):
    policy, explanation = explained("linear", skills, 3, shared=SHARED)
    assert policy.partition.num_regions == 8 and policy.num_skills == 3
    rules = assert_followed(explanation, policy, spec_of(policy))
    assert sum(words.startswith("skill ") for words in explanation.rules) == len(rules.skills)
    for number in range(3):  # The name in the rules is the number that the comment has, and that the policy has.
        assert explanation.text.count(f"skill {number}:") <= 1
    assert len(rules.cases) <= 8
    kinds = {"constant": " %)", "linear": "the largest of", "gaussian": "heat = "}
    assert sum(kinds[skills] in line for line in explanation.rules) == 3


@pytest.mark.parametrize("skills", ["constant", "linear", "gaussian"])
@pytest.mark.parametrize("joined", ["additive", "interactions"])
@pytest.mark.parametrize("kind", ["linear", "quadratic", "waves without bias", "network"])
def test_rules_for_one_task_have_its_numbers_put_in(kind, joined, skills):
    policy, m = policy_of(kind, skills, joined=joined, seed=3), DESCRIPTORS[0]
    explanation = explain(policy, [task(spec_of(policy), m)])
    assert "goal height" not in explanation.text and "door" not in explanation.text
    assert_followed(explanation, policy, spec_of(policy), m)


@pytest.mark.parametrize("skills", ["constant", "linear", "gaussian"])
@pytest.mark.parametrize("joined", ["additive", "interactions"])
@pytest.mark.parametrize("kind", ["linear", "quadratic", "waves without bias", "network"])
def test_rules_for_several_tasks_name_the_numbers_of_the_task(kind, joined, skills):
    policy = policy_of(kind, skills, joined=joined, seed=3)
    spec = spec_of(policy)
    explanation = explain(policy, [task(spec, m, name) for m, name in zip(DESCRIPTORS, ("here", "there"))])
    assert "goal height" in "\n".join(explanation.rules)
    for m, name in zip(DESCRIPTORS, ("here", "there")):
        assert_followed(explanation, policy, spec, m, m)
        first = explanation.notes.index(f"In {name} (goal height {m[0]:g}, door {m[1]:g}):") + 1
        lines = [*itertools.takewhile(lambda line: line.startswith("  "), explanation.notes[first:])]
        whose = [re.sub(r"(skill \d)$", r"\1 (100 %)", line.removeprefix("  ")) for line in lines]
        actions = [f"skill {s}" for s in range(2)]
        values = values_of(x := observations()) | units_in_notes(explanation.notes, values_of(x))
        said = Printed(whose, values, actions).followed().argmax(0)
        player = Player(plan_of(policy, 4, np.float32([m])))
        assert np.mean(said == [player.act(each)[0] for each in x.astype(float)]) > 0.98


@pytest.mark.parametrize("beta", [[-1.38, 1.63, 0.63], [1.38, -1.63, -0.63], [-0.5, 0.0, 1.0], [0.002, -0.001, -0.003]])
def test_sides_are_right_whatever_the_sign_of_beta(beta):
    chances = np.log([[[0.94], [0.02], [0.02], [0.02]], [[0.02], [0.94], [0.02], [0.02]]])
    psi, phi = Features.of(Polynomial(1), (0, 1)), Features.of(Polynomial(0), (0,))
    skills = GibbsSkills(jnp.float32(chances), jnp.float32(1))
    policy = ASAPPolicy(Partition(jnp.float32([beta]), jnp.float32(20)), skills, psi, phi)
    two_rooms = find("two-rooms")
    explanation = explain(policy, (two_rooms,))
    x = np.float32(np.random.default_rng(0).random((NUM_STATES, 4)))
    values = dict(zip(two_rooms.spec.observation_names, x.T.astype(float)))
    said = Printed(explanation.rules, values, two_rooms.spec.action_names, "m").followed().argmax(0)
    assert np.mean(said == (x[:, :2] @ np.float32(beta[1:]) + beta[0] > 0)) > 0.995
    first = next(line for line in explanation.rules if line.startswith("if "))
    assert not first.startswith("if -"), "a sum begins with a positive term"


def test_inputs_may_stand_in_any_order():
    """Waves and products are found again among the features of the printed policy."""
    for basis in (Polynomial(2), Fourier(np.float32([[0.5, 1.0], [1.0, -0.25]]), True)):
        policy = policy_of()
        psi = Features.of(basis, (3, 1))
        beta = jnp.float32(np.random.default_rng(2).normal(size=(1, psi.size(0))))
        policy = dataclasses.replace(policy, partition=Partition(beta, jnp.float32(2)), psi=psi)
        x, m = jnp.asarray(observations().T) / 100, jnp.zeros((0, NUM_STATES))
        printed = explain(policy, [task()], is_exact=True).book.policy()
        before, after = (np.exp(each.skill_log_probs(x, m)) for each in (policy, printed))
        np.testing.assert_allclose(before, after if before.shape == after.shape else after[::-1], atol=1e-3)


@pytest.mark.parametrize("kind", BASES)
@pytest.mark.parametrize("how", [{"digits": 8}, {"is_exact": True}], ids=["8 digits", "exact"])
def test_many_digits_change_nothing(kind, how):
    for skills in ("linear", "gaussian"):
        policy = policy_of(kind, skills)
        explanation = explain(policy, [task(spec_of(policy))], **how)
        x, now = observations(), explanation.book.policy()
        before, after = played(policy, x), played(now, x)
        if skills == "linear":
            assert np.mean(before == after) >= 0.998
            m = jnp.zeros((0, NUM_STATES))
            chances = [np.exp(each.action_log_probs(jnp.asarray(x.T), m)) for each in (policy, now)]
            np.testing.assert_allclose(*chances, atol=0.01)  # Squares of numbers near 300 have few bits left.
            assert np.median(np.abs(chances[0] - chances[1])) < 1e-4
        else:
            np.testing.assert_allclose(before, after, atol=0.02)
            np.testing.assert_allclose(np.exp(now.skills.log_std), np.exp(policy.skills.log_std), rtol=1e-5)
        rules = read(explanation, spec_of(policy), x).followed()
        hand = rules.argmax(0) if skills == "linear" else np.clip(rules.T, CONTROLS.action_low, CONTROLS.action_high)
        assert np.mean(np.isclose(hand, after, atol=2e-3)) >= 0.998, "the text has all digits, too"


def test_the_fewest_digits_are_chosen_that_keep_the_actions():
    policy, spec = policy_of("quadratic", "linear"), SPEC
    chosen = explain(policy, [task()])
    digits = chosen.numbers["digits"]
    assert chosen.numbers["same_actions"] >= 0.999
    assert digits > 1 and explain(policy, [task()], digits=digits - 1).numbers["same_actions"] < 0.999
    assert f"with {digits} digits: the action is the same as with all digits" in chosen.text
    assert "with all digits." in explain(policy, [task()], is_exact=True).text
    x = observations()
    assert np.mean(read(chosen, spec, x).followed().argmax(0) == played(policy, x)) >= 0.997


def test_two_planes_keep_their_own_softness():
    psi, likely = scaled(Polynomial(1)), np.log([[0.97], [0.01], [0.01], [0.01]])
    skills = GibbsSkills(
        jnp.float32([likely, likely[::-1], likely[[1, 0, 2, 3]], likely[[1, 2, 0, 3]]]), jnp.float32(1)
    )
    beta = jnp.float32([[0, 0, 0, 1, 0], [0, 0, 0, 0, 0.02]])
    policy = ASAPPolicy(Partition(beta, jnp.float32(4)), skills, psi, Features.of(Polynomial(0), (0,)))
    explanation = explain(policy, [task()], digits=2)
    # log 9 / (4 / 0.05), log 9 / (4 * 0.02 / 3)
    assert [plane["within"] for plane in explanation.as_dict()["planes"]] == pytest.approx([0.027, 82.0])
    assert "within 0.027" in explanation.text and "within 82" in explanation.text
    for k, (place, reach) in enumerate(((2, 0.027), (3, 82.0))):
        x = jnp.asarray(MEANS).at[place].add(reach)
        probs = jnp.exp(explanation.book.policy().skill_log_probs(x, jnp.zeros(0)))
        of_region = np.asarray(probs)[np.asarray(explanation.book.region_skills)]
        assert float(of_region[np.arange(4) >> k & 1 == 1].sum()) == pytest.approx(0.9, abs=2e-3)


def test_percentages_are_whole_and_add_up():
    assert choice(np.array([1, 1, 1]) / 3).shares == ((0, 0.34),), "of what is alike, one is named"
    assert choice(np.array([0.446, 0.003, 0.548, 0.003])).shares == ((2, 0.55), (0, 0.45))
    for chances in np.random.default_rng(0).dirichlet(np.full(5, 0.5), 200):
        said = choice(chances)
        assert said.probabilities(5).sum() == pytest.approx(1.0)
        assert np.abs(said.probabilities(5) - chances).max() <= 0.01 + 1e-9
        assert said.probabilities(5).argmax() == chances.argmax()
    near = np.array([0.3334, 0.3333, 0.3333])
    assert choice(near).probabilities(3).argmax() == 0 and choice(near[::-1]).probabilities(3).argmax() == 2


def test_what_is_impossible_stays_finite():
    vocabulary = Vocabulary(("x",), ("a", "b", "c"))
    test, never = rulebook.Test(Sum({Term((0,)): 1.0})), Choice(((0, 1.0),))
    policy = Rulebook(vocabulary, (test,), (never, Choice(((2, 0.4), (1, 0.6)))), (0, 1)).policy()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(policy))
    assert float(jnp.exp(policy.skills.log_probs(jnp.ones(1)))[0, 1]) < 1e-12


def test_a_plane_without_slope_has_its_likelier_side_everywhere():
    policy = policy_of("linear", "constant", 2)
    for constant, regions in ((-0.5, (0, 1)), (0.5, (2, 3))):
        beta = policy.partition.beta.at[1].set(0).at[1, 0].set(constant)
        flat = dataclasses.replace(policy, partition=dataclasses.replace(policy.partition, beta=beta))
        explanation = explain(flat, [task()])
        assert_followed(explanation, flat, SPEC)
        assert len(explanation.book.tests) == 1
        assert [s["skills"] for s in explanation.as_dict()["skills"] if s["usage"] is None][:2]
        assert {explanation.book.skills[s] for s in explanation.book.region_skills} == {
            choice(np.asarray(jnp.exp(flat.skills.log_probs(jnp.ones(1))))[r]) for r in regions
        }


def test_many_planes_can_be_explained():
    """More than are read back: each region has a case of its own then, and the text is still right."""
    policy = policy_of("linear", "constant", 9)
    explanation = explain(policy, [task()], usage=np.full(2**9, 2.0**-9), states=observations())
    assert_followed(explanation, policy, SPEC)
    with pytest.raises(UserError, match="policy: holds several seeds"):
        explain(jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), policy), [task()])
