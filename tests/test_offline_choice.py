"""From a log alone: steps are worth what a fitted value says, and what the user leaves open is chosen on held-out episodes."""

import dataclasses
import json

import numpy as np
import pytest
from command_line import asap

from asap import ASAP
from asap.compose import compose
from asap.config.schema import Config
from asap.config.settings import override
from asap.data.dataset import Dataset
from asap.data.layout import Layout, Meta
from asap.data.writing import DatasetWriter
from asap.envs.gymnasium.task import without_env
from asap.experience.advantages import advantages, fitted_value, moments_of_log
from asap.experience.logged import Weighing
from asap.learn.from_log import HeldOut, StepGain, Tried, gain

LAYOUT = Layout("chain", 1, 2, np.zeros(0, np.float32))


def logged(path, lengths, terminated, rewards, observation) -> Dataset:
    rows = sum(lengths)
    ends = np.zeros(rows, bool)
    ends[np.cumsum(lengths) - 1] = True
    columns = {
        "observation": np.float32(observation).reshape(rows, 1),
        "action": np.zeros(rows, np.int32),
        "reward": np.float32(rewards),
        "terminated": ends & terminated,
        "truncated": ends & (not terminated),
        "episode": np.repeat(np.arange(len(lengths)), lengths),
        "final_observation": np.zeros((len(lengths), 1), np.float32),
    }
    with DatasetWriter(path) as writer:
        writer.add(columns)
        writer.finish(Meta())
    return Dataset(path, LAYOUT)


def worth(dataset: Dataset, discount: float, trace: float) -> np.ndarray:
    members = np.arange(dataset.num_episodes)
    value = fitted_value(dataset, members, moments_of_log(dataset), discount, trace)
    return advantages(value, dataset, members)


@pytest.mark.parametrize("trace", [0.0, 0.5, 1.0])
def test_what_was_cut_off_goes_on_and_what_has_terminated_is_over(trace, tmp_path):
    """One state that pays 1 at each of two steps. Cut off, it is worth 1 / (1 - 0.5) = 2, and no step is better than another. Terminated, it
    is worth the mean of 1.5 and 1: by whole returns the first step is better by 0.25, and the second worse."""
    cut = worth(logged(tmp_path / "cut.npz", [2] * 8, False, [1] * 16, [0] * 16), 0.5, trace)
    np.testing.assert_allclose(cut, 0.0, atol=0.01)
    if trace == 1.0:
        over = worth(logged(tmp_path / "over.npz", [2] * 8, True, [1] * 16, [0] * 16), 0.5, trace)
        np.testing.assert_allclose(over.reshape(8, 2), [[0.25, -0.25]] * 8, atol=0.01)


def test_a_step_is_worth_more_than_its_state_promises(tmp_path):
    """Episodes of one step: state 0 pays 0 or 2, state 1 pays 10 or 14."""
    dataset = logged(tmp_path / "steps.npz", [1] * 8, True, [0, 2, 0, 2, 10, 14, 10, 14], [0, 0, 0, 0, 1, 1, 1, 1])
    np.testing.assert_allclose(worth(dataset, 0.9, 0.95), [-1, 1, -1, 1, -2, 2, -2, 2], atol=0.05)


def test_merits_are_of_steps_or_of_episodes(tmp_path):
    dataset = logged(tmp_path / "two.npz", [1, 2], True, [1, 2, 3], [0, 0, 0])
    members, rows = np.arange(2), np.float32([3, 1, 2])
    by_step, by_episode = (Weighing(by, 1.0).of_rows(dataset, members, rows) for by in ("advantages", "returns"))
    raised = np.exp((rows - 2) / rows.std())
    np.testing.assert_allclose(by_step, raised / raised.mean(), rtol=1e-5)
    np.testing.assert_allclose(by_episode, np.float32([np.exp(-1), np.exp(1), np.exp(1)]) / np.cosh(1), rtol=1e-5)
    one = Weighing("advantages", 1.0).of_rows(dataset, np.array([1]), rows)
    assert one[0] == 1 and one[1:].mean() == pytest.approx(1)


def test_a_gain_is_the_weighted_mean_of_what_was_held_out():
    """Weights 1, 3 and 100, which is clipped to 20; advantages -1, 0 and 1."""
    held = HeldOut(None, np.zeros(3), np.array([-1.0, 0.0, 1.0]), np.array([0, 0, 1]))
    found = gain(np.log([1.0, 3.0, 100.0]), held)
    assert found.mean == pytest.approx(19 / 24)
    assert found.share == pytest.approx(24**2 / (1 + 9 + 400) / 3, rel=1e-5)
    np.testing.assert_allclose(found.parts, [(-1 - 19 / 24 - 3 * 19 / 24) / 24, 20 * (1 - 19 / 24) / 24])
    assert gain(np.log([1e-9, 1e-9, 1.0]), held).merit > 0
    few = HeldOut(None, np.zeros(100), np.arange(100.0), np.zeros(100, int))
    assert gain(np.where(np.arange(100) == 99, 0.0, -50.0), few).merit == -np.inf, "one step of a hundred tells nothing"


