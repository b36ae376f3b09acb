"""`asap collect`, which writes what `asap train --offline` learns from."""

import os
from typing import Annotated

import typer

from asap.base.errors import UserError
from asap.cli.app import Debug, EnvOptions, Json, app, number, require_writable_place, tell

_POLICY = (
    "Who plays: random; a run or a saved model; module:function, from an observation to an action; or a controller of the "
    "task's own, such as doors (see `asap tasks TASK`)."
)
_STEPS = "In place of --episodes: as many episodes as it takes to have so many steps."
_EPSILON = "Probability of a uniformly random action instead; of a task's own controller."
IN_FILES = str.maketrans("/:?&", "----")  # Names of environments have what names of files should not.
EPISODES = 10_000


@app.command()
def collect(
    task: Annotated[
        str, typer.Argument(metavar="ENV", help="A task of `asap tasks`, a Gymnasium id, or module:function.")
    ],
    policy: Annotated[str, typer.Option("--policy", "--controller", metavar="NAME", help=_POLICY)],
    episodes: Annotated[int | None, typer.Option(help="Complete episodes; default: 10000.")] = None,
    steps: Annotated[int | None, typer.Option(help=_STEPS)] = None,
    epsilon: Annotated[float, typer.Option(help=_EPSILON)] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the episodes.")] = 0,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Dataset, or minari:NAME; default: ENV-NAME.npz.")
    ] = None,
    env_options: EnvOptions = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Log complete episodes of whoever plays, to learn from with `asap train --offline FILE`."""
    from asap.base.episodes import MOST_EPISODES, require_episodes, require_integer, require_seed

    if steps is not None:
        require_integer("--steps", steps, 1)
        if episodes is not None:
            raise UserError("--steps", "there are --episodes too", steps, "leave out one of them")
    count = require_episodes(
        "--episodes", (EPISODES if steps is None else MOST_EPISODES) if episodes is None else episodes
    )
    require_seed("--seed", seed)
    name = os.path.basename(os.path.normpath(policy)).replace(":", "-") if os.path.exists(policy) else policy
    out = f"{task.translate(IN_FILES)}-{name.replace(':', '')}.npz" if out is None else out
    from asap.base.stats import wilson_interval
    from asap.config.schema import Config, EnvConfig, RunConfig
    from asap.data.minari import writing_to
    from asap.envs.resolve import resolve_all
    from asap.experience import collect as collecting
    from asap.experience.choose import host_form
    from asap.model.behaviour import behaviour_of
    from asap.runs.loggers import ProgressBar

    with writing_to(out) as (path, publish):
        require_writable_place(path)
        (found,) = resolve_all([task], EnvConfig(options=env_options))
        found, behaviour = behaviour_of(policy, found, epsilon)
        planned = Config(run=RunConfig(episodes=count if steps is None else None, steps=steps))
        with ProgressBar(planned, "collecting") as progress:
            collected = collecting.collect(found, behaviour, epsilon, count, seed, path, progress.tell, steps)
        size = os.path.getsize(path)
        publish(host_form(found))
    success, episodes = collected.meta.behaviour_success, collected.meta.episodes
    report = {"task": task, "policy": policy, "controller": policy, "epsilon": epsilon, "seed": seed}
    report |= {"episodes": episodes, "steps": collected.steps, "success": success}
    report["success_ci"] = None if success is None else list(wilson_interval(round(success * episodes), episodes))
    report |= {"return": collected.meta.behaviour_return, "seconds": round(collected.seconds, 3)}
    report["steps_per_second"] = round(collected.steps / collected.seconds)
    report |= {"bytes": size, "out": out}
    tell(json_, report, _collected_in_words(report))


def _collected_in_words(report: dict) -> str:
    success = []
    if report["success"] is not None:
        low, high = (100 * limit for limit in report["success_ci"])
        share = f"{100 * report['success']:.1f} % of {report['episodes']:,} episodes"
        success = [f"success    {share} (95 % interval {low:.1f} to {high:.1f})"]
    lines = [
        *success,
        f"return     {number(report['return'])}, mean of {report['episodes']:,} episodes",
        f"steps      {report['steps']:,}, {report['steps_per_second']:,} per second",
        f"dataset    {report['out']} ({report['bytes']:,} bytes)",
    ]
    return "\n".join(lines)
