"""`asap train`: a run directory, progress, and the result in words or JSON."""

import json
import sys
from pathlib import Path

from asap.config import Config, complete
from asap.configure import settings_of
from asap.errors import UserError
from asap.runs import Run
from asap.settings import override, read_toml, to_toml, validate
from asap.stopping import StopRequest


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
