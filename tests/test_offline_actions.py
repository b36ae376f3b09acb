"""Logged actions may be vectors: a file has the environment's units, densities are those of what was drawn, and odd ones are refused."""

import math
import sys
import types

import gymnasium
import numpy as np
import pytest
from command_line import asap

from asap import ASAP
from asap.base.arrays import member
from asap.base.errors import UserError
from asap.base.spec import ControlUnits
from asap.data.dataset import Dataset
from asap.data.layout import Layout, Meta, layout_of
from asap.data.minari import writing_to
from asap.data.writing import DatasetWriter
from asap.envs.resolve import resolve
from asap.experience.behaviours import AskedFunction, LoggedPolicy, random_play
from asap.experience.collect import collect, upto
from asap.experience.off_policy import estimate
from asap.model.behaviour import behaviour_of

# Two numbers to set: from -2 to 2, and from 0 to 10.
LAYOUT = Layout("arm", 1, 2, np.zeros(0, np.float32), ControlUnits.of_bounds([-2, 0], [2, 10]))


def good_columns() -> dict[str, np.ndarray]:
    last = np.array([False, True, True])
    return {
        "observation": np.float32([[0], [1], [2]]),
        "action": np.float32([[1.0, 7.5], [-2.0, 0.0], [3.0, 5.0]]),
        "reward": np.float32([1, 2, 3]),
        "terminated": last,
        "truncated": np.zeros(3, bool),
        "episode": np.array([0, 0, 1]),
        "behaviour_log_prob": np.log(np.float32([0.1, 0.2, 0.3])),
        "final_observation": np.float32([[5], [6]]),
    }


def write(path, columns, meta: Meta = Meta(task="arm")):
    with DatasetWriter(path) as writer:
        writer.add(columns)
        writer.finish(meta)
    return path


def test_actions_and_densities_come_in_the_units_of_the_policy(tmp_path):
    """1 of -2 to 2 is 0.5, and 7.5 of 0 to 10 too; 3 stays beyond its bound. Ranges of 4 and 10 become 2 and 2: a density is 10 times
    what it was."""
    dataset = Dataset(write(tmp_path / "arm.npz", good_columns()), LAYOUT)
    first, second = dataset.read(0), dataset.read(1)
    np.testing.assert_allclose(first.action, [[0.5, 0.5], [-1, -1]])
    np.testing.assert_allclose(second.action, [[1.5, 0]])
    np.testing.assert_allclose(np.exp(first.behaviour_log_prob), [1.0, 2.0], rtol=1e-5)
    assert dataset.is_stochastic
    np.testing.assert_allclose(LAYOUT.logged(first.action), good_columns()["action"][:2])


def test_files_of_format_1_are_read(tmp_path):
    assert Dataset(write(tmp_path / "old.npz", good_columns(), Meta(format=1)), LAYOUT).num_steps == 3


def changed(name, rows, value):
    def change(columns):
        columns[name] = columns[name].copy()
        columns[name][rows] = value

    return change


SPOILED = [
    (changed("action", (1, 1), np.nan), "row 1: action 1 is nan, arm has 0 to 10"),
    (changed("action", (2, 0), 1e9), "row 2: action 0 is 1e+09, arm has -2 to 2"),
    (changed("behaviour_log_prob", 0, 1e6), "row 0: behaviour_log_prob is 1e+06, which no density has"),
    (changed("behaviour_log_prob", 2, np.nan), "row 2: behaviour_log_prob is nan"),
    (
        lambda columns: columns.update(action=columns["action"][:, 0]),
        "column 'action' is for another task with rows (), arm has (2,)",
    ),
    (lambda columns: columns.update(action=np.asarray([["a", "b"]] * 3)), "column 'action' has the type <U1"),
]


