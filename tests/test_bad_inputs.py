"""Bad inputs: exactly one line on stderr with field and value, the right exit code, in under ten seconds, nothing lost.

Commands are run in this process through `asap.cli.app.main`, under a path with spaces and letters beyond ASCII.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from command_line import asap

from asap import ASAP
from asap.base.arrays import from_arrays, member
from asap.base.errors import RunError
from asap.compose import compose
from asap.config.schema import Config
from asap.config.toml import parse_settings
from asap.envs import catalog
from asap.experience.choose import choose
from asap.learn.state import parameter_digest
from asap.model.training import blank_start
from asap.policy.examine import warnings_about
from asap.runs import checkpoints
from asap.runs.checkpoints import generations
from asap.runs.directory import Run
from asap.runs.signals import StopRequest

TINY = [
    "--set",
    "learn.lanes=4",
    "--set",
    "learn.window=8",
    "--set",
    "run.chunk=1",
    "--set",
    "run.eval_episodes=2",
    "--set",
    "run.final_episodes=2",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny run that every case may try to spoil."""
    path = tmp_path_factory.mktemp("run ü space") / "run"
    from asap.cli.learning import create_run
    from asap.model.training import train_run

    config, tasks = compose(["two-rooms"], {"run.episodes": 1}, overrides=parse_settings(Config, TINY[1::2]))
    train_run(create_run(config, tasks, str(path), ""), config, tasks, StopRequest())
    return path


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


