"""Rules that a person writes are read as exactly the policy that they say: planes, sharpness, skills, and the map between.

The numbers are worked out by hand from docs of the language: u is the margin of a plane, whose sigmoid is the chance of
its positive side; `within d` means 90 % at a distance of d, so u = ln(9) * sum / d.
"""

import math
import time

import numpy as np
import pytest

from asap.base.spec import ControlUnits, Spec, Unit
from asap.policy.build import plan_of
from asap.policy.host import Player
from asap.policy.rules.read import read_rules
from asap.policy.rules.rulebook import NEVER, SHARP, Vocabulary
from asap.policy.rules.source import decoded
from asap.policy.rules.sums import Sum
from asap.policy.rules.write import write_rules

CARTPOLE = Vocabulary(
    ("cart position", "cart velocity", "pole angle", "pole angular velocity"), ("push left", "push right")
)
SOCCER = Vocabulary(("ball x", "ball y", "goalkeeper x"), ("move", "dribble", "shoot"))
PENDULUM = Vocabulary(
    ("angle", "angular velocity", "speed"), ("torque",), action_bounds=ControlUnits.of_bounds([-2.0], [2.0])
)
LANDER = Vocabulary(
    ("height", "angle", "angular velocity", "y velocity"),
    ("do nothing", "fire left engine", "fire main engine", "push right"),
)
CAR = Vocabulary(("distance", "speed", "rain"), ("throttle",), action_bounds=ControlUnits.of_bounds([-1.0], [1.0]))
ARM = Vocabulary(("x", "y"), ("lift", "turn"), action_bounds=ControlUnits.of_bounds([0.0, -1.0], [10.0, 3.0]))
LAKE = Vocabulary(
    tuple(f"row {s // 4} column {s % 4}" for s in range(16)), ("left", "down", "right", "up"), numbered=True
)
TAXI = Vocabulary(tuple(f"state {s}" for s in range(20)), ("left", "right"), numbered=True)
PLAIN = Vocabulary(("x", "y", "z"), ("a", "b", "c"))
TASKS = Vocabulary(("x", "y"), ("a", "b"), ("goal x", "goal y"))
METRES = Vocabulary(
    ("ball x", "heading"), ("a", "b"), units=(Unit("m", 50.0, 40.0), Unit("deg", 180.0)), action_bounds=None
)
NINE = math.log(9)


def book_of(text, vocabulary=PLAIN):
    return read_rules(text, vocabulary).book


def margins(text, observation, vocabulary=PLAIN, m=()):
    """u of every plane of the policy, by hand of its numbers: 32 bits hold seven digits."""
    policy = book_of(text, vocabulary).policy()
    plan = plan_of(policy, len(vocabulary.observations), np.array([m], float).reshape(1, -1))
    return Player(plan).policy_of(0).margins(np.asarray(observation, float))


def played(text, observation, vocabulary=PLAIN, m=()):
    """The action, by the policy and by whoever follows the rules by hand."""
    book = book_of(text, vocabulary)
    plan = plan_of(book.policy(), len(vocabulary.observations), np.array([m], float).reshape(1, -1))
    by_policy = Player(plan).act(np.asarray(observation, float))[1]
    values = vocabulary.values(np.array([observation], float), np.array([m], float).reshape(1, -1))
    by_hand = book.act(values)[1][0]
    if vocabulary.action_bounds is None:
        assert by_policy == by_hand
        return vocabulary.actions[by_hand]
    assert vocabulary.action_bounds.theirs(by_policy) == pytest.approx(by_hand, abs=1e-5)
    return by_hand.tolist()


def values_of(text, vocabulary=PLAIN):
    return [test.value for test in book_of(text, vocabulary).tests]


def sums(text, vocabulary=PLAIN):
    """Of every test, the coefficients of single variables by name, and the constant."""
    return [
        ({vocabulary.variables[term.variables[0]]: c for term, c in value.terms.items()}, value.constant)
        for value in values_of(text, vocabulary)
    ]


# ---- The examples of the language -------------------------------------------------------------------------------------


