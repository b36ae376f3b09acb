"""One worker that is this process itself: nothing to start, nothing to send, any environment."""

from asap.envs.gymnasium.checked_env import Border
from asap.envs.gymnasium.make import EnvSource, Rules
from asap.workers.board import Progress
from asap.workers.episodes import play_chunk
from asap.workers.work import Work
from asap.workers.workers import Done, Event, Started, Workers


class InProcess(Workers):
    """Plays while it is polled, one chunk at a time.

    There is no protection from an environment that hangs, crashes or leaks: it takes the driver with it.
    """

    num_workers = 1

    def __init__(self, source: EnvSource, rules: Rules):
        self._border = Border(source, rules)
        self._events: list[Event] = [Started(0)]
        self._work: Work | None = None

    def submit(self, worker: int, work: Work) -> None:
        self._work = work

    def poll(self, timeout: float) -> list[Event]:
        events, self._events = self._events, []
        if self._work is not None:
            work, self._work = self._work, None
            events.append(Done(0, play_chunk(self._border, work)))
        return events

    def progress(self, worker: int) -> Progress:
        return Progress()

    def restart(self, worker: int) -> None:
        raise AssertionError("this process neither dies nor is silent while it lives")

    def close(self) -> None:
        self._border.close()
