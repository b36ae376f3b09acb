"""`asap train` and `asap transfer`: a run directory, progress, and the result in words or JSON."""

import json
import os
import sys
from typing import TYPE_CHECKING

from asap.base.errors import UserError
from asap.base.spec import TaskSet
from asap.config.schema import Config
from asap.config.settings import override, to_toml
from asap.runs.directory import Run
from asap.runs.signals import StopRequest

if TYPE_CHECKING:
    from asap.model.result import Result


def create_run(config: Config, out: str | None, stem: str) -> Run:
    """A fresh run directory; one that exists with the same settings is gone on with."""
    text, source = to_toml(config), config.run.source
    if source is not None and not os.path.exists(source):
        raise UserError("run.source", "no such run", source, "give the directory of a run")
    return Run.create(Run.next_free("runs", stem), text) if out is None else Run.create_or_continue(out, text)


def resumed_run(path: str, episodes: int | None, steps: int | None) -> tuple[Run, Config, TaskSet]:
    """A run to go on with; a larger budget may be given."""
    from asap.compose import read_run

    run = Run.open(path)
    config, tasks = read_run(run)
    budgets = {"run.episodes": episodes, "run.steps": steps}
    more = [f"{name}={budget}" for name, budget in budgets.items() if budget is not None]
    return run, override(config, more), tasks


def train_and_tell(
    run: Run,
    config: Config,
    tasks: TaskSet,
    as_json: bool,
    workers: str = "0",
    tensorboard: str | None = None,
    wandb: str | None = None,
) -> None:
    result, stop = train_to_end(run, config, tasks, workers, tensorboard, wandb)
    report = result.summary(str(run.path))
    print(json.dumps(report) if as_json else in_words(report))
    leave_if_stopped(run, stop)


def transfer_and_tell(config: Config, tasks: TaskSet, out: str | None, as_json: bool) -> None:
    """A new run that starts from what another run has learned."""
    run = create_run(config, out, stem=f"{'+'.join(config.run.tasks)}-from-{os.path.basename(config.run.source)}")
    result, stop = train_to_end(run, config, tasks)
    curve = result.curve
    first = {"episodes": curve.episodes[0], "return": curve.returns[0], "success": curve.success[0]}
    start = {name: values.tolist() for name, values in first.items()}
    report = {**result.summary(str(run.path)), "source": config.run.source, "start": start}
    if as_json:
        print(json.dumps(report))
    else:
        mean, share = first["return"].mean(), 100 * first["success"].mean()
        print(f"before learning   return {mean:.1f}, success {share:.1f} % (means over seeds)")
        print(in_words(report))
    leave_if_stopped(run, stop)


def train_to_end(
    run: Run,
    config: Config,
    tasks: TaskSet,
    workers: str = "0",
    tensorboard: str | None = None,
    wandb: str | None = None,
) -> tuple["Result", StopRequest]:
    """Trains with a progress bar until the run is over or a signal asks to stop; an error is also logged in the run."""
    with StopRequest() as stop:
        try:
            from asap.model.files import source_policies
            from asap.model.training import train_run
            from asap.runs.checkpoints import generations
            from asap.runs.loggers import loggers

            # A run that goes on needs its source no more.
            given = None if generations(run.checkpoints) else source_policies(config)
            with loggers(config, tensorboard, wandb, progress_bar=True) as told:
                return train_run(run, config, tasks, stop, told, workers, given)[1], stop
        except UserError as error:
            run.append({"kind": "error", "message": str(error)})
            raise


def leave_if_stopped(run: Run, stop: StopRequest) -> None:
    if stop.requested:
        print(f"note: stopped and saved; go on with: asap train --resume {run.path}", file=sys.stderr)
        sys.stdout.flush()
        raise SystemExit(stop.exit_code)


def references_in_words(reference: dict) -> str:
    best = "" if reference["dp_optimal"] is None else f", dynamic programming {number(reference['dp_optimal'])}"
    start, good = number(reference["misspecified"]), number(reference["approx_optimal"])
    return f"misspecified start {start}, approximately optimal partition {good}{best}"


def number(value: float) -> str:
    """Returns of the rooms are tens, those of soccer are about one."""
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3f}"


def in_words(report: dict) -> str:
    reference, returns = report["reference"], report["return"]
    low, high = returns["ci"]
    lines = [
        f"return            {number(returns['iqm'])}  (IQM of {report['seeds']} seeds, 95 % interval {number(low)} to {number(high)})",
        *([] if reference is None else [f"references        {references_in_words(reference)}"]),
        *([] if report["success"] is None else [f"success           {100 * report['success']:.1f} % of episodes"]),
        *_good_seeds_in_words(report),
        f"time              {report['wall_seconds']:.1f} s, {report['compile_seconds']:.1f} s of it compiling; "
        f"{report['env_steps']:,} steps",
        *([_data_in_words(report)] if "offline" in report else []),
        f"run               {report['run']}",
    ]
    return "\n".join(lines)


def _good_seeds_in_words(report: dict) -> list[str]:
    if report["threshold"] is None:
        return []
    median = report["episodes_to_near_optimal"]["median"]
    word = "solved      " if report["reference"] is None else "near-optimal"
    after = "" if median is None else f", after {median:.0f} episodes (median)"
    return [
        f"{word}      {report['near_optimal_seeds']} of {report['seeds']} seeds (return at least {number(report['threshold'])}){after}"
    ]


def _data_in_words(report: dict) -> str:
    ess = ", ".join(f"{100 * share:.0f} %" for share in report["offline"]["ess"])
    return f"data              {report['offline']['data']}, by {report['learner']}; effective sample size {ess} of the steps"