def test_the_first_example():
    text = """
# CartPole-v1. Comments start with a hash sign.
lean = pole angle + 0.2*pole angular velocity          # a named sum, optional

if lean > 0.01 then push right (90 %)
otherwise push left (90 %)
"""
    rules = read_rules(text, CARTPOLE)
    assert sums(text, CARTPOLE) == [({"pole angle": 1.0, "pole angular velocity": 0.2}, -0.01)]
    assert rules.book.region_skills == (1, 0) and rules.warnings == () and rules.uncovered == ()
    policy = rules.book.policy()
    sigma = np.exp(policy.skills.theta[..., 0])
    assert sigma == pytest.approx(np.array([[0.1, 0.9], [0.9, 0.1]]))
    assert policy.psi.inputs == (2, 3)
    assert policy.partition.beta == pytest.approx(np.array([[-0.01, 1.0, 0.2]]) * NINE / SHARP)
    assert played(text, [0, 0, 0.01, 0.001], CARTPOLE) == "push right"
    assert played(text, [9, 9, 0.01, -0.001], CARTPOLE) == "push left"


def test_the_example_of_cases_inside_each_other():
    text = """
near  = 40 - ball x
close = goalkeeper x - ball x
if near < 0 and close > 3 then shoot
if near < 0
  if ball y > 0 then dribble (80 %), shoot (20 %)
  otherwise dribble
otherwise move
"""
    rules = read_rules(text, SOCCER)
    assert sums(text, SOCCER) == [
        ({"ball x": 1.0}, -40.0),
        ({"goalkeeper x": 1.0, "ball x": -1.0}, -3.0),
        ({"ball y": 1.0}, 0.0),
    ]
    # Bits: ball x > 40, close > 3, ball y > 0. Skills in the order of their cases.
    assert rules.book.region_skills == (3, 2, 3, 0, 3, 1, 3, 0)
    assert [case.line for case in rules.cases] == [4, 6, 7, 8]
    assert [case.regions for case in rules.cases] == [(3, 7), (5,), (1,), (0, 2, 4, 6)]
    assert rules.book.skills[1].probabilities(3) == pytest.approx([0, 0.8, 0.2])
    for observation, action in {
        (50, 1, 54): "shoot",
        (50, 1, 52): "dribble",
        (50, -1, 52): "dribble",
        (30, 1, 52): "move",
    }.items():
        assert played(text, observation, SOCCER) == action


def test_the_example_of_numbers_to_set():
    text = """
if speed > 0 then torque = -2*angle - 0.4*angular velocity (+- 0.3)
otherwise torque = 1.5
"""
    book = book_of(text, PENDULUM)
    assert played(text, [0.5, 1.0, 2.0], PENDULUM) == pytest.approx([-1.4])
    assert played(text, [0.5, 1.0, -2.0], PENDULUM) == pytest.approx([1.5])
    assert played(text, [5.0, 1.0, 2.0], PENDULUM) == pytest.approx([-2.0])  # Kept within the bounds.
    policy = book.policy()
    assert np.exp(policy.skills.log_std[0]) * 2 == pytest.approx([0.3])  # The range is from -2 to 2: a unit is 2.
    assert policy.skills.theta[0] * 2 == pytest.approx(np.array([[0.0, -2.0, -0.4]]))
    assert book.skills[1].deviations == (None,)


def test_the_example_of_linear_skills():
    text = """
if height > 0.4 then push right if angle + 0.3*angular velocity > 0, else fire left engine
otherwise the largest of
  do nothing: 0.2
  fire main engine: -3*y velocity - 0.5*height
  fire left engine: 2*angle
"""
    assert played(text, [0.5, 0.1, -0.3, 0], LANDER) == "push right"
    assert played(text, [0.5, 0.1, -0.4, 0], LANDER) == "fire left engine"
    assert played(text, [0.3, 0.05, 0, 0], LANDER) == "do nothing"
    assert played(text, [0.3, 0.2, 0, 0], LANDER) == "fire left engine"
    assert played(text, [0.3, 0.2, 0, -1], LANDER) == "fire main engine"
    scores = book_of(text, LANDER).skills[1]
    assert scores.only == (0, 1, 2) and scores.sums[3] == Sum({}, 0.2 + NEVER - 0.2e-3)


