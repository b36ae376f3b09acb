"""Fuzzing targets of what a run or a model saves: checkpoints, models, event logs.

Sealed files are taken apart, changed and sealed again, so that the parts behind the checksums are reached. What is
accepted is held against a reader of its own, written here a second time.
"""

import hashlib
import json
import math
import shutil
import struct
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from fuzz_mutations import VALUES, changed_bytes, changed_toml, changed_tree, dumps
from fuzz_watch import Target, Wrong

from asap.runs import checkpoints
from asap.runs.directory import Run
from asap.runs.events import Curve

RELEASE = Path(__file__).parents[1] / "tests" / "data" / "releases" / "0.1.0"
_OPENING = b'{"__metadata__":{"seal":"'
_DTYPES = {"F32": "<f4", "F64": "<f8", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1"}
_DTYPES |= {"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "|b1", "C64": "<c8"}


class Sealed(NamedTuple):
    """The parts of a sealed file."""

    manifest: Any
    tensors: Any  # Name -> dtype, shape and place in the payload.
    payload: bytes


def taken_apart(data: bytes) -> Sealed:
    start = 8 + struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:start])
    manifest = json.loads(header.pop("__metadata__")["manifest"])
    return Sealed(manifest, header, data[start:])


def sealed(parts: Sealed) -> bytes:
    """With the checksums as they should be, except for those that were changed on purpose."""
    manifest = json.dumps(dumps(parts.manifest))
    tensors = dumps(parts.tensors) if isinstance(parts.tensors, dict) else "{}"
    rest = f'","manifest":{manifest}}}{"," if tensors != "{}" else ""}{tensors[1:]}'.encode()
    rest += b" " * (-(len(_OPENING) + 64 + len(rest)) % 8)
    header = _OPENING + hashlib.sha256(rest).hexdigest().encode() + rest
    return struct.pack("<Q", len(header)) + header + parts.payload


def arrays_in(parts: Sealed) -> dict[str, np.ndarray]:
    found = {}
    for name, told in parts.tensors.items():
        begin, end = told["data_offsets"]
        found[name] = np.frombuffer(parts.payload[begin:end], _DTYPES[told["dtype"]]).reshape(told["shape"])
    return found


def with_arrays(parts: Sealed, arrays: dict[str, np.ndarray]) -> Sealed:
    blob = safetensors.numpy.save(arrays)
    start = 8 + struct.unpack("<Q", blob[:8])[0]
    return with_payload(parts._replace(tensors=json.loads(blob[8:start])), blob[start:])


def with_payload(parts: Sealed, payload: bytes) -> Sealed:
    manifest = parts.manifest
    if isinstance(manifest, dict):
        manifest = manifest | {"payload_bytes": len(payload), "payload_sha256": hashlib.sha256(payload).hexdigest()}
    return Sealed(manifest, parts.tensors, payload)


def changed_sealed(rng: Random, parts: Sealed) -> Sealed:
    match rng.randrange(8):
        case 0:
            return parts._replace(tensors=changed_tree(rng, parts.tensors))
        case 1:
            return with_payload(parts, changed_bytes(rng, parts.payload))
        case 2 | 3:
            return changed_array(rng, parts)
        case _:
            return parts._replace(manifest=changed_tree(rng, parts.manifest))


def changed_array(rng: Random, parts: Sealed) -> Sealed:
    """One array with another shape, dtype or number; a file whose arrays can't be read any more stays as it is."""
    try:
        arrays = arrays_in(parts)
    except (LookupError, TypeError, ValueError, AttributeError):
        return parts
    if not arrays:
        return parts
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    match rng.randrange(7):
        case 0:
            del arrays[name]
        case 1:
            arrays[name + rng.choice(["", "2", " ", "ü"])] = array[None]
        case 2:
            arrays[name] = array.real.astype(rng.choice(["f4", "f8", "i4", "i8", "u1", "bool", "f2"]))
        case 3:
            arrays[name] = array.ravel()
        case 4:
            arrays[name] = np.concatenate([array.ravel(), array.ravel()])
        case _:
            arrays[name] = array = array.copy()
            if array.size and array.dtype.kind == "f":
                array.flat[rng.randrange(array.size)] = rng.choice([math.nan, math.inf, -1e38, 1e30, 0.0])
    return with_arrays(parts, {key: np.ascontiguousarray(each) for key, each in arrays.items()})


# ---- Checkpoints ----------------------------------------------------------------------------------------------------


def _checkpoint_seeds(folder: Path) -> list[Sealed]:
    every = {kind: np.arange(6).astype(kind).reshape(2, 3) for kind in ("f4", "f8", "i4", "u1", "bool", "c8")}
    own = checkpoints.seal(
        7, {**every, "empty": np.zeros((0, 3)), "one": np.float32(1)}, {"score": 0.5, "a": [1, None]}
    )
    return [taken_apart(own), taken_apart((RELEASE / "two-rooms/checkpoints/ckpt-000019.safetensors").read_bytes())]


def _read_checkpoint(data: bytes, folder: Path) -> None:
    path = folder / "checkpoint.safetensors"
    path.write_bytes(data)
    found = checkpoints.read(path)
    start = 8 + struct.unpack("<Q", data[:8])[0]
    begin = 8 + len(_OPENING)
    parts = taken_apart(data)
    if hashlib.sha256(data[begin + 64 : start]).hexdigest().encode() != data[begin : begin + 64]:
        raise Wrong("a header was accepted that is not as it was sealed")
    if hashlib.sha256(parts.payload).hexdigest() != parts.manifest["payload_sha256"]:
        raise Wrong("tensors were accepted that are not as they were sealed")
    if type(found.step) is not int or found.step < 0 or not all(isinstance(part, dict) for part in found[1:]):
        raise Wrong(f"step {found.step!r}, or parts that are no dicts")
    same = (found.step, dumps(found.meta)) == (parts.manifest["step"], dumps(parts.manifest["meta"]))
    require_same_arrays(found.arrays, arrays_in(parts))
    if not same:
        raise Wrong("step or meta are not those of the file")


