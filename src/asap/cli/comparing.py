"""`asap compare`: ASAP and other systems on one task, for as many steps each."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from asap.base.errors import Interrupted, UserError, to_stderr
from asap.cli.app import Debug, Json, app, make_folder, number, to_stdout

if TYPE_CHECKING:
    from asap.base.spec import TaskSet
    from asap.rivals.comparison import Contest, Results, Scale
    from asap.rivals.protocol import System

_TASKS = "A task of `asap tasks`, or several to learn together; or an environment: a Gymnasium id, or module:function."
_RIVALS = (
    "Whom ASAP is compared with: names with commas between them, or all who can learn the task. See docs/compare.md."
)
_TRACK = (
    "native: each system has the features of its authors. equal: skills are distributions over actions, "
    "and what chooses among them sees [1, x, y], as in the paper."
)
ALWAYS = "asap", "random", "scripted"  # The last two are the ends of the scale.
MOST_STEPS = 2**31 - 1


@app.command()
def compare(
    tasks: Annotated[list[str], typer.Argument(metavar="TASK...", help=_TASKS)],
    rivals: Annotated[str, typer.Option(metavar="NAMES", help=_RIVALS)] = "option-critic,flat-ppo",
    steps: Annotated[int, typer.Option(help="Steps of the environment for each seed of each system.")] = 300_000,
    seeds: Annotated[int, typer.Option(help="Seeds of each system, learned side by side.")] = 10,
    seed: Annotated[int, typer.Option(help="First seed.")] = 0,
    track: Annotated[str, typer.Option(help=_TRACK)] = "native",
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where results and pictures go; default: compared/TASK.")
    ] = None,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Compare ASAP with other systems: as many steps for each, then the same fresh episodes.

    Each finished seed of a system is kept in DIR, so a stopped command continues where it was.
    """
    from asap.base.episodes import require_integer
    from asap.rivals import registry

    registry.require_track(track)
    asked = _asked(rivals)
    require_integer("--steps", steps, 1, MOST_STEPS)
    require_integer("--seeds", seeds, 1, 10_000)
    require_integer("--seed", seed, 0, 2**62)
    from asap.compose import compose

    began, found = time.monotonic(), compose(tasks, {"run.steps": steps, "run.seeds": seeds, "run.seed": seed})[1]
    systems, left_out = _able(asked, found, track, rivals == "all")
    from asap.rivals.comparison import Contest, Scale, as_file_name, summary

    folder = make_folder(Path("compared", as_file_name("+".join(found.names))) if out is None else out)
    contest = Contest(found, tuple(range(seed, seed + seeds)), steps, folder)
    results = _compared(contest, systems)
    scale = Scale.of(found, results)
    rows = [summary(name, own, scale) for name, own in results.items()]
    pictures = _draw(contest, results, scale, track)
    seconds = round(time.monotonic() - began, 1)
    if not json_:
        return to_stdout(_in_words(contest, rows, left_out, track, pictures))
    report = {"task": list(found.names), "track": track, "steps": steps, "seeds": list(contest.seeds)}
    report |= {"episodes": contest.num_episodes, "systems": rows, "left_out": left_out}
    report |= {"scale": None if scale is None else scale._asdict(), "pictures": pictures, "out": str(folder)}
    to_stdout(json.dumps({**report, "seconds": seconds}))


def _asked(rivals: str) -> list[str]:
    """The names that were given."""
    from asap.rivals import registry

    if rivals == "all":
        return list(registry.NAMES)
    names = [name.strip() for name in rivals.split(",") if name.strip()]
    if not names:
        raise UserError("--rivals", "names nobody", repr(rivals), f"choose from all, {', '.join(registry.NAMES)}")
    registry.require_known(names)
    return names