def test_what_a_list_of_scores_leaves_out_never_wins():
    """Not even where all that it names are very small."""
    text = "the largest of\n  b: -100 - x\n  c: -200 - x"
    assert played(text, [1e4, 0, 0]) == "b"
    assert played(text, [-1e4, 0, 0]) == "b"
    assert played("the largest of\n  b: 1e9 - x\n  c: 2e9", [1, 0, 0]) == "c"


def test_the_example_of_named_skills():
    text = """
brake: throttle = -0.4*speed (+- 0.1)
coast: throttle = 0
if distance < 20 and speed > 5 then brake
if rain > 0.5 and speed > 15 then brake
otherwise coast
"""
    book = book_of(text, CAR)
    assert book.names == ("brake", "coast") and len(book.skills) == 2
    policy = book.policy()
    assert policy.num_skills == 2 and policy.partition.num_regions == 16
    assert policy.partition.region_skills == book.region_skills
    # Bits: distance > 20, speed > 5, rain > 0.5, speed > 15; brake is skill 0.
    brakes = [r for r in range(16) if r & 3 == 2 or r & 12 == 12]
    assert [r for r, skill in enumerate(book.region_skills) if skill == 0] == brakes
    assert played(text, [10, 6, 0], CAR) == pytest.approx([-1.0])  # -2.4, kept within the bounds.
    assert played(text, [30, 6, 1], CAR) == pytest.approx([0.0], abs=1e-6)
    assert played(text, [30, 16, 1], CAR) == pytest.approx([-1.0])


# ---- The table of meanings --------------------------------------------------------------------------------------------

SAME_PLANE = [
    "x > 0.5",
    "x >= 0.5",
    "x ≥ 0.5",
    "0.5 < x",
    "0.5 <= x",
    "2*x > 1",
    "x*2 > 1",
    "x/2 > 0.25",
    "-x < -0.5",
    "-3*x + 1 < -0.5",
    "x - 0.5 > 0",
    "0 < x - 0.5",
    "2*(x - 1) + 1 > 0",
    "x + y > 0.5 + y",
    "x^1 > .5",
    "x > 5e-1",
    "X>0.5",
    "obs[0] > 0.5",
    "OBS [ 0 ] > 0.5",
    '"x" > 0.5',
    "half < x",
    "(((x))) > +0.5",
    "--x > 0.5",
]


@pytest.mark.parametrize("test", SAME_PLANE)
def test_a_test_in_another_form_is_the_same_plane(test):
    text = f"half = 1/2\nif {test} and y > 1 then a\nif x > 0.5 then b\nif 0.5 > x and y > 1 then c\notherwise a (40 %)"
    rules = read_rules(text, PLAIN)
    assert len(rules.book.tests) == 2
    for side, action in ((0.6, "a"), (0.4, "c")):
        assert played(text, [side, 2, 0]) == action
    assert played(text, [0.6, 0, 0]) == "b" and played(text, [0.4, 0, 0]) == "a"


@pytest.mark.parametrize("other", ["x > 0.6", "y > 0.5", "x + 1e-3*y > 0.5", "x^2 > 0.5", "x*y > 0.5", "x + y > 0.5"])
def test_other_tests_are_other_planes(other):
    assert len(values_of(f"if x > 0.5 and y > 9 then a\nif {other} then b\nif x > 0.5 then a\notherwise c")) == 3


def test_a_chain_is_two_planes():
    text = "if -1 < x < 2 then a\notherwise b"
    assert sums(text) == [({"x": 1.0}, 1.0), ({"x": 1.0}, -2.0)]
    assert [played(text, [x, 0, 0]) for x in (-2, 0, 3)] == ["b", "a", "b"]
    assert sums("if 2 > x >= -1 then a\notherwise b") == [({"x": 1.0}, -2.0), ({"x": 1.0}, 1.0)]


