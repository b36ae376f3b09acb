"""Planes are added and turned, and skills merged, by command: each result is a model that every command takes."""

import json

import numpy as np
import pytest
from command_line import asap
from own_envs import LENGTH, Follows, Sides

from asap import ASAP, UserError

SMALL = ["run.final_episodes=3", "learn.batch_steps=48"]
GO = "if x > 0 then go\notherwise stay"
BACKWARDS = "if x > 0 then stay\notherwise go"
STATES = np.float32([[-0.9, 0.3], [-0.1, -0.5], [0.1, 0.0], [2.5, 0.9]])


class Beyond(Sides):
    def worth(self, action) -> float:
        return float(action == (self.place[0] > 1))


def sides(rules: str, env=Sides) -> ASAP:
    return ASAP(env, rules=rules, settings=SMALL)


def acts(model: ASAP) -> list:
    return np.asarray(model.predict(STATES, deterministic=True)[0]).ravel().tolist()


# ---- In Python -------------------------------------------------------------------------------------------------------


def test_a_plane_that_is_named_is_turned():
    model = sides("if x > 0 and y > 0.2 then go\nif x > 0 then go\notherwise stay")
    assert acts(model) == [0, 0, 1, 1] and acts(model.flip(1)) == [1, 1, 0, 0]
    np.testing.assert_allclose(model.flip(2, 1).policy.partition.beta, -model.policy.partition.beta, rtol=1e-5)


def test_the_best_turn_is_found():
    """Turned, the plane of x is right everywhere, and that of y right nowhere."""
    model = sides("if y > 0 and x > 0 then stay\nif x > 0 then stay\notherwise go").flip()
    assert acts(model) == [0, 0, 1, 1] and model.evaluate(5)["return"] == LENGTH


def test_a_plane_at_a_test_changes_nothing_until_learning_parts_the_sides():
    model = sides("if x > 0 then go (80 %)\notherwise stay (90 %)")
    grown = model.grow("y > 0.25", episodes=4)
    assert (grown.policy.partition.num_planes, grown.policy.num_skills) == (2, 4)
    x, m = STATES.T, np.zeros((0, 4), np.float32)
    before, after = (np.exp(each.policy.action_log_probs(x, m)) for each in (model, grown))
    np.testing.assert_allclose(before, after, atol=1e-5)
    beta, psi = grown.policy.partition.beta[1], grown.policy.psi
    heights = beta @ np.asarray(psi(np.float32([[0, 2, -1], [0.25, 0.75, -0.25]]), np.zeros((0, 3), np.float32)))
    # On the plane, and as far to both sides of it.
    assert abs(heights[0]) < 1e-6 and heights[1] > 0 and heights[1] == pytest.approx(-heights[2], rel=1e-4)


def test_a_plane_is_found_where_it_helps():
    """Going is right in half of the states, those with x over its middle, which is 1."""
    model = sides("go (60 %), stay (40 %)", Beyond)
    grown = model.grow(episodes=20)
    assert grown.policy.partition.num_planes == 1
    assert grown.evaluate(20)["return"] > 0.85 * LENGTH and model.evaluate(20)["return"] < 0.65 * LENGTH


def test_two_skills_become_what_both_did():
    rules = "if x > 1 then go (90 %)\nif x > 0 then go (90 %)\notherwise stay (90 %)"
    model = sides(rules.replace("(90 %)\nif", "(80 %)\nif"))
    merged = model.merge(episodes=30)
    assert merged.policy.num_skills == model.policy.num_skills - 1
    assert acts(merged) == acts(model) == [0, 0, 1, 1]
    assert sides(GO).merge(0, 1, episodes=4).policy.num_skills == 1


