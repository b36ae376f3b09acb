"""Commands do what README says: train, eval, explain, plot, tasks, settings, one JSON line each, quick help."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import asap as asap_here
from matplotlib.image import imread

from asap.cli import app as cli
from asap.cli.app import number
from asap.cli.listing import _setting_in_words

SMALL = [
    part
    for item in ("learn.lanes=8", "learn.window=32", "run.eval_episodes=8", "run.final_episodes=16")
    for part in ("--set", item)
]


def asap(*arguments: str, check: bool = True) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "asap", *arguments], capture_output=True, text=True, timeout=300, check=check
    )


@pytest.fixture
def said(capsys, monkeypatch):
    """What `asap ARGUMENTS` prints, in this process."""

    def run(*arguments: str) -> str:
        code, out, err = asap_here([*arguments], capsys, monkeypatch)
        assert code == 0, err
        return out

    return run


def last_json(out: str) -> dict:
    return json.loads(out.splitlines()[-1])


@pytest.fixture(scope="module")
def joint(tmp_path_factory) -> dict:
    """A joint run of two weighted tasks with two hyperplanes."""
    out = tmp_path_factory.mktemp("commands") / "joint"
    done = asap(
        "train",
        "two-rooms:3",
        "flipped-two-rooms",
        "-k",
        "2",
        "--seeds",
        "3",
        "--episodes",
        "40",
        *SMALL,
        "--out",
        str(out),
        "--json",
    )
    return last_json(done.stdout)


def test_train_reports_every_field(joint):
    wanted = (
        "task learner gradient seeds near_optimal_seeds episodes_to_near_optimal return success reference env_steps "
        "wall_seconds compile_seconds env_steps_per_second parameters_sha256 run"
    ).split()
    assert set(wanted) <= set(joint)
    assert {"median", "all"} == set(joint["episodes_to_near_optimal"])
    assert {"iqm", "ci", "all", "seeds", "episodes", "deterministic"} == set(joint["return"])
    assert len(joint["return"]["all"]) == 3 and joint["return"]["seeds"] == [0, 1, 2]
    assert {"misspecified", "approx_optimal", "dp_optimal"} <= set(joint["reference"])
    assert joint["task"] == ["two-rooms", "flipped-two-rooms"] and set(joint["per_task"]) == set(joint["task"])
    assert all(episodes >= 40 for episodes in joint["episodes"])


def test_the_run_directory_has_what_it_promises(joint):
    run = Path(joint["run"])
    assert (run / "config.toml").exists() and list((run / "checkpoints").glob("ckpt-*"))
    updates = [json.loads(line) for line in (run / "events.jsonl").read_text().splitlines()]
    assert any(event.get("kind") == "update" for event in updates)


def test_eval_agrees_with_train(joint, said):
    report = last_json(said("eval", joint["run"], "--episodes", "50", "--json"))
    assert report["parameters_sha256"] == joint["parameters_sha256"]
    assert set(report["per_task"]) == {"two-rooms", "flipped-two-rooms"}
    for skills in report["skills"]:
        assert sum(skills["usage"]) == pytest.approx(1) and len(skills["duration"]) == 4
        assert all(duration >= 1 or usage == 0 for duration, usage in zip(skills["duration"], skills["usage"]))
    assert [skills["seed"] for skills in report["skills"]] == report["return"]["seeds"] == [0, 1, 2]
    assert 0 <= report["success"] <= 1


def test_one_seed_has_an_interval_over_its_episodes_alone(tmp_path, capsys, monkeypatch):
    """What other seeds would come to is not known; how well this policy is known, is."""
    run = str(tmp_path / "run")
    train = ["train", "two-rooms", "--episodes", "1", *SMALL, "--out", run]
    eval_ = ["eval", run, "--episodes", "50"]
    outs = [
        asap_here(words, capsys, monkeypatch)[1] for words in (train, [*train, "--json"], eval_, [*eval_, "--json"])
    ]
    assert re.search(r"^return +-?[\d.]+ over [\d,]+ episodes, actions drawn \(one seed\)$", outs[0], re.MULTILINE)
    assert json.loads(outs[1])["return"]["ci"] is None
    words, report = outs[2].splitlines()[0], json.loads(outs[3])
    assert report["return"]["ci_over"] == "episodes" and report["return"]["ci"][0] <= report["return"]["iqm"]
    assert 0 <= report["success_ci"][0] <= report["success"] <= report["success_ci"][1] < 1
    low, high = (100 * limit for limit in report["success_ci"])
    assert " over 50 episodes, actions drawn (one seed, 95 % interval " in words
    assert f"success {100 * report['success']:.1f} % (95 % interval {low:.1f} to {high:.1f})" in words


def test_several_seeds_have_an_interval_over_seeds(joint, capsys, monkeypatch):
    words = ["eval", joint["run"], "--episodes", "20"]
    report = json.loads(asap_here([*words, "--json"], capsys, monkeypatch)[1])
    assert joint["return"]["ci"] is not None and report["return"]["ci_over"] == "seeds"
    assert "(interquartile mean (IQM) of 3 seeds, 95 % interval " in asap_here(words, capsys, monkeypatch)[1]


def test_explain_names_planes_and_skills(joint, said):
    text = said("explain", joint["run"], "--seed", "2")
    assert "2 planes" in text and "\n  if " in text and "\n  otherwise " in text and "# skill" in text and "%)" in text
    assert "In two-rooms (goal height 0.1 m, door height 0.85 m):\n" in text and " as printed" in text


def test_explain_writes_a_file_of_rules(joint, capsys, monkeypatch):
    """All but the rules are comments, also the line about seeds; digits are as many as asked for."""
    words = ["explain", joint["run"], "--task", "two-rooms", "--rules"]
    code, out, _ = asap_here([*words, "--digits", "1", "--all"], capsys, monkeypatch)
    rules = [line for line in out.splitlines() if line and not line.startswith("#")]
    assert code == 0 and rules[-1].startswith("otherwise ") and "Mean return" not in "".join(rules)
    assert "never visited" not in out
    numbers = re.findall(r"(\d+\.\d+)\*", " ".join(rules))
    assert all(len(each.replace(".", "").lstrip("0")) <= 1 for each in numbers)
    exact = asap_here([*words, "--exact"], capsys, monkeypatch)[1]
    assert "with all digits." in exact and max(map(len, re.findall(r"\d+\.\d+", exact))) > 10
    code, _, err = asap_here([*words, "--digits", "0"], capsys, monkeypatch)
    assert code == 2 and err.startswith("error: --digits: must be an integer from 1 to 17 (got 0)")


def test_plot_writes_pictures_that_open(joint, said, tmp_path):
    report = last_json(
        said("plot", joint["run"], "--task", "flipped-two-rooms", "--out", str(tmp_path / "pictures ü"), "--json")
    )
    assert set(report["pictures"]) == {"partition", "learning", "usage"}
    for path in report["pictures"].values():
        assert imread(path).std() > 0.01


def test_tasks_and_settings_list_everything(said):
    tasks = last_json(said("tasks", "--json"))["tasks"]
    assert [task["task"] for task in tasks] == [
        "two-rooms",
        "flipped-two-rooms",
        "three-rooms",
        "striker-r1",
        "striker-r2",
        "striker-r3",
    ]
    for reference in (task["reference"] for task in tasks):
        rising = [
            reference[name]
            for name in ("misspecified", "near_optimal", "approx_optimal", "dp_optimal")
            if reference[name] is not None
        ]
        assert rising == sorted(rising) and len(rising) >= 3
    assert "learn.epochs" in said("settings")


COMMANDS = [command.name or command.callback.__name__ for command in cli.app.registered_commands]
HELP = """
import sys, time
began = time.process_time()
from asap.cli import main
try:
    main()
