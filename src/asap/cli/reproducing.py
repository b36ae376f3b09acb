"""`asap reproduce`: experiments run one after the other, their rows printed, their pictures and pages written."""

import dataclasses
import json
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from asap.base.errors import UserError
from asap.cli.app import Debug, Json, app, make_folder, tell, to_stdout

if TYPE_CHECKING:
    from asap.paper.experiments import Experiment
    from asap.paper.laboratory import Laboratory
    from asap.show.pages.report import Chapter


NAME = "A result such as fig2a or table1, or `rooms`, `soccer`, `rivals`, `all`; without it: the list."
QUICK = "With budgets that only show that everything runs (table1, four-rooms, rivals)."


@app.command()
def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help=NAME)] = "",
    seeds: Annotated[
        int | None, typer.Option(help="Seeds of every experiment; default: 20 in the rooms, 10 in soccer.")
    ] = None,
    seed: Annotated[int, typer.Option(help="First seed.")] = 0,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where runs, pictures and pages go.")] = "reproduced",
    quick: Annotated[bool, typer.Option("--quick", help=QUICK)] = False,
    json_: Json = False,
    debug: Debug = False,
) -> None:
    """Repeat the paper's results and ours beyond it: per claim, what the paper says and what we measure.

    `asap reproduce rooms` (or soccer, or all) also writes one page with everything (rooms.html, rooms.md). A stopped
    command goes on where it was: its training runs are kept in DIR/runs.
    """
    if not name:
        return _list_experiments(json_)
    from asap.paper.experiments import GROUPS, find

    experiments = find(name)
    if seeds is not None and seeds < 1:
        raise UserError("--seeds", "must be an integer >= 1", seeds, "the default is 20 in the rooms and 10 in soccer")
    if not 0 <= seed < 2**62:
        raise UserError("--seed", "must be an integer from 0 to 2^62 - 1", seed, "the default is 0")
    from asap.paper.laboratory import Laboratory
    from asap.runs.loggers import ProgressBar
    from asap.runs.signals import PATIENCE, StopRequest

    folder = make_folder(out)
    with StopRequest(PATIENCE) as stop:
        laboratory = Laboratory(folder, 0, seed, stop, ProgressBar, quick=quick)
        own = [dataclasses.replace(laboratory, seeds=seeds or experiment.seeds) for experiment in experiments]
        chapters = [_chapter(*each, json_) for each in zip(experiments, own)]
    if name in GROUPS:
        _write_pages(folder, chapters, name, sorted({each.seeds for each in own}), seed, json_)
    if json_:
        rows = [{"result": chapter.name, **row} for chapter in chapters for row in chapter.rows]
        pictures = [str(folder / path) for chapter in chapters for path, _ in chapter.pictures]
        seconds = round(sum(chapter.seconds for chapter in chapters), 1)
        report = {"name": name, "rows": rows, "pictures": pictures, "seconds": seconds, "out": str(folder)}
        to_stdout(json.dumps(report))


def _list_experiments(as_json: bool) -> None:
    from asap.paper.experiments import ALONE, GROUPS

    rows = [
        {"name": one.name, "title": one.title, "group": group, "seeds": one.seeds}
        for group, members in {**GROUPS, "": ALONE}.items()
        if group != "all"
        for one in members
    ]
    lines = [f"{row['name']:<28}{row['title']}" for row in rows]
    lines += [f"{group:<28}{len(members)} of these, and one page with everything" for group, members in GROUPS.items()]
    tell(as_json, {"results": rows}, "\n".join(lines))


def _chapter(experiment: "Experiment", laboratory: "Laboratory", as_json: bool) -> "Chapter":
    from asap.show.pages.report import Chapter

    began, known = time.monotonic(), set(laboratory.records)
    outcome = experiment.run(laboratory)
    pictures = []
    make_folder(laboratory.out / "pictures")
    for name, picture in outcome.pictures.items():
        path = f"pictures/{name}.{picture.ending}"
        picture.save(laboratory.out / path)
        pictures.append((path, picture.caption))
    if outcome.page:
        _write_page(laboratory.out, experiment, outcome.page, pictures)
    rows = [claim.as_dict() for claim in outcome.claims]
    commands = [f"asap reproduce {experiment.name} --seeds {laboratory.seeds} --seed {laboratory.seed}"]
    seconds = time.monotonic() - began
    commands += [record.command for label, record in laboratory.records.items() if label not in known]
    chapter = Chapter(experiment.name, experiment.title, rows, pictures, commands, max(seconds, outcome.seconds))
    if not as_json:
        to_stdout(_in_words(chapter, laboratory.out))
    return chapter


def _write_page(folder: Path, experiment: "Experiment", text: str, pictures: list[tuple[str, str]]) -> None:
    """A page of its own, with its pictures at the end."""
    from asap.base.files import replace

    drawn = [f"![{caption}]({path})\n\n{caption}" for path, caption in pictures]
    command = f"asap reproduce {experiment.name}"
    head = [f"<!-- Generated by `{command}`; not to be edited by hand. -->", f"# {experiment.title}"]
    replace(folder / f"{experiment.name}.md", "\n\n".join([*head, text, *drawn, ""]).encode(), "page")


def _in_words(chapter: "Chapter", folder: Path) -> str:
    lines = [f"{chapter.name}: {chapter.title} ({chapter.seconds:.0f} s)"]
    for row in chapter.rows:
        ci = "" if row["ci"] is None else f", 95 % interval {row['ci'][0]:.4g} to {row['ci'][1]:.4g}"
        lines.append(f"  {'yes' if row['pass'] else 'NO '}  {row['claim']}")
        lines.append(f"       paper: {row['paper']}")
        lines.append(f"       ours:  {row['ours']}{ci} ({row['seeds']} seeds)")
        if row["note"]:
            lines.append(f"       note:  {row['note']}")
    return "\n".join([*lines, *(f"  {folder / path}" for path, _ in chapter.pictures)])


def _write_pages(
    folder: Path, chapters: list["Chapter"], name: str, seeds: list[int], seed: int, as_json: bool
) -> None:
    import jax

    from asap import __version__
    from asap.base.files import replace
    from asap.show.pages.report import report_html, results_markdown

    header = {
        "command": f"asap reproduce {name}" + (f" --seeds {seeds[0]}" if len(seeds) == 1 else "") + f" --seed {seed}",
        "seeds": " or ".join(f"{seed} to {seed + count - 1}" for count in seeds),
        "asap-rl": __version__,
        "jax": jax.__version__,
        "platform": f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
        "time": f"{sum(chapter.seconds for chapter in chapters) / 60:.1f} minutes",
    }
    markdown, page = folder / f"{name}.md", folder / f"{name}.html"
    text = results_markdown(chapters, header)
    replace(markdown, text.encode(), "page")
    replace(page, report_html(text, lambda path: (folder / path).read_bytes()).encode(), "page")
    if not as_json:
        to_stdout(f"{markdown}\n{page}")
