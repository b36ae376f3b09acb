"""Commands that list what there is: `asap tasks` and `asap settings`."""

import dataclasses
import math
import shutil
import sys
import textwrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asap.base.errors import UserError
from asap.cli.app import Debug, EnvOptions, Json, app, number, references_in_words, tell

if TYPE_CHECKING:
    from asap.envs.catalog import CompiledTask

NAMES, VALUES, LEAST_HELP = 30, 16, 40  # Columns of keys and of defaults; sentences get so many at least.
MARK = "* not the general default"


@app.command("tasks")
def list_tasks(
    name: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Describe this task.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the reference returns again (a minute per task).")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the measurement.")] = 0,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """List the built-in tasks with their reference returns, or describe one: observations, actions, rewards."""
    from asap.base.episodes import require_seed
    from asap.envs import catalog

    require_seed("--seed", seed)
    rows = []
    for task in [_found(name)] if name else [catalog.find(each) for each in catalog.NAMES]:
        reference = task.reference
        if measure:
            from asap.paper.references import measure as measure_reference

            reference = measure_reference(task.name, seed)
        row = {"task": task.name, "summary": task.summary, "gymnasium_id": task.gymnasium_id}
        row["reference"] = {**dataclasses.asdict(reference), "near_optimal": reference.near_optimal}
        rows.append({**row, **(_description(task) if name else {})})
    words = _description_in_words if name else _task_in_words
    tell(json_, {"tasks": rows}, "\n".join(words(row) for row in rows))


def _found(name: str) -> "CompiledTask":
    """Also by its id in Gymnasium."""
    from asap.envs import catalog
    from asap.envs.gymnasium.registration import IDS
    from asap.envs.resolve import is_ours

    own = {gymnasium_id: own for own, gymnasium_id in IDS.items()}.get(name, name)
    if not is_ours(own) or "?" in own:
        raise UserError("task", "is not a built-in task", repr(name), f"for an environment: asap check {name}")
    return catalog.find(own)


def _description(task: "CompiledTask") -> dict[str, Any]:
    from asap.envs.controllers import controllers_of

    spec = task.spec
    seen = zip(spec.observation_names, spec.observation_low, spec.observation_high, spec.units, strict=True)
    return {
        "observations": [
            {"name": name, "bounds": [low, high], "unit": unit.name, "in_rules": [unit.read(low), unit.read(high)]}
            for name, low, high, unit in seen
        ],
        "descriptor": [
            {"name": name, "value": value, "unit": unit.name, "in_rules": unit.read(value)}
            for name, unit, value in zip(spec.descriptor_names, spec.descriptor_units, task.descriptor)
        ],
        "actions": list(spec.action_names),
        "rewards": dict(task.env.rewards),
        "time_limit": spec.horizon,
        "discount": spec.discount,
        "controllers": list(controllers_of(task)),
    }


def _task_in_words(row: dict) -> str:
    lines = (row["summary"], f"returns: {_references(row)}", f"Gymnasium: {row['gymnasium_id']}")
    return "\n".join(f"{'' if i else row['task']:<20}{line}" for i, line in enumerate(lines))


def _references(row: dict) -> str:
    reference = row["reference"]
    return f"{references_in_words(reference)}; near-optimal from {number(reference['near_optimal'])}"


def _range_in_words(observation: dict) -> str:
    """In the unit of rules, and as it is observed where that differs."""
    (low, high), (least, most) = observation["in_rules"], observation["bounds"]
    words = f"{low:g} to {high:g} {observation['unit']}".rstrip()
    return words if (low, high) == (least, most) else f"{words} (observed as {least:g} to {most:g})"


def _description_in_words(row: dict) -> str:
    width = max(len(one["name"]) for one in row["observations"])
    seen = [f"{one['name']:<{width}}  {_range_in_words(one)}" for one in row["observations"]]
    parts = {
        "observations": seen,
        "descriptor": [
            ", ".join(f"{one['name']} {one['in_rules']:g} {one['unit']}".rstrip() for one in row["descriptor"])
        ],
        "actions": [", ".join(row["actions"])],
        "rewards": [", ".join(f"{what} {reward:g}" for what, reward in row["rewards"].items())],
        "time limit": [f"{row['time_limit']:,} steps"],
        "discount": [f"{row['discount']:g}"],
        "returns": [_references(row)],
        "controllers": [", ".join(row["controllers"]) + " (for `asap collect`)"],
        "Gymnasium": [row["gymnasium_id"]],
    }
    lines = [f"  {name if not i else '':<14}{line}" for name, part in parts.items() for i, line in enumerate(part)]
    return "\n".join([f"{row['task']}: {row['summary']}", *lines])


@app.command("settings")
def list_settings(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TASK...]", help="Show what is used for these tasks, or for this environment."),
    ] = None,
    env_options: EnvOptions = None,
    seed: Annotated[int, typer.Option(hidden=True)] = 0,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """List every setting for --set and TOML files, with its default: in general, or for a task or an environment."""
    from asap.config.schema import Config
    from asap.config.settings import describe

    rows = describe(Config)
    if tasks:
        rows = _for_tasks(rows, tasks, env_options)
    elif env_options is not None:
        raise UserError("--env-options", "need the environment that they are for", env_options, "name it")
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else math.inf  # A pipe gets a line for each.
    lines = [_setting_in_words(row, width) for row in rows]
    lines += [MARK] if any(row.get("differs") for row in rows) else []
    tell(json_, {**({"tasks": tasks} if tasks else {}), "settings": rows}, "\n".join(lines))


def _for_tasks(rows: list[dict], names: list[str], env_options: str | None) -> list[dict]:
    """With the values that a training of these tasks begins with, and whether they are the task's own."""
    from asap.compose import compose
    from asap.config.defaults import complete
    from asap.config.schema import Config
    from asap.config.settings import values_of

    config, found = compose(names, {"env.options": env_options})
    first, general = found.tasks[0], values_of(complete(Config()))
    used = values_of(config)
    decided = {"policy.basis": first.basis, "policy.inputs": first.inputs, "learn.discount": first.spec.discount}
    if found.names_say_all:
        rows = [row for row in rows if not row["key"].startswith("env.")]  # They are for environments.
    else:
        decided["env.max_steps"] = first.spec.horizon
    own = {key for key in used if used[key] != general[key]} - {"run.tasks", "run.weights"}
    shown = {**used, **decided}
    return [{**row, "default": shown[row["key"]], "differs": row["key"] in own} for row in rows]


def _setting_in_words(row: dict, width: float) -> str:
    """On one line, or with its sentence wrapped beside or below."""
    mark = "" if "differs" not in row else "* " if row["differs"] else "  "
    head = f"{mark}{row['key']:<{NAMES}}{row['default']!s:<{VALUES - 1}} "
    sentence = row["help"] + (f" ({row['range']})" if row["range"] else "")
    if len(head) + len(sentence) <= width:
        return head + sentence
    indent, lines = " " * (len(mark) + NAMES + VALUES), []
    if len(head) > len(indent) or width - len(indent) < LEAST_HELP:  # Below.
        indent = " " * (len(mark) + 4)
        lines = [head.rstrip()] if len(head.rstrip()) <= width else [mark + row["key"], f"{indent}{row['default']}"]
        head = indent
    return "\n".join([*lines, *textwrap.wrap(sentence, int(width), initial_indent=head, subsequent_indent=indent)])
