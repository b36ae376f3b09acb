"""Datasets of Minari, converted once to a file of ours: the same columns, checks and streaming for all data."""

import importlib.metadata
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asap.base.errors import UserError
from asap.data.layout import FINAL, Meta
from asap.data.writing import DatasetWriter


def converted(name: str, tasks: Mapping[str, str]) -> str:
    """The path of the converted file; made when it is not there yet. `tasks`: from Gymnasium's ids to our names."""
    try:
        import minari  # pyright: ignore[reportMissingImports] - an extra.
    except ImportError:
        raise _bad(name, "datasets of Minari need an extra", "pip install 'asap-rl[offline]'") from None
    # In the user's cache: it can be deleted at any time.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = cache / "asap" / "minari" / f"{name.replace('/', '+')}.npz"
    if not path.exists():
        try:
            dataset = minari.load_dataset(name)
        except (FileNotFoundError, ValueError, KeyError) as error:
            raise _bad(name, f"Minari: {error}", f"get it with: minari download {name}") from None
        path.parent.mkdir(parents=True, exist_ok=True)
        _convert(dataset, name, path, tasks)
    return str(path)


def _bad(name: str, what: str, cure: str = "choose another dataset") -> UserError:
    return UserError("--offline", what, f"minari:{name}", cure)


def _convert(dataset: Any, name: str, path: Path, tasks: Mapping[str, str]) -> None:
    from gymnasium.spaces import Box, Discrete

    if not isinstance(dataset.action_space, Discrete):
        raise _bad(name, f"needs discrete actions, has {dataset.action_space}")
    if not isinstance(dataset.observation_space, Box) or len(dataset.observation_space.shape) != 1:
        raise _bad(name, f"needs observations that are one row of numbers, has {dataset.observation_space}")
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
        task = None if dataset.env_spec is None else tasks.get(dataset.env_spec.id)
        writer.finish(Meta(task=task, controller=f"minari:{name}", versions=versions))
