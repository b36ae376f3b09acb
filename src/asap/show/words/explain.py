"""A policy in words and numbers: what cuts the states where, what each skill does, how often and how long.

There are two grammars. Planes are named and skills told by their sides where the states have a unit or a place, or
where several tasks differ by their descriptors; everywhere else there are rules that can be followed by hand.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from asap.base.spec import Task, TaskSet
from asap.experience.protocol import Evaluation
from asap.policy.policy import ASAPPolicy
from asap.policy.regions import one_per_skill, require_one_seed
from asap.show.words.explain_planes import planes_reading
from asap.show.words.explain_rules import rules_reading
from asap.show.words.plane_sentences import in_words
from asap.show.words.readings import Losses, MeanReturn, PolicyReading, RulesReading
from asap.show.words.rounding import rounded
from asap.show.words.rule_sentences import rules_in_words


@dataclass(frozen=True)
class Explanation:
    """`text` for people, `as_dict` for JSON."""

    reading: PolicyReading | RulesReading
    text: str
    verdict: dict[str, Any] | None = None  # How the training came out, where that is known.

    def as_dict(self) -> dict:
        return {**asdict(self.reading), "verdict": self.verdict}

    def judged(self, verdict: dict[str, Any], notes: Sequence[str]) -> "Explanation":
        """With what is known about how the training came out."""
        told = "\n".join(f"note: {note}" for note in notes)
        return Explanation(self.reading, f"{self.text}\n\n{told}" if notes else self.text, verdict)

    def __str__(self) -> str:
        return self.text


def explain(
    policy: ASAPPolicy,
    tasks: TaskSet | Sequence[Task],
    usage: ArrayLike | None = None,
    durations: ArrayLike | None = None,
    losses: Losses | None = None,
) -> Explanation:
    """Read a policy for one task, or for several that it was trained on together.

    `usage` is the share of the steps and `durations` the mean number of steps at a time, one number per skill. `losses`
    are about rules, and only rules tell them.
    """
    require_one_seed(policy)
    tasks = tasks.tasks if isinstance(tasks, TaskSet) else tuple(tasks)
    usage = _or_nones("usage", usage, policy.num_skills)
    durations = _or_nones("durations", durations, policy.num_skills)
    if _by_planes(tasks):
        reading = planes_reading(policy, tasks, usage, durations)
        return Explanation(reading, in_words(reading))
    reading = rules_reading(policy, tasks, usage, durations, losses)
    return Explanation(reading, rules_in_words(reading))


Play = Callable[[list[ASAPPolicy], bool], Evaluation]  # Policies on the same episodes of the tasks, by chance or not.


def explain_played(policy: ASAPPolicy, tasks: TaskSet, play: Play) -> Explanation:
    """The same, with what playing tells: how much each skill is used, and what rules lose that are followed by hand."""
    as_learned = play([policy], False)
    steps, starts = (
        np.einsum("m,ms->s", tasks.shares, n[0]) for n in (as_learned.skill_steps, as_learned.skill_starts)
    )
    usage, durations = steps / max(steps.sum(), 1e-9), steps / np.where(starts > 0, starts, 1)
    if _by_planes(tasks.tasks):
        return explain(policy, tasks, usage, durations)
    followed = play([policy, rounded(policy, tasks.tasks[0])], True)
    returns = [np.einsum("m,mn->n", tasks.shares, each) for each in (*as_learned.returns, *followed.returns)]
    means = [MeanReturn(float(each.mean()), float(each.std(ddof=1) / np.sqrt(len(each)))) for each in returns]
    return explain(policy, tasks, usage, durations, Losses(*means, len(returns[0])))


def _by_planes(tasks: tuple[Task, ...]) -> bool:
    """Numbers to set are told by rules only."""
    spec = tasks[0].spec
    is_known = bool(spec.unit or spec.place)
    return not spec.continuous and (is_known or (len(tasks) > 1 and len(tasks[0].descriptor) > 0))


def _or_nones(field: str, values: ArrayLike | None, num_skills: int) -> list[float | None]:
    """As JSON can hold it: the duration of a skill that never ran is NaN, hence None."""
    if values is None:
        return [None] * num_skills
    return [v if math.isfinite(v) else None for v in one_per_skill(field, values, num_skills).tolist()]
