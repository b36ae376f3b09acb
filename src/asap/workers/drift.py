"""Whether an environment stays what it was: the same episode, played again and again while others are learned from."""

import functools
from collections.abc import Callable
from typing import Any

from asap.workers.border import Border
from asap.workers.determinism import check, digests
from asap.workers.work import CHECK, EpisodeId

EPISODES = 3
EVERY = 25  # Updates between two looks.


def watch_for_drift(task: Any, notice: Callable[[str], None]) -> Callable[[Any], None]:
    """A callback between updates. Says at once where seed and actions do not decide an episode, and later where they do
    no longer lead where they led. Neither is an error."""
    make_border = functools.partial(Border, task.source, task.rules)
    seeds = [EpisodeId(0, CHECK, number).reset_seed for number in range(EPISODES)]
    found = check(make_border, seeds)
    if found is not None:
        notice(f"{found}; the same settings may not give the same result again")
        return lambda report: None
    first, said = digests(make_border, seeds[:1]), False

    def look(report: Any) -> None:
        nonlocal said
        if not said and report.update % EVERY == 0 and digests(make_border, seeds[:1]) != first:
            said = True
            notice(
                f"the environment drifts: the same seed and actions led elsewhere at update {report.update} than at the start"
            )

    return look
