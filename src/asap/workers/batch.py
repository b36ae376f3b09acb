"""Works on their way: which are waiting, which are finished, and what went wrong with which so far."""

import heapq
from collections import Counter
from collections.abc import Sequence

from asap.base.episodes import EpisodeId
from asap.base.errors import RunError
from asap.workers.backend import WorkerProgress
from asap.workers.work import MAKING, Failed, Finished, Work, digest

# A worker that is killed from outside is no fault of the episode it was playing, so such deaths may be many; yet there must
# be an end to an environment that kills its worker at another step each time.
KILLS_PER_RETRY = 10


class Assignments:
    """Results are kept by the place of their works, so that nothing depends on who was first."""

    def __init__(self, works: Sequence[Work], retries: int):
        self._works, self._retries = works, retries
        self._place = {work.number: place for place, work in enumerate(works)}
        self._waiting = list(range(len(works)))
        self._finished: dict[int, Finished] = {}
        self._all_before = 0  # Up to this place, all are finished.
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
        """The first result of a work is kept; another one must be the same. What belongs to an earlier batch is let go."""
        place = self._place.get(finished.number)
        if place is None:
            return
        if place in self._finished:
            _compare(self._finished[place], finished)
            return
        if (
            finished.failed is None
            and tuple(played.episode for played in finished.played) != self._works[place].episodes
        ):
            raise RunError("workers", f"a worker played other episodes than those of work {finished.number}")
        self._finished[place] = finished
        if finished.failed is not None:
            self._wanted = min(self._wanted, place + 1)

    def count_silence(self, work: Work, progress: WorkerProgress, seconds: float) -> int:
        """How often workers were silent in this episode. The work waits again, or fails if that was once too often."""
        episode = _episode(work, progress)
        self._silences[episode] += 1
        count = self._silences[episode]
        self._again(work, progress, count > self._retries, f"silent for {seconds:g} s, {count} times")
        return count

    def count_death(self, work: Work, progress: WorkerProgress, reason: str) -> bool:
        """Whether the work waits again. An environment that kills its worker does so at the same step each time."""
        episode = _episode(work, progress)
        self._deaths[episode, progress.step] += 1
        here = self._deaths[episode, progress.step]
        count = sum(count for (other, _), count in self._deaths.items() if other == episode)
        is_enough = here > self._retries or count > self._retries * KILLS_PER_RETRY
        self._again(work, progress, is_enough, f"the worker died ({reason}), {count} times")
        return not is_enough

    def _again(self, work: Work, progress: WorkerProgress, is_enough: bool, what: str) -> None:
        place = self._place.get(work.number)
        if place is None or place in self._finished:
            return
        if is_enough:
            field = {MAKING: "env", 0: "env.reset"}.get(progress.step, "env.step")
            what = f"{what} while it was made" if progress.step == MAKING else what
            failed = Failed(_episode(work, progress), field, what, "", max(progress.step, 0), [], "")
            self.finish(Finished(work.number, (), failed))
        else:
            heapq.heappush(self._waiting, place)


def _episode(work: Work, progress: WorkerProgress) -> EpisodeId:
    return work.episodes[progress.index]


def _compare(first: Finished, second: Finished) -> None:
    for one, other in zip(first.played, second.played):
        if digest(one) != digest(other):
            what = f"episode {one.episode.number} gave two different digests for the same seed"
            cure = "its results depend on more than the seed: look for what an episode leaves behind"
            raise RunError("env", what, one.episode.reset_seed, cure)
