"""A worker's process on another machine, behind something that can be called from here.

The process is the same as in a pool, with its supervisor: when the remote ends, however that happens, the environment and
all it has started end too. The remote itself runs no code of the user's, so it always answers.
"""

import os
import select
import sys
import time
from typing import NamedTuple

from asap.workers.backend import WorkerProgress
from asap.workers.messages import Goodbye, encode
from asap.workers.worker_process import WorkerEnded, WorkerProcess

_STDOUT = 1


class Reply(NamedTuple):
    frames: list[bytes]
    progress: WorkerProgress
    ended: str  # How the worker has ended; empty while it lives.


class RemoteWorker:
    """`path` is where the driver finds modules; what of it exists here is searched after this machine's own."""

    def __init__(self, path: list[str]):
        path = [*sys.path, *(folder for folder in path if folder not in sys.path and os.path.isdir(folder))]
        self._process = WorkerProcess(path, _STDOUT)

    def exchange(self, frame: bytes, patience: float) -> Reply:
        """Hands a frame on, if it is one, and returns what the worker says, or nothing if it is busy for so long."""
        if frame:
            self._process.send(frame)
        deadline = time.monotonic() + patience
        try:
            while not (frames := self._process.receive()) and (left := deadline - time.monotonic()) > 0:
                select.select([self._process], [], [], left)
        except WorkerEnded as error:
            return Reply([], self._process.progress(), str(error))
        return Reply(frames, self._process.progress(), "")

    def close(self, patience: float) -> None:
        self._process.send(encode(Goodbye()))
        self._process.wait(patience)
        self._process.kill()
