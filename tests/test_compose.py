"""Promise: names and typed settings become one config in layers, the later winning; each task is resolved once."""

import re
import shutil
from pathlib import Path

import pytest

import asap.envs.resolve
from asap import ASAP
from asap.base.errors import UserError
from asap.compose import compose
from asap.config.presets import PRESETS
from asap.config.schema import Config
from asap.config.settings import override
from asap.config.toml import parse_settings, to_item
from asap.envs import catalog
from asap.paper import gradients, lifelong, references, reuse, transfer
from asap.paper.laboratory import as_options

RELEASE = Path(__file__).parent / "data" / "releases" / "0.1.0"


@pytest.mark.parametrize("names", [["two-rooms"], ["two-rooms", "flipped-two-rooms"], ["CartPole-v1"]])
def test_each_task_is_resolved_once(names, monkeypatch):
    calls = {"resolve": [], "find": []}

    def counted(module, name):
        original = getattr(module, name)
        monkeypatch.setattr(module, name, lambda task, *more: calls[name].append(task) or original(task, *more))

    counted(asap.envs.resolve, "resolve")
    counted(catalog, "find")
    compose(names, {"run.episodes": 3}, "paper")
    assert calls["resolve"] == names
    assert calls["find"] == [name for name in names if name in catalog.NAMES]


def test_layers_win_in_their_order(tmp_path):
    """Task, preset, file, options, --set: one setting that each says, and one less in each step."""
    file = tmp_path / "settings.toml"
    file.write_text("[learn]\nentropy = 0.3\nsoftening = 0.3\n[run]\nepisodes = 300\n")
    said = {"learn.entropy": 0.5, "run.episodes": 400, "learn.clip": None}
    config, _ = compose(["striker-r1"], said, "paper", str(file), {"learn.entropy": 0.6})
    assert (config.learn.entropy, config.run.episodes, config.learn.softening) == (0.6, 400, 0.3)
    assert (config.learn.step_size_beta, config.policy.alpha_beta, config.learn.clip) == (10.0, 100.0, 0.2)


SETTINGS = [
    *PRESETS.values(),
    {"policy.keep": "skills"},
    {"policy.keep": "partition"},
    gradients.ROBBINS_MONRO,
    lifelong.SETTINGS,
    references.SKILLS_ALONE,
]
SETTINGS += [reuse.STEADY, reuse.DICTIONARY, transfer.SOFT, transfer.LOOKS, transfer.SMALL_LOOKS]
for task in map(catalog.find, catalog.NAMES):
    SETTINGS += [task.settings, task.play_settings, task.budget]


@pytest.mark.parametrize("values", SETTINGS, ids=range(len(SETTINGS)))
def test_typed_settings_are_what_their_text_says(values):
    values = {key: value for key, value in values.items() if value is not None}  # Text says none by leaving it out.
    items = [to_item(key, value) for key, value in values.items()]
    assert override(Config(), values) == override(Config(), parse_settings(Config, items))


def test_options_of_a_printed_command_can_be_copied():
    settings = {"policy.start": "random", "policy.bias": True, "policy.inputs": ("ball x", "ball y"), "learn.lanes": 2}
    text = """ --set policy.start=random --set policy.bias=true --set 'policy.inputs=["ball x", "ball y"]'"""
    assert as_options(settings) == text + " --set learn.lanes=2"


@pytest.mark.parametrize("settings", ["epochs=3", ["learn.epochs=3"], {"learn.epochs": 3}, {"epochs": 3}])
def test_a_model_takes_text_and_mappings(settings):
    assert ASAP("two-rooms", settings=settings).config.learn.epochs == 3


# Settings of release 0.1: the former default, a value that mattered, and what is said about it.
REMOVED = [
    ("run.precision", "float32", "float64", "every program uses float32"),
    ("policy.centres", 4, 5, "the basis rbf is gone"),
    ("learn.episodes_per_chunk", 1, 3, "a worker is given one episode at a time"),
    ("env.env_retries", 2, 0, "env.retries also counts how often a reset that raises is tried again"),
]


@pytest.mark.parametrize(("key", "default", "value", "why"), REMOVED)
def test_a_removed_setting_is_told_unless_a_file_has_its_former_default(key, default, value, why, tmp_path):
    refused = f"{key}: was removed in 0.2: {why} (got {value!r}); leave it out"
    short = key.partition(".")[2]
    for given in ([f"{key}={value}"], [f"{short}={value}"], {key: value}, [f"{key}={default}"]):
        with pytest.raises(UserError, match=f"^{re.escape(refused.partition(' (got')[0])}"):
            ASAP("CartPole-v1", settings=given)
    file = tmp_path / "settings.toml"
    file.write_text(f"{key} = {default!r}\n")
    compose(["CartPole-v1"], {}, None, str(file))
    file.write_text(f"{key} = {value!r}\n")
    with pytest.raises(UserError, match=re.escape(f"line 1: {refused}")):
        compose(["CartPole-v1"], {}, None, str(file))


@pytest.mark.parametrize(
    ("key", "default", "value", "why"), [*REMOVED, ("policy.basis", None, "rbf", "no task needed")]
)
def test_a_recorded_run_with_a_removed_value_is_refused(key, default, value, why, tmp_path):
    path = tmp_path / "cartpole"
    shutil.copytree(RELEASE / "cartpole", path)
    section, _, name = key.partition(".")
    text = (path / "config.toml").read_text()
    assert ASAP.load(path).config.learn.learner == "ppo"  # With all four at their former defaults.
    text = re.sub(rf"^{name} = .*\n", "", text, flags=re.MULTILINE)
    (path / "config.toml").write_text(text.replace(f"[{section}]\n", f"[{section}]\n{name} = {value!r}\n"))
    with pytest.raises(UserError, match=rf"was removed in 0\.2: {why}"):
        ASAP.load(path)
