"""What is said of corrected rules is what was done to them: on policies changed by hand, by known angles and distances.

Nothing is played: evaluations are made by hand, too.
"""

import dataclasses
import json

import numpy as np
import pytest

from asap import ASAP
from asap.base.spec import TaskSet
from asap.base.stats import bootstrap_interval
from asap.config.schema import PolicyConfig
from asap.envs.catalog import find
from asap.envs.resolve import resolve
from asap.experience.protocol import Evaluation
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.from_policy import sample_states
from asap.policy.rules.given import Given, given_rules
from asap.show.words.changes import Changes, changes

TASK = find("two-rooms")
RULES = "if x > 0.5 then up\notherwise down"
SHARPNESS = 100.0
RETURNS = np.array([1.0, -20.0, 35.0, 4.0, -7.0, 12.0])


def given(text: str = RULES, task=TASK, hyperplanes: int = 1, **settings) -> Given:
    return given_rules(PolicyConfig(rules=text, hyperplanes=hyperplanes, basis="linear", **settings), (task,))


def with_plane(policy: ASAPPolicy, *beta: float) -> ASAPPolicy:
    """Its one plane is beta @ (1, x, y) > 0."""
    row = np.float32([beta]) * np.float32(SHARPNESS)
    return dataclasses.replace(policy, partition=dataclasses.replace(policy.partition, beta=row))


def told(start: Given, policy: ASAPPolicy, played=None, deterministic: bool = True, task=TASK) -> Changes:
    found = changes(start, policy, TaskSet((task,), (1.0,)), played, deterministic)
    assert json.loads(json.dumps(found.as_dict(), allow_nan=False)) is not None
    return found


def plane_of(found: Changes) -> dict:
    (plane,) = found.as_dict()["planes"]
    return plane


def played(returns=RETURNS, steps=(50, 50), states=None) -> Evaluation:
    """Of one policy on one task."""
    values, counts = np.asarray(returns, float)[None, None], np.array(steps)[None, None]
    return Evaluation(values, values, np.full_like(values, np.nan), values, counts, counts, None, states)


def changed_parts(found: Changes) -> list[str]:
    parts = found.as_dict()["planes"] + found.as_dict()["skills"]
    return [f"plane {part['plane']}" if "plane" in part else part["name"] for part in parts if part["changed"]]


@pytest.mark.parametrize(
    "text",
    [
        RULES,
        "if x < 0.5 within 0.1 then up (33.3 %), left (33.4 %)\notherwise down (51.2345 %)",
        "if 0.912345*x + 0.5773502*y > 0.7886 then up\notherwise down",
        "if x > 0.5 then the largest of\n  up: 1.23456*x - 0.54321*y\n  down: 0.777777*y\notherwise left",
    ],
)
def test_rules_that_did_not_change_are_said_to_be_as_they_were(text):
    start = given(text)
    found = told(start, start.policy())
    assert changed_parts(found) == [] and "learning changed 0 of 3 parts" in found.title
    assert found.text.count("as it was") == 3


def test_a_corrected_test_is_written_in_terms_of_the_given_one():
    start = given("if 2*x > 1 then up\notherwise down")
    near = plane_of(told(start, with_plane(start.policy(), -0.6, 1.0, 1.25)))
    assert near["corrected"].startswith("2.5*y + 2*x > 1.2 m within ")
    far = plane_of(told(start, with_plane(start.policy(), -0.6, 0.1, 1.0)))
    assert far["corrected"].startswith("y + 0.1*x > 0.6 m within ")


@pytest.mark.parametrize("degrees", [3.0, 30.0, -45.0])
@pytest.mark.parametrize("spread", [None, (1.0, 0.1), (0.2, 3.0)])
def test_an_angle_is_that_between_planes_in_deviations_of_the_states(degrees, spread):
    start, pair = given(), None
    states = sample_states(start.policy(), TASK)
    if spread is not None:
        states = np.random.default_rng(0).normal(size=(1000, 4)) * [*spread, 1, 1] + 0.5
        pair = played(states=states), played(states=states)
    slopes = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))]) / states[:, :2].std(0)
    found = told(start, with_plane(start.policy(), -slopes @ states[:, :2].mean(0), *slopes), pair)
    assert plane_of(found)["turned_degrees"] == pytest.approx(abs(degrees), abs=0.01)
    assert changed_parts(found) == ["plane 1"] and f"turned by {abs(degrees):.0f} degrees" in found.text


