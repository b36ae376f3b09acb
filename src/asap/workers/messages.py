"""What driver and workers say to each other, each message checked part by part where it is received."""

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


def encode(message: Message) -> bytes:
    """The frame of a message."""
    arrays: list[np.ndarray] = []
    header = _TELL[type(message)](message, arrays)
    return pack({"kind": type(message).__name__, **header}, arrays)


def decode(frame: bytes | bytearray) -> Message:
    """The message of a whole frame, or `BadMessage`."""
    fields, arrays = unpack(frame)
    try:
        return _HEAR[fields["kind"]](fields, arrays)
    except BadMessage:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise BadMessage(f"{type(error).__name__}: {error}") from None


def _tell_hello(message: Hello, arrays: list[np.ndarray]) -> dict[str, Any]:
    return {"sources": [[source.name, source.options, limits._asdict()] for source, limits in message.sources]}


def _hear_hello(fields: dict[str, Any], arrays: list[np.ndarray]) -> Hello:
    sources = tuple(
        HostedSource(
            EnvSource(_a(str, name), _a(dict, options)),
            EnvLimits.checked(*(limits[part] for part in EnvLimits._fields)),
        )
        for name, options, limits in fields["sources"]
    )
    if not sources:
        raise BadMessage("no environment")
    return Hello(sources)


def _tell_work(work: Work, arrays: list[np.ndarray]) -> dict[str, Any]:
    arrays.extend(np.asarray(values) for values in work.plan.arrays.values())
    return {
        "number": work.number,
        "static": work.plan.static,
        "names": list(work.plan.arrays),
        "episodes": work.episodes,
        "deterministic": work.deterministic,
    }


def _hear_work(fields: dict[str, Any], arrays: list[np.ndarray]) -> Work:
    names = [_a(str, name) for name in _a(list, fields["names"])]
    if len(set(names)) < len(names):
        raise BadMessage("two arrays of one name")
    plan = Plan(_a(dict, fields["static"]), dict(zip(names, arrays, strict=True)))
    episodes = tuple(map(_episode, _a(list, fields["episodes"])))
    return Work(_a(int, fields["number"]), plan, episodes, _a(bool, fields["deterministic"]))


def _tell_finished(finished: Finished, arrays: list[np.ndarray]) -> dict[str, Any]:
    """The arrays of all episodes, one after the other: episodes can be short, and many."""
    if finished.played:
        for name in ("observations", "skills", "actions", "rewards"):
            arrays.append(np.concatenate([getattr(played, name) for played in finished.played]))
    return {
        "number": finished.number,
        "played": [[one.episode, one.length, one.terminated, one.success, one.notes] for one in finished.played],
        "failed": finished.failed and finished.failed._asdict(),
    }


def _hear_finished(fields: dict[str, Any], arrays: list[np.ndarray]) -> Finished:
    failed = None if fields["failed"] is None else _hear_failed(fields["failed"])
    played = tuple(_hear_played(fields["played"], *arrays)) if _a(list, fields["played"]) else ()
    if arrays and not played:
        raise BadMessage("arrays without episodes")
    return Finished(_a(int, fields["number"]), played, failed)


def _hear_played(fields: list[Any], observations: Any, skills: Any, actions: Any, rewards: Any) -> Iterator[Played]:
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
        now = slice(begin, begin + length)
        yield Played(
            _episode(episode),
            observations[begin + index : begin + index + length + 1],
            skills[now],
            actions[now],
            rewards[now],
            _a(bool, terminated),
            success if success is None else _a(bool, success),
            tuple(_a(str, note) for note in _a(list, notes)),
        )
        begin += length


def _hear_failed(fields: dict[str, Any]) -> Failed:
    texts = {name: _a(str, fields[name]) for name in ("field", "what", "value", "traceback")}
    return Failed(
        _episode(fields["episode"]), step=_a(int, fields["step"]), actions=_a(list, fields["actions"]), **texts
    )


def _episode(fields: list[Any]) -> EpisodeId:
    seed, stream, number, task = (_a(int, part) for part in _a(list, fields))
    if min(seed, number, task) < 0 or stream not in STREAMS:
        raise BadMessage(f"not the id of an episode: {fields!r:.80}")
    return EpisodeId(seed, stream, number, task)


def _a(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise BadMessage(f"not a {kind.__name__}: {value!r:.80}")
    return value


def _tell_ready(message: Ready, arrays: list[np.ndarray]) -> dict[str, Any]:
    return {"versions": message.versions}


def _hear_ready(fields: dict[str, Any], arrays: list[np.ndarray]) -> Ready:
    return Ready({_a(str, name): _a(str, version) for name, version in fields["versions"].items()})


def _tell_refused(message: Refused, arrays: list[np.ndarray]) -> dict[str, Any]:
    return message._asdict()


def _hear_refused(fields: dict[str, Any], arrays: list[np.ndarray]) -> Refused:
    return Refused(_a(str, fields["line"]), _a(int, fields["exit_code"]))


_TELL = {
    Hello: _tell_hello,
    Work: _tell_work,
    Goodbye: lambda message, arrays: {},
    Ready: _tell_ready,
    Finished: _tell_finished,
    Refused: _tell_refused,
}
_HEAR = {
    "Hello": _hear_hello,
    "Work": _hear_work,
    "Goodbye": lambda fields, arrays: Goodbye(),
    "Ready": _hear_ready,
    "Finished": _hear_finished,
    "Refused": _hear_refused,
}


PREFIX = struct.Struct("<4sIQ")  # Mark, bytes of the header, bytes of the arrays.
MARK = b"ASAP"
LARGEST_HEADER = 1 << 26
LARGEST_BODY = 1 << 31
_DTYPES = dict(zip(("|b1", "<i4", "<i8", "<f4", "<f8"), map(np.dtype, ("|b1", "<i4", "<i8", "<f4", "<f8"))))


class BadMessage(ValueError):
    """Bytes that are no message of ours. What they hold may be quoted, in one line."""

    def __init__(self, what: str):
        super().__init__(" ".join(what.split()))


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


def unpack(frame: bytes | bytearray) -> tuple[dict[str, Any], list[np.ndarray]]:
    """Header and arrays of a whole frame."""
    if len(frame) < PREFIX.size or len(frame) != frame_size(frame):
        raise BadMessage("a frame of another length than it says")
    begin = PREFIX.size + PREFIX.unpack_from(frame)[1]
    try:
        header, shapes = json.loads(frame[PREFIX.size : begin])
        return header, _arrays(frame, begin, shapes)
    except BadMessage:
        raise
    except (LookupError, TypeError, ValueError, RecursionError) as error:
        raise BadMessage(f"{type(error).__name__}: {error}") from None


def _arrays(frame: bytes | bytearray, begin: int, shapes: list[Any]) -> list[np.ndarray]:
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
    return arrays
