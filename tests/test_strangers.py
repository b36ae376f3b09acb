"""A file from a stranger runs nothing: what it names is imported, called or opened only if the user made the file or
names it in the call. The user's own files work without a question."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import asap
from hostile_files import RELEASE, Workshop, cases

from asap import ASAP
from asap.base import trust
from asap.envs.gymnasium.make import EnvNotMade, EnvSource, harmless

OWN_MODULE = """
import gymnasium

def make(length=0.5):
    env = gymnasium.make("CartPole-v1")
    env.unwrapped.length = length
    return env
"""
SMALL = ["--steps", "600", "--set", "run.candidates=0", "--set", "run.final_episodes=2", "--set", "run.eval_episodes=2"]


@pytest.fixture
def key(tmp_path, monkeypatch) -> Path:
    path = tmp_path / "configuration" / "key"
    monkeypatch.setenv(trust.KEY_FILE, str(path))
    return path


# ---- Hostile files ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def looks(tmp_path_factory) -> dict[str, dict]:
    """What each case did, in one process that notes all it touches."""
    folder = tmp_path_factory.mktemp("from a stranger")
    environment = {**os.environ, trust.KEY_FILE: str(folder / "key")}
    command = [sys.executable, str(Path(__file__).with_name("hostile_files.py")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=environment)
    assert done.returncode == 0, done.stderr
    return {row["case"]: row for row in map(json.loads, done.stdout.splitlines())}


def test_every_case_was_tried(looks, tmp_path, key, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [case.name for case in cases(tmp_path)]
    assert len(names) == len(set(names)) >= 40
    assert list(looks) == names


def test_nothing_is_touched(looks):
    assert {name: row["touched"] for name, row in looks.items() if row["touched"] or row["canary"]} == {}


def test_each_ends_in_one_clear_line(looks):
    for name, row in looks.items():
        assert row["code"] == row["expected"], (name, row["stderr"])
        assert row["said"], (name, row["stderr"])
        assert len(row["errors"]) == (row["expected"] != 0), (name, row["stderr"])
        assert all(line.startswith("error: ") for line in row["errors"]) and row["stderr"].isascii(), name


# ---- Own files ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def workplace(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("own")


@pytest.fixture
def own_run(workplace, key, monkeypatch, capsys) -> Path:
    """A small run of an environment that only an import leads to: trained once, and as it was for every test."""
    folder, kept, kept_key = (workplace / name for name in ("project", "kept", "key"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    if kept.exists():
        shutil.rmtree(folder)
        shutil.copytree(kept, folder)
        key.parent.mkdir(mode=0o700)
        shutil.copy2(kept_key, key)
        monkeypatch.chdir(folder)
        return folder / "run"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "own_module_of_a_project.py").write_text(OWN_MODULE)
    arguments = ["train", "own_module_of_a_project:make", *SMALL, "--env-options", '{"length": 0.7}']
    code, _, error = asap([*arguments, "--out", str(folder / "run")], capsys, monkeypatch)
    assert code == 0, error
    shutil.copytree(folder, kept)
    shutil.copy2(key, kept_key)
    return folder / "run"


def test_own_runs_work_without_a_question(own_run, capsys, monkeypatch):
    assert "used in" in asap(["explain", str(own_run)], capsys, monkeypatch)[1]
    for arguments in (["eval", str(own_run), "--episodes", "1"], ["train", "--resume", str(own_run), "--steps", "900"]):
        code, _, error = asap(arguments, capsys, monkeypatch)
        assert (code, error) == (0, "")
    assert ASAP.load(own_run).evaluate(1)["return"] > 0


def test_a_larger_budget_renews_the_tag(own_run, capsys, monkeypatch):
    asap(["train", "--resume", str(own_run), "--steps", "1200"], capsys, monkeypatch)
    assert "steps = 1200" in (own_run / "config.toml").read_text()
    assert asap(["eval", str(own_run), "--episodes", "1"], capsys, monkeypatch)[0] == 0


def test_a_run_that_plays_takes_no_data(own_run, capsys, monkeypatch):
    code, _, error = asap(["train", "--resume", str(own_run), "--offline", "x.npz"], capsys, monkeypatch)
    assert code == 2 and "so --offline can't be given" in error


@pytest.mark.parametrize(
    ("section", "line", "field"),
    [("offline", 'data = "/dev/zero"', "offline.data"), ("run", 'source = "/x"', "run.source")],
)
def test_what_others_put_into_an_own_run_is_not_opened(own_run, section, line, field, capsys, monkeypatch):
    config = own_run / "config.toml"
    config.write_text(config.read_text().replace(f"[{section}]\n", f"[{section}]\n{line}\n"))
    shutil.rmtree(own_run / "checkpoints")
    name = json.loads((own_run / "tasks.json").read_text())["tasks"][0]["name"]
    code, _, error = asap(["train", "--resume", str(own_run), "--env", name], capsys, monkeypatch)
    assert code == 2 and f"{field}: is not opened" in error


def test_an_own_run_that_comes_back_with_a_module_is_a_strangers(own_run, tmp_path, capsys, monkeypatch):
    downloaded = shutil.copytree(own_run.parent, tmp_path / "downloaded")
    monkeypatch.chdir(downloaded)
    code, _, error = asap(["eval", "run"], capsys, monkeypatch)
    assert code == 2 and "nothing shows that you made" in error


def test_a_given_environment_must_fit(own_run, capsys, monkeypatch):
    code, _, error = asap(["eval", str(own_run), "--env", "Acrobot-v1"], capsys, monkeypatch)
    assert code == 2 and "error: env: observation_space must be like Box([-4.8" in error


def test_own_models_work_without_a_question(own_run, tmp_path):
    ASAP.load(own_run).save(tmp_path / "model.asap")
    assert ASAP.load(tmp_path / "model.asap").tasks.tasks[0].source.options == {"length": 0.7}
    assert ASAP.load(tmp_path / "model.asap").evaluate(1)["return"] > 0


def test_without_the_key_an_environment_must_be_named(own_run, key, capsys, monkeypatch):
    key.unlink()
    code, text, error = asap(["explain", str(own_run)], capsys, monkeypatch)
    assert code == 0 and "if " in text and "used in" not in text and "nothing was played" in error
    code, _, error = asap(["eval", str(own_run)], capsys, monkeypatch)
    name = json.loads((own_run / "tasks.json").read_text())["tasks"][0]["name"]
    assert code == 2 and error.count("\n") == 1 and f"--env {name}" in error
    code, _, error = asap(["eval", str(own_run), "--episodes", "1", "--env", name], capsys, monkeypatch)
    assert code == 0 and "{'length': 0.7}" in error  # Told, not used.
    said = ["--env", name, "--env-options", '{"length": 0.7}']
    assert asap(["eval", str(own_run), "--episodes", "1", *said], capsys, monkeypatch)[::2] == (0, "")


def test_a_run_that_is_resumed_by_name_becomes_the_users_own(own_run, key, capsys, monkeypatch):
    key.unlink()
    name = json.loads((own_run / "tasks.json").read_text())["tasks"][0]["name"]
    said = ["--env", name, "--env-options", '{"length": 0.7}']
    assert asap(["train", "--resume", str(own_run), "--steps", "900", *said], capsys, monkeypatch)[0] == 0
    assert asap(["eval", str(own_run), "--episodes", "1"], capsys, monkeypatch)[::2] == (0, "")


def test_a_strangers_names_do_not_become_own_by_saving(tmp_path, key, monkeypatch):
    monkeypatch.chdir(tmp_path)
    work = Workshop(tmp_path)
    path = work.model("theirs", work.record(name="hostile_module:make"), run__tasks=["hostile_module:make"])
    ASAP.load(path).save(tmp_path / "mine.asap")
    with pytest.raises(EnvNotMade, match="nothing shows"):
        ASAP.load(tmp_path / "mine.asap").evaluate(1)


def test_data_of_a_strangers_model_are_not_opened_to_learn(tmp_path, key):
    from asap import UserError

    path = Workshop(tmp_path).model("theirs", offline__data="/dev/zero", learn__learner="likelihood")
    with pytest.raises(UserError, match="offline.data: is not opened"):
        ASAP.load(path).learn(100)


def test_a_recording_of_ones_own_is_played_with_its_options(tmp_path, key, capsys, monkeypatch):
    from asap.base.episodes import TRAINING, EpisodeId
    from asap.workers.failures import Recording
    from asap.workers.work import Failed

    failed = Failed(EpisodeId(0, TRAINING, 0), "env.step", "x", "", 1, [0], "")
    path = tmp_path / "failed.json"
    Recording.of(EnvSource("CartPole-v1", {"sutton_barto_reward": True, "render_mode": None}), failed).save(path)
    code, _, error = asap(["check", "CartPole-v1", "--replay", str(path)], capsys, monkeypatch)
    assert (code, error) == (0, "")


# ---- The key ------------------------------------------------------------------------------------------------------

NAMES = {"tasks": ["a:b"]}


def test_the_key_is_made_once_and_is_private(key):
    first = trust.tag(NAMES)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and key.stat().st_size == 32
    assert trust.tag(NAMES) == first and trust.is_own(NAMES, first)
    assert [entry.name for entry in key.parent.iterdir()] == ["key"]


def test_a_tag_is_of_its_names_and_its_key(key):
    tag = trust.tag(NAMES)
    assert not trust.is_own({"tasks": ["a:c"]}, tag)
    assert not any(trust.is_own(NAMES, other) for other in (None, "", tag[:-1], tag.upper(), 7, [tag], "ü" * 64))
    key.unlink()
    assert not trust.is_own(NAMES, tag) and trust.tag(NAMES) != tag


def test_a_key_that_others_can_read_proves_nothing(key):
    tag = trust.tag(NAMES)
    key.chmod(0o640)
    assert not trust.is_own(NAMES, tag) and trust.tag(NAMES) is None


@pytest.mark.parametrize("content", [b"", b"short", bytes(33)])
def test_a_damaged_key_proves_nothing(key, content):
    key.parent.mkdir()
    key.write_bytes(content)
    key.chmod(0o600)
    assert trust.tag(NAMES) is None and not trust.is_own(NAMES, "00" * 32)


def test_a_fifo_is_no_key(key):
    key.parent.mkdir()
    os.mkfifo(key, 0o600)
    assert trust.tag(NAMES) is None


@pytest.mark.parametrize("home", ["/nowhere/at/all", "/proc", "", "relative"])
def test_no_home_is_no_error(home, monkeypatch):
    for name in (trust.KEY_FILE, "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", home)
    monkeypatch.setattr(Path, "mkdir", _refused)
    assert trust.tag(NAMES) is None and not trust.is_own(NAMES, "00" * 32)


def _refused(*_: object, **__: object) -> None:
    raise PermissionError(13, "Permission denied")


def test_two_processes_share_the_first_key(key):
    program = "from asap.base import trust; print(trust.tag({'tasks': ['a:b']}))"
    children = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=os.environ)
        for _ in range(4)
    ]
    told = {child.communicate(timeout=60)[0].strip() for child in children}
    assert told == {trust.tag(NAMES)}


def test_ids_that_are_registered_later_are_not_a_strangers_to_use(monkeypatch):
    import gymnasium

    gymnasium.register("Later-v0", entry_point="gymnasium.envs.classic_control.cartpole:CartPoleEnv")
    try:
        assert EnvSource("Later-v0").build() is not None
        with pytest.raises(EnvNotMade, match="nothing shows"):
            EnvSource("Later-v0").by_stranger("file").build()
    finally:
        gymnasium.registry.pop("Later-v0")


@pytest.mark.parametrize(
    ("options", "used"),
    [
        ({"a": 1, "b": 2.5, "c": True, "d": "word"}, ["a", "b", "c", "d"]),
        ({"a": "x/y", "b": "x\\y", "c": "..", "d": "x:y", "e": "x" * 65, "f": "a\nb"}, []),
        ({"a": None, "b": [1], "c": {"d": 1}, "render_mode": "human"}, []),
    ],
)
def test_of_a_strangers_options_harmless_ones_are_used(options, used):
    assert list(harmless(options)) == used
    assert list(EnvSource("CartPole-v1", options).by_stranger("file").options) == used


def test_workers_get_only_what_the_driver_may_make():
    with pytest.raises(EnvNotMade, match="nothing shows"):
        EnvSource("os:system").by_stranger("file").portable()
    assert EnvSource("CartPole-v1", {"render_mode": "human"}).by_stranger("file").portable().options == {}


def test_runs_of_earlier_releases_are_strangers(key):
    trust.tag(NAMES)
    assert ASAP.load(RELEASE / "cartpole")._unsaid is not None
