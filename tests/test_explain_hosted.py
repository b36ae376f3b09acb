"""Promise: an explanation says what is true of the policy and of what was played, in words that a person can act by."""

import dataclasses
import functools
import json

import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from plain_task import Plain
from printed_rules import Printed

from asap.base.errors import UserError
from asap.base.numbers import exact, number, percent
from asap.base.spec import ControlUnits, TaskSet
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.envs.gymnasium.spaces import control
from asap.envs.gymnasium.task import describe
from asap.experience.protocol import Evaluation
from asap.policy.features import Features, Fourier, Network, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.from_policy import checked_digits
from asap.policy.rules.rounding import significant
from asap.policy.skills import GaussianSkills, GibbsSkills
from asap.show.words.explain import explain, explain_played
from asap.show.words.returns import MeanReturn, Pair, Returns, returns_in_words

MEANS = np.float32([0.5, -1.0, 0.02, 300.0])
DEVIATIONS = np.float32([0.4, 2.0, 0.05, 3.0])
LIKELY, UNLIKELY = np.log([[0.97], [0.03]]), np.log([[0.05], [0.95]])
CONSTANT = Features.of(Polynomial(0), (0,))


@functools.cache
def task(name):
    return describe(EnvSource(name), EnvLimits())


def scaled(basis, count=4):
    inputs = tuple(range(count))
    return dataclasses.replace(Features.of(basis, inputs), shift=MEANS[:count], scale=1 / DEVIATIONS[:count])


def policy_of(psi, beta, skills, phi=CONSTANT, alpha_beta=4.0, termination=None, shared=None):
    partition = Partition(jnp.asarray(beta, jnp.float32), jnp.float32(alpha_beta), shared)
    return ASAPPolicy(partition, skills, psi, phi, termination)


def gibbs(theta, alpha_theta=1.0):
    return GibbsSkills(jnp.asarray(theta, jnp.float32), jnp.float32(alpha_theta))


def cart_pole(beta=(0.3, 0.4, -0.1, 1.2, 0.7), basis=Polynomial(1), **rest):
    return policy_of(scaled(basis), [beta], gibbs([LIKELY, UNLIKELY]), **rest)


def pendulum():
    generator = np.random.default_rng(3)
    skills = GaussianSkills(jnp.float32(generator.normal(size=(2, 1, 4))), jnp.log(jnp.float32([[0.171], [0.5]])))
    return policy_of(scaled(Polynomial(1), 3), generator.normal(size=(1, 4)), skills, scaled(Polynomial(1), 3))


def observations(count=4, number=400):
    drawn = np.random.default_rng(0).normal(size=(number, count))
    return np.float32(MEANS[:count] + DEVIATIONS[:count] * drawn)


def test_the_whole_text_of_a_cart_pole():
    assert explain(cart_pole(), (task("CartPole-v1"),), [0.52, 0.48], [1.42, 1.3], digits=2).text == (
        "CartPole-v1: 1 plane, 2 skills.\n"
        "\n"
        "  A = pole angle + 0.0097*pole angular velocity + 0.042*cart position - 0.0021*cart velocity\n"
        "  if A > 2.9406 within 0.023 then push right (95 %)  # skill 1: used in 48 % of the steps, 1.3 steps at a time\n"
        "  otherwise push left (97 %)  # skill 0: used in 52 % of the steps, 1.42 steps at a time\n"
        "\n"
        "Numbers are in the environment's own units, with 2 digits: the action is the same as with all digits in 99.95 % of "
        "the states.\n"
        "A skill is drawn at every step.\n"
        "`within`: where the sum is so far beyond the number, its side is drawn with 90 %; nearer, with less."
    )


def test_a_file_of_rules_has_all_else_in_comments():
    explanation = explain(cart_pole(), (task("CartPole-v1"),), [0.52, 0.48])
    several = dataclasses.replace(explanation, title=f"seed 0 of 3\n{explanation.title}", remarks=("two\nlines",))
    for told in (explanation, several):
        lines = told.file.splitlines()
        assert [line for line in lines if line and not line.startswith("#")] == [
            line for line in told.rules if not line.startswith("#")
        ]
        assert f"# {explanation.title}" in lines


