"""A model in words and pictures: with what playing tells where its environment can be made, and without it elsewhere."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from asap.base.spec import Task, TaskSet
from asap.envs.gymnasium.make import EnvNotMade
from asap.experience.protocol import Evaluation
from asap.policy.policy import ASAPPolicy
from asap.runs.directory import print_note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asap.show.words.explain import Explanation

Play = Callable[
    [list[ASAPPolicy], bool], Evaluation
]  # Policies on the same few episodes of all tasks, by chance or not.


def explanation(policy: ASAPPolicy, tasks: TaskSet, shown: Task | None, play: Play) -> "Explanation":
    """The rules for all tasks, or for one that is to be shown alone."""
    from asap.show.words.explain import explain, explain_played

    index = None if shown is None else tasks.names.index(shown.name)
    tasks = tasks if shown is None else TaskSet((shown,), (1.0,))

    def play_shown(policies: list[ASAPPolicy], deterministic: bool) -> Evaluation:
        played = play(policies, deterministic)
        return played if index is None else played.on_task(index)

    try:
        return explain_played(policy, tasks, play_shown)
    except EnvNotMade as error:
        _tell(error)
        return explain(policy, tasks)


def plot(policy: ASAPPolicy, tasks: TaskSet, shown: Task, title: str, play: Play) -> "Figure":
    """The map of the partition of one task."""
    from asap.show.figures import policy_map

    try:
        played = play([policy], False)
    except EnvNotMade as error:
        _tell(error)
        return policy_map(policy, shown, None, None, title)
    usage = played.usage[0, tasks.names.index(shown.name)]
    return policy_map(policy, shown, played.observations, usage, title)


def _tell(error: EnvNotMade) -> None:
    print_note(f"nothing was played: {error}")
