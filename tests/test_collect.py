"""`asap collect` logs complete episodes, all of them, the same each time; hand-written controllers do what they say."""

import json

import numpy as np
import pytest
from command_line import asap

from asap.base.arrays import stack
from asap.base.errors import UserError
from asap.cli.learning import create_run
from asap.compose import compose
from asap.config.defaults import complete
from asap.config.schema import Config
from asap.config.toml import parse_settings
from asap.data.dataset import Dataset
from asap.data.layout import Meta, layout_of
from asap.data.writing import DatasetWriter
from asap.envs import catalog
from asap.envs.controllers import explored, find_controller
from asap.envs.resolve import resolve
from asap.experience.choose import choose
from asap.experience.collect import collect
from asap.experience.protocol import EpisodeIds
from asap.model.training import train_run
from asap.policy.build import uniform_policy
from asap.runs.signals import StopRequest


@pytest.mark.parametrize("name", catalog.NAMES[:3])
def test_through_the_doors_always_succeeds(name, tmp_path):
    task = catalog.find(name)
    collected = collect(task, find_controller(task, "doors"), 0.0, 500, 0, tmp_path / "data.npz")
    assert collected.meta.behaviour_success == 1.0
    assert collected.meta.behaviour_return > task.reference.approx_optimal


def test_every_episode_is_kept_not_only_the_short_ones(tmp_path):
    """A random walk seldom reaches the goal: were lanes cut off in time, its few short episodes would prevail."""
    task = catalog.find("two-rooms")
    path = tmp_path / "data.npz"
    collect(task, find_controller(task, "random"), 0.0, 1100, 3, path)  # More than one round, and a rest.
    dataset = Dataset(path, layout_of(task))
    assert dataset.num_episodes == 1100
    assert dataset.longest == 400 and 0.05 < dataset.episodes.success.mean() < 0.11
    assert (dataset.episodes.length[~dataset.episodes.terminated] == 400).all()
    with np.load(path) as columns:
        np.testing.assert_array_equal(np.unique(columns["episode"]), np.arange(1100))
        np.testing.assert_allclose(columns["behaviour_log_prob"], np.log(0.25), rtol=1e-6)
        # Half a million moves: the actions are drawn with the probabilities that are logged.
        np.testing.assert_allclose(np.bincount(columns["action"]) / len(columns["action"]), 0.25, atol=0.004)


def test_exploration_has_known_probabilities(tmp_path):
    task = catalog.find("two-rooms")
    path = tmp_path / "data.npz"
    collect(task, explored(find_controller(task, "doors"), 0.2), 0.2, 400, 0, path)
    with np.load(path) as columns:
        own = np.asarray(find_controller(task, "doors").probabilities(columns["observation"].T)).argmax(0)
        followed = columns["action"] == own
        np.testing.assert_allclose(np.exp(columns["behaviour_log_prob"]), np.where(followed, 0.85, 0.05), rtol=1e-5)
    assert followed.mean() == pytest.approx(0.85, abs=0.01)


def test_the_same_command_gives_the_same_bytes(capsys, monkeypatch, tmp_path):
    files = [tmp_path / "a.npz", tmp_path / "b ü.npz", tmp_path / "c.npz"]
    for file, seed in zip(files, ("7", "7", "8")):
        command = [
            "collect",
            "three-rooms",
            "--controller",
            "doors",
            "--epsilon",
            "0.3",
            "--episodes",
            "50",
            "--seed",
            seed,
            "--json",
            "--out",
            str(file),
        ]
        code, out, err = asap(command, capsys, monkeypatch)
        report = json.loads(out.splitlines()[-1])
        assert code == 0 and err == ""
        assert (
            report["episodes"] == 50 and report["success_ci"][0] < report["success"] <= report["success_ci"][1] == 1.0
        )
    assert files[0].read_bytes() == files[1].read_bytes() != files[2].read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {file.name for file in files}, "nothing else is left behind"


