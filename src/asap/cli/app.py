"""The command line. JAX and all that needs it are imported inside the commands, so that --help answers at once."""

import json
import os
import sys
from typing import Annotated

import typer

from asap.base.errors import RunError, UserError

app = typer.Typer(
    help="Learn a handful of skills and the regions of the state space where each applies.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
RunPath = Annotated[str, typer.Argument(metavar="RUN", help="Run directory, as printed by `asap train`.")]
TrainedSeed = Annotated[int | None, typer.Option("--seed", help="Which trained seed to show; default: the first.")]


@app.command()
def train(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TASK...",
            help="A task of `asap tasks`, or several for a joint run (NAME:WEIGHT); or an environment: a Gymnasium id, or an importable module:function.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="First seed.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds trained side by side.")] = None,
    episodes: Annotated[int | None, typer.Option(help="Budget of each seed, in completed episodes.")] = None,
    steps: Annotated[int | None, typer.Option(help="Budget of each seed, in steps of the environment.")] = None,
    hyperplanes: Annotated[int | None, typer.Option("--hyperplanes", "-k", help="K; there are 2^K skills.")] = None,
    skills: Annotated[str | None, typer.Option(help="constant, linear, gaussian or network.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Under the hyperplanes: linear, poly2, fourier, rbf or network.")
    ] = None,
    learner: Annotated[
        str | None,
        typer.Option(help="reinforce, actor-critic, natural or ppo; from data: importance or likelihood."),
    ] = None,
    gradient: Annotated[str | None, typer.Option(help="sampled or marginal.")] = None,
    offline: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Learn from logged data: of `asap collect`, or minari:NAME; they tell the task."
        ),
    ] = None,
    drop_bad_rows: Annotated[
        bool, typer.Option("--drop-bad-rows", help="Leave out logged episodes with bad values.")
    ] = False,
    tensorboard: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="Write curves for TensorBoard, with the names of stable-baselines3."),
    ] = None,
    wandb: Annotated[str | None, typer.Option(metavar="PROJECT", help="Log to Weights & Biases.")] = None,
    preset: Annotated[str | None, typer.Option(help="A named setting: paper.")] = None,
    config: Annotated[str | None, typer.Option(metavar="FILE", help="TOML file with settings.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting, e.g. learn.epochs=4; see `asap settings`."),
    ] = None,
    workers: Annotated[
        str,
        typer.Option(
            help="Who plays a Gymnasium environment: 0 (this process), a number of processes, ray or ray:N. The result is the same."
        ),
    ] = "0",
    max_steps: Annotated[
        int | None,
        typer.Option(help="Environment: cut episodes after so many steps; default: its own limit, or 1000."),
    ] = None,
    step_timeout: Annotated[
        float | None, typer.Option(help="Environment: seconds without a step after which its worker is restarted.")
    ] = None,
    reward_scale: Annotated[float | None, typer.Option(help="Environment: factor on the rewards.")] = None,
    strict_obs: Annotated[
        bool, typer.Option("--strict-obs", help="Environment: refuse observations outside of their space.")
    ] = False,
    check_determinism: Annotated[
        bool,
        typer.Option(
            "--check-determinism", help="Environment: see whether seeds decide its episodes, and whether it changes."
        ),
    ] = False,
    env_retries: Annotated[
        int | None, typer.Option(help="Environment: how often a reset that raises is tried again.")
    ] = None,
    on_no_workers: Annotated[str | None, typer.Option(help="When no worker is left alive: wait or fail.")] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Run directory; default: runs/TASK-NNN.")] = None,
    resume: Annotated[str | None, typer.Option(metavar="RUN", help="Go on with a run that was stopped.")] = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Train on one task, on several together, or on any Gymnasium environment.

    The run can be stopped at any time (Ctrl-C, SIGTERM, even SIGKILL) and resumed: it ends with the same bits.
    """
    from asap.cli.training import create_run, resumed_run, train_and_tell
    from asap.compose import compose, feature_settings

    if resume is not None:
        if tasks or config or set_ or preset or offline:
            raise UserError(
                "--resume", "takes its settings from the run", resume, "leave out the task and the settings"
            )
        run, settings, found = resumed_run(resume, episodes, steps)
    else:
        options = {
            "run.seed": seed,
            "run.seeds": seeds,
            "run.episodes": episodes,
            "run.steps": steps,
            "policy.hyperplanes": hyperplanes,
            "policy.skills": skills,
            **feature_settings(features),
            "learn.learner": learner,
            "learn.gradient": gradient,
            "offline.data": None if offline is None else json.dumps(offline),
            "offline.drop_bad_rows": "true" if drop_bad_rows else None,
            "env.max_steps": max_steps,
            "env.step_timeout": step_timeout,
            "env.reward_scale": reward_scale,
            "env.strict_obs": "true" if strict_obs else None,
            "env.env_retries": env_retries,
            "env.check_determinism": "true" if check_determinism else None,
            "env.on_no_workers": on_no_workers,
        }
        settings, found = compose(tasks or [], options, preset, config, set_ or [])
        run = create_run(settings, out, "+".join(settings.run.tasks).replace("/", "-"))
    train_and_tell(run, settings, found, json_, workers, tensorboard, wandb)


@app.command()
def transfer(
    source: Annotated[str, typer.Argument(metavar="RUN", help="Run directory to start from.")],
    tasks: Annotated[list[str], typer.Argument(metavar="TASK...", help="The task to learn now, or several.")],
    freeze: Annotated[
        str | None, typer.Option(metavar="PART", help="Keep the skills or the partition as they are.")
    ] = None,
    search_symmetries: Annotated[
        bool,
        typer.Option(
            "--search-symmetries", help="First try all sign patterns of the hyperplanes, and start from the best."
        ),
    ] = False,
    seed: Annotated[int | None, typer.Option(help="First seed; default: as in the source.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds; default: one for each of the source's.")] = None,
    episodes: Annotated[int | None, typer.Option(help="Budget of each seed; default: as in the source.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of learn. or run.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Run directory; default: runs/TASK-from-SOURCE-NNN.")
    ] = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Learn a task from what was learned on another: each seed starts from the policy of a seed of RUN.

    The result is a run like any other: resume it with `asap train --resume`.
    """
    from asap.cli.training import transfer_and_tell
    from asap.compose import transfer_settings

    options = {"run.seed": seed, "run.seeds": seeds, "run.episodes": episodes}
    settings, found = transfer_settings(source, tasks, options, freeze, search_symmetries, set_ or [])
    transfer_and_tell(settings, found, out, json_)