def test_a_chain_has_one_sharpness():
    text = "if -1 < x < 2 within 0.5 then a\notherwise b"
    assert margins(text, [-0.5, 0, 0]) == pytest.approx([NINE, -5 * NINE])


@pytest.mark.parametrize(
    "text", ["x > 3 within 0.5", "2*x > 6 within 1", "x - 3 > 0 within 0.5", "x/2 > 1.5 within 0.25"]
)
def test_within_is_in_units_of_the_sum(text):
    """Where its sum is 0.5 beyond, the chance is 90 %: so the margin is ln(9)."""
    text = f"if {text} then a\notherwise b"
    assert margins(text, [3.5, 0, 0]) == pytest.approx([NINE], rel=1e-5)
    assert margins(text, [2.5, 0, 0]) == pytest.approx([-NINE], rel=1e-5)
    assert margins(text, [3.0, 0, 0]) == pytest.approx([0], abs=1e-5)


def test_sharp_without_within():
    assert margins("if x > 3 then a\notherwise b", [3.001, 0, 0])[0] > 1000
    assert book_of("if x > 3 then a\notherwise b").tests[0].within is None


def test_within_may_be_said_at_either_use():
    text = "if x > 3 and y > 0 then a\nif 2*x < 6 within 1 then b\notherwise c"
    assert book_of(text).tests[0].within == pytest.approx(0.5)


def test_regions_of_one_skill_add_up():
    """p(skill) is the sum over its regions, each the product over planes."""
    text = "if x > 0 within 1 and y > 0 within 1 then a\nif z > 5 within 1 and x < 0 then a\notherwise b"
    policy = book_of(text).policy()
    p = 1 / (1 + np.exp(-margins(text, [0.3, -0.2, 4.8])))
    meant = sum(
        math.prod(side if bit else 1 - side for side, bit in zip(p, bits))
        for bits in [(1, 1, 0), (1, 1, 1), (0, 0, 1), (0, 1, 1)]
    )
    observation = np.float32([[0.3], [-0.2], [4.8]])
    assert np.exp(policy.skill_log_probs(observation, np.zeros((0, 1)))[0]) == pytest.approx([meant], rel=1e-5)


def test_patterns_that_no_state_has_follow_the_cases_too():
    """Soft planes give them a chance: below 0 and above 1 at once, the first case that holds decides."""
    book = book_of("if x > 1 within 0.5 then a\nif x > 0 within 0.5 then b\notherwise c")
    assert book.region_skills == (2, 0, 1, 0)


PERCENTAGES = [
    ("a (90 %)", [0.9, 0.05, 0.05]),
    ("a (90%)", [0.9, 0.05, 0.05]),
    ("a ( 90 % )", [0.9, 0.05, 0.05]),
    ("a (70 %), b (30 %)", [0.7, 0.3, 0]),
    ("a (70 %) or b (30 %)", [0.7, 0.3, 0]),
    ("a (70 %), b (20 %)", [0.7, 0.2, 0.1]),
    ("a (0 %)", [0, 0.5, 0.5]),
    ("a", [1, 0, 0]),
    ("a (100 %)", [1, 0, 0]),
    ("a (33.3 %), b (33.3 %), c (33.4 %)", [0.333, 0.333, 0.334]),
    ("a (33 %), b (33 %), c (33 %)", [1 / 3, 1 / 3, 1 / 3]),  # What rounding has lost.
    ("action[1] (80 %)", [0.1, 0.8, 0.1]),
    ('"a" (80 %)', [0.8, 0.1, 0.1]),
    ("A (8e1 %)", [0.8, 0.1, 0.1]),
]


@pytest.mark.parametrize("text, chances", PERCENTAGES)
def test_percentages(text, chances):
    theta = book_of(text).policy().skills.theta[0, :, 0]
    assert np.exp(theta) / np.exp(theta).sum() == pytest.approx(chances, abs=1e-6)


