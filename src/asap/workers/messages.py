"""What driver and workers say to each other, each message checked part by part where it is received."""

import contextlib
import json
import math
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from asap.base.episodes import STREAMS, EpisodeId, Played
from asap.base.errors import RunError, UserError
from asap.envs.gymnasium.make import EnvLimits, EnvSource, HostedSource
from asap.policy.host import Plan
from asap.workers.work import Failed, Finished, Work


class Hello(NamedTuple):
    """First to a worker: what it will play, task by task."""

    sources: tuple[HostedSource, ...]


class Ready(NamedTuple):
    """From a worker that has made its environment. Versions by package, since results are bits."""

    versions: dict[str, str]


class Refused(NamedTuple):
    """From a worker that cannot go on for a reason that the user must know; it is the same at every worker."""

    line: str
    exit_code: int

    def error(self) -> UserError:
        field, _, what = self.line.partition(": ")
        return (RunError if self.exit_code == RunError.exit_code else UserError)(field, what)


class Goodbye(NamedTuple):
    """To a worker: close the environment and end."""


Message = Hello | Work | Goodbye | Ready | Finished | Refused

PREFIX = struct.Struct("<4sIQ")  # Mark, bytes of the header, bytes of the arrays.
MARK = b"ASAP"
LARGEST_HEADER = 1 << 26
LARGEST_BODY = 1 << 31
_DTYPES = {name: np.dtype(name) for name in ("|b1", "<i4", "<i8", "<f4", "<f8")}
_ARRAYS = ("observations", "skills", "actions", "rewards")  # Of finished episodes.


class BadMessage(ValueError):
    """Bytes that are no message of ours. What they hold may be quoted, in one line."""

    def __init__(self, what: str):
        super().__init__(" ".join(what.split()))


@contextlib.contextmanager
def _only_bad_messages() -> Iterator[None]:
    try:
        yield
    except BadMessage:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise BadMessage(f"{type(error).__name__}: {error}") from None


def encode(message: Message) -> bytes:
    """The frame of a message."""
    header, arrays = message._asdict(), []
    match message:
        case Hello(sources):
            header = {"sources": [[source.name, source.options, limits._asdict()] for source, limits in sources]}
        case Work(plan=plan):
            del header["plan"]
            header |= {"static": plan.static, "names": list(plan.arrays)}
            arrays = [np.asarray(values) for values in plan.arrays.values()]
        case Finished(played=played, failed=failed):
            episodes = [[one.episode, one.length, one.terminated, one.success, one.notes] for one in played]
            header |= {"played": episodes, "failed": failed and failed._asdict()}
            if played:  # The arrays of all episodes, one after the other: episodes can be short, and many.
                arrays = [np.concatenate([getattr(one, name) for one in played]) for name in _ARRAYS]
    return pack({"kind": type(message).__name__, **header}, arrays)


@_only_bad_messages()
def decode(frame: bytes | bytearray) -> Message:
    """The message of a whole frame, or `BadMessage`."""
    fields, arrays = unpack(frame)
    match fields["kind"]:
        case "Hello":
            sources = tuple(_source(*each) for each in fields["sources"])
            if not sources:
                raise BadMessage("no environment")
            return Hello(sources)
        case "Work":
            names = [_a(str, name) for name in _a(list, fields["names"])]
            if len(set(names)) < len(names):
                raise BadMessage("two arrays of one name")
            plan = Plan(_a(dict, fields["static"]), dict(zip(names, arrays, strict=True)))
            episodes = tuple(map(_episode, _a(list, fields["episodes"])))
            return Work(_a(int, fields["number"]), plan, episodes, _a(bool, fields["deterministic"]))
        case "Finished":
            failed = None if fields["failed"] is None else _failed(fields["failed"])
            played = tuple(_played(fields["played"], *arrays)) if _a(list, fields["played"]) else ()
            if arrays and not played:
                raise BadMessage("arrays without episodes")
            return Finished(_a(int, fields["number"]), played, failed)
        case "Ready":
            return Ready({_a(str, name): _a(str, version) for name, version in fields["versions"].items()})
        case "Refused":
            return Refused(_a(str, fields["line"]), _a(int, fields["exit_code"]))
        case "Goodbye":
            return Goodbye()
    raise BadMessage(f"of no known kind: {fields['kind']!r:.80}")


