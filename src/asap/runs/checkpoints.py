"""Sealed checkpoints: one safetensors file per generation, which is either whole or refused.

    8 bytes   length of the header, little endian
    header    {"__metadata__":{"seal":"<SHA-256 of the header after it>","manifest":"<JSON>"},"<tensor>":{...},...}
    payload   the tensors, whose length and SHA-256 stand in the manifest

The seal covers the header, the header covers the payload: no bit can change unseen. The manifest travels inside the
file, so a crash cannot leave half of a pair, and no file name is ever read from a file. Any safetensors reader opens
the file. Later formats keep the length, the opening and the seal, so that an old release can name the format it met.
"""

import contextlib
import functools
import hashlib
import json
import os
import re
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from asap.base.errors import RunError, UserError
from asap.base.files import BadFile, open_regular, replace
from asap.config.settings import values_of

if TYPE_CHECKING:
    import numpy as np

    from asap.config.schema import Config

FORMAT = 1
MAX_HEADER = 1 << 20  # A header bomb is refused before it is read; ours are a few kilobytes.
MAX_STEP, MAX_BYTES = 10**18, 1 << 62  # Numbers of thousands of digits can't even be printed.
_SUFFIX = ".safetensors"
_OPENING = b'{"__metadata__":{"seal":"'
_SEALED_FROM = len(_OPENING) + 64
# What safetensors reads back into numpy; it would also write others (bfloat16) that it cannot load.
_DTYPES = frozenset("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64".split())


class Checkpoint(NamedTuple):
    step: int
    arrays: dict[str, "np.ndarray"]
    meta: dict[str, Any]
    versions: dict[str, str]


class NewerFormat(BadFile):
    """An intact file of a later release: stop, because going on from an older one would overwrite it."""


# What the arrays of a checkpoint have no meaning without. Budgets, step sizes and the like may change.
_BELONGS = (
    "run.tasks run.weights run.seed run.seeds run.race learn.learner learn.gradient learn.optimizer "
    "offline.fingerprint env.max_steps env.reward_scale"
).split()


def belonging(config: "Config") -> dict[str, Any]:
    """What a checkpoint of a run belongs to, for its meta."""
    kept = {key: value for key, value in values_of(config).items() if key in _BELONGS or key.startswith("policy.")}
    return {"settings": json.loads(json.dumps(kept))}


def require_same(config: "Config", checkpoint: Checkpoint, where: Path, names_say_all: bool = True) -> None:
    """A config that was edited by hand over checkpoints of other settings is refused, with what differs.

    An environment may come by another name, as long as its spaces fit: its names do not say all.
    """
    kept, now = checkpoint.meta.get("settings"), belonging(config)["settings"]
    if not isinstance(kept, dict):  # Release 0.1 has kept less.
        names = {"tasks": "run.tasks", "seeds": "run.seeds", "hyperplanes": "policy.hyperplanes"}
        kept = {key: checkpoint.meta[name] for name, key in names.items() if name in checkpoint.meta}
    for key in now:
        if key in kept and kept[key] != now[key] and (names_say_all or key != "run.tasks"):
            what = f"was changed in config.toml: the checkpoints of the run are of {kept[key]!r}"
            raise RunError(key, what, repr(now[key]), f"put that back, or start a new run ({where})")


def write(folder: Path, step: int, arrays: Mapping[str, Any], meta: dict[str, Any], name: str = "ckpt") -> Path:
    """Saves generation `<name>-<step>` in `folder`: afterwards it is there in full, or the folder is as it was."""
    data = seal(step, arrays, meta)
    path = Path(folder) / f"{name}-{step:06d}{_SUFFIX}"
    replace(path, data, "checkpoint", "then resume: the last checkpoint is intact")
    return path


def read(path: Path) -> Checkpoint:
    """The checkpoint in `path`, proven whole. A link out of its own folder is not followed."""
    try:
        return _read(Path(path))
    except BadFile as refused:
        cure = "upgrade asap-rl" if isinstance(refused, NewerFormat) else "use another checkpoint or a copy of this one"
        raise RunError("checkpoint", f"{Path(path).stem}: {refused}", path, cure) from None