@pytest.mark.parametrize(
    ("test", "distance"), [("x > 0.5", 0.1), ("x < 0.5", 0.1), ("0.5 > x", 0.1), ("2*x > 1", 0.2), ("-x > -0.5", 0.1)]
)
def test_a_boundary_moves_by_a_distance_in_the_units_of_the_given_sum(test, distance):
    start = given(f"if {test} then up\notherwise down")
    sign = np.sign(np.asarray(start.policy().partition.beta)[0, 1])
    found = told(start, with_plane(start.policy(), -0.6 * sign, sign, 0.0))
    plane = plane_of(found)
    assert plane["moved"] == pytest.approx(distance, abs=1e-5) and plane["turned_degrees"] == pytest.approx(0, abs=0.1)
    states = sample_states(start.policy(), TASK)[:, 0]
    assert plane["other_side"] == pytest.approx(((states > 0.5) & (states < 0.6)).mean(), abs=1e-3)
    assert f"moved by {distance} m, another side in 10 % of the states" in found.text


def test_a_boundary_that_also_turned_moved_as_far_as_the_mean_state_sees_it():
    start = given()
    y = sample_states(start.policy(), TASK)[:, 1].mean()
    found = told(start, with_plane(start.policy(), -0.7 - 0.5 * y, 1.0, 0.5))  # At the mean of y, x is 0.7.
    assert plane_of(found)["moved"] == pytest.approx(0.2, abs=1e-4)


def test_a_plane_turned_round_has_no_distance_and_another_side_everywhere():
    start = given()
    plane = plane_of(found := told(start, with_plane(start.policy(), 0.5, -1.0, 0.0)))
    assert plane["turned_degrees"] == pytest.approx(180, abs=0.1) and plane["moved"] is None
    assert plane["other_side"] == 1 and "turned the other way round, by 180 degrees" in found.text
    assert plane["given"].startswith("x > 0.5 m") and plane["corrected"].startswith("x < 0.5 m")


@pytest.mark.parametrize(("before", "after", "what"), [("", " within 0.2", "softer"), (" within 0.3", "", "sharper")])
def test_a_plane_with_the_same_sides_may_be_softer(before, after, what):
    text = "if x > 0.5{} then up\notherwise down"
    found = told(given(text.format(before)), given(text.format(after)).policy())
    assert changed_parts(found) == [] and f"as it was, but {what}" in found.text


def test_a_plane_without_slopes_has_one_side_everywhere():
    start = given()
    found = told(start, with_plane(start.policy(), 1.0, 0.0, 0.0))
    assert plane_of(found)["corrected"] is None and "one side everywhere" in found.text


def test_a_test_of_what_never_varies_has_neither_angle_nor_distance():
    start, states = given(), np.random.default_rng(0).uniform(size=(500, 4))
    states[:, 0] = 0.25
    plane = plane_of(told(start, with_plane(start.policy(), -0.1, 1.0, 0.0), (played(states=states),) * 2))
    assert (plane["turned_degrees"], plane["moved"], plane["other_side"]) == (0, None, 1)


def test_a_plane_that_was_added_is_no_change_of_the_given_ones():
    start = given(hyperplanes=2)
    grown = start.policy()
    beta = np.array(grown.partition.beta)
    beta[1] = [-0.3, 0.0, 1.0]
    found = told(start, dataclasses.replace(grown, partition=dataclasses.replace(grown.partition, beta=beta)))
    assert changed_parts(found) == [] and "plane 2  added:      y > 0.3 m" in found.text


def test_a_skill_that_changed_its_mind_and_one_that_is_kept():
    start = given("if x > 0.5 then up\notherwise down [keep]")
    other = given("if x > 0.5 then left (80 %)\notherwise down [keep]").policy()
    found = told(start, other)
    first, second = found.as_dict()["skills"]
    assert changed_parts(found) == ["skill 0"]
    assert (first["given"], first["corrected"]) == (["up (100 %)"], ["left (80 %)"])
    assert second["given"] == second["corrected"] == ["down (100 %) [keep]"]
    assert "skill 1  given:      down (100 %) [keep]\n         as it was" in found.text


def test_skills_go_by_the_names_they_were_given():
    start = given("climb: up\nif x > 0.5 then climb\notherwise down")
    other = given("climb: left\nif x > 0.5 then climb\notherwise down").policy()
    assert changed_parts(told(start, other)) == ["climb"]