@pytest.mark.parametrize(("spoil", "must_contain"), SPOILED)
def test_bad_vectors_are_named(spoil, must_contain, tmp_path):
    columns = good_columns()
    spoil(columns)
    np.savez(tmp_path / "x ü.npz", **columns)
    with pytest.raises(UserError) as refused:
        Dataset(tmp_path / "x ü.npz", LAYOUT)
    assert must_contain in str(refused.value) and "\n" not in str(refused.value)


def test_no_record_of_a_strange_kind_is_used(tmp_path, capsys, monkeypatch):
    """What a file says of its environment is checked like the record in a saved model."""
    for record in ({"name": "nobody:env"}, {"name": "other:env"}, {"name": "nobody:env", "spec": [1]}):
        write(tmp_path / "x.npz", good_columns(), Meta(task="nobody:env", record=record))
        code, out, err = asap(["train", "--offline", str(tmp_path / "x.npz")], capsys, monkeypatch)
        assert code == 2 and out == "" and err.startswith("error: ") and err.count("\n") == 1, err


def test_random_play_and_policies_know_their_densities(tmp_path):
    """Torques from -2 to 2: random play has the density 1/4; a Gaussian of one skill that of the normal distribution."""
    task = resolve("Pendulum-v1")
    collected = collect(task, random_play(task), 0.0, 2, 3, tmp_path / "random.npz")
    with np.load(tmp_path / "random.npz") as columns:
        np.testing.assert_allclose(np.exp(columns["behaviour_log_prob"]), 0.25, rtol=1e-5)
        assert columns["action"].shape == (400, 1) and 1.9 < np.abs(columns["action"]).max() <= 2
    assert collected.meta.record["name"] == "Pendulum-v1"
    policy = member(ASAP("Pendulum-v1", hyperplanes=0, skills="gaussian").policies, 0)
    collect(task, LoggedPolicy("mine", policy), 0.0, 1, 3, tmp_path / "mine.npz")
    with np.load(tmp_path / "mine.npz") as columns:
        mean, deviation = float(policy.skills.theta[0, 0, 0]), math.exp(float(policy.skills.log_std[0, 0]))
        errors = (columns["action"][:, 0] / 2 - mean) / deviation
        expected = -(errors**2) / 2 - math.log(deviation * math.sqrt(2 * math.pi)) - math.log(2)
        np.testing.assert_allclose(columns["behaviour_log_prob"], expected, rtol=1e-4, atol=1e-5)
        assert (np.abs(columns["action"]) > 2).any(), "what is drawn beyond a bound is logged as drawn"
    judged = estimate(policy, Dataset(tmp_path / "mine.npz", layout_of(task)), 1.0)
    assert judged.ess == pytest.approx(1, rel=1e-3), "a policy's own log has its own weights"


def test_a_function_plays(tmp_path):
    """It sees what the environment gives. Where it tells a probability, that is logged; otherwise there is none."""
    task, seen = resolve("CartPole-v1"), []

    def lean(observation):
        seen.append(observation)
        return int(observation[2] > 0)

    collected = collect(task, AskedFunction("mine:lean", lean), 0.0, 40, 0, tmp_path / "lean.npz", num_steps=100)
    with np.load(tmp_path / "lean.npz") as columns:
        assert "behaviour_log_prob" not in columns and columns["action"].dtype == np.int32
        np.testing.assert_array_equal(columns["action"], columns["observation"][:, 2] > 0)
        np.testing.assert_array_equal(columns["observation"], np.stack(seen)[: len(columns["reward"])])
        ends = np.flatnonzero(columns["terminated"])
        assert collected.steps == len(columns["reward"]) >= 100 > ends[-2] + 1, "no more episodes than it takes"
    told = AskedFunction("mine:told", lambda observation: (np.float32([9.0]), -1.5))
    collect(resolve("Pendulum-v1"), told, 0.0, 1, 0, tmp_path / "told.npz")
    with np.load(tmp_path / "told.npz") as columns:
        assert (columns["behaviour_log_prob"] == -1.5).all() and (columns["action"] == 9).all()
    bad = AskedFunction("mine:bad", lambda observation: (0, math.nan))
    with pytest.raises(UserError, match="log-probability that is no finite number"):
        collect(task, bad, 0.0, 1, 0, tmp_path / "bad.npz")
    assert not (tmp_path / "bad.npz").exists()