def newest(folder: Path, notice: Callable[[str], None], name: str = "ckpt") -> Checkpoint | None:
    """The valid generation with the largest step, and a notice for each damaged later one. None: nothing saved yet."""
    damaged = []
    for path in generations(folder, name):
        try:
            found = _read(path)
        except NewerFormat:
            return read(path)
        except BadFile as refused:
            damaged.append(f"{path.stem}: {refused}")
            continue
        for line in damaged:
            notice(f"{line}; using {path.stem}")
        return found
    if damaged:
        what = f"no valid checkpoint among {len(damaged)}: {damaged[0]}"
        raise RunError("checkpoint", what, folder, "restore a copy, or start a new run with another --out")
    return None


def prune(folder: Path, keep: int = 3, name: str = "ckpt") -> None:
    """Removes what is older than the last `keep` generations of this name. Damaged ones do not count."""
    num_valid = 0
    for path in generations(folder, name):
        if num_valid >= keep:
            with contextlib.suppress(OSError):
                path.unlink()
            continue
        with contextlib.suppress(BadFile):
            _read(path)
            num_valid += 1


def generations(folder: Path, name: str = "ckpt") -> list[Path]:
    """The files of one name, latest step first. Clocks and file times play no part."""
    try:
        entries = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError("checkpoint", f"cannot read: {error.strerror}", folder, "check the directory") from None
    steps = {entry: step for entry in entries if (step := _step_in(entry, name)) is not None}
    return [Path(folder, entry) for entry in sorted(steps, key=steps.__getitem__, reverse=True)]


