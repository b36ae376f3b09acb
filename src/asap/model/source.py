"""What a training starts from: the settings of another run or saved model, for its task or for another one, and all that
is taken over with the policies."""

import dataclasses
import os
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np

from asap.base.arrays import from_arrays, stack
from asap.base.errors import UserError
from asap.base.files import reported
from asap.base.spec import Task, TaskSet
from asap.compose import (
    checked_tasks,
    in_sequence,
    refuse_import,
    refuse_unsaid,
    with_budget,
    without_none,
    without_source,
)
from asap.config.presets import PRESETS
from asap.config.schema import Config
from asap.config.sequence import SequenceConfig
from asap.config.settings import Values, override, shown, with_values
from asap.config.toml import parse_settings
from asap.envs.resolve import given_tasks, parse_tasks, resolve_all
from asap.learn.source import NOTHING_TAKEN, TakenOver
from asap.learn.state import drawn_critic, drawn_policy
from asap.learn.symmetries import goal_of
from asap.learn.updates import optimizer_of
from asap.model import reading
from asap.model.files import Saved, policies_in, read_saved, settings_in
from asap.model.training import blank_start, fitting, seeds_of
from asap.policy.policy import ASAPPolicy
from asap.policy.score import parameters_of
from asap.runs.directory import print_note

FROZEN = (None, "skills", "partition")
# Per image and task: enough to tell a policy that leads to the goal from one that does not.
SEARCH_EPISODES = 2
# A policy that nearly fits needs few corrections, and small batches make them soonest (measured on flipped 2R).
TRANSFER_LANES = 2
_BUDGET = ("run.episodes", "run.steps")
_ONLY_HERE = {"run.search_episodes": 0, "run.symmetries": "planes"}


# ---- Settings --------------------------------------------------------------------------------------------------------


def transfer_settings(
    source: str, tasks: list[str], options: Values, freeze: str | None, search: bool, overrides: Values
) -> tuple[Config, TaskSet]:
    """The settings of a run or a saved model, for other tasks."""
    config = _settings_of(source, overrides)
    own = {"run.source": _place(source), "learn.lanes": TRANSFER_LANES}
    return settings_for_tasks(config, tasks, None, {**own, **searching(search)}, options, freeze, overrides)


def from_settings(
    source: str, tasks: list[str], options: Values, preset: str | None, file: str | None, overrides: Values
) -> tuple[Config, TaskSet]:
    """The settings of a run or a saved model with those that are said now, for its own task or the one that is named."""
    if file is not None:
        raise UserError("--config", "is not read with --from, whose settings are used", file, "say others by --set")
    if preset is not None and preset not in PRESETS:
        raise UserError("--preset", "unknown preset", preset, f"choose from {', '.join(PRESETS)}")
    config, is_own = settings_in(source)
    if not is_own and not tasks:
        for name in config.run.tasks:
            refuse_import("run.tasks", "is not imported: only a file names it", name, "--from RUN")
    config = config if is_own else _without_names(config, overrides, source)
    own = {"run.source": _place(source), **searching(False)} | dict({} if preset is None else PRESETS[preset])
    return settings_for_tasks(config, tasks or weighed(config), None, own, options, None, overrides)


def weighed(config: Config) -> list[str]:
    """The tasks as `parse_tasks` reads them."""
    weights = config.run.weights or (1.0,) * len(config.run.tasks)
    return [name if weight == 1 else f"{name}:{weight!r}" for name, weight in zip(config.run.tasks, weights)]


def searching(search: bool) -> Values:
    return {"run.search_episodes": SEARCH_EPISODES, "run.symmetries": "all"} if search else _ONLY_HERE


def settings_for_tasks(
    config: Config,
    tasks: list[str],
    live: tuple[Task, ...] | None,
    own: Values,
    options: Values,
    freeze: str | None,
    overrides: Values,
) -> tuple[Config, TaskSet]:
    """Settings of the source for other tasks, `live` of them in this process; a budget that is said is the only one."""
    if freeze not in FROZEN:
        raise UserError("--freeze", "must be skills or partition", freeze, "leave it out to learn both")
    names, weights = parse_tasks(tasks)
    if live is not None:
        names, weights = tuple(task.name for task in live), (1.0,) * len(live)
    said = {**without_none(options), **overrides, **without_none({"policy.keep": freeze})}
    if names != config.run.tasks and config.env.options is not None and "env.options" not in said:
        print_note(f"env.options: not used, because the environment is another one: {shown(config.env.options)}")
        config = with_values(config, {"env.options": None})
    config = with_budget(config, *(said.get(key) for key in _BUDGET))
    # Whether and how tasks are learned in turn was said of the source.
    was_sequence, config = config.sequence.is_on, dataclasses.replace(config, sequence=SequenceConfig())
    config = override(config, {"run.tasks": names, "run.weights": weights, **own, **said})
    found = resolve_all(names, config.env) if live is None else live
    if was_sequence and not found[0].descriptor:  # Which its features were settled for.
        config = with_values(config, {"policy.task_features": "none"})
    config = in_sequence(config, found)
    return config, checked_tasks(config, found)


def _place(source: str) -> str:
    return os.fspath(os.path.abspath(source))


def _settings_of(source: str, in_call: Values) -> Config:
    config, is_own = settings_in(source)
    return config if is_own else _without_names(config, in_call, source)


def _without_names(config: Config, in_call: Values, path: str) -> Config:
    """Of a stranger's run, its settings without what they name."""
    refuse_unsaid(without_source(config), path, in_call)
    if config.env.options is not None:
        print_note(f"env.options: not used, because {path} may be a stranger's: {shown(config.env.options)}")
    return with_values(config, {"env.options": None})


