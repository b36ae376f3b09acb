"""`asap transfer`: a new run that starts from what another run has learned."""

import dataclasses
import json
import os

from asap.commands.training import create_run, in_words, leave_if_stopped, train_to_end
from asap.config import Config, complete
from asap.configure import parse_tasks, refuse_impossible
from asap.errors import UserError
from asap.runs import Run
from asap.settings import override, read_toml, validate

FROZEN = {"skills": "learn.step_size_theta=0.0", "partition": "learn.step_size_beta=0.0"}
SEARCH_EPISODES = 4  # Per sign pattern and task: enough to tell a partition that leads to the goal from one that does not.


def transfer_settings(
    source: str, tasks: list[str], options: dict[str, object], freeze: str | None, search: bool, overrides: list[str]
) -> Config:
    """The source's settings, for other tasks."""
    if freeze is not None and freeze not in FROZEN:
        raise UserError("--freeze", "must be skills or partition", freeze, "leave it out to learn both")
    run = Run.open(source)
    if run.latest() is None:
        raise UserError("run", "has learned nothing yet", source, "let `asap train` save a checkpoint first")
    config = complete(validate(read_toml(Config, run.path / "config.toml")))
    names, weights = parse_tasks(tasks)
    search_episodes = SEARCH_EPISODES if search else 0
    told = dataclasses.replace(config.run, tasks=names, weights=weights, source=str(run.path), search_episodes=search_episodes)
    config = dataclasses.replace(config, run=told)
    config = override(config, [f"{key}={value}" for key, value in options.items() if value is not None])
    config = override(config, [*overrides, *([FROZEN[freeze]] if freeze else [])])
    refuse_impossible(config)
    return config


def transfer_run(config: Config, out: str | None, as_json: bool) -> None:
    from asap.session import summary

    run = create_run(config, out, stem=f"{'+'.join(config.run.tasks)}-from-{os.path.basename(config.run.source)}")
    result, stop = train_to_end(run, config)
    first = {"episodes": result.curve.episodes[0], "return": result.curve.returns[0], "success": result.curve.success[0]}
    report = {
        **summary(result, str(run.path)),
        "source": config.run.source,
        "start": {name: values.tolist() for name, values in first.items()},
    }
    if as_json:
        print(json.dumps(report))
    else:
        print(f"before learning   return {first['return'].mean():.1f}, success {100 * first['success'].mean():.1f} % (means over seeds)")
        print(in_words(report))
    leave_if_stopped(run, stop)
