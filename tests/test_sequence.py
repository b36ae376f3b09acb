"""Promise: tasks are learned one after another by one policy, or with planes of their own under shared skills; a sequence that was
stopped anywhere goes on to the same bits; its measures are Continual World's; any command takes its run."""

import contextlib
import dataclasses
import json

import command_line
import jax
import numpy as np
import pytest
from family_envs import LENGTH

from asap import ASAP
from asap.base.arrays import to_arrays
from asap.base.errors import RunError, UserError
from asap.compose import compose, tasks_text
from asap.config.toml import to_toml
from asap.model.files import are_equal, policies_in
from asap.policy.surgery import planes_of
from asap.runs.directory import Run
from asap.runs.loggers import no_phase
from asap.runs.signals import StopRequest
from asap.sequence.measures import area_under_curve, final_performance, forgetting, forward_transfer, scaled
from asap.sequence.parts import TaskTraining, start_of
from asap.sequence.report import SequenceResult
from asap.sequence.training import TaskSequence, unwatched
from asap.show.figures import task_rows

LOOKS = "sequence.look_episodes"
SMALL = {
    "run.candidates": 0,
    "learn.batch_steps": 128,
    "run.eval_episodes": 4,
    "run.final_episodes": 4,
    LOOKS: 4,
}
NAMES = ["family_envs:Swapped?order=-1", "family_envs:Swapped?order=1"]
EPISODES = 24


# ---- The measures, worked out by hand -----------------------------------------------------------------------------


def test_returns_are_scaled_from_random_play_to_the_threshold():
    np.testing.assert_allclose(scaled([20.0, 475.0, 247.5, -25.5], 20.0, 475.0), [0, 1, 0.5, -0.1])
    assert np.isnan(scaled([1.0, 2.0], 5.0, 5.0)).all()


def test_the_area_is_linear_between_looks_and_flat_after_the_last():
    # 0 to 1 over the first half of the budget, then 1: 1/4 + 1/2.
    assert area_under_curve([0, 50], [0.0, 1.0], 100) == pytest.approx(0.75)
    # Clipped: -1 counts as 0, 3 as 1; what was spent beyond the budget counts up to it.
    assert area_under_curve([0, 40, 80, 120], [-1.0, 0.0, 3.0, 3.0], 100) == pytest.approx(0.2 + 0.2)
    # A look that saw nothing is left out.
    assert area_under_curve([0, 25, 50], [0.0, np.nan, 1.0], 100) == pytest.approx(0.75)
    assert np.isnan(area_under_curve([0], [np.nan], 100))


def test_the_three_measures_by_hand():
    after_own, at_end = np.array([[1.0, 0.8], [0.6, 0.4]]), np.array([[0.5, 0.9], [0.6, 0.4]])
    np.testing.assert_allclose(final_performance(at_end), [0.55, 0.65])
    np.testing.assert_allclose(forgetting(after_own, at_end), [0.25, -0.05])
    # From scratch 0.5 (mean of 0.4 and 0.6) and 0.2: (0.75 - 0.5) / 0.5 = 0.5, (0.6 - 0.2) / 0.8 = 0.5; and 0, -0.25.
    auc, scratch = np.array([[0.75, 0.5], [0.6, 0.0]]), np.array([[0.4, 0.6], [0.2, 0.2]])
    np.testing.assert_allclose(forward_transfer(auc, scratch), [0.5, -0.125])


def test_a_task_that_is_solved_at_once_from_scratch_says_nothing_of_transfer():
    np.testing.assert_allclose(forward_transfer(np.array([[1.0], [0.6]]), np.array([[1.0], [0.2]])), [0.5])
    assert np.isnan(forward_transfer(np.array([[1.0]]), np.array([[1.0]]))).all()


# ---- A sequence ---------------------------------------------------------------------------------------------------


def settings_of(planes="per-task", **more):
    options = {"run.episodes": EPISODES, "run.seeds": 2, "sequence.planes": planes, "sequence.scratch": True}
    return compose(NAMES, {**options, **SMALL, **more})


