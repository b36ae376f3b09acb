"""Workers on a Ray cluster: one that is there already, or one of this machine that is started for the occasion.

Ray finds places to run and carries bytes. What it does when workers or nodes are lost is not relied upon: a lost worker
is one that is dead or silent, as in a pool, and the dispatcher asks for another.
"""

import logging
import os
import select
import socket
import sys
import time
import warnings
from typing import Any, NamedTuple

from asap.base.errors import UserError
from asap.envs.gymnasium.isolation import Surroundings
from asap.envs.gymnasium.make import HostedSource
from asap.workers.messages import BadMessage, Goodbye, Hello, Ready, Refused, encode, from_worker
from asap.workers.play import versions
from asap.workers.pool import PATIENCE_AT_CLOSE
from asap.workers.work import Died, Event, Work, WorkerProgress, Workers
from asap.workers.worker_process import WorkerEnded, WorkerProcess

FIELD = "--workers"
PATIENCE = 1.0  # Seconds; so often a busy worker tells where it is.
PATIENCE_AT_CONNECT = 5.0
_STDOUT = 1
LOCAL = {
    "address": "local",
    "include_dashboard": False,
    "object_store_memory": 200 << 20,  # Bytes. Results pass through it, nothing stays there.
    "_node_ip_address": "127.0.0.1",
}
PLACE = {
    "num_cpus": 1,
    "max_restarts": 0,  # Ray would not know what they were doing.
    "max_task_retries": 0,
    "scheduling_strategy": "SPREAD",
}


class Reply(NamedTuple):
    frames: list[bytes]
    progress: WorkerProgress
    ended: str  # How the worker has ended; empty while it lives.


class RemoteWorker:
    """A worker's process on another machine, behind something that can be called from here.

    The process is the same as in a pool, with its supervisor: when the remote ends, however that happens, the environment
    and all it has started end too. The remote itself runs no code of the user's, so it always answers. `path` is where
    the driver finds modules; what of it exists here is searched after this machine's own.
    """

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


def runtime_env() -> dict[str, Any]:
    """Or Ray kills the supervisor together with the remote, and nobody is left to end what the environment has started.

    With such settings Ray starts an interpreter through a shell, to which it gives the path as it is.
    """
    settings: dict[str, Any] = {"env_vars": {"RAY_kill_child_processes_on_worker_exit": "0"}}
    if " " in sys.executable:
        settings["py_executable"] = sys.executable.replace(" ", r"\ ")
    return settings


class RayWorkers(Workers):
    """`address`: of a cluster ("auto", "host:port"), by default what RAY_ADDRESS says; else one is started here."""

    where = "the logs of Ray"

    def __init__(self, sources: tuple[HostedSource, ...], num_workers: int, address: str | None = None):
        self._hello = encode(Hello(tuple(one.portable() for one in sources)))
        self._ray, self._is_ours = connect(address or os.environ.get("RAY_ADDRESS"), num_workers)
        self.num_workers = num_workers
        self._new_remote = self._ray.remote(**PLACE, runtime_env=runtime_env())(RemoteWorker)
        self._remotes: dict[int, Any] = {}
        self._asked: dict[Any, int] = {}  # Workers, by the answer that is awaited.
        self._progress: dict[int, WorkerProgress | None] = {}
        for worker in range(num_workers):
            self._start(worker)

    def submit(self, worker: int, work: Work) -> None:
        self._ask(worker, encode(work))

    def poll(self, timeout: float) -> list[Event]:
        if not self._asked:
            return []
        self._ray.wait(list(self._asked), timeout=timeout)
        answered, _ = self._ray.wait(list(self._asked), num_returns=len(self._asked), timeout=0)
        return [event for answer in answered for event in self._listen(self._asked.pop(answer), answer)]

    def progress(self, worker: int) -> WorkerProgress | None:
        return self._progress[worker]

    def restart(self, worker: int) -> None:
        self._asked = {answer: other for answer, other in self._asked.items() if other != worker}
        self._ray.kill(self._remotes[worker])
        self._start(worker)

    def close(self) -> None:
        placed = [remote for worker, remote in self._remotes.items() if self._progress[worker] is not None]
        farewells = [remote.close.remote(PATIENCE_AT_CLOSE) for remote in placed]
        if farewells:
            self._ray.wait(farewells, num_returns=len(farewells), timeout=PATIENCE_AT_CLOSE + 2 * PATIENCE)
        for remote in self._remotes.values():
            self._ray.kill(remote)
        self._asked, self._remotes = {}, {}
        if self._is_ours:
            self._ray.shutdown()

    def _start(self, worker: int) -> None:
        self._remotes[worker], self._progress[worker] = self._new_remote.remote(sys.path), None
        self._ask(worker, self._hello)

    def _ask(self, worker: int, frame: bytes = b"") -> None:
        self._asked[self._remotes[worker].exchange.remote(frame, PATIENCE)] = worker

    def _listen(self, worker: int, answer: Any) -> list[Event]:
        try:
            reply = Reply(*self._ray.get(answer))
            self._progress[worker] = WorkerProgress(*reply.progress)
            if reply.ended:
                return [Event(worker, Died(reply.ended))]
            if not reply.frames:
                self._ask(worker)
            return [_event_of(worker, frame) for frame in reply.frames]
        except BadMessage as error:
            return [Event(worker, Died(str(error)))]
        except self._ray.exceptions.RayError as error:
            # Why a worker could not even be placed: Ray writes a page, the cause is in its last line.
            cause = str(error).strip().rpartition("\n")[2][:200]
            return [Event(worker, Died("lost by Ray" if self._progress[worker] else cause))]


def _event_of(worker: int, frame: bytes) -> Event:
    message = from_worker(frame)
    if isinstance(message, Ready) and message.versions != versions():
        there, here = ({" ".join(pair) for pair in each.items()} for each in (message.versions, versions()))
        theirs, ours = ", ".join(sorted(there - here)), ", ".join(sorted(here - there))
        what = f"worker {worker} has {theirs}, and this process {ours}; install the same versions on all nodes"
        message = Refused(f"{FIELD}: {what}", UserError.exit_code)
    return Event(worker, message)


def connect(address: str | None, num_workers: int) -> tuple[Any, bool]:
    """The module `ray`, connected, and whether it is ours to shut down."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UserError(FIELD, "ray needs 'pip install asap-rl[ray]'") from None
    if ray.is_initialized():
        return ray, False
    where = {"address": address} if address else {**LOCAL, "num_cpus": num_workers}
    if address:
        _require_somebody(address)
    logging.getLogger("ray").setLevel(logging.ERROR)
    # What becomes of nodes it would print, on stdout, whatever one asks of it.
    ray._private.worker.print_to_stdstream = lambda *_, **__: None  # pyright: ignore[reportPrivateImportUsage]
    before = Surroundings.now()
    try:
        with warnings.catch_warnings():
            # JAX warns of forks. Ray's children run a few lines that take no locks, and then another program.
            warnings.simplefilter("ignore")
            ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        what = f"cannot connect to Ray at {address}" if address else "cannot start Ray"
        raise UserError(FIELD, f"{what}: {' '.join(str(error).split())[:300]}") from error
    finally:
        before.restore()  # Ray takes SIGTERM for itself.
    return ray, True


def _require_somebody(address: str) -> None:
    """Ray takes minutes to notice that nobody is there."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon:
        try:
            socket.create_connection((host, int(port)), PATIENCE_AT_CONNECT).close()
        except (OSError, ValueError) as error:
            what = f"cannot connect to Ray at {address}: {error}"
            raise UserError(FIELD, what, cure="start it with: ray start --head") from None
