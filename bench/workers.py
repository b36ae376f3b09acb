"""Has the same episodes played fault-free and while workers are killed, hung and lost with their node, and compares the
bits.

    .venv/bin/python bench/workers.py --kills 200 --hangs 20 --nodes 20

Kills are SIGKILL of the playing process or of its supervisor, at random moments of play. Hangs are SIGSTOP of the whole
worker, which then shows nothing new, as in a simulator that waits for ever. A lost node is SIGKILL of a raylet and of
all of Ray's processes under it, in a cluster of two nodes on the loopback interface; it needs Ray. Times are from the
fault to the dispatcher's notice, and from the fault to the delivery of the chunk that was being played, which has then
been played anew.
"""

import argparse
import collections
import contextlib
import hashlib
import importlib.util
import json
import os
import random
import signal
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np

from asap.base.episodes import EpisodeId
from asap.envs.gymnasium.make import EnvLimits, EnvSource, HostedSource
from asap.policy.host import Plan
from asap.workers.dispatch import Dispatcher
from asap.workers.hire import InProcess
from asap.workers.pool import Pool
from asap.workers.work import Event, Finished, Work, Workers, digest

SOURCE, SLOW, RULES = EnvSource("CartPole-v1"), EnvSource("workers:slow_cart_pole"), EnvLimits()
NUM_WORKERS = 2
LONGEST = 240.0  # Seconds of one part; what has not happened by then is left out, and counted so.
STEP_TIMEOUT = 1.0
SMALL_NODE = {
    "num_cpus": 1,
    "object_store_memory": 80 << 20,
    "include_dashboard": False,
    "node_ip_address": "127.0.0.1",
}


