"""Promise: a wrong setting is refused with its place, its value and the cure; a right one survives TOML unchanged."""

import enum
import os
import signal
import subprocess
import sys
import time
import typing
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, is_dataclass, replace
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asap.base.errors import UserError
from asap.config.settings import LARGEST, describe, override, setting, validate
from asap.config.toml import MAX_FILE_BYTES, parse_settings, read_toml, to_toml


@dataclass(frozen=True)
class ScheduleConfig:
    decay: float = setting(1.0, "Power of the Robbins-Monro schedule.", above=0.5, high=1.0)
    warmup: int = setting(0, "Updates at full step size.", low=0)


@dataclass(frozen=True)
class LearnConfig:
    learner: str = setting("ppo", "Update rule.", choices=("reinforce", "actor-critic", "natural", "ppo"))
    step_size_theta: float = setting(0.05, "Step size of the skills.", low=0.0)
    clip: float | None = setting(None, "Clip of the ratio.", above=0, below=1)
    epochs: int = setting(8, "Passes over each batch (ppo).", low=1, high=1000)
    frequencies: tuple[tuple[float, ...], ...] = setting((), "Fourier frequencies.")
    weights: tuple[float, ...] = setting((0.5, 0.5), "Weight of each task.", low=0)
    schedule: ScheduleConfig = field(default_factory=ScheduleConfig)
    shuffle: bool = setting(True, "Shuffle the batch.")


@dataclass(frozen=True)
class PolicyConfig:
    hyperplanes: int = setting(1, "Number of hyperplanes K.", low=1)
    alpha_beta: float = setting(20.0, "Sharpness of the planes.", above=0.0)
    seed: int = setting(0, "Seed of the start.", low=0)


@dataclass(frozen=True)
class Config:
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    learn: LearnConfig = field(default_factory=LearnConfig)
    gamma: float = setting(0.99, "Discount.", low=0, high=1)
    rate: float = setting(1, "An integer default of a float setting.")
    count: int = setting(0, "Any integer.")
    name: str | None = setting(None, "Name of the run.")
    note: str = setting("", "Free text.")
    tags: tuple[str, ...] = setting((), "Labels.")
    masks: tuple[bool, ...] = setting((), "Flags.")
    eval_seed: int = setting(0, "Another seed.")


def message(call, *args) -> str:
    with pytest.raises(UserError) as caught:
        call(*args)
    line = str(caught.value)
    assert "\n" not in line and len(line) < 600
    return line


def changed(key: str, value: object) -> Config:
    """The sample config with one field set, without a check: as a Python user would write it."""
    *sections, name = key.split(".")
    config = Config()
    path = [config]
    for section in sections:
        path.append(getattr(path[-1], section))
    for inner, name_ in zip(reversed(path), reversed((*sections, name))):
        value = replace(inner, **{name_: value})
    return value


def config_file(tmp_path, content: str | bytes):
    path = tmp_path / "config.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


# ---- Values given in Python ---------------------------------------------------------------------------------------