def test_spread_is_in_the_actions_units():
    text = "lift = 2*x + 1 (+- 0.5), turn = -y (± 0.25)"
    policy = book_of(text, ARM).policy()
    assert np.exp(policy.skills.log_std) * [5, 2] == pytest.approx(np.array([[0.5, 0.25]]))
    assert played(text, [2, 1], ARM) == pytest.approx([5, -1])
    assert played(text, [9, -2], ARM) == pytest.approx([10, 2])


@pytest.mark.parametrize(
    "text",
    [
        "lift = 1, turn = 2",
        "turn = 2, lift = 1",
        "lift = 1\nturn = 2",
        "lift = 1,\n   turn = 2",
        "if x > 0 then lift = 1, turn = 2\notherwise\n  lift = 1\n  turn = 2",
        "both: lift = 1, turn = 2\nboth",
        "both:\n  lift = 1\n  turn = 2\nif x > 0 then both\notherwise both",
    ],
)
def test_numbers_to_set_on_a_line_or_on_several(text):
    assert played(text, [1, 1], ARM) == pytest.approx([1, 2], abs=1e-5)
    assert len(book_of(text, ARM).skills) == 1


def test_without_a_spread_a_thousandth_of_the_range():
    assert np.exp(book_of("throttle = 0", CAR).policy().skills.log_std) == pytest.approx(np.array([[1e-3]]))


def test_keep():
    text = "slow: a (60 %)\nif x > 0 [keep] and y > 0 within 1 [keep] then b [keep]\nif x > 0 then slow [keep]\notherwise b"
    book = book_of(text)
    assert [test.keep for test in book.tests] == [True, True]
    assert [(skill.shares[0][0], skill.keep) for skill in book.skills] == [(0, True), (1, True), (1, False)]
    either = book_of("if z > 0 then a if x > 0, else b [keep]\notherwise c").skills[0]
    assert either.keep
    assert book_of("the largest of [keep]\n  a: x").skills[0].keep
    assert book_of("lift = 1, turn = 2 [keep]", ARM).skills[0].keep
    assert book_of("in state 3, state 5 [keep] then left\notherwise right", TAXI).tests[0].keep


def test_the_same_words_are_one_skill():
    book = book_of("if x > 0 then a (70 %)\nif y > 0 then b\nif z > 0 then a (70 %)\notherwise a (71 %)")
    assert len(book.skills) == 3
    assert book.region_skills == (2, 0, 1, 0, 0, 0, 1, 0)


def test_named_sums_in_any_order_of_each_other():
    text = "if w > 1 then a\notherwise b\nw = 2*b2 - y\nb2 = d + x\nd = z + 1"
    assert sums(text) == [({"z": 2.0, "x": 2.0, "y": -1.0}, 1.0)]


def test_a_named_sum_is_in_brackets():
    assert sums("w = x + y\nif 2*w - z > 0 then a\notherwise b") == [({"x": 2.0, "y": 2.0, "z": -1.0}, 0.0)]


def test_what_has_a_name_and_no_use_is_told():
    rules = read_rules("w = x\nslow: a\nif x > 0 then b\notherwise c", PLAIN)
    assert rules.warnings == ("w: has a name, but is not used", "slow: has a name, but is not used")


def test_names_in_any_case_and_with_any_spaces():
    text = "if POLE   Angle > 0 THEN Push  RIGHT\nOtherwise push LEFT"
    assert played(text, [0, 0, 1, 0], CARTPOLE) == "push right"
    assert sums("if pole angular velocity > 0 then push left\nelse push right", CARTPOLE)[0][0] == {
        "pole angular velocity": 1.0
    }


ODD = Vocabulary(
    ("x-axis", "a (b)", "speed and heading", "in use", "not used", "50 cm", "x", "then", "ß", "İstanbul", "a.b", "p_1"),
    ("turn-left", "go: on", "in", "not moving", "if needed", "the end", "50 %"),
)
QUOTED = {
    '"x-axis" > 1': 0,
    '"a (b)" > 1': 1,
    "speed and heading > 1": 2,
    "in use > 1": 3,
    '"not used" > 1': 4,
    '"50 cm" > 1': 5,
    "x > 1": 6,
    '"then" > 1': 7,
    "SS > 1": 8,
    "i̇stanbul > 1": 9,
    "a.B > 1": 10,
    "P_1 > 1": 11,
}