def test_a_case_that_fell_idle_is_named_by_its_line():
    start = given()
    pair = played(steps=(60, 40)), played(steps=(0, 100))
    found = told(start, start.policy(), pair)
    (case,) = found.as_dict()["unused_cases"]
    assert (case["line"], case["before"], case["after"]) == (1, 0.6, 0)
    assert "line 1: hardly used any more (0 % of the steps, before 60 %): if x > 0.5 then up" in found.text
    assert told(start, start.policy(), pair[:1] * 2).as_dict()["unused_cases"] == []
    assert told(start, start.policy(), pair[1:] * 2).as_dict()["unused_cases"] == []  # It never was in use.
    assert told(start, start.policy()).as_dict()["unused_cases"] == []


def test_a_gain_is_that_on_the_same_episodes():
    """Returns vary by far more than they gain: only the difference of each episode shows it."""
    start, more = given(), np.array([0.5, 0.6, 0.4, 0.5, 0.7, 0.3])
    found = told(start, start.policy(), (played(), played(RETURNS + more)))
    gain = found.as_dict()["gain"]
    assert gain["given"] == (RETURNS.mean(), *bootstrap_interval(RETURNS, statistic=np.mean))
    assert gain["difference"] == pytest.approx((0.5, *bootstrap_interval(more, statistic=np.mean)))
    assert gain["episodes"] == 6 and 0.3 < gain["difference"][1] < 0.5 < gain["difference"][2] < 0.7
    assert ": 0.5 more (0." in found.text and "over 6 episodes, most probable actions" in found.text
    found = told(start, start.policy(), (played(RETURNS + more), played()), deterministic=False)
    assert ": 0.5 less (0." in found.text and "drawn" in found.text
    low, high = (-limit for limit in found.as_dict()["gain"]["difference"][:0:-1])
    assert 0.3 < low < 0.5 < high < 0.7


def test_a_gain_that_may_be_chance_is_said_to_be_so():
    start, mixed = given(), np.array([1.0, -1.0, 2.0, -2.0, 0.5, -0.2])
    found = told(start, start.policy(), (played(), played(RETURNS + mixed)))
    assert "0.05 more, which may be chance" in found.text
    assert ": the same\n" in told(start, start.policy(), (played(), played())).text
    assert told(start, start.policy()).as_dict()["gain"] is None


def test_states_that_have_numbers_are_listed():
    task = resolve("FrozenLake-v1")
    start = given("in row 0 columns 1, 2 then left\notherwise right", task)
    same = told(start, start.policy(), task=task)
    assert changed_parts(same) == [] and plane_of(same)["given"] == "in row 0 columns 1, 2"
    other = given("in row 0 columns 1, 2; row 2 column 3 then left\notherwise up", task).policy()
    found = told(start, other, task=task)
    assert changed_parts(found) == ["plane 1", "skill 1"]
    assert plane_of(found)["corrected"] == "in row 0 columns 1, 2; row 2 column 3"
    assert plane_of(found)["other_side"] == 1 / 16 and "another side in 6 % of the states" in found.text


def test_cases_fall_idle_by_the_shares_of_tasks_and_not_by_their_length():
    """Half of the episodes are of a task of ten steps, all by the first case: it has half of the use, though few steps."""
    tasks = TaskSet((TASK, TASK), (0.5, 0.5))
    start = given()

    def of_two(first, second) -> Evaluation:
        values, steps = np.zeros((1, 2, 2)), np.array([[first, second]])
        return Evaluation(values, values, values, values, steps, steps, None, None)

    found = changes(start, start.policy(), tasks, (of_two((5, 5), (500, 500)), of_two((10, 0), (0, 2000))), True)
    assert found.as_dict()["unused_cases"] == []
    found = changes(start, start.policy(), tasks, (of_two((5, 5), (500, 500)), of_two((0, 10), (1, 1999))), True)
    (case,) = found.as_dict()["unused_cases"]
    assert (case["line"], case["before"], case["after"]) == (1, 0.5, pytest.approx(1 / 4000))


def test_maps_of_given_and_corrected_rules_have_the_same_inputs_and_range(monkeypatch):
    rules = "if pole angle > 0 then push right\notherwise push left"
    model, drawn = ASAP("CartPole-v1", rules=rules, settings=["run.final_episodes=3"]), []
    other = ASAP("CartPole-v1", rules="if cart velocity + 3*pole angle > 0 then push right\notherwise push left")
    model.policy = other.policy
    monkeypatch.setattr("asap.show.figures.side_by_side", lambda figures, title: drawn.extend(figures))
    model.plot(changes=True)
    first, second = (figure.axes[0] for figure in drawn)
    assert first.get_xlim() == second.get_xlim() and first.get_ylim() == second.get_ylim()
    assert (first.get_xlabel(), first.get_ylabel()) == (second.get_xlabel(), second.get_ylabel())
