"""From names and options to one config and its tasks: preset, file and options in layers, checked together, once."""

import dataclasses
import os
from typing import Any

import numpy as np

from asap.base.errors import UserError
from asap.base.spec import Task, TaskSet
from asap.config.schema import OFFLINE_LEARNERS, PRESETS, Config, RunConfig, complete
from asap.config.settings import override, validate
from asap.config.toml import read_toml
from asap.envs import catalog
from asap.envs.resolve import live_task, parse_tasks, recorded_task, resolve, task_set
from asap.policy.build import build_psi, require_memory
from asap.runs.directory import Run


def compose(
    tasks: list[str],
    options: dict[str, object],
    preset: str | None = None,
    file: str | None = None,
    overrides: list[str] | tuple[str, ...] = (),
    task: Task | None = None,
) -> tuple[Config, TaskSet]:
    """The task's own settings, then preset, file, options and --set: the later wins.

    `task` is given where it lives in this process and no name would lead to it.
    """
    if preset is not None and preset not in PRESETS:
        raise UserError("--preset", "unknown preset", preset, f"choose from {', '.join(PRESETS)}")
    told = [f"{key}={value}" for key, value in options.items() if value is not None]

    def layered(own: tuple[str, ...]) -> Config:
        config = override(Config(), own)
        config = override(config, () if preset is None else PRESETS[preset])
        config = config if file is None else read_toml(Config, file, base=config)
        return override(override(config, told), overrides)

    said = layered(())  # Tells whose settings they are to be laid on.
    named, weights = parse_tasks(tasks)
    names = named or said.run.tasks
    if said.offline.data is not None:
        config, names = _from_data(layered, said, names)
        weights = (1.0,)
    else:
        first = resolve(names[0], said.env) if names and task is None else task
        config = layered(() if first is None else (*first.settings, *first.play_settings))
        if config.learn.learner in OFFLINE_LEARNERS:
            raise UserError(
                "learn.learner", "learns from logged data", config.learn.learner, "give them by --offline FILE"
            )
        if not named or (config.run.weights and not any(":" in text for text in tasks)):
            weights = config.run.weights
    return _for_tasks(config, names, weights, task)


def _for_tasks(
    config: Config, names: tuple[str, ...], weights: tuple[float, ...], task: Task | None
) -> tuple[Config, TaskSet]:
    if not names:
        raise UserError("task", "which one?", "nothing", f"choose from {', '.join(catalog.NAMES)}")
    if weights and len(weights) != len(names):
        what = f"need one for each of the {len(names)} tasks"
        raise UserError("run.weights", what, list(weights), "leave them out for equal weights")
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, tasks=names, weights=weights))
    refuse_double_precision(config.run)
    return _checked(validate(config), task)


def _from_data(layered: Any, said: Config, names: tuple[str, ...]) -> tuple[Config, tuple[str, ...]]:
    """The settings of a run that learns from logged data, which tell the task, and decide what is left open."""
    from asap.experience.logged import refuse_contradictions, settle, task_of_data

    refuse_contradictions(said, names)
    name = task_of_data(said.offline.data, names[0] if names else None)
    task = catalog.find(name)
    return settle(layered(task.settings), task), (name,)


def _checked(config: Config, task: Task | None) -> tuple[Config, TaskSet]:
    chosen = tasks_of(config) if task is None else (task,)
    if config.run.steps is None and config.run.episodes is None:
        config = override(config, chosen[0].budget)
    config = complete(config)
    return config, checked_tasks(config, chosen)


def read_run(run: Run) -> tuple[Config, TaskSet]:
    """What a run was made with."""
    config = complete(validate(read_toml(Config, run.path / "config.toml")))
    return config, checked_tasks(config, tasks_of(config))


def tasks_of(config: Config) -> tuple[Task, ...]:
    return tuple(resolve(name, config.env) for name in config.run.tasks)


def given_task(env: Any, settings: list[str]) -> tuple[list[str], Task | None]:
    """What a user's program names or gives: names for `compose`, or a task that lives in this process."""
    if isinstance(env, list | tuple):
        if not all(isinstance(name, str) for name in env):
            choices = f"choose from {', '.join(catalog.NAMES)}"
            raise UserError("task", "must be a name or a list of names", repr(env)[:80], choices)
        return list(env), None
    task = live_task(env, settings)
    return [env if task is None else task.name], task


def saved_settings(text: str, record: dict[str, Any] | None, env: Any) -> tuple[Config, TaskSet]:
    """Those in the file of a saved model; the record is that of a task that no name alone can lead to.

    The file says all: a setting that is not there was none, whatever the task's own would be.
    """
    if record is None and env is not None:
        raise UserError("env", "the model was made for tasks of our own", repr(env)[:80], "leave it out")
    task = None if record is None else recorded_task(record, env)
    config = override(Config(), _overrides(text))
    names = config.run.tasks if task is None else (task.name,)
    return _for_tasks(config, names, config.run.weights, task)