def enter_own_network() -> None:
    """Ray listens on all interfaces: it is run in a network namespace that has none but the loopback."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from ray_network import loopback_up

    if {name for _, name in socket.if_nameindex()} == {"lo"}:
        return loopback_up()
    alone = ["unshare", "-n"] if os.geteuid() == 0 else ["unshare", "-rn"]
    os.execvp(alone[0], [*alone, sys.executable, *sys.argv])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--hangs", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the moments of the faults")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.nodes:
        enter_own_network()
    rng = random.Random(arguments.seed)
    report = {"start": start_times(), "chunks": chunk_times()}
    print(f"without faults: {report['start']}, {report['chunks']}", file=sys.stderr)
    parts = {
        "kills": lambda: kills(SOURCE, -(-arguments.kills // 2), rng),
        "kills_slow": lambda: kills(SLOW, arguments.kills // 2, rng),
        "hangs": lambda: hangs(SOURCE, -(-arguments.hangs // 2), rng),
        "hangs_slow": lambda: hangs(SLOW, arguments.hangs // 2, rng),
        "nodes": lambda: nodes(SOURCE, arguments.nodes, rng),
    }
    for name, part in parts.items():
        if getattr(arguments, name.partition("_")[0]):
            report[name] = part()
            print(f"{name}: {report[name]}", file=sys.stderr)
    report["identical"] = all(part["identical"] for part in report.values() if "identical" in part)
    print(json.dumps(report) if arguments.json else "\n".join(f"{key}: {value}" for key, value in report.items()))
    sys.exit(0 if report["identical"] else 1)


def hosted(source: EnvSource) -> tuple[HostedSource, ...]:
    return (HostedSource(source, RULES),)


def start_times() -> dict[str, float]:
    """Seconds from asking for a pool to its first chunk of one short episode, and for closing it."""
    starts, closes = [], []
    for _ in range(5):
        began = time.monotonic()
        dispatcher = Dispatcher(Pool(hosted(SOURCE), 1), None, print)
        dispatcher.play(works(1, 1))
        ready = time.monotonic()
        dispatcher.close()
        starts.append(ready - began)
        closes.append(time.monotonic() - ready)
    return {"start_seconds": median(starts), "close_seconds": median(closes)}


def chunk_times() -> dict[str, float]:
    """What a chunk costs in a pool before anybody plays: a chunk without episodes, there and back."""
    dispatcher = Dispatcher(Pool(hosted(SOURCE), 1), None, print)
    empty, seconds = works(100, 0), []
    for _ in range(20):
        began = time.monotonic()
        dispatcher.play(empty)
        seconds.append(time.monotonic() - began)
    dispatcher.close()
    return {"milliseconds_per_chunk": round(1000 * min(seconds) / len(empty), 3)}


def kills(source: EnvSource, count: int, rng: random.Random) -> dict:
    """Of worker processes and of their supervisors."""
    workers = Pool(hosted(source), NUM_WORKERS)

    def strike() -> None:
        supervisor = rng.choice(workers.pids())
        os.kill(rng.choice([supervisor, *children(supervisor)]), signal.SIGKILL)

    return disturbed(workers, source, strike, count, rng, 30.0)


def hangs(source: EnvSource, count: int, rng: random.Random) -> dict:
    workers = Pool(hosted(source), NUM_WORKERS)

    def strike() -> None:
        for player in children(rng.choice(workers.pids())):
            os.kill(player, signal.SIGSTOP)

    return disturbed(workers, source, strike, count, rng, STEP_TIMEOUT)


def nodes(source: EnvSource, count: int, rng: random.Random) -> dict:
    """One of two nodes is lost and another one is added, again and again."""
    if importlib.util.find_spec("ray") is None:
        return {"skipped": "ray is not installed: pip install asap-rl[ray]"}
    with cluster() as (add_node, address):
        from asap.workers.ray_cluster import RayWorkers

        spare = [add_node()]

        def strike() -> None:
            for pid in descendants(spare.pop().all_processes["raylet"][0].process.pid):
                if "asap.workers.supervisor" not in Path(f"/proc/{pid}/cmdline").read_text():
                    os.kill(pid, signal.SIGKILL)

        def mend() -> None:
            if not spare:
                spare.append(add_node())

        return disturbed(RayWorkers(hosted(source), NUM_WORKERS, address), source, strike, count, rng, 10.0, mend)


@contextlib.contextmanager
def cluster() -> Iterator[tuple[Callable, str]]:
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args=SMALL_NODE)
    try:
        yield lambda: started.add_node(**SMALL_NODE), started.address
    finally:
        sys.modules["ray"].shutdown()
        started.shutdown()


class Watched(Workers):
    """Notes when which work was lost and delivered."""

    def __init__(self, workers: Workers):
        self.workers, self.num_workers = workers, workers.num_workers
        self.playing: dict[int, Work] = {}
        self.delivered: dict[int, list[float]] = collections.defaultdict(list)
        self.notices: list[tuple[float, int | None]] = []

    def note(self, line: str) -> None:
        """Of a worker that is lost: when, and the work that is lost with it."""
        print(f"  {line}", file=sys.stderr)
        if not line.startswith("worker "):  # That there is nobody for a while, on a slow machine.
            return
        work = self.playing.get(int(line.split()[1]))
        self.notices.append((time.monotonic(), work and work.number))

    def submit(self, worker: int, work: Work) -> None:
        self.playing[worker] = work
        self.workers.submit(worker, work)

    def poll(self, timeout: float) -> list[Event]:
        events = self.workers.poll(timeout)
        for event in events:
            if isinstance(event.what, Finished):
                self.playing.pop(event.worker, None)
                self.delivered[event.what.number].append(time.monotonic())
        return events

    def progress(self, worker: int):
        return self.workers.progress(worker)

    def restart(self, worker: int) -> None:
        self.playing.pop(worker, None)
        self.workers.restart(worker)

    def close(self) -> None:
        self.workers.close()


def disturbed(
    workers: Workers,
    source: EnvSource,
    strike: Callable[[], None],
    count: int,
    rng: random.Random,
    step_timeout: float,
    mend: Callable[[], None] = lambda: None,
) -> dict:
    """Plays rounds of chunks until there were so many faults; each round must give the bits of a round without any."""
    watched = Watched(workers)
    dispatcher = Dispatcher(watched, None, watched.note, step_timeout)
    asked, is_over = works(30, 5), threading.Event()
    expected = bits(undisturbed(source, asked))
    faults: list[Fault] = []

    def disturb() -> None:
        """One fault at a time, so that each can be timed."""
        while len(faults) < count and not is_over.wait(rng.uniform(0.05, 0.6)):
            if len(watched.playing) < NUM_WORKERS:
                continue
            seen, moment = len(watched.notices), time.monotonic()
            with contextlib.suppress(ProcessLookupError, IndexError, FileNotFoundError):
                strike()
                while len(watched.notices) == seen and not is_over.wait(0.01):
                    pass
                faults.extend(Fault(moment, *notice) for notice in watched.notices[seen : seen + 1])

    began = time.monotonic()
    dispatcher.play(asked[:NUM_WORKERS])
    watched.notices.clear()
    disturber = threading.Thread(target=disturb)
    disturber.start()
    rounds, alike = 0, 0
    try:
        while rounds == 0 or (disturber.is_alive() and time.monotonic() - began < LONGEST):
            mend()
            alike += bits(dispatcher.play(asked)) == expected
            rounds += 1
    finally:
        is_over.set()
        disturber.join()
        dispatcher.close()
    again = [
        min((then for then in watched.delivered[fault.number] if then > fault.told), default=None) for fault in faults
    ]
    return {
        "faults": len(faults),
        "notices": len(watched.notices),
        "rounds": rounds,
        "identical": rounds == alike,
        "seconds_to_notice": spread([fault.told - fault.moment for fault in faults]),
        "seconds_to_delivery": spread([then - fault.moment for fault, then in zip(faults, again) if then is not None]),
        "wall_seconds": round(time.monotonic() - began, 1),
    }


class Fault(NamedTuple):
    moment: float
    told: float  # When the dispatcher noticed.
    number: int | None  # Of the work that was lost.


def undisturbed(source: EnvSource, asked: list[Work]) -> list[Finished]:
    dispatcher = Dispatcher(InProcess(hosted(source)), None, print)
    try:
        return dispatcher.play(asked)
    finally:
        dispatcher.close()


def slow_cart_pole() -> gymnasium.Env:
    """With steps of a millisecond, as those of a small simulator."""

    class Slow(gymnasium.Wrapper):
        def step(self, action):
            time.sleep(0.001)
            return super().step(action)

    return Slow(gymnasium.make("CartPole-v1", disable_env_checker=True))


def works(count: int, size: int) -> list[Work]:
    """Chunks of episodes of a fixed policy."""
    rng = np.random.default_rng(0)
    psi = {"kind": "polynomial", "degree": 1, "inputs": [0, 1, 2, 3], "observations": 4}
    static = {"psi": psi, "phi": {"kind": "constant"}, "skills": "gibbs", "termination": None}
    arrays = {
        "psi.shift": np.zeros(4),
        "psi.scale": np.ones(4),
        "beta": rng.normal(size=(2, 5)),
        "alpha_beta": np.asarray(20.0),
        "theta": rng.normal(size=(4, 2, 1)),
        "alpha_theta": np.asarray(1.0),
    }
    plan = Plan(static, arrays)
    return [Work(i, plan, tuple(EpisodeId(0, 0, size * i + j) for j in range(size))) for i in range(count)]


def bits(results: list[Finished]) -> str:
    return hashlib.sha256(
        "".join(digest(played) for finished in results for played in finished.played).encode()
    ).hexdigest()


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid: int) -> list[int]:
    return [pid, *(other for child in children(pid) for other in descendants(child))]


def median(seconds: list[float]) -> float:
    return round(statistics.median(seconds), 3)


def spread(seconds: list[float]) -> dict[str, float]:
    return {"median": median(seconds), "max": round(max(seconds), 3), "count": len(seconds)} if seconds else {}


if __name__ == "__main__":
    main()