BAD_VALUES = [
    ("learn.step_size_theta", nan, "learn.step_size_theta: must be finite (got nan); the default is 0.05"),
    ("learn.step_size_theta", -0.1, "learn.step_size_theta: must be >= 0 (got -0.1); the default is 0.05"),
    ("learn.step_size_theta", "fast", "learn.step_size_theta: must be a number >= 0 (got 'fast')"),
    ("learn.step_size_theta", True, "learn.step_size_theta: must be a number >= 0 (got True)"),
    ("learn.step_size_theta", None, "learn.step_size_theta: must be a number >= 0 (got None)"),
    ("learn.step_size_theta", 10**400, "learn.step_size_theta: must be finite (got an integer of 1329 bits)"),
    ("learn.step_size_theta", np.float32("nan"), "learn.step_size_theta: must be finite (got nan)"),
    ("learn.step_size_theta", np.longdouble("1e400"), "learn.step_size_theta: must be finite (got inf)"),
    ("learn.step_size_theta", 1j, "learn.step_size_theta: must be a number >= 0 (got 1j)"),
    ("rate", -1e39, "rate: must be at most 3.4e+38 in size (got -1e+39); float32 holds no more"),
    ("learn.weights", [1e39], "learn.weights[0]: must be at most 3.4e+38 in size (got 1e+39)"),
    ("learn.clip", 1, "learn.clip: must be > 0 and < 1 (got 1.0); leave it out for none"),
    ("learn.clip", "x", "learn.clip: must be a number > 0 and < 1 or none (got 'x')"),
    ("learn.schedule.decay", 0.5, "learn.schedule.decay: must be > 0.5 and <= 1 (got 0.5)"),
    ("learn.schedule.decay", 1.5, "learn.schedule.decay: must be > 0.5 and <= 1 (got 1.5)"),
    ("policy.alpha_beta", -1.0, "policy.alpha_beta: must be > 0 (got -1.0); the default is 20.0"),
    ("policy.alpha_beta", 0, "policy.alpha_beta: must be > 0 (got 0.0)"),
    ("policy.hyperplanes", 0, "policy.hyperplanes: must be an integer >= 1 (got 0); the default is 1"),
    ("policy.hyperplanes", -1, "policy.hyperplanes: must be an integer >= 1 (got -1)"),
    ("policy.hyperplanes", 2.0, "policy.hyperplanes: must be an integer >= 1 (got 2.0)"),
    ("policy.hyperplanes", True, "policy.hyperplanes: must be an integer >= 1 (got True)"),
    ("policy.hyperplanes", np.True_, "policy.hyperplanes: must be an integer >= 1 (got True)"),
    ("policy.hyperplanes", np.float64(2), "policy.hyperplanes: must be an integer >= 1 (got 2.0)"),
    ("policy.hyperplanes", "2", "policy.hyperplanes: must be an integer >= 1 (got '2')"),
    ("learn.epochs", 1001, "learn.epochs: must be an integer >= 1 and <= 1000 (got 1001)"),
    ("count", 2**63, "count: must be an integer of at most 64 bits (got 9223372036854775808)"),
    ("count", 1 << 100_000, "count: must be an integer of at most 64 bits (got an integer of 100001 bits)"),
    ("gamma", 1.01, "gamma: must be >= 0 and <= 1 (got 1.01); the default is 0.99"),
    ("learn.learner", "pop", "must be one of reinforce, actor-critic, natural, ppo (got 'pop'); did you mean ppo?"),
    ("learn.learner", "PPO", "(got 'PPO'); did you mean ppo?"),
    ("learn.learner", "zzz", "(got 'zzz'); the default is \"ppo\""),
    ("learn.learner", 3, "learn.learner: must be one of reinforce, actor-critic, natural, ppo (got 3)"),
    ("learn.shuffle", 1, "learn.shuffle: must be true or false (got 1); the default is true"),
    ("learn.weights", 3, "learn.weights: must be a list of numbers (got 3); the default is [0.5, 0.5]"),
    ("learn.weights", "12", "learn.weights: must be a list of numbers (got '12')"),
    ("learn.weights", [1, inf], "learn.weights[1]: must be finite (got inf)"),
    ("learn.weights", (1.0, -1), "learn.weights[1]: must be >= 0 (got -1.0)"),
    ("learn.weights", np.array([0, nan]), "learn.weights[1]: must be finite (got nan)"),
    ("learn.frequencies", [1.0], "learn.frequencies[0]: must be a list of numbers (got 1.0)"),
    ("learn.frequencies", 1, "learn.frequencies: must be a list of lists of numbers (got 1)"),
    ("learn.frequencies", ((1.0,), (2.0, nan)), "learn.frequencies[1][1]: must be finite (got nan)"),
    ("note", None, "note: must be a string (got None)"),
    ("name", 3, "name: must be a string or none (got 3)"),
    ("note", "\udcff", r"note: must be valid Unicode text (got '\udcff')"),
    ("note", b"x" * 10_000, "note: must be a string (got b'xxx"),
    ("learn", {"epochs": 3}, "learn: must be a LearnConfig (got {'epochs': 3})"),
]


@pytest.mark.parametrize(("key", "value", "expected"), BAD_VALUES, ids=range(len(BAD_VALUES)))
def test_validate_refuses_with_place_value_and_cure(key, value, expected):
    assert expected in message(validate, changed(key, value))


