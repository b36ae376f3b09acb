"""Given rules are where learning starts: exactly as they are given, made correctable by numbers that can be worked out by hand,
and for every kind of task."""

import json

import numpy as np
import pytest
from command_line import asap

from asap import ASAP
from asap.base.errors import UserError
from asap.policy.rules.given import given_by
from asap.policy.rules.sums import Sum, Term
from asap.policy.surgery import drop_plane

SMALL = ["learn.batch_episodes=2", "learn.lanes=4", "run.chunk=2", "run.eval_episodes=2", "run.final_episodes=3"]
CARTPOLE = "if pole angle + 0.2*pole angular velocity > 0.01 then push right\notherwise push left\n"
ROOMS = "if x > 0.5 m then down\nif y > 0.75 m then right\notherwise up\n"
PENDULUM = "if cos angle > 0.8 then torque = -2*sin angle - 0.4*angular velocity\notherwise torque = 1.5 (+- 0.5)\n"
LAKE = "in row 0 columns 1 to 3; row 1 column 2 then left\notherwise down (60 %), right (40 %)\n"
THREE = "if x + 0.5*y > 0.7 then right (90 %)\notherwise up (85 %)\n"
JOINT = "if x - 0.2*goal height > 0.5 then down (80 %)\nif door height > 0.5 then up (80 %)\notherwise right (70 %)\n"
TEXTS = {
    "CartPole-v1": CARTPOLE,
    "Pendulum-v1": PENDULUM,
    "FrozenLake-v1": LAKE,
    "two-rooms": ROOMS,
    "three-rooms": THREE,
}


def probabilities(model: ASAP, states: np.ndarray, policy=None) -> np.ndarray:
    m = np.asarray(model.tasks.tasks[0].descriptor, np.float32)
    policy = model.policy if policy is None else policy
    return np.exp(policy.action_log_probs(np.float32(states.T), np.tile(m[:, None], (1, len(states)))))


def states_of(model: ASAP, count: int = 300) -> np.ndarray:
    spec, generator = model.tasks.spec, np.random.default_rng(0)
    if spec.numbered:
        return np.eye(len(spec.observation_names))
    return generator.uniform(-1, 1, size=(count, len(spec.observation_names)))


def started(model: ASAP):
    """Where learning starts, and what was done to the rules."""
    from asap.experience.choose import choose
    from asap.learn.from_rules import start_from_rules
    from asap.model.training import temporary_folder

    with temporary_folder() as folder:
        player = choose(model.config, model.tasks, "0", folder, print)
        start, notes = start_from_rules(model.config, player, 1)
        player.close()
    return start, notes


def same_parameters(first: ASAP, second: ASAP) -> bool:
    from asap.policy.score import parameters_of

    pairs = zip(parameters_of(first.policies), parameters_of(second.policies))
    return all(own is None or np.array_equal(own, other) for own, other in pairs)


# ---- Before learning ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", TEXTS)
def test_before_learning_the_policy_is_the_text(env):
    model = ASAP(env, rules=TEXTS[env], seed=1)
    again = ASAP(env, rules=model.rules(exact=True), seed=1)
    assert again.policy.partition.skill_of_region.tolist() == model.policy.partition.skill_of_region.tolist() or (
        env == "FrozenLake-v1"
    )
    if not model.tasks.spec.continuous:
        states = states_of(model)
        np.testing.assert_allclose(probabilities(again, states), probabilities(model, states), atol=1e-5)
    else:
        assert again.rules(exact=True) == model.rules(exact=True)


