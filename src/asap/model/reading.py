"""A model in words and pictures: with what playing tells where its environment can be made, and without it elsewhere."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from asap.base.spec import Task, TaskSet
from asap.envs.gymnasium.make import EnvNotMade
from asap.experience.protocol import Evaluation
from asap.learn.state import parameter_digest
from asap.policy.policy import ASAPPolicy
from asap.runs.directory import print_note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asap.model.model import ASAP
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


def brief(model: "ASAP") -> str:
    """On one line, from what is known: nothing is played. The return is the last of the learning curve."""
    try:
        names, policy, result = list(model.tasks.names), model.policy, model.result
        parts = [
            f"task={(names[0] if len(names) == 1 else names)!r}",
            f"hyperplanes={policy.partition.num_planes}",
            f"skills={policy.num_skills} ({model.config.policy.skills})",
            f"steps={model.num_timesteps:,}",
        ]
        # A policy that was put in place of the learned one has not played.
        if result is not None and result.parameters_sha256 == parameter_digest(model.policies):
            last = result.curve.returns[-1, model.seeds.index(model.seed)] @ model.tasks.shares
            parts += [f"return={last:.1f}" if abs(last) >= 10 else f"return={last:.3f}"]
        return f"ASAP({', '.join(parts)})"
    except Exception:  # Of a model that is half made, or was given parts that do not fit.
        return object.__repr__(model)


def _tell(error: EnvNotMade) -> None:
    print_note(f"nothing was played: {error}")