FLOATS = [
    "policy.alpha_beta",
    "policy.alpha_theta",
    "learn.step_size_theta",
    "learn.step_size_beta",
    "learn.discount",
    "learn.trace",
    "learn.entropy",
]
# Options beside --resume, and how the error calls them where it is otherwise.
RESUMED_WITH = [
    ("two-rooms", "TASK"),
    ("--seed", "0", ""),
    ("--seeds", "1", ""),
    ("-k", "3", "--hyperplanes"),
    ("--skills", "constant", ""),
    ("--features", "linear", ""),
    ("--learner", "ppo", ""),
    ("--gradient", "marginal", ""),
    ("--drop-bad-rows", ""),
    ("--preset", "paper", ""),
    ("--config", "x.toml", ""),
    ("--set", "learn.epochs=4", ""),
    ("--max-steps", "5", ""),
    ("--step-timeout", "5", ""),
    ("--reward-scale", "2", ""),
    ("--strict-obs", ""),
    ("--check-determinism", ""),
    ("--on-no-workers", "fail", ""),
    ("--out", "y", ""),
]
TRAIN_NETWORK = ["train", "two-rooms", "--set", f"policy.hidden=[{2**62}]", "--set"]
REMOVED = (
    ("run.precision", "float32"),
    ("policy.centres", "4"),
    ("learn.episodes_per_chunk", "1"),
    ("env.env_retries", "2"),
    ("policy.basis", "rbf"),
)
# (id, arguments after `asap`, field, must contain)
CASES = [
    *(
        (f"39 {key} {value}", ["train", "two-rooms", "--set", f"{key}={value}"], key, "finite")
        for key in FLOATS
        for value in ("nan", "inf")
    ),
    ("40 alpha -1", ["train", "two-rooms", "--set", "policy.alpha_beta=-1.0"], "policy.alpha_beta", "got -1.0"),
    ("40 alpha 0", ["train", "two-rooms", "--set", "policy.alpha_theta=0.0"], "policy.alpha_theta", "> 0"),
    ("41 gamma 1.5", ["train", "two-rooms", "--set", "learn.discount=1.5"], "learn.discount", "got 1.5"),
    (
        "41 step size",
        ["train", "two-rooms", "--set", "learn.step_size_theta=-0.1"],
        "learn.step_size_theta",
        "got -0.1",
    ),
    ("42 K -1", ["train", "two-rooms", "--hyperplanes=-1"], "policy.hyperplanes", "got -1"),
    ("42 K -1 of 10", ["train", "two-rooms", "-k", "-1"], "policy.hyperplanes", "must be an integer from 0 to 10 (got"),
    ("42 K 11", ["train", "two-rooms", "-k", "11"], "policy.hyperplanes", "from 0 to 10: there would be 2,048 skills"),
    ("42 K cure", ["train", "CartPole-v1", "-k", "12"], "policy.hyperplanes", "--set policy.most_hyperplanes=12"),
    (
        "42 K and its setting",
        ["train", "two-rooms", "-k", "4", "--set", "policy.most_hyperplanes=3"],
        "policy.hyperplanes",
        "from 0 to 3: there would be 16 skills",
    ),
    (
        "43 K that is allowed",
        ["train", "two-rooms", "-k", "40", "--set", "policy.most_hyperplanes=40"],
        "policy.hyperplanes",
        "bytes",
    ),
    *(
        (
            f"start {start}",
            ["train", "CartPole-v1", "--set", f"policy.start={start}"],
            "policy.start",
            "choose from random",
        )
        for start in ("misspecified", "approximate")
    ),
    (
        "start of other features",
        ["train", "two-rooms", "--features", "poly2", "--set", "policy.start=approximate"],
        "policy.start",
        "in its own features",
    ),
    ("42 K float", ["train", "two-rooms", "--set", "policy.hyperplanes=1.5"], "policy.hyperplanes", "got 1.5"),
    ("42 K bool", ["train", "two-rooms", "--set", "policy.hyperplanes=true"], "policy.hyperplanes", "got True"),
    *((f"43 K {k}", ["train", "two-rooms", "-k", str(k)], "policy.hyperplanes", "bytes") for k in (24, 30, 64, 10**9)),
    (
        "47 frequencies",
        ["train", "three-rooms", "--set", "policy.frequencies=[[3.0]]"],
        "policy.frequencies",
        "2 numbers",
    ),
    *(
        (f"large {key}", ["train", "two-rooms", "--set", f"{key}={2**63 - 1}"], key, "<= 2147483647")
        for key in ("learn.lanes", "learn.window", "learn.epochs", "learn.convergence_window", "run.chunk")
    ),
    *(
        (f"float32 {key}", ["train", "two-rooms", "--set", f"{key}=1e39"], key, "at most 3.4e+38")
        for key in ("policy.alpha_beta", "learn.entropy", "learn.step_size_theta")
    ),
    ("float32 list", ["train", "two-rooms", "--set", "run.weights=[1e39]"], "run.weights", "at most 3.4e+38"),
    ("lanes", ["train", "two-rooms", "--set", "learn.lanes=2000000000"], "learn.lanes", "bytes"),
    (
        "episodes at once",
        ["train", "two-rooms", "--learner", "reinforce", "--set", "learn.batch_episodes=2000000000"],
        "learn.batch_episodes",
        "bytes",
    ),
    ("critic", ["train", "two-rooms", "--set", "learn.critic_length=1e-300"], "learn.critic_length", ">= 1e-06"),
    *(
        (f"network {part}", [*TRAIN_NETWORK, f"policy.{part}=network"], "policy.hidden", "10,000,000 weights at most")
        for part in ("basis", "skills")
    ),
    (
        "features",
        ["train", "FrozenLake8x8-v1", "--features", "poly2", "--set", "policy.degree=6"],
        "policy.basis",
        "more than 100,000 features",
    ),
    *(
        (f"removed {key}", ["train", "CartPole-v1", "--set", f"{key}={value}"], key, "was removed in 0.2: ")
        for key, value in REMOVED
    ),
    ("47 input", ["train", "two-rooms", "--set", 'policy.inputs=["z"]'], "policy.inputs", "'z'"),
    ("51 batch 0", ["train", "two-rooms", "--set", "learn.batch_episodes=0"], "learn.batch_episodes", "got 0"),
    ("51 lanes 0", ["train", "two-rooms", "--set", "learn.lanes=0"], "learn.lanes", "got 0"),
    ("51 episodes 0", ["train", "two-rooms", "--episodes", "0"], "run.episodes", "got 0"),
    ("51 seed -1", ["train", "two-rooms", "--seed=-1"], "run.seed", "got -1"),
    ("51 seed 2^63", ["train", "two-rooms", "--seed", str(2**63)], "run.seed", str(2**63)),
    ("51 seeds 0", ["train", "two-rooms", "--seeds", "0"], "run.seeds", "got 0"),
    ("51 seeds word", ["train", "two-rooms", "--seeds", "ten"], "--seeds", "integer"),
    ("51 option", ["train", "two-rooms", "--epsodes", "3"], "--epsodes", "--episodes"),
    ("51 key", ["train", "two-rooms", "--set", "learn.epoch=3"], "learn.epoch", "learn.epochs"),
    ("51 no value", ["train", "two-rooms", "--set", "learn.epochs"], "learn.epochs", "="),
    ("51 learner", ["train", "two-rooms", "--learner", "pop"], "learn.learner", "ppo"),
    ("51 gradient", ["train", "two-rooms", "--gradient", "x"], "learn.gradient", "marginal"),
    ("51 preset", ["train", "two-rooms", "--preset", "papr"], "--preset", "paper"),
    ("52 float64", ["train", "two-rooms", "--set", "run.precision=float64"], "run.precision", "float32"),
    ("53 shapes", ["train", "two-rooms", "three-rooms"], "tasks", "'two-rooms'"),
    ("task unknown", ["train", "two-romms"], "task", "two-rooms"),
    ("task missing", ["train"], "task", "three-rooms"),
    ("task twice", ["train", "two-rooms", "two-rooms"], "task", "twice"),
    ("task weight", ["train", "two-rooms:x"], "task", "two-rooms:x"),
    *(
        (f"mixture {' '.join(names)}", ["train", *names], "tasks", "train them apart")
        for names in (
            ("two-rooms", "CartPole-v1"),
            ("CartPole-v1", "Acrobot-v1"),
            ("two-rooms", "own_envs:walk"),
            ("own_envs:walk", "two-rooms"),
        )
    ),
    ("a script as a task", ["train", "./my.py"], "env", "my:FUNCTION"),
    *(
        (f"{option} of our task", ["train", "two-rooms", option, *value], key, "is for Gymnasium environments")
        for option, *value, key in (
            ("--max-steps", "5", "env.max_steps"),
            ("--env-options", "{}", "env.options"),
            ("--strict-obs", "env.strict_obs"),
            ("--reward-scale", "2", "env.reward_scale"),
        )
    ),
    ("task weight 0", ["train", "two-rooms:0"], "task", "> 0"),
    (
        "weights",
        ["train", "two-rooms", "--set", "run.weights=[1.0, 2.0]", "--config", "/dev/null"],
        "/dev/null",
        "regular file",
    ),
    ("run missing", ["eval", "no such run"], "run", "no such run"),
    ("resume missing", ["train", "--resume", "no such run"], "run", "no such run"),
    ("resume and task", ["train", "two-rooms", "--resume", "x"], "--resume", "settings"),
    ("config missing", ["train", "two-rooms", "--config", "missing.toml"], "missing.toml", "missing.toml"),
    ("command", ["trian"], "trian", "train"),
    ("eval episodes", ["eval", "x", "--episodes", "0"], "--episodes", "0"),
    ("eval most episodes", ["eval", "x", "--episodes", "99999999999"], "--episodes", "got 99999999999"),
    ("final episodes", ["train", "two-rooms", "--set", "run.final_episodes=99999999999"], "run.final", "<= 10000000"),
    ("check most episodes", ["check", "CartPole-v1", "--episodes", "99999999999"], "--episodes", "got 99999999999"),
    (
        "collect most episodes",
        ["collect", "two-rooms", "--controller", "random", "--episodes", "9" * 11],
        "--episodes",
        "10000000",
    ),
    *(
        (f"{arguments[0]} seed {seed}", [*arguments, f"--seed={seed}"], "--seed", f"got {seed}")
        for arguments in (
            ["eval", "x"],
            ["check", "CartPole-v1"],
            ["tasks"],
            ["collect", "two-rooms", "--controller", "random"],
        )
        for seed in (-5, 2**63)
    ),
    ("workers of many digits", ["train", "CartPole-v1", "--steps", "9", "--workers", "9" * 5000], "--workers", "1024"),
    (
        "ray of many digits",
        ["train", "CartPole-v1", "--steps", "9", "--workers", "ray:" + "9" * 5000],
        "--workers",
        "1024",
    ),
    ("workers in other digits", ["train", "CartPole-v1", "--steps", "9", "--workers", "٣"], "--workers", "got ٣"),
    ("deep options", ["train", "CartPole-v1", "--set", f"env.options='{'[' * 100_000}'"], "env.options", "is not JSON"),
    ("out of train", ["train", "two-rooms", "--out", ""], "--out", "is empty"),
    ("out of reproduce", ["reproduce", "fig2a", "--out", ""], "--out", "is empty"),
    ("out of collect", ["collect", "two-rooms", "--controller", "random", "--out", ""], "--out", "is empty"),
    ("out of distill", ["distill", "m:f", "CartPole-v1", "--out", ""], "--out", "is empty"),
    ("resume nothing", ["train", "--resume", ""], "run", "empty path"),
    ("replay a device", ["check", "CartPole-v1", "--replay", "/dev/zero"], "--replay", "a device"),
    *(
        (
            f"resume and {option[0]}",
            ["train", "--resume", "x", *option],
            "--resume",
            f"so {name or option[0]} can't be given",
        )
        for *option, name in RESUMED_WITH
    ),
]


