"""Datasets of Minari, converted once to a file of ours: the same columns, checks and streaming for all data."""

import importlib.metadata
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asap.base.errors import UserError
from asap.data.layout import FINAL, Meta
from asap.data.writing import DatasetWriter
from asap.envs import catalog

if TYPE_CHECKING:
    from minari import MinariDataset


def converted(name: str) -> str:
    """The path of the converted file; made when it is not there yet."""
    try:
        import minari
    except ImportError:
        raise UserError(
            "--offline", "datasets of Minari need an extra", f"minari:{name}", "pip install 'asap-rl[offline]'"
        ) from None
    path = _place(name)
    if not path.exists():
        try:
            dataset = minari.load_dataset(name)
        except (FileNotFoundError, ValueError, KeyError) as error:
            raise UserError(
                "--offline", f"Minari: {error}", f"minari:{name}", f"get it with: minari download {name}"
            ) from None
        path.parent.mkdir(parents=True, exist_ok=True)
        _convert(dataset, name, path)
    return str(path)


def _place(name: str) -> Path:
    """In the user's cache: it can be deleted at any time."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "asap" / "minari" / f"{name.replace('/', '+')}.npz"


def _convert(dataset: "MinariDataset", name: str, path: Path) -> None:
    _require_plain_spaces(dataset, name)
    first_action = int(dataset.action_space.start)
    with DatasetWriter(path) as writer:
        for number, episode in enumerate(dataset.iterate_episodes()):
            length = len(episode.rewards)
            ends = np.arange(length) == length - 1
            is_terminated = bool(np.asarray(episode.terminations)[-1])
            writer.add(
                {
                    "observation": np.asarray(episode.observations[:length], np.float32),
                    "action": np.asarray(episode.actions, np.int32) - first_action,
                    "reward": np.asarray(episode.rewards, np.float32),
                    "terminated": ends & is_terminated,
                    "truncated": ends & (not is_terminated),  # Also where logging broke off.
                    "episode": np.full(length, number, np.int32),
                    FINAL: np.asarray(episode.observations[length : length + 1], np.float32),
                }
            )
        versions = {"minari": importlib.metadata.version("minari")}
        writer.finish(Meta(task=_task_of(dataset), controller=f"minari:{name}", versions=versions))


def _require_plain_spaces(dataset: "MinariDataset", name: str) -> None:
    from gymnasium.spaces import Box, Discrete

    if not isinstance(dataset.action_space, Discrete):
        raise UserError(
            "--offline",
            f"needs discrete actions, has {dataset.action_space}",
            f"minari:{name}",
            "choose another dataset",
        )
    if not isinstance(dataset.observation_space, Box) or len(dataset.observation_space.shape) != 1:
        what = f"needs observations that are one row of numbers, has {dataset.observation_space}"
        raise UserError("--offline", what, f"minari:{name}", "choose another dataset")


def _task_of(dataset: "MinariDataset") -> str | None:
    """Our name of the environment, where it is one of ours."""
    env_id = None if dataset.env_spec is None else dataset.env_spec.id
    return next((name for name in catalog.NAMES if catalog.find(name).gymnasium_id == env_id), None)
