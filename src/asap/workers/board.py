"""A few numbers in memory shared with a worker: where it is in its work.

Writing them costs a fraction of a microsecond, so that it is done at every step, and they can be read without the worker's
help: while it hangs, and when it is dead.
"""

import mmap
import os
import tempfile
from typing import NamedTuple

_WORDS = 3
_SIZE = 8 * _WORDS


class Progress(NamedTuple):
    """Where a worker is."""

    number: int = -1  # Of its work; -1 before the first.
    index: int = 0  # Of the episode within the work.
    step: int = 0  # Which is being played: 0 in the reset, then from 1.


class Board:
    """Written by the worker, read by who gave it the work."""

    def __init__(self, descriptor: int):
        self._words = memoryview(mmap.mmap(descriptor, _SIZE)).cast("q")

    def begin(self, number: int) -> None:
        self._words[0], self._words[1], self._words[2] = number, 0, 0

    def note(self, index: int, step: int) -> None:
        words = self._words
        words[1], words[2] = index, step

    def read(self) -> Progress:
        return Progress(*self._words)


def new_board() -> int:
    """A file descriptor for `Board`, of nothing that outlives its users."""
    descriptor, path = tempfile.mkstemp(prefix="asap-board-")
    os.unlink(path)
    os.write(descriptor, bytes(_SIZE))  # A hole would be found only when there is no room for it.
    return descriptor
