"""The settings of a run from all their sources: preset, file, options; checked against the tasks they are for."""

import dataclasses

import numpy as np

from asap.base.errors import UserError
from asap.config.schema import OFFLINE_LEARNERS, PRESETS, Config, RunConfig, complete
from asap.config.settings import override, read_toml, validate
from asap.envs import catalog
from asap.envs.gymnasium.task import HostedTask
from asap.envs.resolve import Task, resolve
from asap.policy.build import build_psi, require_memory
from asap.runs.directory import Run


def parse_tasks(texts: list[str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """NAME or NAME:WEIGHT; of a foreign environment the name may have a colon in it, and there is no weight."""
    names, weights = [], []
    for text in texts:
        name, colon, weight = text.partition(":")
        if name not in catalog.names():
            name, colon = text, ""
        try:
            weights.append(float(weight) if colon else 1.0)
        except ValueError:
            raise UserError("task", "a weight must be a number", text, f"write {name}:0.5") from None
        if not (np.isfinite(weights[-1]) and weights[-1] > 0):
            raise UserError("task", "a weight must be finite and > 0", text, f"write {name}:0.5")
        if name in names:
            raise UserError("task", "is given twice", name, "name each task once")
        names.append(name)
    return tuple(names), tuple(weights)


def settings_of(
    tasks: list[str],
    options: dict[str, object],
    preset: str | None,
    file: str | None,
    overrides: list[str],
    task: HostedTask | None = None,
) -> Config:
    """The task's own, then preset, file, options and --set: the later wins.

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
    names = parse_tasks(tasks)[0] or said.run.tasks
    if said.offline.data is not None:
        from asap.offline.source import settle, task_of_data

        names = names or (task_of_data(said.offline.data),)
        config, tasks = settle(layered(catalog.find(names[0]).settings), names), []
    else:
        first = resolve(names[0], said.env) if names and task is None else task
        config = layered(() if first is None else (*first.settings, *first.play_settings))
        if config.learn.learner in OFFLINE_LEARNERS:
            raise UserError(
                "learn.learner", "learns from logged data", config.learn.learner, "give them by --offline FILE"
            )
    if tasks:
        names, weights = parse_tasks(tasks)
        if config.run.weights and not any(":" in task for task in tasks):
            weights = config.run.weights
        config = dataclasses.replace(config, run=dataclasses.replace(config.run, tasks=names, weights=weights))
    if not config.run.tasks:
        raise UserError("task", "which one?", "nothing", f"choose from {', '.join(catalog.names())}")
    if config.run.weights and len(config.run.weights) != len(config.run.tasks):
        raise UserError(
            "run.weights",
            f"need one for each of the {len(config.run.tasks)} tasks",
            list(config.run.weights),
            "leave them out for equal weights",
        )
    refuse_double_precision(config.run)
    config = validate(config)
    chosen = tasks_of(config) if task is None else (task,)
    if isinstance(chosen[0], HostedTask) and config.run.steps is None and config.run.episodes is None:
        config = dataclasses.replace(config, run=dataclasses.replace(config.run, steps=FOREIGN_STEPS))
    config = complete(config)
    refuse_impossible(config, chosen)
    return config


FOREIGN_STEPS = 300_000  # Budget where the user says none.
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


def tasks_of(config: Config) -> tuple[Task, ...]:
    return tuple(resolve(name, config.env) for name in config.run.tasks)


def refuse_impossible(config: Config, tasks: tuple[Task, ...]) -> None:
    """What only the tasks can tell, before a run directory is made."""
    if any(isinstance(task, HostedTask) for task in tasks):
        refuse_for_foreign(config, tasks)
    else:
        catalog.task_set(tuple(zip(config.run.tasks, config.run.weights, strict=True)))
        if config.policy.skills == "gaussian":
            raise UserError(
                "policy.skills", "gaussian needs continuous actions", tasks[0].name, "use constant or linear"
            )
    if "network" in (config.policy.basis, config.policy.skills) and config.learn.learner not in ("ppo", "actor-critic"):
        raise UserError("learn.learner", "does not learn networks", config.learn.learner, "use ppo or actor-critic")
    build_psi(config.policy, tasks)
    require_memory(config, tasks)


def refuse_for_foreign(config: Config, tasks: tuple[Task, ...]) -> None:
    """What has no meaning, or no implementation, where workers play complete episodes."""
    name, actions = tasks[0].name, tasks[0].action_space
    if len(tasks) > 1:
        raise UserError(
            "task", "a Gymnasium environment is trained alone", " ".join(task.name for task in tasks), "name one"
        )
    if config.learn.learner in ("reinforce", "natural"):
        raise UserError(
            "learn.learner", "is for our own tasks", config.learn.learner, f"for {name} use ppo or actor-critic"
        )
    if tasks[0].spec.continuous and config.policy.skills == "constant":
        raise UserError(
            "policy.skills",
            "skills=constant needs Discrete actions",
            actions,
            "use --skills gaussian, linear or network",
        )
    if not tasks[0].spec.continuous and config.policy.skills == "gaussian":
        raise UserError(
            "policy.skills", "skills=gaussian needs Box actions", actions, "use --skills constant, linear or network"
        )
    if config.run.source is not None:
        raise UserError(
            "run.source",
            "only our own tasks are learned from what another run has learned",
            config.run.source,
            f"use `asap train {name}`",
        )
    if config.policy.basis == "rbf":
        raise UserError(
            "policy.basis", "bumps need bounds that an environment may not have", "rbf", "use poly2, fourier or network"
        )
    if config.run.search_episodes:
        raise UserError(
            "run.search_episodes",
            "the search for symmetries is for our own tasks",
            config.run.search_episodes,
            "leave it out",
        )
    if config.policy.task_features not in ("auto", "none"):
        raise UserError("policy.task_features", "there is one task", config.policy.task_features, "leave it out")


def refuse_double_precision(run: RunConfig) -> None:
    import jax

    if run.precision == "float64" and not jax.config.jax_enable_x64:
        raise UserError(
            "run.precision", "float64 needs JAX's x64 mode", "float64", "set JAX_ENABLE_X64=1, or use float32"
        )


FROZEN = {"skills": "learn.step_size_theta=0.0", "partition": "learn.step_size_beta=0.0"}
SEARCH_EPISODES = (
    2  # Per sign pattern and task: enough to tell a partition that leads to the goal from one that does not.
)
# A policy that nearly fits needs few corrections, and small batches make them soonest (measured on flipped 2R).
TRANSFER_LANES = 2


def transfer_settings(
    source: str, tasks: list[str], options: dict[str, object], freeze: str | None, search: bool, overrides: list[str]
) -> Config:
    """The source's settings, for other tasks."""
    if freeze is not None and freeze not in FROZEN:
        raise UserError("--freeze", "must be skills or partition", freeze, "leave it out to learn both")
    run = Run.open(source)
    if run.latest() is None:
        raise UserError("run", "has learned nothing yet", source, "let `asap train` save a checkpoint first")
    config = complete(validate(read_toml(Config, run.path / "config.toml")))
    names, weights = parse_tasks(tasks)
    search_episodes = SEARCH_EPISODES if search else 0
    told = dataclasses.replace(
        config.run, tasks=names, weights=weights, source=str(run.path), search_episodes=search_episodes
    )
    config = dataclasses.replace(config, run=told, learn=dataclasses.replace(config.learn, lanes=TRANSFER_LANES))
    config = override(config, [f"{key}={value}" for key, value in options.items() if value is not None])
    config = override(config, [*overrides, *([FROZEN[freeze]] if freeze else [])])
    refuse_impossible(config, tasks_of(config))
    return config