def _overrides(text: str) -> list[str]:
    """The settings in a TOML text, one by one, as `override` takes and checks them."""
    import json
    import tomllib

    try:
        sections = tomllib.loads(text)
        pairs = [(f"{section}.{key}", value) for section, keys in sections.items() for key, value in keys.items()]
    except (ValueError, AttributeError, RecursionError):
        raise UserError("config", "is not TOML in sections", ascii(text[:40])) from None
    return [f"{key}={json.dumps(value, default=str)}" for key, value in pairs]


FEATURES = {
    "linear": {"policy.basis": "linear"},
    "poly2": {"policy.basis": "polynomial", "policy.degree": 2},
    "fourier": {"policy.basis": "fourier"},
    "rbf": {"policy.basis": "rbf"},
    "network": {"policy.basis": "network"},
}


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
    if first.spec.continuous and policy.skills == "constant":
        cure = "use --skills gaussian, linear or network"
        raise UserError("policy.skills", "skills=constant needs Discrete actions", first.actions, cure)
    if not first.spec.continuous and policy.skills == "gaussian":
        cure = "use --skills constant, linear or network"
        raise UserError("policy.skills", "skills=gaussian needs Box actions", first.actions, cure)
    if "network" in (policy.basis, policy.skills) and config.learn.learner not in ("ppo", "actor-critic"):
        raise UserError("learn.learner", "does not learn networks", config.learn.learner, "use ppo or actor-critic")
    if policy.basis == "rbf" and not np.isfinite([first.spec.observation_low, first.spec.observation_high]).all():
        raise UserError("policy.basis", "bumps need bounds of all observations", "rbf", "use poly2, fourier or network")
    if policy.task_features not in ("auto", "none") and not first.descriptor:
        raise UserError("policy.task_features", "there is one task", policy.task_features, "leave it out")
    build_psi(policy, tasks)
    require_memory(config, tasks)
    return found


def refuse_double_precision(run: RunConfig) -> None:
    import jax

    if run.precision == "float64" and not jax.config.jax_enable_x64:
        cure = "set JAX_ENABLE_X64=1, or use float32"
        raise UserError("run.precision", "float64 needs JAX's x64 mode", "float64", cure)


def with_budget(config: Config, episodes: int | None, steps: int | None) -> Config:
    """A budget that is said takes the place of those that were not."""
    if episodes is None and steps is None:
        return config
    budgets = {"run.episodes": episodes, "run.steps": steps}
    return override(config, [f"{name}={'none' if most is None else most}" for name, most in budgets.items()])


def same_but_for_budget(first: Config, second: Config) -> bool:
    first, second = (
        dataclasses.replace(c, run=dataclasses.replace(c.run, episodes=1, steps=1)) for c in (first, second)
    )
    return first == second


FROZEN = {"skills": "learn.step_size_theta=0.0", "partition": "learn.step_size_beta=0.0"}
SEARCH_EPISODES = (
    2  # Per sign pattern and task: enough to tell a partition that leads to the goal from one that does not.
)
# A policy that nearly fits needs few corrections, and small batches make them soonest (measured on flipped 2R).
TRANSFER_LANES = 2


def transfer_settings(
    source: str, tasks: list[str], options: dict[str, object], freeze: str | None, search: bool, overrides: list[str]
) -> tuple[Config, TaskSet]:
    """The source's settings, for other tasks."""
    if freeze is not None and freeze not in FROZEN:
        raise UserError("--freeze", "must be skills or partition", freeze, "leave it out to learn both")
    run = Run.open(source)
    if run.latest() is None:
        raise UserError("run", "has learned nothing yet", source, "let `asap train` save a checkpoint first")
    config = complete(validate(read_toml(Config, run.path / "config.toml")))
    names, weights = parse_tasks(tasks)
    search_episodes = SEARCH_EPISODES if search else 0
    told = {"tasks": names, "weights": weights, "source": os.fspath(run.path), "search_episodes": search_episodes}
    lanes = dataclasses.replace(config.learn, lanes=TRANSFER_LANES)
    config = dataclasses.replace(config, run=dataclasses.replace(config.run, **told), learn=lanes)
    config = override(config, [f"{key}={value}" for key, value in options.items() if value is not None])
    config = override(config, [*overrides, *([FROZEN[freeze]] if freeze else [])])
    return config, checked_tasks(config, tasks_of(config))