def test_a_stopped_collection_leaves_the_old_file(tmp_path, monkeypatch):
    task, path = catalog.find("two-rooms"), tmp_path / "data.npz"
    path.write_bytes(b"old")

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect(task, find_controller(task, "doors"), 0.0, 10, 0, path, interrupted)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


# ---- Environments of Gymnasium ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walks(tmp_path_factory):
    """70 episodes of random play, which are two rounds: 12 steps each, action 0 or 1, and every episode succeeds."""
    path, task = tmp_path_factory.mktemp("data ü") / "walks.npz", resolve("own_envs:walk")
    return collect(task, find_controller(task, "random"), 0.0, 70, 5, path), path


def test_an_environment_is_logged_as_it_was_played(walks):
    collected, path = walks
    with np.load(path) as columns:
        np.testing.assert_array_equal(columns["episode"], np.repeat(np.arange(70), 12))
        ends = np.arange(70 * 12) % 12 == 11
        np.testing.assert_array_equal(columns["terminated"], ends)
        assert not columns["truncated"].any() and columns["success"].all()
        np.testing.assert_allclose(columns["behaviour_log_prob"], np.log(0.5), rtol=1e-6)
        assert columns["action"].mean() == pytest.approx(0.5, abs=0.07)  # 840 of them: four deviations.
        # Observed: time, position, 1. The reward of a step is the position after it.
        np.testing.assert_array_equal(columns["observation"][:, 0], np.tile(np.arange(12), 70))
        np.testing.assert_array_equal(columns["final_observation"][:, 0], np.full(70, 12))
        np.testing.assert_allclose(columns["observation"][~(np.arange(840) % 12 == 0), 1], columns["reward"][~ends])
        np.testing.assert_allclose(columns["final_observation"][:, 1], columns["reward"][ends])
        assert collected.meta.behaviour_return == pytest.approx(columns["reward"].sum() / 70, rel=1e-5)
    assert (collected.meta.behaviour_success, collected.steps) == (1.0, 840)
    assert Dataset(path, layout_of(resolve("own_envs:walk"))).is_stochastic


def test_logged_play_of_an_environment_is_learned_from(walks, tmp_path):
    """Pushing forward at every step returns 12 * 13 / 2 = 78, random play half of that."""
    few = "run.episodes=3000", "run.eval_episodes=2", "run.final_episodes=20"
    report = learned(walks[1], tmp_path / "run", "learn.learner=importance", *few)
    assert report["learner"] == "importance" and report["return"]["iqm"] > 65 > 45 > walks[0].meta.behaviour_return


def learned(data, out, *settings):
    config, tasks = compose(
        ["own_envs:walk"], {"offline.data": str(data)}, overrides=parse_settings(Config, list(settings))
    )
    run = create_run(config, tasks, str(out), "")
    return train_run(run, config, tasks, StopRequest())[1].summary("")


def test_a_dataset_names_no_module_to_import(walks, capsys, monkeypatch, tmp_path):
    """A file that says nothing more of its environment is refused; by its record alone, one is learned from without being played."""
    with np.load(walks[1]) as columns, DatasetWriter(tmp_path / "bare.npz") as writer:
        writer.add({name: columns[name] for name in columns if name != "meta"})
        writer.finish(Meta(task="own_envs:walk"))
    monkeypatch.setattr("asap.envs.gymnasium.make.EnvSource.maker", lambda *_: pytest.fail("a module was imported"))
    code, _, err = asap(["train", "--offline", str(tmp_path / "bare.npz")], capsys, monkeypatch)
    assert code == 2 and err.startswith("error: offline.data: its task is not imported") and err.count("\n") == 1
    assert "asap train own_envs:walk --offline FILE" in err
    config, tasks = compose([], {"offline.data": str(walks[1]), "offline.weights": "advantages"})
    assert "only the file names own_envs:walk, so nothing is played" in capsys.readouterr().err
    experience = choose(complete(config), tasks, "0", tmp_path, print)
    assert not experience.plays and np.isnan(experience.look(stack([uniform_policy(tasks.tasks[0])]), 0).returns).all()
    with pytest.raises(UserError, match="own_envs:walk"):
        experience.evaluate(uniform_policy(tasks.tasks[0]), EpisodeIds([0], 0), 1, True)


