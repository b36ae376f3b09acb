"""From names and options to one config and its tasks: preset, file and options in layers, checked together, once."""

import json
import os
from typing import Any, NamedTuple

from asap.base.errors import UserError
from asap.base.files import parsed
from asap.base.spec import Task, TaskSet
from asap.config.defaults import by_budget, complete, keeps_learner
from asap.config.presets import PRESETS
from asap.config.schema import OFFLINE_LEARNERS, SEARCH, Config
from asap.config.sequence import PER_TASK, SequenceConfig
from asap.config.settings import NO_VALUES, Values, override, shown, values_of, with_values
from asap.config.toml import from_toml, read_toml
from asap.envs import catalog
from asap.envs.gymnasium.make import harmless, is_registered
from asap.envs.gymnasium.parameters import split_weight
from asap.envs.recorded import SaidEnv, recorded_alone, task_records, tasks_in_file
from asap.envs.resolve import is_ours, notes_on, options_of, parse_tasks, resolve_all, task_set
from asap.policy.build import build_psi, require_memory, require_sensible
from asap.runs.directory import Run, print_note


def compose(
    tasks: list[str],
    options: Values,
    preset: str | None = None,
    file: str | None = None,
    overrides: Values = NO_VALUES,
    given: tuple[Task, ...] | None = None,
    rules_name: str = "rules",
    free_features: bool = False,
) -> tuple[Config, TaskSet]:
    """The task's own settings, then preset, file, options (None: not said) and --set: the later wins.

    Tasks are `given` where one lives in this process and no name would lead to it. Features that are free follow from rules.
    """
    if preset is not None and preset not in PRESETS:
        raise UserError("--preset", "unknown preset", preset, f"choose from {', '.join(PRESETS)}")
    in_call = {**without_none(options), **overrides}

    def layered(own: Values) -> Config:
        config = override(Config(), {**own, **({} if preset is None else PRESETS[preset])})
        config = config if file is None else read_toml(Config, file, base=config)
        return override(config, in_call)

    settled = layered({})  # Tells whose settings they are to be laid on.
    named, weights = parse_tasks(tasks)
    names = named or settled.run.tasks
    if file is not None:
        in_call |= _without_names(file, settled, in_call, names, bool(named))
        settled = layered({})
    if settled.offline.data is not None:
        config, task = _from_data(layered, settled, names, given[0] if given else None)
        found, names, weights = (task,), (task.name,), (1.0,)
    else:
        found = resolve_all(names, settled.env) if given is None else given
        own = {**found[0].settings, **found[0].play_settings} if found else {}
        config = layered(own)
        if preset is None and len(found) == 1:
            more = {**own, **by_budget(config, found[0])}
            own, config = (more, layered(more)) if keeps_learner(layered(more)) else (own, config)
        if config.searches:  # What a search improves is deterministic play.
            config = layered({**own, "run.deterministic": True})
        if (learner := config.learn.learner) in OFFLINE_LEARNERS:
            raise UserError("learn.learner", "learns from logged data", learner, "give them by --offline FILE")
        if not named or (config.run.weights and not any(split_weight(text)[1] for text in tasks)):
            weights = config.run.weights
    if config.policy.rules and found:
        from asap.policy.rules.given import Asked, settings_of_rules

        asked = Asked(*(in_call.get(f"policy.{name}") for name in ("hyperplanes", "skills", "basis")))
        config = override(config, settings_of_rules(config.policy, found, rules_name, asked, free_features))
    config, checked = _for_tasks(config, names, weights, found)
    require_sensible(config.policy, checked.tasks[0])
    _require_stages(config)
    if checked.names_say_all:
        _refuse_env_settings(config, checked)
    return config, checked


def composed_for(
    config: Config,
    names: list[str],
    options: Values,
    preset: str | None,
    overrides: Values,
    tasks: tuple[Task, ...],
    rules: str,
) -> Config:
    """What `compose` gives for the budget of a config, which was asked for without it."""
    budget = {"run.steps": config.run.steps, "run.episodes": config.run.episodes}
    return compose(names, {**options, **budget}, preset, None, overrides, tasks, rules)[0]