def test_a_plane_that_points_the_other_way_is_the_same_rule():
    there, back = (
        explain(cart_pole(sign * np.array([0.3, 0.4, -0.1, 1.2, 0.7])), (task("CartPole-v1"),)) for sign in (1, -1)
    )
    assert there.rules[0] == back.rules[0], "the sum, with a positive first term"
    said = []
    for each in (there, back):
        values = dict(zip(task("CartPole-v1").spec.observation_names, observations().T.astype(float)))
        said.append(Printed(each.rules, values, task("CartPole-v1").spec.action_names).followed().argmax(0))
    assert np.mean(said[0] == said[1]) < 0.01


def test_numbers_are_in_units_that_are_named_truly():
    drifting = dataclasses.replace(task("CartPole-v1").spec, normalized=True)
    text = explain(cart_pole(), (dataclasses.replace(task("CartPole-v1"), spec=drifting),)).text
    assert "Numbers are in the units of NormalizeObservation, which drift, with" in text and "own units" not in text
    assert "torque is kept within -2 to 2." in explain(pendulum(), (task("Pendulum-v1"),)).notes


def test_controls_have_their_spread_in_the_units_of_the_environment():
    text = explain(pendulum(), (task("Pendulum-v1"),), digits=2).text
    assert "(+- 0.34)" in text and "(+- 1)" in text


def test_units_of_controls_are_those_of_the_border():
    space = spaces.Box(np.float32([-2, 0, -np.inf, 1]), np.float32([2, 10, np.inf, np.inf]))
    units, ours = ControlUnits.of(space), np.array([0.3, -0.5, 4.0, 7.0])
    theirs = ours * units.scale + units.shift
    np.testing.assert_allclose(theirs, control(space)(ours), rtol=1e-6)
    np.testing.assert_allclose(units.ours(theirs), ours)


def test_names_that_would_be_read_as_something_else_stand_in_quotes():
    names = ("in reach", "x - y", "Gear", "gear")
    spec = dataclasses.replace(task("CartPole-v1").spec, observation_names=names)
    named = explain(cart_pole(), (dataclasses.replace(task("CartPole-v1"), spec=spec),), digits=2)
    assert any('Gear + 0.0097*obs[3] + 0.042*"in reach" - 0.0021*"x - y" > 2.9406' in line for line in named.rules)


# --- Feature maps


def test_a_small_network_is_printed_in_full():
    network = Network((np.float32([[0, 0, 2, 1], [1, 0, 0, 0]]),), (np.float32([0.5, 0]),))
    psi = Features.of(network, (0, 1, 2, 3))
    policy = policy_of(psi, [[0.1, 1.0, -0.5]], gibbs([LIKELY, UNLIKELY]))
    explanation = explain(policy, (task("CartPole-v1"),), is_exact=True)
    assert any(line.startswith("if unit 1 - 0.5*unit 2 > -0.1") for line in explanation.rules)
    assert "  unit 1 = tanh(pole angular velocity + 2*pole angle + 0.5)" in explanation.notes
    assert "  unit 2 = tanh(cart position)" in explanation.notes


def test_of_a_large_network_what_it_weighs_most_is_named():
    large = Network.drawn((4, 32, 16), np.random.default_rng(0))
    policy = policy_of(scaled(large), [np.random.default_rng(1).normal(size=17)], gibbs([LIKELY, UNLIKELY]))
    brief, full = (explain(policy, (task("CartPole-v1"),), shows_all=shows_all) for shows_all in (False, True))
    assert "tanh" not in brief.text and "it weighs most (--all shows everything):" in brief.text
    units = [line for line in brief.notes if line.startswith("  unit ")]
    assert units and all(line.count("(") <= 4 for line in units)
    assert "  unit 1 = tanh(" in full.text and "layer 1 unit 32 = tanh(" in full.text


