"""Promise: whoever follows the printed rules by hand plays the rounded policy, and that is close to what was
learned."""

import dataclasses
import functools
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces

from asap.base.numbers import exact, sum_in_full
from asap.base.spec import ControlUnits
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.spaces import control
from asap.envs.gymnasium.task import describe
from asap.policy.build import plan_of
from asap.policy.features import Features, Fourier, Network, Polynomial
from asap.policy.host import Player
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GaussianSkills, GibbsSkills
from asap.show.words.explain import explain
from asap.show.words.readings import Losses, MeanReturn
from asap.show.words.rounding import rounded, rulebook, significant, whole_percents

MEANS = np.float32([0.5, -1.0, 0.02, 300.0])
DEVIATIONS = np.float32([0.4, 2.0, 0.05, 3.0])
LIKELY, UNLIKELY = np.log([[0.97], [0.03]]), np.log([[0.05], [0.95]])


@functools.cache
def task(name):
    return describe(EnvSource(name), EnvLimits())


def scaled(basis, count=4):
    inputs = tuple(range(count))
    return dataclasses.replace(Features.of(basis, inputs), shift=MEANS[:count], scale=1 / DEVIATIONS[:count])


def policy_of(psi, beta, skills, phi=Features.of(Polynomial(0), (0,)), alpha_beta=4.0):
    return ASAPPolicy(Partition(jnp.asarray(beta, jnp.float32), jnp.float32(alpha_beta)), skills, psi, phi)


def gibbs(theta, alpha_theta=1.0):
    return GibbsSkills(jnp.asarray(theta, jnp.float32), jnp.float32(alpha_theta))


def cart_pole(beta=(0.3, 0.4, -0.1, 1.2, 0.7), basis=Polynomial(1), **rest):
    return policy_of(scaled(basis), [beta], gibbs([LIKELY, UNLIKELY]), **rest)


def pendulum():
    generator = np.random.default_rng(3)
    skills = GaussianSkills(jnp.float32(generator.normal(size=(2, 1, 4))), jnp.log(jnp.float32([[0.171], [0.5]])))
    return policy_of(scaled(Polynomial(1), 3), generator.normal(size=(1, 4)), skills, scaled(Polynomial(1), 3))


def observations(count=4, number=200):
    drawn = np.random.default_rng(0).normal(size=(number, count))
    return np.float32(MEANS[:count] + DEVIATIONS[:count] * drawn)


def likeliest(policy, x):
    player = Player(plan_of(policy, len(x)))
    player.begin(np.random.default_rng(0), deterministic=True)
    return player.choose(np.asarray(x, float))


def rules_of(text):
    return [line.strip() for line in text.split("\n\n")[1].splitlines()]


def evaluated(words, values):
    """A printed formula at these values; longer names first, since some are parts of others."""
    for i, name in enumerate(sorted(values, key=len, reverse=True)):
        words = words.replace(name, f"v[{i}]")
    ordered = [values[name] for name in sorted(values, key=len, reverse=True)]
    words = re.sub(r"sin\(pi \((\S+) (v\[\d+\])\)\)", r"sin(pi * \1 * \2)", words)
    return eval(words.replace("^", "**"), {"v": ordered, "sin": np.sin, "pi": np.pi})


def followed(text, values):
    """What the rules say for these values of the observations."""
    values = dict(values)
    for line in rules_of(text):
        if named := re.fullmatch(r"([A-Z]) = (.*)", line):
            values[named[1]] = evaluated(named[2], values)
        elif line.startswith("otherwise "):
            return line.removeprefix("otherwise ")
        else:
            condition, does = re.fullmatch(r"if (.*?) then (.*)", line).groups()
            if all(evaluated(each, values) for each in condition.split(" and ")):
                return does
    raise AssertionError("no rule applies")