@pytest.mark.parametrize(
    ("arguments", "field", "must_contain"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_one_clear_line(arguments, field, must_contain, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    code, out, err = asap(arguments, capsys, monkeypatch)
    assert code == 2 or (code == 1 and "run" in field)
    assert out == ""
    assert err.startswith("error: ") and err.count("\n") == 1, err
    assert field in err and must_contain in err, err
    assert time.monotonic() - began < 10
    assert not list(tmp_path.rglob("checkpoints")), "a refused command leaves no run behind"


BAD_FILES = [
    ("unknown key", "[learn]\nepoch = 3\n", "line 2", "learn.epochs"),
    ("wrong type", "[learn]\nepochs = 'x'\n", "line 2", "learn.epochs"),
    ("syntax", "[learn\n", "line 1", "TOML"),
    ("section", "[lern]\nepochs = 3\n", "line 1", "learn"),
]


@pytest.mark.parametrize(
    ("text", "place", "must_contain"), [case[1:] for case in BAD_FILES], ids=[case[0] for case in BAD_FILES]
)
def test_a_bad_config_names_file_line_and_key(text, place, must_contain, capsys, monkeypatch, tmp_path):
    file = write(tmp_path / "my ü config.toml", text)
    code, _, err = asap(["train", "two-rooms", "--config", file], capsys, monkeypatch)
    assert code == 2 and err.count("\n") == 1
    assert file in err and place in err and must_contain in err


def test_a_name_that_no_file_can_have(capsys, monkeypatch):
    code, out, err = asap(["explain", "9" * 300], capsys, monkeypatch)
    assert (code, out, err.count("\n")) == (1, "", 1) and err.startswith(
        "error: model: cannot read: File name too long"
    )


def test_a_run_that_lost_its_event_log_is_resumed(trained, capsys, monkeypatch, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    (copy / "events.jsonl").unlink()
    code, out, err = asap(["train", "--resume", str(copy), "--json"], capsys, monkeypatch)
    assert code == 0, err
    report = json.loads(out.splitlines()[-1])
    assert report["episodes_to_near_optimal"] == {"median": None, "all": [None]} and report["finished"]


def test_wrong_seed_and_task_of_a_run(trained, capsys, monkeypatch):
    code, _, err = asap(["explain", str(trained), "--seed", "7"], capsys, monkeypatch)
    assert code == 2 and err.startswith("error: seed: ") and "got 7" in err and err.count("\n") == 1
    code, _, err = asap(["plot", str(trained), "--task", "three-rooms"], capsys, monkeypatch)
    assert code == 2 and err.startswith("error: task: ") and "three-rooms" in err and err.count("\n") == 1


def test_a_saved_model_is_not_a_run(trained, capsys, monkeypatch, tmp_path):
    path = str(tmp_path / "model.asap")
    ASAP.load(trained).save(path)
    for words, field, must_contain in (
        (["explain", path, "--seed", "7"], "seed", "was not trained (got 7); choose 0, the only one"),
        (["eval", path, "--best"], "best", "a saved model has no other checkpoint"),
        (["train", "--resume", path], "run", "go on from a saved model by `asap train --from FILE`"),
        (["eval", str(tmp_path)], "run", "no config.toml"),
        (["eval", str(tmp_path / "nothing")], "model", "give a run directory, or a whole file that model.save"),
    ):
        code, out, err = asap(words, capsys, monkeypatch)
        assert code in (1, 2) and out == "" and err.startswith(f"error: {field}: ") and err.count("\n") == 1, err
        assert must_contain in err, err


def test_a_run_and_data_of_other_tasks(trained, capsys, monkeypatch, tmp_path):
    data = str(tmp_path / "cart.npz")
    assert (
        asap(
            ["collect", "CartPole-v1", "--controller", "random", "--episodes", "2", "--out", data], capsys, monkeypatch
        )[0]
        == 0
    )
    for words, must_contain in (
        (["eval", str(trained), "--offline", data], "is for CartPole-v1, not for two-rooms; give data of two-rooms"),
        (["eval", str(trained), "--offline", data, "--task", "three-rooms"], "task: the model was not made for it"),
        (["eval", str(trained), "--offline", data, "--deterministic"], "--deterministic: data tell the worth"),
        (["train", "two-rooms", "--offline", data], "leave out the task, or give data of two-rooms"),
        (["transfer", str(trained), "CartPole-v1", "--out", str(tmp_path / "x")], "2 inputs, K = 1 over 3 features"),
    ):
        code, out, err = asap(words, capsys, monkeypatch)
        assert code == 2 and out == "" and err.count("\n") == 1 and must_contain in err, err


def test_other_settings_do_not_touch_a_run(trained, capsys, monkeypatch):
    before = {path.name: path.read_bytes() for path in generations(trained / "checkpoints")}
    code, _, err = asap(["train", "two-rooms", "--out", str(trained), "--seed", "5"], capsys, monkeypatch)
    assert code == 2 and "--out" in err and err.count("\n") == 1
    assert before == {path.name: path.read_bytes() for path in generations(trained / "checkpoints")}


# (setting, as it is in the file, as somebody has edited it)
EDITED = [
    ("run.tasks", '["two-rooms"]', '["flipped-two-rooms"]'),
    ("run.seed", "seed = 0", "seed = 4"),
    ("policy.hyperplanes", "hyperplanes = 1", "hyperplanes = 2"),
    ("policy.alpha_beta", "alpha_beta = 20.0", "alpha_beta = 5.0"),
    ("learn.learner", '"ppo"', '"actor-critic"'),
]


@pytest.mark.parametrize("command", [["eval"], ["explain"], ["train", "--episodes", "2", "--resume"]])
@pytest.mark.parametrize(("key", "was", "becomes"), EDITED)
def test_a_config_edited_over_old_checkpoints_is_refused(
    trained, capsys, monkeypatch, tmp_path, command, key, was, becomes
):
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    config = copy / "config.toml"
    assert was in config.read_text()
    config.write_text(config.read_text().replace(was, becomes))
    code, _, err = asap([*command, str(copy)], capsys, monkeypatch)
    assert code == 1 and err.count("\n") == 1 and err.startswith(f"error: {key}: was changed in config.toml"), err


def test_what_may_change_in_a_config_is_not_refused(trained, capsys, monkeypatch, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    config = copy / "config.toml"
    config.write_text(config.read_text().replace("step_size_theta = 0.05", "step_size_theta = 0.01"))
    assert "step_size_theta = 0.01" in config.read_text()
    assert asap(["train", "--resume", str(copy), "--episodes", "2", "--json"], capsys, monkeypatch)[0] == 0


def test_a_checkpoint_of_release_0_1_of_another_k_is_refused(trained, capsys, monkeypatch, tmp_path):
    """Its meta has tasks, seeds and K alone."""
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    config, newest = copy / "config.toml", generations(copy / "checkpoints")[0]
    old = checkpoints.read(newest)
    meta = {"tasks": ["two-rooms"], "seeds": 1, "hyperplanes": 1, "score": None}
    checkpoints.write(newest.parent, old.step, old.arrays, meta)
    assert asap(["explain", str(copy)], capsys, monkeypatch)[0] == 0
    config.write_text(config.read_text().replace("hyperplanes = 1", "hyperplanes = 2"))
    code, _, err = asap(["explain", str(copy)], capsys, monkeypatch)
    assert code == 1 and err.startswith("error: policy.hyperplanes: was changed"), err


def test_another_mode_of_jax_is_told_as_such():
    single, double = {"beta": np.zeros((2, 3), np.float32)}, {"beta": np.zeros((2, 3), np.float64)}
    with pytest.raises(
        RunError, match=r"another mode of JAX: \S*beta\S* is float32.*got float64\); set JAX_ENABLE_X64=1"
    ):
        from_arrays(single, {name.replace("beta", "['beta']"): leaf for name, leaf in double.items()})
    with pytest.raises(RunError, match=r"is float64 in this process \(got float32\); unset JAX_ENABLE_X64"):
        from_arrays(double, {name.replace("beta", "['beta']"): leaf for name, leaf in single.items()})


def test_a_removed_folder_is_one_line(trained, capsys, monkeypatch, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    try:
        for arguments in (
            ["train", "two-rooms", "--out", "x"],
            ["train", "two-rooms"],
            ["plot", str(trained), "--out", "x"],
            ["collect", "two-rooms", "--controller", "random", "--episodes", "2", "--out", "x"],
            ["eval", "x"],
        ):
            code, out, err = asap(arguments, capsys, monkeypatch)
            assert code in (1, 2) and out == "" and err.count("\n") == 1 and "No such file" in err, (arguments, err)
            assert "internal" not in err
    finally:
        os.chdir(tmp_path)


def test_a_run_that_cannot_be_written_is_not_drawn_in(trained, capsys, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    code, _, err = asap(["plot", str(trained)], capsys, monkeypatch)
    assert code == 2 and err.count("\n") == 1 and "not writable" in err and "--out" in err


def without_progress(err: str) -> list[str]:
    """Lines on stderr but those of long work: on a busy machine compiling takes more than ten seconds."""
    return [line for line in err.splitlines() if not re.fullmatch(r"[\w+-]+: .*, \d+ s", line)]


def test_a_gradient_that_is_not_finite_is_not_applied(capsys, monkeypatch, tmp_path):
    """48: the run stops with the iteration named, and what it had saved stays."""
    out = tmp_path / "run"
    arguments = [
        "train",
        "two-rooms",
        *TINY,
        "--out",
        str(out),
        "--set",
        "learn.step_size_theta=1e38",
        "--set",
        "learn.optimizer=sgd",
        "--learner",
        "actor-critic",
        "--set",
        "learn.entropy=1e6",
    ]
    code, _, err = asap(arguments, capsys, monkeypatch)
    assert code == 1 and len(without_progress(err)) == 1, err
    assert "gradient" in err and "iteration" in err and "nan" in err
    assert '"error"' in (out / "events.jsonl").read_text()
    assert generations(out / "checkpoints")
    code, out_text, err = asap(["eval", str(out), "--episodes", "2", "--json"], capsys, monkeypatch)
    assert code == 0 and err == ""


def test_stdout_may_close_early(trained):
    """74: `asap settings | head -1` ends without a traceback, also where only ASCII can be printed."""
    command = f"'{sys.executable}' -m asap settings | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        env={**os.environ, "LANG": "C", "LC_ALL": "C"},
        timeout=60,
    )
    assert done.returncode == 0 and done.stderr == ""


def test_a_run_in_use_is_refused(trained, capsys, monkeypatch):
    """68: the second process names the first."""
    before = (trained / "events.jsonl").read_bytes()
    script = "import sys, time\nfrom asap.runs.directory import Run\nwith Run.open(sys.argv[1]).locked():\n print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script, str(trained)], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline().strip() == "held"
            code, _, err = asap(["train", "--resume", str(trained)], capsys, monkeypatch)
            assert code == 1 and str(holder.pid) in err and err.count("\n") == 1
            assert (trained / "events.jsonl").read_bytes() == before, "nothing is written without the lock"
        finally:
            holder.kill()
    assert Run.open(trained).latest() is not None


# (id, settings, must warn of)
WARNED = [
    ("44 saturated", ["policy.alpha_beta=1000.0"], "hyperplanes saturated: 9"),
    ("45 zero", ["policy.basis=fourier", "policy.frequencies=[[0.0, 0.0]]", "policy.bias=false"], "all zero at 100%"),
    ("46 constant", ['policy.inputs=["x", "goal x"]'], "constant: goal x"),
    ("46 duplicate", ["policy.basis=fourier", "policy.frequencies=[[1.0, 0.0], [1.0, 0.0]]"], "duplicates: sin"),
]


@pytest.mark.parametrize(("settings", "text"), [case[1:] for case in WARNED], ids=[case[0] for case in WARNED])
def test_what_hinders_learning_is_warned_of(settings, text, capsys, monkeypatch, tmp_path):
    """44 to 46: the run goes on, with finite numbers."""
    out = tmp_path / "run"
    chosen = [part for setting in settings for part in ("--set", setting)]
    code, printed, err = asap(
        ["train", "two-rooms", *TINY, *chosen, "--episodes", "1", "--out", str(out), "--json"], capsys, monkeypatch
    )
    assert code == 0
    assert any(line.startswith("warning: ") and text in line for line in err.splitlines()), err
    assert '"warning"' in (out / "events.jsonl").read_text()
    assert np.isfinite(json.loads(printed)["return"]["all"]).all()


DIFFERENT = {"two-rooms", "three-rooms", "striker-r1"}  # Games compile for seconds each.


@pytest.mark.parametrize(
    "task", [pytest.param(name, marks=() if name in DIFFERENT else pytest.mark.slow) for name in catalog.NAMES]
)
def test_the_defaults_are_not_warned_of(task, tmp_path):
    config, tasks = compose([task], {})
    states = choose(config, tasks, "0", tmp_path, pytest.fail).random_states()
    policy = member(blank_start(config, tasks).policy, 0)
    assert warnings_about(policy, *states, tasks.spec.observation_names) == []


def limited(limit: str, arguments: list[str]) -> subprocess.CompletedProcess:
    """`asap` under a limit of the shell."""
    script = f'ulimit {limit}; exec "$0" -m asap "$@"'
    env = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false"}  # The tests' own, which the limit would hit as well.
    return subprocess.run(
        ["bash", "-c", script, sys.executable, *arguments], capture_output=True, text=True, timeout=120, env=env
    )


def test_a_full_disk_stops_the_run_with_one_line(trained, tmp_path):
    """62: as far as an unprivileged test can fill a disk: files may not grow beyond 4 kB. What was saved stays."""
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    before = {path.name: path.read_bytes() for path in generations(copy / "checkpoints")}
    done = limited("-f 4", ["train", "--resume", str(copy), "--episodes", "40"])
    assert done.returncode == 1 and done.stdout == ""
    (line,) = without_progress(done.stderr)
    assert line.startswith("error: "), done.stderr
    assert "File too large" in done.stderr and "free space" in done.stderr
    assert before == {path.name: path.read_bytes() for path in generations(copy / "checkpoints")}


def test_too_little_memory_is_one_line(trained):
    """72: XLA would abort the process."""
    for megabytes in (300, 1000, 1600):
        done = limited(f"-v {megabytes * 1024}", ["train", "--resume", str(trained)])
        assert done.returncode == 1 and done.stderr.startswith("error: memory: ") and done.stderr.count("\n") == 1, (
            done.stderr
        )
    assert Run.open(trained).latest() is not None


def test_few_file_descriptors_are_enough(trained):
    """73: 32 will do."""
    done = limited("-n 32", ["train", "--resume", str(trained), "--json"])
    assert done.returncode == 0 and done.stderr == "", done.stderr


def test_a_run_survives_a_pause(trained, tmp_path):
    """67: stopped (as by a laptop's sleep) and continued, it ends as if nothing had happened."""
    arguments = [
        sys.executable,
        "-m",
        "asap",
        "train",
        "two-rooms",
        *TINY,
        "--episodes",
        "1",
        "--out",
        str(tmp_path / "run"),
        "--json",
    ]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for _ in range(3):
            time.sleep(0.7)
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0 and err == ""
    digests = [parameter_digest(ASAP.load(path).policies) for path in (tmp_path / "run", trained)]
    assert digests[0] == digests[1]