def test_a_wave_is_rounded_as_all_numbers_are():
    basis = Fourier(np.float32([[1 / 3, 0, 0, 0], [0, 0, 0, 1.23456]]), True)
    policy = policy_of(scaled(basis), [[0.1, 1.0, -0.5]], gibbs([LIKELY, UNLIKELY]))
    rules = "\n".join(explain(policy, (task("CartPole-v1"),), digits=2).rules)
    assert "sin(pi*(0.83*cart position" in rules and "0.41*pole angular velocity" in rules  # (1 / 3) / 0.4, 1.2346 / 3


def test_inputs_that_hardly_count_become_part_of_the_constant():
    names = tuple(f"obs {i}" for i in range(20))
    spec = dataclasses.replace(
        task("CartPole-v1").spec,
        observation_names=names,
        observation_low=(-np.inf,) * 20,
        observation_high=(np.inf,) * 20,
    )
    many = dataclasses.replace(task("CartPole-v1"), spec=spec)
    beta = np.float32([0, *np.linspace(1.0, 0.05, 19), 1e-6])
    policy = policy_of(Features.of(Polynomial(1), tuple(range(20))), [beta], gibbs([LIKELY, UNLIKELY]))
    planes = explain(policy, (many,), digits=2).as_dict()["planes"]
    assert len(planes[0]["terms"]) == 19 and "obs 19" not in planes[0]["terms"]
    assert len(explain(policy, (many,), is_exact=True).as_dict()["planes"][0]["terms"]) == 20


# --- Numbered states


CELLS = Features.of(Polynomial(1), tuple(range(16)))
LAKE_BETA = np.zeros((1, 17), np.float32)
LAKE_BETA[0, 0], LAKE_BETA[0, [2, 3, 6]] = -1.0, 2.0


def test_numbered_states_are_listed():
    theta = np.log([[[0.9], [0.04], [0.03], [0.03]], [[0.05], [0.55], [0.4], [0.0001]]])
    explanation = explain(policy_of(CELLS, LAKE_BETA, gibbs(theta)), (task("FrozenLake-v1"),))
    assert explanation.rules[0].startswith(
        "in row 0 columns 1, 2; row 1 column 1 then down (55 %), right (40 %), left (5 %)"
    )
    assert explanation.rules[1].startswith("otherwise left (90 %)") and len(explanation.rules) == 2


def test_a_table_is_told_by_the_action_that_wins_in_each_state():
    theta = np.zeros((2, 4, 17), np.float32)
    theta[0, 0, 0], theta[0, 3, 4] = 1.0, 1.5  # Left, but for up in the corner.
    theta[1, 1, 2], theta[1, 2, [3, 6]] = 1.0, 1.0
    policy = policy_of(CELLS, LAKE_BETA, gibbs(theta), CELLS)
    explanation = explain(policy, (task("FrozenLake-v1"),))
    spec, states = task("FrozenLake-v1").spec, np.eye(16)
    said = Printed(explanation.rules, dict(zip(spec.observation_names, states)), spec.action_names).followed().argmax(0)
    assert [spec.action_names[a] for a in said] == ["left", "down", "right", "up", "left", "right", *["left"] * 10]
    assert "score" not in explanation.text and "digit" not in explanation.text
    assert "A state is listed with the likeliest action of its likeliest skill" in explanation.text


def test_tasks_that_differ_share_no_list_of_states():
    """One list would be that of the first task."""
    spec = task("FrozenLake-v1").spec
    psi = Features.of(Polynomial(1), tuple(range(16)), "interactions")
    beta = np.zeros((1, psi.size(1)), np.float32)
    beta[0, 17:] = LAKE_BETA  # Times m.
    policy = policy_of(psi, beta, gibbs(np.log([[[0.7], [0.1], [0.1], [0.1]], [[0.1], [0.7], [0.1], [0.1]]])))
    there, back = (Plain(name, spec, (m,)) for name, m in (("there", 1.0), ("back", -1.0)))
    both, one = explain(policy, [there, back]), explain(policy, [back])
    assert "in row" not in both.rules[0] and "m1" in both.rules[0]
    for m in (1.0, -1.0):
        values = dict(zip(spec.observation_names, np.eye(16))) | {"m1": np.full(16, m)}
        said = Printed(both.rules, values, spec.action_names).followed().argmax(0)
        assert said.tolist() == (m * (LAKE_BETA[0, 0] + LAKE_BETA[0, 1:]) > 0).astype(int).tolist()
    assert "m1" not in one.text


