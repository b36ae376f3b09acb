"""Transfer: flipped signs, the search for them and its cost, warm starts seed by seed, and frozen parts."""

import json
import shutil

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from command_line import asap

from asap import ASAP
from asap.base.spec import TaskSet
from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings
from asap.envs import catalog
from asap.experience.choose import choose
from asap.experience.protocol import EpisodeIds, Evaluation, Experience, OnProgress, ignore_progress
from asap.learn.search import Trials
from asap.learn.symmetries import search_symmetries
from asap.policy.policy import ASAPPolicy
from asap.policy.surgery import flip, sign_patterns
from asap.runs.directory import Run
from asap.runs.signals import StopRequest

SMALL = [
    part
    for item in ("learn.window=16", "run.chunk=1", "run.eval_episodes=4", "run.final_episodes=4")
    for part in ("--set", item)
]


def test_a_flipped_plane_swaps_the_skills_of_its_sides(new_policy):
    policy = new_policy(2)
    x, m = jnp.asarray([0.3, 0.8, 0.1, 0.5]), jnp.asarray([0.2, -0.4])
    before = np.asarray(policy.skill_log_probs(x, m)).reshape(2, 2)  # Plane 2, plane 1.
    after = np.asarray(flip(policy, jnp.asarray([-1.0, 1.0])).skill_log_probs(x, m)).reshape(2, 2)
    np.testing.assert_allclose(after, before[:, ::-1], rtol=1e-5)
    again = flip(flip(policy, jnp.asarray([-1.0, 1.0])), jnp.asarray([-1.0, 1.0]))
    assert (again.partition.beta == policy.partition.beta).all()


def test_all_patterns_once_and_the_first_flips_nothing():
    patterns = np.asarray(sign_patterns(3))
    assert len(np.unique(patterns, axis=0)) == 8 and set(patterns.ravel()) == {-1.0, 1.0}
    assert (patterns[0] == 1).all()


def walker(task: str) -> ASAPPolicy:
    """Up and right in the left room, down and right in the right one: solves 2R."""
    from asap.config.schema import PolicyConfig
    from asap.policy.build import build_policy

    policy = build_policy(PolicyConfig(start="approximate"), (catalog.find(task),), np.random.default_rng(0))
    skills = np.log([[0.45, 0.05, 0.45, 0.05], [0.05, 0.45, 0.45, 0.05]])
    return eqx.tree_at(lambda p: p.skills.theta, policy, np.float32(skills[..., None]))


@pytest.mark.parametrize(("task", "expected"), [("two-rooms", 1), ("flipped-two-rooms", -1)])
def test_the_search_finds_the_signs_and_counts_its_episodes(task, expected, tmp_path):
    policy = walker(task)
    config, tasks = compose([task], {"run.search_episodes": 3})
    found, _ = search_symmetries(config, choose(config, tasks, "0", tmp_path, pytest.fail), 0, policy)
    np.testing.assert_array_equal(found.policy.partition.beta, expected * policy.partition.beta)
    totals = found.totals
    assert totals.episodes.tolist() == [6]
    assert 3 <= totals.successes[0] <= 6 and totals.steps[0] > 3 * 20


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    from asap.cli.learning import create_run
    from asap.model.training import train_run

    small = [*SMALL[1::2], "learn.lanes=4"]
    config, tasks = compose(["two-rooms"], {"run.episodes": 8, "run.seeds": 2}, overrides=parse_settings(Config, small))
    path = tmp_path_factory.mktemp("source ü") / "run"
    train_run(create_run(config, tasks, str(path), ""), config, tasks, StopRequest())
    return path