def test_the_command_takes_an_id(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    command = ["collect", "CartPole-v1", "--controller", "random", "--episodes", "30", "--json"]
    code, out, _ = asap(command, capsys, monkeypatch)
    report = json.loads(out.splitlines()[-1])
    assert (
        code == 0
        and report["out"] == "CartPole-v1-random.npz"
        and (report["success"], report["success_ci"]) == (None, None)
    )
    first = (tmp_path / report["out"]).read_bytes()
    code, out, _ = asap(command[:-1], capsys, monkeypatch)
    assert code == 0 and out.startswith("return ") and (tmp_path / report["out"]).read_bytes() == first
    config, tasks = compose([], {"offline.data": report["out"], "offline.weights": "advantages"})
    assert tasks.names == ("CartPole-v1",) and config.offline.sharpness == 1.0


BAD = [
    (["collect", "CartPole-v1", "--controller", "doors"], "--policy", "choose from random"),
    (["collect", "Pendulum-v1", "--policy", "doors"], "--policy", "choose from random"),
    (["collect", "Pendulum-v1", "--policy", "random", "--epsilon", "0.5"], "--epsilon", "got 0.5"),
    (["collect", "CartPole-v1", "--policy", "no_such_module:act"], "--policy", "cannot be imported"),
    (["collect", "CartPole-v1", "--policy", "math:nothing"], "--policy", "has no attribute"),
    (["collect", "CartPole-v1", "--policy", "math:pi"], "--policy", "is no function"),
    (["collect", "CartPole-v1", "--policy", "math:cos", "--episodes", "1"], "--policy", "math:cos raised TypeError"),
    (["collect", "CartPole-v1", "--policy", "builtins:list", "--episodes", "1"], "--policy", "not in Discrete(2)"),
    (["collect", "CartPole-v1", "--policy", "random", "--steps", "0"], "--steps", "got 0"),
    (["collect", "CartPole-v1", "--policy", "random", "--steps", "9", "--episodes", "9"], "--steps", "leave out one"),
    (["collect", "CartPol-v1", "--controller", "random"], "env", "CartPole-v1"),
    (["collect", "two-rooms", "--controller", "dors"], "--policy", "random, doors"),
    (["collect", "two-romms", "--controller", "doors"], "task", "two-rooms"),
    (["collect", "two-rooms", "--controller", "doors", "--epsilon", "1.5"], "--epsilon", "1.5"),
    (["collect", "two-rooms", "--controller", "doors", "--epsilon", "nan"], "--epsilon", "nan"),
    (["collect", "two-rooms", "--controller", "doors", "--episodes", "0"], "--episodes", "got 0"),
    (["collect", "two-rooms", "--controller", "doors", "--seed=-1"], "--seed", "got -1"),
    (["collect", "two-rooms", "--controller", "doors", "--out", "nowhere/x.npz"], "--out", "nowhere"),
]


@pytest.mark.parametrize(("arguments", "field", "must_contain"), BAD)
def test_one_clear_line(arguments, field, must_contain, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    code, out, err = asap(arguments, capsys, monkeypatch)
    assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1, err
    assert field in err and must_contain in err
    assert not list(tmp_path.iterdir())


def test_an_exploring_controller_is_not_deterministic():
    task = catalog.find("two-rooms")
    doors = find_controller(task, "doors")
    assert (
        doors.deterministic
        and not explored(doors, 0.1).deterministic
        and not find_controller(task, "random").deterministic
    )
    with pytest.raises(UserError, match="--epsilon"):
        explored(doors, -0.1)