def test_the_whole_text_of_a_cart_pole():
    losses = Losses(MeanReturn(440.3, 8.2), MeanReturn(490.0, 4.0), MeanReturn(489.0, 4.0), 100)
    assert explain(cart_pole(), (task("CartPole-v1"),), [0.52, 0.48], [1.42, 1.3], losses).text == (
        "CartPole-v1: 1 plane, 2 skills.\n"
        "\n"
        "  if pole angle + 0.0097*pole angular velocity + 0.042*cart position - 0.0021*cart velocity > 2.9406 "
        "then push right (95 %)\n"
        "  otherwise push left (97 %)\n"
        "\n"
        "Numbers have two digits, in the environment's own units.\n"
        "A skill is drawn at every step.\n"
        "At the boundary both sides are equally likely; 0.023 beyond it, the side has 90 %.\n"
        "\n"
        "What each skill does:\n"
        "  skill 0: push left 97 %, push right 3 %; used in 52 % of the steps, 1.42 steps at a time\n"
        "  skill 1: push right 95 %, push left 5 %; used in 48 % of the steps, 1.3 steps at a time\n"
        "\n"
        "Mean return of 100 episodes each, +- its standard error:\n"
        "  440 +- 8.2 as learned, skills and actions sampled\n"
        "  490 +- 4 with the most probable skill and action: 49.7 (11 %) more\n"
        "  489 +- 4 with the rounded numbers above, most probable skill and action: 48.7 (11 %) more"
    )


@pytest.mark.parametrize(
    "basis", [Polynomial(1), Fourier(np.eye(4, dtype=np.float32), bias=True)], ids=["sum", "waves"]
)
def test_units_that_drift_are_not_called_the_environments_own(basis):
    spec = dataclasses.replace(task("CartPole-v1").spec, normalized=True)
    text = explain(cart_pole(basis=basis), (dataclasses.replace(task("CartPole-v1"), spec=spec),)).text
    assert "Numbers have two digits, in the units of NormalizeObservation, which drift." in text
    assert "own units" not in text


def test_a_condition_stands_in_brackets_in_a_sum():
    names = ("x", "mode is 2", "y - z", "island")
    spec = dataclasses.replace(task("CartPole-v1").spec, observation_names=names)
    text = explain(cart_pole(), (dataclasses.replace(task("CartPole-v1"), spec=spec),)).text
    assert rules_of(text)[0].startswith("if (y - z) + 0.0097*island + 0.042*x - 0.0021*(mode is 2) > 2.9406 then")


def test_a_plane_that_points_the_other_way_is_the_same_rule_with_the_skills_exchanged():
    there, back = (
        explain(cart_pole(sign * np.array([0.3, 0.4, -0.1, 1.2, 0.7])), (task("CartPole-v1"),)) for sign in (1, -1)
    )
    assert rules_of(back.text)[0].startswith("if pole angle + ") and "then push left (97 %)" in rules_of(back.text)[0]
    assert rules_of(back.text)[0].split(" then")[0] == rules_of(there.text)[0].split(" then")[0]


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize("basis", [Polynomial(1), Polynomial(2)], ids=["linear", "quadratic"])
def test_the_rules_say_what_the_rounded_policy_does(planes, basis, monkeypatch):
    monkeypatch.setattr("asap.show.words.rule_sentences.MOST_TERMS", 99)
    generator = np.random.default_rng(planes)
    theta = np.log([[[0.92], [0.08]], [[0.08], [0.92]], [[0.08], [0.92]], [[0.92], [0.08]]])[: 2**planes]
    policy = policy_of(scaled(basis), generator.normal(size=(planes, scaled(basis).size(0))), gibbs(theta))
    text = explain(policy, (task("CartPole-v1"),)).text
    names, actions = task("CartPole-v1").spec.observation_names, task("CartPole-v1").spec.action_names
    played, said = rounded(policy, task("CartPole-v1")), set()
    for x in observations():
        said.add(does := followed(text, zip(names, x.astype(float))))
        assert does == f"{actions[likeliest(played, x)[1]]} (92 %)"
    assert len(said) == 2