# --- What was played


def test_commitment_is_told():
    text = explain(cart_pole(termination=0.1), (task("CartPole-v1"),)).text
    assert "A skill is kept until its region is left; inside, 10 % of the steps draw a new one." in text


def test_a_region_that_was_never_visited_has_no_case_unless_asked_for():
    skills = gibbs([LIKELY, UNLIKELY, np.log([[0.6], [0.4]]), np.log([[0.2], [0.8]])])
    policy = policy_of(scaled(Polynomial(1)), [[0, 1, 0, 0, 0], [0, 0, 1, 0, 0.0]], skills)
    x = observations()
    elsewhere = x[(x[:, 0] > MEANS[0]) | (x[:, 1] < MEANS[1])]  # All but region 2.
    how = policy, (task("CartPole-v1"),), [0.5, 0.3, 0.0, 0.2], [3.0, 2.0, np.nan, 1.0], elsewhere
    assert "used in 20 % of the steps, 1 step at a time" in explain(*how).text
    brief, full = explain(*how), explain(*how, shows_all=True)
    assert "(60 %)" not in brief.text and "# skill 2: never used" in full.text and "(60 %)" in full.text
    assert "1 region of 4 was never visited: there the first case that fits decides, too (--all" in brief.text
    assert "never visited" not in full.text
    values = dict(zip(task("CartPole-v1").spec.observation_names, x.T.astype(float)))
    said = [Printed(each.rules, values, task("CartPole-v1").spec.action_names).followed() for each in (brief, full)]
    inside = np.isin(np.arange(len(x)), np.flatnonzero((x[:, 0] > MEANS[0]) | (x[:, 1] < MEANS[1])))
    np.testing.assert_array_equal(said[0][:, inside], said[1][:, inside])
    assert len({skill for skill in brief.book.region_skills}) == 3, "the printed policy has no skill that is nowhere"


def test_a_rare_visit_counts():
    """Also when it is one among many states: what a case says there may be what matters."""
    x = np.tile(MEANS - DEVIATIONS, (20_000, 1))
    x[7] = MEANS + 3 * DEVIATIONS
    explanation = explain(cart_pole(), (task("CartPole-v1"),), [0.9999, 0.0001], states=x)
    assert len([line for line in explanation.rules if "push" in line]) == 2


def evaluation(returns, states):
    counts = np.full((1, 1, 2), 100.0)
    fields = {"returns": np.asarray(returns, float)[None, None], "skill_steps": counts, "skill_starts": counts / 2}
    return Evaluation(**{**dict.fromkeys(Evaluation._fields), **fields, "observations": states})


def test_digits_are_added_until_the_return_is_kept():
    calls = []
    noise = np.random.default_rng(0).normal(size=100)

    def play(policies, deterministic):
        calls.append(policies[0])
        printed_before = sum(each is not learned for each in calls)
        return evaluation(noise if policies[0] is learned or printed_before > 4 else noise - 5, observations())

    learned = cart_pole()
    explanation = explain_played(learned, TaskSet((task("CartPole-v1"),), (1.0,)), play)
    chosen = explain(learned, (task("CartPole-v1"),), states=observations()).numbers["digits"]
    assert explanation.numbers["digits"] == chosen + 2 and explanation.numbers["returns"]["drawn"]["printed"]
    assert "# skill 1: used in 50 % of the steps, 2 steps at a time" in explanation.text


def test_a_loss_that_digits_can_not_mend_is_not_looked_for_again():
    theta = np.random.default_rng(0).normal(size=(2, 4, 17))
    lake, calls = policy_of(CELLS, LAKE_BETA, gibbs(theta), CELLS), []

    def play(policies, deterministic):
        calls.append(policies[0])
        return evaluation(np.arange(100.0) * (policies[0] is lake), np.eye(16, dtype=np.float32))

    explanation = explain_played(lake, TaskSet((task("FrozenLake-v1"),), (1.0,)), play)
    assert len(calls) == 4 and "as printed (49.5 less, 100 %)" in explanation.text