def from_worker(frame: bytes) -> Ready | Finished | Refused:
    """What `decode` gives, if it is for a worker to say."""
    message = decode(frame)
    if not isinstance(message, Ready | Finished | Refused):
        raise BadMessage(f"{type(message).__name__} from a worker")
    return message


def _source(name: Any, options: Any, limits: dict[str, Any]) -> HostedSource:
    checked = EnvLimits.checked(*(limits[part] for part in EnvLimits._fields))
    return HostedSource(EnvSource(_a(str, name), _a(dict, options)), checked)


def _played(fields: list[Any], observations: Any, skills: Any, actions: Any, rewards: Any) -> Iterator[Played]:
    lengths = [_a(int, length) for _, length, *_ in fields]
    steps = sum(lengths)
    fits = (
        min(lengths) > 0
        and observations.ndim == 2
        and actions.ndim in (1, 2)
        and skills.shape == rewards.shape == (steps,)
        and (len(observations), len(actions)) == (steps + len(lengths), steps)
        and (observations.dtype, skills.dtype, rewards.dtype) == (np.float32, np.int32, np.float32)
        and actions.dtype == (np.int32 if actions.ndim == 1 else np.float32)
    )
    if not fits:
        raise BadMessage("episodes whose parts do not fit together")
    begin = 0
    for index, (episode, length, terminated, success, notes) in enumerate(fields):
        now, seen = slice(begin, begin + length), observations[begin + index : begin + index + length + 1]
        success = success if success is None else _a(bool, success)
        notes = tuple(_a(str, note) for note in _a(list, notes))
        steps = skills[now], actions[now], rewards[now]
        yield Played(_episode(episode), seen, *steps, _a(bool, terminated), success, notes)
        begin += length


def _failed(fields: dict[str, Any]) -> Failed:
    kinds = {"field": str, "what": str, "value": str, "step": int, "actions": list, "traceback": str}
    return Failed(_episode(fields["episode"]), **{name: _a(kind, fields[name]) for name, kind in kinds.items()})


def _episode(fields: list[Any]) -> EpisodeId:
    seed, stream, number, task = (_a(int, part) for part in _a(list, fields))
    if min(seed, number, task) < 0 or stream not in STREAMS:
        raise BadMessage(f"not the id of an episode: {fields!r:.80}")
    return EpisodeId(seed, stream, number, task)


def _a(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise BadMessage(f"not a {kind.__name__}: {value!r:.80}")
    return value


def pack(header: dict[str, Any], arrays: list[np.ndarray]) -> bytes:
    """A whole frame."""
    shapes = [[array.dtype.str, array.shape] for array in arrays]
    start = json.dumps([header, shapes], separators=(",", ":")).encode()
    blocks = [array.tobytes() for array in arrays]
    size = sum(map(len, blocks))
    if len(start) > LARGEST_HEADER or size > LARGEST_BODY:
        what = f"a message of {len(start) + size:,} bytes is too large"
        raise RunError("workers", what, cure="play fewer episodes at a time")
    return b"".join([PREFIX.pack(MARK, len(start), size), start, *blocks])


def frame_size(start: bytes | bytearray) -> int:
    """How long the frame is that begins so; `start` has at least its prefix."""
    mark, header, body = PREFIX.unpack_from(start)
    if mark != MARK or header > LARGEST_HEADER or body > LARGEST_BODY:
        raise BadMessage(f"not the start of a message: {bytes(start[: PREFIX.size])!r}")
    return PREFIX.size + header + body


@_only_bad_messages()
def unpack(frame: bytes | bytearray) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Header and arrays of a whole frame."""
    if len(frame) < PREFIX.size or len(frame) != frame_size(frame):
        raise BadMessage("a frame of another length than it says")
    begin = PREFIX.size + PREFIX.unpack_from(frame)[1]
    header, shapes = json.loads(frame[PREFIX.size : begin])
    arrays = []
    for name, shape in shapes:
        if len(shape) > 8 or not all(type(length) is int and 0 <= length <= LARGEST_BODY for length in shape):
            raise BadMessage(f"an array cannot have the shape {shape}")
        dtype, count = _DTYPES[name], math.prod(shape)
        if begin + count * dtype.itemsize > len(frame):
            raise BadMessage("arrays longer than their frame")
        # A copy: aligned, and its owner's to change.
        arrays.append(np.frombuffer(frame, dtype, count, begin).reshape(shape).copy())
        begin += count * dtype.itemsize
    if begin != len(frame):
        raise BadMessage("a frame longer than its arrays")
    return header, arrays