def test_an_earlier_look_must_be_surely_better():
    first, noisy, last = (
        StepGain(mean, 1.0, np.array(parts)) for mean, parts in ((2.0, [0.1]), (2.0, [3.0]), (1.0, [0.0]))
    )
    weighing = Weighing("advantages", 1.0)
    assert Tried("likelihood", weighing, [first, last]).best == 0
    assert Tried("likelihood", weighing, [noisy, last]).best == 1
    assert Tried("likelihood", weighing, [last, first]).best == 1
    assert Tried("likelihood", weighing, [last, StepGain(9.0, 0.01, np.array([0.0]))]).best == 0


@pytest.fixture(scope="module")
def copied(tmp_path_factory):
    """A log of an environment that nobody has: set a number to what is observed. The behaviour sets it at random around 0."""
    path, rng = tmp_path_factory.mktemp("data ü") / "copy.npz", np.random.default_rng(0)
    task = without_env(["seen"], ["set"], -1, 1)
    seen, drawn = rng.uniform(-1, 1, (1500, 1)), 0.6 * rng.standard_normal((1500, 1))
    log_prob = -0.5 * np.square(drawn / 0.6) - np.log(0.6 * np.sqrt(2 * np.pi))
    done = np.ones(1500, bool)
    columns = {"observation": np.float32(seen), "action": np.float32(drawn), "terminated": done, "truncated": ~done}
    columns |= {"reward": np.float32(-np.square(drawn - seen)[:, 0]), "behaviour_log_prob": np.float32(log_prob[:, 0])}
    columns |= {"episode": np.arange(1500), "final_observation": np.float32(seen)}
    with DatasetWriter(path) as writer:
        writer.add(columns)
        writer.finish(Meta(task="nobody:Copy", record={**task.record(), "name": "nobody:Copy"}))
    return path


def test_a_file_that_says_what_is_needed_is_learned_from_without_its_environment(copied, tmp_path, capsys, monkeypatch):
    """What comes out sets the number near to what is seen: the best line is a = x, the behaviour's is a = 0."""
    run = str(tmp_path / "run")
    command = ["train", "--offline", str(copied), "-k", "0", "--episodes", "6000", "--out", run, "--json"]
    code, out, err = asap(command, capsys, monkeypatch)
    assert code == 0, err
    assert "chosen on held-out episodes: likelihood, steps weighed by advantages with sharpness" in err
    assert "only the file names nobody:Copy, so nothing is played" in err
    report = json.loads(out.splitlines()[-1])
    assert report["return"] is None and report["learner"] == "likelihood"
    model = ASAP.load(run)
    assert model.config.offline.sharpness >= 1, "the likelihood of what was logged would be a = 0"
    low, middle, high = (model.predict(np.float32([seen]), deterministic=True)[0][0] for seen in (-0.8, 0.0, 0.8))
    # Weighed likelihood comes between the behaviour's 0 and the best, which is what is seen.
    assert -1.1 < low < -0.3 and abs(middle) < 0.2 and 0.3 < high < 1.1
    assert "set" in model.explain()


def test_what_the_user_says_is_not_chosen(copied, monkeypatch):
    monkeypatch.setattr("asap.learn.from_log._tried", lambda *_: pytest.fail("something was tried"))
    data = {"offline.data": str(copied)}
    config, _ = compose([], {**data, "learn.learner": "importance"})
    assert config.learn.learner == "importance" and config.offline.weights is None
    config, _ = compose([], {**data, "learn.learner": "likelihood", "offline.sharpness": 3.0})
    assert (config.offline.weights, config.offline.sharpness) == ("advantages", 3.0)
    config, _ = compose([], {**data, "offline.weights": "returns"})
    assert (config.learn.learner, config.offline.weights, config.offline.sharpness) == ("likelihood", "returns", 1.0)


def test_a_run_of_an_earlier_release_weighs_by_returns():
    """Its settings name a sharpness, and do not say by what steps are weighed."""
    config = override(Config(), {"offline.sharpness": 2.0})
    assert Weighing.of(config.offline) == Weighing("returns", 2.0)
    assert Weighing.of(dataclasses.replace(config.offline, sharpness=None)) == Weighing("returns", 1.0)