def require_same_arrays(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    if found.keys() != wanted.keys():
        raise Wrong(f"arrays {sorted(found)} in place of {sorted(wanted)}")
    for name, array in found.items():
        ours = array.dtype, array.shape, array.tobytes()
        if ours != (wanted[name].dtype, wanted[name].shape, wanted[name].tobytes()):
            raise Wrong(f"array {name!r} is not that of the file")


# ---- Models ---------------------------------------------------------------------------------------------------------


def _model_seeds(folder: Path) -> list[Sealed]:
    """Of our own task and of environments with all kinds of spaces; drawn, learned, and of an earlier release."""
    from asap import ASAP

    found = []
    for name in ("two-rooms", "CartPole-v1", "Pendulum-v1", "FrozenLake-v1"):
        ASAP(name).save(folder / "seed.asap")
        found.append(taken_apart((folder / "seed.asap").read_bytes()))
    for name in ("two-rooms", "cartpole"):
        ASAP.load(RELEASE / name).save(folder / "seed.asap")
        found.append(taken_apart((folder / "seed.asap").read_bytes()))
        found.append(taken_apart((RELEASE / f"{name}.asap").read_bytes()))
    return found


def _changed_model(rng: Random, parts: Sealed) -> Sealed:
    meta = parts.manifest.get("meta") if isinstance(parts.manifest, dict) else None
    kind = rng.randrange(5)
    if not isinstance(meta, dict) or kind == 0:
        return changed_sealed(rng, parts)
    if kind == 1:
        return changed_array(rng, parts)
    if kind == 2 and isinstance(meta.get("config"), str):
        meta = {**meta, "config": changed_toml(rng, meta["config"])}
    elif kind == 3 and (key := "tasks" if "tasks" in meta else "task") in meta:  # The second: of release 0.1.
        meta = {**meta, key: changed_tree(rng, meta[key])}
    else:
        meta = changed_tree(rng, meta)
    return parts._replace(manifest={**parts.manifest, "meta": meta})


def _load_model(data: bytes, folder: Path) -> None:
    """What is accepted can be used, and saved and loaded again with nothing changed."""
    from asap import ASAP

    path, again = folder / "model.asap", folder / "again.asap"
    path.write_bytes(data)
    model = ASAP.load(path)
    task = model.tasks.tasks[0]
    space = getattr(task, "observation_space", None)
    model.predict(np.zeros(task.observation_shape) if not hasattr(space, "start") else space.start, deterministic=True)
    model.save(again)
    second = ASAP.load(again)
    if (model.config, model.seed, model.num_episodes) != (second.config, second.seed, second.num_episodes):
        raise Wrong("the settings, the seed or the counts are others after saving and loading")
    require_same_arrays(arrays_of(second), arrays_of(model))


def arrays_of(model: Any) -> dict[str, np.ndarray]:
    from asap.base.arrays import to_arrays

    return to_arrays(model.policies)


# ---- Event logs -----------------------------------------------------------------------------------------------------


def _event_seeds(folder: Path) -> list[list[Any]]:
    shutil.copytree(RELEASE / "two-rooms", folder / "run", dirs_exist_ok=True)
    logs = [(RELEASE / name / "events.jsonl").read_text().splitlines() for name in ("two-rooms", "cartpole")]
    return [[json.loads(line) for line in log[:4]] for log in logs]


def _changed_events(rng: Random, events: list[Any]) -> list[Any]:
    if events and rng.random() < 0.8:
        at = rng.randrange(len(events))
        return [*events[:at], changed_tree(rng, events[at], VALUES), *events[at + 1 :]]
    changed = changed_tree(rng, events)
    return changed if isinstance(changed, list) else [changed]


def _read_events(data: bytes, folder: Path) -> None:
    path = folder / "run"
    log = path / "events.jsonl"
    log.write_bytes(data)
    notes: list[str] = []
    run = Run.open(path, notice=notes.append)
    found = list(run.events())
    _require_events(found, data)
    with run.locked():
        run.append({"kind": "end", "value": math.nan})
    _require_events(list(run.events()), log.read_bytes())
    if list(run.events())[-1] != {"kind": "end", "value": None}:
        raise Wrong("the last event is not the one that was appended")
    if any(len(note.splitlines()) != 1 for note in notes):
        raise Wrong(f"a note is not one line: {notes}")
    log.write_bytes(data)
    curve = Curve.read(run)
    if len(curve.episodes):
        curve.first_near_optimal(np.zeros(curve.returns.shape[2]))


def _require_events(found: list[Any], data: bytes) -> None:
    wanted = []
    for line in data.split(b"\n"):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        wanted += [event] if isinstance(event, dict) else []
    if list(map(repr, found)) != list(map(repr, wanted)):
        raise Wrong(f"{len(found)} events were read, {len(wanted)} are there, or they differ")


def _lines(events: list[Any]) -> bytes:
    return "".join(dumps(event) + "\n" for event in events).encode()


TARGETS = (
    Target("checkpoint", _checkpoint_seeds, changed_sealed, sealed, _read_checkpoint),
    Target("model", _model_seeds, _changed_model, sealed, _load_model, raw=0.1, seconds=20.0),
    Target("events", _event_seeds, _changed_events, _lines, _read_events),
)
