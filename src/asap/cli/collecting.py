"""`asap collect`: a dataset of a controller's episodes."""

import json
import os

from asap.base.errors import UserError
from asap.config.schema import Config, RunConfig
from asap.runs.progress import ProgressBar


def collect_episodes(
    task: str, controller: str, episodes: int, epsilon: float, seed: int, out: str, as_json: bool
) -> None:
    if not 1 <= episodes < 2**31:
        raise UserError("--episodes", "must be an integer from 1 to 2^31 - 1", episodes, "the default is 10,000")
    if not 0 <= seed < 2**63:
        raise UserError("--seed", "must be an integer from 0 to 2^63 - 1", seed, "the default is 0")
    if os.path.isdir(out) or not os.path.isdir(os.path.dirname(os.path.abspath(out))):
        raise UserError(
            "--out", "is a directory, or in none that exists", out, "choose a file in a directory that exists"
        )
    from asap.base.stats import wilson_interval
    from asap.envs import catalog
    from asap.envs.controllers import explored, find_controller
    from asap.experience.collect import collect

    named = catalog.find(task)
    behaviour = explored(find_controller(named, controller), epsilon)
    with ProgressBar(Config(run=RunConfig(episodes=episodes)), "collecting") as progress:
        collected = collect(named, behaviour, epsilon, episodes, seed, out, progress.tell)
    success = collected.meta.behaviour_success
    report = {
        "task": task,
        "controller": controller,
        "epsilon": epsilon,
        "seed": seed,
        "episodes": episodes,
        "steps": collected.steps,
        "success": success,
        "success_ci": list(wilson_interval(round(success * episodes), episodes)),
        "return": collected.meta.behaviour_return,
        "seconds": round(collected.seconds, 3),
        "steps_per_second": round(collected.steps / collected.seconds),
        "bytes": os.path.getsize(out),
        "out": out,
    }
    print(json.dumps(report) if as_json else in_words(report))


def in_words(report: dict) -> str:
    low, high = (100 * limit for limit in report["success_ci"])
    return "\n".join(
        [
            f"success    {100 * report['success']:.1f} % of {report['episodes']:,} episodes (95 % interval {low:.1f} to {high:.1f})",
            f"return     {report['return']:.1f}",
            f"steps      {report['steps']:,}, {report['steps_per_second']:,} per second",
            f"dataset    {report['out']} ({report['bytes']:,} bytes)",
        ]
    )
