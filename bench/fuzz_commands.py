"""Fuzzing targets of commands: odd words on the command line, and training with odd settings.

A command ends with exit code 0, or in exactly one line of error.
"""

import contextlib
import io
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

from fuzz_mutations import NUMBERS, TEXTS, changed_text, changed_tree, toml_value
from fuzz_saved import RELEASE
from fuzz_settings import KEYS, encoded, json_list
from fuzz_watch import Forbidden, Hang, Target, Wrong

from asap.base.errors import UserError
from asap.workers.failures import Recording

# ---- Command lines --------------------------------------------------------------------------------------------------

_HERE = ("{run}", "{model}", "{replay}", "{fifo}", "{folder}", "{missing}")
_PLACES = [
    *_HERE,
    "/dev/null",
    "/dev/zero",
    "/proc/self/mem",
    "/",
    ".",
    "",
    "x" * 300,
    "a\0b",
    "{run}/events.jsonl",
    "{run}/..",
]
_INTS = ["0", "1", "-1", "2", "1.5", "ten", "", " 3", "1_0", "0x10", "٣", "1e3", "nan", "inf", "9" * 5000]
_INTS += [str(number) for number in NUMBERS if abs(number) >= 2**63]  # Those between would be played, for days.
_COMMANDS = [
    ["train", "two-rooms", "--episodes", "4", "--out", "{folder}/new"],
    ["train", "CartPole-v1", "--steps", "100", "--max-steps", "5", "--out", "{folder}/new"],
    ["train", "two-rooms:0.5", "flipped-two-rooms:2", "--seeds", "2", "-k", "1", "--out", "{folder}/new"],
    ["train", "--resume", "{run}", "--episodes", "99"],
    ["train", "--config", "{run}/config.toml", "--set", "learn.epochs=4", "--out", "{folder}/new"],
    ["train", "two-rooms", "--offline", "{missing}", "--learner", "importance"],
    ["eval", "{run}", "--episodes", "2", "--seed", "0"],
    ["eval", "{model}", "--episodes", "2", "--task", "two-rooms", "--workers", "0"],
    ["explain", "{model}", "--seed", "0"],
    ["plot", "{model}", "--out", "{folder}/pictures"],
    ["check", "CartPole-v1", "--episodes", "1", "--seed", "0", "--set", "env.max_steps=5"],
    ["check", "CartPole-v1", "--replay", "{replay}"],
    ["collect", "two-rooms", "--controller", "random", "--episodes", "2", "--out", "{folder}/data.npz"],
    ["transfer", "{run}", "flipped-two-rooms", "--episodes", "2", "--out", "{folder}/new"],
    ["tasks", "two-rooms"],
    ["settings"],
]
_OPTIONS = [
    "--episodes",
    "--seed",
    "--seeds",
    "--steps",
    "-k",
    "--workers",
    "--max-steps",
    "--out",
    "--config",
    "--replay",
]
_OPTIONS += [
    "--resume",
    "--offline",
    "--task",
    "--epsilon",
    "--step-timeout",
    "--reward-scale",
    "--skills",
]


def _command_seeds(folder: Path) -> list[list[str]]:
    import matplotlib.font_manager  # noqa: F401 - looks for fonts when it is first imported.

    return _COMMANDS


def _changed_command(rng: Random, words: list[str]) -> list[str]:
    words = list(words)
    at = rng.randrange(len(words)) if words else 0
    match rng.randrange(8):
        case 0:
            words += ["--set", f"{rng.choice(KEYS)}={toml_value(rng)}"]
        case 1:
            words += [rng.choice(_OPTIONS), rng.choice(_INTS)]
        case 2:
            words += [rng.choice(_OPTIONS), rng.choice(_PLACES)]
        case 3 if words:
            words[at] = rng.choice(_INTS)
        case 4 if words:
            words[at] = rng.choice(_PLACES)
        case 5 if words:
            words[at] = changed_text(rng, words[at])
        case 6 if words:
            del words[at]
        case _:
            words.append(rng.choice(["--json", "--debug", "--help", *TEXTS]))
    return words


