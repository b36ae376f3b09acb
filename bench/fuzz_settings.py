"""Fuzzing targets of settings: config files, and `--set` items. What is accepted is the same after writing and reading."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

from fuzz_mutations import NUMBERS, TEXTS, changed_text, changed_toml, dumps, toml_value
from fuzz_saved import RELEASE
from fuzz_watch import Target, Wrong

from asap.config.schema import Config
from asap.config.settings import override, schema_of
from asap.config.toml import parse_settings, read_toml, to_toml

KEYS = sorted(schema_of(Config).settings)


def _require_same_again(config: Config, folder: Path) -> None:
    path = folder / "again.toml"
    path.write_text(to_toml(config), encoding="utf-8")
    if read_toml(Config, path) != config:
        raise Wrong("another config after to_toml and read_toml")


def _compose(settings: list[str], file: str | None = None) -> None:
    """The settings, for a task that they may fit: what they ask for is checked, and then can be made."""
    from asap.compose import compose
    from asap.model.training import blank_start

    values = parse_settings(Config, settings)
    compose(["two-rooms"], {}, None, file, values)
    blank_start(*compose(["two-rooms"], {}, None, file, {**values, "run.seeds": 1}))  # Thousands take their time.


# ---- Config files ---------------------------------------------------------------------------------------------------


def _config_seeds(folder: Path) -> list[str]:
    own = to_toml(override(Config(), {"run.tasks": ("two-rooms",), "policy.frequencies": ((1.0, 2.0),)}))
    return [own, *((RELEASE / name / "config.toml").read_text() for name in ("two-rooms", "cartpole"))]


def _read_config(data: bytes, folder: Path) -> None:
    path = folder / "config.toml"
    path.write_bytes(data)
    _require_same_again(read_toml(Config, path), folder)
    _compose([], str(path))


# ---- Overrides ------------------------------------------------------------------------------------------------------


def _override_seeds(folder: Path) -> list[list[str]]:
    return [
        [],
        ["learn.epochs=4", "run.weights=[1.0]", "seed=3"],
        ["policy.skills=network", "policy.hidden=[16, 16]"],
        ["policy.basis=network", "policy.hidden=[3]"],
        ["policy.basis=polynomial", "policy.inputs=['x', 'y']"],
        ["policy.basis=polynomial", "policy.degree=2", "policy.hyperplanes=2"],
        ["policy.basis=fourier", "policy.frequencies=[[1.0, 2.0]]", "policy.inputs=['x', 'y']"],
        ["learn.learner=reinforce", "learn.lanes=4", "learn.batch_episodes=4"],
        ["learn.critic_features=8", "learn.critic_length=0.5", "run.seeds=2"],
    ]


def _changed_items(rng: Random, items: list[str]) -> list[str]:
    items = list(items)
    match rng.randrange(6):
        case 0 if items:
            at = rng.randrange(len(items))
            items[at] = changed_text(rng, items[at])
        case 1 if items:
            at = rng.randrange(len(items))
            key, value = items[at].partition("=")[::2]
            items[at] = f"{key}={_other_numbers(rng, value)}"
        case 2:
            items.append(f"{changed_text(rng, rng.choice(KEYS))}={toml_value(rng)}")
        case 3:
            items.append(rng.choice(TEXTS))
        case _:
            value = rng.choice(NUMBERS) if rng.random() < 0.5 else None
            items.append(f"{rng.choice(KEYS)}={toml_value(rng) if value is None else value}")
    return items


def _other_numbers(rng: Random, value: str) -> str:
    return re.sub(r"[0-9.]+", lambda found: str(rng.choice([*NUMBERS, 100, 10_000, found[0]])), value)


def _override(data: bytes, folder: Path) -> None:
    items = [item for item in json_list(data) if isinstance(item, str)]
    _require_same_again(override(Config(), parse_settings(Config, items)), folder)
    _compose(items)


def json_list(data: bytes) -> list[Any]:
    try:
        told = json.loads(data)
    except (ValueError, RecursionError):
        return []
    return told if isinstance(told, list) else []


def encoded(words: list[Any]) -> bytes:
    return dumps(words).encode()


TARGETS = (
    Target("config", _config_seeds, changed_toml, lambda text: text.encode("utf-8", "surrogatepass"), _read_config),
    Target("override", _override_seeds, _changed_items, encoded, _override, raw=0.0, names_files=True),
)