def test_a_function_plays_a_compiled_task(tmp_path):
    collected = collect(resolve("two-rooms"), AskedFunction("mine:up", lambda x: 0), 0.0, 1, 0, tmp_path / "up.npz")
    assert collected.meta.task == "two-rooms" and collected.steps == 400
    assert Dataset(tmp_path / "up.npz", layout_of(resolve("two-rooms"))).read(0).action.tolist() == [0] * 400


def test_a_saved_model_plays_only_what_it_fits(tmp_path):
    ASAP("CartPole-v1").save(tmp_path / "cart.asap")
    task, behaviour = behaviour_of(str(tmp_path / "cart.asap"), resolve("CartPole-v1"))
    assert isinstance(behaviour, LoggedPolicy) and behaviour.name == "cart.asap" and task.name == "CartPole-v1"
    with pytest.raises(
        UserError, match="is for 4 observations and 2 actions, Pendulum-v1 has 3 observations and 1 controls"
    ):
        behaviour_of(str(tmp_path / "cart.asap"), resolve("Pendulum-v1"))


def test_episodes_that_begin_within_the_steps_are_kept():
    columns = {
        "terminated": np.array([0, 1, 0, 0, 1, 1], bool),
        "truncated": np.zeros(6, bool),
        "success": np.ones(3, bool),
    }
    for steps, rows in ((1, 2), (2, 2), (3, 5), (5, 5), (6, 6), (99, 6)):
        kept = upto(columns, steps)
        assert (len(kept["terminated"]), len(kept["success"])) == (rows, int(columns["terminated"][:rows].sum()))


def test_a_dataset_of_minari_is_written(tmp_path, monkeypatch):
    """Minari itself is an extra: what it is given is looked at here. Its actions are those that the environment got, clipped."""
    given = {}
    minari, collector = types.ModuleType("minari"), types.ModuleType("minari.data_collector")
    minari.create_dataset_from_buffers = lambda name, buffers, **spaces: given.update(
        name=name, buffers=buffers, **spaces
    )
    collector.EpisodeBuffer = types.SimpleNamespace
    monkeypatch.setitem(sys.modules, "minari", minari)
    monkeypatch.setitem(sys.modules, "minari.data_collector", collector)
    task = resolve("Pendulum-v1")
    with writing_to("minari:pendulum/pushed-v0") as (path, publish):
        collect(task, AskedFunction("mine:push", lambda observation: np.float32([3.0])), 0.0, 2, 0, path)
        publish(task)
    assert given["name"] == "pendulum/pushed-v0" and given["action_space"] == task.action_space
    first, second = given["buffers"]
    assert first.observations.shape == (201, 3) and first.actions.shape == (200, 1) and (first.actions == 2.0).all()
    assert (second.id, second.truncations[-1], any(second.terminations)) == (1, True, False)
    np.testing.assert_array_equal(np.isfinite(second.observations), True)
    with writing_to(str(tmp_path / "x.npz")) as (path, publish):
        assert path == str(tmp_path / "x.npz") and publish(task) is None


def test_each_episode_of_a_range_has_its_descriptor(tmp_path):
    """m of what was drawn: 0.5 times the length at its widest, see docs/families.md."""
    from asap.envs.resolve import resolve_all

    (task,) = resolve_all(["CartPole-v1?length=0.3..1.0"])
    collect(task, random_play(task), 0.0, 6, 0, tmp_path / "range.npz")
    dataset = Dataset(tmp_path / "range.npz", layout_of(task))
    drawn = np.concatenate([dataset.read(index).descriptor for index in range(6)])
    assert len(set(drawn.tolist())) == 6 and gymnasium.__version__
