"""Frames: how a message travels. Three numbers, a header in JSON, and arrays as raw bytes.

Nothing that is received is executed, and nothing is believed: sizes are bounded before memory is taken, and whatever is not
exactly as it should be is a `BadMessage`.
"""

import json
import math
import struct
from typing import Any

import numpy as np

from asap.base.errors import RunError

PREFIX = struct.Struct("<4sIQ")  # Mark, bytes of the header, bytes of the arrays.
MARK = b"ASAP"
LARGEST_HEADER = 1 << 26
LARGEST_BODY = 1 << 31
_DTYPES = {name: np.dtype(name) for name in ("|b1", "<i4", "<i8", "<f4", "<f8")}


class BadMessage(ValueError):
    """Bytes that are no message of ours."""


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