@app.command()
def collect(
    task: Annotated[str, typer.Argument(metavar="TASK", help="The task to play.")],
    controller: Annotated[
        str, typer.Option(metavar="NAME", help="Who plays: random, or one of the task's own, such as doors.")
    ],
    episodes: Annotated[int, typer.Option(help="Complete episodes.")] = 10_000,
    epsilon: Annotated[float, typer.Option(help="Probability of a uniformly random action instead.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.")] = 0,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Dataset; default: TASK-NAME.npz.")] = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Log complete episodes of a hand-written controller, to learn from with `asap train --offline FILE`."""
    from asap.cli.collecting import collect_episodes

    collect_episodes(
        task, controller, episodes, epsilon, seed, out or f"{task}-{controller.replace(':', '')}.npz", json_
    )


@app.command("eval")
def evaluate(
    run: RunPath,
    episodes: Annotated[
        int | None, typer.Option(help="Episodes per seed and task; default: 1000, of a Gymnasium environment 100.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Play this one of the run's tasks; default: all.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.")] = 0,
    best: Annotated[bool, typer.Option("--best", help="The best checkpoint instead of the last.")] = False,
    deterministic: Annotated[
        bool | None,
        typer.Option(
            "--deterministic/--stochastic",
            help="Gymnasium environment: by the likeliest skill and action, or as learned; default: as the run was evaluated.",
        ),
    ] = None,
    workers: Annotated[str, typer.Option(help="Who plays a Gymnasium environment; as in `asap train`.")] = "0",
    offline: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Estimate the return from logged data, and hold it against playing."),
    ] = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Play the learned policies: return, success, and use of each skill."""
    from asap.cli.reading import estimate_model, evaluate_model

    if episodes is not None and episodes < 1:
        raise UserError("--episodes", "must be an integer >= 1", episodes, "leave it out for the default")
    if offline is not None:
        estimate_model(run, offline, episodes, seed, best, json_)
    else:
        evaluate_model(run, episodes, task, seed, best, deterministic, workers, json_)


@app.command()
def explain(
    run: RunPath,
    task: Annotated[str | None, typer.Option(help="Which of the run's tasks.")] = None,
    seed: TrainedSeed = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Print the learned rules: hyperplanes as inequalities, skills as actions."""
    from asap.cli.reading import explain_model

    explain_model(run, task, seed, json_)


@app.command()
def plot(
    run: RunPath,
    task: Annotated[str | None, typer.Option(help="Which of the run's tasks.")] = None,
    seed: TrainedSeed = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="Where to write; default: in the run.")] = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Draw the partition with its skills, the learning curves, the use of skills, and in soccer a game."""
    from asap.cli.reading import plot_model

    plot_model(run, task, seed, out, json_)


@app.command()
def reproduce(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A result such as fig2a, or `rooms`, `soccer`, `all`; without it: the list."
        ),
    ] = "",
    seeds: Annotated[
        int | None, typer.Option(help="Seeds of every experiment; default: 20 in the rooms, 10 in soccer.")
    ] = None,
    seed: Annotated[int, typer.Option(help="First seed.")] = 0,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where runs, pictures and pages go.")] = "reproduced",
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Repeat the paper's results and ours beyond it: per claim, what the paper says and what we measure.

    `asap reproduce rooms` (or soccer, or all) also writes one page with everything (rooms.html, rooms.md). A stopped
    command goes on where it was: its training runs are kept in DIR/runs.
    """
    from asap.cli.reproducing import list_experiments, reproduce

    reproduce(name, seeds, seed, out, json_) if name else list_experiments(json_)