finally:
    print(time.process_time() - began, [name for name in {heavy} if name in sys.modules])
"""


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_quick_and_imports_nothing_heavy(command):
    script = HELP.format(heavy=["jax", "numpy", "gymnasium", "matplotlib"])
    words = [*([command] if command else []), "--help"]
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=60, check=True
    )
    *said, last = done.stdout.splitlines()
    seconds, imported = last.split(maxsplit=1)
    assert f"Usage: -c {command}".strip() in said[1] and len(said) > 8
    assert imported == "[]" and float(seconds) < 0.5  # Seconds of this process alone, however busy the machine is.


def test_a_task_is_described(capsys, monkeypatch):
    words = asap_here(["tasks", "three-rooms"], capsys, monkeypatch)[1]
    for text in (
        "three-rooms: 3R: one skill",
        "observations  x       0 to 1 m\n",
        "\n                goal y  0 to 1 m\n",
        "descriptor    goal height 0.9 m, ",
        "actions       up, down, right, left\n",
        "rewards       every step -1, goal 100\n",
        "time limit    400 steps\n",
        "discount      0.99\n",
        "near-optimal from ",
        "controllers   random, doors ",
        "Gymnasium     asap/ThreeRooms-v0\n",
    ):
        assert text in words, text
    code, out, _ = asap_here(["tasks", "asap/StrikerR1-v0", "--json"], capsys, monkeypatch)
    (row,) = json.loads(out)["tasks"]
    assert code == 0 and row["task"] == "striker-r1" and row["time_limit"] == 1000 and row["discount"] == 0.99
    ball = {"name": "ball x", "bounds": [-1, 1], "unit": "m", "in_rules": [-5.25, 57.75]}
    assert row["observations"][2] == ball and "Shoot" in row["actions"]
    assert [(one["name"], one["unit"]) for one in row["descriptor"]][:2] == [("goalkeeper speed", ""), ("start x", "m")]
    assert row["descriptor"][1]["in_rules"] == pytest.approx(5.25)
    assert row["rewards"]["goal"] == 1 and row["rewards"]["captured"] == -0.2 and "always-shoot" in row["controllers"]


def test_an_environment_is_none_of_our_tasks(capsys, monkeypatch):
    code, out, err = asap_here(["tasks", "CartPole-v1"], capsys, monkeypatch)
    assert (code, out) == (2, "") and err.endswith("; for an environment: asap check CartPole-v1\n")
    code, out, _ = asap_here(["check", "two-rooms", "--episodes", "1"], capsys, monkeypatch)
    assert code == 0 and out.startswith("asap/TwoRooms-v0: observations: 4")


def settings_of(capsys, monkeypatch, *names):
    code, out, err = asap_here(["settings", *names, "--json"], capsys, monkeypatch)
    assert code == 0, err
    return {row["key"]: row for row in json.loads(out)["settings"]}


def test_settings_of_a_task_are_those_that_it_is_trained_with(capsys, monkeypatch):
    rows = settings_of(capsys, monkeypatch, "own_envs:walk")
    marked = {key for key, row in rows.items() if row["differs"]}
    assert {"policy.alpha_beta", "policy.start", "run.steps", "run.candidates"} <= marked
    assert not marked & {"learn.learner", "run.tasks", "policy.basis", "env.max_steps", "learn.discount"}
    shown = {
        key: rows[key]["default"] for key in ("policy.alpha_beta", "policy.start", "policy.basis", "env.max_steps")
    }
    assert shown == {
        "policy.alpha_beta": 4.0,
        "policy.start": "random",
        "policy.basis": "linear",
        "env.max_steps": 1000,
    }


def test_settings_of_tasks_of_our_own(capsys, monkeypatch):
    joint = settings_of(capsys, monkeypatch, "two-rooms:3", "flipped-two-rooms")
    assert joint["run.weights"]["default"] == [3.0, 1.0] and not any(row["differs"] for row in joint.values())
    assert not any(key.startswith("env.") for key in joint)
    striker = settings_of(capsys, monkeypatch, "striker-r1")
    assert striker["policy.alpha_beta"]["differs"] and striker["run.episodes"]["default"] == 15_000
    assert "differs" not in settings_of(capsys, monkeypatch)["learn.epochs"]
    words = asap_here(["settings", "striker-r1"], capsys, monkeypatch)[1].splitlines()
    assert any(line.startswith("* policy.alpha_beta             100.0 ") for line in words)
    assert any(line.startswith("  learn.epochs                  8 ") for line in words) and words[-1].startswith(
        "* not"
    )


@pytest.mark.parametrize("width", [60, 90, 120])
def test_settings_wrap_at_the_width_of_the_terminal(width):
    sentence = "How the task descriptor enters psi; auto: interactions when several tasks are trained together."
    row = {"key": "policy.task_features", "default": "auto", "help": sentence, "range": "one of auto, none"}
    assert _setting_in_words(row, float("inf")).count("\n") == 0
    for default in ("auto", "('cart position', 'cart velocity')"):
        lines = _setting_in_words({**row, "default": default}, width).splitlines()
        assert len(lines) > 1 and max(map(len, lines)) <= width and lines[0].startswith("policy.task_features")
        assert " ".join(" ".join(lines).split()) == f"policy.task_features {default} {sentence} (one of auto, none)"
    beside = _setting_in_words(row, 120).splitlines()
    assert beside[0][46:].startswith("How the task") and beside[1].startswith(" " * 46)


def test_the_version_is_that_of_the_package():
    import asap as package

    assert asap("--version").stdout == f"asap {package.__version__}\n"


@pytest.mark.parametrize("order", ["import asap, gymnasium", "import gymnasium, asap"])
def test_tasks_are_registered_in_either_order_of_import(order):
    script = f"{order}\nprint('asap/TwoRooms-v0' in gymnasium.registry)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "True"


@pytest.mark.parametrize(
    ("value", "text"), [(-383.7, "-383.7"), (-10.0, "-10.0"), (53.14, "53.1"), (-0.083, "-0.083"), (0.9471, "0.947")]
)
def test_returns_are_written_by_their_size_whatever_their_sign(value, text):
    assert number(value) == text
