"""`asap train`: a run directory, progress, and the result in words or JSON."""

import json
import sys
from typing import TYPE_CHECKING

from asap.base.errors import UserError
from asap.config.schema import Config, complete
from asap.config.settings import override, read_toml, to_toml, validate
from asap.runs.directory import Run
from asap.runs.signals import StopRequest

if TYPE_CHECKING:
    from asap.session import Result


def create_run(config: Config, out: str | None, stem: str) -> Run:
    """A fresh run directory; one that exists with the same settings is gone on with."""
    text = to_toml(config)
    return Run.create(Run.next_free("runs", stem), text) if out is None else Run.create_or_continue(out, text)


def resumed_run(path: str, episodes: int | None, steps: int | None) -> tuple[Run, Config]:
    """A run to go on with; a larger budget may be given."""
    run = Run.open(path)
    config = complete(validate(read_toml(Config, run.path / "config.toml")))
    budgets = {"run.episodes": episodes, "run.steps": steps}
    return run, override(config, [f"{name}={budget}" for name, budget in budgets.items() if budget is not None])


def train_run(
    run: Run,
    config: Config,
    as_json: bool,
    workers: str = "0",
    tensorboard: str | None = None,
    wandb: str | None = None,
) -> None:
    from asap.summary import summary

    result, stop = train_to_end(run, config, workers, tensorboard, wandb)
    report = summary(result, str(run.path))
    print(json.dumps(report) if as_json else in_words(report))
    leave_if_stopped(run, stop)


def train_to_end(
    run: Run, config: Config, workers: str = "0", tensorboard: str | None = None, wandb: str | None = None
) -> tuple["Result", StopRequest]:
    """Trains with a progress bar until the run is over or a signal asks to stop; an error is also logged in the run."""
    with StopRequest() as stop:
        try:
            from asap.runs.loggers import loggers
            from asap.session import Session

            with loggers(config, tensorboard, wandb, progress_bar=True) as told:
                return Session(config, run, told, workers).train(stop), stop
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
