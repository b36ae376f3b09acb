"""`asap transfer`: another task, from what was learned on one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asap.cli.app import Debug, EnvOptions, Json, app, number, tell
from asap.cli.learning import FREEZE, WORKERS, create_run, in_words_of, leave_if_stopped, train_to_end

if TYPE_CHECKING:
    from asap.runs.directory import Run

_SYMMETRIES = (
    "First try images of the policy: planes turned, skills or actions swapped, observations or actions with the other sign. "
    "The best one learns on."
)


@app.command()
def transfer(
    source: Annotated[str, typer.Argument(metavar="RUN", help="Run directory or saved model to start from.")],
    tasks: Annotated[list[str], typer.Argument(metavar="TASK...", help="What to learn now: as in `asap train`.")],
    freeze: Annotated[str | None, typer.Option(metavar="PART", help=FREEZE)] = None,
    search_symmetries: Annotated[bool, typer.Option("--search-symmetries", help=_SYMMETRIES)] = False,
    seed: Annotated[int | None, typer.Option(help="First seed; default: as in the source.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Seeds; default: one for each of the source's.")] = None,
    episodes: Annotated[
        int | None, typer.Option(help="Budget of each seed, in completed episodes; default: as in the source.")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(help="Budget of each seed, in steps of the environment; default: as in the source.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any setting of learn. or run.")
    ] = None,
    workers: Annotated[str, typer.Option(help=WORKERS)] = "0",
    env_options: EnvOptions = None,
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Run directory; default: runs/TASK-from-SOURCE-NNN.")
    ] = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Learn a task from what was learned on another: each seed starts from the policy of a seed of RUN.

    The scaling of observations goes along. The observations and actions must be as many. The result is a run like any other: resume it with `asap train --resume`.
    """
    from asap.config.schema import Config
    from asap.config.toml import parse_settings
    from asap.model.source import transfer_settings
    from asap.workers.hire import parse_workers

    parse_workers(workers)
    options = {"run.seed": seed, "run.seeds": seeds, "run.episodes": episodes, "run.steps": steps}
    options |= {"env.options": env_options}
    said = parse_settings(Config, set_ or [])
    settings, found = transfer_settings(source, tasks, options, freeze, search_symmetries, said)
    run = create_run(settings, found, out, behind=f"-from-{Path(source).resolve().stem}")
    result, stop = train_to_end(run, settings, found, workers)
    curve, success = result.curve, float(result.curve.success[0].mean())
    is_known = success == success  # NaN where the environment does not tell, and JSON has none.
    start = {"episodes": curve.episodes[0].tolist(), "return": curve.returns[0].tolist()}
    start["success"] = curve.success[0].tolist() if is_known else None
    report = {**result.summary(str(run.path)), "source": settings.run.source, "start": start}
    report["symmetries"] = _symmetries(run)
    before = f"before learning   return {number(curve.returns[0].mean())}"
    before += f", success {100 * success:.1f} %" if is_known else ""
    tell(json_, report, f"{before}{' (means over seeds)' if settings.run.seeds > 1 else ''}\n{in_words_of(report)}")
    leave_if_stopped(run, stop)


def _symmetries(run: "Run") -> list[dict]:
    """What the search for images has found, of each seed; a run that was begun twice has told it twice."""
    found = {event["seed"]: event for event in run.events() if event.get("kind") == "symmetries"}
    return [{key: value for key, value in event.items() if key != "kind"} for event in found.values()]