def config_for(tasks: TaskSet, settings: Values) -> Config:
    """Of tasks that are at hand, and may have no name that `compose` knows: their own settings, and then these."""
    first = tasks.tasks[0]
    of_tasks = {"run.tasks": tasks.names, "run.weights": tasks.weights}
    config = complete(override(Config(), {**first.settings, **first.play_settings, **of_tasks, **settings}))
    require_memory(config, tasks.tasks)
    return config


def without_none(options: Values) -> dict[str, Any]:
    """Those that the user has given."""
    return {key: value for key, value in options.items() if value is not None}


def _refuse_env_settings(config: Config, tasks: TaskSet) -> None:
    """They would change nothing: our tasks are as they are."""
    general = values_of(Config())
    for key, value in values_of(config).items():
        if key.startswith("env.") and value != general[key]:
            what = f"is for Gymnasium environments, and {tasks.names[0]} is a task of our own"
            raise UserError(key, what, shown(value), "leave it out")


def _without_names(file: str, settled: Config, in_call: Values, names: tuple[str, ...], are_named: bool) -> Values:
    """A settings file may say how to learn; what it names is imported, called or opened only if this call says so too.

    What is to be said in place of its options, of which only harmless ones are used.
    """
    if not are_named and not in_call.get("run.tasks"):
        for name in names:
            refuse_import("run.tasks", "is not imported: only a file names it", name, "--config FILE")
    refuse_unsaid(settled, file, in_call)
    options = options_of(settled.env)
    used = harmless(options) if names and is_registered(names[0]) else {}
    if in_call.get("env.options") is not None or used == options:
        return {}
    unused = f"env.options: only {file} names them, and they are not used: {shown(options)}"
    print_note(f"{unused}; say them by --env-options")
    return {"env.options": json.dumps(used)}


def refuse_import(field: str, what: str, name: str, option: str) -> None:
    """A module that only a file names is not imported."""
    if not _is_known(name):
        cure = f"if you trust it, say so: asap train {ascii(name)[1:-1][:80]} {option}"
        raise UserError(field, what, ascii(name)[:80], cure)


def _for_tasks(
    config: Config, names: tuple[str, ...], weights: tuple[float, ...], tasks: tuple[Task, ...]
) -> tuple[Config, TaskSet]:
    if not names:
        cure = f"name one of {', '.join(catalog.NAMES)}; an id of Gymnasium; or your own by module:function"
        raise UserError("task", "which one?", "nothing", f"{cure} (see `asap train --help`)")
    if weights and len(weights) != len(names):
        what = f"need one for each of the {len(names)} tasks"
        raise UserError("run.weights", what, list(weights), "leave them out for equal weights")
    config = override(config, {"run.tasks": names, "run.weights": weights})
    if config.run.steps is None and config.run.episodes is None:
        config = override(config, tasks[0].budget)
    config = in_sequence(complete(config), tasks)
    return config, checked_tasks(config, tasks)