def float_places(kind, key="", value=None):
    """(key, function from a float to a value of the field) of every float of a config class, by reflection."""
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        for part in fields(kind):
            yield from float_places(hints[part.name], f"{key}.{part.name}".lstrip("."))
        return
    if kind is float:
        yield key, lambda number: number
        return
    for arg in typing.get_args(kind):
        for _, inner in float_places(arg, key):
            if typing.get_origin(kind) is not tuple:
                yield key, inner
            else:
                yield key, lambda number, inner=inner: (inner(number),)


FLOATS = list(float_places(Config))


def test_reflection_finds_all_floats():
    keys = "policy.alpha_beta learn.step_size_theta learn.clip learn.frequencies learn.weights"
    assert {key for key, _ in FLOATS} == {*keys.split(), "learn.schedule.decay", "gamma", "rate"}


@pytest.mark.parametrize("number", [nan, inf, -inf])
@pytest.mark.parametrize(("key", "build"), FLOATS, ids=[key for key, _ in FLOATS])
def test_every_float_must_be_finite(key, build, number, tmp_path):
    value = build(number)
    text = str(value).replace("(", "[").replace(")", "]")
    assert f"must be finite (got {number})" in message(validate, changed(key, value))
    assert f"must be finite (got {number})" in message(override, Config(), {key: value})
    assert f"must be finite (got {number})" in message(parse_settings, Config, [f"{key}={text}"])
    line = message(read_toml, Config, config_file(tmp_path, f"\n{key} = {text}"))
    assert f"config.toml line 2: {key}" in line and f"must be finite (got {number})" in line


def test_validate_gives_the_declared_types():
    class Level(enum.IntEnum):
        HIGH = 3

    class Word(str, enum.Enum):
        NOTE = "noted"

    config = Config(
        gamma=1,
        count=np.int32(7),
        name=np.str_("x"),
        note=Word.NOTE,
        masks=[np.True_],
        learn=LearnConfig(step_size_theta=np.float32(0.5), weights=np.array([1, 2]), frequencies=[[1], np.ones(1)]),
        policy=PolicyConfig(hyperplanes=Level.HIGH, alpha_beta=np.int64(2)),
    )
    clean = validate(config)
    values = [clean.gamma, clean.count, clean.name, clean.note, clean.masks, clean.learn.step_size_theta, clean.rate]
    assert values == [1.0, 7, "x", "noted", (True,), 0.5, 1.0]
    assert [type(value) for value in values] == [float, int, str, str, tuple, float, float]
    assert clean.learn.weights == (1.0, 2.0) and type(clean.learn.weights[0]) is float
    assert clean.learn.frequencies == ((1.0,), (1.0,)) and type(clean.learn.frequencies[1]) is tuple
    assert type(clean.policy.hyperplanes) is int and type(clean.policy.alpha_beta) is float
    assert validate(clean) == clean


def test_bounds_themselves():
    allowed = [("gamma", 0), ("gamma", 1), ("learn.epochs", 1), ("learn.epochs", 1000), ("learn.schedule.decay", 1)]
    for key, value in allowed:
        config = changed(key, value)
        assert validate(config) == config


# ---- Mappings and key=value ---------------------------------------------------------------------------------------


def test_override_sets_values():
    items = ["learn.step_size_theta=1", "epochs = 4", "learn.learner=natural", 'note="a b"', "shuffle=false"]
    items += ["frequencies=[[1, 2], [3]]", "alpha_beta=.5", "warmup=1", "warmup=2", "clip=0.2"]
    config = override(Config(), parse_settings(Config, items))
    learn = config.learn
    assert (learn.step_size_theta, learn.epochs, learn.learner, learn.shuffle) == (1.0, 4, "natural", False)
    assert type(learn.step_size_theta) is float
    assert (config.note, learn.frequencies, config.policy.alpha_beta) == ("a b", ((1.0, 2.0), (3.0,)), 0.5)
    assert (learn.schedule.warmup, learn.clip) == (2, 0.2)
    assert override(config, parse_settings(Config, ["learn.clip=none"])).learn.clip is None
    assert override(config, {"learn.clip": None}).learn.clip is None
    assert override(Config(), {}) == validate(Config())
    assert parse_settings(Config, "epochs=5") == parse_settings(Config, {"epochs": 5}) == {"learn.epochs": 5}