def learned(folder, config, tasks, stop_at=None):
    """As far as it goes, when it is stopped after so many updates of one of its parts."""
    text = to_toml(config), tasks_text(config, tasks)
    run, stop, seen = Run.create_or_continue(folder, *text), StopRequest(), []

    def watch(own, label):
        def count(report):
            seen.append((own.run.tasks[0], report.update))
            if len(seen) == stop_at:
                stop.requested = 15

        return unwatched(own, label) if stop_at is None else _watching(count)

    found = TaskSequence(run, config, tasks, stop, watch=watch)
    return found, found.learn()


def _watching(callback):
    return contextlib.nullcontext(([callback], no_phase))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    config, tasks = settings_of()
    sequence, is_over = learned(tmp_path_factory.mktemp("whole") / "run", config, tasks)
    assert is_over
    return sequence


def told(run):
    """What a run has told of its tasks, without clocks."""
    return {(event["kind"], event["task"]): event for event in run.events()}


def test_stopped_in_every_part_and_resumed_gives_the_same_bits(whole, tmp_path, monkeypatch):
    def die(*_, **__):
        raise MemoryError

    stopped, is_over = learned(tmp_path / "run", whole.config, whole.tasks, stop_at=1)
    assert not is_over and stopped.num_learned == 0
    with monkeypatch.context() as patched:  # Between the end of the first task and its record.
        patched.setattr(TaskSequence, "_returns", die)
        with pytest.raises(MemoryError):
            learned(tmp_path / "run", whole.config, whole.tasks)
    for num_learned in (1, 2):  # In the second task, and then from scratch.
        stopped, is_over = learned(tmp_path / "run", whole.config, whole.tasks, stop_at=4 - num_learned)
        assert not is_over and stopped.num_learned == num_learned
    again, is_over = learned(tmp_path / "run", whole.config, whole.tasks)
    assert is_over and told(again.run) == told(whole.run)
    assert are_equal(again.run.latest().arrays, whole.run.latest().arrays)


def test_each_task_keeps_its_planes_and_has_the_skills_of_the_last(whole):
    model = ASAP.load(whole.run.path)
    ends = [policies_in(TaskTraining.of(whole.run, whole.config, whole.tasks, index).saved()) for index in range(2)]
    for name, end in zip(NAMES, ends):
        alone = model.on_task(name)
        assert jax.tree.all(jax.tree.map(np.array_equal, planes_of(alone.policies), planes_of(end)))
        np.testing.assert_array_equal(alone.policies.skills.theta, ends[1].skills.theta)
    assert (model.planes[0].partition.beta != model.planes[1].partition.beta).any((1, 2)).all()


def test_a_task_goes_on_from_the_one_before_with_soft_planes(whole):
    before = TaskTraining.of(whole.run, whole.config, whole.tasks, 0)
    given, source = start_of(TaskTraining.of(whole.run, whole.config, whole.tasks, 1), before, whole.config)
    lengths = np.linalg.norm(given.partition.beta, axis=-1)
    np.testing.assert_array_less(lengths, 0.1 + 1e-6)
    np.testing.assert_array_equal(given.skills.theta, policies_in(before.saved()).skills.theta)
    assert source.moments.count.tolist() == before.saved().arrays["moments.count"].tolist() and source.critic is None