def in_sequence(config: Config, tasks: tuple[Task, ...]) -> Config:
    """Of tasks that are learned one after another, with features that say what they mean on each task alone."""
    own, policy = config.sequence, config.policy
    if not own.is_on:
        for name, value in vars(own).items():
            if value != getattr(SequenceConfig(), name):
                what = "is for tasks that are learned one after another"
                raise UserError(f"sequence.{name}", what, shown(value), "add --sequence")
        return config
    cure, count = "leave out --sequence", len(tasks)
    if count < 2:
        raise UserError("--sequence", "needs at least two tasks", config.run.tasks[0], "name them in their order")
    if config.offline.data is not None:
        raise UserError("--sequence", "is for tasks that are played, not for logged data", config.offline.data, cure)
    if len(set(config.run.weights)) > 1:
        raise UserError("run.weights", "tasks one after another have no weights", list(config.run.weights), cure)
    if len(own.thresholds) not in (0, 1, count):
        what = f"must be one return for all tasks, or {count}"
        raise UserError("sequence.thresholds", what, list(own.thresholds), "give one number")
    if own.freeze_after is not None and policy.keep is not None:
        raise UserError("sequence.freeze_after", "the skills or planes are kept already", policy.keep, "leave out one")
    if own.planes == PER_TASK and not policy.hyperplanes:
        raise UserError("policy.hyperplanes", "planes for each task need at least one", 0, "use -k 1")
    if policy.task_features == "auto":
        sees_task = own.planes != PER_TASK and bool(tasks[0].descriptor)
        config = with_values(config, {"policy.task_features": "interactions" if sees_task else "none"})
    return config


def _from_data(layered: Any, settled: Config, names: tuple[str, ...], task: Task | None) -> tuple[Config, Task]:
    """The settings of a run that learns from logged data, which tell the task, and decide what is left open."""
    from asap.experience.logged import record_of_data, refuse_contradictions, task_of_data
    from asap.learn.from_log import settle

    refuse_contradictions(settled, names)
    data = settled.offline.data
    name = task_of_data(data, names[0] if names else None)
    if task is None and not names and (record := record_of_data(data)) is not None and not _is_known(name):
        task = recorded_alone(data, name, record, settled.env)
        print_note(
            f"only the file names {ascii(name)[1:-1][:80]}, so nothing is played; name it in place of TASK to play it"
        )
    if task is None and not names:
        refuse_import("offline.data", "its task is not imported: only the file names it", name, "--offline FILE")
    task = resolve_all([name], settled.env)[0] if task is None else task
    config, note = settle(layered({**task.settings, **task.data_settings}), task)
    if note is not None:
        print_note(note)
    return config, task


def _is_known(name: str) -> bool:
    """Whether it can be made without importing what only a file names."""
    return is_ours(name) or is_registered(name)


class FromFile(NamedTuple):
    """What a run or a saved model was made with."""

    config: Config
    tasks: TaskSet
    is_own: bool  # The user made it: all that it names may be imported, called and opened.


def read_run(run: Run, said: SaidEnv = SaidEnv()) -> FromFile:
    """What a run was made with; an environment that is named in this call takes the place of the recorded one."""
    config = complete(read_toml(Config, run.path / "config.toml"))
    config, tasks, is_own = tasks_in_file(run.path, config, recorded_in(run), said, print_note)
    return FromFile(config, checked_tasks(config, tasks), is_own)


def recorded_in(run: Run) -> dict[str, Any]:
    text = run.tasks_text()
    return {} if text is None else parsed(text.encode()) or {}


def tasks_text(config: Config, tasks: TaskSet) -> str:
    """What a run directory keeps of its tasks."""
    return json.dumps(task_records(config, tasks), indent=1) + "\n"


def without_source(config: Config) -> Config:
    """For a run that has begun: it needs the one that it started from no more."""
    return with_values(config, {"run.source": None})


def refuse_unsaid(config: Config, path: str | os.PathLike, in_call: Values = NO_VALUES) -> None:
    """Data and runs that only a stranger's file names, and not this call, are not opened."""
    for field, value, cure in (
        ("offline.data", config.offline.data, "if you trust it, say so: --offline FILE"),
        ("run.source", config.run.source, "if you trust it, start a new run: asap transfer RUN TASK"),
    ):
        if value is not None and in_call.get(field) is None:
            what = f"is not opened: only {ascii(os.fspath(path))} names it, and nothing shows that you made that file"
            raise UserError(field, what, ascii(value)[:120], cure)