def test_override_takes_typed_values():
    config = override(
        Config(), {"gamma": 1, "learn.weights": [1, 2], "note": "7", "learn.frequencies": np.ones((1, 2))}
    )
    assert (config.gamma, config.learn.weights, config.note) == (1.0, (1.0, 2.0), "7")
    assert type(config.gamma) is float and config.learn.frequencies == ((1.0, 1.0),)
    assert "epochs: unknown setting (got 3); did you mean learn.epochs" in message(override, Config(), {"epochs": 3})
    assert "learn: is a section, not a setting" in message(override, Config(), {"learn": {"epochs": 3}})


@pytest.mark.parametrize(("key", "value", "expected"), BAD_VALUES[:-1], ids=range(len(BAD_VALUES) - 1))
def test_override_refuses_with_place_value_and_cure(key, value, expected):
    assert expected in message(override, Config(), {key: value})
    assert expected in message(parse_settings, Config, {key: value})


def test_an_exact_name_wins_over_a_short_one():
    @dataclass(frozen=True)
    class Twice:
        policy: PolicyConfig = field(default_factory=PolicyConfig)
        seed: int = setting(0, "Another seed.")

    assert parse_settings(Twice, ["seed=4"]) == {"seed": 4}


@pytest.mark.parametrize("text", ["two words", "7", "2024-01-01", "true", "a=b", "C:\\new", "[x", "ü", ""])
def test_text_takes_bare_words_where_text_is_wanted(text):
    assert parse_settings(Config, [f"name={text}"]) == {"name": text}


BAD_OVERRIDES = [
    ("learn.step_sise=0.1", "learn.step_sise: unknown setting (got 0.1); did you mean learn.step_size_theta"),
    ("policy.epochs=4", "policy.epochs: unknown setting (got 4); did you mean learn.epochs"),
    ("lern.epochs=4", "lern.epochs: unknown setting (got 4); did you mean learn.epochs"),
    ("epoch=4", "epoch: unknown setting (got 4); did you mean learn.epochs"),
    ("learn.qqq=4", "learn.qqq: unknown setting (got 4); known here: learn.learner, learn.step_size_theta"),
    ("qqq=4", "qqq: unknown setting (got 4); known here: gamma"),
    ("lern={epochs=4}", "lern: unknown section (got {'epochs': 4}); did you mean learn?"),
    ("learn.epochs", "override: must have the form key=value (got 'learn.epochs'); write learn.epochs=value"),
    ("=3", "override: must have the form key=value (got '=3')"),
    ("", "override: must have the form key=value (got '')"),
    ("learn=3", "learn: is a section, not a setting (got 3); name one in it, such as learn.learner"),
    ("learn.schedule=3", "learn.schedule: is a section, not a setting (got 3)"),
    ("learn.epochs.x=3", "learn.epochs.x: unknown setting (got 3); known here: gamma, rate"),
    ("learn.epochs=4.0", "learn.epochs: must be an integer >= 1 and <= 1000 (got 4.0)"),
    ("epochs=four", "learn.epochs: must be an integer >= 1 and <= 1000 (got 'four')"),
    ("learn.epochs=0", "learn.epochs: must be an integer >= 1 and <= 1000 (got 0)"),
    ("learn.epochs=4\ngamma=1", r"learn.epochs: must be an integer >= 1 and <= 1000 (got '4\ngamma=1')"),
    ("learn.epochs=" + "9" * 5000, "learn.epochs: must be an integer >= 1 and <= 1000 (got '999"),
    ("learn.weights=" + "[" * 5000, "learn.weights: must be a list of numbers (got '[[["),
    ("learn.learner=pop", "(got 'pop'); did you mean ppo?"),
    ("learn.step_size_theta=-1", "learn.step_size_theta: must be >= 0 (got -1.0)"),
    ("gamma=none", "gamma: must be a number >= 0 and <= 1 (got 'none')"),
    ("shuffle=True", "learn.shuffle: must be true or false (got 'True')"),
    ("tags=[a]", "tags: must be a list of strings (got '[a]')"),
    ("note=\udcff", r"note: must be valid Unicode text (got '\udcff')"),
    ("x\x1b[31m=1", r"'x\x1b[31m': unknown setting (got 1)"),
]