def test_what_is_told_is_what_was_played(whole):
    found = SequenceResult.read(whole.run, whole.config, whole.tasks)
    report = found.as_dict()
    returns = np.asarray(report["returns"])  # (looks, tasks, seeds)
    assert returns.shape == (3, 2, 2) and 5 < returns[0].mean() < 15 and report["finished"]
    # What is told after the last task is what the model plays.
    model = ASAP.load(whole.run.path)
    played = [
        model.on_task(name).play(model.on_task(name).policies, 4, [0, 1]).returns.mean(-1)[:, 0] for name in NAMES
    ]
    np.testing.assert_allclose(returns[-1], played)
    random, best = returns[0].mean(1), np.maximum(returns.mean(-1).max(0), found.scratch_returns.mean(1))
    share = (returns - random[:, None]) / (best - random)[:, None]
    np.testing.assert_allclose(report["final_performance"]["all"], share[2].mean(0))
    np.testing.assert_allclose(report["forgetting"]["all"], (share[1, 0] - share[2, 0]) / 2)
    assert [each["threshold_of"] for each in report["per_task"]] == ["best seen"] * 2
    areas, alone = found.auc, found.auc_scratch
    assert areas[0].tolist() == alone[0].tolist()  # The first task is learned from scratch anyway.
    reference = alone.mean(1, keepdims=True)
    np.testing.assert_allclose(report["forward_transfer"]["all"], ((areas - reference) / (1 - reference)).mean(0))
    assert "the best mean return of this run counts as solved" in found.in_words()
    json.dumps(report, allow_nan=False)


def test_a_threshold_that_is_given_counts(whole):
    own = dataclasses.replace(whole.config.sequence, thresholds=(float(LENGTH),))
    found = SequenceResult.read(whole.run, dataclasses.replace(whole.config, sequence=own), whole.tasks)
    assert found.thresholds.tolist() == [LENGTH] * 2 and set(found.threshold_of) == {"given"}


def test_frozen_skills_stay_bit_for_bit_and_without_scratch_no_transfer_is_told(tmp_path):
    config, tasks = settings_of("shared", **{"sequence.freeze_after": 1, "sequence.scratch": False, "run.seeds": 1})
    sequence, _ = learned(tmp_path / "run", config, tasks)
    assert config.policy.task_features == "interactions" and not sequence.planes
    first, last = (policies_in(TaskTraining.of(sequence.run, config, tasks, index).saved()) for index in range(2))
    np.testing.assert_array_equal(first.skills.theta, last.skills.theta)
    assert (first.partition.beta != last.partition.beta).any()
    found = SequenceResult.read(sequence.run, config, tasks)
    assert found.as_dict()["forward_transfer"] is None and "it needs --scratch" in found.in_words()
    assert not (tmp_path / "run" / "scratch-02").exists()


# ---- Commands and Python ------------------------------------------------------------------------------------------


@pytest.fixture
def asap(capsys, monkeypatch):
    """The JSON object of a command, or its error."""

    def run(*arguments, code=0):
        found, out, err = command_line.asap([*arguments, *(["--json"] if code == 0 else [])], capsys, monkeypatch)
        assert found == code, err
        return err if code else json.loads(out.splitlines()[-1])

    return run


def test_the_commands_take_the_run(whole, tmp_path, asap):
    run = str(whole.run.path)
    report = asap("eval", run, "--episodes", "4")
    assert list(report["per_task"]) == NAMES
    np.testing.assert_allclose(
        [report["per_task"][name]["return"]["all"] for name in NAMES],
        SequenceResult.read(whole.run, whole.config, whole.tasks).returns[-1],
    )
    unseen = asap("eval", run, "--task", "family_envs:Swapped?order=0.9", "--episodes", "4")
    assert unseen["return"]["all"] == report["per_task"][NAMES[1]]["return"]["all"]  # Under the planes of the nearest.
    pictures = asap("plot", run, "--out", str(tmp_path))["pictures"]
    assert list(pictures) == ["partition", "sequence"]
    error = asap("flip", run, "--out", str(tmp_path / "flipped.asap"), code=2)
    assert "each task has planes of its own, and one policy is changed" in error
    first, second = (asap("explain", run, "--task", name) for name in NAMES)
    assert first["rules"] != second["rules"]
    assert asap("explain", run)["rules"] == second["rules"]  # The last one.
    again = asap("train", "--resume", run)
    assert again["final_performance"] and again["finished"]
    moved = asap("transfer", run, NAMES[0], "--episodes", "8", "--out", str(tmp_path / "moved"))
    assert moved["start"]["return"] and moved["source"] == run


