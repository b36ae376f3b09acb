"""Hiring workers: from what the user says ("4", "ray") to a dispatcher that has them play."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from asap.base.errors import RunError, UserError
from asap.base.files import reported
from asap.envs.gymnasium.make import HostedSource
from asap.workers.dispatch import Dispatcher
from asap.workers.episode import nobody_watches
from asap.workers.failures import Recording, failure
from asap.workers.messages import Ready
from asap.workers.play import Environments, play_chunk
from asap.workers.pool import Pool
from asap.workers.work import Event, Failed, Work, WorkerProgress, Workers

IN_PROCESS = "0"
MOST_WORKERS = 1024
CURE = "give 0 (this process plays), a number of processes, ray, or ray:N"


def hire(
    workers: str,
    sources: tuple[HostedSource, ...],
    folder: Path,
    notice: Callable[[str], None],
    step_timeout: float = 30.0,
    retries: int = 5,
    on_no_workers: str = "wait",
    check: Callable[..., None] = nobody_watches,
) -> Dispatcher:
    """`sources`: by task. `folder` takes what environments print, and recordings of failed episodes. `check` raises
    when the user wants to stop."""

    def explain(failed: Failed) -> RunError:
        source, limits = sources[failed.episode.task]
        source = source.of_episode(failed.episode)
        if source.make is not None or not (failed.actions or failed.traceback):
            return failure(failed, source)
        path = folder / f"failed-episode-{failed.episode.number}.json"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            Recording.of(source, failed, limits).save(path)
            return failure(failed, source, os.path.relpath(path))
        except (OSError, RunError):  # What went wrong in the episode counts, not that it can't be written down.
            return failure(failed, source)

    kind, number = parse_workers(workers)
    if kind == "ray":
        from asap.workers.ray_cluster import RayWorkers

        hired = RayWorkers(sources, number)
    elif number:
        with reported("cannot create", folder, "make its parent writable"):
            folder.mkdir(parents=True, exist_ok=True)
        hired = Pool(sources, number, folder / "workers.log")
    else:
        hired = InProcess(sources, check)
    return Dispatcher(hired, explain, notice, step_timeout, retries, on_no_workers, check=check)


def parse_workers(text: str) -> tuple[str, int]:
    """Of which kind, `processes` or `ray`, and how many; no processes means this one."""
    kind, _, count = text.partition(":")
    most = str(min(os.cpu_count() or 1, MOST_WORKERS))
    kind, digits = ("ray", count or most) if kind == "ray" else ("processes", text)
    if not re.fullmatch(r"[0-9]+", digits):
        raise UserError("--workers", "must be a number or ray", text[:40], CURE)
    number = int(digits) if len(digits) <= len(str(MOST_WORKERS)) else -1  # Python reads no thousands of digits.
    if not (1 <= number <= MOST_WORKERS or text == IN_PROCESS):
        raise UserError("--workers", f"must be from 1 to {MOST_WORKERS}", text[:40], CURE)
    return kind, number


class InProcess(Workers):
    """Plays while it is polled, one chunk at a time. `watch` is called before each step, and may raise.

    There is no protection from an environment that hangs, crashes or leaks: it takes the driver with it.
    """

    num_workers = 1

    def __init__(self, sources: tuple[HostedSource, ...], watch: Callable[..., None] = nobody_watches):
        self._environments, self._watch = Environments(sources), watch
        self._environments.of_task(0)  # A broken one is found at the start.
        self._events: list[Event] = [Event(0, Ready({}))]
        self._work: Work | None = None

    def submit(self, worker: int, work: Work) -> None:
        self._work = work

    def poll(self, timeout: float) -> list[Event]:
        events, self._events = self._events, []
        if self._work is not None:
            work, self._work = self._work, None
            events.append(Event(0, play_chunk(self._environments, work, self._watch)))
        return events

    def progress(self, worker: int) -> WorkerProgress:
        return WorkerProgress()

    def restart(self, worker: int) -> None:
        raise AssertionError("this process neither dies nor is silent while it lives")

    def close(self) -> None:
        self._environments.close()