@pytest.mark.parametrize(("item", "expected"), BAD_OVERRIDES, ids=[ascii(item[:20]) for item, _ in BAD_OVERRIDES])
def test_text_refuses(item, expected):
    assert expected in message(parse_settings, Config, ["gamma=0.5", item])


def test_short_key_of_several_sections_is_refused():
    @dataclass(frozen=True)
    class Twice:
        policy: PolicyConfig = field(default_factory=PolicyConfig)
        start: PolicyConfig = field(default_factory=PolicyConfig)

    expected = "seed: is in several sections; write one of policy.seed, start.seed"
    assert message(parse_settings, Twice, ["seed=1"]) == expected


def test_text_checks_a_value_that_a_later_one_replaces():
    assert "learn.epochs: must be an integer" in message(parse_settings, Config, ["epochs=0", "epochs=4"])


def test_override_checks_the_rest_of_the_config_too():
    assert "gamma: must be finite" in message(override, Config(gamma=nan), {"learn.epochs": 4})


# ---- TOML files ---------------------------------------------------------------------------------------------------


def test_read_toml_sets_values_over_the_base(tmp_path):
    lines = [
        "\ufeffgamma = 1",
        "[learn]",
        "step_size_theta = 2",
        "schedule = {warmup = 3}",
        "weights = [",
        "1]",
        "[policy]",
        "",
    ]
    path = config_file(tmp_path, "\r\n".join(lines))
    config = read_toml(Config, str(path), base=Config(name="base"))
    assert (config.gamma, config.learn.step_size_theta, config.learn.schedule.warmup) == (1.0, 2.0, 3)
    assert (config.name, config.learn.epochs) == ("base", 8)
    assert read_toml(Config, path).name is None


def test_read_toml_follows_a_symlink(tmp_path):
    (tmp_path / "link.toml").symlink_to(config_file(tmp_path, "gamma = 0.5"))
    assert read_toml(Config, tmp_path / "link.toml").gamma == 0.5


# Lines of a value, a string and a comment that look like something else: no wrong line may be named.
DECOYS = r"""# [policy]
note = QQQ
[learn]
step_sise = "1"
\QQQ QQQ # "
name = LLL[
lr = "1"
LLL' # [
tags = [ # [
  "]", '[#', QQQbQQQ", "]", "\"["
] #]
[learn] # ]
""".replace("QQQ", '"' * 3).replace("LLL", "'" * 3)

BAD_FILES = [
    (DECOYS + "step_sise = 0.1", "learn.step_sise: unknown setting (got 0.1); did you mean learn.step_size"),
    (DECOYS + "\nweights = [\n1,\n-2]", "line 14: learn.weights[1]: must be >= 0 (got -2.0)"),
    ("[learn]\nepochs = 8.0", "line 2: learn.epochs: must be an integer >= 1 and <= 1000 (got 8.0)"),
    ("[learn]\nepochs = '8'", "line 2: learn.epochs: must be an integer >= 1 and <= 1000 (got '8')"),
    ("\nlearn = {learner = 'pop'}", "line 2: learn.learner: must be one of reinforce"),
    ("\nlearn.schedule.warmup = -1", "line 2: learn.schedule.warmup: must be an integer >= 0 (got -1)"),
    ("gamma = 1\n  [ learn . schedule ]\nwarmup = true", "line 3: learn.schedule.warmup: must be an integer >= 0"),
    ("gamma = 1\n[lern]\nepochs = 3", "line 2: lern: unknown section (got {'epochs': 3}); did you mean learn?"),
    ("[learn.shedule]", "line 1: learn.shedule: unknown section (got {}); did you mean learn.schedule"),
    ("[learn.epochs]\nx = 1", "line 1: learn.epochs: must be an integer >= 1 and <= 1000 (got {'x': 1})"),
    ("\n[[learn]]\nepochs = 1", "line 2: learn: is a section, not a setting (got [{'epochs': 1}])"),
    ("learn = 3", "line 1: learn: is a section, not a setting (got 3)"),
    ("[learn]\nfrequencies = [\n[1]\n]\n[policy]\nepochs = 4", "line 6: policy.epochs: unknown setting (got 4)"),
    ("tags = [\n'''a\ngama = 1\n''']\ngama = 2", "gama: unknown setting (got 2); did you mean gamma"),
    ("epochs = 4", "line 1: epochs: unknown setting (got 4); did you mean learn.epochs"),
    ("gamma = 1\ngamma = 1", "is not TOML: Cannot overwrite a value (at end of document); write each key once"),
    ("gamma = 1\ngamma = 1\ncount = 1", "line 2: is not TOML: Cannot overwrite a value (got 'gamma = 1')"),
    ("gamma = 1\n\nlearner = ppo\n", "line 3: is not TOML: Invalid value (got 'learner = ppo')"),
    ("gamma = 1\ntags = ['a',\n'b'", "is not TOML: Unclosed array (at end of document)"),
    ('gamma = 1\nnote = """a\nb', "is not TOML: Unterminated string (at end of document)"),
    ("gamma = 1\ncount = " + "9" * 5000, "is not TOML: Exceeds the limit (4300 digits)"),
    ("gamma = 1\ntags = " + "[" * 5000 + "]" * 5000, "is not TOML: nested too deeply"),
    ("count = 0x" + "f" * 5000, "line 1: count: must be an integer of at most 64 bits (got an integer of 20000 bits)"),
    ("gamma = 2024-01-01", "line 1: gamma: must be a number >= 0 and <= 1 (got datetime.date(2024, 1, 1))"),
    ('"" = 1', "line 1: '': unknown setting (got 1)"),
    ("a" + ".a" * 2000 + " = 1", "line 1: a: unknown section"),
    (b"gamma = 1\nnote = '\xff'", "line 2: is not UTF-8 text (got byte 0xff); save the file as UTF-8"),
    ("gamma = 1".encode("utf-16"), "line 1: is not UTF-8 text (got byte 0xff)"),
]