def test_python_learns_the_same_bits_and_a_saved_model_keeps_the_planes(whole, tmp_path):
    model = ASAP(
        "family_envs:Swapped", settings={name: SMALL[name] for name in SMALL if name != LOOKS} | {"run.seeds": 2}
    )
    model.learn_sequence(NAMES, episodes=EPISODES, planes="per-task", settings={LOOKS: SMALL[LOOKS]})
    assert are_equal(to_arrays(model.policies), to_arrays(whole.policies))
    assert [to_arrays(one).keys() for one in model.planes] == [to_arrays(one).keys() for one in whole.planes]
    assert model.sequence.measures()["final_performance"].shape == (2,)
    model.save(tmp_path / "model.asap")
    loaded, obs = ASAP.load(tmp_path / "model.asap"), np.float32([0.5])
    assert jax.tree.all(jax.tree.map(np.array_equal, loaded.planes, model.planes))
    for name in NAMES:
        assert loaded.evaluate(4, name)["return"] == model.on_task(name).evaluate(4)["return"]
        expected = model.on_task(name).predict(obs, deterministic=True)
        assert loaded.predict(obs, deterministic=True, task=name) == expected
    with pytest.raises(UserError, match="learned one after another, and not together"):
        loaded.learn(100)
    with pytest.raises(UserError, match="a sequence starts anew"):
        loaded.learn_sequence(NAMES, episodes=8)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (NAMES[:1], "--sequence: needs at least two tasks"),
        (["CartPole-v1", "Acrobot-v1"], "cannot share one policy: they have other observations"),
        (["two-rooms", "three-rooms"], "cannot share one policy"),
        ([f"{NAMES[0]}:2", NAMES[1]], "run.weights: tasks one after another have no weights"),
        ([*NAMES, "--set", "sequence.thresholds=[1, 2, 3]"], "must be one return for all tasks, or 2"),
        ([*NAMES[:1], "--scratch"], "--sequence: needs at least two tasks"),
        ([*NAMES, "--planes", "own"], "sequence.planes: must be one of shared, per-task"),
        ([*NAMES, "-k", "0", "--planes", "per-task"], "planes for each task need at least one"),
        ([*NAMES, "--freeze", "skills", "--set", "sequence.freeze_after=1"], "are kept already"),
    ],
)
def test_what_makes_no_sequence_is_refused_in_one_line(arguments, said, tmp_path, asap):
    assert said in asap("train", *arguments, "--sequence", "--out", str(tmp_path / "run"), code=2)
    assert not (tmp_path / "run").exists()


def test_settings_of_a_sequence_alone_are_refused():
    with pytest.raises(UserError, match="sequence.scratch: is for tasks that are learned one after another"):
        compose(NAMES, {"sequence.scratch": True})


def test_events_that_are_no_sequence_are_told(whole, tmp_path):
    run = Run.create(tmp_path / "run", to_toml(whole.config))
    with run.locked():
        run.append({"kind": "random", "task": None, "returns": "much"})
    with pytest.raises(RunError, match="events.jsonl has lines that are of no sequence"):
        SequenceResult.read(run, whole.config, whole.tasks)


def test_the_budget_of_a_sequence_stays(whole, asap):
    error = asap("train", "--resume", str(whole.run.path), "--episodes", "99", code=2)
    assert "a sequence keeps its budget" in error


def test_the_picture_has_a_row_for_each_task_and_their_mean():
    looks = np.stack([np.zeros((2, 3)), np.full((2, 3), 0.5), np.array([[1.0] * 3, [np.nan] * 3])])
    figure = task_rows(looks, ["A?size=1", "A?size=2"], "title", "caption")
    assert [axes.get_ylabel() for axes in figure.axes] == ["size 1", "size 2", "mean of all"]
    mean = figure.axes[-1].lines[-1].get_ydata()
    np.testing.assert_allclose(mean, [0, 0.5, 1.0])
    figure.draw_without_rendering()
