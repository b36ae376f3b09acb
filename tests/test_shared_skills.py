"""Regions may share a skill: its probability is the sum over them, every learner trains it, surgery keeps the policy, and it
is saved and loaded. (Gradients of both theorems: test_gradients.)"""

import numpy as np
import pytest
from command_line import asap

from asap import ASAP
from asap.base.errors import UserError
from asap.compose import compose
from asap.policy.build import plan_of
from asap.policy.host import Player
from asap.policy.partition import Partition
from asap.policy.surgery import drop_plane, grow, merge_sides, merge_skills, unshared

SHARED = (0, 1, 1, 2, 0, 2, 2, 1)
STATES = np.random.default_rng(0).uniform(-1, 1, size=(4, 200)).astype(np.float32)
TASK = np.random.default_rng(1).uniform(-1, 1, size=(2, 200)).astype(np.float32)


def act(policy) -> np.ndarray:
    return np.exp(policy.action_log_probs(STATES, TASK))


def test_the_probability_of_a_skill_is_the_sum_over_its_regions():
    """Margins of log 3 and log 4: sides of 3/4 and 4/5. Regions 00, 01, 10, 11 have 1/20, 3/20, 4/20 and 12/20."""
    beta = np.log(np.float32([[3.0], [4.0]]))
    partition = Partition(beta, np.float32(1), (0, 1, 1, 0))
    assert (partition.num_regions, partition.num_skills) == (4, 2)
    np.testing.assert_allclose(np.exp(partition.log_probs(np.ones(1, np.float32))), [13 / 20, 7 / 20], rtol=1e-5)


@pytest.mark.parametrize("termination", [None, 0.1])
def test_many_regions_are_summed_as_few_are(new_policy, termination):
    """Beyond 16 regions there are array operations in place of written-out sums."""
    few = new_policy(3, "linear", termination=termination, region_skills=SHARED)
    many = grow(grow(few, np.zeros(3, np.float32)), np.zeros(3, np.float32))
    assert (many.partition.num_regions, many.num_skills) == (32, 12)
    np.testing.assert_allclose(act(many), act(few), atol=1e-5)


@pytest.mark.parametrize("termination", [None, 0.3])
def test_the_host_plays_what_the_policy_says(new_policy, termination):
    policy = new_policy(3, "linear", termination=termination, region_skills=SHARED)
    player, m = Player(plan_of(policy, 4, TASK[:, :1].T)), TASK[:, :1]
    for previous in (-1, 0, 2):
        skills, actions = policy.likeliest(STATES, np.repeat(m, 200, 1), np.int32(previous))
        played = [player.act(x, previous) for x in STATES.T.astype(float)]
        assert [skill for skill, _ in played] == np.asarray(skills).tolist()
        assert [action for _, action in played] == np.asarray(actions).tolist()
    generator = np.random.default_rng(5)
    drawn = [player.act(STATES[:, 0].astype(float), 2, False, generator)[0] for _ in range(4000)]
    expected = np.exp(policy.skill_log_probs(STATES[:, 0], m[:, 0], np.int32(2)))
    np.testing.assert_allclose(np.bincount(drawn, minlength=3) / 4000, expected, atol=0.03)


def test_surgery_keeps_the_policy(new_policy):
    policy = new_policy(3, region_skills=SHARED)
    apart = unshared(policy)
    assert apart.partition.region_skills is None and apart.num_skills == 8
    np.testing.assert_allclose(act(apart), act(policy), atol=1e-6)
    grown = grow(policy, np.zeros(3, np.float32))
    assert grown.num_skills == 6
    np.testing.assert_allclose(act(drop_plane(grown, 3, 1)), act(policy), atol=1e-6)
    np.testing.assert_allclose(act(merge_sides(grown, 3, np.ones(6, np.float32))), act(policy), atol=1e-6)


def test_merging_until_one_is_left(new_policy):
    policy, usage = new_policy(3, region_skills=SHARED), np.ones(3, np.float32)
    merged = merge_skills(policy, [0, 2], usage)
    assert merged.partition.region_skills == (0, 1, 1, 0, 0, 0, 0, 1)
    alone = merge_skills(merged, [0, 1], usage[:2])
    assert (alone.partition.region_skills, alone.num_skills) == ((0,) * 8, 1)


@pytest.mark.parametrize("learner", ["reinforce", "actor-critic", "natural", "ppo"])
@pytest.mark.parametrize("task", ["two-rooms", "CartPole-v1"])
def test_every_learner_trains_it_and_it_is_saved(task, learner, tmp_path):
    small = ["learn.batch_episodes=2", "learn.lanes=2", "run.chunk=1", "run.candidates=0", "run.eval_episodes=2"]
    settings = [*small, "run.final_episodes=2", "policy.region_skills=[0, 1, 1, 2]"]
    model = ASAP(task, hyperplanes=2, learner=learner, seed=1, settings=settings)
    model.learn(800) if task != "two-rooms" else model.learn(episodes=2)
    assert model.policy.partition.region_skills == (0, 1, 1, 2) and model.policy.skills.theta.shape[0] == 3
    model.save(tmp_path / "model.asap")
    loaded = ASAP.load(tmp_path / "model.asap")
    assert loaded.policy.partition.region_skills == (0, 1, 1, 2)
    np.testing.assert_array_equal(loaded.policy.skills.theta, model.policy.skills.theta)


@pytest.mark.parametrize(
    ("skills", "must_contain"),
    [
        ([0, 1, 1], "2^2 regions (got 3 numbers)"),
        ([0, 0, 2, 2], "no region has skill 1"),
        ([0, 0, -1, 0], "policy.region_skills"),
    ],
)
def test_a_map_that_is_none_is_refused(skills, must_contain):
    with pytest.raises(UserError) as refused:
        compose(["two-rooms"], {"policy.hyperplanes": 2, "policy.region_skills": skills})
    assert must_contain in str(refused.value)


def test_the_command_line_takes_it(tmp_path, capsys, monkeypatch):
    options = ["--set", "policy.region_skills=[0, 1, 1, 0]", "--set", "run.eval_episodes=2", "--episodes", "3"]
    code = asap(["train", "two-rooms", "-k", "2", *options, "--out", str(tmp_path / "run")], capsys, monkeypatch)[0]
    assert code == 0
