"""A model in words and pictures: with what playing tells where its environment can be made, and without it elsewhere."""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asap.base.arrays import stack
from asap.base.errors import UserError
from asap.base.numbers import play_in_words
from asap.base.spec import Task, TaskSet
from asap.envs.gymnasium.make import EnvNotMade
from asap.experience.protocol import Evaluation
from asap.learn.state import parameter_digest
from asap.model.verdict import Verdict
from asap.policy.policy import ASAPPolicy
from asap.policy.rules.from_policy import checked_digits
from asap.policy.surgery import without_idle_planes
from asap.runs.directory import Run, print_note

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from asap.model.model import ASAP
    from asap.policy.rules.given import Given
    from asap.show.words.changes import Changes
    from asap.show.words.explain import Explanation

Play = Callable[
    [list[ASAPPolicy], bool], Evaluation
]  # Policies on the same few episodes of all tasks, by chance or not.

EPISODES_TO_READ = 200  # Played at most to tell how much each skill is used, for words and pictures.


def few_episodes(model: "ASAP") -> Play:
    def play(policies: list[ASAPPolicy], deterministic: bool) -> Evaluation:
        count = min(model.config.run.final_episodes, EPISODES_TO_READ)
        return model.play(stack(policies), count, [0] * len(policies), deterministic)

    return play


def explanation(
    model: "ASAP", shown: Task | None, play: Play, digits: int | None, is_exact: bool, shows_all: bool
) -> "Explanation":
    """The rules for all tasks, or for one that is to be shown alone; and what the end of the training says of them."""
    from asap.show.words.explain import explain, explain_played

    how = checked_digits("digits", digits), is_exact, shows_all
    policy, outcome, count = without_idle_planes(model.policy), model.verdict, len(model.seeds)
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


def given(model: "ASAP") -> "Given":
    """The rules that learning started from."""
    from asap.policy.rules.given import given_by

    if not model.config.policy.rules:
        cure = "give some: ASAP(env, rules=...), or asap train ENV --rules FILE"
        raise UserError("rules", "the model was learned from none", ", ".join(model.tasks.names), cure)
    return given_by(model.config, model.tasks.tasks)


def changes(model: "ASAP", play: Play, digits: int | None) -> "Changes":
    """What learning made of the given rules, with both played on the same episodes."""
    from asap.show.words.changes import changes

    given, deterministic = model.given, model.config.run.deterministic
    try:
        played = play([given.policy()], deterministic), play([model.policy], deterministic)
    except EnvNotMade as error:
        _tell(error)
        played = None
    return changes(given, model.policy, model.tasks, played, deterministic, digits)


def plot_changes(model: "ASAP", shown: Task, title: str, play: Play) -> "Figure":
    """The partition of the given rules, and the one that learning made of it."""
    from asap.show.figures import side_by_side

    policies = {"given": model.given.policy(), "corrected": model.policy}
    played = _played(policies.values(), play)
    seen = [each.observations for each in played if each is not None and each.observations is not None]
    beside = (model.policy, np.concatenate(seen)) if len(seen) == len(policies) else None
    figures = [
        plot(policy, model.tasks, shown, name, own, beside) for (name, policy), own in zip(policies.items(), played)
    ]
    return side_by_side(figures, f"{title}: what learning changed")


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


def plot_policy(model: "ASAP", shown: Task, title: str, play: Play) -> "Figure":
    policy = without_idle_planes(model.policy)
    return plot(policy, model.tasks, shown, title, *_played([policy], play))


def _played(policies: Iterable[ASAPPolicy], play: Play) -> list[Evaluation | None]:
    """Each by itself; None where nothing can be played."""
    try:
        return [play([policy], False) for policy in policies]
    except EnvNotMade as error:
        _tell(error)
        return [None for _ in policies]


def plot(
    policy: ASAPPolicy,
    tasks: TaskSet,
    shown: Task,
    title: str,
    played: Evaluation | None,
    beside: tuple[ASAPPolicy, np.ndarray] | None = None,
) -> "Figure":
    """The map of the partition of one task; `beside` as in policy_map."""
    from asap.show.figures import policy_map

    if played is None:
        return policy_map(policy, shown, None, None, title)
    usage = played.usage[0, tasks.names.index(shown.name)]
    return policy_map(policy, shown, played.observations, usage, title, beside)


def brief(model: "ASAP") -> str:
    """On one line, from what is known: nothing is played. The return is that of the evaluation at the end of the training,
    and else of the end of the learning curve."""
    try:
        names, policy = list(model.tasks.names), without_idle_planes(model.policy)
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