def test_rounding_to_many_digits_leaves_the_controls_as_they_are():
    """Two controls with ranges of other widths and middles: 0 to 10 and -2 to 2. Each keeps its own unit and shift."""
    spec = dataclasses.replace(task("Pendulum-v1").spec, action_low=(0.0, -2.0), action_high=(10.0, 2.0))
    two_controls = dataclasses.replace(task("Pendulum-v1"), spec=spec)
    generator = np.random.default_rng(5)
    log_std = generator.normal(-1.0, 0.3, (2, 2))
    skills = GaussianSkills(jnp.float32(generator.normal(size=(2, 2, 4))), jnp.float32(log_std))
    policy = policy_of(scaled(Polynomial(1), 3), generator.normal(size=(1, 4)), skills, scaled(Polynomial(1), 3))
    same = rounded(policy, two_controls, digits=8)
    x, m = jnp.asarray(observations(3).T), jnp.zeros((0, 200))
    np.testing.assert_allclose(same.skills.means(same.phi(x, m)), policy.skills.means(policy.phi(x, m)), atol=1e-4)
    np.testing.assert_allclose(same.skills.log_std, log_std, atol=1e-5)
    book = rulebook(policy, two_controls, digits=8)
    theirs = policy.skills.means(policy.phi(x, m)) * np.array([5, 2])[:, None] + np.array([5, 0])[:, None]
    np.testing.assert_allclose(np.tensordot(book.skills.weights, book.phi(x, m), 1), theirs, atol=1e-3)


def test_controls_are_in_the_units_of_the_environment():
    policy, names = pendulum(), task("Pendulum-v1").spec.observation_names
    text = explain(policy, (task("Pendulum-v1"),)).text
    assert "give or take 0.34)" in text and "give or take 1)" in text
    played, act = rounded(policy, task("Pendulum-v1")), control(task("Pendulum-v1").action_space)
    assert np.exp(played.skills.log_std) == pytest.approx(np.array([[0.17], [0.5]]))
    values = []
    for x in observations(3):
        does = followed(text, zip(names, x.astype(float)))
        formula, low, high = re.fullmatch(r"torque = (.*), within (\S+) to (\S+) \(.*\)", does).groups()
        values.append(np.clip(evaluated(formula, dict(zip(names, x.astype(float)))), float(low), float(high)))
        assert act(likeliest(played, x)[1])[0] == pytest.approx(values[-1], abs=1e-4)
    assert np.ptp(values) > 1 and min(np.abs(values)) < 2


def test_units_of_controls_are_those_of_the_border():
    space = spaces.Box(np.float32([-2, 0, -np.inf, 1]), np.float32([2, 10, np.inf, np.inf]))
    units, ours = ControlUnits.of(space), np.array([0.3, -0.5, 4.0, 7.0])
    theirs = ours * units.scale + units.shift
    np.testing.assert_allclose(theirs, control(space)(ours), rtol=1e-6)
    np.testing.assert_allclose(units.ours(theirs), ours)


def test_linear_skills_of_two_actions_have_a_rule_of_their_own():
    theta = np.random.default_rng(5).normal(size=(2, 2, 5))
    policy = policy_of(scaled(Polynomial(1)), [[0.1, 1.0, 0.5, 0.2, -0.3]], gibbs(theta, 2.0), scaled(Polynomial(1)))
    text, names = explain(policy, (task("CartPole-v1"),)).text, task("CartPole-v1").spec.observation_names
    played, said = rounded(policy, task("CartPole-v1")), set()
    for x in observations():
        values = dict(zip(names, x.astype(float)))
        name, condition, other = re.fullmatch(r"(.*) if (.*), else (.*)", followed(text, values)).groups()
        said.add(does := name if evaluated(condition, values) else other)
        assert does == task("CartPole-v1").spec.action_names[likeliest(played, x)[1]]
    assert len(said) == 2


BASES = {
    "linear": Polynomial(1),
    "quadratic": Polynomial(2),
    "fourier": Fourier(np.float32(0.25 * np.eye(4)), True),
    "network": Network.drawn((4, 6), np.random.default_rng(0)),
}


@pytest.mark.parametrize("kind", BASES)
def test_the_rounded_policy_is_close_to_the_one_that_was_learned(kind):
    """Also where an observation is a hundred deviations away from 0, and rounded slopes alone would be of no use."""
    psi = scaled(BASES[kind])
    generator = np.random.default_rng(1)
    for _ in range(5):
        policy = policy_of(psi, generator.normal(size=(1, psi.size(0))), gibbs([LIKELY, UNLIKELY]))
        after = rounded(policy, task("CartPole-v1"))
        x = jnp.asarray(observations().T)
        m = jnp.zeros((0, x.shape[1]))
        before, now = (jnp.exp(each.skill_log_probs(x, m))[1] for each in (policy, after))
        assert float(jnp.abs(before - now).mean()) < 0.03
        assert float(((before > 0.5) == (now > 0.5)).mean()) > 0.97