def _command(data: bytes, folder: Path) -> None:
    """Exit code 0, or exactly one line of error. Training itself is left out: it would take all the time."""
    # --debug asks for tracebacks.
    words = [_placed(word, folder) for word in json_list(data) if isinstance(word, str) and word != "--debug"]
    out, err = io.StringIO(), io.StringIO()
    with _inside(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = _exit_code(words)
    lines = err.getvalue().splitlines()
    errors = [line for line in lines if line.startswith("error:")]
    if code == 0 and not errors or (code == 2 and not words):
        if "--json" in words and "--help" not in words and out.getvalue():
            json.loads(out.getvalue().splitlines()[-1])
        return
    if code not in (1, 2) or len(errors) != 1 or lines[-1:] != errors:
        raise Wrong(f"exit code {code} with {len(errors)} lines of error: {err.getvalue()[-300:]}")
    raise UserError(*errors[0].removeprefix("error: ").partition(": ")[::2])


def _exit_code(words: list[str]) -> int:
    from asap.cli import app

    def no_training(*arguments: Any, **options: Any) -> Any:
        raise UserError("training", "is left out while fuzzing")

    replaced = [mock.patch(f"asap.cli.{name}.train_to_end", no_training) for name in ("learning", "transferring")]
    with mock.patch.object(sys, "argv", ["asap", *words]), replaced[0], replaced[1]:
        fail = app._fail

        def raised(error: BaseException, debug: bool) -> int:
            if isinstance(error, Hang | Forbidden):
                raise error
            return fail(error, debug)

        try:
            with mock.patch.object(app, "_fail", raised):
                app.main()
        except SystemExit as left:
            return left.code if isinstance(left.code, int) else 0
    raise Wrong("the command line did not end by an exit")


def _placed(word: str, folder: Path) -> str:
    for name in _HERE:
        word = word.replace(name, str(folder if name == "{folder}" else folder / name.strip("{}")))
    return word


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    here = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(here)


def _prepare(folder: Path) -> None:
    """Files for commands to read, in a folder where nothing of earlier commands is left."""
    for entry in folder.iterdir():
        shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    shutil.copytree(RELEASE / "two-rooms", folder / "run")
    shutil.copy(RELEASE / "two-rooms.asap", folder / "model")
    os.mkfifo(folder / "fifo")
    Recording("CartPole-v1", {}, {}, 3, [0, 1, 1], "env.step: x").save(folder / "replay")


def _changed_list(rng: Random, words: list[str]) -> list[str]:
    changed = changed_tree(rng, words) if rng.random() < 0.1 else None
    return changed if isinstance(changed, list) else _changed_command(rng, [w for w in words if isinstance(w, str)])


# ---- Training -------------------------------------------------------------------------------------------------------

_SMALL = [
    "learn.lanes=4",
    "learn.window=8",
    "learn.epochs=1",
    "run.chunk=1",
    "run.eval_episodes=2",
    "run.final_episodes=2",
]
# Settings that may ask for any amount of work: what is asked for is done.
_WORK = (
    "run.seeds",
    "run.eval_episodes",
    "run.final_episodes",
    "run.search_episodes",
    "learn.epochs",
    "learn.batch_episodes",
)
_WORK += ("run.chunk", "policy.hidden", "learn.critic_features")
_LEARNERS = ["ppo", "reinforce", "actor-critic", "natural"]


def _changed_training(rng: Random, items: list[str]) -> list[str]:
    key = rng.choice([key for key in KEYS if key.startswith(("learn.", "policy.", "run.")) and key not in _WORK])
    return [*items, f"{key}={rng.choice(NUMBERS) if rng.random() < 0.7 else toml_value(rng)}"]


def _train(data: bytes, folder: Path) -> None:
    """To the first look of the host, whatever the budget is."""
    from asap.cli.learning import create_run
    from asap.compose import compose
    from asap.config.schema import Config
    from asap.config.toml import parse_settings
    from asap.model.training import train_run
    from asap.runs.signals import StopRequest

    items = [item for item in json_list(data) if isinstance(item, str)]
    shutil.rmtree(folder / "new", ignore_errors=True)
    config, tasks = compose(["two-rooms"], {"run.episodes": 1}, overrides=parse_settings(Config, [*_SMALL, *items]))
    run = create_run(config, tasks, str(folder / "new"), "")
    result = train_run(run, config, tasks, StopRequest(), [lambda report: False])[1]
    json.dumps(result.summary(""))


TARGETS = (
    Target(
        "training",
        lambda folder: [[f"learn.learner={learner}"] for learner in _LEARNERS],
        _changed_training,
        encoded,
        _train,
        raw=0.0,
        seconds=60.0,
        names_files=True,
    ),
    Target(
        "command",
        _command_seeds,
        _changed_list,
        encoded,
        _command,
        raw=0.0,
        seconds=30.0,
        prepare=_prepare,
        names_files=True,
    ),
)
