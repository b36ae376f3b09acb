"""Workers that are processes of this machine.

Not by `multiprocessing`: it would run the user's unguarded `__main__` once more, or fork a process in which JAX has
threads, and it pickles.
"""

import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

from asap.base.files import open_to_write, reported
from asap.envs.gymnasium.make import HostedSource
from asap.workers.messages import BadMessage, Goodbye, Hello, encode, from_worker
from asap.workers.work import Died, Event, Finished, Work, WorkerProgress, Workers
from asap.workers.worker_process import WorkerEnded, WorkerProcess

PATIENCE_AT_CLOSE = 5.0  # Seconds for environments to close; then they are killed.
PATIENCE_WITH_BUSY = 1.0  # With those who play what nobody wants any more.


class Pool(Workers):
    """`log` takes what environments print, and the tracebacks of workers that fail; without it nobody sees them."""

    def __init__(self, sources: tuple[HostedSource, ...], num_workers: int, log: Path | None = None):
        self._hello = encode(Hello(tuple(one.portable() for one in sources)))
        self.num_workers, self.where = num_workers, str(log or "")
        self._output = subprocess.DEVNULL
        if log is not None:
            with reported(f"cannot write {log.name}", log.parent, "remove it, or make the directory writable"):
                self._output = open_to_write(log, os.O_WRONLY | os.O_APPEND)
        self._selector = selectors.DefaultSelector()
        self._processes: dict[int, WorkerProcess] = {}
        self._dead, self._busy = set(), set()
        try:
            for worker in range(num_workers):
                self._start(worker)
        except BaseException:
            self.close()
            raise

    def submit(self, worker: int, work: Work) -> None:
        self._busy.add(worker)
        self._processes[worker].send(encode(work))

    def poll(self, timeout: float) -> list[Event]:
        self._selector.select(timeout)
        living = [worker for worker in range(self.num_workers) if worker not in self._dead]
        return [event for worker in living for event in self._listen(worker)]

    def progress(self, worker: int) -> WorkerProgress:
        return self._processes[worker].progress()

    def restart(self, worker: int) -> None:
        self._bury(worker)
        self._start(worker)

    def close(self) -> None:
        for worker, process in self._processes.items():
            if worker not in self._dead:
                process.send(encode(Goodbye()))
        began = time.monotonic()
        for worker in sorted(self._processes, key=lambda worker: worker not in self._busy):
            patience = PATIENCE_WITH_BUSY if worker in self._busy else PATIENCE_AT_CLOSE
            self._processes[worker].wait(max(0.0, began + patience - time.monotonic()))
            self._bury(worker)
        self._selector.close()
        if self._output >= 0:
            os.close(self._output)
            self._output = subprocess.DEVNULL

    def pids(self) -> list[int]:
        """Of the leaders of the workers' process groups."""
        return [process.pid for process in self._processes.values()]

    def _start(self, worker: int) -> None:
        process = self._processes[worker] = WorkerProcess(sys.path, self._output)
        self._selector.register(process, selectors.EVENT_READ)
        self._dead.discard(worker)
        process.send(self._hello)

    def _bury(self, worker: int) -> None:
        self._busy.discard(worker)
        if worker not in self._dead:
            self._dead.add(worker)
            self._selector.unregister(self._processes[worker])
            self._processes[worker].kill()

    def _listen(self, worker: int) -> list[Event]:
        try:
            events = [Event(worker, from_worker(frame)) for frame in self._processes[worker].receive()]
        except (WorkerEnded, BadMessage) as error:
            self._bury(worker)
            return [Event(worker, Died(str(error)))]
        if any(isinstance(event.what, Finished) for event in events):
            self._busy.discard(worker)
        return events
