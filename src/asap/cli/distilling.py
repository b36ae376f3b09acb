"""`asap distill`: rules that act as another policy does."""

import importlib
import os
import sys
from typing import Annotated, Any

import typer

from asap.base.errors import UserError
from asap.cli.app import Debug, Features, Json, Skills, app, require_writable_place, tell

FUNCTION = "An importable function that returns the teacher: any object with predict."
TEACHER = "pass an importable 'module:function' that returns an object with predict"


@app.command()
def distill(
    teacher: Annotated[str, typer.Argument(metavar="MODULE:FUNCTION", help=FUNCTION)],
    env: Annotated[str, typer.Argument(metavar="ENV", help="A Gymnasium id, or an importable module:function.")],
    hyperplanes: Annotated[int, typer.Option("--hyperplanes", "-k", help="K; there are 2^K skills.")] = 1,
    skills: Skills = None,
    features: Features = None,
    episodes: Annotated[int, typer.Option(help="Episodes of the teacher to learn from.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting; see `asap settings`.")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Save the model, for ASAP.load.")] = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Fit a readable policy to the behaviour of another; print its rules, and how much of the return they keep."""
    if out is not None:
        require_writable_place(out)
    from asap.base.episodes import require_episodes
    from asap.config.schema import Config, RunConfig
    from asap.distill import distillation
    from asap.runs.loggers import ProgressBar

    made, total = find_teacher(teacher), distillation.num_played(require_episodes("--episodes", episodes))
    with ProgressBar(Config(run=RunConfig(episodes=total)), "distilling") as progress:
        how = hyperplanes, skills, features, episodes, seed, set_ or []
        distilled = distillation.distill(made, env, *how, progress.count)
    if out is not None:
        distilled.model.save(out)
    rules, place = distilled.model.rules(), "" if out is None else f"\nmodel       {out}"
    report = {**distilled.as_dict(), "teacher": teacher, "seed": seed, "rules": rules.splitlines(), "out": out}
    tell(json_, report, f"{rules}\n{distilled.report()}{place}")


def find_teacher(name: str) -> Any:
    module, colon, function = name.partition(":")
    if not (module and colon and function.isidentifier()):
        raise UserError("teacher", "is not of the form 'module:function'", name, TEACHER)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        make = getattr(importlib.import_module(module), function)
        return make()
    except Exception as error:
        raise UserError("teacher", f"'{name}' raised {type(error).__name__}: {error}", cure=TEACHER) from error