def test_predict_does_what_the_rules_say():
    model = ASAP("CartPole-v1", rules=CARTPOLE, seed=1)
    states = states_of(model)
    for deterministic in (True, False):
        actions, _ = model.predict(states, deterministic=deterministic)
        np.testing.assert_array_equal(actions, (states[:, 2] + 0.2 * states[:, 3] > 0.01).astype(int))
    rooms = ASAP("two-rooms", rules=ROOMS, seed=1)
    x = np.abs(states_of(rooms))
    expected = np.where(x[:, 0] > 0.5, 1, np.where(x[:, 1] > 0.75, 2, 0))
    np.testing.assert_array_equal(rooms.predict(x, deterministic=True)[0], expected)
    pendulum = ASAP("Pendulum-v1", rules=PENDULUM, seed=1)
    x = states_of(pendulum)
    torque = np.where(x[:, 0] > 0.8, np.clip(-2 * x[:, 1] - 0.4 * x[:, 2], -2, 2), 1.5)
    np.testing.assert_allclose(pendulum.predict(x, deterministic=True)[0].ravel(), torque, atol=1e-5)
    lake = ASAP("FrozenLake-v1", rules=LAKE, seed=1)
    actions, _ = lake.predict(np.arange(16), deterministic=True)
    assert actions.tolist() == [0 if s in (1, 2, 3, 6) else 1 for s in range(16)]


# ---- What learning starts from ------------------------------------------------------------------------------------


def correctable(env: str, rules: str, values: np.ndarray):
    model = ASAP(env, rules=rules, seed=1)
    return given_by(model.config, model.tasks.tasks).correctable(values)


def test_the_start_of_learning_by_hand():
    """Sums of -3, -1, 1 and 3 have a deviation of sqrt 5 = 2.236: two digits of it; a tenth of it is where softness begins."""
    values = np.zeros((4, 4))
    values[2] = [-3, -1, 1, 3]
    text = "if pole angle > 0.01{} then push right{}\notherwise push left{}\n"
    book, notes = correctable("CartPole-v1", text.format("", "", " (97 %)"), values)
    assert book.tests[0].within == 2.2
    assert [skill.probabilities(2).tolist() for skill in book.skills] == [
        [pytest.approx(0.05), 0.95],
        [0.95, pytest.approx(0.05)],
    ]
    assert notes == [
        "softened to learn from: pole angle > 0.01 within 2.2",
        "made less sure to learn from: push right (95 %)",
        "made less sure to learn from: push left (95 %), push right (5 %)",
    ]
    for within, softened in ((" within 0.22", 2.2), (" within 0.23", 0.23), (" within 5", 5.0)):
        book, _ = correctable("CartPole-v1", text.format(within, " (94 %)", " (95 %)"), values)
        assert book.tests[0].within == softened
        assert [max(skill.probabilities(2)) for skill in book.skills] == [0.94, 0.95]
    book, notes = correctable("CartPole-v1", text.format(" [keep]", " [keep]", " [keep]"), values)
    assert notes == [] and book.tests[0].within is None


def test_what_is_left_of_a_lowered_percentage_is_shared_as_before():
    """98 % leaves 2 %, 1.5 to 0.5 to 0 to 0; of 5 % that is 3.75 and 1.25."""
    text = "down (98 %), up (1.5 %), left (0.5 %)"
    book, _ = correctable("two-rooms", text, np.zeros((7, 4)))
    np.testing.assert_allclose(book.skills[0].probabilities(4), [0.0375, 0.95, 0.0, 0.0125], atol=1e-9)


def test_numbers_to_set_get_a_deviation():
    """Of 0.3 times half the range, from -2 to 2, where none is given."""
    book, notes = correctable("Pendulum-v1", PENDULUM, np.random.default_rng(0).normal(size=(3, 50)))
    assert [skill.deviations for skill in book.skills] == [(pytest.approx(0.6),), (0.5,)]
    assert book.skills[0].means[0].terms == {Term((1,)): -2.0, Term((2,)): -0.4}
    assert sum("made less sure" in note for note in notes) == 1


def test_the_largest_score_leads_by_three_on_average():
    """Scores of 12, 0 and 0 lead by 12: a quarter of them by 3."""
    text = "the largest of\n  accelerate left: 12\n  do not accelerate: 0\n  accelerate right: 0*position\n"
    book, _ = correctable("MountainCar-v0", text, np.ones((2, 5)))
    assert book.skills[0].sums == (Sum({}, 3.0), Sum({}), Sum({}))