@pytest.mark.parametrize(("content", "expected"), BAD_FILES, ids=range(len(BAD_FILES)))
def test_read_toml_names_file_line_and_key(content, expected, tmp_path):
    path = config_file(tmp_path, content)
    assert f"{path}{' ' if expected.startswith('line ') else ': '}{expected}" in message(read_toml, Config, path)


@contextmanager
def no_longer_than(seconds: float):
    """A test that waits on a FIFO must fail, not wait."""

    def stop(*_):
        raise RuntimeError(f"still waiting after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def make_fifo(path):
    os.mkfifo(path)
    return path


def make_link_to_fifo(path):
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to("fifo")
    return path


def make_loop(path):
    path.symlink_to(path)
    return path


def make_directory(path):
    path.mkdir()
    return path


def make_large(path):
    path.write_bytes(b"#" * MAX_FILE_BYTES + b"\n")
    return path


BAD_PATHS = [
    (lambda path: path, "cannot be read: No such file or directory; check the path"),
    (make_directory, "must be a regular file (got a directory)"),
    (make_fifo, "must be a regular file (got a FIFO, socket or device)"),
    (make_link_to_fifo, "must be a regular file (got a FIFO, socket or device)"),
    (lambda path: "/dev/zero", "must be a regular file (got a FIFO, socket or device)"),
    (make_loop, "cannot be read: Too many levels of symbolic links"),
    (make_large, "is too large (got over 1000000 bytes)"),
    (lambda path: path.parent / ("x" * 300), "cannot be read: File name too long"),
    (lambda path: "a\0b", "cannot be read: embedded null byte"),
]


@pytest.mark.parametrize(("make", "expected"), BAD_PATHS, ids=[expected[:40] for _, expected in BAD_PATHS])
def test_read_toml_refuses_what_is_no_config_file(make, expected, tmp_path):
    path = make(tmp_path / "run ü space")
    with no_longer_than(5):
        assert f"{path}: {expected}" in message(read_toml, Config, path)


def test_a_long_file_is_read_in_linear_time(tmp_path):
    begin = time.process_time()
    path = config_file(tmp_path, "#\n" * 100_000 + "gama = 1")
    assert "line 100001: gama: unknown" in message(read_toml, Config, path)
    assert time.process_time() - begin < 3


# ---- There and back -----------------------------------------------------------------------------------------------

finite = st.floats(-LARGEST, LARGEST)
positive = st.floats(0, LARGEST, exclude_min=True)
unit = st.floats(0, 1, exclude_min=True, exclude_max=True)
words = ['"', "\\", "'''", '"""', "a\nb", "\r\n", "\x7f", "\x00", "\u2028", "🤖", "#", "none", "\\u0041"]
awkward = st.text() | st.sampled_from(words)
int64 = st.integers(-(2**63), 2**63 - 1)

configs = st.builds(
    Config,
    policy=st.builds(PolicyConfig, st.integers(1, 9), positive, st.integers(0, 2**63 - 1)),
    learn=st.builds(
        LearnConfig,
        learner=st.sampled_from(["reinforce", "actor-critic", "natural", "ppo"]),
        step_size_theta=positive | st.just(1e-300) | st.just(0.0),
        clip=st.none() | unit,
        epochs=st.integers(1, 1000),
        frequencies=st.lists(st.lists(finite, max_size=3).map(tuple), max_size=3).map(tuple),
        weights=st.lists(positive, max_size=3).map(tuple),
        schedule=st.builds(ScheduleConfig, st.floats(0.6, 1), st.integers(0, 9)),
        shuffle=st.booleans(),
    ),
    gamma=st.floats(0, 1),
    rate=finite,
    count=int64,
    name=st.none() | awkward,
    note=awkward,
    tags=st.lists(awkward, max_size=3).map(tuple),
    masks=st.lists(st.booleans(), max_size=3).map(tuple),
    eval_seed=int64,
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("toml")


@settings(deadline=None, max_examples=100)
@given(config=configs)
def test_toml_round_trip(config, scratch):
    path = config_file(scratch, to_toml(config))
    back = read_toml(Config, path)
    assert back == config
    assert repr(back) == repr(config)  # -0.0 stays -0.0, and 1.0 does not become 1
    assert to_toml(back) == path.read_bytes().decode()


def test_toml_looks_like_this():
    text = to_toml(Config(name='a"b', learn=LearnConfig(step_size_theta=1e-300, frequencies=((1, 0.5), ()))))
    assert (
        text
        == """gamma = 0.99
rate = 1.0
count = 0
name = "a\\"b"
note = ""
tags = []
masks = []
eval_seed = 0

[policy]
hyperplanes = 1
alpha_beta = 20.0
seed = 0

[learn]
learner = "ppo"
step_size_theta = 1e-300
epochs = 8
frequencies = [[1.0, 0.5], []]
weights = [0.5, 0.5]
shuffle = true

[learn.schedule]
decay = 1.0
warmup = 0
"""
    )


def test_to_toml_writes_no_bad_config():
    assert "gamma: must be finite" in message(to_toml, Config(gamma=inf))


# ---- For the help texts, and for who declares settings ------------------------------------------------------------


def test_describe_lists_every_setting():
    rows = {row["key"]: tuple(row.values())[1:] for row in describe(Config)}
    assert list(rows)[:3] == [f"policy.{name}" for name in ("hyperplanes", "alpha_beta", "seed")]
    assert len(rows) == 20
    assert rows["learn.epochs"] == ("integer", 8, "Passes over each batch (ppo).", ">= 1 and <= 1000")
    assert rows["learn.learner"][3] == "one of reinforce, actor-critic, natural, ppo"
    assert rows["learn.clip"] == ("number or none", None, "Clip of the ratio.", "> 0 and < 1")
    assert rows["learn.frequencies"][0] == "list of lists of numbers"
    assert rows["name"] == ("string or none", None, "Name of the run.", "")
    assert rows["learn.shuffle"][0] == "true or false"


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        (float | None, 1.0, "must default to None"),  # TOML could not bring None back
        (dict, None, "cannot have the type"),
        (int | str, 1, "cannot have the type"),
        (int | str | None, None, "cannot have the type"),
        (tuple[float | None, ...], (), "cannot hold None"),
        (tuple[float, float], (0.0, 1.0), "cannot have the type"),
    ],
)
def test_a_declaration_that_cannot_work_is_a_programming_error(kind, default, expected):
    @dataclass(frozen=True)
    class Wrong:
        other: int = setting(0, "")
        value: kind = setting(default, "")

    with pytest.raises(TypeError, match=expected):
        validate(Wrong())


def test_import_is_light():
    code = "import sys, asap.config.toml; sys.exit(bool({'numpy', 'jax'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
