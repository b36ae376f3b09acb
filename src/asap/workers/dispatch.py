"""Has works played by workers that may die, hang or vanish; the results are as if none of that had happened.

Each worker has one work at a time. It shows where it is in it at every step, and who shows nothing new for
`step_timeout` seconds is silent: it is killed and restarted, and its work is given to the next who is free.
"""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from asap.base.episodes import EpisodeId
from asap.base.errors import RunError
from asap.workers.episode import nobody_watches
from asap.workers.messages import Ready, Refused
from asap.workers.work import MAKING, Died, Event, Failed, Finished, Work, WorkerProgress, Workers

LONGEST_START = 60.0  # Seconds for making an environment, or the step timeout if that is longer.
LONGEST_WITHOUT_WORKERS = 60.0
_TICK = 1.0
_GRACE = 2.0  # A look that comes so much too late says that we were asleep ourselves.
# A worker that is killed from outside is no fault of the episode it was playing, so such deaths may be many; yet there
# must be an end to an environment that kills its worker at another step each time.
KILLS_PER_RETRY = 10


class Assignments:
    """Results are kept by the place of their works, so that nothing depends on who was first."""

    def __init__(self, works: Sequence[Work], retries: int):
        self._works, self._retries, self._waiting = works, retries, list(range(len(works)))
        self._place = {work.number: place for place, work in enumerate(works)}
        self._finished: dict[int, Finished] = {}
        self._all_before = 0  # Up to this place, all are finished.
        self.num_played = 0  # Episodes that have come back.
        self._wanted = len(works)  # Of works after the first that failed nothing is wanted any more.
        self._silences: Counter[EpisodeId] = Counter()
        self._deaths: Counter[tuple[EpisodeId, int]] = Counter()

    @property
    def is_complete(self) -> bool:
        while self._all_before in self._finished:
            self._all_before += 1
        return self._all_before >= self._wanted

    @property
    def failed(self) -> Failed | None:
        """Of a complete batch: the failure that comes first in the order of the works."""
        return self._finished[self._wanted - 1].failed if self._wanted else None

    def results(self) -> list[Finished]:
        return [self._finished[place] for place in range(len(self._works))]

    def next(self) -> Work | None:
        """The first work that waits for somebody to play it."""
        if not self._waiting or self._waiting[0] >= self._wanted:
            return None
        return self._works[heapq.heappop(self._waiting)]

    def finish(self, finished: Finished) -> None:
        """The first result of a work is kept; another one must be the same. What is of an earlier batch is let go."""
        place = self._place.get(finished.number)
        if place is None:
            return
        if place in self._finished:
            self._finished[place].require_same(finished)
            return
        episodes = tuple(played.episode for played in finished.played)
        if finished.failed is None and episodes != self._works[place].episodes:
            raise RunError("workers", f"a worker played other episodes than those of work {finished.number}")
        self._finished[place] = finished
        self.num_played += len(finished.played)
        if finished.failed is not None:
            self._wanted = min(self._wanted, place + 1)

    def count_loss(self, work: Work, progress: WorkerProgress, what: str, is_silent: bool) -> str:
        """A worker died or was silent in its work, which waits again, or fails if that was once too often: in words.

        An environment that kills its worker does so at the same step each time.
        """
        episode = work.episodes[progress.index]
        if is_silent:
            self._silences[episode] += 1
            count = self._silences[episode]
            is_enough, again = count > self._retries, f"restarted ({count}/{self._retries})"
        else:
            self._deaths[episode, progress.step] += 1
            count = sum(count for (other, _), count in self._deaths.items() if other == episode)
            is_enough = count > self._retries * KILLS_PER_RETRY or self._deaths[episode, progress.step] > self._retries
            what, again = f"the worker {what}", "restarted, episode re-run"
        place = self._place.get(work.number)
        if place is not None and place not in self._finished:
            if is_enough:
                field = {MAKING: "env", 0: "env.reset"}.get(progress.step, "env.step")
                what = f"{what}, {count} times{' while it was made' * (progress.step == MAKING)}"
                failed = Failed(episode, field, what, "", max(progress.step, 0), [], "")
                self.finish(Finished(work.number, (), failed))
            else:
                heapq.heappush(self._waiting, place)
        return "given up" if is_enough else again