def test_learning_starts_there():
    """No search, the same map of regions, and the softened probabilities, whatever scaling and slopes are underneath."""
    model = ASAP("CartPole-v1", rules=CARTPOLE, seed=1, settings=[*SMALL, "run.try_images=false"])
    assert model.config.run.candidates == 0
    start, notes = started(model)
    within = float(notes[0].split("within ")[1])
    assert start.policy.partition.region_skills == model.policy.partition.region_skills
    assert float(start.moments.count) > 0 and not np.allclose(start.policy.psi.scale, 1)
    states = states_of(model)
    side = 1 / (1 + 9 ** (-(states[:, 2] + 0.2 * states[:, 3] - 0.01) / within))
    right = 0.95 * side + 0.05 * (1 - side)
    np.testing.assert_allclose(probabilities(model, states, start.policy)[1], right, atol=2e-5)
    assert notes[1:] == [
        "made less sure to learn from: push right (95 %)",
        "made less sure to learn from: push left (95 %)",
    ]


# ---- The other way round ------------------------------------------------------------------------------------------

BACKWARDS = "if pole angle + 0.2*pole angular velocity > 0.01 then push left\notherwise push right\n"


@pytest.mark.parametrize(("rules", "is_turned"), [(BACKWARDS, True), (CARTPOLE, False)])
def test_rules_are_turned_round_only_where_that_is_better_beyond_doubt(rules, is_turned, capsys):
    model = ASAP("CartPole-v1", rules=rules, seed=1, settings=SMALL)
    model.learn(8000)
    said = capsys.readouterr().err
    assert ("the rules the other way round return" in said) == is_turned
    assert ("learning starts from these" in said) == is_turned
    upright = model.policy.action_log_probs(np.float32([0, 0, 0.2, 0.5]), np.zeros(0, np.float32))
    assert upright[1] > upright[0]


@pytest.mark.parametrize(
    ("rules", "settings", "is_turned"),
    [
        (BACKWARDS, [], True),
        (BACKWARDS, ["run.try_images=false"], False),
        (BACKWARDS.replace("0.01", "0.01 [keep]"), [], False),
        (BACKWARDS, ["policy.keep=partition"], False),
    ],
)
def test_kept_planes_are_not_turned_round(rules, settings, is_turned):
    """Nor any, where nobody wants it."""
    model = ASAP("CartPole-v1", rules=rules, seed=1, settings=[*SMALL, "run.steps=8000", *settings])
    assert any("the other way round" in note for note in started(model)[1]) == is_turned


# ---- Without an update --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", ["CartPole-v1", "two-rooms"])
def test_without_an_update_the_result_is_the_text(env, tmp_path, capsys, monkeypatch):
    (tmp_path / "rules.txt").write_text(TEXTS[env])
    run, settings = str(tmp_path / "run"), [word for text in SMALL for word in ("--set", text)]
    command = ["train", env, "--rules", str(tmp_path / "rules.txt"), "--out", run, *settings, "--json"]
    code, out, _ = asap([*command, "--episodes", "2"], capsys, monkeypatch)
    report = json.loads(out.splitlines()[-1])
    assert code == 0 and report["updates"] == 0 and report["return"] is not None
    assert "without an update the result is the given rules, as they are" in report["notes"]
    given = ASAP(env, rules=TEXTS[env])
    loaded = ASAP.load(run)
    assert same_parameters(loaded, given) and loaded.rules(exact=True) == given.rules(exact=True)
    assert loaded.verdict is not None  # It is of these policies.
    loaded.save(tmp_path / "model.asap")
    assert same_parameters(ASAP.load(tmp_path / "model.asap"), given)
    # Learning goes on as if it had never stopped, from the softened rules.
    code, out, _ = asap(["train", "--resume", run, "--episodes", "30", "--json"], capsys, monkeypatch)
    assert code == 0 and json.loads(out.splitlines()[-1])["updates"] > 0
    if env == "two-rooms":
        assert not same_parameters(ASAP.load(run), given)


# ---- Every kind of task -------------------------------------------------------------------------------------------


SLOW = {"three-rooms"}  # Its kind is that of the other rooms.