@pytest.mark.parametrize("test", QUOTED)
def test_odd_names(test):
    value = values_of(f"if {test} then turn-left\notherwise not moving", ODD)[0]
    assert [term.variables for term in value.terms] == [(QUOTED[test],)]


@pytest.mark.parametrize("action", range(len(ODD.actions)))
def test_every_name_that_is_written_is_read(action):
    for text in (f"action[{action}]", f"if x > 0 then action[{action}]\notherwise turn-left (80 %)"):
        book = book_of(text, ODD)
        again = book_of("\n".join(write_rules(book)), ODD)
        assert again == book


def test_obs_m_and_action_by_number():
    text = "if obs[1] + 2*m[0] > 3 then action[1]\notherwise action[0]"
    assert sums(text, TASKS) == [({"y": 1.0, "goal x": 2.0}, -3.0)]
    assert played(text, [0, 2], TASKS, (1, 0)) == "b" and played(text, [0, 0.5], TASKS, (1, 0)) == "a"


def test_numbers_of_the_task():
    text = "if x - goal x > 0 and x*goal y + y > 0 then a\notherwise b"
    policy = book_of(text, TASKS).policy()
    assert policy.psi.task == "interactions"
    assert book_of("if x > goal x then a\notherwise b", TASKS).policy().psi.task == "additive"
    assert played(text, [2, -1], TASKS, (1, 1)) == "a"
    assert played(text, [2, -3], TASKS, (1, 1)) == "b"
    assert played(text, [2, -1], TASKS, (3, 1)) == "b"


def test_units():
    """ball x is 50 * number + 40 metres: 65 m is the number 0.5."""
    text = "if ball x > 65 m within 5 m then a\notherwise b"
    assert margins(text, [0.6, 0], METRES) == pytest.approx([NINE], rel=1e-5)
    assert played(text, [0.51, 0], METRES) == "a" and played(text, [0.49, 0], METRES) == "b"
    assert margins("far = ball x - 65 m\nif far > 0 within 5 then a\notherwise b", [0.6, 0], METRES) == pytest.approx(
        [NINE], rel=1e-5
    )
    assert played("if 90 deg < heading then a\notherwise b", [0, 0.51], METRES) == "a"


def test_products_and_powers():
    text = "if x^2 + 2*x*y - (y - 1)^2 > 1 then a\notherwise b"
    value = values_of(text)[0]
    found = {term.variables: c for term, c in value.terms.items()}
    assert found == pytest.approx({(0, 0): 1.0, (0, 1): 2.0, (1, 1): -1.0, (1,): 2.0})
    assert value.constant == -2.0
    assert book_of(text).policy().psi.basis.degree == 2
    for x, y in ((1, 1), (1, -1), (0.5, 0.4)):
        assert played(text, [x, y, 0]) == ("a" if x**2 + 2 * x * y - (y - 1) ** 2 > 1 else "b")


def test_waves():
    text = "if sin(pi*(3*x - y + 0.25)) + 0.5*sin(pi*y) > 0.2 within 0.1 then a\notherwise b"
    policy = book_of(text).policy()
    assert sorted(map(tuple, policy.psi.basis.frequencies.tolist())) == [(0.0, 1.0), (3.0, -1.0)]
    for x, y in np.random.default_rng(0).normal(size=(20, 2)):
        meant = math.sin(math.pi * (3 * x - y + 0.25)) + 0.5 * math.sin(math.pi * y) - 0.2
        assert margins(text, [x, y, 0]) == pytest.approx([NINE / 0.1 * meant], rel=1e-3, abs=1e-3)
        assert played(text, [x, y, 0]) == ("a" if meant > 0 else "b")


def test_a_wave_with_a_number_of_the_task():
    text = "if goal x*sin(pi*x) > 0 then a\notherwise b"
    assert played(text, [0.5, 0], TASKS, (1, 0)) == "a" and played(text, [0.5, 0], TASKS, (-1, 0)) == "b"