def pair(learned, printed, error=10.0, of_difference=None):
    difference = MeanReturn(printed - learned, error if of_difference is None else of_difference)
    return Pair(MeanReturn(learned, error), MeanReturn(printed, error), difference)


def test_what_may_be_chance_is_called_so():
    lines = returns_in_words(Returns(pair(-200.0, -190.0), pair(-200.0, -300.0), 50))
    assert lines[0] == "Mean return of 50 episodes each, +- its standard error:"
    assert lines[1].endswith("-200 +- 10 as learned, -190 +- 10 as printed (10 more, which may be chance)")
    assert lines[2].endswith("-300 +- 10 as printed (100 less)")  # No share of a negative return.
    assert returns_in_words(Returns(pair(200.0, 100.0), pair(200.0, 200.0), 50))[1].endswith("(100 less, 50 %)")
    assert returns_in_words(Returns(pair(200.0, 200.001), pair(200.0, 200.0), 50))[1].endswith("200 +- 10 as printed")
    assert not pair(200.0, 175.0, of_difference=15.0).loses and pair(200.0, 175.0, of_difference=5.0).loses
    assert not pair(200.0, 190.0, of_difference=1.0).loses, "within the interval of what was learned"


def test_where_the_most_probable_action_is_not_enough_the_text_says_so():
    stuck = returns_in_words(Returns(pair(51.0, 51.0, 1.5), pair(-275.0, -275.0, 15.0), 200))
    assert stuck[-1] == "Draw skills and actions: always the most probable ones return 326 less."
    assert len(returns_in_words(Returns(pair(500.0, 500.0), pair(500.0, 500.0), 200))) == 3


# --- Numbers and wrong inputs


def test_the_dictionary_is_json():
    for policy, name in ((cart_pole(), "CartPole-v1"), (pendulum(), "Pendulum-v1")):
        told = explain(policy, (task(name),), [1.0, 0.0], [5.0, np.nan]).as_dict()
        as_dict = json.loads(json.dumps(told, allow_nan=False))
        assert as_dict["task"] == name and as_dict["skills"][1]["duration"] is None and as_dict["rules"]
        assert as_dict["planes"][0]["within"] > 0 and as_dict["planes"][0]["unit"] == ""
    actions = explain(cart_pole(), (task("CartPole-v1"),)).as_dict()["skills"][0]["actions"]
    assert actions == pytest.approx({"push left": 0.97, "push right": 0.03})


def test_wrong_inputs_are_refused_with_a_cure():
    with pytest.raises(UserError, match="usage: must hold one number for each of 2 skills"):
        explain(cart_pole(), (task("CartPole-v1"),), [0.5, 0.3, 0.2])
    with pytest.raises(UserError, match="durations: must hold one number for each of 2 skills"):
        explain(cart_pole(), (task("CartPole-v1"),), durations=[1.0])
    for wrong in (0, 18, 2.0, True):
        with pytest.raises(UserError, match="--digits: must be an integer from 1 to 17"):
            checked_digits("--digits", wrong)


def test_numbers_for_people():
    assert [number(v) for v in (1.6342, 0.05, 12345.0, 999.7)] == ["1.63", "0.05", "12300", "1000"]
    assert [number(v) for v in (-0.0, 2.5e-7)] == ["0", "2.5e-07"]
    assert [percent(v) for v in (0.0, 0.0004, 0.456, 1.0)] == ["0 %", "<1 %", "46 %", "100 %"]


def test_exact_numbers_have_all_their_digits():
    values = (2.9408, -0.0, 1.0, 0.00012, 12e5, 2.5e-7)
    assert [exact(v) for v in values] == ["2.9408", "0", "1", "0.00012", "1200000", "2.5e-07"]
    for value in np.random.default_rng(0).normal(size=100) * 10.0 ** np.arange(-50, 50):
        assert float(exact(float(value))) == value
    assert [significant(v, 2) for v in (1.249e-4, -987.0, 0.0)] == [1.2e-4, -990.0, 0.0]
