"""Fuzzing target of logged data: NPZ files with odd columns, headers, archives and bytes.

What is accepted is held against NumPy's own reader and a count of the episodes row by row.
"""

import io
import json
import warnings
import zipfile
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
from fuzz_mutations import NUMBERS, VALUES, changed_text, changed_tree, dumps
from fuzz_watch import Target, Wrong
from numpy.lib import format as npy

from asap.data.dataset import Dataset, task_of
from asap.data.layout import EPISODE_COLUMNS, STEP_COLUMNS, Layout, Meta

LAYOUT = Layout("two-rooms", 4, 4, np.zeros(0, np.float32))
_DTYPES = ["f2", "f4", ">f4", "f8", "i1", "i4", "u4", "u8", "i8", "bool", "c8", "U3", "S2", "O", "M8[s]", "V4", "f4,i4"]
_SHAPES = [
    "(6,)",
    "(-6,)",
    "(2, 3)",
    "(6, 1)",
    "()",
    "(10**30,)",
    "(6.0,)",
    "(True,)",
    "6",
    "(0,)",
    "(6, 0)",
    "(1,)" * 3,
]


class Archive(NamedTuple):
    """An NPZ file before it is written."""

    columns: dict[str, np.ndarray]
    meta: Any
    headers: dict[str, str]  # In place of what NumPy would write.
    compressed: bool = False
    twice: str = ""  # A member that is there two times.


def _seeds(folder: Path) -> list[Archive]:
    rng = np.random.default_rng(0)
    ends = np.array([0, 0, 1, 0, 1, 1], bool)
    columns = {
        "observation": rng.random((6, 4), np.float32),
        "action": np.array([0, 1, 2, 3, 0, 1], np.int32),
        "reward": rng.random(6, np.float32),
        "terminated": ends & (np.arange(6) < 4),
        "truncated": ends & (np.arange(6) >= 4),
        "episode": np.array([0, 0, 0, 1, 1, 2], np.int32),
        "final_observation": rng.random((3, 4), np.float32),
    }
    more = {"behaviour_log_prob": np.full(6, -1, np.float32), "success": np.array([1, 0, 1], bool)}
    more |= {"descriptor": np.zeros((3, 0), np.float32)}
    meta = json.loads(Meta(task="two-rooms", action_names=("a", "b", "c", "d"), episodes=3).to_json())
    return [Archive(columns, meta, {}), Archive(columns | more, meta, {}), Archive(columns | more, None, {})]


def _changed(rng: Random, archive: Archive) -> Archive:
    if not archive.columns:
        return archive
    columns, name = dict(archive.columns), rng.choice(sorted(archive.columns))
    array = columns[name]
    match rng.randrange(11):
        case 0:
            return archive._replace(meta=changed_tree(rng, archive.meta))
        case 1:
            header = archive.headers.get(name) or _header(array)
            return archive._replace(headers=archive.headers | {name: _changed_header(rng, header)})
        case 2:
            return archive._replace(compressed=rng.random() < 0.3, twice=name)
        case 3:
            del columns[name]
        case 4:
            columns[rng.choice([changed_text(rng, name), "meta", "../x", *EPISODE_COLUMNS])] = array
        case 5 | 6:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    columns[name] = array.astype(rng.choice(_DTYPES))
                except Exception:  # NumPy casts most things, and has many ways to say no.
                    return archive
        case 7:
            changes = [array[1:], array[:0], array[None], np.asfortranarray(array), array.ravel()]
            columns[name] = rng.choice([*changes, np.concatenate([array, array])]) if array.ndim else array[None]
        case _:
            columns[name] = _with_odd_number(rng, array)
    return archive._replace(columns=columns)


def _with_odd_number(rng: Random, array: np.ndarray) -> np.ndarray:
    array, value = array.copy(), rng.choice([*NUMBERS, -2, 3, 4, True])
    try:
        with np.errstate(all="ignore"):
            array[rng.randrange(len(array)) :] = value
            if rng.random() < 0.7:
                array[1:] = array[0] if rng.random() < 0.2 else array[1:]
    except (TypeError, ValueError, OverflowError, IndexError):
        pass
    return array


def _header(array: np.ndarray) -> str:
    return str({"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape})


def _changed_header(rng: Random, header: str) -> str:
    if rng.random() < 0.5:
        return changed_text(rng, header)
    told = header[: header.rfind("'shape':")] if "'shape':" in header else header
    value = rng.choice([*_SHAPES, *(repr(each) for each in VALUES if isinstance(each, list | dict | float))])
    return f"{told}'shape': {value}}}"


def _encoded(archive: Archive) -> bytes:
    file = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if archive.compressed else zipfile.ZIP_STORED
    columns = dict(archive.columns)
    if archive.meta is not None:
        columns["meta"] = np.array(dumps(archive.meta)[:100_000])
    with zipfile.ZipFile(file, "w", kind) as written, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, array in columns.items():
            for _ in range(2 if name == archive.twice else 1):
                written.writestr(
                    zipfile.ZipInfo(f"{name}.npy".replace("\0", "?")), _member(array, archive.headers.get(name))
                )
    return file.getvalue()


def _member(array: np.ndarray, header: str | None) -> bytes:
    if header is None:
        data = io.BytesIO()
        npy.write_array(data, array, allow_pickle=True)
        return data.getvalue()
    text = header.encode("latin-1", "replace")
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + (len(text) & 0xFFFF).to_bytes(2, "little") + text + array.tobytes()


def _read(data: bytes, folder: Path) -> None:
    path = folder / "data.npz"
    path.write_bytes(data)
    task_of(path, "two-rooms")
    for drops in (True, False):
        _require_right(Dataset(path, LAYOUT, drop_bad_rows=drops), path, drops)


def _require_right(dataset: Dataset, path: Path, drops: bool) -> None:
    try:
        with np.load(path, allow_pickle=False) as file:
            wanted = {name: file[name] for name in (*STEP_COLUMNS, *EPISODE_COLUMNS) if name in file}
    except (
        zipfile.BadZipFile,
        RuntimeError,
    ):  # Says a second time, and wrongly, what a member is called or how packed.
        return
    ended = wanted["terminated"].astype(bool) | wanted["truncated"].astype(bool)
    ends = np.flatnonzero(ended)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if not drops and (len(starts) != dataset.num_episodes or dataset.num_steps != len(ended)):
        raise Wrong(f"{dataset.num_episodes} episodes and {dataset.num_steps} steps, not {len(starts)}, {len(ended)}")
    for index in range(dataset.num_episodes):
        number = int(dataset.episodes.number[index])
        rows = slice(starts[number], ends[number] + 1)
        found = dataset.read(index)
        pairs = [(getattr(found, name), wanted[name][rows]) for name in STEP_COLUMNS[:3]]
        pairs += [(found.final_observation, wanted["final_observation"][number])]
        if not all(np.array_equal(ours, theirs) for ours, theirs in pairs):
            raise Wrong(f"episode {index} is not that of the file")
        if (
            not all(np.isfinite(ours).all() for ours, _ in pairs)
            or not ((found.action >= 0) & (found.action < 4)).all()
        ):
            raise Wrong(f"episode {index} has values that can't be used")
        total = found.reward.astype(np.float64).sum()
        if not np.isclose(total, dataset.episodes.total[index], rtol=1e-5, atol=1e-5):
            raise Wrong(f"episode {index} has the return {dataset.episodes.total[index]}, not {total}")


TARGETS = (Target("data", _seeds, _changed, _encoded, _read),)
