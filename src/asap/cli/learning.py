"""`asap train`, and what the commands that learn share."""

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from asap.base.errors import Interrupted, UserError, to_stderr
from asap.cli.app import (
    Debug,
    Env,
    EnvOptions,
    Features,
    Json,
    Skills,
    app,
    in_words,
    number,
    other_in_words,
    references_in_words,
    require_named,
    tell,
)

if TYPE_CHECKING:
    from asap.base.spec import TaskSet
    from asap.config.schema import Config
    from asap.model.result import Result
    from asap.runs.directory import Run
    from asap.runs.signals import StopRequest


_TASKS = (
    "A task of `asap tasks`, or an environment: a Gymnasium id, or an importable module:function; several for a joint run "
    "(NAME:WEIGHT). Numbers may be set: 'CartPole-v1?length=0.3'."
)
_VARY = (
    "A number of the environment. NAME=A,B,C trains on a task of each value, several lists on their product; NAME=LOW..HIGH "
    "draws a value for each episode."
)
_OFFLINE = "Learn from logged data: of `asap collect`, or minari:NAME; they tell the task, or it is TASK or --env."
_TENSORBOARD = "Write curves for TensorBoard, with the names of stable-baselines3."
_RULES = (
    "Start from these rules and correct them; -k adds planes to theirs. See docs/rules.md and `asap check --rules`."
)
_SEQUENCE = "Learn the tasks one after another, in the order in which they are named."
_PLANES = (
    "With --sequence: shared (one policy, the default), or per-task: each task keeps its planes, the skills are shared."
)
_SCRATCH = "With --sequence: also learn each task from scratch, to measure forward transfer; also with --resume."
FREEZE = "Keep the skills or the partition as they are."
_SET = "Any setting, e.g. learn.epochs=4; see `asap settings`."
WORKERS = (
    "Who plays a Gymnasium environment: 0 (this process), a number of processes, ray or ray:N. The result is the same."
)
_DETERMINISM = "Environment: check that a seed repeats its episode, at the start and during the run."
_RESUME = "Resume a run that was stopped, or train it longer by a larger --steps or --episodes."
_FROM = "Go on from a run, a saved model or a file of rules, with a new budget or other settings; TASK may be left out."


