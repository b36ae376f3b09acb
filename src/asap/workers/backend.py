"""What a back end must offer to have its workers play: one interface, whoever and wherever they are.

Workers have numbers from 0, which they keep when they are restarted. A back end starts workers and tells what becomes
of them; it decides nothing. Deadlines, retries and order are the dispatcher's.
"""

import abc
import mmap
import os
import tempfile
from typing import NamedTuple

from asap.base.errors import UserError
from asap.workers.messages import BadMessage, Message, Ready, Refused
from asap.workers.work import Finished, Work

_WORDS = 3
_SIZE = 8 * _WORDS


class WorkerProgress(NamedTuple):
    """Where a worker is."""

    number: int = -1  # Of its work; -1 before the first.
    index: int = 0  # Of the episode within the work.
    step: int = 0  # Which is being played: 0 in the reset, then from 1; or MAKING.


class Board:
    """Written by the worker, read by who gave it the work."""

    def __init__(self, descriptor: int):
        self._words = memoryview(mmap.mmap(descriptor, _SIZE)).cast("q")

    def begin(self, number: int) -> None:
        self._words[0], self._words[1], self._words[2] = number, 0, 0

    def note(self, index: int, step: int) -> None:
        words = self._words
        words[1], words[2] = index, step

    def read(self) -> WorkerProgress:
        return WorkerProgress(*self._words)


def new_board() -> int:
    """A file descriptor for `Board`, of nothing that outlives its users."""
    descriptor, path = tempfile.mkstemp(prefix="asap-board-")
    os.unlink(path)
    os.write(descriptor, bytes(_SIZE))  # A hole would be found only when there is no room for it.
    return descriptor


class Started(NamedTuple):
    """A worker has made its first environment and takes work."""

    worker: int


class Done(NamedTuple):
    """A worker has finished its work and takes more."""

    worker: int
    finished: Finished


class Died(NamedTuple):
    """A worker is gone until it is restarted."""

    worker: int
    reason: str  # "signal 9", "exit code 1".


class Stopped(NamedTuple):
    """A worker cannot go on for a reason that is the user's to know, the same at every worker and every time."""

    worker: int
    error: UserError


Event = Started | Done | Died | Stopped


class Workers(abc.ABC):
    """Some workers, all with the same environments."""

    num_workers: int
    where: str = ""  # Where their output is kept, for messages; empty where it is not.

    @abc.abstractmethod
    def submit(self, worker: int, work: Work) -> None:
        """Gives work to a worker that takes it."""

    @abc.abstractmethod
    def poll(self, timeout: float) -> list[Event]:
        """What has happened; waits for something to happen, at most so many seconds."""

    @abc.abstractmethod
    def progress(self, worker: int) -> WorkerProgress | None:
        """Where a worker is; the last that is known of a dead one; None of one that has not got a place to run yet."""

    @abc.abstractmethod
    def restart(self, worker: int) -> None:
        """Kills a worker if it lives, with all it has started, and puts a new one in its place."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends all workers; within seconds, and for good."""


def event_of(worker: int, message: Message) -> Event:
    """What a worker's message means to the dispatcher."""
    match message:
        case Ready():
            return Started(worker)
        case Finished():
            return Done(worker, message)
        case Refused():
            return Stopped(worker, message.error())
    raise BadMessage(f"{type(message).__name__} from a worker")