def is_text(path: str) -> bool:
    """Whether a file can be rules: a run is a directory, and a saved model begins with bytes that are no text."""
    if not os.path.isfile(path):
        return False
    with reported("cannot be read", path, "give another file"), open(path, "rb") as file:
        return b"\0" not in file.read(64)


def transferred(
    saved: Saved, policies: ASAPPolicy, env: Any, search: bool, freeze: str | None, settings: Any
) -> tuple[tuple[Config, TaskSet, ASAPPolicy], TakenOver]:
    """Settings, tasks and policies of a model for an environment, by its name or the thing itself; None: for its own."""
    values, tasks = parse_settings(Config, settings), saved.tasks.tasks
    names, live = weighed(saved.config), tasks if len(tasks) == 1 else None
    if env is not None:
        names, live = given_tasks(env, values)
    own = {**searching(search), "run.source": None}  # The model holds what it starts from.
    config, found = settings_for_tasks(saved.config, names, live, own, {}, freeze, values)
    drawn = stack([drawn_policy(config, found, seed) for seed in seeds_of(config)])
    taken = fitting(policies, drawn, config)
    return (config, found, taken), source_of(saved, policies, config, found)


# ---- What is taken over ----------------------------------------------------------------------------------------------


def start_from(config: Config, tasks: TaskSet) -> tuple[ASAPPolicy | None, TakenOver]:
    """Of the run or model that a config starts from: its policies, stacked over seeds, and the rest; or nothing."""
    if config.run.source is None:
        return None, NOTHING_TAKEN
    saved = read_saved(Path(config.run.source))
    policies = policies_in(saved, True)
    return policies, source_of(saved, policies, config, tasks)


class _Parts(eqx.Module):
    """What is kept beside a policy, under the names that it has in saved states."""

    moments: Any = None
    critic: Any = None
    optimizer: Any = None


def source_of(saved: Saved, policies: ASAPPolicy, config: Config, tasks: TaskSet) -> TakenOver:
    """What a training with this config takes over, and in words what not."""
    taken, left = ["the policy"], []
    blank, parts = blank_start(saved.config, saved.tasks), _Parts()
    if saved.tasks.is_scaled and tasks.is_scaled:
        parts = _with(parts, saved, "moments", blank.moments)
        # Where the moments are not known, the policy still has its shift and scale.
        taken.append("the scaling of observations")
    fields = {
        "critic": _critic_of(saved, config, tasks, blank),
        "optimizer": _optimizer_of(saved, config, tasks, blank),
    }
    for name, (template, why_not) in fields.items():
        parts = parts if template is None else _with(parts, saved, name, template)
        if getattr(parts, name) is None:
            left.append(f"the {name} ({why_not or 'none is saved'})")
        else:
            taken.append(f"the {name}")
    notes = [f"start: took over {', '.join(taken)}" + (f"; not {' and not '.join(left)}" if left else "")]
    goals = _goals(saved, policies, tasks) if config.run.symmetries == "all" else ()
    return TakenOver(parts.moments, parts.critic, parts.optimizer, goals, tuple(notes))


def _with(parts: _Parts, saved: Saved, name: str, template: Any) -> _Parts:
    """As it was saved, where it was."""
    if template is None or not saved.whole:
        return parts
    try:
        found = getattr(from_arrays(_Parts(**{name: template}), saved.arrays), name)
    except UserError:  # Earlier releases had others.
        return parts
    return eqx.tree_at(lambda p: getattr(p, name), parts, found, is_leaf=lambda leaf: leaf is None)


def _other_task(saved: Saved, config: Config, tasks: TaskSet) -> str | None:
    same = saved.tasks.names == tasks.names and saved.config.env == config.env
    return None if same else "the task is another one"


def _critic_of(saved: Saved, config: Config, tasks: TaskSet, blank: Any) -> tuple[Any, str | None]:
    """The template of what may be taken over, or why nothing is."""
    if other := _other_task(saved, config, tasks):
        return None, other
    names = [name for name in vars(config.learn) if name.startswith("critic") or "discount" in name]
    for name in names:
        if getattr(config.learn, name) != getattr(saved.config.learn, name):
            return None, f"learn.{name} is another one"
    needed = drawn_critic(config, tasks, config.run.seed)
    shapes = [
        [np.shape(leaf) for leaf in jax.tree.leaves(critic)] for critic in (jax.tree.map(_first, blank.critic), needed)
    ]
    return (blank.critic, None) if shapes[0] == shapes[1] else (None, "it has another size")


def _first(leaf: np.ndarray) -> np.ndarray:
    return leaf[0]


def _optimizer_of(saved: Saved, config: Config, tasks: TaskSet, blank: Any) -> tuple[Any, str | None]:
    if other := _other_task(saved, config, tasks):
        return None, other
    for name in ("learner", "optimizer", "gradient"):
        if getattr(config.learn, name) != getattr(saved.config.learn, name):
            return None, f"learn.{name} is another one"
    if saved.config.run.seeds not in (1, config.run.seeds):
        return None, "there are other seeds"
    return jax.eval_shape(jax.vmap(optimizer_of(config.learn).init), parameters_of(blank.policy)), None


def _goals(saved: Saved, policies: ASAPPolicy, tasks: TaskSet) -> tuple[float | None, ...]:
    """Of each seed, by its returns while it was trained: those are drawn, as the search plays."""
    verdict, threshold = reading.verdict(saved.verdict, policies), None
    if tasks.size == 1:
        threshold = tasks.tasks[0].threshold
    if verdict is None:
        return (goal_of(None, None, threshold),)
    own = (verdict.final,) if verdict.trained is None else verdict.trained.returns
    return tuple(goal_of(each, verdict.random, threshold) for each in own)
