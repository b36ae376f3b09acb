"""Promise: what an explanation says about a policy is true of that policy."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from asap.base.errors import UserError
from asap.base.numbers import actions_in_words, number, percent, sum_of
from asap.envs.catalog import find
from asap.policy.features import Features, Fourier, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GibbsSkills
from asap.show.words.explain import explain
from asap.show.words.expressions import expression

CONSTANT = Features.of(Polynomial(0), (0,))
LINEAR = Features.of(Polynomial(1), (0, 1))
WAVE = Features.of(Fourier(jnp.array([[3.0, 0.0]]), False), (0, 1))
TWO_ROOMS, FLIPPED = find("two-rooms"), find("flipped-two-rooms")
UP_RIGHT, DOWN_RIGHT = (0.446, 0.003, 0.548, 0.003), (0.003, 0.737, 0.257, 0.003)


def build(beta, probabilities=None, psi=LINEAR, phi=CONSTANT, theta=None, termination=None):
    beta = jnp.asarray(beta, jnp.float32)
    probabilities = np.full((2 ** len(beta), 4), 0.25) if probabilities is None else probabilities
    theta = np.log(probabilities)[..., None] if theta is None else theta
    skills = GibbsSkills(jnp.asarray(theta, jnp.float32), jnp.float32(1))
    return ASAPPolicy(Partition(beta, jnp.float32(20)), skills, psi, phi, termination)


LEARNED = build([[-1.38, 1.63, 0.63]], [UP_RIGHT, DOWN_RIGHT])


@jax.jit
def log_probs_at(policy, observation, m):
    return policy.skill_log_probs(observation, m)


def skill_probs(policy, x, y, task=TWO_ROOMS):
    observation = jnp.array([x, y, 0.9, 0.1], jnp.float32)
    return np.exp(np.asarray(log_probs_at(policy, observation, task.env.descriptor(task.task))))


def test_the_whole_text_of_a_learned_policy():
    assert explain(LEARNED, (TWO_ROOMS,), [0.617, 0.383], [14.23, 9.5]).text == (
        "two-rooms: 1 plane, 2 skills.\n"
        "A skill is drawn at every step.\n"
        "\n"
        "Planes, each given by its positive side:\n"
        "  plane 1: 1.63 x + 0.63 y > 1.38 (x, y in m); from 10 % to 90 % within 0.126 m\n"
        "\n"
        "Where each skill is used:\n"
        "  skill 1 where plane 1 > 0, skill 0 elsewhere\n"
        "\n"
        "What each skill does:\n"
        "  skill 0: right 55 %, up 45 %, else 1 %; used in 62 % of the steps, 14.2 steps at a time\n"
        "  skill 1: down 74 %, right 26 %, else 1 %; used in 38 % of the steps, 9.5 steps at a time"
    )


@pytest.mark.parametrize("beta", [[-1.38, 1.63, 0.63], [1.38, -1.63, -0.63], [-0.5, 0.0, 1.0], [0.002, -0.001, -0.003]])
def test_the_skill_named_for_the_positive_side_lives_there(beta):
    policy = build([beta])
    inequality = explain(policy, (TWO_ROOMS,)).as_dict()["planes"][0]["tasks"]["two-rooms"]["inequality"]
    assert "skill 1 where plane 1 > 0, skill 0 elsewhere" in explain(policy, (TWO_ROOMS,)).text
    for x, y in np.random.default_rng(0).random((40, 2)):
        assert holds(inequality, x, y) == (skill_probs(policy, x, y)[1] > 0.5), (x, y, inequality)


def holds(inequality, x, y):
    """Evaluate the printed words, so that signs, order and rounding are all checked."""
    return eval(as_python(inequality.split(" (x")[0].split(" (y")[0]), {"x": x, "y": y, "sin": np.sin, "pi": np.pi})


def as_python(words):
    words = re.sub(r"([0-9.]) (?=[a-z])", r"\1 * ", words)
    return words.replace("pi (", "pi * (").replace("^", "**")


def test_a_wave_is_named_as_a_wave_and_its_sides_are_right():
    policy = build([[0.83]], psi=WAVE)
    explanation = explain(policy, (find("three-rooms"),))
    plane = explanation.as_dict()["planes"][0]
    assert plane["tasks"]["three-rooms"]["inequality"] == "0.83 sin(pi (3 x)) > 0 (x in m)"
    assert plane["tasks"]["three-rooms"]["soft_width"] is None
    for x in (0.1, 0.5, 0.9):
        assert (0.83 * np.sin(3 * np.pi * x) > 0) == (skill_probs(policy, x, 0.5)[1] > 0.5)


def test_each_used_skill_of_two_planes_has_its_sign_pattern():
    policy = build([[-0.5, 1, 0], [-0.5, 0, 1]])
    text = explain(policy, (TWO_ROOMS,), [0.5, 0.3, 0.2, 0.001]).text
    assert "  skill 1 where plane 1 > 0 and plane 2 < 0\n" in text
    assert "  skill 2 where plane 1 < 0 and plane 2 > 0\n" in text
    assert "skill 3 where" not in text and "hardly ever used: skill 3" in text
    assert skill_probs(policy, 0.9, 0.1).argmax() == 1
    assert skill_probs(policy, 0.1, 0.9).argmax() == 2


def test_without_usage_a_skill_counts_as_used_where_it_owns_area():
    policy = build([[-0.5, 1, 0], [5.0, 0, 1]])  # Plane 2 is positive everywhere: skills 0 and 1 own nothing.
    explanation = explain(policy, (TWO_ROOMS,))
    assert [skill["used"] for skill in explanation.as_dict()["skills"]] == [False, False, True, True]
    assert "plane 2: y > -5 (y in m); from 10 % to 90 % within 0.22 m; positive in the whole" in explanation.text
    assert "hardly ever used: skills 0 and 1" in explanation.text


def test_soft_width_is_the_distance_from_ten_to_ninety_percent():
    width = explain(LEARNED, (TWO_ROOMS,)).as_dict()["planes"][0]["tasks"]["two-rooms"]["soft_width"]
    normal = np.array([1.63, 0.63]) / np.hypot(1.63, 0.63)
    on_the_plane = normal * 1.38 / np.hypot(1.63, 0.63)
    below, above = (skill_probs(LEARNED, *(on_the_plane + side * width / 2 * normal))[1] for side in (-1, 1))
    assert (below, above) == pytest.approx((0.1, 0.9), abs=1e-3)


def test_task_interactions_are_replaced_by_the_numbers_of_each_task():
    psi = Features.of(Polynomial(1), (0, 1), "interactions")
    policy = build(np.random.default_rng(1).normal(size=(1, 9)), psi=psi)
    explanation = explain(policy, (TWO_ROOMS, FLIPPED))
    tasks = explanation.as_dict()["planes"][0]["tasks"]
    assert tasks["two-rooms"]["inequality"] != tasks["flipped-two-rooms"]["inequality"]
    for task in (TWO_ROOMS, FLIPPED):
        assert f"plane 1 in {task.name}: {tasks[task.name]['inequality']}" in explanation.text
        for x, y in np.random.default_rng(0).random((20, 2)):
            positive = skill_probs(policy, x, y, task)[1] > 0.5
            assert holds(tasks[task.name]["inequality"], x, y) == positive


def test_a_plane_that_no_task_changes_is_said_once():
    assert explain(LEARNED, (TWO_ROOMS, FLIPPED)).text.count("plane 1: ") == 1


SHIFT, SCALE = jnp.array([0.5, -1.0]), jnp.array([2.0, 0.25])


@pytest.mark.parametrize("task", ["none", "additive", "interactions"])
@pytest.mark.parametrize(
    "basis",
    [Polynomial(1), Polynomial(2), Polynomial(3), Fourier(jnp.array([[3.0, -1.0], [0.5, 2.0]]), True)],
    ids=["linear", "quadratic", "cubic", "fourier"],
)
def test_expressions_are_in_the_units_of_the_observations(basis, task):
    """Scaling multiplied out and m put in: the words give the same number as the features."""
    features = Features(basis, SHIFT, SCALE, (0, 1), task)
    m = np.array([0.4, -0.7])
    weights = np.random.default_rng(0).normal(size=features.size(2))
    read = expression(features, weights, ("x", "y"), m)
    for x, y in np.random.default_rng(1).random((5, 2)):
        names = {"x": x, "y": y, "sin": np.sin, "pi": np.pi}
        said = read.constant + sum(c * eval(as_python(term), names) for term, c in read.terms)
        meant = weights @ np.asarray(features(jnp.array([x, y]), jnp.asarray(m)))
        assert said == pytest.approx(meant, rel=1e-2, abs=1e-2)  # Frequencies are printed with three digits.


def test_linear_skills_are_described_by_their_scores():
    theta = np.random.default_rng(0).normal(size=(2, 4, 3))
    policy = build([[-0.5, 0, 1]], theta=theta, phi=LINEAR)
    explanation = explain(policy, (TWO_ROOMS,))
    scores = explanation.as_dict()["skills"][1]["scores"]["two-rooms"]
    assert explanation.as_dict()["skills"][1]["actions"] is None
    assert f"score of left: {scores['left']}" in explanation.text
    x, y = 0.3, 0.8
    said = np.array([eval(as_python(score), {"x": x, "y": y}) for score in scores.values()])
    phi = policy.phi(jnp.array([x, y, 0.9, 0.1]), jnp.zeros(2))
    np.testing.assert_allclose(jax.nn.log_softmax(said), policy.skills.log_probs(phi)[1], atol=0.02)


def test_commitment_is_told():
    text = explain(build([[-0.5, 0, 1]], termination=0.1), (TWO_ROOMS,)).text
    assert "A skill is kept until its region is left; inside, 10 % of the steps draw a new one." in text


def test_the_dictionary_is_json_and_keeps_the_learned_numbers():
    explanation = explain(build([[0.0005, 0.0002, -0.0001]]), (TWO_ROOMS,), [1.0, 0.0], [5.0, np.nan])
    as_dict = json.loads(json.dumps(explanation.as_dict(), allow_nan=False))
    assert as_dict["planes"][0]["beta"] == pytest.approx([0.0005, 0.0002, -0.0001])
    assert as_dict["planes"][0]["features"] == ["1", "x", "y"]
    assert as_dict["planes"][0]["tasks"]["two-rooms"]["inequality"].startswith("2 x - y > -5 ")
    assert as_dict["skills"][1]["duration"] is None


def test_a_plane_without_slope():
    assert "plane 1: -0.5 > 0; negative in the whole" in explain(build([[-0.5, 0, 0]]), (TWO_ROOMS,)).text


def test_wrong_inputs_are_refused_with_a_cure():
    with pytest.raises(UserError, match="usage: must hold one number for each of 2 skills"):
        explain(LEARNED, (TWO_ROOMS,), [0.5, 0.3, 0.2])
    several = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), LEARNED)
    with pytest.raises(UserError, match="policy: holds several seeds"):
        explain(several, (TWO_ROOMS,))


def test_numbers_for_people():
    assert [number(v) for v in (1.6342, 0.05, 12345.0, 999.7)] == ["1.63", "0.05", "12300", "1000"]
    assert [number(v) for v in (-0.0, 2.5e-7)] == ["0", "2.5e-07"]
    assert [percent(v) for v in (0.0, 0.0004, 0.456, 1.0)] == ["0 %", "<1 %", "46 %", "100 %"]
    assert sum_of([("x", -1.0), ("y", 0.5)], -2.0) == "-x + 0.5 y - 2"
    assert actions_in_words(("a", "b", "c", "d"), (0.009, 0.6, 0.382, 0.009)) == "b 60 %, c 38 %, else 2 %"
    assert actions_in_words(("a", "b"), (0.0001, 0.9999)) == "b 100 %"
