"""Promise: a teacher of any kind becomes a few rules that play about as well, and the report says how well."""

import dataclasses
import json

import gymnasium
import numpy as np
import pytest

import asap.distill.distillation as distilling
from asap import ASAP, load_rules
from asap.base.episodes import CHECK, EpisodeId
from asap.base.errors import RunError, UserError
from asap.cli.distilling import distill as distill_command
from asap.cli.distilling import find_teacher
from asap.config.schema import Config
from asap.distill.demonstrations import Demonstration, TaughtEnv, Teacher
from asap.distill.distillation import Distilled, agreement, distill, share_explained
from asap.envs.resolve import hosted_task
from asap.policy.features import Features, Polynomial
from asap.policy.partition import Partition
from asap.policy.policy import ASAPPolicy
from asap.policy.skills import GaussianSkills


class Balancer:
    """Cart-pole by hand. Looks at the observation as the environment gives it."""

    def predict(self, obs, deterministic=False):
        assert deterministic and obs.shape == (4,) and obs.dtype == np.float32
        return np.int64(obs[2] + 0.3 * obs[3] > 0), None


class Swinger:
    """The car in the valley by hand: always with the velocity. Knows no bounds."""

    def predict(self, obs, deterministic=False):
        return np.float32([7.0 if obs[1] > 0 else -7.0]), None


class Numbered(gymnasium.Env):
    """Ten places in a row; actions are numbered from 1, and 2 is to the right. The teacher sees the place itself."""

    observation_space = gymnasium.spaces.Discrete(10)
    action_space = gymnasium.spaces.Discrete(2, start=1)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = int(self.np_random.integers(10)), 0
        return self.place, {}

    def step(self, action):
        self.place = int(np.clip(self.place + (1 if action == 2 else -1), 0, 9))
        self.steps += 1
        return self.place, -float(abs(self.place - 6)), False, self.steps == 12, {}


class ToSix:
    def predict(self, obs, deterministic=False):
        assert isinstance(obs, int)
        return (2 if obs < 6 else 1), None


def make_balancer():
    return Balancer()


@pytest.fixture(scope="module")
def balanced() -> Distilled:
    return distill(Balancer(), "CartPole-v1", episodes=10)


def test_a_linear_teacher_is_kept_with_its_plane(balanced):
    assert balanced.teacher_return > 150 and balanced.random_return < 60
    assert balanced.agreement > 0.93 and balanced.kept > 0.9
    slopes = np.asarray(balanced.policy.partition.beta[0, 1:] * balanced.policy.psi.scale)
    assert abs(slopes[3] / slopes[2] - 0.3) < 0.1


def test_the_thresholds_tell_a_student_that_has_learned_the_opposite(balanced):
    room, ids = TaughtEnv(balanced.task, Balancer()), [EpisodeId(0, CHECK, number) for number in range(5)]
    partition = dataclasses.replace(balanced.policy.partition, beta=-balanced.policy.partition.beta)
    opposite = dataclasses.replace(balanced.policy, partition=partition)
    assert agreement(opposite, balanced.task, room.taught(ids)) < 0.1
    assert np.mean([demonstration.total for demonstration in room.watched(opposite, ids, asks=False)]) < 30
    room.close()


def test_the_report_is_in_words_and_json(balanced):
    text = balanced.report()
    assert f"return {balanced.teacher_return:.0f}  (mean of 10 episodes; random play" in text
    assert f"{balanced.num_steps:,} steps" in text and " of its actions, where the teacher plays" in text
    assert json.loads(json.dumps(balanced.as_dict(), allow_nan=False))["kept"] == pytest.approx(balanced.kept)
    # The first demonstrations, four rounds of a quarter, both once more to compare, and at random.
    assert balanced.num_episodes == 10 + 4 * 3 + 10 + 10 + 10


def test_it_becomes_a_model(balanced, tmp_path):
    model = balanced.model
    model.save(tmp_path / "student.asap")
    assert type(model).load(tmp_path / "student.asap").evaluate(episodes=3, deterministic=True)["return"] > 150


