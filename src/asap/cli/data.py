"""Commands on logged data: `asap collect`, which writes what `asap train --offline` learns from."""

import os
from typing import Annotated, Any

import typer

from asap.cli.app import Debug, EnvOptions, Json, app, number, require_writable_place, tell

IN_FILES = str.maketrans("/:", "--")  # Names of environments have what names of files should not.


@app.command()
def collect(
    task: Annotated[
        str, typer.Argument(metavar="TASK", help="A task of `asap tasks`, or an environment with Discrete actions.")
    ],
    controller: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Who plays: random, or one of the task's own, such as doors (see `asap tasks TASK`)."
        ),
    ],
    episodes: Annotated[int, typer.Option(help="Complete episodes.")] = 10_000,
    epsilon: Annotated[float, typer.Option(help="Probability of a uniformly random action instead.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.")] = 0,
    out: Annotated[str | None, typer.Option(metavar="FILE", help="Dataset; default: TASK-NAME.npz.")] = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Log complete episodes of a hand-written controller, to learn from with `asap train --offline FILE`."""
    out = f"{task.translate(IN_FILES)}-{controller.replace(':', '')}.npz" if out is None else out
    from asap.base.episodes import require_episodes, require_seed

    require_episodes("--episodes", episodes)
    require_seed("--seed", seed)
    require_writable_place(out)
    from asap.base.stats import wilson_interval
    from asap.config.schema import Config, EnvConfig, RunConfig
    from asap.envs.controllers import explored, find_controller
    from asap.envs.resolve import resolve
    from asap.experience import collect as collecting
    from asap.runs.loggers import ProgressBar

    named = resolve(task, EnvConfig(options=env_options))
    behaviour = explored(find_controller(named, controller), epsilon)
    with ProgressBar(Config(run=RunConfig(episodes=episodes)), "collecting") as progress:
        collected = collecting.collect(named, behaviour, epsilon, episodes, seed, out, progress.tell)
    success = collected.meta.behaviour_success
    report = {
        "task": task,
        "controller": controller,
        "epsilon": epsilon,
        "seed": seed,
        "episodes": episodes,
        "steps": collected.steps,
        "success": success,
        "success_ci": None if success is None else list(wilson_interval(round(success * episodes), episodes)),
        "return": collected.meta.behaviour_return,
        "seconds": round(collected.seconds, 3),
        "steps_per_second": round(collected.steps / collected.seconds),
        "bytes": os.path.getsize(out),
        "out": out,
    }
    tell(json_, report, _in_words(report))


def _in_words(report: dict[str, Any]) -> str:
    success = []
    if report["success"] is not None:
        low, high = (100 * limit for limit in report["success_ci"])
        told = f"{100 * report['success']:.1f} % of {report['episodes']:,} episodes"
        success = [f"success    {told} (95 % interval {low:.1f} to {high:.1f})"]
    return "\n".join(
        [
            *success,
            f"return     {number(report['return'])}",
            f"steps      {report['steps']:,}, {report['steps_per_second']:,} per second",
            f"dataset    {report['out']} ({report['bytes']:,} bytes)",
        ]
    )