@pytest.mark.parametrize(("freeze", "kept"), [("skills", "theta"), ("partition", "beta")])
def test_a_frozen_part_stays_bit_for_bit(source, freeze, kept, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    arguments = [
        "transfer",
        str(source),
        "flipped-two-rooms",
        "--freeze",
        freeze,
        "--episodes",
        "4",
        "--out",
        str(out),
        "--json",
    ]
    code, printed, err = asap(arguments, capsys, monkeypatch)
    assert code == 0, err
    before, after = (ASAP.load(path).policies for path in (source, out))
    parts = {"theta": lambda p: p.skills.theta, "beta": lambda p: p.partition.beta}
    for name, part in parts.items():
        same = (np.asarray(part(before)) == np.asarray(part(after))).all()
        assert same == (name == kept)
    report = json.loads(printed)
    assert report["source"] == str(source) and report["task"] == "flipped-two-rooms"
    assert report["start"]["episodes"] == [0, 0]


def test_the_search_is_paid_from_the_budget(source, tmp_path, capsys, monkeypatch):
    out = tmp_path / "run"
    arguments = [
        "transfer",
        str(source),
        "flipped-two-rooms",
        "--search-symmetries",
        "--episodes",
        "6",
        "--out",
        str(out),
        "--json",
    ]
    code, printed, err = asap(arguments, capsys, monkeypatch)
    assert code == 0, err
    report = json.loads(printed)
    # A fifth of six episodes is spent after two images with an episode each.
    assert report["start"]["episodes"] == [2, 2]
    assert [(one["seed"], one["tried"], one["episodes"]) for one in report["symmetries"]] == [(0, 2, 2), (1, 2, 2)]
    assert err.count("note: seed ") == 2 and "of 2 images tried in 2 episodes: " in err


def test_an_environment_that_does_not_tell_success(capsys, monkeypatch, tmp_path):
    """JSON has no NaN, and words have none either."""
    small = ["--set", "run.candidates=0", "--set", "run.eval_episodes=2", "--set", "run.final_episodes=2"]
    cart, again = str(tmp_path / "cart"), ["transfer", str(tmp_path / "cart"), "CartPole-v1", "--episodes", "1"]
    assert asap(["train", "CartPole-v1", "--steps", "1", *small, "--out", cart], capsys, monkeypatch)[0] == 0
    code, out, _ = asap([*again, "--out", str(tmp_path / "a")], capsys, monkeypatch)
    assert code == 0 and out.startswith("before learning   return ") and "nan" not in out and "means" not in out
    out = asap([*again, "--out", str(tmp_path / "b"), "--json"], capsys, monkeypatch)[1]
    assert "NaN" not in out and json.loads(out.splitlines()[-1])["start"]["success"] is None


@pytest.mark.parametrize(
    ("arguments", "field", "text"),
    [
        (["flipped-two-rooms", "--freeze", "all"], "--freeze", "skills or partition"),
        (["flipped-two-rooms", "--seeds", "3"], "run.source", "2 seeds"),
        (["three-rooms"], "run.source", "K = 1 over 3 features, 2 skills over 4 actions"),
        (["four-rooms"], "task", "unknown"),
    ],
)
def test_what_does_not_fit_is_refused(source, arguments, field, text, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = asap(["transfer", str(source), *arguments], capsys, monkeypatch)
    assert code == 2 and err.startswith(f"error: {field}") and text in err and err.count("\n") == 1


def test_an_unknown_source_is_refused(tmp_path, capsys, monkeypatch):
    code, _, err = asap(["transfer", str(tmp_path / "nothing"), "two-rooms"], capsys, monkeypatch)
    assert code == 2 and err.count("\n") == 1


class Paying(Experience):
    """The sign of the plane that is good for the first task is bad for the second."""

    together, most_updates, least_episodes = True, 1, 1

    def __init__(self, tasks: TaskSet, good: float):
        self.tasks, self.good = tasks, good

    def evaluate(
        self,
        policies: ASAPPolicy,
        ids: EpisodeIds,
        num_episodes: int,
        deterministic: bool,
        on_progress: OnProgress = ignore_progress,
    ) -> Evaluation:
        signs = self.good * np.sign(policies.partition.beta[:, 0, 0])
        returns = np.repeat(np.stack([signs, -signs], 1)[..., None], num_episodes, -1)
        nothing = np.zeros((len(signs), 2, 2), int)
        return Evaluation(returns, returns, returns, np.ones_like(returns), nothing, nothing)


@pytest.mark.parametrize(("weights", "expected"), [((1.0, 9.0), -1), ((9.0, 1.0), 1)])
def test_the_search_weighs_the_tasks(weights, expected):
    """The task that is played more decides."""
    names = [f"{name}:{weight}" for name, weight in zip(("two-rooms", "flipped-two-rooms"), weights)]
    config, tasks = compose(names, {"run.search_episodes": 3})
    policy = walker("two-rooms")
    found, _ = search_symmetries(config, Paying(tasks, np.sign(policy.partition.beta[0, 0])), 0, policy)
    np.testing.assert_array_equal(found.policy.partition.beta, expected * policy.partition.beta)


def test_no_episode_of_the_search_is_played_twice():
    """Three policies with two episodes each are numbers 0 to 5; what plays next begins with 6."""
    config, tasks = compose(["two-rooms", "flipped-two-rooms"], {})
    asked, policy = [], walker("two-rooms")

    class Asked(Paying):
        def evaluate(self, policies, ids, num_episodes, deterministic, on_progress=ignore_progress):
            asked.extend(range(first, first + num_episodes) for first in ids.first)
            return super().evaluate(policies, ids, num_episodes, deterministic)

    trials = Trials(config, Asked(tasks, 1.0), seed=0)
    trials.play([policy] * 3, 2)
    trials.play([policy] * 2)
    assert [number for numbers in asked for number in numbers] == list(range(8))
    assert trials.start.totals.episodes.tolist() == [8, 8]


# ---- What is taken over, and what is not --------------------------------------------------------------------------


def test_settings_of_a_transfer_count(source, tmp_path, capsys, monkeypatch):
    """What was learned is taken over; how sharp the planes are is a setting, and may be another."""
    out = tmp_path / "run"
    changed = ["--freeze", "partition", "--set", "policy.alpha_beta=5.0", "--episodes", "4", "--out", str(out)]
    assert asap(["transfer", str(source), "flipped-two-rooms", *changed], capsys, monkeypatch)[0] == 0
    before, after = (ASAP.load(path).policies.partition for path in (source, out))
    np.testing.assert_array_equal(before.beta, after.beta)
    assert before.alpha_beta.tolist() == [20.0, 20.0] and after.alpha_beta.tolist() == [5.0, 5.0]


def test_a_model_starts_from_the_run_that_its_settings_name(source):
    """As `asap transfer` does; frozen planes show whose they are."""
    frozen = ["learn.step_size_beta=0.0", "run.seeds=2", f"run.source={source}", "learn.lanes=4", *SMALL[1::2]]
    model = ASAP("flipped-two-rooms", settings=frozen).learn(episodes=4)
    np.testing.assert_array_equal(model.policies.partition.beta, ASAP.load(source).policies.partition.beta)


def test_a_transferred_run_goes_on_without_its_source(source, tmp_path, capsys, monkeypatch):
    copy, out = tmp_path / "source", tmp_path / "run"
    shutil.copytree(source, copy)
    assert asap(["transfer", str(copy), "two-rooms", "--episodes", "4", "--out", str(out)], capsys, monkeypatch)[0] == 0
    shutil.rmtree(copy)
    code, _, err = asap(["train", "--resume", str(out), "--episodes", "20"], capsys, monkeypatch)
    assert code == 0, err
    assert (Run.open(out).latest().arrays["totals.episodes"] >= 20).all()


# ---- Environments of Gymnasium ------------------------------------------------------------------------------------


HOSTED = ["run.candidates=16", "run.final_episodes=3", "learn.batch_steps=64"]


@pytest.fixture(scope="module")
def hosted_source(tmp_path_factory):
    path = tmp_path_factory.mktemp("hosted") / "run"
    ASAP("CartPole-v1", settings=HOSTED).learn(1000, run=path)
    return path


def test_an_environment_starts_from_another_run(hosted_source, tmp_path, capsys, monkeypatch):
    """A policy of CartPole goes on in CartPole, with its planes, its skills and its scaling: nothing is searched
    for."""
    out = tmp_path / "run"
    frozen = ["--set", "learn.step_size_theta=0.0", "--set", "learn.step_size_beta=0.0", "--set", "run.steps=300"]
    arguments = ["transfer", str(hosted_source), "CartPole-v1", *frozen, "--out", str(out), "--json"]
    code, printed, err = asap(arguments, capsys, monkeypatch)
    assert code == 0, err
    assert json.loads(printed)["start"]["episodes"] == [0]
    x = np.random.default_rng(0).normal(size=(4, 50)).astype(np.float32)
    heights = [
        policy.partition.beta @ np.asarray(policy.psi(x, np.zeros((0, 50), np.float32)))
        for policy in (ASAP.load(path).policy for path in (hosted_source, out))
    ]
    np.testing.assert_allclose(heights[0], heights[1], rtol=1e-3, atol=1e-3)
    assert np.abs(heights[0]).max() > 0.1


def test_symmetries_are_searched_for_in_environments_too(hosted_source, tmp_path):
    """The policy with its plane turned balances no pole; the search turns it back, and counts what it has played."""
    model = ASAP.load(hosted_source)
    config, tasks = compose(["CartPole-v1"], {"run.search_episodes": 4}, overrides=parse_settings(Config, HOSTED))
    experience = choose(config, tasks, "0", tmp_path, pytest.fail)
    for turned in (1.0, -1.0):
        found, _ = search_symmetries(config, experience, 0, flip(model.policy, np.float32([turned])))
        np.testing.assert_array_equal(found.policy.partition.beta, model.policy.partition.beta)
        assert found.totals.episodes.tolist() == [8] and found.moments.count == found.totals.steps.sum() > 8 * 8