def test_sums_of_waves_beside_each_other_in_tests_and_skills():
    text = "if sin(pi*x) > 0 then a if y > 0, else b\notherwise c"
    assert played(text, [0.5, 1, 0]) == "a" and played(text, [-0.5, 1, 0]) == "c"


# ---- Numbered states --------------------------------------------------------------------------------------------------

STATES = {
    "row 0 column 1": {1},
    "row 0 columns 1, 3": {1, 3},
    "row 2 columns 1": {9},
    "row 0 columns 1; row 2 columns 1, 2": {1, 9, 10},
    "row 0 columns 1 to 3": {1, 2, 3},
    "row 0 columns 0, 2 to 3; row 2 column 1": {0, 2, 3, 9},
    "row 0 columns 1 and 3, row 1 columns 0, 1": {1, 3, 4, 5},
    "state[3]; obs[4]": {3, 4},
    "ROW 3 Columns 2, 3": {14, 15},
}


@pytest.mark.parametrize("states", STATES)
def test_states_by_name_and_by_range(states):
    text = f"in {states} then left\notherwise up"
    book = book_of(text, LAKE)
    assert {term.variables[0] for term in book.tests[0].value.terms} == STATES[states]
    for s in range(16):
        assert played(text, np.eye(16)[s], LAKE) == ("left" if s in STATES[states] else "up")
    policy = book.policy()
    assert policy.partition.beta.shape == (1, 1 + len(STATES[states]))


def test_states_joined_and_left_out():
    text = "if in states 1 to 9 and not in states 3, 4 then left\notherwise right"
    left = {1, 2, 5, 6, 7, 8, 9}
    assert [played(text, np.eye(20)[s], TAXI) == "left" for s in range(20)] == [s in left for s in range(20)]


def test_lists_that_have_all_states_leave_nothing_uncovered():
    rules = read_rules("in states 0 to 9 then left\nin states 10 to 19 then right", TAXI)
    assert rules.warnings == () and rules.uncovered == ()
    rules = read_rules("in states 0 to 9 then left\nin states 10 to 18 then right", TAXI)
    assert rules.warnings == (
        "no case covers 1 region, for example state 19: any action is taken there; add `otherwise ACTION`",
    )


# ---- What a list of cases may look like -------------------------------------------------------------------------------

SAME_CASES = [
    "if x > 0 then a\nif y > 0 then b\notherwise c",
    "if x > 0 then a\notherwise if y > 0 then b\notherwise c",
    "if x > 0 then a\nelse if y > 0 then b\nelse c",
    "if x > 0 then a\nelse\n  if y > 0 then b\n  else c",
    "if x < 0\n  if y > 0 then b\n  otherwise c\notherwise a",
    "if x < 0 then\n    if y > 0 then b\n    otherwise c\notherwise a",
    "  if x > 0 then a\n  if y > 0 then b\n  otherwise c",
    "\ufeffif x > 0 then a\r\nif y > 0 then b\r\notherwise c\r\n",
    "if x > 0 then a\rif y > 0 then b\rotherwise c",
    "if x > 0 then a   \nif y > 0 then b # \t ß →\n\n   # alone\notherwise c  ",
    "if x\n    + 0 > 0 then a\nif x < 0\n  and y > 0 then b\notherwise c",
    "if x > 0 then a (100 %),\n  b (0 %)\nif y > 0 then b\notherwise c",
    "if\tx > 0 then\ta\nif y > 0 then b\notherwise c",
]


@pytest.mark.parametrize("text", SAME_CASES)
def test_the_same_cases_in_another_form(text):
    for x, y, action in ((1, 1, "a"), (1, -1, "a"), (-1, 1, "b"), (-1, -1, "c")):
        assert played(text, [x, y, 0]) == action
    assert read_rules(text, PLAIN).uncovered == ()