@app.command()
def train(
    tasks: Annotated[list[str] | None, typer.Argument(metavar="TASK...", help=_TASKS)] = None,
    vary: Annotated[list[str] | None, typer.Option("--vary", metavar="NAME=VALUES", help=_VARY)] = None,
    seed: Annotated[int | None, typer.Option(help="First seed.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds trained side by side.")] = None,
    episodes: Annotated[
        int | None,
        typer.Option(
            help="Budget of each seed, in completed episodes; with --resume the new total; with --sequence for each task."
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(
            help="Budget of each seed, in steps of the environment; with --resume the new total; with --sequence for each task."
        ),
    ] = None,
    sequence: Annotated[bool, typer.Option("--sequence", help=_SEQUENCE)] = False,
    planes: Annotated[str | None, typer.Option(metavar="KIND", help=_PLANES)] = None,
    scratch: Annotated[bool, typer.Option("--scratch", help=_SCRATCH)] = False,
    hyperplanes: Annotated[int | None, typer.Option("--hyperplanes", "-k", help="K; there are 2^K skills.")] = None,
    skills: Skills = None,
    features: Features = None,
    rules: Annotated[str | None, typer.Option(metavar="FILE", help=_RULES)] = None,
    freeze: Annotated[str | None, typer.Option(metavar="PART", help=FREEZE)] = None,
    learner: Annotated[
        str | None,
        typer.Option(help="reinforce, actor-critic, natural, ppo or ars; from data: importance or likelihood."),
    ] = None,
    gradient: Annotated[str | None, typer.Option(help="sampled or marginal.")] = None,
    offline: Annotated[str | None, typer.Option(metavar="FILE", help=_OFFLINE)] = None,
    drop_bad_rows: Annotated[
        bool, typer.Option("--drop-bad-rows", help="Leave out logged episodes with bad values.")
    ] = False,
    tensorboard: Annotated[str | None, typer.Option(metavar="DIR", help=_TENSORBOARD)] = None,
    wandb: Annotated[str | None, typer.Option(metavar="PROJECT", help="Log to Weights & Biases.")] = None,
    preset: Annotated[str | None, typer.Option(help="A named setting: paper, algorithm-1 or steady.")] = None,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="TOML file with settings.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help=_SET)] = None,
    workers: Annotated[str, typer.Option(help=WORKERS)] = "0",
    max_steps: Annotated[
        int | None, typer.Option(help="Environment: cut episodes after so many steps; default: its own limit, or 1000.")
    ] = None,
    step_timeout: Annotated[
        float | None, typer.Option(help="Environment: seconds without a step after which its worker is restarted.")
    ] = None,
    reward_scale: Annotated[float | None, typer.Option(help="Environment: factor on the rewards.")] = None,
    strict_obs: Annotated[
        bool, typer.Option("--strict-obs", help="Environment: refuse observations outside of their space.")
    ] = False,
    check_determinism: Annotated[bool, typer.Option("--check-determinism", help=_DETERMINISM)] = False,
    on_no_workers: Annotated[str | None, typer.Option(help="When no worker is left alive: wait or fail.")] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Run directory; default: runs/TASK-NNN.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help=_RESUME)] = None,
    from_: Annotated[str | None, typer.Option("--from", metavar="RUN|FILE", help=_FROM)] = None,
    env: Env = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Train on one task, on several together, or on any Gymnasium environment.

    The run can be stopped at any time (Ctrl-C, SIGTERM, even SIGKILL) and resumed: the result is bit-for-bit identical.
    """
    from asap.compose import compose, feature_settings
    from asap.config.schema import Config
    from asap.config.toml import parse_settings
    from asap.workers.hire import parse_workers

    parse_workers(workers)
    rules, from_ = _as_rules(rules, from_)
    options = {"run.seed": seed, "run.seeds": seeds, "run.episodes": episodes, "run.steps": steps}
    options |= {"policy.hyperplanes": hyperplanes, "policy.skills": skills, **feature_settings(features)}
    options |= {"policy.rules": None if rules is None else _text_of(rules), "policy.keep": freeze}
    options |= {"learn.learner": learner, "learn.gradient": gradient}
    options |= {"sequence.planes": planes or ("shared" if sequence else None), "sequence.scratch": scratch or None}
    options |= {"offline.data": offline, "offline.drop_bad_rows": drop_bad_rows or None}
    options |= {"env.options": env_options, "env.max_steps": max_steps, "env.step_timeout": step_timeout}
    options |= {"env.reward_scale": reward_scale, "env.strict_obs": strict_obs or None}
    options |= {"env.check_determinism": check_determinism or None, "env.on_no_workers": on_no_workers}
    if resume is not None:
        given = {"TASK": tasks or None, "--vary": vary or None, "--set": set_ or None, "--preset": preset}
        given |= {"--config": config, "--out": out, "--from": from_}
        _refuse_settings({**given, **options})
        run, settings, found = _resumed_run(resume, episodes, steps, offline, env, env_options, scratch)
    else:
        tasks = _named(tasks or [], env, offline)
        values = parse_settings(Config, set_ or [])
        tasks = _varied(tasks or [], vary or [])
        if from_ is None:
            settings, found = compose(tasks, options, preset, config, values, rules_name=rules or "rules")
        else:
            from asap.model.source import from_settings

            settings, found = from_settings(from_, tasks, options, preset, config, values)
        run = create_run(settings, found, out)
    if settings.sequence.is_on:
        from asap.cli.sequences import learn_in_turn

        return learn_in_turn(run, settings, found, workers, tensorboard, wandb, json_)
    result, stop = train_to_end(run, settings, found, workers, tensorboard, wandb)
    report = result.summary(str(run.path))
    tell(json_, report, in_words_of(report))
    leave_if_stopped(run, stop)


def _named(tasks: list[str], env: str | None, offline: str | None) -> list[str]:
    """The tasks, or the environment that logged data are of."""
    if env is None:
        return tasks
    if offline is None:
        raise UserError("--env", "is for --resume and --offline", env, "name the environment in place of TASK")
    if tasks:
        raise UserError("--env", "TASK names it already", env, "leave out one of them")
    return [env]


def _as_rules(rules: str | None, source: str | None) -> tuple[str | None, str | None]:
    """Rules to go on from are rules to start from."""
    if source is None:
        return rules, source
    if rules is not None:
        raise UserError("--from", "there are --rules too", source, "leave out one of them")
    from asap.model.source import is_text

    return (source, None) if is_text(source) else (None, source)


def _varied(tasks: list[str], vary: list[str]) -> list[str]:
    """The tasks with the numbers of `--vary`."""
    if not vary:
        return tasks
    from asap.envs.gymnasium.parameters import varied

    if not tasks:
        raise UserError("--vary", "needs the environment that it varies", " ".join(vary), "name it as TASK")
    return varied(tasks, vary)


def _text_of(path: str) -> str:
    from asap.policy.rules.given import read_file  # Most trainings need none, and start sooner.

    return read_file(path)


def create_run(config: "Config", tasks: "TaskSet", out: str | None, behind: str = "") -> "Run":
    """A fresh run directory, named by its tasks and what stands `behind`; one that exists with the same settings is resumed."""
    from asap.base.spec import short_name
    from asap.compose import tasks_text
    from asap.config.toml import to_toml
    from asap.runs.directory import Run

    source = config.run.source
    if source is not None and not os.path.exists(source):
        raise UserError("run.source", "no such run", source, "give a run or a saved model")
    texts = to_toml(config), tasks_text(config, tasks)
    if out is not None:
        return Run.create_or_continue(require_named(out), *texts)
    stem = f"{short_name(config.run.tasks)}{behind}"
    plain = stem.replace("/", "-").replace(":", "-")  # A colon parts paths, and Windows has none in a name.
    return Run.create(Run.next_free("runs", plain), *texts)


# How options are called that set a setting of another name.
OPTIONS = {"policy.basis": "--features", "policy.degree": "--features"}
# Data and options may have to be said again.
MAY_CHANGE = ("run.episodes", "run.steps", "offline.data", "env.options", "sequence.scratch")


def _refuse_settings(given: Mapping[str, object]) -> None:
    """A resumed run is what it was when it began; what would change it must not be passed over in silence."""
    for key, value in given.items():
        if value is not None and key not in MAY_CHANGE:
            name = OPTIONS.get(key, key if "." not in key else "--" + key.partition(".")[2].replace("_", "-"))
            got = " ".join(value) if isinstance(value, list) else value
            cure = "leave it out, or train without --resume"
            raise UserError("--resume", f"the run keeps its settings, so {name} can't be given", got, cure)


def _resumed_run(
    path: str,
    episodes: int | None,
    steps: int | None,
    data: str | None,
    env: str | None,
    env_options: str | None,
    scratch: bool,
) -> tuple["Run", "Config", "TaskSet"]:
    """A run to resume; a larger budget may be given, and what a stranger's run names must be."""
    from asap.compose import read_run, refuse_unsaid, without_none, without_source
    from asap.config.settings import override
    from asap.envs.recorded import SaidEnv
    from asap.runs.checkpoints import generations
    from asap.runs.directory import Run

    run = Run.open(path)
    config, tasks, is_own = read_run(run, SaidEnv.of(env, env_options))
    if not is_own:
        config = without_source(config) if generations(run.checkpoints) else config
        refuse_unsaid(config, run.path, {"offline.data": data})
    if config.offline.data is None:
        _refuse_settings({"--offline": data})
    changes = {"run.episodes": episodes, "run.steps": steps, "offline.data": data}  # Other data of the same content.
    changes |= {"sequence.scratch": scratch or None}
    if config.sequence.is_on:
        for name in ("episodes", "steps"):
            if changes[f"run.{name}"] not in (None, getattr(config.run, name)):
                what = "a sequence keeps its budget, which is that of each task"
                raise UserError("--resume", what, f"--{name} {changes[f'run.{name}']}", "leave it out")
    elif scratch:
        raise UserError("--scratch", "is for tasks that were learned one after another", path, "leave it out")
    return run, override(config, without_none(changes)), tasks