@app.command()
def check(
    env: Annotated[str, typer.Argument(metavar="ENV", help="A Gymnasium id, or an importable module:function.")],
    episodes: Annotated[int, typer.Option(help="Episodes of random play.")] = 10,
    seed: Annotated[int, typer.Option(help="What the first episode is reset with.")] = 0,
    replay: Annotated[str | None, typer.Option(metavar="FILE", help="Play a recorded failure again.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Any setting of env.; see `asap settings`."),
    ] = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Look at an environment: its spaces, its numbers and its speed under random play, and whether seeds decide all."""
    from asap.cli.checking import check_env
    from asap.config.schema import Config
    from asap.config.settings import override
    from asap.envs.resolve import limits_of, options_of

    settings = override(Config(), set_ or []).env
    check_env(env, options_of(settings), episodes, seed, replay, json_, limits_of(settings))


@app.command()
def distill(
    teacher: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:FUNCTION", help="An importable function that returns the teacher: any object with predict."
        ),
    ],
    env: Annotated[str, typer.Argument(metavar="ENV", help="A Gymnasium id, or an importable module:function.")],
    hyperplanes: Annotated[int, typer.Option("--hyperplanes", "-k", help="K; there are 2^K skills.")] = 1,
    skills: Annotated[str | None, typer.Option(help="constant, linear, gaussian or network.")] = None,
    features: Annotated[
        str | None, typer.Option(help="Under the hyperplanes: linear, poly2, fourier or network.")
    ] = None,
    episodes: Annotated[int, typer.Option(help="Episodes of the teacher to learn from.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed.")] = 0,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting; see `asap settings`.")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Save the model, for ASAP.load.")] = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Fit a readable policy to the behaviour of another, and tell how much of its return it keeps."""
    from asap.cli.distilling import distill_env

    distill_env(teacher, env, hyperplanes, skills, features, episodes, seed, set_ or [], out, json_)


@app.command("tasks")
def list_tasks(
    name: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Show just this task.")] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the reference returns anew (a minute per task).")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the measurement.")] = 0,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """List the tasks, with the returns that results are read against."""
    from asap.cli.reading import show_tasks

    show_tasks(name, measure, seed, json_)


@app.command("settings")
def list_settings(
    seed: Annotated[int, typer.Option(hidden=True)] = 0, json_: Json = False, debug: Debug = False
) -> None:
    """List every setting for --set and TOML files, with its default."""
    from asap.cli.reading import show_settings

    show_settings(json_)


ADDRESS_SPACE = 2_400_000_000  # Bytes that JAX maps to compile and run small programs; it aborts where it gets fewer.
WITHOUT_JAX = {"settings", "-h", "--help"}


def _require_address_space() -> None:
    """A limit that would abort the process is told of beforehand."""
    try:
        import resource
    except ImportError:  # Not on this system.
        return
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY and limit < ADDRESS_SPACE and not WITHOUT_JAX & set(sys.argv):
        cure = f"allow {ADDRESS_SPACE:,}: ulimit -v {ADDRESS_SPACE // 1024}"
        raise RunError("memory", "the limit on address space is too low", f"{limit:,} bytes", cure)


def main() -> None:
    """Runs a command; whatever goes wrong ends as one line on stderr."""
    debug = "--debug" in sys.argv
    try:
        _require_address_space()
        code = app(standalone_mode=False)
    except BaseException as error:
        code = _fail(error, debug)
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # The reader has gone (`| head`): nothing more to say.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code if isinstance(code, int) else 0)


def _fail(error: BaseException, debug: bool) -> int:
    if isinstance(error, BrokenPipeError) or isinstance(
        error.__context__, BrokenPipeError
    ):  # Typer turns it into an exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, KeyboardInterrupt):
        return 130
    if type(error).__name__ in ("Exit", "NoArgsIsHelpError"):  # Typer's own; its click is private in some releases.
        return getattr(error, "exit_code", 2)
    if debug:
        import traceback

        traceback.print_exception(error)
    line, code = _as_line(error)
    print(f"error: {line}", file=sys.stderr)
    return code


def _as_line(error: BaseException) -> tuple[str, int]:
    if isinstance(error, UserError):
        return str(error), error.exit_code
    usage = getattr(error, "format_message", None)
    if usage is not None:
        return " ".join(f"usage: {usage()}; see `asap --help`".split()), 2
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error) or "Out of memory" in str(error):
        cure = "use fewer lanes, seeds or hyperplanes; the last checkpoint is intact"
        return str(RunError("memory", "there is not enough of it", type(error).__name__, cure)), 1
    what = " ".join(str(error).split()) or "no message"
    return str(RunError("internal", what[:300], type(error).__name__, "run again with --debug and report it")), 1
