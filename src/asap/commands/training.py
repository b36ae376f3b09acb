"""`asap train`: settings from all their sources, a run directory, progress, and the result in words or JSON."""

import dataclasses
import json
import sys
from pathlib import Path

import numpy as np

from asap.config import PRESETS, Config, RunConfig, complete
from asap.envs import catalog
from asap.errors import UserError
from asap.policy.build import build_psi, require_memory
from asap.runs import Run
from asap.settings import override, read_toml, to_toml, validate
from asap.stopping import StopRequest


def parse_tasks(texts: list[str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """NAME or NAME:WEIGHT."""
    names, weights = [], []
    for text in texts:
        name, colon, weight = text.partition(":")
        catalog.find(name)
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
    tasks: list[str], options: dict[str, object], preset: str | None, file: str | None, overrides: list[str]
) -> Config:
    """Preset, then file, then options, then --set: the later wins."""
    config = Config()
    if preset is not None:
        if preset not in PRESETS:
            raise UserError("--preset", "unknown preset", preset, f"choose from {', '.join(PRESETS)}")
        config = override(config, PRESETS[preset])
    if file is not None:
        config = read_toml(Config, file, base=config)
    config = override(config, [f"{key}={value}" for key, value in options.items() if value is not None])
    config = override(config, overrides)
    if tasks:
        names, weights = parse_tasks(tasks)
        if config.run.weights and not any(":" in task for task in tasks):
            weights = config.run.weights
        config = dataclasses.replace(config, run=dataclasses.replace(config.run, tasks=names, weights=weights))
    if not config.run.tasks:
        raise UserError("task", "which one?", "nothing", f"choose from {', '.join(catalog.names())}")
    if config.run.weights and len(config.run.weights) != len(config.run.tasks):
        raise UserError("run.weights", f"need one for each of the {len(config.run.tasks)} tasks", list(config.run.weights), "leave them out for equal weights")
    refuse_double_precision(config.run)
    config = complete(validate(config))
    refuse_impossible(config)
    return config


def refuse_impossible(config: Config) -> None:
    """What only the tasks can tell, before a run directory is made."""
    named = tuple(catalog.find(name) for name in config.run.tasks)
    catalog.task_set(tuple(zip(config.run.tasks, config.run.weights, strict=True)))
    build_psi(config.policy, named)
    require_memory(config, named)


def refuse_double_precision(run: RunConfig) -> None:
    import jax

    if run.precision == "float64" and not jax.config.jax_enable_x64:
        raise UserError("run.precision", "float64 needs JAX's x64 mode", "float64", "set JAX_ENABLE_X64=1, or use float32")


def new_run(
    tasks: list[str], options: dict[str, object], preset: str | None, file: str | None, overrides: list[str], out: str | None
) -> tuple[Run, Config]:
    """A fresh run directory; one that exists with the same settings is gone on with."""
    config = settings_of(tasks, options, preset, file, overrides)
    text = to_toml(config)
    if out is None:
        return Run.create(Run.next_free("runs", "+".join(config.run.tasks)), text), config
    path = Path(out)
    if (path / "config.toml").exists():
        run = Run.open(path)
        if run.config_text() != text:
            raise UserError("--out", "holds a run with other settings", out, "choose another directory, or --resume it")
        return run, config
    return Run.create(path, text), config


def resumed_run(path: str, episodes: int | None) -> tuple[Run, Config]:
    """A run to go on with; a larger budget may be given."""
    run = Run.open(path)
    config = complete(validate(read_toml(Config, run.path / "config.toml")))
    if episodes is not None:
        config = override(config, [f"run.episodes={episodes}"])
    return run, config


def train_run(run: Run, config: Config, as_json: bool) -> None:
    from asap.commands.progress import Progress

    with StopRequest() as stop:
        try:
            from asap.session import Session, summary

            with Progress(config) as progress:
                result = Session(config, run, progress.show).train(stop)
        except UserError as error:
            run.append({"kind": "error", "message": str(error)})
            raise
    report = summary(result, str(run.path))
    if not as_json:
        print(in_words(report))
    else:
        print(json.dumps(report))
    if stop.requested:
        print(f"note: stopped and saved; go on with: asap train --resume {run.path}", file=sys.stderr)
        sys.stdout.flush()
        raise SystemExit(stop.exit_code)


def in_words(report: dict) -> str:
    reference, returns = report["reference"], report["return"]
    low, high = returns["ci"]
    median = report["episodes_to_near_optimal"]["median"]
    lines = [
        f"return            {returns['iqm']:.1f}  (IQM of {report['seeds']} seeds, 95 % interval {low:.1f} to {high:.1f})",
        f"references        misspecified {reference['misspecified']:.1f}, approximately optimal partition "
        f"{reference['approx_optimal']:.1f}, dynamic programming {reference['dp_optimal']:.1f}",
        f"success           {100 * report['success']:.1f} % of episodes",
        f"near-optimal      {report['near_optimal_seeds']} of {report['seeds']} seeds (return at least {reference['near_optimal']:.1f})"
        + ("" if median is None else f", after {median:.0f} episodes (median)"),
        f"time              {report['wall_seconds']:.1f} s, {report['compile_seconds']:.1f} s of it compiling; "
        f"{report['env_steps']:,} steps",
        f"run               {report['run']}",
    ]
    return "\n".join(lines)