def train_to_end(
    run: "Run",
    config: "Config",
    tasks: "TaskSet",
    workers: str = "0",
    tensorboard: str | None = None,
    wandb: str | None = None,
) -> tuple["Result", "StopRequest"]:
    """Trains with a progress bar until the run is over or a signal asks to stop."""
    from asap.runs.signals import PATIENCE, StopRequest

    with StopRequest(PATIENCE) as stop:
        from asap.model.training import train_run
        from asap.runs.checkpoints import generations
        from asap.runs.loggers import loggers

        start = {}
        if config.run.source is not None and not generations(run.checkpoints):  # A resumed run needs it no more.
            from asap.model.source import start_from

            start = dict(zip(("given", "source"), start_from(config, tasks)))
        try:
            with loggers(config, tensorboard, wandb, progress_bar=True) as (callbacks, phase):
                return train_run(run, config, tasks, stop, callbacks, workers, phase=phase, **start)[1], stop
        except Interrupted:
            to_stderr(f"note: stopped before the first update; start again with: {_resuming(run)}")
            raise


def leave_if_stopped(run: "Run", stop: "StopRequest") -> None:
    if stop.requested:
        to_stderr(f"note: stopped and saved; resume with: {_resuming(run)}")
        raise SystemExit(stop.exit_code)


