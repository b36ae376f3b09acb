"""The Python API: learn, predict, evaluate, explain, plot, save and load, and what it says to bad input."""

import os
import pickle
import signal
import tempfile
import time
from pathlib import Path

import equinox as eqx
import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest

import asap
from asap import ASAP
from asap.base import files
from asap.base.errors import RunError, UserError
from asap.config.settings import with_values
from asap.distill.distillation import distill
from asap.experience.protocol import Evaluation
from asap.learn.loop import Loop
from asap.runs import checkpoints

QUICK = ("lanes=16", "window=32", "epochs=1", "chunk=2", "critic_features=8", "eval_episodes=4", "final_episodes=4")
OBS = np.float32([0.2, 0.3, 0.9, 0.1])
MANY = np.float32(np.random.default_rng(0).random((64, 4)))
TWO_TASKS = ["two-rooms", "flipped-two-rooms"]


@pytest.fixture(scope="module")
def model() -> ASAP:
    return ASAP("two-rooms", hyperplanes=1, seed=3, settings=QUICK).learn(episodes=60)


@pytest.fixture
def saved(model, tmp_path) -> Path:
    model.save(tmp_path / "rooms.asap")
    return tmp_path / "rooms.asap"


def parameters(model: ASAP) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(model.policy.partition.beta), np.asarray(model.policy.skills.theta)


def same(a: ASAP, b: ASAP) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(parameters(a), parameters(b)))


def error_line(call, error: type = UserError) -> str:
    with pytest.raises(error) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- Learning -----------------------------------------------------------------------------------------------------