class Dispatcher:
    """`play` may be called again and again; the workers live until `close`.

    `explain` makes the error of an episode that failed for good; `notice` shows the user a line about what was
    recovered; `check` raises when the user wants to stop, and then the batch is given up.
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
        check: Callable[..., None] = nobody_watches,
    ):
        self._workers, self._explain, self._notice, self._check = workers, explain, notice, check
        self._step_timeout, self._retries, self._on_no_workers = step_timeout, retries, on_no_workers
        self._longest_start = max(longest_start, step_timeout)
        self._longest_without_workers = longest_without_workers
        self._tick = min(_TICK, step_timeout / 4, longest_without_workers / 4)
        self._looked = self._some_alive = time.monotonic()
        self._has_ever_started = False
        self._seats = [_Seat(self._looked) for _ in range(workers.num_workers)]

    def play(self, works: Sequence[Work], on_progress: Callable[[int], None] = nobody_watches) -> list[Finished]:
        """In the order of the works. Of several failures, the error is that of the first in this order. `on_progress`
        hears how many episodes have come back."""
        batch = Assignments(works, self._retries)
        while not batch.is_complete:
            self._check()
            for worker, seat in enumerate(self._seats):
                if seat.is_free and (work := batch.next()) is not None:
                    self._workers.submit(worker, work)
                    seat.work, seat.since = work, time.monotonic()
            for event in self._workers.poll(self._tick):
                self._take(event, batch)
            on_progress(batch.num_played)
            self._look(batch)
        if batch.failed is not None:
            raise self._explain(batch.failed)
        return batch.results()

    def close(self) -> None:
        self._workers.close()

    def _take(self, event: Event, batch: Assignments) -> None:
        seat = self._seats[event.worker]
        match event.what:
            case Ready():
                seat.has_started, seat.failed_starts, self._has_ever_started = True, 0, True
            case Finished():
                seat.work = None
                batch.finish(event.what)
            case Refused():
                raise event.what.error()
            case Died(reason):
                # An environment that could be made once can be made: somebody is killing workers.
                starts = self._retries * KILLS_PER_RETRY if self._has_ever_started else self._retries
                self._lose(event.worker, f"died ({reason})", batch, starts)

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
                self._lose(worker, f"silent for {self._patience(seat):g} s", batch, self._retries, is_silent=True)
        if any(seat.has_started for seat in self._seats):
            self._some_alive = now
        elif now - self._some_alive >= self._longest_without_workers:
            self._some_alive = now
            what = f"0 of {self._workers.num_workers} workers alive for {self._longest_without_workers:g} s"
            if self._on_no_workers == "fail":
                cure = "see that the machines are up, or wait for them: on_no_workers=wait"
                raise RunError("workers", what, cure=cure)
            self._notice(f"{what}: waiting")

    def _patience(self, seat: "_Seat") -> float:
        is_making = not seat.has_started or (seat.progress is not None and seat.progress.step == MAKING)
        return self._longest_start if is_making else self._step_timeout

    def _lose(self, worker: int, what: str, batch: Assignments, starts: int, is_silent: bool = False) -> None:
        """Puts another in the place of a worker that died or is silent; `starts`: how often it may fail to start."""
        seat = self._seats[worker]
        if seat.work is not None:
            progress = self._place(worker)
            outcome = batch.count_loss(seat.work, progress, what, is_silent)
            where = f"in episode {seat.work.episodes[progress.index].number}"
        elif seat.has_started:
            where, outcome = "between episodes", "restarted"
        else:
            seat.failed_starts += 1
            where, outcome = "while starting", f"restarted ({seat.failed_starts}/{starts})"
            if seat.failed_starts > starts:
                log = self._workers.where
                cure = f"see {log}" if log else "make the environment in a program of its own to see why"
                raise RunError("workers", f"worker {worker} {what} {where}, {seat.failed_starts} times", cure=cure)
        self._notice(f"worker {worker} {what} {where}; {outcome}")
        self._workers.restart(worker)
        seat.work, seat.has_started, seat.progress, seat.since = None, False, None, time.monotonic()

    def _place(self, worker: int) -> WorkerProgress:
        """Where in its work a worker is; at its beginning, if it has not shown anything of it."""
        work, progress = self._seats[worker].work, self._workers.progress(worker)
        is_of_work = progress is not None and progress.number == work.number
        return progress if is_of_work and 0 <= progress.index < len(work.episodes) else WorkerProgress(work.number)


@dataclass
class _Seat:
    """What is known of a worker, whoever sits there now."""

    since: float  # When it showed something new.
    has_started: bool = False
    failed_starts: int = 0  # In a row.
    work: Work | None = None
    progress: WorkerProgress | None = None

    @property
    def is_free(self) -> bool:
        return self.has_started and self.work is None