def test_the_same_seed_gives_the_same_student(balanced):
    again = distill(make_balancer(), lambda: gymnasium.make("CartPole-v1"), episodes=10)
    np.testing.assert_array_equal(again.policy.partition.beta, balanced.policy.partition.beta)
    assert again.student_return == balanced.student_return


def test_a_teacher_of_controls():
    distilled = distill(Swinger(), "MountainCarContinuous-v0", episodes=5)
    assert distilled.teacher_return > 85 and distilled.random_return < 10
    assert distilled.agreement > 0.8 and distilled.kept > 0.9
    assert "R^2 0." in distilled.report()


def test_numbered_states_and_actions_that_start_at_one():
    distilled = distill(ToSix(), Numbered(), episodes=8)
    assert distilled.agreement > 0.95 and distilled.kept > 0.9


def test_agreement_of_controls():
    told = np.array([[0.0], [1.0], [2.0]])
    assert share_explained(told, told) == 1 and share_explained(told, np.full((3, 1), 1.0)) == 0
    assert (
        share_explained(np.ones((3, 1)), np.ones((3, 1))) == 1
        and share_explained(np.ones((3, 1)), np.zeros((3, 1))) == 0
    )


@pytest.mark.parametrize(("told", "ours"), [(0.0, 0.0), (1.0, 0.5), (-2.0, -1.0), (5.0, 1.0)])
def test_controls_of_a_teacher_are_in_the_units_of_policies(told, ours):
    """The torque of a pendulum goes from -2 to 2; what is beyond counts as its bound."""
    teacher = Teacher(Answers(np.float32([told])), hosted_task("Pendulum-v1", {}))
    np.testing.assert_allclose(teacher.action(np.zeros(3, np.float32)), [ours])


class Leveller:
    """Fills the first tank up to 5 and holds it there; looks at the parts as the environment gives them."""

    def predict(self, obs, deterministic=False):
        assert obs["tank"].shape == (2,) and obs["mode"] in (1, 2, 3)
        return np.array([np.sign(5 - obs["tank"][0]), obs["tank"][1] < 5], int), None


def test_a_teacher_of_combinations_over_parts():
    """Its demonstrations have the number of each combination: 2 * (pump + 1) + valve."""
    task = hosted_task("own_envs:Tanks", {})
    room, ids = TaughtEnv(task, Leveller()), [EpisodeId(0, CHECK, number) for number in range(3)]
    demonstrations = room.taught(ids)
    room.close()
    for demonstration in demonstrations:
        first, second = demonstration.observations[:, 0], demonstration.observations[:, 1]
        np.testing.assert_array_equal(demonstration.actions, 2 * (np.sign(5 - first) + 1) + (second < 5))
        assert demonstration.actions.dtype == np.int32
    for action in (np.array([2, 0]), np.array([0, 0, 0]), np.array([0.0, 1.0]), 1):
        with pytest.raises(UserError, match=r"teacher: gives an action that is not in MultiDiscrete\(\[3 2\]"):
            Teacher(Answers(action), task).action(None)


def test_rules_agree_with_a_teacher_at_its_bound_where_they_go_beyond():
    """They ask for three times the largest torque, and the environment gets the largest."""
    task, maps = hosted_task("Pendulum-v1", {}), [Features.of(Polynomial(0), (0, 1, 2))] * 2
    skills = GaussianSkills(np.full((1, 1, 1), 3, np.float32), np.zeros((1, 1), np.float32))
    policy = ASAPPolicy(Partition(np.zeros((0, 1), np.float32), np.float32(1)), skills, *maps)
    observations = np.zeros((4, 3), np.float32)
    assert agreement(policy, task, [Demonstration(observations, np.ones((4, 1), np.float32), 0.0)]) == 1
    assert agreement(policy, task, [Demonstration(observations, -np.ones((4, 1), np.float32), 0.0)]) == 0


class Answers:
    def __init__(self, action):
        self.action = action

    def predict(self, obs, deterministic=False):
        if isinstance(self.action, Exception):
            raise self.action
        return self.action, None


