"""What is asked of those who play, what they give back, and what a back end must offer to have its workers play.

An episode is a function of its id, of the policy and of the environment: who plays it, when, and how often it was tried
makes no difference. That is why any number of workers gives the same bits. Workers have numbers from 0, which they keep
when they are restarted. A back end starts workers and tells what becomes of them; it decides nothing. Deadlines, retries
and order are the dispatcher's.
"""

import abc
import hashlib
import mmap
import os
import tempfile
from typing import Any, NamedTuple

from asap.base.episodes import EpisodeId, Played
from asap.base.errors import RunError
from asap.policy.host import Plan

MAKING = -1  # In place of a step: the environment is being made.


class Work(NamedTuple):
    """A chunk of episodes, all played by one policy. Chunks are the same whoever plays them."""

    number: int  # Tells this chunk from all others of its `Workers`.
    plan: Plan
    episodes: tuple[EpisodeId, ...]
    deterministic: bool = False


class Failed(NamedTuple):
    """Instead of an episode: what the environment did wrong, in one line, and how to see it again."""

    episode: EpisodeId
    field: str  # As in UserError.
    what: str
    value: str
    step: int
    actions: list[Any]  # Up to the failure, so that it can be played again.
    traceback: str  # Of the environment's exception, if there was one.


class Finished(NamedTuple):
    """What comes back for a chunk: its episodes in their order, or the first failure."""

    number: int
    played: tuple[Played, ...]
    failed: Failed | None = None

    def require_same(self, other: "Finished") -> None:
        """That of the same chunk, played again."""
        for one, again in zip(self.played, other.played):
            if digest(one) != digest(again):
                what = f"episode {one.episode.number} gave two different digests for the same seed"
                cure = "its results depend on more than the seed: look for what an episode leaves behind"
                raise RunError("env", what, one.episode.reset_seed, cure)


def digest(played: Played) -> str:
    """Of all but the notes: those are made once, in whichever episode came first at a worker."""
    total = hashlib.sha256(repr((*played.episode, played.terminated, played.success)).encode())
    for array in (played.observations, played.skills, played.actions, played.rewards):
        total.update(f"{array.dtype.name}{array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


_SIZE = 3 * 8  # Bytes: three integers.


class WorkerProgress(NamedTuple):
    """Where a worker is."""

    number: int = -1  # Of its work; -1 before the first.
    index: int = 0  # Of the episode within the work.
    step: int = 0  # Which is being played: 0 in the reset, then from 1; or MAKING.


class SharedProgress:
    """A `WorkerProgress` in memory that a worker writes, read by who gave it the work."""

    def __init__(self, descriptor: int):
        self._words = memoryview(mmap.mmap(descriptor, _SIZE)).cast("q")

    def begin(self, number: int) -> None:
        self._words[0], self._words[1], self._words[2] = number, 0, 0

    def note(self, index: int, step: int) -> None:
        words = self._words
        words[1], words[2] = index, step

    def read(self) -> WorkerProgress:
        return WorkerProgress(*self._words)


def new_progress() -> int:
    """A file descriptor for `SharedProgress`, of nothing that outlives its users."""
    descriptor, path = tempfile.mkstemp(prefix="asap-progress-")
    os.unlink(path)
    os.write(descriptor, bytes(_SIZE))  # A hole would be found only when there is no room for it.
    return descriptor


class Died(NamedTuple):
    """A worker is gone until it is restarted."""

    reason: str  # "signal 9", "exit code 1".


class Event(NamedTuple):
    """What has become of a worker: `Died`, or the message it sent. `Ready` and `Finished` take more work."""

    worker: int
    what: Any


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
