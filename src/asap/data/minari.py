"""Datasets of Minari, converted once to a file of ours: the same columns, checks and streaming for all data; and written from one."""

import contextlib
import importlib.metadata
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from asap.base.errors import UserError
from asap.data.layout import FINAL, Meta, layout_of
from asap.data.writing import DatasetWriter

MINARI = "minari:"


def converted(name: str, tasks: Mapping[str, str]) -> str:
    """The path of the converted file; made when it is not there yet. `tasks`: from Gymnasium's ids to our names."""
    minari = _imported("--offline", name)
    # In the user's cache: it can be deleted at any time.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = cache / "asap" / "minari" / f"{name.replace('/', '+')}.npz"
    if not path.exists():
        try:
            dataset = minari.load_dataset(name)
        except (FileNotFoundError, ValueError, KeyError) as error:
            raise _bad("--offline", name, f"Minari: {error}", f"get it with: minari download {name}") from None
        path.parent.mkdir(parents=True, exist_ok=True)
        _convert(dataset, name, path, tasks)
    return str(path)


def _imported(option: str, name: str) -> Any:
    try:
        import minari  # pyright: ignore[reportMissingImports] - an extra.
    except ImportError:
        raise _bad(option, name, "datasets of Minari need an extra", "pip install 'asap-rl[offline]'") from None
    return minari


def _bad(option: str, name: str, what: str, cure: str = "choose another dataset") -> UserError:
    return UserError(option, what, f"minari:{name}", cure)


def _convert(dataset: Any, name: str, path: Path, tasks: Mapping[str, str]) -> None:
    from gymnasium.spaces import Box, Discrete

    is_box = isinstance(dataset.action_space, Box)
    if not is_box and not isinstance(dataset.action_space, Discrete):
        raise _bad("--offline", name, f"needs Discrete or Box actions, has {dataset.action_space}")
    if not isinstance(dataset.observation_space, Box) or len(dataset.observation_space.shape) != 1:
        raise _bad(
            "--offline", name, f"needs observations that are one row of numbers, has {dataset.observation_space}"
        )
    first_action = 0 if is_box else int(dataset.action_space.start)
    with DatasetWriter(path) as writer:
        for number, episode in enumerate(dataset.iterate_episodes()):
            length = len(episode.rewards)
            ends = np.arange(length) == length - 1
            is_terminated = bool(np.asarray(episode.terminations)[-1])
            actions = np.asarray(episode.actions)
            actions = np.float32(actions).reshape(length, -1) if is_box else np.int32(actions) - first_action
            writer.add(
                {
                    "observation": np.asarray(episode.observations[:length], np.float32),
                    "action": actions,
                    "reward": np.asarray(episode.rewards, np.float32),
                    "terminated": ends & is_terminated,
                    "truncated": ends & (not is_terminated),  # Also where logging broke off.
                    "episode": np.full(length, number, np.int32),
                    FINAL: np.asarray(episode.observations[length : length + 1], np.float32),
                }
            )
        versions = {"minari": importlib.metadata.version("minari")}
        named = None if dataset.env_spec is None else dataset.env_spec.id
        writer.finish(Meta(task=tasks.get(named, named), controller=f"minari:{name}", versions=versions))


@contextlib.contextmanager
def writing_to(out: str) -> Iterator[tuple[str, Callable[[Any], None]]]:
    """Where a dataset is to be written, and what is to be done with it then: one of Minari is made of a file of ours."""
    if not out.startswith(MINARI):
        yield out, lambda task: None
        return
    name = out.removeprefix(MINARI)
    minari = _imported("--out", name)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/data.npz"
        yield path, lambda task: _publish(minari, name, path, task)


def _publish(minari: Any, name: str, path: str, task: Any) -> None:
    """`task` knows the spaces of its environment. Actions are clipped to them, as they were on their way there."""
    from minari.data_collector import EpisodeBuffer  # pyright: ignore[reportMissingImports] - an extra.

    shape = task.observation_space.shape
    if shape is None or len(shape) != 1:
        what = f"needs observations that are one row of numbers, has {task.observation_space}"
        raise _bad("--out", name, what, "write a file of ours: --out FILE")
    acts, buffers = task.actor(), []
    with np.load(path, allow_pickle=False) as columns:
        ends = np.flatnonzero(columns["terminated"] | columns["truncated"]) + 1
        rows = {key: columns[key] for key in ("observation", "action", "reward", "terminated", "truncated", FINAL)}
    for number, (start, end) in enumerate(zip([0, *ends[:-1].tolist()], ends.tolist())):
        steps = {key: values[start:end] for key, values in rows.items() if key != FINAL}
        buffers.append(
            EpisodeBuffer(
                id=number,
                observations=np.concatenate([steps["observation"], rows[FINAL][number : number + 1]]),
                actions=np.stack([acts(action) for action in layout_of(task).ours(steps["action"])]),
                rewards=steps["reward"].tolist(),
                terminations=steps["terminated"].tolist(),
                truncations=steps["truncated"].tolist(),
            )
        )
    spaces = {"action_space": task.action_space, "observation_space": task.observation_space}
    try:
        minari.create_dataset_from_buffers(name, buffers, **spaces)
    except (ValueError, AssertionError, OSError) as error:
        raise _bad("--out", name, f"Minari: {error}", "choose another name, such as minari:cartpole/half-v0") from None
