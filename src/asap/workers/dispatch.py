"""Has works played by workers that may die, hang or vanish; the results are as if none of that had happened.

Each worker has one work at a time. It shows where it is in it at every step, and who shows nothing new for `step_timeout`
seconds is silent: it is killed and restarted, and its work is given to the next who is free.
"""

import time
from collections.abc import Callable, Sequence
from typing import Literal

from asap.base.errors import RunError
from asap.workers.backend import Died, Done, Event, Started, Stopped, WorkerProgress, Workers
from asap.workers.batch import KILLS_PER_RETRY, Assignments
from asap.workers.work import MAKING, Failed, Finished, Work

LONGEST_START = 60.0  # Seconds for making an environment, or the step timeout if that is longer.
LONGEST_WITHOUT_WORKERS = 60.0
_TICK = 1.0
_GRACE = 2.0  # A look that comes so much too late says that we were asleep ourselves.


class Dispatcher:
    """`play` may be called again and again; the workers live until `close`.

    `explain` makes the error of an episode that failed for good; `notice` shows the user a line about what was recovered.
    """

    def __init__(
        self,
        workers: Workers,
        explain: Callable[[Failed], RunError],
        notice: Callable[[str], None],
        step_timeout: float = 30.0,
        retries: int = 5,
        on_no_workers: Literal["wait", "fail"] = "wait",
        longest_start: float = LONGEST_START,
        longest_without_workers: float = LONGEST_WITHOUT_WORKERS,
    ):
        self._workers, self._explain, self._notice = workers, explain, notice
        self._step_timeout, self._retries, self._on_no_workers = step_timeout, retries, on_no_workers
        self._longest_start = max(longest_start, step_timeout)
        self._longest_without_workers = longest_without_workers
        self._tick = min(_TICK, step_timeout / 4, longest_without_workers / 4)
        self._looked = self._some_alive = time.monotonic()
        self._has_ever_started = False
        self._seats = [_Seat(self._looked) for _ in range(workers.num_workers)]

    def play(self, works: Sequence[Work]) -> list[Finished]:
        """In the order of the works. Of several failures, the error is that of the first in this order."""
        batch = Assignments(works, self._retries)
        while not batch.is_complete:
            self._hand_out(batch)
            for event in self._workers.poll(self._tick):
                self._take(event, batch)
            self._look(batch)
        if batch.failed is not None:
            raise self._explain(batch.failed)
        return batch.results()

    def close(self) -> None:
        self._workers.close()

    def _hand_out(self, batch: Assignments) -> None:
        for worker, seat in enumerate(self._seats):
            if seat.is_free:
                work = batch.next()
                if work is None:
                    return
                self._workers.submit(worker, work)
                seat.work, seat.since = work, time.monotonic()

    def _take(self, event: Event, batch: Assignments) -> None:
        seat = self._seats[event.worker]
        match event:
            case Started():
                seat.has_started, seat.failed_starts = True, 0
                self._has_ever_started = True
            case Done(finished=finished):
                seat.work = None
                batch.finish(finished)
            case Died(worker, reason):
                self._take_death(worker, reason, batch)
            case Stopped(error=error):
                raise error

    def _take_death(self, worker: int, reason: str, batch: Assignments) -> None:
        seat = self._seats[worker]
        if seat.work is not None:
            progress = self._place(worker)
            outcome = "restarted, episode re-run" if batch.count_death(seat.work, progress, reason) else "given up"
            self._notice(f"worker {worker} died ({reason}) in {_name(seat.work, progress)}; {outcome}")
        elif seat.has_started:
            self._notice(f"worker {worker} died ({reason}) between episodes; restarted")
        else:
            # An environment that could be made once can be made: somebody is killing workers.
            limit = self._retries * KILLS_PER_RETRY if self._has_ever_started else self._retries
            self._count_failed_start(worker, f"died ({reason})", limit)
        self._restart(worker)

    def _look(self, batch: Assignments) -> None:
        """Who is silent, and whether anybody is left."""
        now = time.monotonic()
        late = now - self._looked - self._tick
        if late > _GRACE:
            self._some_alive += late
            for seat in self._seats:
                seat.since += late
        self._looked = now
        for worker, seat in enumerate(self._seats):
            progress = self._workers.progress(worker)
            if seat.is_free or progress is None or progress != seat.progress:
                seat.progress, seat.since = progress, now
            elif now - seat.since > self._patience(seat):
                self._take_silence(worker, batch)
        if any(seat.has_started for seat in self._seats):
            self._some_alive = now
        elif now - self._some_alive >= self._longest_without_workers:
            self._some_alive = now
            self._tell_that_nobody_is_left()

    def _patience(self, seat: "_Seat") -> float:
        is_making = not seat.has_started or (seat.progress is not None and seat.progress.step == MAKING)
        return self._longest_start if is_making else self._step_timeout

    def _take_silence(self, worker: int, batch: Assignments) -> None:
        seat = self._seats[worker]
        seconds = self._patience(seat)
        if seat.work is None:
            self._count_failed_start(worker, f"silent for {seconds:g} s", self._retries)
        else:
            progress = self._place(worker)
            count = batch.count_silence(seat.work, progress, seconds)
            outcome = f"restarted ({count}/{self._retries})" if count <= self._retries else "given up"
            self._notice(f"worker {worker} silent for {seconds:g} s in {_name(seat.work, progress)}; {outcome}")
        self._restart(worker)

    def _count_failed_start(self, worker: int, what: str, limit: int) -> None:
        seat = self._seats[worker]
        seat.failed_starts += 1
        if seat.failed_starts > limit:
            where = self._workers.where
            cure = f"see {where}" if where else "make the environment in a program of its own to see why"
            raise RunError("workers", f"worker {worker} {what} while starting, {seat.failed_starts} times", cure=cure)
        self._notice(f"worker {worker} {what} while starting; restarted ({seat.failed_starts}/{limit})")

    def _restart(self, worker: int) -> None:
        self._workers.restart(worker)
        seat = self._seats[worker]
        seat.work, seat.has_started, seat.progress, seat.since = None, False, None, time.monotonic()

    def _place(self, worker: int) -> WorkerProgress:
        """Where in its work a worker is; at its beginning, if it has not shown anything of it."""
        work, progress = self._seats[worker].work, self._workers.progress(worker)
        is_of_work = (
            progress is not None and progress.number == work.number and progress.index in range(len(work.episodes))
        )
        return progress if is_of_work else WorkerProgress(work.number)

    def _tell_that_nobody_is_left(self) -> None:
        what = f"0 of {self._workers.num_workers} workers alive for {self._longest_without_workers:g} s"
        if self._on_no_workers == "fail":
            raise RunError("workers", what, cure="see that the machines are up, or wait for them: on_no_workers=wait")
        self._notice(f"{what}: waiting")


class _Seat:
    """What is known of a worker, whoever sits there now."""

    def __init__(self, now: float):
        self.has_started = False
        self.failed_starts = 0  # In a row.
        self.work: Work | None = None
        self.progress: WorkerProgress | None = None
        self.since = now  # When it showed something new.

    @property
    def is_free(self) -> bool:
        return self.has_started and self.work is None


def _name(work: Work, progress: WorkerProgress) -> str:
    return f"episode {work.episodes[progress.index].number}"