def test_no_test_at_all():
    book = book_of("a (80 %)")
    assert book.tests == () and book.region_skills == (0,)
    policy = book.policy()
    assert policy.partition.num_planes == 0 and policy.num_skills == 1
    assert played("otherwise a", [0, 0, 0]) == "a"
    assert played("slow: b\nslow", [0, 0, 0]) == "b"


def test_a_region_that_no_case_covers_is_uniform_and_told():
    rules = read_rules("if x > 2 then a\nif y > 3 and x < 2 then b", PLAIN)
    assert rules.uncovered == (0,) and rules.book.region_skills == (2, 0, 1, 0)
    assert rules.book.skills[2].probabilities(3) == pytest.approx([1 / 3] * 3)
    (warning,) = rules.warnings
    assert warning.startswith("no case covers 1 region, for example where x is 1.8, y is 2.7: any action is taken")
    box = read_rules("if x > 2 then lift = 1, turn = 2", ARM)
    assert played("if x > 2 then lift = 1, turn = 2", [0, 0], ARM) == pytest.approx([5, 1])
    assert box.book.skills[1].deviations == (5.0, 2.0)


def test_without_otherwise_where_cases_cover_all():
    rules = read_rules("if x > 0 then a\nif x < 0 then b", PLAIN)
    assert rules.warnings == () and rules.uncovered == ()


def test_vocabulary_of_a_spec():
    spec = Spec(("x",), (0.0,), (1.0,), ("a", "b"), 10, 0.9, units=(Unit("m", 2.0, 1.0),), descriptor_names=("goal",))
    vocabulary = Vocabulary.of(spec, 2)
    assert vocabulary.variables == ("x", "goal", "m2")
    assert played("if x > 2 m then a\notherwise b", [0.6], vocabulary, (0, 0)) == "a"


def test_bytes_of_a_file():
    assert decoded("if x > 0 then a # ü".encode(), "f") == "if x > 0 then a # ü"
    assert played(decoded(b"\xef\xbb\xbfa", "f"), [0, 0, 0]) == "a"


# ---- How long it takes ------------------------------------------------------------------------------------------------


def seconds_to_read(text, vocabulary=PLAIN):
    began = time.process_time()
    read_rules(text, vocabulary)
    return time.process_time() - began


def test_two_hundred_lines_take_little_time():
    names = tuple(f"number {v}" for v in range(40))
    vocabulary = Vocabulary(names, tuple(f"choice {a}" for a in range(200)))
    lines = [f"sum {k} = " + " + ".join(f"{j}.5*number {(7 * k + j) % 40}" for j in range(8)) for k in range(40)]
    lines += [
        "if " + " and ".join(f"sum {k} {'>' if r >> k & 1 else '<'} {k}" for k in range(8)) + f" then choice {r}"
        for r in range(160)
    ]
    seconds_to_read("choice 1", vocabulary)
    # The hook that checks shapes in the tests takes most of it: 0.1 s without. A busy machine takes three times as long.
    assert seconds_to_read("\n".join([*lines, "otherwise choice 199"]), vocabulary) < 10.0


PARALLEL = {
    "one direction": [f"x > {k}" for k in range(10)],
    "five directions": [f"obs[{k // 2}] + 0.1*obs[5] > {k % 2}" for k in range(10)],
    "a plane": [f"{math.cos(k):.3f}*x + {math.sin(k):.3f}*y > 0.{k}" for k in range(10)],
    "three dimensions": [f"{math.cos(k):.3f}*x + {math.sin(k):.3f}*y + 0.{k}1*z > 0.{k}" for k in range(10)],
}


@pytest.mark.parametrize("which", PARALLEL)
def test_ten_tests_that_bound_each_other(which):
    vocabulary = Vocabulary(("x", "y", "z", "u", "v", "w"), ("a", "b"))
    text = "\n".join(f"if {test} then a ({90 - k} %)" for k, test in enumerate(reversed(PARALLEL[which])))
    seconds_to_read("if x > 0 and y > 0 then a\nif x + y > 1 then b\notherwise b", vocabulary)  # Imports SciPy.
    assert seconds_to_read(f"{text}\notherwise b", vocabulary) < 3.0
