"""Workers on a Ray cluster: one that is there already, or one of this machine that is started for the occasion.

Ray finds places to run and carries bytes. What it does when workers or nodes are lost is not relied upon: a lost worker is
one that is dead or silent, as in a pool, and the dispatcher asks for another.
"""

import logging
import os
import sys
import warnings
from typing import Any

from asap.errors import UserError
from asap.workers.board import Progress
from asap.workers.frames import BadMessage
from asap.workers.messages import Hello, Message, Ready, decode, encode
from asap.workers.pool import PATIENCE_AT_CLOSE
from asap.workers.quiet import Surroundings
from asap.workers.relay import Relay, Reply
from asap.workers.serve import versions
from asap.workers.source import EnvSource, Rules
from asap.workers.work import Work
from asap.workers.workers import Died, Event, Stopped, Workers, event_of

FIELD = "--workers"
PATIENCE = 1.0  # Seconds; so often a busy worker tells where it is.
OBJECT_STORE = 200 << 20  # Bytes. Results pass through it, nothing stays there.
LOOPBACK = "127.0.0.1"


class RayWorkers(Workers):
    """`address` is that of a cluster ("auto", "host:port"), by default what RAY_ADDRESS says; else one is started here."""

    where = "the logs of Ray"

    def __init__(self, source: EnvSource, rules: Rules, num_workers: int, address: str | None = None):
        self._hello = encode(Hello(source.portable(), rules))
        self._ray, self._is_ours = _connect(address or os.environ.get("RAY_ADDRESS"), num_workers)
        self.num_workers = num_workers
        # One CPU each; never restarted by Ray, which would not know what they were doing.
        self._new_relay = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0, scheduling_strategy="SPREAD")(Relay)
        self._relays: dict[int, Any] = {}
        self._asked: dict[Any, int] = {}  # Workers, by the answer that is awaited.
        self._progress: dict[int, Progress | None] = {}
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

    def progress(self, worker: int) -> Progress | None:
        return self._progress[worker]

    def restart(self, worker: int) -> None:
        self._asked = {answer: other for answer, other in self._asked.items() if other != worker}
        self._ray.kill(self._relays[worker])
        self._start(worker)

    def close(self) -> None:
        farewells = [relay.close.remote(PATIENCE_AT_CLOSE) for worker, relay in self._relays.items() if self._progress[worker]]
        if farewells:
            self._ray.wait(farewells, num_returns=len(farewells), timeout=PATIENCE_AT_CLOSE + 2 * PATIENCE)
        for relay in self._relays.values():
            self._ray.kill(relay)
        self._asked, self._relays = {}, {}
        if self._is_ours:
            self._ray.shutdown()

    def _start(self, worker: int) -> None:
        self._relays[worker], self._progress[worker] = self._new_relay.remote(sys.path), None
        self._ask(worker, self._hello)

    def _ask(self, worker: int, frame: bytes = b"") -> None:
        self._asked[self._relays[worker].exchange.remote(frame, PATIENCE)] = worker

    def _listen(self, worker: int, answer: Any) -> list[Event]:
        try:
            reply = Reply(*self._ray.get(answer))
            self._progress[worker] = Progress(*reply.progress)
            if reply.ended:
                return [Died(worker, reply.ended)]
            if not reply.frames:
                self._ask(worker)
            return [_event_of(worker, decode(frame)) for frame in reply.frames]
        except BadMessage as error:
            return [Died(worker, str(error))]
        except self._ray.exceptions.RayError as error:
            return [Died(worker, _reason(error))]


def _event_of(worker: int, message: Message) -> Event:
    if isinstance(message, Ready) and message.versions != versions():
        there, here = ({f"{name} {version}" for name, version in told.items()} for told in (message.versions, versions()))
        what = f"worker {worker} has {', '.join(sorted(there - here))}, and this process {', '.join(sorted(here - there))}"
        return Stopped(worker, UserError(FIELD, what, cure="install the same versions on all nodes"))
    return event_of(worker, message)


def _reason(error: Exception) -> str:
    """Ray writes paragraphs; the last line is the cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1][:200]}" if lines else type(error).__name__


def _connect(address: str | None, num_workers: int) -> tuple[Any, bool]:
    """The module `ray`, connected, and whether it is ours to shut down."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise UserError(FIELD, "ray needs 'pip install asap-rl[ray]'") from None
    if ray.is_initialized():
        return ray, False
    where = {"address": address} if address else {
        "address": "local",
        "num_cpus": num_workers,
        "include_dashboard": False,
        "object_store_memory": OBJECT_STORE,
        "_node_ip_address": LOOPBACK,
    }
    logging.getLogger("ray").setLevel(logging.ERROR)
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