def saved_settings(text: str, recorded: dict[str, Any], said: SaidEnv, path: str | os.PathLike) -> FromFile:
    """Those in the file of a saved model, with what it tells about its tasks.

    The file says all: a setting that is not there was none, whatever the task's own would be.
    """
    config = from_toml(Config, text, "config")
    config, tasks, is_own = tasks_in_file(path, config, recorded, said, print_note)
    return FromFile(*_for_tasks(config, config.run.tasks, config.run.weights, tasks), is_own)


FEATURES = {name: {"policy.basis": name} for name in ("linear", "poly2", "fourier", "network")}
FEATURES["poly2"] = {"policy.basis": "polynomial", "policy.degree": 2}


def feature_settings(features: str | None) -> dict[str, object]:
    """The short names of feature maps, as settings."""
    if features is None:
        return {}
    if features not in FEATURES:
        raise UserError("features", "unknown feature map", features, f"choose from {', '.join(FEATURES)}")
    return FEATURES[features]


def checked_tasks(config: Config, tasks: tuple[Task, ...]) -> TaskSet:
    """The tasks of a config, which must fit them; before a run directory is made."""
    found, first, policy = task_set(config, tasks), tasks[0], config.policy
    other, fits, needed = (
        ("constant", "gaussian", "Discrete") if first.spec.continuous else ("gaussian", "constant", "Box")
    )
    if policy.skills == other:
        what, cure = f"skills={other} needs {needed} actions", f"use --skills {fits}, linear or network"
        raise UserError("policy.skills", what, first.actions, cure)
    if "network" in (policy.basis, policy.skills):
        _require_networks(config)
    if policy.task_features not in ("auto", "none") and not first.descriptor:
        what = "there is one task, or nothing by which tasks differ"
        raise UserError("policy.task_features", what, policy.task_features, "leave it out")
    build_psi(policy, tasks)
    require_memory(config, tasks)
    for note in notes_on(tasks):
        print_note(note)
    return found


def _require_stages(config: Config) -> None:
    """A finish and a pick that would do nothing are refused."""
    run, learner = config.run, config.learn.learner
    if run.finish and learner == SEARCH:
        raise UserError("run.finish", "ars is the finish already", run.finish, "leave it out, or use another learner")
    if run.race and learner == SEARCH:
        raise UserError("run.race", "a learner by gradients races with ars", list(run.race), "use another learner")
    if run.race and run.heat * (len(run.race) + len(set(run.race))) > 0.9 * (1 - run.finish - run.pick):
        what = f"{len(run.race)} runners leave nothing to learn with"
        raise UserError("run.race", what, list(run.race), "use fewer, or a smaller run.heat")
    if run.pick and not config.searches and config.learn.averaging is None:
        what = "there is one policy to pick from"
        raise UserError("run.pick", what, run.pick, "leave it out, or set run.finish or learn.averaging")


def _require_networks(config: Config) -> None:
    """Offline learners and the natural gradient refuse them, and so does reinforce where it sums scores as it plays."""
    learn = config.learn
    if learn.learner not in ("ppo", "actor-critic", "reinforce", SEARCH):
        cure = "use ppo, actor-critic, reinforce or ars"
        raise UserError("learn.learner", "does not learn networks", learn.learner, cure)
    if learn.learner == "reinforce" and learn.baseline != "running":
        what = "reinforce learns networks with the baseline running alone"
        raise UserError("learn.baseline", what, learn.baseline, "use running, ppo or actor-critic")


def with_budget(
    config: Config, episodes: int | None, steps: int | None, spent: tuple[int, int] | None = None
) -> Config:
    """A budget that is said takes the place of those that were not; in addition to what was `spent`, if anything was."""
    if spent is not None:
        if episodes is None and steps is None:
            episodes, steps = config.run.episodes, config.run.steps
        episodes, steps = (None if more is None else more + done for more, done in zip((episodes, steps), spent))
    if episodes is None and steps is None:
        return config
    return override(config, {"run.episodes": episodes, "run.steps": steps})


def same_but_for_budget(first: Config, second: Config) -> bool:
    return with_budget(first, 1, 1) == with_budget(second, 1, 1)