def test_learning_is_repeatable_and_leaves_nothing_behind(model, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    again = ASAP("two-rooms", seed=3, settings=QUICK)
    assert again.num_episodes == 0 and not same(again, model)
    assert again.learn(episodes=60) is again
    assert again.num_episodes == model.num_episodes >= 60 and same(again, model)
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_created_resumed_and_refused_to_others(model, tmp_path):
    path = tmp_path / "a run"
    short = ASAP("two-rooms", seed=3, settings=QUICK).learn(episodes=20, run=path)
    assert (path / "config.toml").exists() and short.num_episodes < model.num_episodes
    resumed = ASAP("two-rooms", seed=3, settings=QUICK).learn(episodes=60 - short.num_episodes, run=path)
    assert same(resumed, model)
    line = error_line(lambda: ASAP("two-rooms", seed=4, settings=QUICK).learn(episodes=60, run=path))
    assert line.startswith("run: was made with other settings")


def test_what_a_failed_episode_left_is_kept_because_the_error_names_it(tmp_path, monkeypatch):
    """Nothing else is written to disk while a model learns without a run."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    line = error_line(
        lambda: ASAP("own_envs:spoiled", settings=['env.options={"mode": "nan_obs"}']).learn(500), RunError
    )
    (kept,) = tmp_path.glob("*/failed-episode-*.json")
    assert os.path.relpath(kept) in line


def test_ctrl_c_keeps_what_was_learned(monkeypatch):
    record_start = Loop.record_start

    def record_then_interrupt(loop, states):
        record_start(loop, states)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Loop, "record_start", record_then_interrupt)
    before = signal.getsignal(signal.SIGINT)
    stopped = ASAP("two-rooms", seed=3, settings=QUICK)
    with pytest.raises(KeyboardInterrupt):
        stopped.learn(episodes=60)
    stopped.predict(OBS)
    assert signal.getsignal(signal.SIGINT) is before


WRITTEN = [20, 20.0, 2e1, np.int64(20), np.uint8(20), np.float32(20)]


@pytest.mark.parametrize("count", WRITTEN, ids=[repr(count) for count in WRITTEN])
def test_an_integer_may_be_written_in_several_ways(count):
    model = ASAP("two-rooms", hyperplanes=type(count)(1), seed=count, settings=QUICK)
    assert (model.config.policy.hyperplanes, model.config.run.seed, type(model.seed)) == (1, 20, int)
    assert len(model.evaluate(episodes=count, seed=count)["returns"]) == 20


def test_a_budget_may_be_written_as_a_float(model):
    steps = 16 * 32 * 2
    written = [
        ASAP("two-rooms", seed=3, settings=QUICK).learn(count) for count in (steps, float(steps), np.int64(steps))
    ]
    assert {one.num_timesteps for one in written} == {steps} and same(written[0], written[1])
    assert ASAP("two-rooms", seed=3, settings=QUICK).learn(episodes=6e1).num_episodes == model.num_episodes


@pytest.mark.parametrize("bad", ["1000", 1000.5, True, np.True_, float("nan"), float("inf"), [5], 10**30, -3])
def test_what_is_no_integer_is_refused(model, bad):
    for field, call in (
        ("total_timesteps", lambda: model.learn(bad)),
        ("episodes", lambda: model.learn(episodes=bad)),
        ("episodes", lambda: model.evaluate(episodes=bad)),
        ("hyperplanes", lambda: ASAP("two-rooms", hyperplanes=bad)),
        ("seed", lambda: ASAP("two-rooms", seed=bad)),
        ("seed", lambda: model.evaluate(episodes=1, seed=bad)),
        ("episodes", lambda: distill(None, "CartPole-v1", episodes=bad)),
        ("hyperplanes", lambda: distill(None, "CartPole-v1", hyperplanes=bad)),
        ("seed", lambda: distill(None, "CartPole-v1", seed=bad)),
    ):
        line = error_line(call)
        assert line.partition(":")[0].endswith(field) and "must be an integer" in line and "got " in line, line


def test_repr_tells_what_it_is(model, saved, monkeypatch):
    monkeypatch.setattr(ASAP, "play", None)  # It plays nothing.
    assert repr(ASAP(TWO_TASKS, hyperplanes=2)) == (
        "ASAP(task=['two-rooms', 'flipped-two-rooms'], hyperplanes=2, skills=4 (constant), steps=0)"
    )
    known = f"ASAP(task='two-rooms', hyperplanes=1, skills=2 (constant), steps={model.num_timesteps:,}"
    (mean,) = model.verdict.trained.returns
    assert mean == model.result.curve.returns[-max(1, len(model.result.curve.returns[1:]) // 5) :, 0, 0].mean()
    assert repr(model) == f"{known}, return={mean:.1f} (in the last fifth of training, actions drawn))"
    assert repr(ASAP.load(saved)) == repr(model)
    other = ASAP.load(saved)
    other.result, other.policy = (
        model.result,
        eqx.tree_at(lambda p: p.skills.theta, model.policy, replace_fn=np.zeros_like),
    )
    assert "return" not in repr(other), "the policy is another"
    other.policies = None
    assert repr(other).startswith("<asap") and repr(ASAP.__new__(ASAP)).startswith("<asap")


def test_a_model_of_many_skills_that_was_saved_is_loaded(tmp_path):
    """The bound is for those that are yet to be trained."""
    ASAP("two-rooms", hyperplanes=3, settings=["policy.most_hyperplanes=3"]).save(tmp_path / "m.asap")
    config = ASAP.load(tmp_path / "m.asap").config
    assert config.policy.hyperplanes == config.policy.most_hyperplanes == 3
    ASAP.of(with_values(config, {"policy.most_hyperplanes": 2}), ASAP("two-rooms").tasks).save(tmp_path / "old.asap")
    assert ASAP.load(tmp_path / "old.asap").policy.num_skills == 8


# ---- Predicting ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deterministic", [False, True])
def test_predict_gives_numpy_integers(model, deterministic):
    for value, bound in zip(model.predict(OBS, deterministic=deterministic), (4, 2)):
        assert isinstance(value, np.int64) and 0 <= value < bound
    for values, bound in zip(model.predict(MANY, deterministic=deterministic), (4, 2)):
        assert values.shape == (64,) and values.dtype == np.int64
        assert values.min() >= 0 and values.max() < bound
    for values in model.predict(np.zeros((0, 4)), deterministic=deterministic):
        assert values.shape == (0,)


def test_deterministic_is_the_most_probable_skill_and_its_most_probable_action(new_policy):
    model = ASAP("two-rooms", hyperplanes=2, settings=("skills=linear",))
    model.policy = new_policy(planes=2, skills="linear", seed=5)
    m = np.asarray([-0.8, 0.7], np.float32)
    wide = 6 * MANY - 3
    action, skill = model.predict(wide, deterministic=True)
    for x, a, s in zip(wide, action, skill):
        assert s == np.argmax(model.policy.skill_log_probs(x, m))
        assert a == np.argmax(model.policy.skills.log_probs(model.policy.phi(x, m))[s])
        assert (a, s) == model.predict(x, deterministic=True)
    assert len(set(action)) > 1 and len(set(skill)) > 1


def test_drawn_actions_have_the_probabilities_of_the_policy(model):
    action, skill = model.predict(np.tile(OBS, (20_000, 1)))
    m = np.float32(model.tasks.tasks[0].descriptor)
    for drawn, log_probs in (
        (action, model.policy.action_log_probs(OBS, m)),
        (skill, model.policy.skill_log_probs(OBS, m)),
    ):
        frequency = np.bincount(drawn, minlength=len(log_probs)) / len(drawn)
        np.testing.assert_allclose(frequency, np.exp(log_probs), atol=0.02)
    calls = np.bincount([model.predict(OBS)[0] for _ in range(300)], minlength=4) / 300
    np.testing.assert_allclose(calls, np.exp(model.policy.action_log_probs(OBS, m)), atol=0.15)


def test_one_observation_draws_as_the_first_of_many(saved):
    one, many = ASAP.load(saved), ASAP.load(saved)
    for _ in range(20):
        assert [int(value) for value in one.predict(OBS)] == [
            int(values[0]) for values in many.predict(np.tile(OBS, (3, 1)))
        ]


def test_a_committed_skill_is_kept_from_state_to_state():
    model = ASAP(
        "two-rooms", hyperplanes=2, settings=("termination=0", "alpha_beta=0.001")
    )  # All skills are likely everywhere.
    many = np.tile(OBS, (2000, 1))
    for skill in range(4):
        kept = model.predict(many, state=np.full(2000, skill))[1]
        # Kept with p = 1/4, else drawn anew: 1/4 + 3/4 / 4.
        assert np.mean(kept == skill) == pytest.approx(7 / 16, abs=0.05)
        anew = model.predict(many, state=np.full(2000, skill), episode_start=np.ones(2000, bool))[1]
        assert np.mean(anew == skill) == pytest.approx(1 / 4, abs=0.05)
        assert model.predict(OBS, state=skill, deterministic=True)[1] == skill


def test_of_several_tasks_the_played_one_must_be_named():
    model = ASAP(TWO_TASKS)
    assert "task: which one is played?" in error_line(lambda: model.predict(OBS))
    assert "two-rooms, flipped-two-rooms" in error_line(lambda: model.predict(OBS, task="three-rooms"))
    # The weight of m1, the height of the goal: it alone tells the tasks apart.
    beta = jnp.zeros_like(model.policy.partition.beta).at[0, 3].set(1.0)
    model.policy = eqx.tree_at(lambda policy: policy.partition.beta, model.policy, beta)
    skills = [model.predict(OBS, deterministic=True, task=name)[1] for name in TWO_TASKS]
    assert sorted(skills) == [0, 1]
    ASAP(TWO_TASKS, settings=("task_features=none",)).predict(OBS)


@pytest.mark.parametrize(
    "obs",
    [
        [0.1, 0.2, 0.3],
        np.zeros((2, 3)),
        np.zeros((1, 2, 4)),
        0.5,
        [0.1, 0.2, 0.3, np.nan],
        [[0.1, 0.2, 0.3, 0.4], [0.1, np.inf, 0.3, 0.4]],
        [1e300, 0, 0, 0],
        "somewhere",
        None,
        {"x": 1},
        [[1, 2], [3]],
        [1j, 0, 0, 0],
    ],
)
def test_bad_observations_are_refused(model, obs):
    assert error_line(lambda: model.predict(obs)).startswith("obs: ")


@pytest.mark.parametrize("state", [2, -2, 0.5, [0], "left", np.full(3, 0)])
def test_bad_states_are_refused(model, state):
    assert error_line(lambda: model.predict(OBS, state=state)).startswith("state: ")
    starts = error_line(lambda: model.predict(OBS, state=0, episode_start=[True, False]))
    assert starts.startswith("episode_start: ")


def test_predict_is_quick(model):
    def rate() -> float:
        began = time.perf_counter()
        for _ in range(500):
            model.predict(OBS)
        return 500 / (time.perf_counter() - began)

    model.predict(OBS)
    assert max(rate() for _ in range(4)) > 500  # Alone on its machine, above 5000; without its jit, below 100.


def test_plays_in_gymnasium(model):
    env = gymnasium.make("asap/TwoRooms-v0")
    obs, _ = env.reset(seed=0)
    skill, ended, steps = None, False, 0
    while not ended:
        action, skill = model.predict(obs, state=skill)
        obs, _, terminated, truncated, _ = env.step(action)
        ended, steps = terminated or truncated, steps + 1
    assert 1 <= steps <= 400


# ---- Reading ------------------------------------------------------------------------------------------------------


def test_evaluate_reports_one_task(model):
    report = model.evaluate(episodes=20)
    assert report.keys() == {"return", "returns", "success", "success_ci", "length", "usage", "durations"}
    assert report["success_ci"][0] <= report["success"] <= report["success_ci"][1] and len(report["returns"]) == 20
    assert -400 <= report["return"] <= 100 and 0 <= report["success"] <= 1
    assert len(report["usage"]) == len(report["durations"]) == 2 and sum(report["usage"]) == pytest.approx(1)
    assert report == model.evaluate(episodes=20) != model.evaluate(episodes=20, seed=1)
    for bad in (0, -1, 1.5, "many", True):
        assert error_line(lambda: model.evaluate(episodes=bad)).startswith("episodes: ")


def test_evaluate_weighs_several_tasks():
    report = ASAP(["two-rooms:3", "flipped-two-rooms:1"]).evaluate(episodes=10)
    first, second = (report["per_task"][name]["return"] for name in TWO_TASKS)
    assert first != second
    assert report["return"] == pytest.approx(0.75 * first + 0.25 * second)


def test_explain_and_plot(model):
    text = model.explain()
    assert "skill 0" in text and "skill 1" in text and "1 plane" in text and "\n  if " in text
    rules = model.rules(digits=2)
    assert rules.startswith("if ") and rules.splitlines()[-1].startswith("otherwise ") and "#" not in rules
    assert error_line(lambda: model.rules(digits=0)).startswith("digits: must be an integer from 1 to 17")
    assert error_line(lambda: model.explanation(digits="2")).startswith("digits: must be an integer from 1 to 17")
    figure = model.plot()
    assert figure.get_suptitle() == "two-rooms, seed 3"


# ---- Saving and loading -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["rooms.asap", "zwei Räume 部屋 🚪.asap", "no-suffix"])
def test_a_saved_model_comes_back_whole(model, tmp_path, name):
    model.save(str(tmp_path / name))
    assert [path.name for path in tmp_path.iterdir()] == [name]
    loaded, twin = ASAP.load(str(tmp_path / name)), ASAP.load(tmp_path / name)
    assert same(loaded, model) and loaded.config == model.config and loaded.num_episodes == model.num_episodes
    np.testing.assert_array_equal(loaded.predict(MANY, deterministic=True), model.predict(MANY, deterministic=True))
    np.testing.assert_array_equal(loaded.predict(MANY), twin.predict(MANY))
    assert loaded.evaluate(20) == model.evaluate(20)


@pytest.mark.parametrize(
    "settings",
    [
        ("basis=polynomial", "degree=3"),
        ("basis=fourier", "frequencies=[[1, 0.5]]"),
        ("skills=linear", "termination=0.1"),
    ],
)
def test_every_kind_of_policy_can_be_saved(tmp_path, settings):
    model = ASAP(TWO_TASKS, hyperplanes=2, learner="natural", gradient="sampled", seed=2**40, settings=settings)
    model.save(tmp_path / "model")
    loaded = ASAP.load(tmp_path / "model")
    assert loaded.config == model.config and same(loaded, model)
    actions = [m.predict(MANY, deterministic=True, task="flipped-two-rooms")[0] for m in (model, loaded)]
    np.testing.assert_array_equal(*actions)


def test_every_truncation_and_flipped_bit_is_refused(saved):
    blob = saved.read_bytes()
    for size in (0, 1, 7, 8, 9, 100, len(blob) // 2, len(blob) - 1):
        saved.write_bytes(blob[:size])
        assert error_line(lambda: ASAP.load(saved), RunError).startswith("model: ")
    for at in np.linspace(0, len(blob) - 1, 60).astype(int):
        saved.write_bytes(blob[:at] + bytes([blob[at] ^ 1]) + blob[at + 1 :])
        assert error_line(lambda: ASAP.load(saved), RunError).startswith("model: ")
    saved.write_bytes(blob)
    ASAP.load(saved)


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('code from a file was run')",)


def test_foreign_files_are_refused_and_never_run(tmp_path):
    path = tmp_path / "foreign"
    for content in (
        pickle.dumps(Bomb()),
        pickle.dumps({"theta": [1]}),
        b"PK\x03\x04" + bytes(100),
        b"\x00" * 1000,
        b"{}",
    ):
        path.write_bytes(content)
        assert error_line(lambda: ASAP.load(path), RunError).startswith("model: ")
    files.replace(path, checkpoints.seal(0, {"a": np.zeros(2)}, {}))
    assert "checkpoint of a run" in error_line(lambda: ASAP.load(path), RunError)
    assert error_line(lambda: ASAP.load(tmp_path)).startswith("run: is not a run directory")
    for place in (tmp_path / "absent", "nul\0byte"):
        assert error_line(lambda: ASAP.load(place), RunError).startswith("model: ")
    os.mkfifo(tmp_path / "fifo")
    assert "FIFO" in error_line(lambda: ASAP.load(tmp_path / "fifo"), RunError)


@pytest.mark.parametrize(
    "config",
    [
        "",
        "not toml",
        "run = 3",
        "[run]\ntasks = ['nowhere']",
        "[run]\ntasks = ['two-rooms']\nwhen = 2024-01-01",
        "[run]\ntasks = ['two-rooms']\nseeds = 3",
        "[run]\ntasks = ['two-rooms']\n[policy]\nhyperplanes = 60",
        "[run]\ntasks = ['two-rooms']\n[policy]\nhyperplanes = 2",
        "[run]\ntasks = ['two-rooms', 'three-rooms']",
        "[run]\ntasks = ['two-rooms']\nweights = [1.0, 2.0]",
    ],
)
def test_sealed_files_of_other_settings_are_refused(tmp_path, config):
    arrays = {name: np.zeros(2, np.float32) for name in ("partition.beta", "skills.theta")}
    files.replace(tmp_path / "model", checkpoints.seal(0, arrays, {"kind": "asap model", "config": config}))
    assert error_line(lambda: ASAP.load(tmp_path / "model"), RunError).startswith("model: cannot be used")


def test_saving_where_it_cannot_be_is_one_line(model, tmp_path):
    assert error_line(lambda: model.save(tmp_path / "absent" / "model")).startswith("model: no such directory")
    assert error_line(lambda: model.save(tmp_path), RunError).startswith("model: cannot save")


# ---- Making -------------------------------------------------------------------------------------------------------


def test_settings_come_from_preset_then_options_then_settings():
    config = ASAP(
        "two-rooms:2", preset="paper", learner="natural", settings=("learn.entropy=0.3", "gradient=marginal")
    ).config
    assert (config.learn.learner, config.learn.gradient, config.learn.optimizer, config.learn.entropy) == (
        "natural",
        "marginal",
        "sgd",
        0.3,
    )
    assert config.run.tasks == ("two-rooms",) and config.run.seed == 0
    assert ASAP("two-rooms", settings="epochs=3").config.learn.epochs == 3


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: ASAP("two-room"), "task"),
        (lambda: ASAP([]), "task"),
        (lambda: ASAP(3), "env"),
        (lambda: ASAP(["two-rooms", None]), "task"),
        (lambda: ASAP(["two-rooms", "two-rooms"]), "task"),
        (lambda: ASAP(["two-rooms", "three-rooms"]), "tasks"),
        (lambda: ASAP("two-rooms", hyperplanes=-1), "policy.hyperplanes"),
        (lambda: ASAP("two-rooms", hyperplanes=50), "policy.hyperplanes"),
        (lambda: ASAP("two-rooms", hyperplanes=1.5), "hyperplanes"),
        (lambda: ASAP("two-rooms", seed=-1), "run.seed"),
        (lambda: ASAP("two-rooms", learner="sarsa"), "learn.learner"),
        (lambda: ASAP("two-rooms", settings=("nonsense=2",)), "nonsense"),
        (lambda: ASAP("two-rooms").learn(episodes=0), "episodes"),
    ],
)
def test_bad_choices_are_refused_with_their_field(make, field):
    assert error_line(make).startswith(f"{field}: ")


def test_an_environment_whose_numbers_drift_is_remarked_once(capsys):
    model = ASAP("own_envs:normalized", settings=["run.candidates=0", "run.final_episodes=2"])
    told = capsys.readouterr().err
    assert told.count("\n") == told.count("note: NormalizeObservation: its numbers drift while it runs, so rules") == 1
    model.predict(np.zeros(3, np.float32))
    assert "in the units of NormalizeObservation, which drift" in model.explain()
    assert "NormalizeObservation" not in capsys.readouterr().err


def test_asap_offers_the_class():
    assert asap.ASAP is ASAP


def test_what_was_learned_from_is_counted_in_the_file(tmp_path):
    counted = ASAP("two-rooms", settings=QUICK)
    counted.num_episodes, counted.num_timesteps = 7, 1234
    counted.save(tmp_path / "counted.asap")
    loaded = ASAP.load(tmp_path / "counted.asap")
    assert (loaded.num_episodes, loaded.num_timesteps) == (7, 1234)


def test_a_model_is_saved_with_the_seed_that_is_looked_at(tmp_path):
    path = tmp_path / "three.asap"
    ASAP("two-rooms", seed=5, settings="run.seeds=3").save(path)
    second = ASAP.load(path, seed=6)
    second.save(path)
    again = ASAP.load(path)
    assert again.seed == 6 and again.seeds == (5, 6, 7) and ASAP.load(path, seed=5).seed == 5
    np.testing.assert_array_equal(again.policy.skills.theta, second.policy.skills.theta)


def test_a_task_is_explained_by_the_use_of_skills_on_it(monkeypatch):
    """Ten steps on each: all under skill 0 on the first, 2 and 8 under skills 0 and 1 on the second."""
    model, steps = ASAP(["two-rooms", "flipped-two-rooms"]), np.array([[[10, 0], [2, 8]]])
    played = Evaluation(*[np.zeros((1, 2, 1))] * 4, steps, np.array([[[1, 0], [1, 4]]]))
    monkeypatch.setattr("asap.model.reading.few_episodes", lambda _: lambda *_: played)

    def told(task: str | None) -> list[tuple[float, float]]:
        return [(skill["usage"], skill["duration"]) for skill in model.explanation(task).as_dict()["skills"]]

    assert told("two-rooms") == [(1.0, 10.0), (0.0, None)]
    assert told("flipped-two-rooms") == [(0.2, 2.0), (0.8, 2.0)]
    assert told(None) == [(0.6, 6.0), (0.4, 2.0)]