def test_two_planes_keep_their_own_softness():
    policy = policy_of(scaled(Polynomial(1)), [[0.0, 0, 0, 1, 0], [0.0, 0, 0, 0, 0.02]], gibbs([LIKELY] * 4))
    book = rulebook(policy, task("CartPole-v1"))
    assert book.reaches == pytest.approx([0.027, 82.0])  # log 9 / (4 / 0.05), log 9 / (4 * 0.02 / 3)
    border = jnp.asarray(MEANS)
    for k, (place, reach) in enumerate(((2, 0.027), (3, 82.0))):
        probs = jnp.exp(book.policy.skill_log_probs(border.at[place].add(reach), jnp.zeros(0)))
        assert float(probs[jnp.arange(4) >> k & 1 == 1].sum()) == pytest.approx(0.9, abs=1e-3)


def test_probabilities_are_whole_percents_and_add_up():
    assert whole_percents(np.array([1, 1, 1]) / 3).tolist() == [34, 33, 33]
    theta = np.random.default_rng(0).normal(size=(2, 4, 1))
    policy = policy_of(scaled(Polynomial(1)), [[0.0, 1, 0, 0, 0]], gibbs(2 * theta))
    book = rulebook(policy, task("CartPole-v1"))
    np.testing.assert_allclose(book.skills.probabilities.sum(1), 1.0)
    np.testing.assert_allclose(np.exp(book.policy.skills.log_probs(jnp.ones(1))), book.skills.probabilities, atol=1e-6)
    np.testing.assert_allclose(book.skills.probabilities, np.exp(policy.skills.log_probs(jnp.ones(1))), atol=0.01)


def test_what_is_impossible_stays_finite():
    book = rulebook(cart_pole(), task("CartPole-v1"))
    never = book._replace(skills=book.skills._replace(probabilities=np.array([[1.0, 0.0], [0.0, 1.0]])))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(never.policy))
    assert float(jnp.exp(never.policy.skills.log_probs(jnp.ones(1)))[0, 1]) < 1e-12


def test_of_many_inputs_the_largest_are_named():
    names = tuple(f"obs {i}" for i in range(20))
    spec = dataclasses.replace(task("CartPole-v1").spec, observation_names=names)
    many = dataclasses.replace(task("CartPole-v1"), spec=spec)
    beta = np.float32([0, *np.linspace(1.0, 0.05, 20)])
    policy = policy_of(Features.of(Polynomial(1), tuple(range(20))), [beta], gibbs([LIKELY, UNLIKELY]))
    explanation = explain(policy, (many,))
    assert (
        "  if obs 0 + 0.95*obs 1 + 0.9*obs 2 + 0.85*obs 3 + 0.8*obs 4 + 0.75*obs 5 + 14 smaller terms > 0 then"
        in explanation.text
    )
    assert len(explanation.as_dict()["planes"][0]["value"]["terms"]) == 20


def test_a_network_tells_what_its_units_look_at():
    network = Network((np.float32([[0, 0, 2, 1], [1, 0, 0, 0]]),), (np.zeros(2, np.float32),))
    policy = policy_of(scaled(network), [[0.1, 1.0, -0.5]], gibbs(np.ones((2, 2, 3))), scaled(network))
    text = explain(policy, (task("CartPole-v1"),)).text
    assert "if unit 1 - 0.5*unit 2 > -0.1 then" in text
    assert "  unit 1: pole angle (2), pole angular velocity (1), cart position (0), cart velocity (0)\n" in text
    assert (
        "Inside waves and units an input counts in deviations from its mean:\n  (cart position - 0.5) / 0.4\n" in text
    )
    assert "  (cart velocity + 1) / 2\n" in text