@pytest.mark.parametrize("env", [pytest.param(env, marks=[pytest.mark.slow] * (env in SLOW)) for env in TEXTS])
def test_every_kind_of_task_learns_from_rules(env, tmp_path):
    model = ASAP(env, rules=TEXTS[env], seed=2, settings=[*SMALL, "run.seeds=2"])
    given = model.policy
    model.learn(episodes=60, run=tmp_path / "run") if not env[0].isupper() else model.learn(2500, run=tmp_path / "run")
    assert min(model.result.updates) > 0
    assert model.config.policy.rules == TEXTS[env] and "policy" in (tmp_path / "run" / "config.toml").read_text()
    loaded = ASAP.load(tmp_path / "run")
    assert loaded.config.policy.rules == TEXTS[env] and same_parameters(loaded, model)
    assert loaded.policy.partition.region_skills == given.partition.region_skills
    model.save(tmp_path / "model.asap")
    assert same_parameters(ASAP.load(tmp_path / "model.asap", seed=3), model)
    assert loaded.given.book.skills  # The rules are read again from what was saved.
    for seed in (2, 3):
        assert not np.allclose(ASAP.load(tmp_path / "run", seed=seed).policy.skills.theta, given.skills.theta)


def test_several_tasks_share_rules_that_name_their_numbers():
    model = ASAP(["two-rooms", "flipped-two-rooms"], rules=JOINT, seed=0, settings=SMALL)
    two, flipped = (dict(zip(model.tasks.spec.descriptor_names, task.descriptor)) for task in model.tasks.tasks)
    assert two["door height"] > 0.5 > flipped["door height"]
    state = np.array([0.4, 0.5, 0.9, 0.1])
    assert model.predict(state, deterministic=True, task="two-rooms")[0] == 0
    assert model.predict(state, deterministic=True, task="flipped-two-rooms")[0] == 2
    model.learn(episodes=60)
    assert min(model.result.updates) > 0


def test_a_stopped_run_goes_on_bit_by_bit(tmp_path):
    settings = [*SMALL, "run.try_images=true"]
    whole = ASAP("CartPole-v1", rules=CARTPOLE, seed=4, settings=settings).learn(6000)
    calls = []

    def stop(report) -> bool:
        calls.append(report)
        return len(calls) < 2

    parts = ASAP("CartPole-v1", rules=CARTPOLE, seed=4, settings=settings)
    parts.learn(6000, callback=stop, run=tmp_path / "run")
    assert parts.num_timesteps < whole.num_timesteps
    resumed = ASAP("CartPole-v1", rules=CARTPOLE, seed=4, settings=settings)
    resumed.learn(6000 - parts.num_timesteps, run=tmp_path / "run")
    assert resumed.num_timesteps == whole.num_timesteps and same_parameters(resumed, whole)


def test_transfer_starts_from_what_was_learned(tmp_path, capsys, monkeypatch):
    """The planes are as sharp as in the source."""
    source = ASAP("two-rooms", rules=ROOMS, seed=0, settings=SMALL).learn(episodes=60, run=tmp_path / "run")
    from asap.base.arrays import stack
    from asap.learn.state import drawn_policy
    from asap.model.source import start_from, transfer_settings
    from asap.model.training import fitting

    config, tasks = transfer_settings(str(tmp_path / "run"), ["flipped-two-rooms"], {}, None, False, {})
    start = fitting(start_from(config, tasks)[0], stack([drawn_policy(config, tasks, 0)]), config)
    np.testing.assert_array_equal(start.partition.alpha_beta, source.policies.partition.alpha_beta)
    out = ["--out", str(tmp_path / "next"), "--episodes", "20", "--set", "run.final_episodes=3"]
    assert asap(["transfer", str(tmp_path / "run"), "flipped-two-rooms", *out], capsys, monkeypatch)[0] == 0


def test_corrected_rules_can_be_distilled():
    from asap.distill import distill

    teacher = ASAP("CartPole-v1", rules=CARTPOLE, seed=0, settings=SMALL).learn(2500)
    distilled = distill(teacher, "CartPole-v1", episodes=4)
    assert distilled.policy.partition.num_planes >= 1