@pytest.mark.parametrize(
    "teacher, said",
    [
        (object(), r"teacher: has no predict \(got object\); pass an object with predict"),
        (
            Answers(2),
            r"teacher: gives an action that is not in Discrete\(2\) \(got 2\); see that it was made for CartPole-v1",
        ),
        (Answers(np.array([0, 1])), "teacher: gives an action that is not in"),
        (Answers(0.5), "teacher: gives an action that is not in"),
        (Answers("left"), "teacher: gives an action that is not in"),
        (
            Answers(ValueError("no such\nkey")),
            "teacher: predict raised ValueError: no such key; see that it was made for",
        ),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused(teacher, said):
    with pytest.raises(UserError, match=said):
        distill(teacher, "CartPole-v1", episodes=1)


def test_controls_that_are_none_are_refused():
    for action in (np.array([np.nan]), np.zeros(2), None):
        with pytest.raises(UserError, match="teacher: gives an action that is not in Box"):
            distill(Answers(action), "MountainCarContinuous-v0", episodes=1)


def test_other_bad_inputs():
    with pytest.raises(UserError, match="episodes: must be an integer from 1"):
        distill(Balancer(), "CartPole-v1", episodes=0)
    with pytest.raises(UserError, match="env:"):
        distill(Balancer(), "CartPoll-v1")


def test_a_task_of_our_own_has_teachers_too():
    """It is played as the Gymnasium environment that it also is."""

    class UpAndRight:
        def predict(self, obs, deterministic):
            return (0 if obs[0] < 0.5 and obs[1] < 0.8 else 2), None

    found = distill(UpAndRight(), "two-rooms", episodes=4)
    assert found.task.name == "asap/TwoRooms-v0" and found.agreement > 0.9


def test_an_environment_that_misbehaves_is_named():
    class Broken(Numbered):
        def step(self, action):
            return 99, 0.0, False, False, {}

    with pytest.raises(RunError, match="env.step: obs is outside of observation_space.* at episode 0 step 1"):
        distill(ToSix(), Broken(), episodes=1)


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "teachers_here.py").write_text(
        "class T:\n    def predict(self, obs, deterministic):\n        return int(obs[2] + 0.3 * obs[3] > 0), None\n"
        "def make():\n    return T()\n"
    )
    out = str(tmp_path / "student.asap")
    distill_command("teachers_here:make", "CartPole-v1", 1, None, None, 2, 0, [], out, True)
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["teacher"] == "teachers_here:make" and report["student_return"] > 100
    states = np.random.default_rng(0).normal(size=(1000, 4)) * 0.1
    loaded = load_rules("\n".join(report["rules"]), "CartPole-v1").predict(states, deterministic=True)[0]
    own = ASAP.load(out).predict(states, deterministic=True)[0]
    assert (loaded == own).mean() > 0.98 and 0.1 < own.mean() < 0.9
    for name in ("teachers_here", "teachers_here:nothing", "no_such_module_here:make"):
        with pytest.raises(UserError, match="^teacher: "):
            find_teacher(name)
    with pytest.raises(UserError, match="--out: must name a file in a directory that exists"):
        distill_command("teachers_here:make", "CartPole-v1", 1, None, None, 2, 0, [], str(tmp_path), True)


def test_the_best_student_is_kept_and_not_the_last(monkeypatch):
    """Returns of 10, 30, 20 and 5 in the four rounds: the second student it is."""
    returns = iter([10.0, 30.0, 20.0, 5.0])

    class Room:
        def taught(self, ids):
            return [Demonstration(np.zeros((2, 4)), np.zeros(2), 99.0)]

        def watched(self, student, ids):
            return [Demonstration(np.zeros((2, 4)), np.zeros(2), next(returns))]

    monkeypatch.setattr(distilling, "_student", lambda *given: f"student {given[-1]}")
    assert distilling._best_student(Config(), None, Room(), 4) == "student 1"


def test_what_is_kept_counts_from_random_play():
    """The teacher gains 80 over random play, the student 40."""
    returns = {"teacher_return": 100.0, "student_return": 60.0, "random_return": 20.0}
    compared = Distilled(None, None, Config(), 1.0, **returns, num_evaluation=1, num_episodes=1, num_steps=1)
    assert compared.kept == 0.5
    assert dataclasses.replace(compared, teacher_return=20.0).kept is None