def test_numbered_states_are_listed():
    beta = np.zeros((1, 17), np.float32)
    beta[0, 0], beta[0, [2, 3, 6]] = -1.0, 2.0
    theta = np.log([[[0.9], [0.04], [0.03], [0.03]], [[0.05], [0.55], [0.4], [0.0001]]])
    policy = policy_of(Features.of(Polynomial(1), tuple(range(16))), beta, gibbs(theta))
    rules = rules_of(explain(policy, (task("FrozenLake-v1"),)).text)
    assert rules[0] == "in row 0 columns 1 and 2; row 1 column 1: down (55 %) or right (40 %)"
    assert rules[1].startswith("in row 0 columns 0 and 3; row 1 columns 0, 2 and 3;") and rules[1].endswith(
        ": left (90 %)"
    )


def test_skills_that_weigh_states_are_told_by_the_action_that_wins_in_each():
    beta, theta = np.zeros((1, 17), np.float32), np.zeros((2, 4, 17), np.float32)
    beta[0, 0], beta[0, [2, 3, 6]] = -1.0, 2.0
    theta[0, 0, 0], theta[0, 3, 4] = 1.0, 1.5  # Left, but for up in the corner.
    theta[1, 1, 2], theta[1, 2, [3, 6]] = 1.0, 1.0
    cells = Features.of(Polynomial(1), tuple(range(16)))
    text = explain(policy_of(cells, beta, gibbs(theta), cells), (task("FrozenLake-v1"),)).text
    assert "\n  skill 1:\n    down in row 0 column 1\n    right in row 0 column 2; row 1 column 1\n" in text
    assert (
        "    left in row 0 column 0; row 1 columns 0, 2 and 3; row 2" in text and "    up in row 0 column 3\n" in text
    )
    assert "score" not in text and "two digits" not in text
    never = policy_of(cells, np.zeros((1, 17), np.float32) - np.eye(1, 17, dtype=np.float32), gibbs(theta), cells)
    assert "\n  skill 1: nowhere the likeliest\n" in explain(never, (task("FrozenLake-v1"),), usage=[0.8, 0.2]).text


def test_a_region_that_is_hardly_ever_visited_has_no_rule():
    explanation = explain(cart_pole(), (task("CartPole-v1"),), [0.999, 0.001], [30.0, np.nan])
    assert len(rules_of(explanation.text)) == 1 and " < 2.9406 then push left" in rules_of(explanation.text)[0]
    assert "hardly ever used: skill 1" in explanation.text


def test_the_dictionary_is_json():
    for policy, name in ((cart_pole(), "CartPole-v1"), (pendulum(), "Pendulum-v1")):
        losses = Losses(MeanReturn(1.0, 0.1), MeanReturn(1.0, 0.1), MeanReturn(0.9, 0.1), 10)
        as_dict = json.loads(json.dumps(explain(policy, (task(name),), losses=losses).as_dict(), allow_nan=False))
        assert as_dict["task"] == name and as_dict["losses"]["rounded"] == {"mean": 0.9, "error": 0.1}
    assert as_dict["skills"][0]["controls"]["torque"]["high"] == 2


def test_what_may_be_chance_is_called_so():
    losses = Losses(MeanReturn(-200.0, 10.0), MeanReturn(-190.0, 10.0), MeanReturn(-300.0, 10.0), 50)
    text = explain(pendulum(), (task("Pendulum-v1"),), losses=losses).text
    assert "most probable skill and action: 10 more, which may be chance" in text
    assert "rounded numbers above, most probable skill and action: 100 less" in text  # No share of a negative return.
    losses = Losses(MeanReturn(200.0, 10.0), MeanReturn(190.0, 10.0), MeanReturn(100.0, 10.0), 50)
    text = explain(pendulum(), (task("Pendulum-v1"),), losses=losses).text
    assert "rounded numbers above, most probable skill and action: 100 (50 %) less" in text


def test_rounded_numbers_are_written_in_full():
    assert [exact(v) for v in (2.9408, -0.0, 1.0, 0.00012, 12e5, 2.5e-7)] == [
        "2.9408",
        "0",
        "1",
        "0.00012",
        "1200000",
        "2.5e-07",
    ]
    assert sum_in_full([("a b", -1.0), ("c", 0.5)], -2.0, 3) == "-a b + 0.5*c + 3 smaller terms - 2"
    np.testing.assert_array_equal(significant(np.array([1.249e-4, -987.0, 0.0]), 2), [1.2e-4, -990.0, 0.0])
