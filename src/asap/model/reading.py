"""A model in words and pictures: with what playing tells where its environment can be made, and without it elsewhere."""

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asap.base.errors import UserError
from asap.base.numbers import play_in_words
from asap.base.spec import Task, TaskSet
from asap.envs.gymnasium.make import EnvNotMade
from asap.experience.protocol import Evaluation
from asap.learn.state import parameter_digest
from asap.model.verdict import Verdict
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.from_policy import checked_digits, read_rounded, sample_states
from asap.policy.rules.rounding import Sample
from asap.policy.rules.rulebook import Vocabulary
from asap.policy.rules.write import write_rules
from asap.runs.directory import Run, print_note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asap.model.model import ASAP
    from asap.show.words.explain import Explanation

Play = Callable[
    [list[ASAPPolicy], bool], Evaluation
]  # Policies on the same few episodes of all tasks, by chance or not.


def explanation(
    model: "ASAP", shown: Task | None, play: Play, digits: int | None, is_exact: bool, shows_all: bool
) -> "Explanation":
    """The rules for all tasks, or for one that is to be shown alone; and what the end of the training says of them."""
    from asap.show.words.explain import explain, explain_played

    how = checked_digits("digits", digits), is_exact, shows_all
    policy, outcome, count = model.policy, model.verdict, len(model.seeds)
    index = None if shown is None else model.tasks.names.index(shown.name)
    tasks = model.tasks if shown is None else TaskSet((shown,), (1.0,))

    def play_shown(policies: list[ASAPPolicy], deterministic: bool) -> Evaluation:
        played = play(policies, deterministic)
        return played if index is None else played.on_task(index)

    try:
        explained = explain_played(policy, tasks, play_shown, *how)
    except EnvNotMade as error:
        _tell(error)
        explained = explain(policy, tasks, digits=digits, is_exact=is_exact, shows_all=shows_all)
    if count > 1:
        line = f"seed {model.seed} of {count}: each seed numbers its skills in its own way"
        explained = replace(explained, title=f"{line}\n{explained.title}")
    return explained if outcome is None else explained.judged(outcome.as_dict(), outcome.notes())


def rules(policy: ASAPPolicy, tasks: tuple[Task, ...], digits: int | None, is_exact: bool) -> str:
    """Of all tasks, or of one that is to be shown alone."""
    vocabulary, states = Vocabulary.of(tasks[0].spec, len(tasks[0].descriptor)), sample_states(policy, tasks[0])
    is_fixed = len(tasks) == 1 and {policy.psi.task, policy.phi.task} != {"none"}
    sample = Sample.of({task.descriptor: states for task in tasks})
    fixed = tasks[0].descriptor if is_fixed else None
    found, *_ = read_rounded(policy, vocabulary, sample, checked_digits("digits", digits), is_exact, fixed)
    numbers = [own[0] for own in found.skills]
    return "\n".join([*write_rules(found.book, planes=found.planes or None, numbers=numbers), ""])


def verdict(source: Verdict | Path | None, policies: ASAPPolicy) -> Verdict | None:
    """As it is known, or as a run tells it of the policies with which it ended; those of earlier releases do not.

    A log that cannot be read costs only this.
    """
    if not isinstance(source, Path):
        return source
    last: dict[str, Any] = {}
    with contextlib.suppress(UserError):
        for event in Run(source, notice=lambda text: None).events():
            last = event if event.get("kind") == "end" else last
    is_theirs = last.get("parameters_sha256") == parameter_digest(policies)
    return Verdict.read(last.get("verdict")) if is_theirs else None


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
    """On one line, from what is known: nothing is played. The return is that of the evaluation at the end of the training,
    and else of the end of the learning curve."""
    try:
        names, policy = list(model.tasks.names), model.policy
        parts = [
            f"task={(names[0] if len(names) == 1 else names)!r}",
            f"hyperplanes={policy.partition.num_planes}",
            f"skills={policy.num_skills} ({model.config.policy.skills})",
            f"steps={model.num_timesteps:,}",
        ]
        known = model.verdict and (model.verdict.evaluated or model.verdict.trained)
        if known is not None:
            mean, how = known.returns[model.seeds.index(model.seed)], play_in_words(known.episodes, known.deterministic)
            parts += [f"return={mean:.1f} ({how})" if abs(mean) >= 10 else f"return={mean:.3f} ({how})"]
        return f"ASAP({', '.join(parts)})"
    except Exception:  # Of a model that is half made, or was given parts that do not fit.
        return object.__repr__(model)


def _tell(error: EnvNotMade) -> None:
    print_note(f"nothing was played: {error}")
