"""`asap check`: what an environment is like, whether it depends on its seeds alone, and failures seen again."""

import json

import pytest

from asap.base.episodes import TRAINING, EpisodeId
from asap.base.errors import RunError, UserError
from asap.cli.environments import check_env
from asap.envs.gymnasium import determinism
from asap.envs.gymnasium.checked_env import CheckedEnv, EnvError
from asap.envs.gymnasium.make import EnvLimits, EnvSource
from asap.workers.failures import Recording
from asap.workers.work import Failed

EPISODE = EpisodeId(seed=5, stream=TRAINING, number=41)


def not_deterministic(name: str, seeds=(3, 4, 5)) -> str | None:
    return determinism.check(lambda: CheckedEnv(EnvSource(name), EnvLimits()), seeds)


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "own_envs:Walk", "own_envs:OneBuffer"])
def test_environments_that_depend_on_their_seeds_alone(name):
    assert not_deterministic(name) is None


@pytest.mark.parametrize("name", ["own_envs:Unseeded", "own_envs:Flickering"])
def test_an_environment_that_nobody_seeds(name):  # 31
    sentence = "episode 0 gave two different digests for the same seed (3): the environment is not deterministic"
    assert not_deterministic(name) == sentence


def test_an_environment_that_carries_state_into_the_next_episode():  # 32
    assert not_deterministic("own_envs:Leaking").endswith("(3): state of the environment leaks into the next episode")


def test_trouble_while_determinism_is_checked():
    with pytest.raises(RunError, match=r"env.reset: obs\[0\] is nan at an episode step 0 \(seed 3\)"):
        not_deterministic("own_envs:NanAtReset")


def checked(capsys, name: str, options=None, seed: int = 0, replay=None, rules: EnvLimits = EnvLimits()) -> dict:
    check_env(name, options or {}, 4, seed, replay, True, rules)
    return json.loads(capsys.readouterr().out)


def test_the_report_of_a_check(capsys):
    report = checked(capsys, "CartPole-v1")
    names = [row["name"] for row in report["observations"]]
    assert names == ["cart position", "cart velocity", "pole angle", "pole angular velocity"]
    assert report["observations"][1]["bounds"] == [None, None]
    for row in report["observations"]:
        assert row["seen"][0] < row["seen"][1]
    assert report["returns"] == report["lengths"] and report["episodes"] == report["terminated"] == 4
    assert (report["actions"], report["warnings"], report["not_deterministic"]) == (
        ["push left", "push right"],
        [],
        None,
    )
    assert report["steps_per_second"] > 0


@pytest.mark.parametrize(
    ("name", "must_contain"),
    [
        ("CartPole-v1", "pole angular velocity  -inf to inf "),
        ("Pendulum-v1", "controls: torque (Box(-2.0, 2.0, (1,), float32))"),
        ("Taxi-v4", "and 480 more"),
        ("own_envs:Tanks", "\n  arm.joint    -1 to 1  0\n"),
        (
            "own_envs:Tanks",
            "actions: drain + closed, drain + open, hold + closed, hold + open, fill + closed, fill",
        ),
        (
            "own_envs:normalized",
            "  warning: NormalizeObservation: its numbers drift while it runs, so rules over them",
        ),
        ("own_envs:Endless", "warning: an episode that did not end by itself was cut after 1000 steps"),
        ("own_envs:Leaking", "deterministic: no: episode 0 gave two different digests"),
    ],
)
def test_the_report_in_words(name, must_contain, capsys):
    check_env(name, {}, 2, 0, None, False)
    assert must_contain in capsys.readouterr().out


def test_an_error_names_the_seed_with_which_it_is_seen_again(capsys):
    options = {"mode": "nan_obs"}
    with pytest.raises(RunError, match=r"obs\[1\] is nan at episode 0 step 7 \(seed 11\); reproduce it with --seed 11"):
        checked(capsys, "own_envs:spoiled", options, seed=11)
    with pytest.raises(UserError, match="--episodes"):
        check_env("CartPole-v1", {}, 0, 0, None, True)


def failed_episode(source: EnvSource, rules: EnvLimits, action) -> Failed:
    checked = CheckedEnv(source, rules)
    with pytest.raises(EnvError) as caught:
        checked.reset(EPISODE)
        while True:
            checked.step(action)
    return Failed(EPISODE, **caught.value.report())


def test_a_recorded_failure_is_seen_again(tmp_path, capsys):
    source, rules = EnvSource("own_envs:spoiled", {"mode": "outside_obs"}), EnvLimits(strict_obs=True)
    path = str(tmp_path / "failure.json")
    Recording.of(source, failed_episode(source, rules, 1), rules).save(path)
    with pytest.raises(RunError, match=rf"obs\[2\] is 1000, .* step 7 \(seed {EPISODE.reset_seed}\); as recorded"):
        check_env(source.name, {}, 1, 0, path, True)
    Recording.load(path)._replace(error="env.step: reward is nan").save(path)
    with pytest.raises(RunError, match="recorded was 'env.step: reward is nan'"):
        check_env(source.name, {}, 1, 0, path, True)
    Recording.load(path)._replace(rules=EnvLimits()._asdict()).save(path)
    report = checked(capsys, source.name, replay=path)
    assert (report["again"], report["steps"]) == (False, 7)
    with pytest.raises(UserError, match="recorded in 'own_envs:spoiled'"):
        check_env("CartPole-v1", {}, 1, 0, path, True)
    for action in (2, -1, 1.0, [1], "1", None):
        Recording.load(path)._replace(actions=[action]).save(path)
        with pytest.raises(UserError, match="has an action that the environment does not take"):
            check_env(source.name, {}, 1, 0, path, True)


def test_the_recorded_seed_is_played(tmp_path):
    source, path = EnvSource("own_envs:Picky", {"seed": EPISODE.reset_seed}), str(tmp_path / "failure.json")
    Recording.of(source, failed_episode(source, EnvLimits(), 1)).save(path)
    with pytest.raises(RunError, match="step must return .* as recorded"):
        check_env(source.name, {}, 1, 0, path, True)


def test_recorded_controls_are_vectors(tmp_path, capsys):
    path = str(tmp_path / "failure.json")
    Recording("Pendulum-v1", {}, EnvLimits()._asdict(), 3, [[0.5], [-2.0]], "env.step: reward is nan").save(path)
    assert checked(capsys, "Pendulum-v1", replay=path)["steps"] == 2
    for action in (1, [1.0, 2.0], ["a"], None, [1e300], [10**400], [float("nan")]):
        Recording("Pendulum-v1", {}, EnvLimits()._asdict(), 3, [action], "").save(path)
        with pytest.raises(UserError, match="has an action that the environment does not take"):
            check_env("Pendulum-v1", {}, 1, 0, path, True)