def _resuming(run: "Run") -> str:
    return shlex.join(["asap", "train", "--resume", str(run.path)])


def in_words_of(report: dict) -> str:
    returns, reference, rows = report["return"], report["reference"], []
    if returns is not None:
        first, *each = in_words(returns)
        other = other_in_words(report["verdict"], returns["deterministic"])
        rows += [("return", first), *(("", line) for line in each)]
        rows += [] if other is None else [("in training", other)]
    each = (report["per_task"] or {}).items()
    for name, one in each if len(each) > 1 else ():
        rows.append(("", f"{name}: {', '.join(map(number, one['return']))}"))
    if reference is not None:
        rows.append(("references", references_in_words(reference)))
    if report["success"] is not None:
        rows.append(("success", f"{100 * report['success']:.1f} % of episodes"))
    if report["near_optimal_seeds"] is not None:
        median = report["episodes_to_near_optimal"]["median"]
        after = "" if median is None else f", after {median:.0f} episodes (median)"
        of_seeds = f"{report['near_optimal_seeds']} of {report['seeds']} seeds"
        good = f"{of_seeds} (return at least {number(report['threshold'])}){after}"
        rows.append(("solved" if reference is None else "near-optimal", good))
    compiling = f"{report['compile_seconds']:.1f} s of it compiling"
    rows.append(("time", f"{report['wall_seconds']:.1f} s, {compiling}; {report['env_steps']:,} steps"))
    if "offline" in report:
        ess = ", ".join(f"{100 * share:.0f} %" for share in report["offline"]["ess"])
        data = f"{report['offline']['data']}, by {report['learner']}"
        rows.append(("data", f"{data}; effective sample size {ess} of the steps"))
    lines = [f"{name:<18}{text}" for name, text in [*rows, ("run", report["run"])]]
    return "\n".join(lines + [f"note: {note}" for note in report["notes"]])