# ---- Planes, features and skills beyond those of the text ---------------------------------------------------------


@pytest.mark.parametrize("env", ["CartPole-v1", "two-rooms"])
def test_further_planes_change_nothing_until_they_learn(env):
    model, more = (ASAP(env, rules=TEXTS[env], seed=1, hyperplanes=k) for k in (None, 3))
    states = np.abs(states_of(model))
    np.testing.assert_allclose(probabilities(more, states), probabilities(model, states), atol=1e-6)
    start = started(more)[0].policy
    assert start.partition.num_planes == 3 and np.abs(start.partition.beta[2]).max() > 0
    without = drop_plane(start, 2, 0)
    without = drop_plane(without, 1, 0) if model.policy.partition.num_planes == 1 else without
    np.testing.assert_allclose(probabilities(model, states, start), probabilities(model, states, without), atol=1e-6)


def test_fewer_planes_than_tests_are_refused():
    with pytest.raises(UserError, match="the rules have 2 different tests"):
        ASAP("two-rooms", rules=ROOMS, hyperplanes=1)


@pytest.mark.parametrize(
    ("text", "features"),
    [
        (
            "if pole angle*pole angular velocity + cart position^2 > 0.01 within 0.1 [keep] then push right (80 %)\notherwise push left",
            "poly2",
        ),
        (
            "if sin(pi*(2*pole angle + 0.1)) > 0.01 within 0.5 [keep] then push right (80 %)\notherwise push left (70 %)",
            "fourier",
        ),
        (
            "if sin(pi*(2*pole angle)) > 0.01 within 0.5 [keep] then push right (80 %)\notherwise push left (70 %)",
            "fourier",
        ),
        (CARTPOLE.replace("0.01", "0.01 within 0.1 [keep]"), "poly2"),
    ],
)
def test_other_features_keep_their_meaning_on_a_learned_scaling(text, features, tmp_path):
    settings = [*SMALL, "run.try_images=false", "policy.keep=skills"]
    model = ASAP("CartPole-v1", rules=text, features=features, seed=1, settings=settings)
    before = probabilities(model, states_of(model))
    model.learn(2500, run=tmp_path / "run")
    assert min(model.result.updates) > 0 and not np.allclose(model.policy.psi.scale, 1)
    np.testing.assert_allclose(probabilities(model, states_of(model)), before, atol=3e-4)
    assert same_parameters(ASAP.load(tmp_path / "run"), model)


def test_constant_rules_may_get_linear_skills():
    model, linear = (
        ASAP("CartPole-v1", rules=CARTPOLE, seed=1, skills=skills, settings=SMALL) for skills in (None, "linear")
    )
    assert model.policy.skills.theta.shape[-1] == 1 and linear.policy.skills.theta.shape[-1] == 5
    states = states_of(model)
    np.testing.assert_allclose(probabilities(linear, states), probabilities(model, states), atol=1e-6)
    linear.learn(2500)
    assert np.abs(linear.policy.skills.theta[..., 1:]).max() > 0


# ---- Logged data --------------------------------------------------------------------------------------------------


def test_rules_are_corrected_from_logged_data(tmp_path, capsys, monkeypatch):
    data, rules, run = (str(tmp_path / name) for name in ("data.npz", "rules.txt", "run"))
    (tmp_path / "rules.txt").write_text(ROOMS)
    assert (
        asap(
            ["collect", "two-rooms", "--controller", "random", "--episodes", "30", "--out", data], capsys, monkeypatch
        )[0]
        == 0
    )
    small = ["--episodes", "60", "--set", "run.final_episodes=3", "--out", run, "--json"]
    code, out, err = asap(["train", "--offline", data, "--rules", rules, *small], capsys, monkeypatch)
    assert code == 0, err
    assert json.loads(out.splitlines()[-1])["updates"] > 0
    assert "softened to learn from" in err
    model = ASAP.load(run)
    assert model.config.policy.rules == ROOMS and not same_parameters(model, ASAP("two-rooms", rules=ROOMS))