def digest(arrays: Mapping[str, Any]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes, in the order of the names."""
    total = hashlib.sha256()
    for name, array in sorted(_storable(arrays).items()):
        total.update(json.dumps([name, array.dtype.name, array.shape]).encode() + b"\n")
        total.update(array.tobytes())
    return total.hexdigest()


def seal(step: int, arrays: Mapping[str, Any], meta: dict[str, Any]) -> bytes:
    """The bytes of a checkpoint file."""
    import safetensors.numpy

    if not isinstance(step, int) or not 0 <= step < MAX_STEP:
        raise UserError("checkpoint", "step must be an int from 0", repr(step), "count steps with a Python int")
    blob = safetensors.numpy.save(_storable(arrays))
    start = 8 + struct.unpack("<Q", blob[:8])[0]
    tensors, payload = json.loads(blob[8:start]), blob[start:]
    manifest = {"format": FORMAT, "step": step, "versions": _versions(), "meta": meta}
    manifest |= {"payload_bytes": len(payload), "payload_sha256": hashlib.sha256(payload).hexdigest()}
    try:
        text = json.dumps(manifest, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError("checkpoint", f"meta is not JSON: {error}", cure="keep numbers like these in arrays") from None
    return _frame(text, tensors) + payload


def unsealed(path: Path) -> Checkpoint:
    """The inverse of `seal`, from a file of which no more is read than its head promises and its size allows; raises BadFile."""
    with open_regular(path) as file:
        try:
            return _load(file, os.fstat(file.fileno()).st_size)
        except OSError as error:
            raise BadFile(f"cannot read: {error.strerror}") from None


def _read(path: Path) -> Checkpoint:
    found = unsealed(path)
    if any(_step_in(path.name, name) not in (None, found.step) for name in ("ckpt", "best")):
        raise BadFile(f"holds step {found.step}")
    return found


def _load(file: BinaryIO, size: int) -> Checkpoint:
    """Each size is checked against the file before it is used, and nothing is parsed before its checksum."""
    import safetensors.numpy

    header = _sealed_header(file, size)
    manifest = _manifest(header)
    expected = 8 + len(header) + manifest["payload_bytes"]
    if size < expected:
        raise BadFile(f"truncated ({size:,} of {expected:,} bytes)")
    if size > expected:
        raise BadFile(f"{size - expected:,} bytes too long")
    try:
        payload = file.read(manifest["payload_bytes"])
        if hashlib.sha256(payload).hexdigest() != manifest["payload_sha256"]:
            raise BadFile("checksum mismatch in the tensors")
        arrays = safetensors.numpy.load(struct.pack("<Q", len(header)) + header + payload)
    except MemoryError:
        raise BadFile(f"does not fit in memory ({size:,} bytes)") from None
    except (safetensors.SafetensorError, KeyError, ValueError) as error:
        raise BadFile(f"malformed tensors: {error}") from None
    return Checkpoint(manifest["step"], arrays, manifest["meta"], manifest["versions"])


def _sealed_header(file: BinaryIO, size: int) -> bytes:
    if size < 8:
        raise BadFile(f"truncated ({size} bytes)" if size else "empty file")
    (length,) = struct.unpack("<Q", file.read(8))
    if length > MAX_HEADER:
        raise BadFile(f"not an ASAP checkpoint, or checksum mismatch (a header of {length:,} bytes)")
    header = file.read(length)
    if len(header) < length:
        raise BadFile(f"truncated ({size:,} of more than {8 + length:,} bytes)")
    if not header.startswith(_OPENING):
        raise BadFile("not an ASAP checkpoint, or checksum mismatch in its first bytes")
    if header[len(_OPENING) : _SEALED_FROM] != _seal_of(header[_SEALED_FROM:]):
        raise BadFile("checksum mismatch in the header")
    return header


def _manifest(header: bytes) -> dict[str, Any]:
    """The manifest, with its types checked: a seal proves that nothing changed, not that we wrote it."""
    types = {"format": int, "step": int, "versions": dict, "meta": dict, "payload_bytes": int, "payload_sha256": str}
    try:
        manifest = json.loads(json.loads(header)["__metadata__"]["manifest"])
        if FORMAT < manifest["format"] < MAX_STEP:
            raise NewerFormat(f"written by format {manifest['format']}, this release reads <= {FORMAT}")
        well_formed = all(type(manifest[key]) is kind for key, kind in types.items())
    except (LookupError, TypeError, ValueError, RecursionError):
        well_formed = False
    limits = {"format": FORMAT + 1, "step": MAX_STEP, "payload_bytes": MAX_BYTES}
    if not well_formed or manifest["format"] < 1 or any(not 0 <= manifest[key] < limits[key] for key in limits):
        raise BadFile("malformed manifest")
    return manifest


def _frame(manifest: str, tensors: dict[str, Any]) -> bytes:
    text = json.dumps({"__metadata__": {"seal": "0" * 64, "manifest": manifest}} | tensors, separators=(",", ":"))
    header = text.encode()
    sealed = header[_SEALED_FROM:] + b" " * (-len(header) % 8)
    header = _OPENING + _seal_of(sealed) + sealed
    if len(header) > MAX_HEADER:
        raise UserError("checkpoint", f"header over {MAX_HEADER:,} bytes", len(header), "put large data in arrays")
    return struct.pack("<Q", len(header)) + header


def _seal_of(sealed: bytes) -> bytes:
    return hashlib.sha256(sealed).hexdigest().encode()


def _storable(arrays: Mapping[str, Any]) -> dict[str, "np.ndarray"]:
    """Little-endian and contiguous: safetensors writes the memory of a strided array as it lies, without a word."""
    import numpy as np

    result = {}
    for name, value in arrays.items():
        try:
            name.encode()
            array = np.asarray(value, order="C")
            storable = array.dtype.name in _DTYPES and name != "__metadata__"
        except (TypeError, ValueError):
            storable = False
        if not storable:
            kind = getattr(value, "dtype", type(value).__name__)
            raise UserError("checkpoint", f"array {name!r} cannot be stored", kind, "convert it to a plain numpy array")
        result[name] = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return result


def _step_in(entry: str, name: str) -> int | None:
    match = re.fullmatch(rf"{re.escape(name)}-([0-9]{{6}}|[1-9][0-9]{{6,17}}){re.escape(_SUFFIX)}", entry)
    return int(match[1]) if match else None


@functools.cache
def _versions() -> dict[str, str]:
    import platform
    from importlib import metadata

    versions = {"python": platform.python_version(), "platform": f"{platform.system()}-{platform.machine()}"}
    for package in ("asap-rl", "jax", "jaxlib", "numpy", "safetensors"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return versions