def test_numbers_to_set_are_grown_turned_and_merged():
    model = sides("if x > 0 then force = 0.5*x (+- 0.1)\notherwise force = 0.2 (+- 0.1)", Follows)
    assert model.grow("y > 0").policy.num_skills == 4 and model.grow(episodes=3).policy.num_skills == 4
    line = model.merge(0, 1, episodes=3)
    assert line.policy.num_skills == 1 and line.policy.skills.theta.shape[-1] == 3
    np.testing.assert_allclose(model.flip(1).predict([1.0, 0.0], deterministic=True)[0], [0.2], atol=1e-3)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda model: model.flip(2), "there is no such one .got 2.; choose from 1 to 1"),
        (lambda model: model.merge(0), "must be two different ones"),
        (lambda model: model.merge(1, 5), "choose from 0 to 1"),
        (lambda model: model.grow("z > 0"), "z"),
        (lambda model: model.grow("x > 0 and y > 0"), "is no plane over the policy's features"),
        (lambda model: model.grow("x*y > 0"), "is no plane over the policy's features"),
        (lambda model: model.grow("x > 0\ny > 0"), "must be one test"),
        (lambda model: sides("go (90 %)").flip(), "there is none to turn"),
        (lambda model: sides("go (90 %)").merge(), "there are no two to merge"),
        (lambda model: sides(GO.replace("0", "0 [keep]")).flip(1), "plane 1 is kept"),
        (lambda model: sides(GO + " [keep]").merge(0, 1), "is kept"),
        (lambda model: model.grow(episodes=0), "episodes"),
    ],
)
def test_what_cannot_be_done_is_one_line(change, text):
    with pytest.raises(UserError, match=text) as raised:
        change(sides(GO))
    assert "\n" not in str(raised.value)


# ---- By command ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("run")
    settings = [*SMALL, "run.candidates=4", "learn.critic_features=8"]
    ASAP("own_envs:Sides", seed=0, settings=settings).learn(300, run=folder / "run")
    return str(folder / "run")


@pytest.mark.parametrize(
    ("command", "planes", "skills"),
    [
        (["grow", "--where", "y > 0.5"], 2, 4),
        (["flip", "--plane", "1"], 1, 2),
        (["merge", "--skill", "0", "--skill", "1"], 1, 1),
    ],
)
def test_every_command_takes_the_result(run, command, planes, skills, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place, few = str(tmp_path / "changed.asap"), ["--episodes", "3"]
    code, out, _ = asap([command[0], run, *command[1:], *few, "--out", place, "--json"], capsys, monkeypatch)
    report = json.loads(out.splitlines()[-1])
    assert code == 0 and (report["planes"], report["skills"], report["model"]) == (planes, skills, place)
    assert report["gained"] == pytest.approx(report["return"] - report["return_before"])
    every = [
        ["train", "--from", place, "--steps", "60", "--out", "next"],
        ["explain", place],
        ["eval", place, *few],
        ["plot", place, "--out", "pictures"],
        ["transfer", place, "own_envs:Sides", "--steps", "60", "--out", "other"],
        ["prune", place, *few, "--out", "pruned.asap"],
    ]
    for then in every if planes == 2 else every[:2]:
        code, _, error = asap(then, capsys, monkeypatch)
        assert code == 0, (then, error)
    assert ASAP.load("next").policy.num_skills == skills


def test_by_default_the_result_stands_in_the_run(run, capsys, monkeypatch):
    code, out, _ = asap(["flip", run, "--episodes", "3"], capsys, monkeypatch)
    assert code == 0 and out.startswith("plane 1 turned\nreturn ") and out.rstrip().endswith("flipped.asap")
    assert ASAP.load(f"{run}/flipped.asap").policy.partition.num_planes == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["flip", "RUN", "--plane", "7"],
        ["merge", "RUN", "--skill", "0"],
        ["grow", "RUN", "--where", "height > 0"],
        ["grow", "RUN", "--episodes", "0"],
        ["flip", "nothing"],
        ["merge", "RUN", "--trained-seed", "9"],
    ],
)
def test_an_error_is_one_line(run, arguments, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, error = asap([run if part == "RUN" else part for part in arguments], capsys, monkeypatch)
    assert code in (1, 2) and error.startswith("error: ") and len(error.splitlines()) == 1
