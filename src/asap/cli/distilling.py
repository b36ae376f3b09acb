"""`asap distill`: rules that act as another policy does."""

import importlib
import json
import os
import sys
from typing import Any

from asap.base.errors import UserError

TEACHER = "pass an importable 'module:function' that returns an object with predict"


def distill_env(
    teacher: str,
    env: str,
    hyperplanes: int,
    skills: str | None,
    features: str | None,
    episodes: int,
    seed: int,
    settings: list[str],
    out: str | None,
    as_json: bool,
) -> None:
    """`teacher` names a function, "module:function", that returns the teacher; `out` is a file for the model."""
    if out is not None and (os.path.isdir(out) or not os.path.isdir(os.path.dirname(os.path.abspath(out)))):
        raise UserError(
            "--out", "is a directory, or in none that exists", out, "choose a file in a directory that exists"
        )
    from asap.distill.distill import distill

    distilled = distill(find_teacher(teacher), env, hyperplanes, skills, features, episodes, seed, settings)
    if out is not None:
        distilled.model.save(out)
    if as_json:
        print(json.dumps({**distilled.as_dict(), "teacher": teacher, "seed": seed, "out": out}))
    else:
        print(distilled.report() + ("" if out is None else f"\nmodel       {out}"))


def find_teacher(name: str) -> Any:
    module, colon, function = name.partition(":")
    if not (module and colon and function.isidentifier()):
        raise UserError("--teacher", "is not of the form 'module:function'", name, TEACHER)
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        make = getattr(importlib.import_module(module), function)
        return make()
    except Exception as error:
        raise UserError("--teacher", f"'{name}' raised {type(error).__name__}: {error}", cure=TEACHER) from error
