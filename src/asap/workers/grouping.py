"""From planned episodes to works: one each, or many where they are played side by side.

Which episodes make a work is decided by the plan alone, and an episode has the same bits in any work.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from asap.base.episodes import EpisodeId
from asap.envs.gymnasium.make import HostedSource
from asap.envs.gymnasium.vector_form import LANES
from asap.policy.host import Plan
from asap.workers.vector_check import FEWEST, why_not
from asap.workers.work import Work

MOST = 2 * LANES  # Episodes of a work: when the short ones have ended, others take their lanes.

Planned = tuple[Plan, EpisodeId]


class Grouping:
    """Numbers works and cuts them. `notice` hears once where an environment has a vector form that is not used; `record`
    gets an event that says which form plays."""

    def __init__(
        self,
        sources: tuple[HostedSource, ...],
        notice: Callable[[str], None],
        record: Callable[[dict[str, Any]], None] | None = None,
    ):
        self._sources, self._notice, self._record = sources, notice, record
        self._numbers = itertools.count()  # They tell answers apart and have no part in the result.
        self._side_by_side: dict[int, bool] = {}  # By task.

    def works(self, planned: Sequence[Planned], deterministic: bool) -> list[Work]:
        """In the order of the episodes."""
        return [
            Work(next(self._numbers), plan, episodes, deterministic)
            for _, each in itertools.groupby(planned, key=lambda one: (id(one[0]), one[1].task))
            for plan, episodes in self._cut([*each])
        ]

    def _cut(self, alike: list[Planned]) -> Iterator[tuple[Plan, tuple[EpisodeId, ...]]]:
        """Episodes of one policy and one task."""
        (plan, first), *_ = alike
        size = MOST if len(alike) >= FEWEST and self._has_vector_form(first.task) else 1
        for begin in range(0, len(alike), size):
            yield plan, tuple(episode for _, episode in alike[begin : begin + size])

    def _has_vector_form(self, task: int) -> bool:
        if task not in self._side_by_side:
            source = self._sources[task]
            self._side_by_side[task] = source.limits.vector and source.source.has_vector_form()
            if self._side_by_side[task]:
                reason = why_not(source)
                self._side_by_side[task] = not reason
                if reason:
                    self._notice(f"the vector form of the environment is not used: {reason}")
                if self._record is not None:
                    self._record({"kind": "vector form", "env": source.source.name, "used": not reason, "why": reason})
        return self._side_by_side[task]