def _able(asked: Sequence[str], tasks: "TaskSet", track: str, all_: bool) -> tuple[list["System"], dict[str, str]]:
    """The systems that can learn the tasks, and why others of `all` can't; one that was named must."""
    from asap.rivals import registry
    from asap.rivals.protocol import require_able

    able, left_out = [], {}
    rivals = [name for name in asked if name not in ALWAYS]
    for name in dict.fromkeys([ALWAYS[0], *rivals, *ALWAYS[1:]]):
        system = registry.find(name, track)
        if name in asked and not all_:
            require_able(system, tasks)
        reason = system.why_not(tasks)
        if reason is None:
            able.append(system)
        elif name in asked:
            left_out[name] = reason
            to_stderr(f"note: {name} is left out: {reason}")
    return able, left_out


def _compared(contest: "Contest", systems: Sequence["System"]) -> "Results":
    from asap.rivals.comparison import compare as run
    from asap.runs.loggers import ProgressBar
    from asap.runs.signals import PATIENCE, StopRequest

    with StopRequest(PATIENCE) as stop:
        try:
            return run(contest, systems, ProgressBar, stop)
        except Interrupted:
            to_stderr(f"note: stopped; the same command continues with what is finished in {contest.folder}")
            raise


def _draw(contest: "Contest", results: "Results", scale: "Scale | None", track: str) -> list[str]:
    """Learning curves by steps, and what came out in the end."""
    from asap.show.figures import compare_curves, strip_plot

    title = f"{' + '.join(contest.tasks.names)}, {track} track"
    groups = {name: [result.curve for result in own] for name, own in results.items()}
    learning = {name: curves for name, curves in groups.items() if all(len(curve.returns) for curve in curves)}
    ends = None if scale is None else (("random play", scale.at_random), (scale.best_is, scale.best))
    figures = {
        "returns": strip_plot(
            {name: [result.final for result in own] for name, own in results.items()},
            f"mean return of {contest.num_episodes:,} fresh episodes",
            f"{title}: after {contest.steps:,} steps",
            means=True,
        )
    }
    if learning:
        figures = {"curves": compare_curves(learning, title=title, xlabel="steps", between=ends), **figures}
    paths = []
    for name, figure in figures.items():
        paths.append(str(contest.folder / f"{name}-{track}.png"))
        figure.savefig(paths[-1], dpi=150)
    return paths


COLUMNS = ("system", "return (95 % interval)", "scaled", "success", "parameters", "steps used", "seconds")


def _in_words(
    contest: "Contest", rows: Sequence[dict[str, Any]], left_out: dict[str, str], track: str, pictures: Sequence[str]
) -> str:
    cells: list[tuple[str, ...]] = [COLUMNS, *map(_row, rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(COLUMNS))]
    first, count = contest.seeds[0], len(contest.seeds)
    seeds = f"{count} seeds from {first}" if count > 1 else f"seed {first}"
    given = f"{contest.steps:,} steps each, then {contest.num_episodes:,} episodes"
    lines = [f"{' + '.join(contest.tasks.names)}, {track} track, {seeds}: {given}"]
    for name, *others in cells:
        lines.append("  ".join([name.ljust(widths[0]), *map(str.rjust, others, widths[1:])]))
    lines.append("return: interquartile mean (IQM) of seeds; scaled: random play is 0, the script or the threshold 1")
    lines += [f"left out: {name}: {reason}" for name, reason in left_out.items()]
    return "\n".join([*lines, *pictures])


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    returns, interval = row["return"], ""
    if returns["ci"] is not None:
        interval = " ({} to {})".format(*map(number, returns["ci"]))
    scaled, success, used = row["scaled"], row["success"], max(row["steps"])
    return (
        row["system"],
        f"{number(returns['iqm'])}{interval}",
        "-" if scaled is None else f"{scaled['iqm']:.2f}",
        "-" if success is None else f"{100 * success['iqm']:.0f} %",
        f"{row['parameters']:,}" if row["parameters"] else "-",
        f"{used:,}" if used else "-",
        f"{row['seconds']:.1f}",
    )
